package event

import (
	"encoding/binary"
	"fmt"

	"github.com/tidwall/gjson"
)

// MaxInterrupts bounds the interrupts that one event leaves open or answers.
const MaxInterrupts = 100

// Dialogue is what an event has to do with interrupts: ids alone, so that the state machine
// decides about them without reading JSON.
type Dialogue struct {
	// Asked lists the interrupts of a RUN_FINISHED with an interrupt outcome.
	Asked []string
	// Answers lists RUN_STARTED's input.resume.
	Answers []Answer
}

// Answer is one entry of a resume.
type Answer struct {
	InterruptID string
	Cancelled   bool // status cancelled; otherwise resolved
}

// asked reads the ids of an outcome's interrupts.
func (h *Header) asked(outcome gjson.Result) *Dialogue {
	var d Dialogue
	for i, v := range outcome.Get("interrupts").Array() {
		if id, ok := h.interruptID(i, v.Get("id")); ok {
			d.Asked = append(d.Asked, id)
		}
	}
	if len(d.Asked) == 0 {
		return nil
	}
	return &d
}

// answers reads the resume of a RunAgentInput.
func (h *Header) answers(input gjson.Result) *Dialogue {
	resume := input.Get("resume")
	if !input.IsObject() || !resume.Exists() {
		return nil
	}
	if !resume.IsArray() {
		h.flaw("input.resume is not an array")
		return nil
	}
	var d Dialogue
	for i, v := range resume.Array() {
		status := v.Get("status").Str
		if status != string(InterruptResolved) && status != string(InterruptCancelled) {
			h.flaw("the status of a resume is neither resolved nor cancelled")
			continue
		}
		if id, ok := h.interruptID(i, v.Get("interruptId")); ok {
			d.Answers = append(d.Answers, Answer{id, status == string(InterruptCancelled)})
		}
	}
	if len(d.Answers) == 0 {
		return nil
	}
	return &d
}

func (h *Header) interruptID(i int, v gjson.Result) (string, bool) {
	switch {
	case i >= MaxInterrupts:
		h.flaw(fmt.Sprintf("over %d interrupts", MaxInterrupts))
	case v.Type != gjson.String || v.Str == "":
		h.flaw("an interrupt has no id")
	case len(v.Str) > maxHeaderID:
		h.flaw(fmt.Sprintf("an interrupt's id has over %d bytes", maxHeaderID))
	default:
		return v.Str, true
	}
	return "", false
}

// A dialogue in a command: count and ids asked, then count and, per answer, id and cancelled (uint8).
func appendDialogue(dst []byte, d *Dialogue) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(d.Asked)))
	for _, id := range d.Asked {
		dst = appendBytes(dst, id)
	}
	dst = binary.AppendUvarint(dst, uint64(len(d.Answers)))
	for _, a := range d.Answers {
		dst = appendFlag(appendBytes(dst, a.InterruptID), a.Cancelled)
	}
	return dst
}

func (w *wire) dialogue() *Dialogue {
	var d Dialogue
	for range w.count(1) {
		d.Asked = append(d.Asked, w.string())
	}
	for range w.count(2) {
		d.Answers = append(d.Answers, Answer{w.string(), w.byte() != 0})
	}
	return &d
}
