package fsm

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/runlog/runlog/event"
)

// Roster returns what the cluster remembers of itself.
func (m *Machine) Roster() *event.Roster { return m.roster.Load() }

// rosterCommand applies a command about the cluster itself; false: c is none.
func (a *applier) rosterCommand(c event.Command) bool {
	r := *a.m.roster.Load()
	switch c := c.(type) {
	case event.SetMember:
		r.Members = append(without(r.Members, c.ID), c.ClusterMember)
		slices.SortFunc(r.Members, func(x, y event.ClusterMember) int { return strings.Compare(x.ID, y.ID) })
	case event.DropMember:
		r.Members = without(r.Members, c.ID)
	case event.RaiseLevel:
		r.Level = max(r.Level, c.Level)
	case event.Refound:
		r.Members = nil
		a.m.active.meta.clusterID = c.ClusterID
		a.effects.WriteString(c.ClusterID)
	default:
		return false
	}
	a.m.roster.Store(&r)
	encoded := encodeRoster(&r)
	a.m.active.setRoster(&r, len(encoded))
	a.effects.Write(encoded)
	return true
}

// without returns a copy of members that lacks one.
func without(members []event.ClusterMember, id string) []event.ClusterMember {
	return slices.DeleteFunc(slices.Clone(members), func(m event.ClusterMember) bool { return m.ID == id })
}

func (o *overlay) setRoster(r *event.Roster, size int) {
	o.grow(size)
	o.roster = r
}

const rosterVersion = 1

var rosterKey = []byte{keyRoster}

func encodeRoster(r *event.Roster) []byte {
	var e enc
	e.u8(rosterVersion)
	e.uv(uint64(r.Level))
	e.uv(uint64(len(r.Members)))
	for _, m := range r.Members {
		e.str(m.ID)
		e.str(m.DirID)
		e.str(m.HTTP)
		e.flag(m.Voter)
	}
	return e.b
}

func decodeRoster(b []byte) (*event.Roster, error) {
	d := dec{b: b}
	if v := d.u8(); v != rosterVersion {
		return nil, fmt.Errorf("%w: roster version %d; this build knows %d", ErrDamaged, v, rosterVersion)
	}
	r := &event.Roster{Level: event.Level(d.uv())}
	for n := d.uv(); n > 0 && !d.bad; n-- {
		r.Members = append(r.Members, event.ClusterMember{ID: d.str(), DirID: d.str(), HTTP: d.str(), Voter: d.flag()})
	}
	return r, d.done("roster")
}

// loadRoster reads the roster; a cluster that began before there was one has none yet.
func (res *resident) loadRoster(txn *badger.Txn) error {
	if _, err := txn.Get(rosterKey); errors.Is(err, badger.ErrKeyNotFound) {
		return nil
	}
	value, err := get(txn, rosterKey)
	if err == nil {
		res.roster, err = decodeRoster(value)
	}
	return err
}
