package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/runlog/runlog/fsm"
	"github.com/runlog/runlog/raftlog"
)

// verifyCmd checks a stopped node's data, or a backup.
type verifyCmd struct {
	Path string `arg:"" help:"A stopped node's data directory, or a backup."`
}

// Run reads all of it. What is damaged is named, and the exit code is 1.
func (c *verifyCmd) Run(ctx context.Context, t *terminal) error {
	i, err := os.Stat(c.Path)
	if err != nil {
		return err
	}
	if i.IsDir() {
		return c.directory(ctx, t)
	}
	return c.file(ctx, t)
}

func (c *verifyCmd) directory(ctx context.Context, t *terminal) error {
	r, err := fsm.VerifyState(ctx, filepath.Join(c.Path, "state"))
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	printReport(t, r)
	l, err := raftlog.VerifyLog(c.Path, r.Index)
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	fmt.Fprintf(t.out, "log    node %s, entries %d to %d, term %d, snapshot at %d: every checksum fits\n", oneLine(l.NodeID), l.First, l.Last, l.Term, l.Snapshot)
	return nil
}

// file restores a backup beside the temporary files, to follow its chains.
func (c *verifyCmd) file(ctx context.Context, t *terminal) error {
	f, err := os.Open(c.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	dir, err := os.MkdirTemp("", "runlog-verify-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	info, r, err := fsm.RestoreBackup(ctx, f, fsm.Config{Dir: dir, Fatal: func(error) {}})
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "backup %s: every checksum fits\n", describe(info))
	printReport(t, r)
	return nil
}

func printReport(t *terminal, r fsm.Report) {
	fmt.Fprintf(t.out, "state  cluster %s, index %d, state hash %s: %d runs, %d events, every checksum and chain fits\n",
		oneLine(r.ClusterID), r.Index, r.StateHash, r.Runs, r.Records)
}
