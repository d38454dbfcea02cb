package projection

import "testing"

func TestTerminal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ raw, message, code, outcome, usage, result string }{
		{raw: `{"type":"RUN_ERROR","message":"a\n\u00e9","code":"host_lost","usage":[{"inputTokens":1}]}`, message: "a\né", code: "host_lost", usage: `[{"inputTokens":1}]`},
		{raw: `{"type":"RUN_ERROR"}`},
		{raw: `{"type":"RUN_ERROR","message":"half \ud83d","code":7}`, message: "half \uFFFD"},
		{raw: `{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"id":"i"}]},"usage":[],"result":12345678901234567890}`,
			outcome: `{"type":"interrupt","interrupts":[{"id":"i"}]}`, usage: `[]`, result: `12345678901234567890`},
		{raw: `{"type":"RUN_FINISHED","outcome":null,"result":null}`},
		{raw: `{"v":1,"seq":4,"chunk":{"type":"RUN_FINISHED","result":{"a":1}}}`, result: `{"a":1}`},
		{raw: `{"type":"CUSTOM","name":"n","value":1,"result":1,"usage":[1]}`},
		{raw: `nonsense`},
	} {
		err, outcome, usage, result := Terminal([]byte(c.raw))
		message, code := "", ""
		if err != nil {
			message, code = err.Message, err.Code
		}
		if message != c.message || code != c.code || string(outcome) != c.outcome || string(usage) != c.usage || string(result) != c.result {
			t.Errorf("Terminal(%s) = %q %q %s %s %s", c.raw, message, code, outcome, usage, result)
		}
	}
	if err, _, _, _ := Terminal([]byte(`{"type":"RUN_ERROR"}`)); err == nil {
		t.Error("a RUN_ERROR without a message is an error all the same")
	}
}
