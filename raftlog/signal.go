package raftlog

import "sync"

// signal wakes everybody who waits for a change of something. Take C before looking at that
// something: then no change between the look and the wait is missed. The zero value is ready.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// C is closed at the next Notify.
func (s *signal) C() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

// Notify wakes all who took C.
func (s *signal) Notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
