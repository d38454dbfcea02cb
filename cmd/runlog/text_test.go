package main

import (
	"testing"
)

// TestPrintable: nothing that a terminal would obey gets through, and everything else does.
func TestPrintable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain ü 東京 🚀\n\tnext":          "plain ü 東京 🚀\n\tnext",
		"\x1b[31mred\x1b[0m":            "␛[31mred␛[0m",
		"\x1b]0;title\x07":              "␛]0;title␇",
		"a\rb\x00\x7f":                  "a␍b␀␡",
		"\u009b31m":                     "<U+009B>31m",
		"access\u202e\u2066 // ok":      "access<U+202E><U+2066> // ok",
		"bad utf-8 \xff":                "bad utf-8 \ufffd",
		"zero-width joiner 👨\u200d👩 ok": "zero-width joiner 👨\u200d👩 ok",
	} {
		if got := printable(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestOneLine: what stands in a line of a table cannot leave it.
func TestOneLine(t *testing.T) {
	t.Parallel()
	if got := oneLine("a\nb\tc\x1b"); got != "a␊b␉c␛" {
		t.Errorf("%q", got)
	}
	if got := shorten("東京東京東京", 4); got != "東京東…" {
		t.Errorf("%q", got)
	}
}

// FuzzPrintable: whatever comes, no control character is left but line feed and tab.
func FuzzPrintable(f *testing.F) {
	f.Add("\x1b[2J\u009b\u202e\xff")
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range printable(s) {
			if unsafeRune(r) {
				t.Fatalf("%q leaves %U", s, r)
			}
		}
	})
}
