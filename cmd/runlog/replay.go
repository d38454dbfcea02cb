package main

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// replayCmd sends a host's whole stream again.
type replayCmd struct {
	RunID event.RunID `arg:"" name:"run" help:"The run's id."`
	File  string      `arg:"" optional:"" default:"-" help:"The stream from its first event, one a line (NDJSON); - is standard input."`
	connection
	Epoch  uint64 `help:"The epoch of the lease under which it is sent." required:"" placeholder:"N"`
	Output string `short:"o" enum:"text,json" default:"text" help:"text or json."`
}

// Run replays until the input ends: what the run has is passed over, what it lacks is appended.
func (c *replayCmd) Run(ctx context.Context, t *terminal) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	source := client.FileSource(c.File)
	if c.File == "-" {
		source = newSpool(t.in).open
	}
	r, err := cl.Replay(ctx, c.RunID, event.Epoch(c.Epoch), source, nil)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return printJSONLine(t.out, r)
	}
	fmt.Fprintf(t.out, "%s matched, %d skipped, %d appended; the tail is %d\n", plural(r.Matched, "event"), r.Skipped, r.Appended, r.Tail)
	return nil
}

// spool keeps what was read of an input that cannot be read twice, so that each replay can begin
// at its beginning.
type spool struct {
	mu   sync.Mutex
	more *sync.Cond
	kept []byte
	err  error // io.EOF at the end
}

// newSpool reads in until it ends; the goroutine ends with the input or, blocked as it may be in a
// read, with the process.
func newSpool(in io.Reader) *spool {
	s := &spool{}
	s.more = sync.NewCond(&s.mu)
	go func() {
		for buf := make([]byte, 32<<10); ; {
			n, err := in.Read(buf)
			s.mu.Lock()
			s.kept, s.err = append(s.kept, buf[:n]...), err
			s.mu.Unlock()
			s.more.Broadcast()
			if err != nil {
				return
			}
		}
	}()
	return s
}

func (s *spool) open() (io.ReadCloser, error) { return &spoolReader{s: s}, nil }

type spoolReader struct {
	s      *spool
	at     int
	closed bool
}

// Read waits for what comes after what it has returned.
func (r *spoolReader) Read(p []byte) (int, error) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	for r.at == len(r.s.kept) && r.s.err == nil && !r.closed {
		r.s.more.Wait()
	}
	switch {
	case r.closed:
		return 0, io.ErrClosedPipe
	case r.at == len(r.s.kept):
		return 0, r.s.err
	}
	n := copy(p, r.s.kept[r.at:])
	r.at += n
	return n, nil
}

// Close ends a Read under way.
func (r *spoolReader) Close() error {
	r.s.mu.Lock()
	r.closed = true
	r.s.mu.Unlock()
	r.s.more.Broadcast()
	return nil
}
