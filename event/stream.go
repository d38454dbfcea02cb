package event

import (
	"fmt"
	"unicode/utf8"
)

// MaxStreamNameBytes bounds a stream's name.
const MaxStreamNameBytes = 512

// StreamName names a plain stream of the Durable Streams protocol: UTF-8 without control
// characters, slashes allowed. Unlike a run's id it may be used again once its stream is gone; the
// streams that one name had are told apart by their generation.
type StreamName string

// CheckStreamName returns nil if s may name a stream, or an *[IDError].
func CheckStreamName(s string) error {
	switch {
	case s == "":
		return &IDError{"stream name", "is empty"}
	case len(s) > MaxStreamNameBytes:
		return &IDError{"stream name", fmt.Sprintf("has %d bytes; at most %d are allowed", len(s), MaxStreamNameBytes)}
	case !utf8.ValidString(s):
		return &IDError{"stream name", "is not valid UTF-8"}
	}
	return checkControl("stream name", s)
}

// JSONContentType is the media type whose streams hold JSON values, one message each.
const JSONContentType = "application/json"

// Generation tells the streams that one name had apart. It is opaque, never used twice, and part of
// what a stream's ETags are made of.
type Generation string

// Stream is a plain stream as readers see it.
//
// Invariant: an offset below Tail can be read for as long as this generation exists.
type Stream struct {
	Name       StreamName
	Generation Generation
	// ContentType is the media type, lower case, without parameters.
	ContentType string
	Tail        Offset
	Closed      bool
	// TTLSeconds is how long the stream lives after it was last read or written; nil: not bounded so.
	TTLSeconds *int64
	// ExpiresAt is when the stream ends whatever happens; nil: not bounded so.
	ExpiresAt *Time
	// IdleMs is how long ago the stream was last touched, for those with a TTL.
	IdleMs int64
	// Fork says where the stream branched off; nil for one that is no fork.
	Fork *Fork
	// Gone says that the stream was deleted while forks still read its messages.
	Gone bool
	// LastSeq is the largest Stream-Seq accepted; empty: none was sent.
	LastSeq string
}

// Fork is where a stream branched off another log: the messages below At are the source's.
type Fork struct {
	// Source is the stream, or the run when OfRun is set.
	Source StreamName
	OfRun  bool
	// Generation is the source's. In a command it is what At and a materialised prefix were worked out
	// for; empty when the state machine works At out.
	Generation Generation
	// At is the first offset that is the fork's own; nil in a command: the source's tail.
	At *Offset
	// Requested and Sub are the request's Stream-Fork-Offset and Stream-Fork-Sub-Offset, which a
	// repeated request must name again.
	Requested *Offset
	Sub       uint64
}

// StreamPage is one read of a stream: consecutive messages, and where the stream stood when it was
// read. A message is a [Record] without an epoch.
type StreamPage struct {
	Messages   []Record
	Tail       Offset
	Closed     bool
	Generation Generation
}

// StreamResult answers a command about a stream.
type StreamResult struct {
	Stream Stream
	// Duplicate says that the producer's request had been accepted before.
	Duplicate bool
	// ProducerEpoch and ProducerSeq are the producer's present state: the highest accepted sequence
	// number at its epoch. They are set when the command named a producer.
	ProducerEpoch uint64
	ProducerSeq   uint64
}
