package projection

import "github.com/runlog/runlog/event"

// ThreadFold is a thread's runs, or some of them, folded one after the other, at one moment.
type ThreadFold struct {
	// Folds are the projections that were asked for, in that order.
	Folds []Fold
	// Runs are the runs that were folded, in the order of folding.
	Runs []ThreadRun
	// Missing is the run at which a chain of parents stopped because it is not, or no longer, a run
	// of the thread; empty when the chain reached its root, and for a whole thread.
	Missing event.RunID
}

// ThreadRun is a run and how many of its events were folded.
type ThreadRun struct {
	RunID event.RunID
	Tail  event.Offset
	Ended bool
}

// BeginRun tells a fold that the records which follow are those of another run of the thread.
// Whatever the run before left open stays as it is: nobody can go on with it. The tool history
// then says of each call which run made it, and which one answered.
func BeginRun(f Fold, run event.RunID) {
	switch f := f.(type) {
	case *transcriptFold:
		f.lanes = lanes{}
		f.spans.reset()
		f.turn++
	case *toolsFold:
		f.lanes = lanes{}
		f.leaveRun()
		f.run = quote(string(run))
	}
}
