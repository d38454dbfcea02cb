package projection

import (
	"testing"

	"pgregory.net/rapid"
)

func TestKeyOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ raw, want string }{
		{`"a"`, "a"}, {`"\u0061"`, "a"}, {`""`, ""}, {``, absentID}, {`"\ud83d\ude00"`, "😀"}, {`"😀"`, "😀"},
		{`"\ud83d"`, "\xed\xa0\xbd"}, {`"\ude00\ud83d"`, "\xed\xb8\x80\xed\xa0\xbd"}, {`"\ud83d\u0041"`, "\xed\xa0\xbdA"},
		{`"\b\f\n\r\t\/\\\""`, "\b\f\n\r\t/\\\""}, {`"\uD83D\uDE00"`, "😀"}, {`"\u00e9"`, "é"},
	} {
		if got := keyOf(c.raw); got != c.want {
			t.Errorf("keyOf(%s) = %q, want %q", c.raw, got, c.want)
		}
	}
}

// quote is keyOf's inverse, lone halves included.
func TestQuote(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		units := rapid.SliceOf(rapid.SampledFrom([]string{`a`, `\ud83d`, `\ude00`, `\u0001`, `\"`, `\\`, `é`, `\uffff`})).Draw(t, "units")
		raw := `"`
		for _, u := range units {
			raw += u
		}
		raw += `"`
		if got := keyOf(quote(keyOf(raw))); got != keyOf(raw) {
			t.Fatalf("%s: %q became %q", raw, keyOf(raw), got)
		}
	})
}
