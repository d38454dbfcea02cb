package fsm

import (
	"sync"

	"github.com/runlog/runlog/event"
)

// Watch wakes a follower of one run. The signal carries no data: the follower reads from its own
// offset, so a signal missed or sent twice costs nothing. Subscribe before reading.
type Watch struct {
	run event.RunID
	c   chan struct{}
	of  *watches
}

// C receives after an append to the run, its creation or deletion, and after a restore.
func (w *Watch) C() <-chan struct{} { return w.c }

// Close ends the watch; the channel stays open and silent.
func (w *Watch) Close() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	set := w.of.byRun[w.run]
	if _, ok := set[w]; ok && isThread(w.run) {
		w.of.threads--
	}
	delete(set, w)
	if len(set) == 0 {
		delete(w.of.byRun, w.run)
	}
}

// Watch follows the run of that name, which need not exist yet.
func (m *Machine) Watch(id event.RunID) *Watch {
	w := &Watch{run: id, c: make(chan struct{}, 1), of: &m.watches}
	m.watches.mu.Lock()
	defer m.watches.mu.Unlock()
	if m.watches.byRun == nil {
		m.watches.byRun = make(map[event.RunID]map[*Watch]struct{})
	}
	set := m.watches.byRun[id]
	if set == nil {
		set = make(map[*Watch]struct{})
		m.watches.byRun[id] = set
	}
	set[w] = struct{}{}
	if isThread(id) {
		m.watches.threads++
	}
	return w
}

type watches struct {
	mu    sync.Mutex
	byRun map[event.RunID]map[*Watch]struct{}

	threads int // watches of threads
}

func (ws *watches) wake(runs []event.RunID, threads []event.ThreadID, changes bool) {
	if len(runs) == 0 && !changes {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.byRun) == 0 {
		return
	}
	for _, id := range runs {
		for w := range ws.byRun[id] {
			w.signal()
		}
	}
	if ws.threads > 0 {
		for _, id := range threads {
			for w := range ws.byRun[watchedThread(id)] {
				w.signal()
			}
		}
	}
	if changes {
		for w := range ws.byRun[watchedChanges] {
			w.signal()
		}
	}
}

// Threads and the stream of changes are watched under names that no run can have.
func watchedThread(id event.ThreadID) event.RunID { return "\x01" + event.RunID(id) }

const watchedChanges event.RunID = "\x02"

func isThread(id event.RunID) bool { return len(id) > 0 && id[0] == 1 }

// WatchThread wakes after an append to a run of the thread, its creation or deletion.
func (m *Machine) WatchThread(id event.ThreadID) *Watch { return m.Watch(watchedThread(id)) }

// WatchChanges wakes after the stream of changes grew.
func (m *Machine) WatchChanges() *Watch { return m.Watch(watchedChanges) }

func (ws *watches) wakeAll() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, set := range ws.byRun {
		for w := range set {
			w.signal()
		}
	}
}

func (w *Watch) signal() {
	select {
	case w.c <- struct{}{}:
	default: // it will read anyway
	}
}
