package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// demoHostCmd is a process that hosts the scripted agent: what runlog demo starts, kills, stops and
// has taken over. It tells its parent, one JSON object a line, what it has done.
type demoHostCmd struct {
	connection
	RunID      event.RunID    `name:"run" required:""`
	ThreadID   event.ThreadID `name:"thread" required:""`
	Holder     event.HolderID `required:""`
	Journal    string         `help:"Where this host writes down its events before it sends them." required:""`
	TakeOver   bool           `help:"Take the run over from the host whose journal it is, and go on."`
	Next       bool           `help:"Play the next turn."`
	LeaseMs    int64          `default:"1500"`
	TakeoverMs int64
}

// hostNews is one thing that a demo host has done.
type hostNews struct {
	Did    string               `json:"did"` // holds, tool, replayed, finished, refused
	Epoch  event.Epoch          `json:"epoch,omitempty"`
	Replay *client.ReplayResult `json:"replay,omitempty"`
	Why    string               `json:"why,omitempty"`
}

// Run plays the agent to its end, or until it is refused. It ends, too, when its parent has gone.
func (c *demoHostCmd) Run(ctx context.Context, t *terminal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		io.Copy(io.Discard, t.in) // the parent holds the other end; the goroutine goes with the process
		cancel()
	}()
	tell := func(n hostNews) { _ = printJSONLine(t.out, n) }
	err := c.host(ctx, tell)
	var fenced *event.Fenced
	if errors.As(err, &fenced) {
		tell(hostNews{Did: "refused", Why: fenced.Error()})
		return errReported
	}
	return err
}

func (c *demoHostCmd) host(ctx context.Context, tell func(hostNews)) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	h, done, err := c.hold(ctx, cl, tell)
	if err != nil {
		return err
	}
	defer h.Close()
	journal, err := os.OpenFile(c.Journal, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer journal.Close()
	for _, a := range c.turn().script(c.RunID, c.ThreadID)[done:] {
		if a.tool != "" {
			tell(hostNews{Did: "tool", Why: a.tool})
		}
		// A careful host would run its tools under h.Context and stop when it is fenced. This one
		// does not, to show what becomes of the writes of one that cannot.
		pause(ctx, a.wait)
		if _, err := journal.Write(append(a.raw, '\n')); err != nil {
			return err
		}
		if _, err := h.Append(ctx, event.Event{Raw: a.raw}); err != nil {
			return err
		}
	}
	if _, err := h.Finish(ctx, client.Finished{}); err != nil {
		return err
	}
	tell(hostNews{Did: "finished"})
	return nil
}

func (c *demoHostCmd) turn() turn {
	if c.Next {
		return nextTurn
	}
	return firstTurn
}

// hold starts the run, or takes it over, and returns how many acts of the script are done.
func (c *demoHostCmd) hold(ctx context.Context, cl *client.Client, tell func(hostNews)) (*client.Handle, int, error) {
	if !c.TakeOver {
		started := false // the host writes RUN_STARTED, so that its journal is the whole stream
		h, err := cl.Start(ctx, client.NewRun{
			RunID: c.RunID, ThreadID: c.ThreadID, Started: &started, OnBusy: "reject",
			Holder: c.Holder, LeaseMs: c.LeaseMs, TakeoverMs: &c.TakeoverMs,
		})
		if err != nil {
			return nil, 0, err
		}
		tell(hostNews{Did: "holds", Epoch: h.Epoch()})
		return h, 0, nil
	}
	h, err := cl.Takeover(ctx, c.RunID, client.Takeover{Holder: c.Holder, LeaseMs: c.LeaseMs, Wait: 20 * time.Second})
	if err != nil {
		return nil, 0, err
	}
	tell(hostNews{Did: "holds", Epoch: h.Epoch()})
	done, err := c.copyJournal()
	if err == nil {
		var r client.ReplayResult
		r, err = h.Replay(ctx, client.FileSource(c.Journal), nil)
		tell(hostNews{Did: "replayed", Replay: &r})
	}
	if err != nil {
		h.Close()
		return nil, 0, err
	}
	return h, done, nil
}

// copyJournal makes the lost host's journal this host's own, but for a line that its death cut
// short, and returns the number of its events.
func (c *demoHostCmd) copyJournal() (events int, err error) {
	lost, err := os.ReadFile(c.Journal)
	if err != nil {
		return 0, err
	}
	whole := lost[:bytes.LastIndexByte(lost, '\n')+1]
	c.Journal = fmt.Sprintf("%s.%s", c.Journal, c.Holder)
	return bytes.Count(whole, []byte("\n")), os.WriteFile(c.Journal, whole, 0o644)
}
