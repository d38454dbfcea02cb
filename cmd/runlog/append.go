package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// appendCmd appends events from a file or a pipe.
type appendCmd struct {
	RunID event.RunID `arg:"" name:"run" help:"The run's id."`
	File  string      `arg:"" optional:"" default:"-" help:"One event a line (NDJSON); - is standard input."`
	connection
	Create   bool    `help:"Create the run first if there is none; without it only RUN_STARTED as the first event does."`
	Thread   string  `help:"With --create: the thread that the run belongs to." placeholder:"ID"`
	Epoch    *uint64 `help:"The epoch to write at, for a run that was ever leased." placeholder:"N"`
	Producer string  `help:"Producer id: the same input sent again under the same id is written once. Events are then sent in full batches. Default: a random one." placeholder:"ID"`
	Batch    int     `help:"At most so many events in one request." default:"500"`
	Output   string  `short:"o" enum:"text,json" default:"text" help:"text: a summary; json: a line per request."`
}

// appendPatience is how long an append waits for a cluster that takes it: what comes through a pipe
// cannot be sent again by whoever wrote it.
const appendPatience = 20 * time.Second

// Run appends until the input ends. Events that are there together travel together; one that
// comes alone is sent at once.
func (c *appendCmd) Run(ctx context.Context, t *terminal) error {
	cl, err := c.patient(appendPatience)
	if err != nil {
		return err
	}
	if c.Batch < 1 || c.Batch > event.MaxBatchEvents {
		return usageError(fmt.Sprintf("--batch must be between 1 and %d", event.MaxBatchEvents))
	}
	in, err := c.open(t)
	if err != nil {
		return err
	}
	defer in.Close()
	if c.Create {
		started := false
		_, err := cl.CreateRun(ctx, client.NewRun{RunID: c.RunID, ThreadID: event.ThreadID(c.Thread), Started: &started})
		if err != nil {
			return err
		}
	}
	return c.stream(ctx, cl, in, t)
}

func (c *appendCmd) open(t *terminal) (io.ReadCloser, error) {
	if c.File == "-" {
		return io.NopCloser(t.in), nil
	}
	return os.Open(c.File)
}

func (c *appendCmd) stream(ctx context.Context, cl *client.Client, in io.Reader, t *terminal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := readLines(ctx, in)
	producer := event.Producer{ID: event.ProducerID(c.Producer)}
	if producer.ID == "" {
		producer.ID = event.ProducerID(rand.Text())
	}
	var first, tail event.Offset
	events := uint64(0)
	for {
		batch, inputErr := gather(ctx, lines, c.Batch, c.Producer != "")
		if len(batch) > 0 {
			p := producer
			done, err := cl.Append(ctx, event.Batch{Run: c.RunID, Epoch: c.epoch(), Producer: &p, Events: batch})
			if err != nil {
				return err
			}
			if events == 0 {
				first = done.FirstOffset
			}
			tail, events = done.Tail, events+uint64(len(batch))
			producer.Seq++
			if c.Output == "json" {
				if err := printJSONLine(t.out, done); err != nil {
					return err
				}
			}
		}
		if errors.Is(inputErr, io.EOF) {
			break
		}
		if inputErr != nil {
			return inputErr
		}
	}
	if c.Output == "text" {
		fmt.Fprintf(t.out, "%s appended", plural(events, "event"))
		if events > 0 {
			fmt.Fprintf(t.out, ", offsets %d to %d", first, tail-1)
		}
		fmt.Fprintln(t.out)
	}
	return nil
}

func (c *appendCmd) epoch() *event.Epoch {
	if c.Epoch == nil {
		return nil
	}
	e := event.Epoch(*c.Epoch)
	return &e
}

// line is one line of input: an event, or the error that ends the input.
type line struct {
	event event.Event
	err   error // io.EOF at the end
}

// readLines reads events ahead of what sends them. The goroutine ends with the input or, blocked
// as it may be in a read, with the process; a cancelled ctx keeps it from blocking on the channel.
func readLines(ctx context.Context, in io.Reader) <-chan line {
	lines := make(chan line, event.MaxBatchEvents)
	go func() {
		r := bufio.NewReaderSize(in, 64<<10)
		for n := 1; ; n++ {
			l := readLine(r, n)
			if l.err == nil && l.event.Raw == nil {
				continue // an empty line
			}
			select {
			case lines <- l:
			case <-ctx.Done():
				return
			}
			if l.err != nil {
				return
			}
		}
	}()
	return lines
}

func readLine(r *bufio.Reader, n int) line {
	raw, err := r.ReadBytes('\n')
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return line{err: err}
	}
	e, parseErr := event.ParseEvent(raw)
	if parseErr != nil {
		return line{err: fmt.Errorf("line %d: %w", n, parseErr)}
	}
	return line{event: e}
}

// gather waits for one event and takes what else is there, within the limits of a batch. It
// returns what came before an error together with it. With full set it waits until the batch is
// full or the input ends: how events are grouped then depends on the input alone, so that the same
// input sent again under the same producer id makes the same requests.
func gather(ctx context.Context, lines <-chan line, limit int, full bool) ([]event.Event, error) {
	var batch []event.Event
	size := 0
	for len(batch) < limit && size < event.MaxBatchBytes/2 {
		var l line
		select {
		case l = <-lines:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		default:
			if len(batch) > 0 && !full {
				return batch, nil
			}
			select {
			case l = <-lines:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		if l.err != nil {
			return batch, l.err
		}
		batch, size = append(batch, l.event), size+len(l.event.Raw)
	}
	return batch, nil
}
