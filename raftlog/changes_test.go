package raftlog

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/runlog/runlog/event"
)

func TestChangesKeepTheLastViewAndTheRenewal(t *testing.T) {
	t.Parallel()
	var c changes
	v := event.LeaseView{Run: "r", Epoch: 1, Tail: 1, Renewed: true}
	if c.add([]event.LeaseView{v}) || c.take() != nil {
		t.Error("gathered while nobody leads")
	}
	c.start()
	asked, next := v, v
	asked.Renewed, asked.CancelRequested = false, true
	next.Epoch, next.Renewed = 2, false
	lock := event.LeaseView{Run: "r", Lock: true, Epoch: 9}
	c.add([]event.LeaseView{v, lock})
	c.add([]event.LeaseView{asked})
	want := asked
	want.Renewed = true
	if got := c.take(); !reflect.DeepEqual(got, []event.LeaseView{want, lock}) {
		t.Errorf("%+v", got)
	}
	c.add([]event.LeaseView{v})
	c.add([]event.LeaseView{next})
	if got := c.take(); !reflect.DeepEqual(got, []event.LeaseView{next}) || c.take() != nil {
		t.Errorf("another epoch: %+v", got)
	}
	c.add([]event.LeaseView{v})
	c.stop()
	if c.take() != nil {
		t.Error("kept after the tenure")
	}
}

// BenchmarkChanges is what an append to a leased run costs the state machine's goroutine more.
func BenchmarkChanges(b *testing.B) {
	var c changes
	c.start()
	views := make([]event.LeaseView, 1000)
	for i := range views {
		views[i] = event.LeaseView{Run: event.RunID(fmt.Sprintf("run-%d", i)), Epoch: 1, Renewed: true}
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		c.add(views[i%1000 : i%1000+1])
		if i++; i%500 == 0 {
			c.take()
		}
	}
}
