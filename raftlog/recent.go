package raftlog

import (
	"sync"

	"github.com/hashicorp/raft"
)

// Bounds of the entries kept in memory.
const (
	recentSlots    = 256
	recentMaxBytes = 8 << 20
)

// recentEntries holds the newest log entries, addressed by index modulo recentSlots, within
// recentMaxBytes. The entries' data is shared with raft, which never changes it.
type recentEntries struct {
	mu    sync.RWMutex
	slots [recentSlots]raft.Log // Index 0: empty
	bytes int
	low   uint64 // no entry below it is held
}

func (r *recentEntries) add(logs []*raft.Log) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range logs {
		r.clear(l.Index % recentSlots)
		r.slots[l.Index%recentSlots] = *l
		r.bytes += len(l.Data)
		if l.Index < r.low || l.Index >= r.low+recentSlots {
			r.low = l.Index - min(l.Index, recentSlots-1)
		}
		for r.bytes > recentMaxBytes && r.low < l.Index {
			if r.slots[r.low%recentSlots].Index == r.low {
				r.clear(r.low % recentSlots)
			}
			r.low++
		}
	}
}

func (r *recentEntries) clear(slot uint64) {
	r.bytes -= len(r.slots[slot].Data)
	r.slots[slot] = raft.Log{}
}

func (r *recentEntries) get(index uint64, l *raft.Log) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if s := &r.slots[index%recentSlots]; s.Index == index && index != 0 {
		*l = *s
		return true
	}
	return false
}

// drop forgets the entries from min to max.
func (r *recentEntries) drop(min, max uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.slots {
		if x := r.slots[i].Index; x != 0 && x >= min && x <= max {
			r.clear(uint64(i))
		}
	}
}
