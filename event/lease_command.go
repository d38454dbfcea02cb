package event

// The kinds of the commands about leases and locks.
const (
	KindAcquireLease  Kind = 6
	KindReviveLease   Kind = 7
	KindReleaseLease  Kind = 8
	KindLapseLease    Kind = 9
	KindExpireRun     Kind = 10
	KindCancelRun     Kind = 11
	KindEnforceCancel Kind = 12
	KindAcquireLock   Kind = 13
	KindReleaseLock   Kind = 14
	KindLapseLock     Kind = 15
)

// LockName names a lock; same form as a [RunID].
type LockName string

// AcquireLease makes Holder the run's holder at the next epoch, unless another holder's lease is
// held. Result.Run is the run as it is then.
type AcquireLease struct {
	Run     RunID
	Holder  HolderID
	LeaseMs int64
	// IfEpoch refuses (Fenced) unless the run is at this epoch.
	IfEpoch *Epoch
	// Steal takes a held lease too; it needs IfEpoch.
	Steal bool
	// Key makes a repeated request get the epoch that the first one got; zero: none.
	Key IdempotencyKey
}

// ReviveLease makes a lapsed lease held again: its holder renewed it before anybody acquired. It also
// writes down a longer term than the lease had, since a new leader goes by the log alone.
type ReviveLease struct {
	Run     RunID
	Epoch   Epoch
	LeaseMs int64 // 0: as it was
}

// ReleaseLease gives a lease up. TakeoverMs is the window for a successor; nil: the larger of
// the run's and [DefaultReleaseWindowMs].
type ReleaseLease struct {
	Run        RunID
	Epoch      Epoch
	TakeoverMs *int64
}

// DefaultReleaseWindowMs is how long a released run waits for a successor at least.
const DefaultReleaseWindowMs = 60_000

// LapseLease is the lessor's verdict that a lease is no longer live while the run may still be
// taken over. A verdict is refused (StaleVerdict) when epoch or tail are not the run's any more:
// an append that got in first beats it.
type LapseLease struct {
	Run   RunID
	Epoch Epoch
	Tail  Offset
}

// ExpireRun is the lessor's verdict that the window is over: the cluster closes what is open and
// ends the run with RUN_ERROR, code host_lost, in one entry. It is refused like LapseLease, and when
// closing would write more than MaxBytes.
type ExpireRun struct {
	Run      RunID
	Epoch    Epoch
	Tail     Offset
	MaxBytes uint64
}

// CancelRun asks for a run's end. It is seen by the holder in its next answers; when the holder has
// not ended the run WithinMs later, or nobody's lease is held, the lessor enforces it.
type CancelRun struct {
	Run      RunID
	Reason   string
	WithinMs int64
}

// EnforceCancel is the lessor's verdict that nobody answered a cancel: the cluster closes what is
// open and ends the run with RUN_FINISHED, outcome cancelled. It is refused like [ExpireRun], but
// not for what was written since: writing on is no answer to a cancel.
type EnforceCancel struct {
	Run      RunID
	Epoch    Epoch
	Tail     Offset
	MaxBytes uint64
}

// AcquireLock takes a lock that nobody else holds. Result.Lock tells its epoch: larger than every
// epoch that any lock of the cluster had before.
type AcquireLock struct {
	Name    LockName
	Holder  HolderID
	LeaseMs int64
	Key     IdempotencyKey
}

// ReleaseLock gives a lock up.
type ReleaseLock struct {
	Name  LockName
	Epoch Epoch
}

// LapseLock is the lessor's verdict that a lock's lease is no longer live.
type LapseLock struct {
	Name  LockName
	Epoch Epoch
}

// Kind returns the command's number.
func (AcquireLease) Kind() Kind { return KindAcquireLease }

// Kind returns the command's number.
func (ReviveLease) Kind() Kind { return KindReviveLease }

// Kind returns the command's number.
func (ReleaseLease) Kind() Kind { return KindReleaseLease }

// Kind returns the command's number.
func (LapseLease) Kind() Kind { return KindLapseLease }

// Kind returns the command's number.
func (ExpireRun) Kind() Kind { return KindExpireRun }

// Kind returns the command's number.
func (CancelRun) Kind() Kind { return KindCancelRun }

// Kind returns the command's number.
func (EnforceCancel) Kind() Kind { return KindEnforceCancel }

// Kind returns the command's number.
func (AcquireLock) Kind() Kind { return KindAcquireLock }

// Kind returns the command's number.
func (ReleaseLock) Kind() Kind { return KindReleaseLock }

// Kind returns the command's number.
func (LapseLock) Kind() Kind { return KindLapseLock }

// LeaseView is what the lessor must know of one run or lock.
type LeaseView struct {
	// Run is the run, or the lock's name when Lock is set.
	Run  RunID
	Lock bool
	// Ended says that the run has ended, or the lock is free: there is nothing to judge any more.
	Ended   bool
	Epoch   Epoch
	Tail    Offset
	Holder  HolderID
	LeaseMs int64
	// State is empty for a run that was never leased.
	State LeaseState
	// TakeoverMs is the window that counts now; nil: the run never ends by itself.
	TakeoverMs *int64
	// Renewed says that the change was one that renews the lease: an acquisition or an append.
	Renewed bool
	// CancelRequested and CancelWithinMs tell of a pending cancel.
	CancelRequested bool
	CancelWithinMs  int64
	// EndedBy is set in the one change by which the cluster ended the run, to the status that it
	// gave it: [StatusLost] or [StatusCancelled].
	EndedBy Status
}
