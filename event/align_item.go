package event

import (
	"crypto/sha256"
)

// class is how an event takes part in alignment.
type class uint8

const (
	classStrict class = iota // keeps its place among all strict events
	classDelta               // floats within the text of its id
	classLive                // CUSTOM and RAW: only the live host may have had a reason to emit it
)

// item is an event taken apart for comparison.
type item struct {
	event   Event
	offset  Offset // of a stored one
	ordinal int    // of a replayed one, from 0
	typ     Type
	members []member
	class   class
	lane    string
	opens   bool // a chunk that opens its stream: strict, and its delta a delta
	odd     bool // a chunk without a stream

	// key names the text that the delta belongs to: messages and calls by their ids.
	key string
	// body is the delta as written, text the same in normal form; done is how much of text the log
	// was found to hold.
	body []byte
	text []byte
	done int

	// bounds are the texts whose deltas cannot change sides with this event. A wall bounds all.
	// closes are those among them whose chunk stream the event ends.
	bounds []string
	closes []string
	wall   bool
	// met says that the strict part was found in the log, and only text is left.
	met bool
	// seq numbers strict stored items.
	seq uint64
}

// newItem takes an event apart; lanes is of the side that it stands on.
func newItem(e Event, lanes *chunkLanes) *item {
	it := &item{event: e, typ: e.Header.Type, members: membersOf(e.Raw)}
	it.lane = textOf(valueOf(it.members, "subagentRunId"))
	message := func() string { return "m" + textOf(valueOf(it.members, "messageId")) }
	call := func() string { return "t" + textOf(valueOf(it.members, "toolCallId")) }
	switch it.typ {
	case TypeCustom, TypeRaw:
		it.class = classLive
	case TypeTextMessageContent, TypeReasoningMessageContent:
		it.class, it.key = classDelta, message()
	case TypeToolCallArgs:
		it.class, it.key = classDelta, call()
	case TypeThinkingTextMessageContent:
		it.class, it.key = classDelta, "thinking"
	case TypeTextMessageStart, TypeTextMessageEnd, TypeReasoningMessageStart, TypeReasoningMessageEnd,
		TypeToolCallResult, TypeActivitySnapshot, TypeActivityDelta:
		// A result or an activity may take the place of a message; text meant for that one must not
		// reach this one.
		it.bounds = []string{message()}
	case TypeToolCallStart, TypeToolCallEnd:
		it.bounds = []string{call()}
	case TypeThinkingTextMessageStart, TypeThinkingTextMessageEnd:
		it.bounds = []string{"thinking"}
	case TypeRunStarted, TypeRunFinished, TypeRunError, TypeMessagesSnapshot:
		it.wall = true // a snapshot replaces texts: what came before it and what after is not the same
	}
	lanes.take(it)
	if it.class == classDelta || it.opens {
		it.body = bodyOf(valueOf(it.members, "delta"))
		it.text = units(it.body)
	}
	return it
}

// rest returns the event that says what the log lacks of it.
func (it *item) rest() Event {
	if it.done == 0 {
		return it.event
	}
	delta := find(it.members, "delta")
	raw := it.event.Raw
	out := append(make([]byte, 0, len(raw)+8), raw[:delta.at]...)
	out = append(append(append(out, '"'), afterUnits(it.body, it.done)...), '"')
	out = append(out, raw[delta.at+len(delta.value):]...)
	return Event{Raw: out, Header: it.event.Header}
}

// liveHash stands for a CUSTOM or RAW event.
func (it *item) liveHash() IDHash {
	dst := append(make([]byte, 0, len(it.event.Raw)+8), byte(it.typ))
	for _, f := range compared[it.typ] {
		if v := valueOf(it.members, f.name); v != nil {
			dst = appendNormal(append(dst, '+'), v)
		} else {
			dst = append(dst, '-')
		}
	}
	h := sha256.Sum256(dst)
	return IDHash(h[:16])
}
