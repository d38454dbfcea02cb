package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/runlog/runlog/fsm"
)

// backupCmd copies the cluster's state into a file.
type backupCmd struct {
	connection
	Output string `short:"o" help:"The file to write, or - for standard output." default:"-" placeholder:"FILE"`
}

// Run streams the backup. A file appears under its name only when it is whole and checked.
func (c *backupCmd) Run(ctx context.Context, t *terminal) (err error) {
	cl, err := c.client()
	if err != nil {
		return err
	}
	body, err := cl.Backup(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	if c.Output == "-" {
		_, err = io.Copy(t.out, body)
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(c.Output), filepath.Base(c.Output)+".part-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.RemoveAll(f.Name())) }()
	if _, err := io.Copy(f, body); err != nil {
		return fmt.Errorf("backup: the stream ended early: %w", err)
	}
	info, err := fsm.CheckBackup(f)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(f.Name(), c.Output)
	}
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	fmt.Fprintf(t.err, "%s: %s\n", oneLine(c.Output), describe(info))
	return nil
}

func describe(i fsm.BackupInfo) string {
	return fmt.Sprintf("cluster %s, index %d, state hash %s, %d run ids", oneLine(i.ClusterID), i.Index, oneLine(i.StateHash), i.Runs)
}
