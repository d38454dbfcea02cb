package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/runlog/runlog/fsm"
	"github.com/runlog/runlog/raftlog"
)

// restoreCmd makes a node of a new cluster that begins with a backup's state.
type restoreCmd struct {
	File      string   `arg:"" help:"The backup."`
	ID        string   `help:"The new node's id." required:"" placeholder:"n1"`
	Data      string   `help:"Directory of the new node's data, empty or missing." required:"" placeholder:"DIR"`
	Bootstrap []string `help:"All members of the new cluster, the same list on each: n1=RAFT@HTTP,…" required:"" placeholder:"MEMBER,…"`
	LogStore  string   `help:"Raft log store: wal or bolt." enum:"wal,bolt" default:"wal"`
}

// Run checks the backup before it writes anything, and the state after.
func (c *restoreCmd) Run(ctx context.Context, t *terminal) error {
	members, err := parseMembers(c.Bootstrap)
	if err != nil {
		return usageError(err.Error())
	}
	if !slices.ContainsFunc(members, func(m raftlog.Member) bool { return m.ID == c.ID }) {
		return usageError(fmt.Sprintf("node %s is not in --bootstrap", c.ID))
	}
	f, err := os.Open(c.File)
	if err != nil {
		return err
	}
	defer f.Close()
	if entries, err := os.ReadDir(c.Data); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty: a backup is restored into a new cluster only", c.Data)
	}
	info, report, err := fsm.RestoreBackup(ctx, f, fsm.Config{Dir: filepath.Join(c.Data, "state"), Fatal: func(error) {}})
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	id := newClusterID(info.Digest, c.Bootstrap)
	err = raftlog.Seed(raftlog.SeedConfig{Dir: c.Data, NodeID: c.ID, LogStore: c.LogStore, Members: members,
		ClusterID: id, Index: info.Index, Term: info.Term})
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	fmt.Fprintf(t.out, "restored %d runs, %d events: index %d, state hash %s, as in the backup. The new cluster is %s.\n",
		report.Runs, report.Records, report.Index, report.StateHash, id)
	return nil
}

// newClusterID names the cluster that a backup becomes. Its nodes are restored one by one and must agree
// on it without talking, and it must not be taken for the one that the backup is of.
func newClusterID(digest uint64, bootstrap []string) string {
	list := slices.Sorted(slices.Values(bootstrap))
	sum := sha256.Sum256(fmt.Appendf(nil, "runlog restore %016x %s", digest, strings.Join(list, ",")))
	return hex.EncodeToString(sum[:16])
}
