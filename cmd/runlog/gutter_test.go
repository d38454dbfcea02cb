package main

import (
	"io"
	"strings"
	"testing"
)

// TestGutter: lines are marked and broken between words, however they are cut into writes.
func TestGutter(t *testing.T) {
	t.Parallel()
	text := "assistant: " + strings.Repeat("word ", 30) + "end\n✗ no\n"
	want := "│ assistant: " + strings.TrimSpace(strings.Repeat("word ", 16)) + "\n│   " + strings.Repeat("word ", 14) + "end\n│ ✗ no\n"
	for name, parts := range map[string][]string{"whole": {text}, "words": strings.SplitAfter(text, " ")} {
		var out strings.Builder
		g := &gutter{w: &out}
		for _, part := range parts {
			io.WriteString(g, part)
		}
		if out.String() != want {
			t.Errorf("%s: %q", name, out.String())
		}
	}
}

// TestGutterColour: a run's end is coloured, and nothing after it.
func TestGutterColour(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	io.WriteString(&gutter{w: &out, colour: true}, "✗ no\nmore\n")
	if want := "\x1b[2m│\x1b[0m \x1b[31m✗ no\x1b[0m\n\x1b[2m│\x1b[0m more\n"; out.String() != want {
		t.Errorf("%q", out.String())
	}
}
