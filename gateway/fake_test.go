package gateway

import (
	"cmp"
	"context"
	"sync"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/projection"
	"github.com/runlog/runlog/raftlog"
)

// fakeNode is a node in memory: one mutex instead of a cluster, the same decisions in the same
// order as the state machine's. It can lose its leader, and lag: then writes are committed but not
// visible to reads until a read index catches up.
type fakeNode struct {
	mu         sync.Mutex
	runs       map[event.RunID]*fakeRun
	order      []*fakeRun
	index      uint64
	lagging    bool
	leaderless chan struct{} // not nil: no leader, until closed
	proposeErr error
	readyFails bool
	readIndexes,
	transfers int
	watches map[event.RunID]map[*fakeWatch]struct{}
	largest int // bytes of the largest page read

	interrupts  []event.Interrupt
	changes     []event.Change
	firstChange event.Offset
	afterThread func() // called after each read of a thread's view
}

type fakeRun struct {
	run       event.Run
	progress  event.Progress
	used      map[event.IDHash]bool
	records   []event.Record
	visible   int
	seen      bool
	deleted   bool
	producers map[event.ProducerID]*fakeProducer
	key       event.IdempotencyKey
}

type fakeProducer struct {
	epoch uint64
	seqs  []fakeWrite
}

type fakeWrite struct {
	hash        uint64
	first, tail event.Offset
}

func newFake() *fakeNode {
	return &fakeNode{runs: map[event.RunID]*fakeRun{}, watches: map[event.RunID]map[*fakeWatch]struct{}{}}
}

func refused(err error) event.Result { return event.Result{Refusal: err.(event.Refusal)} }

func (n *fakeNode) Propose(ctx context.Context, cmd event.Command) (event.Result, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proposeErr != nil {
		return event.Result{}, n.proposeErr
	}
	if n.leaderless != nil {
		return event.Result{}, raftlog.ErrUnavailable
	}
	// Through the codec, as every command of a cluster goes: nothing of the caller's is retained.
	cmd, err := event.DecodeCommand(event.AppendCommand(nil, cmd))
	if err != nil {
		return event.Result{}, err
	}
	n.index++
	var res event.Result
	switch c := cmd.(type) {
	case *event.Append:
		res = n.append(&c.Batch)
	case event.CreateRun:
		res = n.create(&c)
	case event.PatchRun:
		res = n.patch(&c)
	case event.DeleteRun:
		res = n.delete(&c)
	case event.DeleteThread:
		res = n.deleteThread(c.Thread)
	}
	res.Index = n.index
	return res, nil
}

func (n *fakeNode) find(id event.RunID) (*fakeRun, error) {
	r := n.runs[id]
	switch {
	case r == nil:
		return nil, event.ErrRunNotFound
	case r.deleted:
		return nil, event.ErrRunDeleted
	}
	return r, nil
}

func (n *fakeNode) add(id event.RunID, thread event.ThreadID, g event.Grammar) *fakeRun {
	r := &fakeRun{
		run: event.Run{RunID: id, ThreadID: thread, Status: event.StatusRunning, Grammar: g,
			StartedAt: n.now(), UpdatedAt: n.now()},
		used: map[event.IDHash]bool{}, producers: map[event.ProducerID]*fakeProducer{}, seen: !n.lagging,
	}
	n.runs[id] = r
	n.order = append(n.order, r)
	n.tell(event.ChangeCreated, r)
	return r
}

func (n *fakeNode) now() event.Time { return event.Time(1_700_000_000_000 + n.index) }

func (n *fakeNode) append(b *event.Batch) event.Result {
	r, err := n.find(b.Run)
	if err == event.ErrRunNotFound && b.Events[0].Header.Type == event.TypeRunStarted {
		thread := cmp.Or(b.Events[0].Header.ThreadID, event.ThreadID(b.Run))
		r = n.add(b.Run, thread, event.GrammarStrict)
		res := n.appendTo(r, b)
		if res.Refusal != nil {
			delete(n.runs, b.Run)
			n.order = n.order[:len(n.order)-1]
		}
		return res
	}
	if err != nil {
		return refused(err)
	}
	return n.appendTo(r, b)
}

func (n *fakeNode) appendTo(r *fakeRun, b *event.Batch) event.Result {
	switch {
	case b.Epoch == nil && r.run.Epoch > 0:
		return refused(&event.EpochRequired{CurrentEpoch: r.run.Epoch})
	case b.Epoch != nil && *b.Epoch != r.run.Epoch:
		return refused(&event.Fenced{Epoch: *b.Epoch, CurrentEpoch: r.run.Epoch})
	}
	var prod *fakeProducer
	gap := error(nil)
	if p := b.Producer; p != nil {
		if prod = r.producers[p.ID]; prod == nil || p.Epoch > prod.epoch {
			prod = &fakeProducer{epoch: p.Epoch}
		}
		switch {
		case p.Epoch < prod.epoch:
			return refused(&event.ProducerFenced{ProducerEpoch: p.Epoch, CurrentProducerEpoch: prod.epoch})
		case p.Seq < uint64(len(prod.seqs)):
			was := prod.seqs[p.Seq]
			if was.hash != b.BodyHash {
				return refused(&event.ProducerConflict{Seq: p.Seq})
			}
			return event.Result{Appended: event.Appended{FirstOffset: was.first, Tail: was.tail, Duplicate: true}}
		case p.Seq > uint64(len(prod.seqs)):
			gap = &event.ProducerGap{ExpectedSeq: uint64(len(prod.seqs)), ReceivedSeq: p.Seq}
		}
	}
	tail := event.Offset(len(r.records))
	switch {
	case r.progress.Ended():
		return refused(&event.RunEnded{TerminalOffset: tail - 1})
	case b.Expect != nil && *b.Expect != tail:
		return refused(&event.OffsetConflict{Expected: *b.Expect, Tail: tail})
	case gap != nil:
		return refused(gap)
	}
	if err := n.write(r, b.Events); err != nil {
		return refused(err)
	}
	done := event.Appended{FirstOffset: tail, Tail: event.Offset(len(r.records))}
	if prod != nil {
		prod.seqs = append(prod.seqs, fakeWrite{b.BodyHash, done.FirstOffset, done.Tail})
		r.producers[b.Producer.ID] = prod
	}
	return event.Result{Appended: done}
}

// write takes events that passed the earlier checks, all or none.
func (n *fakeNode) write(r *fakeRun, events []event.Event) error {
	w := event.NewWalk(r.progress, event.Rules{
		Strict: r.run.Grammar != event.GrammarLenient, Run: r.run.RunID, Thread: r.run.ThreadID,
		Used: func(h event.IDHash) bool { return r.used[h] },
	})
	for i := range events {
		if reason := w.Take(&events[i].Header); reason != "" {
			return &event.InvalidEvent{Index: i, Reason: reason}
		}
	}
	r.progress = w.Progress
	for _, h := range w.Added {
		r.used[h] = true
	}
	for _, e := range events {
		r.records = append(r.records, event.Record{
			Offset: event.Offset(len(r.records)), Epoch: r.run.Epoch, Time: n.now(), Raw: e.Raw,
		})
	}
	r.run.Tail, r.run.UpdatedAt = event.Offset(len(r.records)), n.now()
	if r.progress.Ended() {
		end, at := r.run.Tail-1, n.now()
		r.run.Status, r.run.Ended, r.run.TerminalOffset, r.run.EndedAt = r.progress.End, true, &end, &at
		n.tell(event.ChangeEnded, r)
	}
	if !n.lagging {
		n.show(r)
	}
	return nil
}

// show makes what is committed of a run visible.
func (n *fakeNode) show(r *fakeRun) {
	r.visible, r.seen = len(r.records), true
	n.wake(r.run.RunID)
	n.wake(threadWatch(r.run.ThreadID))
}

func (n *fakeNode) wake(id event.RunID) {
	for w := range n.watches[id] {
		select {
		case w.c <- struct{}{}:
		default:
		}
	}
}

func (n *fakeNode) create(c *event.CreateRun) event.Result {
	r, err := n.find(c.Run)
	created := false
	switch {
	case err == event.ErrRunNotFound:
		if c.RejectBusy {
			for _, o := range n.order {
				if o.run.ThreadID == c.Thread && !o.run.Ended {
					return refused(&event.ThreadBusy{ActiveRunID: o.run.RunID})
				}
			}
		}
		r = n.add(c.Run, c.Thread, c.Grammar)
		r.run.ParentRunID, r.run.Metadata, r.key, created = c.Parent, c.Metadata, c.Key, true
	case err != nil:
		return refused(err)
	case r.run.ThreadID != c.Thread:
		v := *n.view(r)
		v.Open = nil
		return refused(&event.RunExists{Run: &v})
	case r.key == c.Key && c.Key != event.IdempotencyKey{}:
		return event.Result{Created: true, Run: n.view(r)}
	}
	if c.Holder != "" {
		if r.run.Ended {
			return refused(&event.RunEnded{TerminalOffset: *r.run.TerminalOffset})
		}
		if l := r.run.Lease; l != nil && l.Holder != c.Holder {
			return refused(&event.LeaseHeld{Holder: l.Holder})
		}
		r.run.Epoch++
		r.run.Lease = &event.Lease{Holder: c.Holder, LeaseMs: c.LeaseMs, State: event.LeaseStateHeld}
		r.run.TakeoverMs = new(int64)
	}
	if c.TakeoverMs != nil {
		r.run.TakeoverMs = c.TakeoverMs
	}
	if created && c.Started != nil {
		if err := n.write(r, []event.Event{*c.Started}); err != nil {
			delete(n.runs, c.Run)
			return refused(err)
		}
	}
	return event.Result{Created: created, Run: n.view(r)}
}

func (n *fakeNode) patch(c *event.PatchRun) event.Result {
	r, err := n.find(c.Run)
	if err != nil {
		return refused(err)
	}
	if c.Epoch != nil && *c.Epoch != r.run.Epoch {
		return refused(&event.Fenced{Epoch: *c.Epoch, CurrentEpoch: r.run.Epoch})
	}
	merged, err := projection.MergePatch(r.run.Metadata, c.Patch)
	if err != nil {
		return refused(&event.InvalidEvent{Reason: "metadata is not a JSON merge patch"})
	}
	r.run.Metadata = merged
	return event.Result{Run: n.view(r)}
}

func (n *fakeNode) delete(c *event.DeleteRun) event.Result {
	r, err := n.find(c.Run)
	switch {
	case err != nil:
		return refused(err)
	case !r.run.Ended:
		return refused(&event.RunActive{})
	}
	r.deleted = true
	n.show(r)
	return event.Result{}
}

func (n *fakeNode) view(r *fakeRun) *event.Run {
	v, open := r.run, r.progress.Open()
	v.Open = &open
	return &v
}
