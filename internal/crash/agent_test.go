package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/internal/agentrun"
)

const (
	agentEnv   = "RUNLOG_CRASH_AGENT" // an agent as JSON: this process plays it, and is not a test
	agentLease = 2 * time.Second
)

// How an agent's process ends, besides by a signal.
const (
	exitFinished = 0
	exitLost     = 3 // the run is somebody else's, or ended
	exitNothing  = 4 // there was nothing to take over any more
)

// agent is a host's process: it says the run that its seed makes.
type agent struct {
	Run     event.RunID
	Seed    uint64
	Holder  event.HolderID
	Servers []string
	How     string       // start, continue, replay, recut or without
	Steal   *event.Epoch // take the lease from a host that lives
}

// events are what the agent says, whichever process it runs in.
func (a *agent) events() []event.Event {
	for rnd := rand.New(rand.NewPCG(a.Seed, 5)); ; {
		if run := agentrun.Ending(rnd, a.Run); len(run) > 14 {
			return run
		}
	}
}

// playAgent is the process.
func playAgent(spec string) {
	var a agent
	if err := json.Unmarshal([]byte(spec), &a); err != nil {
		panic(err)
	}
	err := a.play(context.Background())
	switch {
	case err == nil:
		os.Exit(exitFinished)
	case errors.Is(err, event.ErrFenced), errors.Is(err, event.ErrRunEnded):
		os.Exit(exitLost)
	}
	fmt.Fprintf(os.Stderr, "agent %s of %s: %v\n", a.Holder, a.Run, err)
	os.Exit(1)
}

func (a *agent) play(ctx context.Context) error {
	c, err := client.New(client.Config{Servers: a.Servers, RetryFor: time.Minute})
	if err != nil {
		return err
	}
	if a.How == "start" {
		started, window := false, int64(60_000)
		h, err := c.Start(ctx, client.NewRun{RunID: a.Run, ThreadID: "t-" + event.ThreadID(a.Run), Holder: a.Holder, Started: &started,
			LeaseMs: agentLease.Milliseconds(), TakeoverMs: &window})
		if err != nil {
			return err
		}
		return a.say(ctx, h, 0)
	}
	h, err := c.Takeover(ctx, a.Run, client.Takeover{Holder: a.Holder, LeaseMs: agentLease.Milliseconds(), Wait: time.Minute, Steal: a.Steal})
	if errors.Is(err, event.ErrRunEnded) {
		os.Exit(exitNothing)
	}
	if err != nil {
		return err
	}
	if a.How == "continue" {
		return a.say(ctx, h, int(h.Run().Tail))
	}
	return a.replay(ctx, h)
}

// say appends what comes from an event on.
func (a *agent) say(ctx context.Context, h *client.Handle, at int) error {
	run := a.events()
	for at < len(run) {
		think()
		n := min(1+rand.IntN(3), len(run)-at)
		if _, err := h.Append(ctx, run[at:at+n]...); err != nil {
			return err
		}
		at += n
	}
	return nil
}

// replay says all of it again, as it comes. It prints how often it had to begin anew.
func (a *agent) replay(ctx context.Context, h *client.Handle) error {
	run := a.events()
	rnd := rand.New(rand.NewPCG(rand.Uint64(), 0))
	switch a.How {
	case "recut":
		run = agentrun.Recut(rnd, run)
	case "without":
		run = agentrun.WithoutLive(run)
	}
	attempts := 0
	result, err := h.Replay(ctx, func() (io.ReadCloser, error) {
		attempts++
		r, w := io.Pipe()
		go func() {
			defer w.Close()
			for _, e := range run {
				think()
				if _, err := fmt.Fprintf(w, "%s\n", e.Raw); err != nil {
					return // the attempt is over
				}
			}
		}()
		return r, nil
	}, nil)
	fmt.Println(attempts - 1)
	fmt.Fprintf(os.Stderr, "%s at epoch %d: %+v, %v\n", a.How, h.Epoch(), result, err)
	return err
}

// think is a model's pace.
func think() { time.Sleep(time.Duration(5+rand.IntN(60)) * time.Millisecond) }
