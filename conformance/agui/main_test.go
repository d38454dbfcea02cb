package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	t.Parallel()
	in := `{"events":[{"type":"RUN_STARTED"},{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"<a>"}]}` + "\n\n" + `{"events":[]}`
	want := `{"prefixes":[{"messages":[],"state":{}},{"messages":[{"id":"m","role":"assistant","content":"<a>"}],"state":{}}],` +
		`"preludes":[[{"type":"RUN_STARTED","threadId":"t","runId":"r"},{"type":"MESSAGES_SNAPSHOT","messages":[]}]]}` + "\n" + `{"prefixes":null}` + "\n"
	var out strings.Builder
	if err := run(strings.NewReader(in), &out, true); err != nil || out.String() != want {
		t.Errorf("got %s, %v; want %s", out.String(), err, want)
	}
	if err := run(strings.NewReader("nonsense\n"), &out, false); err == nil {
		t.Error("nonsense was read as a run")
	}
}
