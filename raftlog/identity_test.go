package raftlog

import (
	"os"
	"path/filepath"
	"testing"
)

func TestClaimDir(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	first, err := claimDir(dir, "a", LogStoreWAL)
	if err != nil || first.NodeID != "a" || len(first.DirID) != 32 {
		t.Fatalf("%+v, %v", first, err)
	}
	if again, err := claimDir(dir, "a", LogStoreWAL); err != nil || again != first {
		t.Errorf("claimed again: %+v, %v", again, err)
	}
	if _, err := claimDir(dir, "b", LogStoreWAL); err == nil {
		t.Error("another node's directory was accepted")
	}
	if _, err := claimDir(dir, "a", LogStoreBolt); err == nil {
		t.Error("a directory with another log store was accepted")
	}
	if err := os.WriteFile(filepath.Join(dir, identityFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := claimDir(dir, "a", LogStoreWAL); err == nil {
		t.Error("a damaged identity was accepted")
	}
	other, err := claimDir(filepath.Join(t.TempDir(), "data"), "a", LogStoreWAL)
	if err != nil || other.DirID == first.DirID {
		t.Errorf("two directories have the id %s, %v", other.DirID, err)
	}
}
