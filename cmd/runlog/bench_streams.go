package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/runlog/runlog/cmd/runlog/internal/load"
)

// benchStreamsCmd measures appends to streams of the Durable Streams protocol, of which it uses what
// every server of it has: one writer a stream sends a message when the one before is acknowledged.
type benchStreamsCmd struct {
	URL      []string      `name:"url" help:"Servers; the streams are spread over them." default:"http://127.0.0.1:4437" placeholder:"URL,…"`
	Streams  []int         `help:"How many streams, one measurement each." default:"1,16,64" placeholder:"N,…"`
	Size     int           `help:"Bytes of a message's JSON." default:"256"`
	Duration time.Duration `help:"How long each measurement takes." default:"3s"`
	Output   string        `short:"o" enum:"text,json" default:"text" help:"text, or json: one measurement a line."`
}

// Validate refuses measurements of nothing.
func (c *benchStreamsCmd) Validate() error {
	for _, n := range c.Streams {
		if n < 1 {
			return positive("streams")
		}
	}
	return positives("size", c.Size, "duration", int(c.Duration))
}

// Run measures once for each number of streams.
func (c *benchStreamsCmd) Run(ctx context.Context, t *terminal) error {
	for _, n := range c.Streams {
		r, err := c.measure(ctx, n)
		if err != nil {
			return err
		}
		if c.Output == "json" {
			if err := printJSONLine(t.out, r); err != nil {
				return err
			}
		} else {
			fmt.Fprintf(t.out, "streams append size=%d  streams=%-4d %8.0f/s  p50=%-9s p99=%-9s errors=%d busy=%.2f\n",
				c.Size, n, r.PerSecond, r.P50.Round(time.Microsecond), r.P99.Round(time.Microsecond), r.Errors, r.BusyCores)
			if r.FirstErr != "" {
				fmt.Fprintf(t.err, "first error: %s\n", oneLine(r.FirstErr))
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

func (c *benchStreamsCmd) measure(ctx context.Context, streams int) (load.Result, error) {
	prefix, body := benchPrefix(), []byte(`"`+filler(c.Size-2)+`"`)
	ops := make([]load.Op, streams)
	for i := range ops {
		addr := hostPort(c.URL[i%len(c.URL)])
		path := fmt.Sprintf("/v1/stream/%s-%d", prefix, i)
		if err := c.begin(ctx, "http://"+addr+path, body); err != nil {
			return load.Result{}, err
		}
		conn, err := load.Dial(addr)
		if err != nil {
			return load.Result{}, err
		}
		defer conn.Close()
		request := load.Request("POST", addr, path, jsonHeader, body)
		ops[i] = func() error { return conn.Do(request) }
	}
	return load.Run(ctx, ops, c.Duration), nil
}

// begin makes a stream and appends its first message. Some servers answer the creation before the
// stream can be appended to, so that takes several attempts; it is not measured.
func (c *benchStreamsCmd) begin(ctx context.Context, url string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, benchPatience)
	defer cancel()
	if status, err := sendJSON(ctx, http.MethodPut, url, nil); err != nil || status != http.StatusCreated {
		return fmt.Errorf("create %s: status %d, %v", url, status, err)
	}
	for {
		status, err := sendJSON(ctx, http.MethodPost, url, body)
		if err != nil {
			return fmt.Errorf("append to %s: %w", url, err)
		}
		if status/100 == 2 {
			return nil
		}
		if pause(ctx, 20*time.Millisecond); ctx.Err() != nil {
			return fmt.Errorf("append to %s: status %d", url, status)
		}
	}
}

func sendJSON(ctx context.Context, method, url string, body []byte) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}
