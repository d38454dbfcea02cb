package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/runlog/runlog/cmd/runlog/internal/supervise"
)

// devCmd runs a cluster on this machine: three processes, each a `runlog serve`, that this one
// starts, watches and stops. When it is killed they go with it (on Linux).
type devCmd struct {
	Data     string `help:"Where the nodes keep their data and logs." default:"runlog-data" placeholder:"DIR"`
	HTTPPort int    `name:"http-port" help:"Port of the first node's HTTP; the others follow." default:"4437"`
	RaftPort int    `name:"raft-port" help:"Port of the first node's Raft; the others follow." default:"5437"`
}

// readyWithin bounds how long a cluster may take to start: a large log takes a while to replay.
const readyWithin = 2 * time.Minute

// Run keeps the cluster up until ctx is done.
func (c *devCmd) Run(ctx context.Context, t *terminal) error {
	dir, err := filepath.Abs(c.Data)
	if err != nil {
		return err
	}
	nodes := localNodes(dir, c.HTTPPort, c.RaftPort)
	lock, err := claim(dir, nodes)
	if err != nil {
		return err
	}
	defer lock.unlock()
	group, err := startGroup(nodes, func(line string) { fmt.Fprintln(t.err, line) })
	if err != nil {
		return err
	}
	defer group.Stop()
	if err := ready(ctx, group); err != nil {
		if ctx.Err() != nil {
			return group.Stop() // stopped before it was up
		}
		return err
	}
	fmt.Fprintf(t.out, "ready %s\n", urls(nodes, " "))
	fmt.Fprintf(t.err, "data and logs in %s; Ctrl-C stops all\n", dir)
	<-ctx.Done()
	return group.Stop()
}

// claim makes sure that nobody else runs a cluster on the data or has the ports. What is in the way
// is found before anything is made.
func claim(dir string, nodes []supervise.Node) (lock *dirLock, err error) {
	if _, missing := os.Stat(dir); missing == nil {
		if lock, err = lockDir(dir, "a cluster"); err != nil {
			return nil, err
		}
	}
	if err = portsFree(nodes); err == nil && lock == nil {
		return lockDir(dir, "a cluster")
	}
	if err != nil && lock != nil {
		lock.unlock()
	}
	return lock, err
}

// startGroup starts this very binary once per node.
func startGroup(nodes []supervise.Node, report func(string)) (*supervise.Group, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return supervise.Start(supervise.Config{Program: self, Args: serveArgs(nodes), Nodes: nodes, Report: report})
}

func ready(ctx context.Context, g *supervise.Group) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, fmt.Errorf("not within %s", readyWithin))
	defer cancel()
	return g.Ready(ctx)
}
