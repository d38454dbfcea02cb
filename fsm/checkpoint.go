package fsm

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/projection"
)

// A checkpoint is a projection's state at an offset, kept by this node alone. It is compressed and
// cut into parts, because a transcript may be larger than a transaction; part 0 is written last and
// says how many there are. One that does not decode is passed over: it can always be folded again.
//
// A checkpoint is left every Config.CheckpointBytes of records or, once a projection's own state is
// larger than that, every such size: the checkpoints of a run then take about as much room as
// its records, and reading one costs no less than folding what follows it.
const checkpointPartBytes = 256 << 10

func checkpointPrefix(s streamID, kind projection.Kind) []byte {
	return append(sidKey(keyCheckpoint, s), byte(kind))
}

// checkpointKey is a part's key under a prefix that says whose checkpoint it is.
func checkpointKey(prefix []byte, at event.Offset, part int) []byte {
	key := binary.BigEndian.AppendUint64(slices.Clone(prefix), uint64(at))
	return binary.BigEndian.AppendUint16(key, uint16(part))
}

// leaveCheckpoint hands the fold's state to the flusher; when it is busy the checkpoint is left
// out, and the next reader that comes this far tries again.
func (m *Machine) leaveCheckpoint(s *snapshotRead, kind projection.Kind, at event.Offset, fold projection.Fold) {
	state, err := fold.MarshalBinary()
	if err != nil {
		m.cfg.Logger.Warn("no checkpoint", "run", s.run.id, "offset", at, "error", err)
		return
	}
	sid, st := s.run.sid, s.store
	m.flusher.offer(func(now *store) error {
		if now != st {
			return nil // a restore came in between
		}
		m.metrics.checkpoints.Inc()
		return st.writeCheckpoint(checkpointPrefix(sid, kind), at, st.packer.compress(state))
	})
}

func (st *store) writeCheckpoint(prefix []byte, at event.Offset, state []byte) error {
	parts := max(1, (len(state)+checkpointPartBytes-1)/checkpointPartBytes)
	if parts > 1<<16-1 {
		return nil // 16 GiB compressed: not worth one
	}
	for i := parts - 1; i >= 0; i-- {
		part := state[i*checkpointPartBytes : min(len(state), (i+1)*checkpointPartBytes)]
		value := append(binary.BigEndian.AppendUint16(nil, uint16(parts)), part...)
		if err := st.put(checkpointKey(prefix, at, i), value); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
	}
	return nil
}

// nearestCheckpoint returns a fold at the last checkpoint at or before offset to, or an empty one at 0.
func (m *Machine) nearestCheckpoint(s *snapshotRead, kind projection.Kind, to event.Offset) (projection.Fold, event.Offset) {
	for limit := to; ; limit-- {
		state, at, err := s.store.readCheckpoint(checkpointPrefix(s.run.sid, kind), limit)
		if err != nil {
			m.cfg.Logger.Warn("checkpoint passed over", "run", s.run.id, "offset", at, "error", err)
		} else if state == nil {
			return m.newFold(s.run, kind), 0
		} else {
			fold := m.newFold(s.run, kind)
			if err = fold.UnmarshalBinary(state); err == nil {
				return fold, at
			}
			m.cfg.Logger.Warn("checkpoint passed over", "run", s.run.id, "offset", at, "error", err)
		}
		if at == 0 {
			return m.newFold(s.run, kind), 0
		}
		limit = at
	}
}

// readCheckpoint returns the newest checkpoint at or before limit; nil state: there is none. With
// an error, at is the offset of the one that cannot be read.
func (st *store) readCheckpoint(prefix []byte, limit event.Offset) (state []byte, at event.Offset, err error) {
	err = st.db.View(func(txn *badger.Txn) error {
		opt := badger.DefaultIteratorOptions
		opt.Reverse, opt.PrefetchValues, opt.Prefix = true, false, prefix
		it := txn.NewIterator(opt)
		defer it.Close()
		var key []byte
		for it.Seek(checkpointKey(prefix, limit, 0)); it.Valid(); it.Next() {
			if k := it.Item().Key(); len(k) == len(prefix)+10 && binary.BigEndian.Uint16(k[len(prefix)+8:]) == 0 {
				key = it.Item().KeyCopy(nil)
				break
			}
		}
		if key == nil {
			return nil
		}
		at = event.Offset(binary.BigEndian.Uint64(key[len(prefix):]))
		var packed []byte
		for i, parts := 0, 1; i < parts; i++ {
			value, err := get(txn, checkpointKey(prefix, at, i))
			if err != nil {
				return err
			}
			if len(value) < 2 {
				return fmt.Errorf("%w: checkpoint part %d", ErrDamaged, i)
			}
			parts = int(binary.BigEndian.Uint16(value))
			packed = append(packed, value[2:]...)
		}
		state, err = st.packer.decompress(packed)
		return err
	})
	return state, at, err
}
