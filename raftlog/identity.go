package raftlog

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

// identity says whose a data directory is. It is written once.
type identity struct {
	NodeID string `json:"nodeId"`
	// DirID tells this directory from another one of the same node id: a node whose disk was
	// replaced has forgotten its vote and must not pass for the old one.
	DirID    string `json:"dirId"`
	LogStore string `json:"logStore"`
}

const identityFile = "node.json"

// claimDir makes dir this node's, or checks that it is. A directory of another node, or of the other
// log store, is refused: either would answer elections with a history that is not the node's.
func claimDir(dir, nodeID, logStore string) (identity, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return identity{}, fmt.Errorf("create data directory: %w", err)
	}
	path := filepath.Join(dir, identityFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		id := identity{NodeID: nodeID, DirID: randomID(), LogStore: logStore}
		b, err := json.Marshal(id)
		if err != nil {
			return identity{}, err
		}
		return id, writeFileDurably(path, append(b, '\n'))
	}
	if err != nil {
		return identity{}, fmt.Errorf("read node identity: %w", err)
	}
	var id identity
	if err := json.Unmarshal(b, &id); err != nil {
		return identity{}, fmt.Errorf("read node identity %s: %w", path, err)
	}
	if id.NodeID != nodeID {
		return identity{}, fmt.Errorf("data directory %s belongs to node %s, not to %s", dir, id.NodeID, nodeID)
	}
	if id.LogStore != logStore {
		return identity{}, fmt.Errorf("data directory %s keeps its log in %q, not in %q", dir, id.LogStore, logStore)
	}
	return id, nil
}

// readIdentity reads whose directory it is.
func readIdentity(dir string) (id identity, err error) {
	b, err := os.ReadFile(filepath.Join(dir, identityFile))
	if err == nil {
		err = json.Unmarshal(b, &id)
	}
	if err != nil {
		return id, fmt.Errorf("%s is not a node's data directory: %w", dir, err)
	}
	return id, nil
}

// NewClusterID returns a cluster id that no cluster has.
func NewClusterID() string { return randomID() }

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// randomID returns 128 random bits in hex.
func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// writeFileDurably replaces path by a file holding b: after it returns nil, a crash leaves b there,
// before that either what was there or b.
func writeFileDurably(path string, b []byte) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes renames and creations in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}
