package fsm

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/cespare/xxhash/v2"
)

// A backup: an export in an envelope that tells where it comes from and where it ends.
//
//	magic     8 bytes   "RUNLOGB1"
//	length    uint32    of the header, big endian as all numbers
//	header    JSON      [BackupInfo]
//	export    (export.go)
//	magic     8 bytes   "RUNLOGBE"
//	length    uint64    of everything before this trailer
//	digest    uint64    xxHash64 of everything before it, the trailer's first 16 bytes included
const (
	backupMagic   = "RUNLOGB1"
	backupEnd     = "RUNLOGBE"
	backupFormat  = 1
	trailerBytes  = 24
	maxHeaderSize = 64 << 10
)

// BackupInfo is a backup's header.
type BackupInfo struct {
	Format    int    `json:"format"`
	ClusterID string `json:"clusterId"`
	// Index and Term are of the last log entry that the state includes, LogTime is its time in Unix
	// milliseconds.
	Index   uint64 `json:"index"`
	Term    uint64 `json:"term"`
	LogTime int64  `json:"logTime"`
	// StateHash is what every node has at that index, in hex.
	StateHash string `json:"stateHash"`
	Level     uint64 `json:"level"`
	Runs      uint64 `json:"runs"` // that are or were
	// Digest is the trailer's, which names the backup; it is not part of the header.
	Digest uint64 `json:"-"`
}

// Backup writes everything applied when it was called, or later.
func (m *Machine) Backup(ctx context.Context, w io.Writer) error {
	if err := m.Flush(ctx); err != nil {
		return fmt.Errorf("fsm: backup: %w", err)
	}
	m.mu.RLock()
	st := m.store
	if st == nil {
		m.mu.RUnlock()
		return errClosed
	}
	st.readers.Add(1)
	m.mu.RUnlock()
	defer st.readers.Done()
	b := backupWriter{w: w, digest: xxhash.New()}
	err := st.export(ctx, &b, func(mt *meta) error { return b.header(mt, uint64(m.Roster().Level)) })
	if err == nil {
		err = b.trailer()
	}
	if err != nil {
		return fmt.Errorf("fsm: backup: %w", m.noteDamage(err))
	}
	return nil
}

type backupWriter struct {
	w      io.Writer
	digest *xxhash.Digest
	size   uint64
}

// Write implements io.Writer.
func (b *backupWriter) Write(p []byte) (int, error) {
	b.digest.Write(p)
	b.size += uint64(len(p))
	return b.w.Write(p)
}

func (b *backupWriter) header(mt *meta, level uint64) error {
	h, err := json.Marshal(BackupInfo{
		Format: backupFormat, ClusterID: mt.clusterID, Index: mt.index, Term: mt.term, LogTime: int64(mt.now),
		StateHash: fmt.Sprintf("%016x", mt.stateHash), Level: level, Runs: mt.names,
	})
	if err != nil {
		return err
	}
	_, err = b.Write(append(binary.BigEndian.AppendUint32([]byte(backupMagic), uint32(len(h))), h...))
	return err
}

func (b *backupWriter) trailer() error {
	if _, err := b.Write(binary.BigEndian.AppendUint64([]byte(backupEnd), b.size)); err != nil {
		return err
	}
	_, err := b.w.Write(binary.BigEndian.AppendUint64(nil, b.digest.Sum64()))
	return err
}

// openBackup checks a backup's envelope and every byte of it, and returns its export.
func openBackup(f *os.File) (info BackupInfo, export io.Reader, err error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return info, nil, err
	}
	bad := func(why string) (BackupInfo, io.Reader, error) {
		return info, nil, fmt.Errorf("%w: %s", ErrDamaged, why)
	}
	if size < int64(len(backupMagic))+4+trailerBytes {
		return bad("not a backup, or one that was cut off")
	}
	var trailer [trailerBytes]byte
	if _, err := f.ReadAt(trailer[:], size-trailerBytes); err != nil {
		return info, nil, err
	}
	if string(trailer[:8]) != backupEnd || binary.BigEndian.Uint64(trailer[8:]) != uint64(size-trailerBytes) {
		return bad("the backup was cut off, or is none")
	}
	digest := xxhash.New()
	if _, err := io.Copy(digest, io.NewSectionReader(f, 0, size-8)); err != nil {
		return info, nil, err
	}
	if digest.Sum64() != binary.BigEndian.Uint64(trailer[16:]) {
		return bad("the backup's checksum does not match")
	}
	head := make([]byte, len(backupMagic)+4)
	if _, err := f.ReadAt(head, 0); err != nil {
		return info, nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[8:]))
	if string(head[:8]) != backupMagic || n > maxHeaderSize || int64(len(head))+n > size-trailerBytes {
		return bad("not a backup of this version")
	}
	h := make([]byte, n)
	if _, err := f.ReadAt(h, int64(len(head))); err != nil {
		return info, nil, err
	}
	if err := json.Unmarshal(h, &info); err != nil || info.Format != backupFormat {
		return bad("the backup's header is not of this version")
	}
	info.Digest = digest.Sum64()
	begin := int64(len(head)) + n
	return info, io.NewSectionReader(f, begin, size-trailerBytes-begin), nil
}

// CheckBackup reads a backup whole, and fails with [ErrDamaged] unless all its checksums fit.
func CheckBackup(f *os.File) (BackupInfo, error) {
	info, export, err := openBackup(f)
	if err == nil {
		err = VerifyExport(export)
	}
	return info, err
}

// RestoreBackup makes the state of a backup in cfg.Dir, which must not exist yet or be empty. The
// backup is checked before anything is written, and the state after.
func RestoreBackup(ctx context.Context, f *os.File, cfg Config) (BackupInfo, Report, error) {
	info, err := CheckBackup(f)
	if err != nil {
		return info, Report{}, err
	}
	if entries, err := filepath.Glob(filepath.Join(cfg.Dir, "*")); err != nil || len(entries) > 0 {
		return info, Report{}, fmt.Errorf("directory %s is not empty", cfg.Dir)
	}
	_, export, err := openBackup(f)
	if err != nil {
		return info, Report{}, err
	}
	m, err := Open(cfg)
	if err != nil {
		return info, Report{}, err
	}
	err = m.Restore(io.NopCloser(export))
	if cerr := m.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return info, Report{}, err
	}
	report, err := VerifyState(ctx, cfg.Dir)
	if err == nil && (report.Index != info.Index || report.StateHash != info.StateHash) {
		err = fmt.Errorf("%w: restored to index %d with hash %s, the backup says %d with %s", ErrDamaged, report.Index, report.StateHash, info.Index, info.StateHash)
	}
	return info, report, err
}
