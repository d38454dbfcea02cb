package gateway

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/projection"
	"github.com/runlog/runlog/raftlog"
)

// ReadIndex catches up, or waits for a leader.
func (n *fakeNode) ReadIndex(ctx context.Context) error {
	for {
		n.mu.Lock()
		n.readIndexes++
		wait := n.leaderless
		if wait == nil {
			for _, r := range n.order {
				if r.visible < len(r.records) || !r.seen {
					n.show(r)
				}
			}
			n.mu.Unlock()
			return nil
		}
		n.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return raftlog.ErrUnavailable
		}
	}
}

func (n *fakeNode) WaitApplied(ctx context.Context, index uint64) error {
	n.mu.Lock()
	have := n.index
	n.mu.Unlock()
	if index > have {
		<-ctx.Done()
		return ctx.Err()
	}
	return n.ReadIndex(ctx)
}

func (n *fakeNode) loseLeader() (elect func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	wait := make(chan struct{})
	n.leaderless = wait
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.leaderless = nil
		close(wait)
	}
}

func (n *fakeNode) visible(id event.RunID) (*fakeRun, error) {
	r, err := n.find(id)
	if err == nil && !r.seen {
		return nil, event.ErrRunNotFound
	}
	return r, err
}

func (n *fakeNode) Run(_ context.Context, id event.RunID) (event.Run, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r, err := n.visible(id)
	if err != nil {
		return event.Run{}, err
	}
	v := n.view(r)
	if v.Tail = event.Offset(r.visible); r.visible < len(r.records) {
		v.Status, v.Ended, v.TerminalOffset, v.EndedAt = event.StatusRunning, false, nil, nil
	}
	if v.Ended {
		v.Error, v.Outcome, v.Usage, v.Result = projection.Terminal(r.records[len(r.records)-1].Raw)
	}
	return *v, nil
}

func (n *fakeNode) RunAt(ctx context.Context, id event.RunID, at event.Offset) (event.Run, error) {
	run, err := n.Run(ctx, id)
	if err != nil {
		return run, err
	}
	if at > run.Tail {
		return run, &event.OffsetOutOfRange{Offset: at, Tail: run.Tail}
	}
	run.Tail = at
	return run, nil
}

func (n *fakeNode) Runs(_ context.Context, q event.RunQuery) ([]event.Run, string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []event.Run
	for _, r := range n.order {
		if r.seen && !r.deleted && (q.Status == "" || r.run.Status == q.Status) &&
			(q.ThreadID == "" || r.run.ThreadID == q.ThreadID) && strings.HasPrefix(string(r.run.RunID), q.Prefix) {
			all = append(all, *n.view(r))
		}
	}
	if !q.Ascending {
		slices.Reverse(all)
	}
	from := 0
	if q.Cursor != "" {
		var err error
		if from, err = strconv.Atoi(q.Cursor); err != nil || from > len(all) {
			return nil, "", event.ErrBadCursor
		}
	}
	all = all[from:]
	if len(all) > q.Limit {
		return all[:q.Limit], strconv.Itoa(from + q.Limit), nil
	}
	return all, "", nil
}

func (n *fakeNode) Records(ctx context.Context, id event.RunID, from event.Offset, maxRecords, maxBytes int) (event.Page, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r, err := n.visible(id)
	if err != nil {
		return event.Page{}, err
	}
	p := event.Page{Tail: event.Offset(r.visible), Ended: r.run.Ended && r.visible == len(r.records)}
	if from > p.Tail {
		return event.Page{}, &event.OffsetOutOfRange{Offset: from, Tail: p.Tail}
	}
	size := 0
	for _, rec := range r.records[from:r.visible] {
		if len(p.Records) >= maxRecords || len(p.Records) > 0 && size >= maxBytes {
			break
		}
		p.Records = append(p.Records, rec)
		size += len(rec.Raw)
	}
	n.largest = max(n.largest, size)
	return p, ctx.Err()
}

func (n *fakeNode) Fold(_ context.Context, id event.RunID, kind projection.Kind, at *event.Offset, scope event.Scope) (projection.Fold, event.Offset, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r, err := n.visible(id)
	if err != nil {
		return nil, 0, err
	}
	to := event.Offset(r.visible)
	if at != nil {
		if *at > to {
			return nil, 0, &event.OffsetOutOfRange{Offset: *at, Tail: to}
		}
		to = *at
	}
	f := projection.New(kind)
	for _, before := range n.thread(r.run.ThreadID) {
		if before == r || scope == event.ScopeRun {
			break
		}
		projection.BeginRun(f, before.run.RunID)
		for _, rec := range before.records[:before.visible] {
			f.Apply(rec)
		}
	}
	projection.BeginRun(f, r.run.RunID)
	for _, rec := range r.records[:to] {
		f.Apply(rec)
	}
	return f, to, nil
}

type fakeWatch struct {
	n  *fakeNode
	id event.RunID
	c  chan struct{}
}

func (w *fakeWatch) C() <-chan struct{} { return w.c }

func (w *fakeWatch) Close() {
	w.n.mu.Lock()
	defer w.n.mu.Unlock()
	delete(w.n.watches[w.id], w)
}

func (n *fakeNode) Watch(id event.RunID) Watch {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := &fakeWatch{n, id, make(chan struct{}, 1)}
	if n.watches[id] == nil {
		n.watches[id] = map[*fakeWatch]struct{}{}
	}
	n.watches[id][w] = struct{}{}
	return w
}

func (n *fakeNode) watchers(id event.RunID) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.watches[id])
}

func (n *fakeNode) Members(context.Context) (Members, error) {
	return Members{ClusterID: "c1", Leader: "n1", Nodes: []Member{
		{ID: "n1", HTTP: "127.0.0.1:4437", Raft: "127.0.0.1:5437", Role: "leader", Voter: true, AppliedIndex: 7},
	}}, nil
}

func (n *fakeNode) TransferLeadership(context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.transfers++
	if n.leaderless != nil {
		return raftlog.ErrUnavailable
	}
	return nil
}

func (n *fakeNode) AddNode(_ context.Context, spec NewNode) error {
	if spec.ID == "stranger" {
		return &raftlog.MembershipError{Code: raftlog.MemberRefused, Reason: "another directory"}
	}
	return nil
}

func (n *fakeNode) RemoveNode(_ context.Context, id string) error {
	if id == "n1" {
		return &raftlog.MembershipError{Code: raftlog.MemberAtRisk, Reason: "the last voter"}
	}
	return nil
}

func (n *fakeNode) Backup(_ context.Context, w io.Writer) error {
	_, err := io.WriteString(w, "backup")
	return err
}

func (n *fakeNode) Ready() []Check {
	n.mu.Lock()
	defer n.mu.Unlock()
	return []Check{{Name: "leader", OK: !n.readyFails && n.leaderless == nil, Detail: "n1"}}
}
