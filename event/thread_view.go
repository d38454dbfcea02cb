package event

// ThreadQuery pages the runs of one thread, newest first. The zero value is the first page.
type ThreadQuery struct {
	Head   RunID  // only the chain of parents that ends there; empty: every run
	Limit  int    // of runs; 0: DefaultRunLimit; at most MaxRunLimit
	Before string // NextCursor of the page before
}

// ThreadView is one moment of a thread. A thread without runs is the zero view with its id.
//
// Invariant: Cursor is where a stream must go on to miss nothing and repeat nothing of what the
// view tells.
type ThreadView struct {
	ThreadID   ThreadID
	Cursor     ThreadCursor
	ActiveRun  *Run  // the newest open run; nil when none is
	Runs       []Run // newest first, without what is open in them
	Interrupts []Interrupt
	NextCursor string // of older runs; empty on the last page
}

// ThreadSummary is a thread in a listing.
type ThreadSummary struct {
	ThreadID     ThreadID `json:"threadId"`
	Runs         uint64   `json:"runs"` // that exist; deleted ones do not count
	LastActivity Time     `json:"lastActivity"`
	ActiveRuns   []RunID  `json:"activeRuns"`
}

// ThreadRecord is an event at its place in a thread.
type ThreadRecord struct {
	Run    RunID
	Cursor ThreadCursor // right after this event
	Record
}

// ThreadRecordPage is one read of a thread's events, in order of runs, then of offsets.
type ThreadRecordPage struct {
	Records []ThreadRecord
	Next    ThreadCursor // where to read on
}

// ChangePage is one read of the stream of changes.
type ChangePage struct {
	First   Offset // the oldest that is kept
	Tail    Offset // what the next change will get
	Changes []Change
}
