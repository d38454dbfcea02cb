package event

import (
	"strings"
	"testing"
)

func TestHalfSurrogate(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]bool{
		`""`:                     false,
		`"plain \n \\ \" ü 🚀"`:   false,
		`"\u00e9"`:               false,
		`"\ud83d\ude80"`:         false,
		`"\uD83D\uDE80x\\ud83d"`: false,
		`"\ud83d"`:               true,
		`"\ude80"`:               true,
		`"\ud83dx"`:              true,
		`"\ud83d\n"`:             true,
		`"\ud83d\ud83d\ude80"`:   true,
		`"\ude80\ud83d"`:         true,
		`"\ud83d\u0041"`:         true,
	} {
		if HalfSurrogate(raw) != want {
			t.Errorf("%s: %t", raw, !want)
		}
	}
}

// Ids that are no Unicode text are flaws of their events; deltas that are none are not.
func TestHalfSurrogatesInEvents(t *testing.T) {
	t.Parallel()
	for raw, flawed := range map[string]bool{
		`{"type":"TEXT_MESSAGE_START","messageId":"m\ud83d"}`:                             true,
		`{"type":"TOOL_CALL_START","toolCallId":"\ude80","toolCallName":"n"}`:             true,
		`{"type":"RUN_STARTED","runId":"\ud83dr","threadId":"t"}`:                         true,
		`{"type":"TEXT_MESSAGE_START","messageId":"m\ud83d\ude80"}`:                       false,
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"\ud83d"}`:                false,
		`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"\ude80"}`:                  false,
		`{"type":"TOOL_CALL_RESULT","toolCallId":"c","messageId":"m","content":"\ud83d"}`: false,
	} {
		e, err := ParseEvent([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(e.Header.Flaw, "half of a surrogate pair"); got != flawed {
			t.Errorf("%s: flaw %q", raw, e.Header.Flaw)
		}
	}
}
