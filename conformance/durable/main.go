package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

type options struct {
	dir           string // this folder
	reference     bool
	subscriptions bool
	only          string
	filter        string
	kills         int
	flags         string
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", ".", "the `folder` of this command")
	flag.BoolVar(&o.reference, "reference", false, "run the suite against the reference server instead")
	flag.BoolVar(&o.subscriptions, "subscriptions", false, "with the suite's tests of subscriptions")
	flag.StringVar(&o.only, "only", "", "one `part`: node, balancer or client")
	flag.StringVar(&o.filter, "t", "", "only tests whose names match the `pattern`; nothing is counted then")
	flag.IntVar(&o.kills, "kills", 8, "how many leaders are killed under a producer")
	flag.StringVar(&o.flags, "flags", "", "more `flags` for each node")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "durable:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	temp, err := os.MkdirTemp("", "runlog-durable-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if o.reference {
		return runReference(ctx, o, temp)
	}
	bin := filepath.Join(temp, "runlog")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", bin, "github.com/runlog/runlog/cmd/runlog").CombinedOutput(); err != nil {
		return fmt.Errorf("build runlog: %w: %s", err, out)
	}
	flags := append([]string{"--long-poll", "2s", "--stream-window", "2s"}, strings.Fields(o.flags)...)
	if o.subscriptions {
		flags = append(flags, "--webhook-allow", "127.0.0.0/8") // the suite's receiver is on loopback
	}
	c, err := newCluster(bin, temp, flags...)
	if err != nil {
		return err
	}
	defer c.killAll()
	if err := c.startAll(ctx); err != nil {
		return err
	}
	b, err := balance(c.http[:])
	if err != nil {
		return err
	}
	defer b.close()
	return runParts(ctx, o, temp, c, b)
}

// runParts runs what was asked for, each part although an earlier one failed.
func runParts(ctx context.Context, o options, temp string, c *cluster, b *balancer) error {
	var failed error
	wanted := func(part string) bool { return (o.only == "" || o.only == part) && ctx.Err() == nil }
	if wanted("node") {
		s := suiteRun{name: "one node of three", url: c.urls()[1], subscriptions: o.subscriptions, filter: o.filter}
		failed = errors.Join(failed, s.run(ctx, o.dir, temp))
	}
	if wanted("balancer") {
		s := suiteRun{name: "a load balancer over three nodes", url: b.url(), anew: true, subscriptions: o.subscriptions, filter: o.filter}
		failed = errors.Join(failed, s.run(ctx, o.dir, temp))
		fmt.Printf("connections by node: %d\n", b.counts())
	}
	if wanted("client") {
		failed = errors.Join(failed, runClient(ctx, o, c, b))
	}
	if failed == nil {
		failed = context.Cause(ctx)
	}
	return failed
}

// runClient runs the tests that use the published client.
func runClient(ctx context.Context, o options, c *cluster, b *balancer) error {
	fmt.Printf("\n== the published client\n")
	k, err := serveControl(c)
	if err != nil {
		return err
	}
	defer k.close()
	args := []string{"--test", "--test-reporter=spec", "--test-concurrency=1"}
	if o.filter != "" {
		args = append(args, "--test-name-pattern="+o.filter)
	}
	files, err := filepath.Glob(filepath.Join(o.dir, "client", "*.test.mjs"))
	if err != nil {
		return err
	}
	for _, f := range files {
		args = append(args, filepath.Join("client", filepath.Base(f)))
	}
	cmd := node(ctx, o.dir, "node", args...)
	cmd.Env = append(os.Environ(), "RUNLOG_NODES="+strings.Join(c.urls(), ","), "RUNLOG_BALANCER="+b.url(), "RUNLOG_CONTROL="+k.url(),
		fmt.Sprintf("RUNLOG_KILLS=%d", o.kills))
	return cmd.Run()
}

// node returns a command of Node's world that ends with ctx.
func node(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// runReference holds the suite against the reference server, which shows that the harness works.
func runReference(ctx context.Context, o options, temp string) error {
	cmd := node(ctx, o.dir, "node", "reference.mjs", filepath.Join(temp, "reference"))
	cmd.Stdout = nil
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		in.Close()
		_ = cmd.Wait() // it was told to end
	}()
	r := bufio.NewReader(out)
	url, err := r.ReadString('\n')
	if err != nil {
		return fmt.Errorf("the reference server did not start: %w", err)
	}
	go io.Copy(io.Discard, r)
	s := suiteRun{name: "the reference server", url: strings.TrimSpace(url), filter: o.filter, fails: referenceFails}
	return s.run(ctx, o.dir, temp)
}
