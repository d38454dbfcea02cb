package event

// MaxEventBytes bounds one event's JSON, MaxBatchEvents and MaxBatchBytes one append.
const (
	MaxEventBytes  = 1 << 20
	MaxBatchBytes  = 1 << 20
	MaxBatchEvents = 1000
)

// Event is one AG-UI event: the bytes its host sent, and the header parsed from them.
//
// Invariant: Header is what [Parse] returns for Raw; the receiving node parses, every other
// node trusts the command.
type Event struct {
	Raw    []byte // verbatim JSON object; never re-encoded
	Header Header
}

// Outcome is how a RUN_FINISHED says the run went.
type Outcome uint8

// The outcomes of AG-UI 1.0. An absent or unknown outcome reads as success, as the published
// client reads it. The numbers are persisted and must stay stable.
const (
	OutcomeSuccess   Outcome = 0
	OutcomeInterrupt Outcome = 1
	OutcomeCancelled Outcome = 2
)

// Header holds the fields of an event that the state machine decides by. An absent field is
// the empty string.
type Header struct {
	Type Type
	// ID is what the event is about: messageId for TEXT_*, REASONING_* and ACTIVITY_*, toolCallId
	// for TOOL_CALL_*, stepName for STEP_*, subagentRunId for SUBAGENT_*.
	ID string
	// MessageID is the id of the message that a TOOL_CALL_RESULT creates.
	MessageID string
	// Lane is subagentRunId: chunk streams are kept apart by it.
	Lane string
	// RunID, ThreadID and ParentRunID are what RUN_STARTED and RUN_FINISHED carry.
	RunID       RunID
	ThreadID    ThreadID
	ParentRunID RunID
	// Outcome is RUN_FINISHED's.
	Outcome Outcome
	// Dialogue is RUN_STARTED's and RUN_FINISHED's part in asking and answering; nil: none.
	Dialogue *Dialogue
	// Named reports that a TOOL_CALL_CHUNK carries a toolCallName.
	Named bool
	// Flaw says what an AG-UI client would reject in the event's own fields; empty when nothing.
	// A strict run refuses a flawed event, a lenient one stores it.
	Flaw string
}

// Record is an event at its place in a stream.
type Record struct {
	Offset Offset
	Epoch  Epoch // of the writer; 0 while the run was never leased
	Time   Time  // log time of the append
	Raw    []byte
}

// Producer identifies one append of an idempotent producer: Durable Streams' Producer-Id,
// Producer-Epoch and Producer-Seq. A sequence number counts requests, not events.
type Producer struct {
	ID    ProducerID
	Epoch uint64
	Seq   uint64
}

// Batch is what one append carries, from the HTTP body to Apply.
type Batch struct {
	Run RunID
	// Epoch is the writer's fencing token; nil when the request named none.
	Epoch *Epoch
	// Expect is the tail the writer believes in (compare-and-set); nil when it does not care.
	Expect *Offset
	// Producer makes a repeated request harmless; nil when the request named none.
	Producer *Producer
	// BodyHash tells a repeated request from another one with the same sequence number: [HashBody].
	BodyHash uint64
	Events   []Event
}
