package agentrun

import "testing"

func TestCanonical(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{`{"a":"\ud83d\ude00","b":1}`, `{"b":1,"a":"😀"}`, true},
		{`"\ud83d"`, `"\ufffd"`, false},
		{`"\ud83d"`, `"\ud83c"`, false},
		{`["\"\\\u0041"]`, `["\u0022\u005cA"]`, true},
		{`12345678901234567890`, `12345678901234567891`, false},
	} {
		if (Canonical(c.a) == Canonical(c.b)) != c.same {
			t.Errorf("%s and %s: %s, %s", c.a, c.b, Canonical(c.a), Canonical(c.b))
		}
	}
}
