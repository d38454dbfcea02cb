package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/cmd/runlog/internal/load"
	"github.com/runlog/runlog/event"
)

// benchLengthCmd compares appends to a short run with appends to a long one, in alternation.
type benchLengthCmd struct {
	connection
	Short    int           `help:"Events in the short run." default:"100"`
	Long     int           `help:"Events in the long run." default:"100000"`
	Rounds   int           `help:"Rounds, of which the median counts." default:"5"`
	Duration time.Duration `help:"How long each measurement takes." default:"1s"`
	Size     int           `help:"Bytes of an event's JSON." default:"256"`
	Output   string        `short:"o" enum:"text,json" default:"text" help:"text or json."`
}

// Validate refuses measurements of nothing.
func (c *benchLengthCmd) Validate() error {
	return positives("short", c.Short, "long", c.Long, "rounds", c.Rounds, "duration", int(c.Duration), "size", c.Size)
}

// lengthPoint is the measurement as JSON.
type lengthPoint struct {
	Short          int     `json:"shortEvents"`
	Long           int     `json:"longEvents"`
	ShortPerSecond float64 `json:"shortPerSecond"`
	LongPerSecond  float64 `json:"longPerSecond"`
	Ratio          float64 `json:"ratio"` // short to long; 1: the length does not matter
}

// Run measures and prints one line. The short run is a fresh one each round, so that it stays short.
func (c *benchLengthCmd) Run(ctx context.Context, t *terminal) error {
	cl, r, err := c.benched(ctx)
	if err != nil {
		return err
	}
	conn, err := load.Dial(r.leader)
	if err != nil {
		return err
	}
	defer conn.Close()
	prefix := benchPrefix()
	long := prefix + "-long"
	if err := c.fill(ctx, cl, long, c.Long); err != nil {
		return err
	}
	var shorts, longs []float64
	for i := range c.Rounds {
		short := fmt.Sprintf("%s-short-%d", prefix, i)
		if err := c.fill(ctx, cl, short, c.Short); err != nil {
			return err
		}
		for _, m := range []struct {
			run  string
			into *[]float64
		}{{short, &shorts}, {long, &longs}} {
			perSecond, err := c.rate(ctx, conn, r.leader, m.run)
			if err != nil {
				return err
			}
			*m.into = append(*m.into, perSecond)
		}
	}
	p := lengthPoint{Short: c.Short, Long: c.Long, ShortPerSecond: median(shorts), LongPerSecond: median(longs)}
	p.Ratio = p.ShortPerSecond / p.LongPerSecond
	if c.Output == "json" {
		return printJSONLine(t.out, p)
	}
	fmt.Fprintf(t.out, "%d events %.0f/s, %d events %.0f/s, ratio %.2f\n", p.Short, p.ShortPerSecond, p.Long, p.LongPerSecond, p.Ratio)
	return nil
}

// fill makes a run of n events.
func (c *benchLengthCmd) fill(ctx context.Context, cl *client.Client, run string, n int) error {
	start, err := event.ParseBody(benchStart(run))
	if err != nil {
		return err
	}
	batch, delta := start, event.Event{Raw: benchDelta(c.Size)}
	for seq := uint64(0); n > 0; seq++ {
		for len(batch) < min(n, 500) {
			batch = append(batch, delta)
		}
		producer := event.Producer{ID: "bench", Seq: seq}
		if _, err := cl.Append(ctx, event.Batch{Run: event.RunID(run), Producer: &producer, Events: batch}); err != nil {
			return err
		}
		n, batch = n-len(batch), nil
	}
	return nil
}

func (c *benchLengthCmd) rate(ctx context.Context, conn *load.Conn, addr, run string) (float64, error) {
	request := load.Request("POST", addr, eventsPath(run), jsonHeader, benchDelta(c.Size))
	r := load.Run(ctx, []load.Op{func() error { return conn.Do(request) }}, c.Duration)
	if r.FirstErr != "" {
		return 0, fmt.Errorf("append to run %s: %s", run, r.FirstErr)
	}
	return r.PerSecond, nil
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[len(v)/2]
}
