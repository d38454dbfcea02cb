package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

var errSilent = errors.New("the server fell silent")

// attempt sends the stream once. What it returns is nil on success only.
func (r *replay) attempt(ctx context.Context, at uint32) (ReplayResult, *failure) {
	source, err := r.source()
	if err != nil {
		return ReplayResult{}, &failure{err: fmt.Errorf("source: %w", err), final: true}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := newWatch(max(min(r.c.attempt, r.c.retry-r.silent), time.Millisecond), func() { cancel(errSilent) })
	body := &replayBody{source: source, watch: w}
	// The transport does not close it when the answer came early and a Read is under way.
	defer body.Close()
	result, f := r.exchange(ctx, at, body)
	r.silent += w.stop()
	if err := body.failed(); f != nil && err != nil {
		f = &failure{err: fmt.Errorf("source: %w", err), final: true, ambiguous: f.ambiguous}
	}
	return result, f
}

// exchange is the request and its answer.
func (r *replay) exchange(ctx context.Context, at uint32, body *replayBody) (ReplayResult, *failure) {
	req, err := r.c.request(ctx, at, &call{method: http.MethodPost, path: runPath(r.run, "/replay"), header: http.Header{
		"Run-Epoch":       {strconv.FormatUint(uint64(r.epoch), 10)},
		"Content-Type":    {"application/x-ndjson"},
		"Accept":          {"application/x-ndjson"},
		"Accept-Encoding": {"identity"},
	}})
	if err != nil {
		body.Close()
		return ReplayResult{}, &failure{err: err, final: true}
	}
	req.Body, req.ContentLength = body, -1
	resp, err := r.c.http.Do(req)
	if err != nil {
		return ReplayResult{}, &failure{err: cause(ctx, err), ambiguous: body.begun()}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return ReplayResult{}, judge(resp)
	}
	return r.read(ctx, resp.Body, body.watch)
}

// read follows the answer: progress, and the result or a problem as the last line.
func (r *replay) read(ctx context.Context, answer io.Reader, w *watch) (ReplayResult, *failure) {
	w.heard()
	lines := bufio.NewScanner(answer)
	lines.Buffer(make([]byte, 0, 4<<10), maxProblemBytes)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			w.heard()
			continue
		}
		var line struct {
			ReplayResult
			Through *uint64         `json:"through"`
			Problem json.RawMessage `json:"problem"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return ReplayResult{}, &failure{err: fmt.Errorf("the server's answer cannot be read: %w", err), ambiguous: true}
		}
		switch {
		case line.Problem != nil:
			return ReplayResult{}, judgeLine(line.Problem)
		case line.Through == nil:
			return line.ReplayResult, nil
		}
		if *line.Through > r.best {
			r.best, r.silent = *line.Through, 0
		}
		w.through(*line.Through)
		r.progress(ReplayProgress{*line.Through, line.Appended, line.Tail, line.CancelRequested})
	}
	err := lines.Err()
	if err == nil {
		err = errors.New("the server ended its answer before the result")
	}
	return ReplayResult{}, &failure{err: cause(ctx, err), ambiguous: true}
}

// judgeLine says what a problem means that came when the status had been sent.
func judgeLine(raw json.RawMessage) *failure {
	var p struct {
		Status int `json:"status"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return &failure{err: fmt.Errorf("the server's answer cannot be read: %w", err), ambiguous: true}
	}
	f := classify(p.Status, decodeProblem(p.Status, "application/problem+json", raw))
	f.ambiguous = true // of the stream as a whole: a part may have been appended before
	return f
}

// cause prefers why a context ended to that it did.
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	return err
}

// replayBody is the request's body: the source, watched. The transport reads it on a goroutine of
// its own, and closes it whatever happens.
type replayBody struct {
	source io.ReadCloser
	watch  *watch

	mu     sync.Mutex
	err    error // of the source, other than its end
	read   bool
	closed bool
}

// Read reads the source.
func (b *replayBody) Read(p []byte) (int, error) {
	n, err := b.source.Read(p)
	b.mu.Lock()
	b.read = b.read || n > 0
	if err != nil && !errors.Is(err, io.EOF) && !b.closed {
		b.err = err
	}
	b.mu.Unlock()
	b.watch.sent(p[:n], err != nil)
	return n, err
}

// Close closes the source, once.
func (b *replayBody) Close() error {
	b.mu.Lock()
	closed := b.closed
	b.closed = true
	b.mu.Unlock()
	if closed {
		return nil
	}
	return b.source.Close()
}

func (b *replayBody) failed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

func (b *replayBody) begun() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.read
}

// watch notices a server that falls silent: one that owes an answer, to events or to the end of
// the stream, and says nothing for the patience. While the source says nothing, and nothing is
// owed, neither need the server.
type watch struct {
	mu       sync.Mutex
	timer    *time.Timer
	patience time.Duration
	since    time.Time // when the present silence began; zero while nothing is owed
	lines    uint64    // sent
	part     bool      // a line is under way
	done     uint64    // confirmed
	end      bool      // the whole stream was sent
}

func newWatch(patience time.Duration, silent func()) *watch {
	// The answer to the connection itself is owed.
	return &watch{timer: time.AfterFunc(patience, silent), patience: patience, since: time.Now()}
}

// sent notes what went out, and whether it was the last.
func (w *watch) sent(p []byte, end bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range bytes.Lines(p) {
		w.part = w.part || len(bytes.TrimSpace(line)) > 0
		if w.part && line[len(line)-1] == '\n' {
			w.lines, w.part = w.lines+1, false
		}
	}
	w.end = w.end || end
	if w.since.IsZero() && w.owed() {
		w.since = time.Now()
		w.timer.Reset(w.patience)
	}
}

// heard notes a sign of life.
func (w *watch) heard() { w.through(0) }

// through notes how many lines are confirmed.
func (w *watch) through(n uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = max(w.done, n)
	if w.owed() {
		w.since = time.Now()
		w.timer.Reset(w.patience)
		return
	}
	w.since = time.Time{}
	w.timer.Stop()
}

func (w *watch) owed() bool { return w.end || w.lines > w.done }

// stop ends the watch and returns how long the last silence was.
func (w *watch) stop() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	if w.since.IsZero() {
		return 0
	}
	return time.Since(w.since)
}
