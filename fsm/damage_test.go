package fsm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/runlog/runlog/event"
)

// TestDamageIsNotAnAnswer removes or changes one stored value of each kind and looks at the run
// through every view: none may answer as if there were less, and the owner is told.
func TestDamageIsNotAnAnswer(t *testing.T) {
	t.Parallel()
	flip := func(txn *badger.Txn, key []byte) error {
		item, err := txn.Get(key)
		if err != nil {
			return err
		}
		value, err := item.ValueCopy(nil)
		if err != nil {
			return err
		}
		value[len(value)/2] ^= 4
		return txn.Set(key, value)
	}
	remove := func(txn *badger.Txn, key []byte) error { return txn.Delete(key) }
	for _, which := range []string{
		"n first", "h first", "e first" /* of the changes */, "e last" /* of the run */, "u first", "p first", "o first", "a first",
		"T first" /* the thread */, "T last" /* a run's place */, "i first", "N first", "H first",
	} {
		kind := which[0]
		for how, harm := range map[string]func(*badger.Txn, []byte) error{"removed": remove, "flipped": flip} {
			if kind == keyUsed && how == "flipped" {
				continue // only the key counts
			}
			t.Run(which+" "+how, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				m := open(t, dir)
				create := event.CreateRun{Run: "r", Thread: "t", Started: ptr(ev(t, started)), Metadata: []byte(`{"a":1}`)}
				a := batch(t, "r", `{"type":"TEXT_MESSAGE_START","messageId":"m"}`, custom(1))
				a.Producer = &event.Producer{ID: "p"}
				m.do(t, batch(t, "asks", `{"type":"RUN_STARTED","threadId":"t"}`, asks("i")))
				m.do(t, create, a, &event.CreateStream{Name: "s", ContentType: "text/plain", Messages: [][]byte{[]byte("one")}})
				m.flushNow(t)
				keys, err := m.store.appendKeys(nil, []byte{kind}, 100)
				if err != nil || len(keys) == 0 {
					t.Fatal(keys, err)
				}
				key := keys[0]
				if strings.HasSuffix(which, "last") {
					key = keys[len(keys)-1]
				}
				if err := m.store.db.Update(func(txn *badger.Txn) error { return harm(txn, key) }); err != nil {
					t.Fatal(err)
				}
				m.close(t)
				told := make(chan error, 1)
				again, err := Open(Config{Dir: dir, FlushInterval: time.Hour, Fatal: func(err error) { told <- err }})
				if errors.Is(err, ErrDamaged) {
					return // noticed at open
				}
				if err != nil {
					t.Fatal(err)
				}
				defer again.Close()
				if err := useAll(again, t); !errors.Is(err, ErrDamaged) {
					t.Fatalf("got %v", err)
				}
				select {
				case err := <-told:
					if !errors.Is(err, ErrDamaged) {
						t.Fatal(err)
					}
				case <-t.Context().Done():
					t.Fatal("the owner was not told")
				}
			})
		}
	}
}

// useAll reads a run in every way, then appends to it, and returns the first error; Apply's
// panic counts as one.
func useAll(m *Machine, t *testing.T) (err error) {
	if _, err := m.Run(t.Context(), "r"); err != nil {
		return err
	}
	if _, err := m.Records(t.Context(), "r", 0, 100, 1<<20); err != nil {
		return err
	}
	if _, err := m.Messages(t.Context(), "s", 0, 100, 1<<20); err != nil {
		return err
	}
	if _, err := m.Run(t.Context(), "asks"); err != nil {
		return err
	}
	if _, err := m.Thread(t.Context(), "t", event.ThreadQuery{}); err != nil {
		return err
	}
	if _, err := m.Changes(t.Context(), 0, 100); err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil {
			m.mu.Unlock() // the process would be gone
			err = m.noteDamage(fmt.Errorf("%w: %v", ErrDamaged, p))
		}
	}()
	a := batch(t, "r", `{"type":"TEXT_MESSAGE_START","messageId":"n"}`)
	a.Producer = &event.Producer{ID: "p", Seq: 1}
	m.Apply(entryAt(m.Applied()+1, a))
	return nil
}

// TestHungFlushStopsTheMachine: a flush that does not end in time is reported, and Apply takes
// nothing more.
func TestHungFlushStopsTheMachine(t *testing.T) {
	t.Parallel()
	told := make(chan error, 1)
	hangs := make(chan struct{})
	m, err := Open(Config{
		Dir: t.TempDir(), FlushInterval: time.Hour, FlushTimeout: time.Millisecond,
		Fatal:       func(err error) { told <- err },
		beforeWrite: func() { <-hangs },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	defer close(hangs)
	m.Apply(entryAt(1, batch(t, "r", started)))
	go m.Flush(context.Background()) // ends with the machine
	if err := <-told; err == nil {
		t.Fatal("no reason")
	}
	defer func() {
		if recover() == nil {
			t.Fatal("applied an entry after the stop")
		}
		m.mu.Unlock()
	}()
	m.Apply(entryAt(2, batch(t, "r", custom(1))))
}

func TestBrokenEntryPanics(t *testing.T) {
	t.Parallel()
	m := open(t, t.TempDir())
	defer m.close(t)
	l := entryAt(1, batch(t, "r", started))
	l.Data[len(l.Data)-1] ^= 1
	defer func() {
		if p := fmt.Sprint(recover()); p == "<nil>" || m.Applied() != 0 {
			t.Fatalf("panic %s, applied %d", p, m.Applied())
		}
	}()
	m.Apply(l)
}
