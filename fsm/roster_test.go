package fsm

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/event"
)

// The roster, and a new founding, survive a restart, an export and a backup.
func TestRoster(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func(dir string) *Machine {
		m, err := Open(Config{Dir: dir, Fatal: func(err error) { t.Error(err) }})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := open(filepath.Join(dir, "a"))
	one := event.ClusterMember{ID: "n1", DirID: "d1", HTTP: "h1", Voter: true}
	for i, c := range []event.Command{
		event.LeaderStart{Term: 1, ClusterID: "c"}, event.RaiseLevel{Level: 2}, event.RaiseLevel{Level: 1},
		event.SetMember{ClusterMember: event.ClusterMember{ID: "n2"}}, event.SetMember{ClusterMember: one}, event.DropMember{ID: "n2"}, event.DropMember{ID: "n3"},
	} {
		m.Apply(&raft.Log{Index: uint64(i + 1), Term: 1, Data: event.AppendEntry(nil, event.Entry{Commands: []event.Command{c}})})
	}
	check := func(m *Machine, what string) {
		if r := m.Roster(); r.Level != 2 || len(r.Members) != 1 || r.Members[0] != one || m.ClusterID() != "c" {
			t.Errorf("%s: %+v of %s", what, r, m.ClusterID())
		}
	}
	check(m, "applied")
	path := filepath.Join(dir, "backup")
	var b bytes.Buffer
	if err := m.Backup(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m = open(filepath.Join(dir, "a"))
	check(m, "reopened")
	m.Apply(&raft.Log{Index: 8, Term: 2, Data: event.AppendEntry(nil, event.Entry{Commands: []event.Command{event.Refound{ClusterID: "new"}}})})
	if r := m.Roster(); r.Level != 2 || len(r.Members) != 0 || m.ClusterID() != "new" {
		t.Errorf("founded again: %+v of %s", r, m.ClusterID())
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}

	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, _, err := RestoreBackup(t.Context(), f, Config{Dir: filepath.Join(dir, "b"), Fatal: func(err error) { t.Error(err) }}); err != nil {
		t.Fatal(err)
	}
	m = open(filepath.Join(dir, "b"))
	defer m.Close()
	check(m, "restored")
	if _, _, err := RestoreBackup(t.Context(), f, Config{Dir: filepath.Join(dir, "b")}); err == nil || errors.Is(err, ErrDamaged) {
		t.Errorf("restored over a state: %v", err)
	}
}
