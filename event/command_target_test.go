package event

import "testing"

func TestAppendTarget(t *testing.T) {
	t.Parallel()
	three := Epoch(3)
	full := &Append{Batch{Run: "r/ü", Epoch: &three, Producer: &Producer{ID: "p"}, Events: []Event{mustEvent(t, `{"type":"CUSTOM","name":"n"}`)}}}
	encoded := AppendCommand(nil, full)
	if run, epoch, ok := AppendTarget(encoded); !ok || run != "r/ü" || epoch != 3 {
		t.Errorf("%q, %d, %t", run, epoch, ok)
	}
	for name, b := range map[string][]byte{
		"without an epoch": AppendCommand(nil, &Append{Batch{Run: "r"}}),
		"another kind":     AppendCommand(nil, DeleteRun{Run: "r"}),
		"nothing":          nil,
		"cut off":          encoded[:3],
	} {
		if run, _, ok := AppendTarget(b); ok {
			t.Errorf("%s: %q", name, run)
		}
	}
}

func mustEvent(t *testing.T, raw string) Event {
	t.Helper()
	e, err := ParseEvent([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return e
}
