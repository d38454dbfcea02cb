package projection

import (
	"fmt"

	"github.com/runlog/runlog/event"
)

// Fold is a projection in the making: records go in, one after the other, and its present value
// can be read at any time. A Fold belongs to one goroutine.
type Fold interface {
	// Apply folds one record in. It never fails: what the published client would ignore or choke
	// on is ignored. Records arrive in offset order; for a thread, those of several runs follow one
	// another. Apply keeps no reference to r.Raw, which must be valid JSON no deeper than
	// event.MaxDepth (on anything else it does nothing sensible, but does not panic).
	Apply(r event.Record)
	// AppendJSON appends the present value to dst: an array of AG-UI messages for KindTranscript, of
	// tool calls (the contract's toolCalls) for KindTools, the state itself for KindState.
	AppendJSON(dst []byte) []byte
	// Size estimates the serialised size in bytes, in constant time.
	Size() int
	// MarshalBinary returns the whole fold, open streams included: a fold restored from it goes on
	// exactly as this one would. The encoding is deterministic and versioned.
	MarshalBinary() ([]byte, error)
	// UnmarshalBinary replaces the fold by what MarshalBinary of the same kind returned. It returns
	// [ErrVersion] for another version's bytes and [ErrCorrupt] for damaged ones; the caller then
	// folds again from the first record. The fold keeps no reference to data.
	UnmarshalBinary(data []byte) error
}

// Kind names a projection. The numbers are persisted with checkpoints and must stay stable.
type Kind uint8

// The projections of a run.
const (
	KindTranscript Kind = 1
	KindTools      Kind = 2
	KindState      Kind = 3
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case KindTranscript:
		return "transcript"
	case KindTools:
		return "tools"
	case KindState:
		return "state"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// New returns an empty fold. It panics on a kind that does not exist.
func New(kind Kind) Fold {
	switch kind {
	case KindTranscript:
		return newTranscript()
	case KindTools:
		return newTools()
	case KindState:
		return newState()
	}
	panic("projection: no such " + kind.String())
}
