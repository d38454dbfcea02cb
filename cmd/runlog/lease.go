package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// leaseCmd groups what is done to the leases of runs. Hosts use package client, which renews by
// itself; these are for scripts, hooks and people.
type leaseCmd struct {
	Acquire    leaseAcquireCmd    `cmd:"" help:"Take a run's lease at a new epoch."`
	Renew      leaseRenewCmd      `cmd:"" help:"Make a run's lease last a full term from now."`
	Release    leaseReleaseCmd    `cmd:"" help:"Give a run's lease up for a successor."`
	ReleaseAll leaseReleaseAllCmd `cmd:"" help:"Give up all of a host's runs, before it is stopped."`
}

// leaseAcquireCmd takes a run's lease.
type leaseAcquireCmd struct {
	RunID event.RunID `arg:"" name:"run" help:"The run's id."`
	connection
	Holder  event.HolderID `help:"Who takes it." required:"" placeholder:"ID"`
	Term    time.Duration  `help:"How long it lasts unless it is renewed; 0: the server's default." placeholder:"DURATION"`
	Wait    time.Duration  `help:"How long to wait for another's live lease to end." placeholder:"DURATION"`
	IfEpoch *uint64        `help:"Only if the run is at this epoch." placeholder:"N"`
	Steal   bool           `help:"Take even a live lease; needs --if-epoch."`
	Output  string         `short:"o" enum:"text,json" default:"text" help:"text or json."`
}

// Run acquires and prints the epoch to write at.
func (c *leaseAcquireCmd) Run(ctx context.Context, t *terminal) error {
	if c.Steal && c.IfEpoch == nil {
		return usageError("--steal needs --if-epoch, the epoch of the lease to take")
	}
	cl, err := c.client()
	if err != nil {
		return err
	}
	got, err := cl.Acquire(ctx, c.RunID, client.Acquisition{
		Holder: c.Holder, LeaseMs: c.Term.Milliseconds(), Wait: c.Wait, IfEpoch: (*event.Epoch)(c.IfEpoch), Steal: c.Steal,
	})
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return printJSONLine(t.out, struct {
			Epoch       event.Epoch  `json:"epoch"`
			Tail        event.Offset `json:"tail"`
			ExpiresInMs int64        `json:"expiresInMs"`
			Open        *event.Open  `json:"open,omitempty"`
		}{got.Epoch, got.Tail, got.ExpiresInMs, got.Open})
	}
	fmt.Fprintf(t.out, "epoch %d, tail %d, lasts %s\n", got.Epoch, got.Tail, lasts(got.ExpiresInMs))
	printOpen(t.out, got.Open)
	return nil
}

// printOpen says what the holder before left open.
func printOpen(w io.Writer, open *event.Open) {
	if open == nil {
		return
	}
	for _, o := range []struct {
		what string
		ids  []string
	}{{"messages", open.Messages}, {"tool calls", open.ToolCalls}} {
		if len(o.ids) > 0 {
			fmt.Fprintf(w, "open %s: %s\n", o.what, oneLine(strings.Join(o.ids, ", ")))
		}
	}
}

func lasts(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// leaseRenewCmd renews a run's lease once.
type leaseRenewCmd struct {
	RunID event.RunID `arg:"" name:"run" help:"The run's id."`
	connection
	Epoch  uint64        `help:"The epoch of the lease." required:"" placeholder:"N"`
	Term   time.Duration `help:"How long it lasts from now; 0: as long as it was acquired for." placeholder:"DURATION"`
	Output string        `short:"o" enum:"text,json" default:"text" help:"text or json."`
}

// Run renews and says whether somebody asked for the run's end.
func (c *leaseRenewCmd) Run(ctx context.Context, t *terminal) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	got, err := cl.Renew(ctx, c.RunID, event.Epoch(c.Epoch), c.Term.Milliseconds())
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return printJSONLine(t.out, struct {
			Epoch           event.Epoch `json:"epoch"`
			ExpiresInMs     int64       `json:"expiresInMs"`
			CancelRequested bool        `json:"cancelRequested"`
		}{got.Epoch, got.ExpiresInMs, got.CancelRequested})
	}
	fmt.Fprintf(t.out, "epoch %d, lasts %s", got.Epoch, lasts(got.ExpiresInMs))
	if got.CancelRequested {
		fmt.Fprint(t.out, ", cancel requested")
	}
	fmt.Fprintln(t.out)
	return nil
}

// leaseReleaseCmd gives one run up.
type leaseReleaseCmd struct {
	RunID event.RunID `arg:"" name:"run" help:"The run's id."`
	connection
	Epoch    uint64         `help:"The epoch of the lease." required:"" placeholder:"N"`
	Takeover *time.Duration `help:"How long the run waits for a successor before the cluster ends it. Default: the larger of its own window and 1m." placeholder:"DURATION"`
}

// Run releases; it prints nothing.
func (c *leaseReleaseCmd) Run(ctx context.Context) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	return cl.Release(ctx, c.RunID, event.Epoch(c.Epoch), milliseconds(c.Takeover))
}

func milliseconds(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
}

// leaseReleaseAllCmd gives all of a host's runs up.
type leaseReleaseAllCmd struct {
	Holder event.HolderID `arg:"" help:"The host, as it named itself when it acquired."`
	connection
	Takeover *time.Duration `help:"How long the runs wait for a successor before the cluster ends them. Default: the larger of each one's window and 1m." placeholder:"DURATION"`
	Output   string         `short:"o" enum:"text,json" default:"text" help:"text, or json: one run a line."`
}

// hookPatience is how long a command keeps trying that a host runs while it is being stopped: long
// enough for an election, and nobody runs it again.
const hookPatience = 20 * time.Second

// Run releases and prints the runs.
func (c *leaseReleaseAllCmd) Run(ctx context.Context, t *terminal) error {
	cl, err := c.patient(hookPatience)
	if err != nil {
		return err
	}
	runs, err := cl.ReleaseAll(ctx, c.Holder, milliseconds(c.Takeover))
	if err != nil {
		return err
	}
	if c.Output == "json" {
		for _, r := range runs {
			if err := printJSONLine(t.out, r); err != nil {
				return err
			}
		}
		return nil
	}
	fmt.Fprintf(t.out, "%s released\n", plural(uint64(len(runs)), "run"))
	for _, r := range runs {
		fmt.Fprintf(t.out, "%s  epoch %d, tail %d\n", oneLine(string(r.RunID)), r.Epoch, r.Tail)
	}
	return nil
}
