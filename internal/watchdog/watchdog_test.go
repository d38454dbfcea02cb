package watchdog

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fired := make(chan time.Time, 1)
		w := New(time.Second, func() { fired <- time.Now() })
		w.Start()
		time.Sleep(900 * time.Millisecond)
		w.Stop()
		time.Sleep(time.Minute)
		if len(fired) != 0 {
			t.Fatal("fired although it was stopped")
		}
		began := time.Now()
		w.Start()
		if took := (<-fired).Sub(began); took != time.Second {
			t.Fatalf("fired after %s", took)
		}
		time.Sleep(time.Minute)
		if len(fired) != 0 {
			t.Fatal("fired twice")
		}
	})
}

// TestPause: a tick that comes late, after a pause of any length, is one tick.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fired := make(chan struct{}, 1)
		w := New(time.Second, func() { fired <- struct{}{} })
		w.Start()
		w.ticked() // as after a pause
		if w.left != ticks-1 || len(fired) != 0 {
			t.Fatalf("%d ticks left, fired %d times", w.left, len(fired))
		}
		w.Stop()
	})
}
