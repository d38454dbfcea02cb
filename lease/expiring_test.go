package lease

import (
	"testing"
	"time"

	"github.com/runlog/runlog/event"
)

// TestExpiring: live leases alone, and those alone that end in time.
func TestExpiring(t *testing.T) {
	t.Parallel()
	l := New(Config{})
	l.Restart([]event.LeaseView{
		with(held("short"), func(v *event.LeaseView) { v.LeaseMs, v.Epoch = 2000, 7 }),
		with(held("long"), func(v *event.LeaseView) { v.LeaseMs = 60_000 }),
		with(held("lapsed"), lapsed), with(held("released"), released),
	})
	l.Advance(500*time.Millisecond, true)
	got := l.Expiring(2 * time.Second)
	if len(got) != 1 || got[0] != (Expiring{"short", 7, 1500 * time.Millisecond}) {
		t.Fatalf("%+v", got)
	}
	if got := l.Expiring(time.Second); len(got) > 0 {
		t.Fatalf("%+v", got)
	}
}
