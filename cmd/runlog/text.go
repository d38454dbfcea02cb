package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/runlog/runlog/event"
)

// printable makes text from events safe to print: a terminal must not obey what a model or a tool
// wrote (escape sequences move the cursor, set the title, fill the clipboard). Control characters
// other than line feed and tab are shown as Unicode's pictures of them, and the characters that
// reorder text ("Trojan Source", CVE-2021-42574) as their code points.
func printable(s string) string {
	if !strings.ContainsFunc(s, unsafeRune) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !unsafeRune(r):
			b.WriteRune(r)
		case r < 0x20:
			b.WriteRune(0x2400 + r)
		case r == 0x7f:
			b.WriteRune(0x2421)
		default:
			fmt.Fprintf(&b, "<U+%04X>", r)
		}
	}
	return b.String()
}

func unsafeRune(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < 0x20, r >= 0x7f && r < 0xa0:
		return true
	}
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f || r == 0x061c
}

// oneLine is printable text on one line.
func oneLine(s string) string {
	return strings.NewReplacer("\n", "␊", "\t", "␉").Replace(printable(s))
}

// shorten cuts text to at most n characters, on one line.
func shorten(s string, n int) string {
	s = oneLine(s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// indent puts two spaces before every line.
func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n  ")
}

// clock shows a moment in local time, to the second.
func clock(t event.Time) string {
	return time.UnixMilli(int64(t)).Format("2006-01-02 15:04:05")
}

// plural returns "1 event" or "2 events".
func plural(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
