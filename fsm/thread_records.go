package fsm

import (
	"context"
	"errors"

	"github.com/runlog/runlog/event"
)

// ThreadRecords reads a thread's events after a cursor: the rest of that run, then the next one, at
// most maxRecords, and no further one once maxBytes of raw JSON are reached, but at least one if there
// is one. It goes no further than the tail of an open run: what later runs hold comes after its end. A
// run that was deleted is passed over. A cursor beyond what there is gets an empty page.
//
// It looks up the cursor's run directly: following a long thread costs no more than a short one.
func (m *Machine) ThreadRecords(ctx context.Context, id event.ThreadID, after event.ThreadCursor, maxRecords, maxBytes int) (event.ThreadRecordPage, error) {
	page := event.ThreadRecordPage{Next: after}
	at := after
	for maxRecords > 0 && maxBytes > 0 {
		s, more, err := m.readPlace(id, at.Ordinal)
		if err != nil || !more {
			return page, m.noteDamage(err)
		}
		if s == nil { // deleted
			at = event.ThreadCursor{Ordinal: at.Ordinal + 1}
			page.Next = at
			continue
		}
		n := len(page.Records)
		if at.Offset < s.run.tail {
			err = s.each(ctx, at.Offset, func(r event.Record) bool {
				page.Next = event.ThreadCursor{Ordinal: at.Ordinal, Offset: r.Offset + 1}
				page.Records = append(page.Records, event.ThreadRecord{Run: s.run.id, Cursor: page.Next, Record: r})
				maxRecords--
				maxBytes -= len(r.Raw)
				return maxRecords > 0 && maxBytes > 0
			})
		}
		tail, ended := s.run.tail, s.run.ended()
		err = m.deletedMeanwhile(s, err)
		s.release()
		if errors.Is(err, errThreadChanged) {
			if len(page.Records) > n {
				return page, nil // what was read was there
			}
			continue
		}
		if err != nil {
			return page, m.noteDamage(err)
		}
		if reached := page.Next; !ended || at.Offset > tail || reached.Ordinal == at.Ordinal && reached.Offset < tail {
			return page, nil
		}
		at = event.ThreadCursor{Ordinal: at.Ordinal + 1}
	}
	return page, nil
}

// readPlace picks up the run at a place of a thread; more is false where none was created yet, and
// the read is nil where the run was deleted. The caller releases it.
func (m *Machine) readPlace(id event.ThreadID, n event.Ordinal) (s *snapshotRead, more bool, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.store == nil {
		return nil, false, errClosed
	}
	t, err := m.findThread(id)
	if err != nil || n >= t.next {
		return nil, false, err
	}
	sid, err := m.findPlace(place{fingerprintOf(id), n})
	if err != nil || sid == (streamID{}) {
		return nil, true, err
	}
	r, err := m.findRun(sid)
	if err != nil {
		return nil, true, err
	}
	own := *r
	m.store.readers.Add(1)
	return &snapshotRead{run: &own, logRead: m.logRead(&own.logHead)}, true, nil
}
