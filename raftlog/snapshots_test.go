package raftlog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/raft"
)

func testSnapshots(t *testing.T, dir string) *snapshots {
	t.Helper()
	s, err := openSnapshots(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func exporting(s *snapshots, index uint64, state string) {
	f := func(_ context.Context, w io.Writer) (uint64, error) {
		_, err := io.WriteString(w, state)
		return index, err
	}
	s.export.Store(&f)
}

var threeVoters = raft.Configuration{Servers: []raft.Server{{ID: "a", Address: "a:1"}, {ID: "b", Address: "b:1"}, {ID: "c", Address: "c:1"}}}

func writeSnapshot(t *testing.T, s *snapshots, index uint64, local bool, state string) string {
	t.Helper()
	k, err := s.Create(raft.SnapshotVersionMax, index, 3, threeVoters, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if local {
		k.(*sink).markLocal()
	}
	if _, err := io.WriteString(k, state); err != nil {
		t.Fatal(err)
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	return k.ID()
}

func readSnapshot(s *snapshots, id string) (*raft.SnapshotMeta, string, error) {
	meta, rc, err := s.Open(id)
	if err != nil {
		return nil, "", err
	}
	defer rc.Close()
	b, err := io.ReadAll(rc)
	return meta, string(b), err
}

func TestMarkerIsExportedWhenOpened(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := testSnapshots(t, dir)
	id := writeSnapshot(t, s, 10, true, "marker")
	if _, _, err := s.Open(id); !errors.Is(err, errNoExport) {
		t.Errorf("without a state: %v", err)
	}
	exporting(s, 12, "the whole state")
	meta, state, err := readSnapshot(s, id)
	if err != nil || state != "the whole state" || meta.Size != int64(len(state)) || meta.Index != 10 || meta.Term != 3 ||
		!slices.Equal(meta.Configuration.Servers, threeVoters.Servers) || meta.ConfigurationIndex != 1 {
		t.Errorf("%+v %q, %v", meta, state, err)
	}
	exporting(s, 9, "too old")
	if _, _, err := s.Open(id); err == nil {
		t.Error("a state older than the marker was exported")
	}
	if names := listDir(t, dir); len(names) != 1 {
		t.Errorf("exports left %q", names)
	}
}

func TestReceivedSnapshotIsKeptUntilRestored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := testSnapshots(t, dir)
	writeSnapshot(t, s, 5, true, "marker")
	id := writeSnapshot(t, s, 10, false, "received")
	s = testSnapshots(t, dir) // a crash
	newest, err := s.newest()
	if err != nil || newest.ID() != id || newest.Kind != kindReceived {
		t.Fatalf("newest %+v, %v", newest, err)
	}
	metas, err := s.List()
	if err != nil || len(metas) != 1 || metas[0].ID != id {
		t.Fatalf("raft sees %+v, %v", metas, err)
	}
	if _, state, err := readSnapshot(s, id); err != nil || state != "received" {
		t.Fatalf("%q, %v", state, err)
	}
	if err := s.restored(id, 17); err != nil {
		t.Fatal(err)
	}
	s = testSnapshots(t, dir)
	if newest, err := s.newest(); err != nil || newest.Kind != kindMarker || newest.Restored != 17 || newest.Index != 10 {
		t.Errorf("restored: %+v, %v", newest, err)
	}
	if _, err := os.Stat(filepath.Join(dir, id, "state")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data is still there: %v", err)
	}
}

func TestSnapshotCrashes(t *testing.T) {
	t.Parallel()
	for name, crash := range map[string]func(t *testing.T, s *snapshots){
		"while it is written": func(t *testing.T, s *snapshots) {
			k, err := s.Create(raft.SnapshotVersionMax, 20, 3, threeVoters, 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := k.Write(make([]byte, 1<<20)); err != nil {
				t.Fatal(err)
			}
		},
		"before the rename": func(t *testing.T, s *snapshots) {
			id := writeSnapshot(t, s, 20, false, "state")
			if err := os.Rename(filepath.Join(s.dir, id), filepath.Join(s.dir, "tmp-"+id)); err != nil {
				t.Fatal(err)
			}
		},
		"while an old one is removed": func(t *testing.T, s *snapshots) {
			if err := os.MkdirAll(filepath.Join(s.dir, "tmp-reap-x", "y"), 0o750); err != nil {
				t.Fatal(err)
			}
		},
		"while it is exported": func(t *testing.T, s *snapshots) {
			if err := os.WriteFile(filepath.Join(s.dir, "tmp-export-1"), []byte("half"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"cancelled": func(t *testing.T, s *snapshots) {
			k, err := s.Create(raft.SnapshotVersionMax, 20, 3, threeVoters, 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(k.Cancel(), k.Cancel(), k.Close()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := testSnapshots(t, dir)
			id := writeSnapshot(t, s, 10, true, "marker")
			crash(t, s)
			s = testSnapshots(t, dir)
			if names := listDir(t, dir); !slices.Equal(names, []string{id}) {
				t.Errorf("%q, want %s alone", names, id)
			}
			if newest, err := s.newest(); err != nil || newest.Index != 10 {
				t.Errorf("newest %+v, %v", newest, err)
			}
			if next := writeSnapshot(t, s, 10, true, "marker"); next <= id {
				t.Errorf("a later snapshot is %s, not after %s", next, id)
			}
		})
	}
}

func TestCrashBetweenRestoredAndFreed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := testSnapshots(t, dir)
	id := writeSnapshot(t, s, 10, false, "received")
	if err := s.restored(id, 10); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(dir, id, "state")
	if err := os.WriteFile(state, []byte("received"), 0o600); err != nil {
		t.Fatal(err)
	}
	testSnapshots(t, dir)
	if _, err := os.Stat(state); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data was not freed: %v", err)
	}
}

func TestDamagedSnapshotIsNotServed(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"meta", "state"} {
		for _, damage := range []func([]byte) []byte{
			func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
			func(b []byte) []byte { return b[:len(b)-1] },
			func(b []byte) []byte { return nil },
		} {
			dir := t.TempDir()
			s := testSnapshots(t, dir)
			id := writeSnapshot(t, s, 10, false, "a state of some length")
			path := filepath.Join(dir, id, file)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(bytes.Clone(b)), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, state, err := readSnapshot(s, id); err == nil {
				t.Errorf("damaged %s: read %q", file, state)
			}
		}
	}
}

func TestSnapshotRetention(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := testSnapshots(t, dir)
	var ids []string
	for _, index := range []uint64{7, 9, 9, 10, 100} {
		ids = append(ids, writeSnapshot(t, s, index, true, "marker"))
	}
	if names := listDir(t, dir); !slices.Equal(names, ids[3:]) {
		t.Errorf("%q, want the newest two of %q", names, ids)
	}
}

func listDir(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
