package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"
)

// commandLine is the grammar of the command line.
type commandLine struct {
	Config configFile `help:"Read flags from a JSON file." placeholder:"FILE"`

	Quickstart quickstartCmd `cmd:"" help:"Start three nodes, stream the sample run through them, kill one, show that nothing is lost."`
	Demo       demoCmd       `cmd:"" help:"Kill the host of a run in the middle of a tool call and watch another take over."`
	DemoHost   demoHostCmd   `cmd:"" hidden:""`
	Dev        devCmd        `cmd:"" help:"Run a cluster of three nodes on this machine until Ctrl-C."`
	Serve      serveCmd      `cmd:"" help:"Run one node."`

	Append     appendCmd     `cmd:"" help:"Append events, one JSON object a line, to a run."`
	Tail       tailCmd       `cmd:"" help:"Follow a run's events until it ends, or a thread's across its runs."`
	Replay     replayCmd     `cmd:"" help:"Send a host's whole stream again: append what the run lacks."`
	Transcript transcriptCmd `cmd:"" help:"Print the messages of a run or of a thread."`
	Tools      toolsCmd      `cmd:"" help:"Print a run's tool calls."`
	State      stateCmd      `cmd:"" help:"Print a run's shared state."`
	Runs       runsCmd       `cmd:"" help:"List runs, or watch what happens to them."`
	Threads    threadsCmd    `cmd:"" help:"List threads by their last activity."`
	Lease      leaseCmd      `cmd:"" help:"Acquire, renew and release the leases of runs."`
	Cancel     cancelCmd     `cmd:"" help:"Ask for a run's end; the cluster sees to it when its host does not."`
	Cluster    clusterCmd    `cmd:"" help:"Look after the cluster."`

	Backup  backupCmd  `cmd:"" help:"Copy the cluster's state into a file."`
	Restore restoreCmd `cmd:"" help:"Make a node of a new cluster from a backup."`
	Verify  verifyCmd  `cmd:"" help:"Check a stopped node's data, or a backup."`

	Bench   benchCmd   `cmd:"" help:"Measure a running cluster."`
	Version versionCmd `cmd:"" help:"Print the version."`
}

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// errReported is returned by a command that has said itself what went wrong.
var errReported = errors.New("failed")

// terminal is where a command reads and writes.
type terminal struct {
	in       io.Reader
	out, err io.Writer
}

func main() {
	ctx, stop := untilSignal()
	code := run(ctx, os.Args[1:], &terminal{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

// run parses the command line, runs the command and returns the exit code.
func run(ctx context.Context, args []string, t *terminal) int {
	var cl commandLine
	exited := -1
	parser := newParser(&cl,
		kong.Writers(t.out, t.err),
		kong.Exit(func(code int) { exited = code }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(t),
	)
	if len(args) == 0 {
		args = []string{"--help"}
	}
	cmd, err := parser.Parse(args)
	if exited >= 0 {
		return exited // --help
	}
	if err != nil {
		fmt.Fprintf(t.err, "runlog: %s\n", oneLine(err.Error()))
		return exitUsage
	}
	switch err := cmd.Run(); {
	case err == nil:
		return exitOK
	case errors.Is(err, errReported):
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(t.err, "runlog: interrupted")
	case errors.As(err, new(usageError)):
		fmt.Fprintf(t.err, "runlog: %s\n", oneLine(err.Error()))
		return exitUsage
	default:
		fmt.Fprintf(t.err, "runlog: %s\n", oneLine(err.Error()))
	}
	return exitFailed
}

func newParser(cl *commandLine, options ...kong.Option) *kong.Kong {
	return kong.Must(cl, append(options,
		kong.Name("runlog"),
		kong.Description("A replicated log of AI agent runs: what a run said, called and left behind outlives the process that ran it."),
		kong.DefaultEnvars("RUNLOG"),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
	)...)
}

// usageError is a command line that parses but asks for something that cannot be.
type usageError string

// Error returns the reason.
func (e usageError) Error() string { return string(e) }
