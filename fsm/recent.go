package fsm

import "github.com/runlog/runlog/event"

// recentChunks keeps records that Badger has too, because live tails ask for them next. It is
// bounded in bytes over all runs; the oldest go first, so what is left of a run is always its end.
type recentChunks struct {
	limit int
	bytes int
	byRun map[streamID][]*chunk
	queue []recentChunk // oldest first
	head  int           // of queue
}

type recentChunk struct {
	sid   streamID
	chunk *chunk
}

func (r *recentChunks) add(s streamID, c *chunk) {
	if r.byRun == nil {
		r.byRun = make(map[streamID][]*chunk)
	}
	r.byRun[s] = append(r.byRun[s], c)
	r.queue = append(r.queue, recentChunk{s, c})
	r.bytes += cap(c.buf) + 4*cap(c.starts)
	for r.bytes > r.limit && r.head < len(r.queue) {
		r.dropOldest()
	}
}

func (r *recentChunks) dropOldest() {
	old := r.queue[r.head]
	r.queue[r.head] = recentChunk{}
	if r.head++; r.head > len(r.queue)/2 {
		r.queue, r.head = append([]recentChunk(nil), r.queue[r.head:]...), 0
	}
	r.bytes -= cap(old.chunk.buf) + 4*cap(old.chunk.starts)
	list := r.byRun[old.sid]
	if len(list) == 0 || list[0] != old.chunk {
		return // its run was removed before
	}
	if len(list) == 1 {
		delete(r.byRun, old.sid)
	} else {
		r.byRun[old.sid] = list[1:]
	}
}

// remove forgets a run; its bytes are given back when their turn in the queue comes.
func (r *recentChunks) remove(s streamID) { delete(r.byRun, s) }

// chunksOf returns copies of all chunks of a run that are in memory, consecutive and in order;
// the last one ends at the run's tail. It needs mu; the copies stay valid without it.
func (m *Machine) chunksOf(s streamID) []chunk {
	var all []chunk
	for _, c := range m.recent.byRun[s] {
		all = append(all, *c)
	}
	if m.frozen != nil {
		if c := m.frozen.chunks[s]; c != nil {
			all = append(all, *c)
		}
	}
	if c := m.active.chunks[s]; c != nil {
		all = append(all, *c)
	}
	return all
}

// memoryFrom returns the first offset that chunks hold, or tail when they hold none.
func memoryFrom(chunks []chunk, tail event.Offset) event.Offset {
	if len(chunks) == 0 {
		return tail
	}
	return chunks[0].first
}
