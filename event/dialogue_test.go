package event

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestDialogueIsReadAndTravels(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]*Dialogue{
		`{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"id":"a","reason":"r"},{"id":"b"}]}}`: {Asked: []string{"a", "b"}},
		`{"type":"RUN_FINISHED","outcome":{"type":"success","interrupts":[{"id":"a"}]}}`:                           nil,
		`{"type":"RUN_STARTED","input":{"resume":[{"interruptId":"a","status":"resolved","payload":{"x":1}},` +
			`{"interruptId":"b","status":"cancelled"}]}}`: {Answers: []Answer{{"a", false}, {"b", true}}},
		`{"type":"RUN_STARTED","input":{"messages":[]}}`:                                                      nil,
		`{"type":"RUN_STARTED","input":{"resume":[]}}`:                                                        nil,
		`{"type":"CUSTOM","name":"n","value":1,"input":{"resume":[{"interruptId":"a","status":"resolved"}]}}`: nil,
	} {
		e, err := ParseEvent([]byte(raw))
		if err != nil || e.Header.Flaw != "" || !reflect.DeepEqual(e.Header.Dialogue, want) {
			t.Errorf("%s: %+v, flaw %q, %v", raw, e.Header.Dialogue, e.Header.Flaw, err)
		}
		c := &Append{Batch{Run: "r", Events: []Event{e}}}
		got, err := DecodeCommand(AppendCommand(nil, c))
		if err != nil || !reflect.DeepEqual(got, Command(c)) {
			t.Errorf("%s comes back as %+v, %v", raw, got, err)
		}
	}
}

func TestDialogueFlaws(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"reason":"r"}]}}`,
		`{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"id":"` + strings.Repeat("x", maxHeaderID+1) + `"}]}}`,
		`{"type":"RUN_STARTED","input":{"resume":{}}}`,
		`{"type":"RUN_STARTED","input":{"resume":[{"interruptId":"a","status":"maybe"}]}}`,
		`{"type":"RUN_STARTED","input":{"resume":[` + strings.Repeat(`{"interruptId":"a","status":"resolved"},`, MaxInterrupts) + `{"interruptId":"b","status":"resolved"}]}}`,
	} {
		if e, err := ParseEvent([]byte(raw)); err != nil || e.Header.Flaw == "" {
			t.Error(fmt.Sprintf("%.80s", raw), "has no flaw", err)
		}
	}
}
