package event

import "fmt"

// Sentinels of what commands about plain streams are refused with, for errors.Is.
var (
	ErrStreamNotFound    error = &StreamNotFound{}
	ErrStreamGone        error = &StreamGone{}
	ErrStreamExists      error = &StreamExists{}
	ErrStreamClosed      error = &StreamClosed{}
	ErrContentType       error = &ContentTypeConflict{}
	ErrStreamSeqConflict error = &StreamSeqConflict{}
	ErrProducerReset     error = &ProducerReset{}
	ErrForkSource        error = &ForkSource{}
	ErrForkOffset        error = &ForkOffset{}
)

// StreamNotFound: no stream has that name.
type StreamNotFound struct{}

// StreamGone: the stream was deleted and its name is kept for as long as forks read its messages.
type StreamGone struct{}

// StreamExists: the name belongs to a stream of another configuration.
type StreamExists struct {
	// What differs: "content type", "ttl", "expiry", "closed" or "fork"; of a run "closed state" or "thread".
	What string `json:"what"`
}

// StreamClosed: nothing follows a stream's close.
type StreamClosed struct {
	Tail Offset `json:"tail"`
}

// ContentTypeConflict: a stream takes messages of its own content type alone.
type ContentTypeConflict struct {
	ContentType string `json:"contentType"` // the stream's
}

// StreamSeqConflict: the Stream-Seq does not come after the last one accepted.
type StreamSeqConflict struct {
	LastSeq string `json:"lastSeq"`
}

// ProducerReset: a new producer epoch must begin with sequence number 0.
type ProducerReset struct {
	ProducerEpoch uint64 `json:"producerEpoch"` // the producer's present epoch
}

// ForkSource: there is nothing of that name to branch off.
type ForkSource struct {
	Gone bool `json:"gone,omitempty"` // it was deleted; other forks still read it
}

// ForkOffset: the source does not reach to the offset to branch off at.
type ForkOffset struct {
	Tail Offset `json:"tail"` // the source's
}

// The codes of the refusals about plain streams.
const (
	CodeStreamNotFound      = "stream_not_found"
	CodeStreamGone          = "stream_gone"
	CodeStreamExists        = "stream_exists"
	CodeStreamClosed        = "stream_closed"
	CodeContentTypeConflict = "content_type_conflict"
	CodeStreamSeqConflict   = "stream_seq_conflict"
	CodeProducerReset       = "producer_reset"
	CodeForkSource          = "fork_source"
	CodeForkOffset          = "fork_offset"
)

func (*StreamNotFound) Code() string      { return CodeStreamNotFound }
func (*StreamGone) Code() string          { return CodeStreamGone }
func (*StreamExists) Code() string        { return CodeStreamExists }
func (*StreamClosed) Code() string        { return CodeStreamClosed }
func (*ContentTypeConflict) Code() string { return CodeContentTypeConflict }
func (*StreamSeqConflict) Code() string   { return CodeStreamSeqConflict }
func (*ProducerReset) Code() string       { return CodeProducerReset }
func (*ForkSource) Code() string          { return CodeForkSource }
func (*ForkOffset) Code() string          { return CodeForkOffset }

func (*StreamNotFound) Error() string { return "no such stream" }
func (*StreamGone) Error() string {
	return "the stream was deleted; its name is free once no fork reads its messages"
}
func (e *StreamExists) Error() string {
	return fmt.Sprintf("the stream exists with another configuration: the %s differs", e.What)
}
func (e *StreamClosed) Error() string {
	return fmt.Sprintf("the stream was closed at offset %d", e.Tail)
}
func (e *ContentTypeConflict) Error() string {
	return fmt.Sprintf("the stream holds %s", e.ContentType)
}
func (e *StreamSeqConflict) Error() string {
	return fmt.Sprintf("Stream-Seq must be larger than %q", e.LastSeq)
}
func (e *ProducerReset) Error() string {
	return fmt.Sprintf("a new producer epoch begins with sequence number 0; the producer is at epoch %d", e.ProducerEpoch)
}
func (e *ForkSource) Error() string {
	if e.Gone {
		return "the stream to fork was deleted"
	}
	return "there is no stream of that name to fork"
}
func (e *ForkOffset) Error() string {
	return fmt.Sprintf("the stream to fork ends at offset %d", e.Tail)
}

// Is makes errors.Is hold for a refusal with any data.
func (e *StreamNotFound) Is(t error) bool      { return sameCode(e, t) }
func (e *StreamGone) Is(t error) bool          { return sameCode(e, t) }
func (e *StreamExists) Is(t error) bool        { return sameCode(e, t) }
func (e *StreamClosed) Is(t error) bool        { return sameCode(e, t) }
func (e *ContentTypeConflict) Is(t error) bool { return sameCode(e, t) }
func (e *StreamSeqConflict) Is(t error) bool   { return sameCode(e, t) }
func (e *ProducerReset) Is(t error) bool       { return sameCode(e, t) }
func (e *ForkSource) Is(t error) bool          { return sameCode(e, t) }
func (e *ForkOffset) Is(t error) bool          { return sameCode(e, t) }

// streamRefusals are this file's part of what [DecodeRefusal] knows.
var streamRefusals = map[string]func() Refusal{
	CodeStreamNotFound:      func() Refusal { return new(StreamNotFound) },
	CodeStreamGone:          func() Refusal { return new(StreamGone) },
	CodeStreamExists:        func() Refusal { return new(StreamExists) },
	CodeStreamClosed:        func() Refusal { return new(StreamClosed) },
	CodeContentTypeConflict: func() Refusal { return new(ContentTypeConflict) },
	CodeStreamSeqConflict:   func() Refusal { return new(StreamSeqConflict) },
	CodeProducerReset:       func() Refusal { return new(ProducerReset) },
	CodeForkSource:          func() Refusal { return new(ForkSource) },
	CodeForkOffset:          func() Refusal { return new(ForkOffset) },
}
