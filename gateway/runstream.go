package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
)

// RunStreams reads runs as the Durable Streams protocol shows them; fsm.Machine implements it.
type RunStreams interface {
	// RunMessages is Reader's Records with the messages as they were sent: records stay wrapped.
	RunMessages(ctx context.Context, id event.RunID, from event.Offset, maxRecords, maxBytes int) (event.Page, error)
}

// runStream is the stream runs/<id>: the run of that id, which the native API serves too.
type runStream struct {
	g   *Gateway
	id  event.RunID
	out http.Header // of the answer: what the protocol has no field for
	// records: the path is that of TanStack AI's adapter, which reads records alone.
	records bool
}

// onRun finishes what a handler of the protocol made of a request for a run.
func (s runStream) onRun(c *gin.Context, h func(*gin.Context, streamLog) error) error {
	s.out = c.Writer.Header()
	s.records = strings.HasPrefix(c.Request.URL.Path, tanstackPrefix)
	err := checkID("path", "runId", string(s.id))
	if err == nil {
		err = h(c, s)
	}
	if c.Request.Method != http.MethodGet && c.Request.Method != http.MethodHead {
		err = s.fencedFirst(c.Request, err)
	}
	return s.refused(err)
}

// fencedFirst returns Fenced instead of any other complaint about a request whose Run-Epoch is below
// the run's: that is answered before anything else is looked at.
func (s runStream) fencedFirst(r *http.Request, complaint error) error {
	epoch, err := numberHeader(r.Header, "Run-Epoch")
	if epoch == nil || err != nil || complaint == nil || errors.Is(complaint, event.ErrFenced) || s.g.freshen(r.Context()) != nil {
		return complaint
	}
	if run, err := s.g.reader.Run(r.Context(), s.id); err == nil && event.Epoch(*epoch) < run.Epoch {
		return &event.Fenced{Epoch: event.Epoch(*epoch), CurrentEpoch: run.Epoch}
	}
	return complaint
}

// forbidden answers with the problem of an error, but with 403: what makes this protocol's producers stop.
type forbidden struct{ error }

func (f forbidden) Unwrap() error { return f.error }

// refused tells the protocol's clients what a refusal means.
func (s runStream) refused(err error) error {
	var fenced *event.Fenced
	var required *event.EpochRequired
	switch {
	case errors.As(err, &fenced):
		s.out["Producer-Epoch"] = []string{fmt.Sprint(fenced.CurrentEpoch)}
	case errors.As(err, &required):
		s.out["Producer-Epoch"] = []string{fmt.Sprint(required.CurrentEpoch)}
	case errors.Is(err, event.ErrLeaseHeld):
	default:
		return err
	}
	return forbidden{err}
}

// writer is what the headers of a write say about who writes.
type writer struct {
	epoch      *event.Epoch
	holder     event.HolderID
	leaseMs    int64
	takeoverMs *int64
}

func (s runStream) writer(h http.Header) (w writer, err error) {
	epoch, err := numberHeader(h, "Run-Epoch")
	if err != nil {
		return w, err
	}
	w.epoch = (*event.Epoch)(epoch)
	holder, named, err := header(h, "Run-Holder")
	if err == nil && named {
		err = checkID("header", "Run-Holder", holder)
	}
	if err != nil {
		return w, err
	}
	w.holder = event.HolderID(holder)
	lease, err := msHeader(h, "Run-Lease-Ms", s.g.cfg.MinLease.Milliseconds(), maxLeaseMs)
	switch {
	case err != nil:
		return w, err
	case lease != nil && !named:
		return w, &inputError{"header", "Run-Lease-Ms", "needs a Run-Holder"}
	case lease != nil:
		w.leaseMs = *lease
	}
	w.takeoverMs, err = msHeader(h, "Run-Takeover-Ms", 0, maxTakeoverMs)
	return w, err
}

func msHeader(h http.Header, name string, least, most int64) (*int64, error) {
	n, err := numberHeader(h, name)
	if n == nil || err != nil {
		return nil, err
	}
	if ms := int64(*n); ms >= least && ms <= most {
		return &ms, nil
	}
	return nil, &inputError{"header", name, fmt.Sprintf("must be from %d to %d", least, most)}
}

// runMessages reads the body of a write; runs hold JSON alone.
func runMessages(contentType string, body []byte) (m event.RunMessages, err error) {
	if contentType != event.JSONContentType && (contentType != "" || len(body) > 0) {
		return m, &event.ContentTypeConflict{ContentType: event.JSONContentType}
	}
	messages, err := splitBody(event.JSONContentType, body)
	if err != nil || len(messages) == 0 {
		return m, err
	}
	if len(messages) > event.MaxBatchEvents {
		return m, &event.TooLarge{What: "events in the batch", Limit: event.MaxBatchEvents}
	}
	m.Events, m.Seqs, err = event.ParseMessages(messages)
	return m, err
}

func (s runStream) propose(ctx context.Context, c event.Command) (event.Result, error) {
	r, err := s.g.node.Propose(ctx, c)
	if err == nil && r.Refusal != nil {
		err = r.Refusal
	}
	if r.Run != nil && r.Run.Epoch > 0 {
		s.out["Run-Epoch"] = []string{fmt.Sprint(r.Run.Epoch)}
	}
	return r, err
}

func (s runStream) create(ctx context.Context, r *streamCreate) (event.Stream, bool, uint64, error) {
	w, err := s.writer(r.header)
	switch {
	case err != nil:
		return event.Stream{}, false, 0, err
	case r.ttlSeconds != nil || r.expiresAt != nil:
		return event.Stream{}, false, 0, &inputError{"header", "Stream-TTL", "and Stream-Expires-At are not for runs: a run ends with its terminal event"}
	case r.fork != nil:
		return event.Stream{}, false, 0, &inputError{"header", "Stream-Forked-From", "makes a plain stream, whose name must not begin with runs/"}
	}
	thread, named, err := header(r.header, "Run-Thread")
	if err == nil && named {
		err = checkID("header", "Run-Thread", thread)
	}
	if err != nil {
		return event.Stream{}, false, 0, err
	}
	c := &event.OpenRunStream{Run: s.id, Thread: event.ThreadID(thread), Epoch: w.epoch, Holder: w.holder, LeaseMs: w.leaseMs, TakeoverMs: w.takeoverMs, Closed: r.closed, Records: s.records}
	if c.Holder != "" && c.LeaseMs == 0 {
		c.LeaseMs = defaultLeaseMs
	}
	if c.Messages, err = runMessages(r.contentType, r.body); err != nil {
		return event.Stream{}, false, 0, err
	}
	_, _ = rand.Read(c.Key[:]) // as for plain streams
	res, err := s.propose(ctx, c)
	if err != nil {
		return event.Stream{}, false, res.Index, err
	}
	return s.view(res.Run), res.Created, res.Index, nil
}

func (s runStream) append(ctx context.Context, r *streamAppend) (event.StreamResult, uint64, error) {
	w, err := s.writer(r.header)
	if err != nil {
		return event.StreamResult{}, 0, err
	}
	c := &event.AppendRunStream{
		Run: s.id, Epoch: w.epoch, Holder: w.holder, LeaseMs: w.leaseMs, Close: r.close, Seq: r.seq, Producer: r.producer,
	}
	if c.Messages, err = runMessages(r.contentType, r.body); err != nil {
		return event.StreamResult{}, 0, err
	}
	if len(r.body) > 0 && len(c.Messages.Events) == 0 {
		return event.StreamResult{}, 0, &inputError{"body", "", "is an empty array; an append holds at least one message"}
	}
	s.g.metrics.appendEvents.Observe(float64(len(c.Messages.Events)))
	res, err := s.propose(ctx, c)
	if err != nil {
		return event.StreamResult{}, res.Index, err
	}
	answer := *res.Stream
	answer.Stream = s.view(res.Run)
	// To its writer the stream is closed, even where the run waits for another one.
	answer.Stream.Closed = answer.Stream.Closed || r.close
	return answer, res.Index, nil
}

func (s runStream) delete(ctx context.Context, h http.Header) (uint64, error) {
	if epoch, err := numberHeader(h, "Run-Epoch"); err != nil {
		return 0, err
	} else if epoch != nil {
		if err := s.g.freshen(ctx); err != nil {
			return 0, err
		}
		if run, err := s.g.reader.Run(ctx, s.id); err == nil && event.Epoch(*epoch) < run.Epoch {
			return 0, &event.Fenced{Epoch: event.Epoch(*epoch), CurrentEpoch: run.Epoch}
		}
	}
	res, err := s.propose(ctx, event.DeleteRun{Run: s.id})
	return res.Index, err
}

// view is the run as a stream: closed once it has ended, whatever its writers closed.
func (s runStream) view(run *event.Run) event.Stream {
	return event.Stream{
		Name: event.StreamName(runStreams + string(s.id)), Generation: s.generation(), ContentType: event.JSONContentType,
		Tail: run.Tail, Closed: run.Ended,
	}
}

// generation: a run's id is never used twice.
func (s runStream) generation() event.Generation {
	return event.Generation("run:" + url.PathEscape(string(s.id)))
}

func (s runStream) head(ctx context.Context) (event.Stream, error) {
	run, err := s.g.reader.Run(ctx, s.id)
	if err != nil {
		return event.Stream{}, err
	}
	if run.Epoch > 0 {
		s.out["Run-Epoch"] = []string{fmt.Sprint(run.Epoch)}
	}
	return s.view(&run), nil
}

func (s runStream) read(ctx context.Context, from event.Offset, maxMessages, maxBytes int) (event.StreamPage, error) {
	p, err := s.g.cfg.RunStreams.RunMessages(ctx, s.id, from, maxMessages, maxBytes)
	return event.StreamPage{Messages: p.Records, Tail: p.Tail, Closed: p.Ended, Generation: s.generation()}, err
}

func (s runStream) touch(context.Context, *event.Stream) error { return nil }

func (s runStream) watch() Watch { return s.g.reader.Watch(s.id) }
