package fsm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/runlog/runlog/event"
)

// Report is what a check of a whole state found: how much, and that all of it is sound.
type Report struct {
	ClusterID   string
	Index, Term uint64 // of the last log entry that the state includes
	StateHash   string
	Names       uint64 // run ids that are or were
	Runs        uint64
	Records     uint64
}

// VerifyState reads all of a state whose node is stopped, and changes nothing unless the node was killed:
// every checksum, each
// run's chain from its first record to its head, that no record is missing between, and that no run's
// name is. It fails with [ErrDamaged].
func VerifyState(ctx context.Context, dir string) (Report, error) {
	name, err := os.ReadFile(filepath.Join(dir, currentFile))
	if err != nil {
		return Report{}, fmt.Errorf("fsm: no state in %s: %w", dir, err)
	}
	path := filepath.Join(dir, string(name))
	quiet := slog.New(slog.DiscardHandler)
	st, err := openBadger(badger.DefaultOptions(path).WithReadOnly(true), path, quiet)
	if errors.Is(err, badger.ErrTruncateNeeded) || err != nil && strings.Contains(err.Error(), badger.ErrTruncateNeeded.Error()) {
		// The node was killed: what a start would do with its last write has to be done.
		st, err = openBadger(badger.DefaultOptions(path), path, quiet)
	}
	if err != nil {
		return Report{}, err
	}
	r, err := st.verify(ctx)
	return r, errors.Join(err, st.close())
}

func (st *store) verify(ctx context.Context) (Report, error) {
	res, err := st.loadResident()
	r := Report{
		ClusterID: res.meta.clusterID, Index: res.meta.index, Term: res.meta.term,
		StateHash: fmt.Sprintf("%016x", res.meta.stateHash), Names: res.meta.names,
	}
	if err != nil {
		return r, err
	}
	err = st.db.View(func(txn *badger.Txn) error {
		for _, kind := range replicated {
			if err := scan(txn, []byte{kind}, func(_, _ []byte) error { return ctx.Err() }); err != nil {
				return err
			}
		}
		return scan(txn, []byte{keyHead}, func(_, value []byte) error {
			if isDeleted(value) {
				return nil
			}
			h, err := decodeHead(value)
			if err != nil {
				return err
			}
			r.Runs++
			r.Records += uint64(h.tail)
			if err := st.verifyRun(ctx, &h); err != nil {
				return fmt.Errorf("run %s: %w", h.id, err)
			}
			return nil
		})
	})
	if err == nil && r.Runs != res.meta.runs {
		err = fmt.Errorf("%w: there are %d runs, there must be %d", ErrDamaged, r.Runs, res.meta.runs)
	}
	return r, err
}

// verifyRun follows a run's chain.
func (st *store) verifyRun(ctx context.Context, h *head) error {
	var chain uint64
	var next event.Offset
	err := st.eachSegment(h.sid, 0, h.tail, func(s segment) error {
		if s.first != next || next > 0 && s.before != chain {
			return fmt.Errorf("%w: the segment at %d does not continue the chain", ErrDamaged, s.first)
		}
		next, chain = s.end(), s.after
		if err := s.each(s.first, func(event.Record) bool { return true }); err != nil {
			return err
		}
		return ctx.Err()
	})
	if err == nil && h.tail > 0 && (next != h.tail || chain != h.chain) {
		err = fmt.Errorf("%w: the chain ends at %d and does not match the head at %d", ErrDamaged, next, h.tail)
	}
	return err
}
