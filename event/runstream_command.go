package event

// The kinds of the commands by which Durable Streams' operations reach a run.
const (
	KindOpenRunStream   Kind = 25
	KindAppendRunStream Kind = 26
)

// OpenRunStream is PUT of a run: it creates the run or finds it, and acquires its lease for Holder;
// *OpenRunStream is the Command. Result.Created tells whether the run is new.
type OpenRunStream struct {
	Run RunID
	// Thread is the thread of a new run; an existing one must be of it. Empty: none was named, and a
	// new run's is that of its RUN_STARTED, if that is in Messages, or has the run's own id.
	Thread ThreadID
	// Epoch refuses (Fenced) unless the run is at this epoch; nil when the request named none.
	Epoch *Epoch
	// Holder acquires the lease, for LeaseMs; empty: no lease.
	Holder     HolderID
	LeaseMs    int64
	TakeoverMs *int64
	// Closed says that the request asked for a closed stream.
	Closed bool
	// Records says that who opens the run reads records. While the run has no event that could tell,
	// the cluster ends it with records, too.
	Records  bool
	Messages RunMessages // of a new run
	// Key tells a repeated request from a new one: [HashKey], or zero.
	Key IdempotencyKey
}

// AppendRunStream is POST to a run: events, a close, or both; *AppendRunStream is the Command.
type AppendRunStream struct {
	Run RunID
	// Epoch is the writer's fencing token; nil when the request named none.
	Epoch *Epoch
	// Holder is who writes; with LeaseMs the renewed lease gets that term.
	Holder   HolderID
	LeaseMs  int64
	Messages RunMessages
	// Close ends what the writer has to say: it releases the lease unless the run has ended.
	Close bool
	// Seq is the request's Stream-Seq, which must grow byte by byte with each append; empty: none.
	Seq      string
	Producer *Producer
}

// RunMessages are events as Durable Streams carries them to a run.
//
// Invariant: they are what [ParseMessages] returns.
type RunMessages struct {
	// Events have the raw message, and the header of the event in it.
	Events []Event
	// Seqs number the records; nil when the events are bare.
	Seqs []uint64
}

// Framed reports whether the messages are records.
func (m *RunMessages) Framed() bool { return m.Seqs != nil }

// Kind returns the command's number.
func (*OpenRunStream) Kind() Kind { return KindOpenRunStream }

// Kind returns the command's number.
func (*AppendRunStream) Kind() Kind { return KindAppendRunStream }
