package event

import "encoding/binary"

// An event in a command: type (uint8), a mask of the fields that follow (uvarint), those
// fields in the order of their bits, the raw JSON (uvarint length, bytes).
const (
	bitID = 1 << iota
	bitMessageID
	bitLane
	bitRunID
	bitThreadID
	bitParentRunID
	bitOutcome
	bitNamed
	bitFlaw
	bitDialogue
)

func appendEventBytes(dst []byte, e *Event) []byte {
	h := &e.Header
	var mask uint64
	for _, f := range [...]struct {
		bit uint64
		set bool
	}{
		{bitID, h.ID != ""}, {bitMessageID, h.MessageID != ""}, {bitLane, h.Lane != ""},
		{bitRunID, h.RunID != ""}, {bitThreadID, h.ThreadID != ""}, {bitParentRunID, h.ParentRunID != ""},
		{bitOutcome, h.Outcome != 0}, {bitNamed, h.Named}, {bitFlaw, h.Flaw != ""},
		{bitDialogue, h.Dialogue != nil},
	} {
		if f.set {
			mask |= f.bit
		}
	}
	dst = append(dst, byte(h.Type))
	dst = binary.AppendUvarint(dst, mask)
	for _, f := range [...]struct {
		bit uint64
		s   string
	}{
		{bitID, h.ID}, {bitMessageID, h.MessageID}, {bitLane, h.Lane},
		{bitRunID, string(h.RunID)}, {bitThreadID, string(h.ThreadID)}, {bitParentRunID, string(h.ParentRunID)},
	} {
		if mask&f.bit != 0 {
			dst = appendBytes(dst, f.s)
		}
	}
	if mask&bitOutcome != 0 {
		dst = append(dst, byte(h.Outcome))
	}
	if mask&bitFlaw != 0 {
		dst = appendBytes(dst, h.Flaw)
	}
	if mask&bitDialogue != 0 {
		dst = appendDialogue(dst, h.Dialogue)
	}
	return appendBytes(dst, e.Raw)
}

func (w *wire) event(e *Event) {
	h := &e.Header
	h.Type = Type(w.byte())
	mask := w.uvarint()
	if mask&bitID != 0 {
		h.ID = w.string()
	}
	if mask&bitMessageID != 0 {
		h.MessageID = w.string()
	}
	if mask&bitLane != 0 {
		h.Lane = w.string()
	}
	if mask&bitRunID != 0 {
		h.RunID = RunID(w.string())
	}
	if mask&bitThreadID != 0 {
		h.ThreadID = ThreadID(w.string())
	}
	if mask&bitParentRunID != 0 {
		h.ParentRunID = RunID(w.string())
	}
	if mask&bitOutcome != 0 {
		h.Outcome = Outcome(w.byte())
	}
	h.Named = mask&bitNamed != 0
	if mask&bitFlaw != 0 {
		h.Flaw = w.string()
	}
	if mask&bitDialogue != 0 {
		h.Dialogue = w.dialogue()
	}
	e.Raw = w.bytes()
}
