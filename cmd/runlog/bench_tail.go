package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/cmd/runlog/internal/load"
	"github.com/runlog/runlog/event"
)

// benchTailCmd measures from the sending of an append to the leader until a reader on a follower
// has the event, one at a time with pauses between: what somebody who watches a slow agent sees.
type benchTailCmd struct {
	connection
	Events int           `help:"How many events." default:"200"`
	Every  time.Duration `help:"The pause between two." default:"40ms"`
	Size   int           `help:"Bytes of an event's JSON." default:"256"`
	Output string        `short:"o" enum:"text,json" default:"text" help:"text or json."`
}

// tailPoint is the measurement as JSON; durations are nanoseconds.
type tailPoint struct {
	Events int           `json:"events"`
	P50    time.Duration `json:"p50Ns"`
	P99    time.Duration `json:"p99Ns"`
	AckP50 time.Duration `json:"ackP50Ns"`
	AckP99 time.Duration `json:"ackP99Ns"`
}

// Validate refuses measurements of nothing.
func (c *benchTailCmd) Validate() error {
	return positives("events", c.Events, "every", int(c.Every), "size", c.Size)
}

// Run measures and prints one line.
func (c *benchTailCmd) Run(ctx context.Context, t *terminal) error {
	cl, r, err := c.benched(ctx)
	if err != nil {
		return err
	}
	if len(r.followers) == 0 {
		return errors.New("the cluster has no follower to read from")
	}
	p, err := c.measure(ctx, cl, r)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return printJSONLine(t.out, p)
	}
	fmt.Fprintf(t.out, "isolated event, sent to visible on a follower  n=%d  p50=%s p99=%s   (acknowledged p50=%s p99=%s)\n",
		p.Events, p.P50.Round(time.Microsecond), p.P99.Round(time.Microsecond), p.AckP50.Round(time.Microsecond), p.AckP99.Round(time.Microsecond))
	return nil
}

func (c *benchTailCmd) measure(ctx context.Context, cl *client.Client, r roles) (tailPoint, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	run := benchPrefix()
	conn, err := load.Dial(r.leader)
	if err != nil {
		return tailPoint{}, err
	}
	defer conn.Close()
	if err := beginRun(ctx, cl, run); err != nil {
		return tailPoint{}, err
	}
	arrivals, err := follow(ctx, r.followers[0], event.RunID(run))
	if err != nil {
		return tailPoint{}, err
	}
	request := load.Request("POST", r.leader, eventsPath(run), jsonHeader, benchDelta(c.Size))
	var visible, acked []time.Duration
	for i := 0; i < c.Events+c.warmup(); i++ {
		pause(ctx, c.Every)
		sent := time.Now()
		if err := conn.Do(request); err != nil {
			return tailPoint{}, err
		}
		ack := time.Since(sent)
		at, ok := <-arrivals
		if !ok {
			return tailPoint{}, errors.New("the tail ended early")
		}
		if i >= c.warmup() {
			visible, acked = append(visible, at.Sub(sent)), append(acked, ack)
		}
	}
	p := tailPoint{Events: len(visible)}
	p.P50, p.P99 = load.Quantiles(visible)
	p.AckP50, p.AckP99 = load.Quantiles(acked)
	return p, nil
}

// warmup is how many of the first events do not count.
func (c *benchTailCmd) warmup() int { return c.Events / 10 }

// follow tails a run on one node and tells when each event after the first two arrived. It returns
// once those two have.
func follow(ctx context.Context, addr string, run event.RunID) (<-chan time.Time, error) {
	cl, err := client.New(client.Config{Servers: []string{"http://" + addr}})
	if err != nil {
		return nil, err
	}
	arrivals := make(chan time.Time, 64)
	begun := make(chan error, 1)
	go func() {
		defer close(arrivals)
		for rec, err := range cl.Tail(ctx, run, 0) {
			now := time.Now()
			switch {
			case err != nil:
				begun <- err
				return
			case rec.Offset == 1:
				begun <- nil
			case rec.Offset > 1:
				select {
				case arrivals <- now:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return arrivals, <-begun
}
