package raftlog

import (
	"context"

	"github.com/runlog/runlog/event"
)

// A fakeState has no leases; tests of leases use the real state machine.

func (s *fakeState) Leases() ([]event.LeaseView, []error)    { return nil, nil }
func (s *fakeState) OnLease(func(uint64, []event.LeaseView)) {}
func (s *fakeState) Run(context.Context, event.RunID) (event.Run, error) {
	return event.Run{}, event.ErrRunNotFound
}
func (s *fakeState) OverdueWakes() []event.LapseWake  { return nil }
func (s *fakeState) Overdue(int) []event.ExpireStream { return nil }
func (s *fakeState) ClosingBytes(context.Context, event.RunID, event.Status) (uint64, error) {
	return 0, nil
}
