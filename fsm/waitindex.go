package fsm

import (
	"context"
	"sync"
)

// waitIndex is an index that only grows, and that callers can wait for.
type waitIndex struct {
	mu     sync.Mutex
	index  uint64
	closed bool
	moved  chan struct{} // closed and replaced when index moves and somebody waits
	waits  int
}

func (w *waitIndex) init() { w.moved = make(chan struct{}) }

func (w *waitIndex) get() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.index
}

func (w *waitIndex) set(index uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.index = index
	w.wakeLocked()
}

// fail ends every wait; the machine is closed.
func (w *waitIndex) fail() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.wakeLocked()
}

func (w *waitIndex) wakeLocked() {
	if w.waits > 0 {
		close(w.moved)
		w.moved, w.waits = make(chan struct{}), 0
	}
}

func (w *waitIndex) wait(ctx context.Context, index uint64) error {
	for {
		w.mu.Lock()
		if w.index >= index {
			w.mu.Unlock()
			return nil
		}
		if w.closed {
			w.mu.Unlock()
			return errClosed
		}
		moved := w.moved
		w.waits++
		w.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
