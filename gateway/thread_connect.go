package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/projection"
)

// maxConnectBytes bounds the body of a connect: AG-UI clients send all the messages that they hold,
// of which only the ids are kept.
const maxConnectBytes = 32 << 20

// maxHeldIDs bounds the messages that a connecting client may hold.
const maxHeldIDs = 100_000

// connectThread is POST /v1/threads/{threadId}/connect, for AG-UI clients, which can only POST: the
// server-sent events of ?join=snapshot of the open run, or, when no run is open, the snapshot and
// the end of the last run. Of the RunAgentInput only ids are read.
func (g *Gateway) connectThread(c *gin.Context) error {
	id, err := threadID(c)
	if err != nil {
		return err
	}
	fresh := newQuery(c.Request)
	f := fresh.freshness()
	if fresh.err != nil {
		return fresh.err
	}
	in, err := readConnect(c)
	if err != nil {
		return err
	}
	if in.thread != "" && in.thread != id {
		return &inputError{"body", "threadId", "is not the thread of the path"}
	}
	ctx := c.Request.Context()
	if err := g.settle(ctx, "", f); err != nil {
		return err
	}
	view, err := g.threads.Thread(ctx, id, event.ThreadQuery{Limit: 1})
	if err != nil {
		return err
	}
	if len(view.Runs) == 0 { // a node that lags must not say that nothing was ever said
		if err := g.settle(ctx, "", freshness{linearizable: true}); err != nil {
			return err
		}
		if view, err = g.threads.Thread(ctx, id, event.ThreadQuery{Limit: 1}); err != nil {
			return err
		}
	}
	if view.ActiveRun != nil {
		scope := event.ScopeThread
		t := &tail{feed: feed{g: g, c: c, sse: true}, sel: selection{run: view.ActiveRun.RunID}, live: true, frame: appendSSE, join: &scope, held: in.held, late: true}
		return t.serve()
	}
	return g.serveFeed(c, true, g.threads.WatchThread(id), "connect", func(ctx context.Context, f *feed) error {
		return f.connectEnded(ctx, id, in)
	})
}

// awaitFirst waits for the first event of a run that a client connects to: before it there is nothing
// to tell the run's beginning by, and behind it no place for the thread's earlier messages.
func (t *tail) awaitFirst(ctx context.Context) error {
	for t.late {
		changed := t.watch.C()
		run, err := t.g.reader.Run(ctx, t.sel.run)
		if err != nil || run.Tail > 0 {
			return err
		}
		if err := t.open(); err != nil {
			return err
		}
		if err := t.wait(ctx, changed); err != nil {
			return err
		}
		if t.g.isDraining() {
			return errDrained
		}
	}
	return nil
}

// connectEnded sends a client what a thread without an open run amounts to.
func (f *feed) connectEnded(ctx context.Context, id event.ThreadID, in *connectInput) error {
	var frames []byte
	free, err := f.g.folding(ctx, func() ([]byte, error) {
		events, err := f.g.endedThread(ctx, id, in)
		for _, raw := range events {
			frames = appendData(frames, raw)
		}
		return frames, err
	})
	if err != nil {
		return err
	}
	defer free()
	if err := f.open(); err != nil {
		return err
	}
	return f.write(frames)
}

// endedThread returns those events. The end comes from the run that the folds end with, so that
// all of it is of one moment; a run that began since is left to the client's next connect.
func (g *Gateway) endedThread(ctx context.Context, id event.ThreadID, in *connectInput) ([][]byte, error) {
	for range maxThreadReads {
		view, err := g.threads.Thread(ctx, id, event.ThreadQuery{Limit: 1})
		if err != nil {
			return nil, err
		}
		fold, err := g.threads.FoldThread(ctx, id, "", projection.KindTranscript, projection.KindState)
		if err != nil {
			return nil, err
		}
		if len(fold.Runs) == 0 {
			return projection.ConnectEmpty(in.run, id), nil
		}
		last := fold.Runs[len(fold.Runs)-1]
		if len(view.Runs) == 0 || view.Runs[0].RunID != last.RunID || !last.Ended {
			continue
		}
		page, err := g.reader.Records(ctx, last.RunID, last.Tail-1, 1, 1)
		if movedOn(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		projection.BeginRun(fold.Folds[0], last.RunID) // nobody can go on with what the run left open
		events := projection.Connect(last.RunID, id, fold.Folds[0], fold.Folds[1], in.held)
		return append(events, projection.ConnectEnd(last.RunID, id, page.Records[0].Raw, pendingOf(view.Interrupts))), nil
	}
	return nil, errUnavailable
}

func pendingOf(interrupts []event.Interrupt) []json.RawMessage {
	var pending []json.RawMessage
	for _, i := range interrupts {
		if i.Status == event.InterruptPending {
			pending = append(pending, i.Interrupt)
		}
	}
	return pending
}

// connectInput is what is read of a RunAgentInput.
type connectInput struct {
	thread event.ThreadID
	run    event.RunID
	held   []string // ids of the client's messages, in its order
}

// readConnect reads a RunAgentInput as it comes, holding one message at a time.
func readConnect(c *gin.Context) (*connectInput, error) {
	if e := c.Request.Header["Content-Encoding"]; len(e) > 0 && e[0] != "identity" {
		return nil, errEncoding
	}
	in := &connectInput{run: newRunID("")}
	dec := json.NewDecoder(http.MaxBytesReader(unwrap(c.Writer), c.Request.Body, maxConnectBytes))
	err := in.read(dec)
	var input *inputError
	var tooLong *http.MaxBytesError
	switch {
	case err == nil, errors.As(err, &input), errors.As(err, &tooLong):
		return in, err
	case errors.Is(err, io.EOF) && dec.InputOffset() == 0:
		return in, nil // an empty body asks for nothing in particular
	case errors.As(err, new(*json.SyntaxError)), errors.As(err, new(*json.UnmarshalTypeError)), errors.Is(err, errNotObject):
		return nil, &inputError{"body", "", "is not a RunAgentInput"}
	}
	return nil, bodyError(err)
}

var errNotObject = errors.New("not an object")

func (in *connectInput) read(dec *json.Decoder) error {
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.Join(err, errNotObject)
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		switch name {
		case "threadId":
			err = decodeID(dec, "threadId", (*string)(&in.thread))
		case "runId":
			err = decodeID(dec, "runId", (*string)(&in.run))
		case "messages":
			err = in.readMessages(dec)
		default:
			var skipped json.RawMessage
			err = dec.Decode(&skipped)
		}
		if err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

func decodeID(dec *json.Decoder, name string, to *string) error {
	var s *string
	if err := dec.Decode(&s); err != nil || s == nil || *s == "" {
		return err
	}
	*to = *s
	return checkID("body", name, *s)
}

func (in *connectInput) readMessages(dec *json.Decoder) error {
	t, err := dec.Token()
	if err != nil || t == nil {
		return err
	}
	if t != json.Delim('[') {
		return &inputError{"body", "messages", "must be an array"}
	}
	for dec.More() {
		var m struct{ ID string }
		if err := dec.Decode(&m); err != nil {
			return err
		}
		if len(in.held) == maxHeldIDs {
			return &inputError{"body", "messages", "has over " + itoa(maxHeldIDs) + " elements"}
		}
		in.held = append(in.held, m.ID)
	}
	_, err = dec.Token()
	return err
}
