// Package watchdog bounds how long something may take, in time during which this process runs. A
// plain timer cannot tell a disk that hangs from a process that was stopped: after a pause of the
// virtual machine it fires at once, for a write that never had its chance.
package watchdog

import (
	"sync"
	"time"
)

// ticks is how many parts the bound is counted in. A pause of any length costs one of them.
const ticks = 20

// Timer calls a function when what it watches takes too long. Its methods may be called from any
// goroutine; the function is called from one of its own.
type Timer struct {
	tick time.Duration
	fire func()

	mu    sync.Mutex
	left  int // ticks; 0: nothing is watched
	timer *time.Timer
}

// New returns a timer that watches nothing yet.
func New(timeout time.Duration, fire func()) *Timer {
	t := &Timer{tick: max(timeout/ticks, 1), fire: fire}
	t.timer = time.AfterFunc(time.Hour, t.ticked)
	t.timer.Stop()
	return t
}

// Start begins to watch; what was watched before is forgotten.
func (t *Timer) Start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left = ticks
	t.timer.Reset(t.tick)
}

// Stop ends the watch: what was watched has come to its end.
func (t *Timer) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left = 0
	t.timer.Stop()
}

func (t *Timer) ticked() {
	t.mu.Lock()
	if t.left == 0 {
		t.mu.Unlock()
		return // stopped meanwhile
	}
	if t.left--; t.left > 0 {
		t.timer.Reset(t.tick)
		t.mu.Unlock()
		return
	}
	t.mu.Unlock()
	t.fire()
}
