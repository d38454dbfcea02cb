package fsm

import (
	"fmt"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/runlog/runlog/event"
)

// downgrade makes of a store what a build of before threads were kept would have left. Ordinals and
// counts are below 128: a byte each.
func (m *machine) downgrade(t *testing.T) {
	t.Helper()
	err := m.store.db.Update(func(txn *badger.Txn) error {
		set := func(key, value []byte) error { return txn.Set(key, seal(key, value)) }
		var heads [][2][]byte
		if err := scan(txn, []byte{keyHead}, func(key, value []byte) error {
			if !isDeleted(value) {
				old := append([]byte{headVersion1}, value[1:len(value)-2-3]...)
				heads = append(heads, [2][]byte{append([]byte(nil), key...), old})
			}
			return nil
		}); err != nil {
			return err
		}
		for _, h := range heads {
			if err := set(h[0], h[1]); err != nil {
				return err
			}
		}
		mt, err := readMeta(txn)
		if err != nil {
			return err
		}
		mt.threads, mt.threadSum, mt.changes = 0, fingerprint{}, changeLog{}
		mt.streams, mt.uptime = proof{}, 0
		b := mt.encode()
		b[0] = metaVersion1
		return set(metaKey, b[:len(b)-1-16-11-1-16-1])
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []byte{keyThreadHead, keyActivity, keyInterrupt, keyStatus, keyParent} {
		keys, err := m.store.appendKeys(nil, []byte{kind}, 1000)
		if err == nil {
			err = m.store.remove(keys)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestUpgrade: a store of before has its threads numbered, listed and indexed, and goes on.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := open(t, dir)
	m.do(t, batch(t, "a", inThread("a"), finished), batch(t, "gone", inThread("gone"), finished))
	m.do(t, batch(t, "b", `{"type":"RUN_STARTED","threadId":"t","parentRunId":"a"}`, `{"type":"TEXT_MESSAGE_START","messageId":"m"}`))
	m.do(t, event.DeleteRun{Run: "gone"}, event.CreateRun{Run: "other", Thread: "o", Holder: "h", LeaseMs: 1500})
	m.flushNow(t)
	m.downgrade(t)
	m.close(t)
	m = open(t, dir)
	defer m.close(t)
	v := m.thread(t, "t")
	if len(v.Runs) != 2 || v.Cursor != (event.ThreadCursor{Ordinal: 1, Offset: 2}) || v.ActiveRun == nil || len(v.ActiveRun.Open.Messages) != 1 {
		t.Fatalf("%+v", v)
	}
	m.do(t, batch(t, "b", `{"type":"TEXT_MESSAGE_END","messageId":"m"}`, asks("i")), batch(t, "c", answers("resolved", "i")))
	if got, end := m.threadRaws(t, "t", event.ThreadCursor{}, 3); len(got) != 7 || end != (event.ThreadCursor{Ordinal: 2, Offset: 1}) {
		t.Fatalf("%v, end %v", got, end)
	}
	for _, c := range []struct {
		q    event.RunQuery
		want string
	}{
		{event.RunQuery{Status: event.StatusCompleted}, "[a]"},
		{event.RunQuery{Status: event.StatusWaiting}, "[b]"},
		{event.RunQuery{ParentRunID: "a"}, "[b]"},
		{event.RunQuery{Holder: "h"}, "[other]"},
	} {
		runs, _, err := m.Runs(t.Context(), c.q)
		var ids []event.RunID
		for _, r := range runs {
			ids = append(ids, r.RunID)
		}
		if err != nil || fmt.Sprint(ids) != c.want {
			t.Errorf("%+v: %v, %v", c.q, ids, err)
		}
	}
	if list, _, err := m.Threads(t.Context(), "", 10, ""); err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
}
