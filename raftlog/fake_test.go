package raftlog

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/event"
)

// fakeDisk is what a fakeState has flushed; it outlives the state, as a disk does a process.
type fakeDisk struct {
	mu    sync.Mutex
	image []byte // gob of fakeImage; nil: nothing flushed
}

type fakeImage struct {
	Applied, LeaderTerm uint64
	Time                event.Time
	ClusterID           string
	Runs                map[event.RunID]*fakeRun
	Keys                map[event.IdempotencyKey]event.RunID
	Roster              event.Roster
}

type fakeRun struct {
	Records   []event.Record
	Producers map[event.ProducerID]fakeProducer
	Deleted   bool
}

type fakeProducer struct {
	Seq  uint64
	Last event.Appended
}

// fakeState is a naive State: runs as slices, flushed only by Persist and Restore.
type fakeState struct {
	disk *fakeDisk

	mu      sync.Mutex
	img     fakeImage
	changed signal
	// beforeApply is called with each entry, before it is applied.
	beforeApply atomic.Pointer[func(event.Entry)]
	restores    int
}

func openFake(disk *fakeDisk) *fakeState {
	s := &fakeState{disk: disk}
	disk.mu.Lock()
	defer disk.mu.Unlock()
	if disk.image != nil {
		s.load(disk.image)
	}
	s.blankMaps()
	return s
}

func (s *fakeState) blankMaps() {
	if s.img.Runs == nil {
		s.img.Runs = map[event.RunID]*fakeRun{}
	}
	if s.img.Keys == nil {
		s.img.Keys = map[event.IdempotencyKey]event.RunID{}
	}
}

func (s *fakeState) load(image []byte) {
	s.img = fakeImage{}
	if err := gob.NewDecoder(bytes.NewReader(image)).Decode(&s.img); err != nil {
		panic(err)
	}
	s.blankMaps()
}

func (s *fakeState) encode() []byte {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(s.img); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func (s *fakeState) Apply(l *raft.Log) any { return s.ApplyBatch([]*raft.Log{l})[0] }

func (s *fakeState) ApplyBatch(logs []*raft.Log) []any {
	answers := make([]any, len(logs))
	for i, l := range logs {
		if l.Type != raft.LogCommand {
			s.mu.Lock()
			s.img.Applied = max(s.img.Applied, l.Index)
			s.mu.Unlock()
			continue
		}
		e, err := event.DecodeEntry(l.Data)
		if err != nil {
			panic(err)
		}
		if f := s.beforeApply.Load(); f != nil {
			(*f)(e)
		}
		s.mu.Lock()
		if l.Index > s.img.Applied {
			s.img.Time = max(s.img.Time, e.Time)
			results := make([]event.Result, len(e.Commands))
			for k, c := range e.Commands {
				results[k] = s.applyOne(c)
				results[k].Index = l.Index
			}
			answers[i] = results
			s.img.Applied = l.Index
		}
		s.mu.Unlock()
	}
	s.changed.Notify()
	return answers
}

func (s *fakeState) applyOne(c event.Command) event.Result {
	switch c := c.(type) {
	case event.LeaderStart:
		s.img.LeaderTerm = c.Term
		if s.img.ClusterID == "" {
			s.img.ClusterID = c.ClusterID
		}
	case event.RaiseLevel:
		s.img.Roster.Level = c.Level
	case event.SetMember:
		s.img.Roster.Members = append(withoutMember(s.img.Roster.Members, c.ID), c.ClusterMember)
	case event.DropMember:
		s.img.Roster.Members = withoutMember(s.img.Roster.Members, c.ID)
	case *event.Append:
		return s.applyAppend(c)
	case event.CreateRun:
		if r := s.img.Runs[c.Run]; r != nil {
			same := c.Key != (event.IdempotencyKey{}) && s.img.Keys[c.Key] == c.Run
			return event.Result{Created: same}
		}
		s.img.Runs[c.Run] = &fakeRun{Producers: map[event.ProducerID]fakeProducer{}}
		s.img.Keys[c.Key] = c.Run
		return event.Result{Created: true}
	case event.DeleteRun:
		if s.img.Runs[c.Run] == nil || s.img.Runs[c.Run].Deleted {
			return event.Result{Refusal: &event.RunDeleted{}}
		}
		s.img.Runs[c.Run].Deleted = true
	}
	return event.Result{}
}

// applyAppend creates the run when it is missing, to keep tests short.
func (s *fakeState) applyAppend(c *event.Append) event.Result {
	r := s.img.Runs[c.Run]
	if r == nil {
		r = &fakeRun{Producers: map[event.ProducerID]fakeProducer{}}
		s.img.Runs[c.Run] = r
	}
	if r.Producers == nil {
		r.Producers = map[event.ProducerID]fakeProducer{} // gob drops empty maps
	}
	if c.Producer != nil {
		if p, ok := r.Producers[c.Producer.ID]; ok && c.Producer.Seq <= p.Seq {
			p.Last.Duplicate = true
			return event.Result{Appended: p.Last}
		}
	}
	tail := event.Offset(len(r.Records))
	if c.Expect != nil && *c.Expect != tail {
		return event.Result{Refusal: &event.OffsetConflict{Expected: *c.Expect, Tail: tail}}
	}
	a := event.Appended{FirstOffset: tail, Tail: tail + event.Offset(len(c.Events))}
	for i, e := range c.Events {
		r.Records = append(r.Records, event.Record{Offset: tail + event.Offset(i), Time: s.img.Time, Raw: e.Raw})
	}
	if c.Producer != nil {
		r.Producers[c.Producer.ID] = fakeProducer{c.Producer.Seq, a}
	}
	return event.Result{Appended: a}
}

type fakeSnapshot struct{ s *fakeState }

func (s *fakeState) Snapshot() (raft.FSMSnapshot, error) { return fakeSnapshot{s}, nil }

func (f fakeSnapshot) Persist(sink raft.SnapshotSink) error {
	f.s.flush()
	_, err := sink.Write([]byte("marker"))
	return err
}

func (fakeSnapshot) Release() {}

func (s *fakeState) flush() {
	s.mu.Lock()
	image := s.encode()
	s.mu.Unlock()
	s.disk.mu.Lock()
	s.disk.image = image
	s.disk.mu.Unlock()
}

func (s *fakeState) Restore(r io.ReadCloser) error {
	image, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.load(image)
	s.restores++
	s.mu.Unlock()
	s.flush()
	s.changed.Notify()
	return nil
}

func (s *fakeState) Export(_ context.Context, w io.Writer) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := w.Write(s.encode())
	return s.img.Applied, err
}

func (s *fakeState) Applied() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.img.Applied
}

func (s *fakeState) WaitApplied(ctx context.Context, index uint64) error {
	for {
		c := s.changed.C()
		if s.Applied() >= index {
			return nil
		}
		select {
		case <-c:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *fakeState) LogTime() event.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.img.Time
}

func (s *fakeState) ClusterID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.img.ClusterID
}

func (s *fakeState) LeaderTerm() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.img.LeaderTerm
}

func (s *fakeState) Records(_ context.Context, id event.RunID, from event.Offset, maxRecords, _ int) (event.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.img.Runs[id]
	if r == nil {
		return event.Page{}, event.ErrRunNotFound
	}
	tail := event.Offset(len(r.Records))
	if from > tail {
		return event.Page{}, &event.OffsetOutOfRange{Offset: from, Tail: tail}
	}
	return event.Page{Records: r.Records[from:min(tail, from+event.Offset(maxRecords))], Tail: tail}, nil
}

// raws returns the run's events.
func (s *fakeState) raws(id event.RunID) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.img.Runs[id]
	if r == nil {
		return nil
	}
	var out []string
	for i, rec := range r.Records {
		if rec.Offset != event.Offset(i) {
			panic(fmt.Sprintf("record %d has offset %d", i, rec.Offset))
		}
		out = append(out, string(rec.Raw))
	}
	return out
}

func (s *fakeState) Roster() *event.Roster {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.img.Roster
	return &r
}

func withoutMember(members []event.ClusterMember, id string) []event.ClusterMember {
	return slices.DeleteFunc(slices.Clone(members), func(m event.ClusterMember) bool { return m.ID == id })
}

func (s *fakeState) Close() error { return nil }
