package main

import (
	"context"
	"fmt"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/cmd/runlog/internal/load"
)

// benchAppendCmd measures appends: each writer sends a request when the one before is acknowledged.
type benchAppendCmd struct {
	connection
	Writers    []int         `help:"How many writers, one measurement each." default:"1,16,64,256" placeholder:"N,…"`
	Batch      int           `help:"Events in a request." default:"1"`
	Size       int           `help:"Bytes of an event's JSON." default:"256"`
	Duration   time.Duration `help:"How long each measurement takes." default:"3s"`
	Runs       int           `help:"Runs that each writer appends to in turn." default:"1"`
	Via        string        `help:"leader: all writers talk to the leader; any: to all nodes alike, which forward." enum:"leader,any" default:"leader"`
	Idempotent bool          `help:"Send producer headers."`
	Output     string        `short:"o" enum:"text,json" default:"text" help:"text, or json: one measurement a line."`
}

// Validate refuses measurements of nothing.
func (c *benchAppendCmd) Validate() error {
	for _, n := range c.Writers {
		if n < 1 {
			return positive("writers")
		}
	}
	return positives("batch", c.Batch, "size", c.Size, "duration", int(c.Duration), "runs", c.Runs)
}

// appendPoint is one measurement as JSON.
type appendPoint struct {
	load.Result
	Batch           int     `json:"batch"`
	Size            int     `json:"size"`
	Via             string  `json:"via"`
	EventsPerSecond float64 `json:"eventsPerSecond"`
}

// Run measures once for each number of writers.
func (c *benchAppendCmd) Run(ctx context.Context, t *terminal) error {
	cl, r, err := c.benched(ctx)
	if err != nil {
		return err
	}
	targets := []string{r.leader}
	if c.Via == "any" {
		targets = append(targets, r.followers...)
	}
	for _, n := range c.Writers {
		result, err := c.measure(ctx, cl, n, targets)
		if err != nil {
			return err
		}
		if err := c.print(t, result); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

func (c *benchAppendCmd) print(t *terminal, r load.Result) error {
	if c.Output == "json" {
		return printJSONLine(t.out, appendPoint{r, c.Batch, c.Size, c.Via, r.PerSecond * float64(c.Batch)})
	}
	fmt.Fprintf(t.out, "runlog append via=%s batch=%d size=%d  writers=%-4d %8.0f/s  p50=%-9s p99=%-9s errors=%d busy=%.2f\n",
		c.Via, c.Batch, c.Size, r.Writers, r.PerSecond, r.P50.Round(time.Microsecond), r.P99.Round(time.Microsecond), r.Errors, r.BusyCores)
	if r.FirstErr != "" {
		fmt.Fprintf(t.err, "first error: %s\n", oneLine(r.FirstErr))
	}
	return nil
}

func (c *benchAppendCmd) measure(ctx context.Context, cl *client.Client, writers int, targets []string) (load.Result, error) {
	prefix := benchPrefix()
	body := benchBatch(benchDelta(c.Size), c.Batch)
	ops := make([]load.Op, writers)
	for i := range ops {
		w, err := c.newWriter(ctx, cl, fmt.Sprintf("%s-%d", prefix, i), targets[i%len(targets)], body)
		if err != nil {
			return load.Result{}, err
		}
		defer w.conn.Close()
		ops[i] = w.append
	}
	return load.Run(ctx, ops, c.Duration), nil
}

// writer appends the same body to its runs in turn.
type writer struct {
	conn *load.Conn
	runs []*benchRun
	next int
}

// benchRun is a run and what a request to it looks like.
type benchRun struct {
	plain  []byte // without producer headers, ready to send
	format func(seq uint64) []byte
	seq    uint64
}

func (c *benchAppendCmd) newWriter(ctx context.Context, cl *client.Client, prefix, addr string, body []byte) (*writer, error) {
	conn, err := load.Dial(addr)
	if err != nil {
		return nil, err
	}
	w := &writer{conn: conn}
	for i := range max(c.Runs, 1) {
		run := fmt.Sprintf("%s-%d", prefix, i)
		path := eventsPath(run)
		if err := beginRun(ctx, cl, run); err != nil {
			conn.Close()
			return nil, err
		}
		r := &benchRun{plain: load.Request("POST", addr, path, jsonHeader, body)}
		if c.Idempotent {
			r.format = func(seq uint64) []byte {
				header := fmt.Sprintf("%sProducer-Id: %s\r\nProducer-Epoch: 0\r\nProducer-Seq: %d\r\n", jsonHeader, prefix, seq)
				return load.Request("POST", addr, path, header, body)
			}
		}
		w.runs = append(w.runs, r)
	}
	return w, nil
}

func (w *writer) append() error {
	r := w.runs[w.next%len(w.runs)]
	w.next++
	request := r.plain
	if r.format != nil {
		request = r.format(r.seq)
	}
	if err := w.conn.Do(request); err != nil {
		return err // with producer headers the same number is sent again
	}
	r.seq++
	return nil
}
