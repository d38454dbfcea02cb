package fsm

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/runlog/runlog/event"
)

// TestListings: whatever a listing walks, its pages are those of a look at every run.
func TestListings(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := open(t, "")
		defer m.close(t)
		pick := func(from ...string) string { return rapid.SampledFrom(from).Draw(t, "pick") }
		ids := make([]event.RunID, 0, 30)
		for i := range rapid.IntRange(1, 30).Draw(t, "runs") {
			id := event.RunID(fmt.Sprintf("%s-%d", pick("a", "ab", "b"), i))
			ids = append(ids, id)
			m.do(t, event.CreateRun{Run: id, Thread: event.ThreadID(pick("t", "u")), Parent: event.RunID(pick("", "p", "q")),
				Holder: event.HolderID(pick("", "h", "g")), LeaseMs: 1500, Started: ptr(ev(t, started))})
			switch r, _ := m.Run(ctxOf(t), id); pick("", "end", "fail", "lapse", "release", "flush", "delete") {
			case "end":
				a := batch(t, id, finished)
				a.Epoch = epochOf(&r)
				m.do(t, a)
			case "fail":
				m.do(t, event.CancelRun{Run: id}, event.EnforceCancel{Run: id, Epoch: r.Epoch, Tail: r.Tail, MaxBytes: 1 << 20})
			case "lapse":
				m.do(t, event.LapseLease{Run: id, Epoch: r.Epoch, Tail: r.Tail})
			case "release":
				m.do(t, event.ReleaseLease{Run: id, Epoch: r.Epoch})
			case "flush":
				m.flushNow(t)
			case "delete":
				m.do(t, event.DeleteRun{Run: rapid.SampledFrom(ids).Draw(t, "doomed")})
			}
		}
		q := event.RunQuery{
			Status: event.Status(pick("", "", "running", "completed", "cancelled")), Lease: event.LeaseState(pick("", "", "held", "lapsed", "released", "none")),
			Holder: event.HolderID(pick("", "", "h")), ThreadID: event.ThreadID(pick("", "", "t")), ParentRunID: event.RunID(pick("", "", "p")),
			Prefix: pick("", "", "a", "ab"), Ascending: rapid.Bool().Draw(t, "ascending"), Limit: rapid.IntRange(1, 7).Draw(t, "limit"),
		}
		var want, got []event.RunID
		for _, id := range ids {
			if r, err := m.Run(ctxOf(t), id); err == nil && listed(&r, &q) {
				want = append(want, id)
			}
		}
		if !q.Ascending {
			slices.Reverse(want)
		}
		for {
			runs, next, err := m.Runs(ctxOf(t), q)
			if err != nil || len(runs) > q.Limit {
				t.Fatal(len(runs), err)
			}
			for _, r := range runs {
				got = append(got, r.RunID)
			}
			if q.Cursor = next; next == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%+v: got %v, want %v", q, got, want)
		}
	})
}

func epochOf(r *event.Run) *event.Epoch {
	if r.Epoch == 0 {
		return nil
	}
	return &r.Epoch
}

// listed is what a filter means, in the contract's words.
func listed(r *event.Run, q *event.RunQuery) bool {
	var lease event.LeaseState = event.LeaseStateNone
	var holder event.HolderID
	if r.Lease != nil {
		lease, holder = r.Lease.State, r.Lease.Holder
	}
	if (q.Lease != "" || q.Holder != "") && q.Status == "" && r.Ended {
		return false
	}
	return (q.Status == "" || q.Status == r.Status) && (q.Lease == "" || q.Lease == lease) && (q.Holder == "" || q.Holder == holder) &&
		(q.ThreadID == "" || q.ThreadID == r.ThreadID) && (q.ParentRunID == "" || q.ParentRunID == r.ParentRunID) &&
		len(r.RunID) >= len(q.Prefix) && string(r.RunID[:len(q.Prefix)]) == q.Prefix
}
