package raftlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/hashicorp/raft"
)

// snapshotKind says what a snapshot's state file holds. The values are persisted.
type snapshotKind string

const (
	kindMarker   snapshotKind = "marker"   // nothing: the state itself is the snapshot
	kindReceived snapshotKind = "received" // an export of the state, not yet restored
)

// snapshotMeta is a snapshot's meta file: "runlog-snapshot-1 <crc32c of the JSON>\n", then this as
// JSON.
type snapshotMeta struct {
	Index              uint64       `json:"index"`
	Term               uint64       `json:"term"`
	Seq                uint64       `json:"seq"` // orders snapshots of the same index
	Kind               snapshotKind `json:"kind"`
	Restored           uint64       `json:"restored,omitempty"` // see onDisk
	Size               int64        `json:"size"`
	CRC                uint32       `json:"crc"` // CRC-32C of the state file
	Configuration      []byte       `json:"configuration"`
	ConfigurationIndex uint64       `json:"configurationIndex"`
}

const snapshotHeader = "runlog-snapshot-1 %08x\n"

// ID is the snapshot's directory; ids sort as snapshots do.
func (m *snapshotMeta) ID() string { return fmt.Sprintf("%020d-%020d-%010d", m.Index, m.Term, m.Seq) }

func (m *snapshotMeta) encode() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // plain fields cannot fail
	}
	return append(fmt.Appendf(nil, snapshotHeader, crc32.Checksum(b, castagnoli)), b...)
}

func readSnapshotMeta(path string) (*snapshotMeta, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	head, body, _ := bytes.Cut(b, []byte("\n"))
	if want := fmt.Sprintf(snapshotHeader, crc32.Checksum(body, castagnoli)); string(head)+"\n" != want {
		return nil, fmt.Errorf("%s is damaged or of another version", path)
	}
	m := new(snapshotMeta)
	if err := json.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func (m *snapshotMeta) raftMeta() *raft.SnapshotMeta {
	return &raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax, ID: m.ID(), Index: m.Index, Term: m.Term, Size: m.Size,
		Configuration: raft.DecodeConfiguration(m.Configuration), ConfigurationIndex: m.ConfigurationIndex,
	}
}

// verify reads the state file whole, compares size and checksum, and rewinds it.
func (m *snapshotMeta) verify(f *os.File) error {
	h := crc32.New(castagnoli)
	n, err := io.Copy(h, f)
	if err != nil {
		return err
	}
	if n != m.Size || h.Sum32() != m.CRC {
		return fmt.Errorf("state of %d bytes has checksum %08x; %d bytes with %08x were written", n, h.Sum32(), m.Size, m.CRC)
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}
