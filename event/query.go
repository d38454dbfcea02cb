package event

import "errors"

// ErrBadCursor says that a listing's cursor was not made by a listing.
var ErrBadCursor = errors.New("not a cursor of a listing")

// Page is one read of a stream: consecutive records, and where the stream stood when it was read.
//
// Invariant: Records are dense and in order; the last one's offset is below Tail.
type Page struct {
	Records []Record
	Tail    Offset
	Ended   bool // a terminal event is at Tail-1
}

// Scope says which runs a transcript covers.
type Scope uint8

// ScopeRun covers the run alone; ScopeThread puts the thread's earlier runs, in order of creation, before it.
const (
	ScopeRun    Scope = 0
	ScopeThread Scope = 1
)

// RunQuery filters and pages a listing of runs. The zero value lists all, newest first, in pages
// of DefaultRunLimit.
type RunQuery struct {
	Status          Status
	Lease           LeaseState // "none": never leased or lease gone
	Holder          HolderID
	ExpiresWithinMs *int64
	ThreadID        ThreadID
	ParentRunID     RunID
	Prefix          string // of the run id
	Ascending       bool   // oldest first
	Limit           int    // 0: DefaultRunLimit; at most MaxRunLimit
	Cursor          string // RunPage.NextCursor of the page before
}

// LeaseStateNone selects runs without a lease in a [RunQuery].
const LeaseStateNone LeaseState = "none"

// Bounds of a listing's page.
const (
	DefaultRunLimit = 100
	MaxRunLimit     = 1000
)

// RunPage is one page of a listing; NextCursor is empty on the last.
type RunPage struct {
	Runs       []Run  `json:"runs"`
	NextCursor string `json:"nextCursor,omitempty"`
}
