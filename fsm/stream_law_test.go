package fsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"github.com/runlog/runlog/event"
)

var streamNames = []event.StreamName{"s1", "s2", "s3", "s4"}

func genStreamCommand(t *rapid.T) event.Command {
	name := rapid.SampledFrom(streamNames).Draw(t, "stream")
	switch rapid.IntRange(0, 9).Draw(t, "stream kind") {
	case 0, 1, 2:
		return genCreateStream(t, name)
	case 3:
		return event.DeleteStream{Name: name}
	case 4:
		return event.TouchStream{Name: name, Generation: event.Generation(newStreamID(rapid.Uint64Range(2, 9).Draw(t, "index"), 0).String())}
	case 5:
		return event.ExpireStream{Name: name, Generation: event.Generation(newStreamID(rapid.Uint64Range(2, 9).Draw(t, "index"), 0).String())}
	}
	c := &event.AppendStream{Name: name, ContentType: rapid.SampledFrom([]string{"text/plain", "text/plain", "image/png"}).Draw(t, "type")}
	for range rapid.IntRange(0, 3).Draw(t, "messages") {
		c.Messages = append(c.Messages, []byte(rapid.StringN(0, 9, -1).Draw(t, "message")))
	}
	c.Close = len(c.Messages) == 0 || rapid.IntRange(0, 9).Draw(t, "close") == 0
	c.Seq = rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "seq")
	if rapid.Bool().Draw(t, "producer") {
		c.Producer = &event.Producer{ID: event.ProducerID(rapid.SampledFrom([]string{"p1", "p2"}).Draw(t, "id")),
			Epoch: rapid.Uint64Range(0, 1).Draw(t, "epoch"), Seq: rapid.Uint64Range(0, 3).Draw(t, "seq number")}
	}
	return c
}

func genCreateStream(t *rapid.T, name event.StreamName) event.Command {
	c := &event.CreateStream{Name: name, ContentType: rapid.SampledFrom([]string{"", "text/plain", "text/plain"}).Draw(t, "type")}
	if rapid.IntRange(0, 2).Draw(t, "ttl?") == 0 {
		c.TTLSeconds = ptr(int64(rapid.IntRange(0, 4).Draw(t, "ttl")))
	}
	c.Closed = rapid.IntRange(0, 9).Draw(t, "closed") == 0
	if rapid.Bool().Draw(t, "fork?") {
		c.Fork = &event.Fork{Source: rapid.SampledFrom(streamNames).Draw(t, "source")}
		if rapid.IntRange(0, 3).Draw(t, "of a run?") == 0 {
			c.Fork.Source, c.Fork.OfRun, c.ContentType = "r1", true, ""
		}
		if rapid.Bool().Draw(t, "at?") {
			at := event.Offset(rapid.Uint64Range(0, 4).Draw(t, "at"))
			c.Fork.At, c.Fork.Requested = &at, &at
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "messages") {
		c.Messages = append(c.Messages, []byte(rapid.StringN(0, 9, -1).Draw(t, "message")))
	}
	if rapid.IntRange(0, 3).Draw(t, "key?") == 0 {
		c.Key = event.HashKey("stream", rapid.SampledFrom([]string{"k1", "k2"}).Draw(t, "key"))
	}
	return c
}

// modelStream is a stream as a naive reader of the protocol keeps it: every fork a copy.
type modelStream struct {
	contentType string
	messages    []string
	closed      bool
	ttl         *int64
	touched     event.Time
	seq         string
	producers   map[event.ProducerID]event.Producer

	source *modelStream // whose deletion waits for this fork
	forks  int
	gone   bool
}

type model struct {
	now     event.Time
	streams map[event.StreamName]*modelStream
}

func (m *model) live(name event.StreamName) (*modelStream, error) {
	s := m.streams[name]
	switch {
	case s == nil:
		return nil, event.ErrStreamNotFound
	case s.gone:
		return nil, event.ErrStreamGone
	case m.over(s):
		return nil, event.ErrStreamNotFound
	}
	return s, nil
}

func (m *model) over(s *modelStream) bool {
	return s != nil && !s.gone && s.ttl != nil && int64(m.now-s.touched) >= *s.ttl*1000
}

func (m *model) end(name event.StreamName) {
	s := m.streams[name]
	if s.forks > 0 {
		s.gone = true
		return
	}
	delete(m.streams, name)
	for from := s.source; from != nil; from = from.source {
		if from.forks--; from.forks > 0 || !from.gone {
			return
		}
		for n, other := range m.streams {
			if other == from {
				delete(m.streams, n)
			}
		}
	}
}

func (m *model) create(c *event.CreateStream) (created bool, err error) {
	if m.over(m.streams[c.Name]) {
		m.end(c.Name)
	}
	if s := m.streams[c.Name]; s != nil {
		if s.gone {
			return false, event.ErrStreamGone
		}
		return false, nil // whether it is the same is another test's
	}
	s := &modelStream{contentType: c.ContentType, closed: c.Closed, ttl: c.TTLSeconds, touched: m.now, producers: map[event.ProducerID]event.Producer{}}
	if f := c.Fork; f != nil {
		from, err := m.live(f.Source)
		if err != nil {
			return false, event.ErrForkSource
		}
		if s.contentType == "" {
			s.contentType = from.contentType
		}
		if s.contentType != from.contentType {
			return false, event.ErrContentType
		}
		at := len(from.messages)
		if f.At != nil {
			at = int(*f.At)
		}
		if at > len(from.messages) {
			return false, event.ErrForkOffset
		}
		if s.ttl == nil {
			s.ttl = from.ttl
		}
		s.messages = slices.Clone(from.messages[:at])
		s.source = from
		from.forks++
	}
	if s.contentType == "" {
		s.contentType = defaultContentType
	}
	for _, b := range c.Messages {
		s.messages = append(s.messages, string(b))
	}
	m.streams[c.Name] = s
	return true, nil
}

func (m *model) append(c *event.AppendStream) (duplicate bool, err error) {
	s, err := m.live(c.Name)
	if err != nil {
		return false, err
	}
	var known event.Producer
	var isKnown bool
	if p := c.Producer; p != nil {
		known, isKnown = s.producers[p.ID]
		switch {
		case isKnown && p.Epoch < known.Epoch:
			return false, event.ErrProducerFenced
		case isKnown && p.Epoch == known.Epoch && p.Seq <= known.Seq:
			return true, nil
		}
	}
	if s.closed {
		if c.Close && len(c.Messages) == 0 && c.Producer == nil {
			return false, nil
		}
		return false, event.ErrStreamClosed
	}
	if len(c.Messages) > 0 && c.ContentType != s.contentType {
		return false, event.ErrContentType
	}
	if p := c.Producer; p != nil {
		switch {
		case isKnown && p.Epoch > known.Epoch && p.Seq != 0:
			return false, event.ErrProducerReset
		case isKnown && p.Epoch == known.Epoch && p.Seq != known.Seq+1, !isKnown && p.Seq != 0:
			return false, event.ErrProducerGap
		}
	}
	if c.Seq != "" && s.seq != "" && c.Seq <= s.seq {
		return false, event.ErrStreamSeqConflict
	}
	for _, b := range c.Messages {
		s.messages = append(s.messages, string(b))
	}
	s.closed, s.touched = c.Close, m.now
	if c.Seq != "" {
		s.seq = c.Seq
	}
	if c.Producer != nil {
		s.producers[c.Producer.ID] = *c.Producer
	}
	return false, nil
}

// TestStreamsKeepToTheProtocol: whatever is done to a few streams, in whatever order and however often it
// was flushed, the machine answers and holds what the model does; and a restored copy does too.
func TestStreamsKeepToTheProtocol(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := open(t, "")
		defer m.close(t)
		mod := &model{streams: map[event.StreamName]*modelStream{}}
		mod.now = 1000
		m.Apply(lawEntry(1, mod.now, event.LeaderStart{Term: 1}))
		for i := range rapid.IntRange(1, 40).Draw(t, "commands") {
			c := genStreamCommand(t)
			if create, ok := c.(*event.CreateStream); ok && create.Fork != nil && create.Fork.OfRun {
				continue
			}
			mod.now += event.Time(rapid.SampledFrom([]int{0, 1, 700, 2500}).Draw(t, "later"))
			r := m.Apply(lawEntry(uint64(i)+2, mod.now, c)).([]event.Result)[0]
			if msg := mod.agrees(c, r); msg != "" {
				t.Fatalf("%T %+v: %s; answered %+v", c, c, msg, r)
			}
			if rapid.IntRange(0, 3).Draw(t, "flush?") == 0 {
				m.flushNow(t)
			}
		}
		m.holds(t, mod)
		var export bytes.Buffer
		if _, err := m.Export(context.Background(), &export); err != nil {
			t.Fatal(err)
		}
		before := m.sums(t)
		if err := m.Restore(io.NopCloser(&export)); err != nil {
			t.Fatal(err)
		}
		if after := m.sums(t); after != before {
			t.Fatalf("restored: %+v, was %+v", after, before)
		}
		m.holds(t, mod)
	})
}

func lawEntry(index uint64, now event.Time, c event.Command) *raft.Log {
	return &raft.Log{Index: index, Term: 1, Type: raft.LogCommand, Data: event.AppendEntry(nil, event.Entry{Time: now, Commands: []event.Command{c}})}
}

// agrees applies a command to the model and says in what the machine's answer differs.
func (m *model) agrees(c event.Command, r event.Result) string {
	var want error
	switch c := c.(type) {
	case *event.CreateStream:
		if errors.Is(r.Refusal, event.ErrStreamExists) {
			if s := m.streams[c.Name]; s == nil || s.gone || m.over(s) {
				return "there is no such stream"
			}
			return ""
		}
		if s := m.streams[c.Name]; r.Created && r.Refusal == nil && s != nil && !m.over(s) {
			return "" // a repeated key
		}
		var created bool
		if created, want = m.create(c); want == nil && created != r.Created {
			return fmt.Sprintf("created must be %v", created)
		}
	case *event.AppendStream:
		var duplicate bool
		if duplicate, want = m.append(c); want == nil && r.Stream != nil && duplicate != r.Stream.Duplicate {
			return fmt.Sprintf("duplicate must be %v", duplicate)
		}
	case event.DeleteStream:
		if _, want = m.live(c.Name); want == nil {
			m.end(c.Name)
		}
	case event.TouchStream:
		var s *modelStream
		if s, want = m.live(c.Name); want == nil && r.Stream != nil && r.Stream.Stream.Generation == c.Generation && s.ttl != nil {
			s.touched = m.now
		}
	case event.ExpireStream:
		if r.Refusal != nil {
			return ""
		}
		if !m.over(m.streams[c.Name]) {
			return "the stream is not overdue"
		}
		m.end(c.Name)
	}
	if (want == nil) != (r.Refusal == nil) || want != nil && !errors.Is(r.Refusal, want) {
		return fmt.Sprintf("the refusal must be %v", want)
	}
	return ""
}

// holds compares every stream, from every offset.
func (m *machine) holds(t *rapid.T, mod *model) {
	t.Helper()
	for _, name := range streamNames {
		want, wantErr := mod.live(name)
		m.mu.Lock()
		s, err := m.findStream(name)
		var v event.Stream
		if err == nil {
			v = s.view(m.active.meta.clocks())
			if s.gone {
				err = event.ErrStreamGone
			} else if s.overdue(m.active.meta.clocks()) {
				err = event.ErrStreamNotFound
			}
		}
		m.mu.Unlock()
		if !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
			t.Fatalf("%s: %v, want %v", name, err, wantErr)
		}
		if err != nil {
			continue
		}
		if v.ContentType != want.contentType || int(v.Tail) != len(want.messages) || v.Closed != want.closed || v.LastSeq != want.seq {
			t.Fatalf("%s: %+v, want %+v", name, v, want)
		}
		for from := range len(want.messages) + 1 {
			if got := m.streamMessages(t, s, event.Offset(from)); !slices.Equal(got, want.messages[from:]) {
				t.Fatalf("%s from %d: %q, want %q", name, from, got, want.messages[from:])
			}
		}
	}
}

// streamMessages reads a stream whatever the clock says.
func (m *machine) streamMessages(t *rapid.T, s *stream, from event.Offset) []string {
	t.Helper()
	m.mu.RLock()
	parts, err := m.partsOf(s)
	m.mu.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	err = parts.each(context.Background(), from, func(r event.Record) bool {
		if int(r.Offset) != int(from)+len(got) {
			t.Fatalf("offset %d after %d messages from %d", r.Offset, len(got), from)
		}
		got = append(got, string(r.Raw))
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestDeletedRunThatForksRead: what is left of a deleted run that forks read does not depend on
// whether it was flushed before it was deleted.
func TestDeletedRunThatForksRead(t *testing.T) {
	t.Parallel()
	var want sums
	for _, flushes := range []bool{false, true} {
		m := open(t, "")
		for _, c := range []event.Command{
			event.LeaderStart{Term: 1},
			batch(t, "r", started, `{"type":"TEXT_MESSAGE_START","messageId":"m"}`, `{"type":"RUN_ERROR","message":"m"}`),
			event.PatchRun{Run: "r", Patch: []byte(`{"a":1}`)},
			&event.CreateStream{Name: "s", Fork: &event.Fork{Source: "r", OfRun: true}},
			event.DeleteRun{Run: "r"},
		} {
			if r := m.do(t, c)[0]; r.Refusal != nil {
				t.Fatal(r.Refusal)
			}
			if flushes {
				m.flushNow(t)
			}
		}
		page, err := m.Messages(t.Context(), "s", 0, 10, 1<<20)
		if err != nil || len(page.Messages) != 3 {
			t.Fatalf("%d messages, %v", len(page.Messages), err)
		}
		if got := m.sums(t); flushes && got != want {
			t.Fatalf("flushed in between %x, otherwise %x", got, want)
		} else {
			want = got
		}
		m.close(t)
	}
}
