package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// gutter marks the lines that a reader sees, breaks long ones, and colours a run's end on a
// terminal.
type gutter struct {
	w      io.Writer
	colour bool
	column int  // 0: at the beginning of a line
	space  bool // one is to be written before the next word
	tinted bool
}

// gutterWidth is where lines are broken, in characters behind the mark.
const gutterWidth = 94

// Write passes text on, each line behind the mark.
func (g *gutter) Write(p []byte) (int, error) {
	var b bytes.Buffer
	for line := range bytes.Lines(p) {
		text, ended := bytes.CutSuffix(line, []byte("\n"))
		if g.column == 0 {
			b.WriteString(g.mark() + " ")
			if tint := endTint(text); tint != "" && g.colour {
				b.WriteString(tint)
				g.tinted = true
			}
		}
		g.words(&b, string(text))
		if ended {
			g.end(&b)
		}
	}
	if _, err := g.w.Write(b.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// words writes text, going on in a new line before a word that would pass the width. A space waits
// for the word behind it.
func (g *gutter) words(b *bytes.Buffer, text string) {
	for part := range strings.SplitAfterSeq(text, " ") {
		if part == "" {
			break // what follows the last space
		}
		word, space := strings.CutSuffix(part, " ")
		n := utf8.RuneCountInString(word)
		switch {
		case g.space && g.column+1+n > gutterWidth:
			b.WriteString("\n" + g.mark() + "   ")
			g.column = 2
		case g.space:
			b.WriteByte(' ')
			g.column++
		}
		b.WriteString(word)
		g.column += n
		g.space = space
	}
}

func (g *gutter) end(b *bytes.Buffer) {
	if g.tinted {
		b.WriteString(plainTint)
		g.tinted = false
	}
	b.WriteByte('\n')
	g.column, g.space = 0, false
}

// Select Graphic Rendition (ECMA-48, 8.3.117).
const (
	plainTint = "\x1b[0m"
	boldTint  = "\x1b[1m"
	dimTint   = "\x1b[2m"
	redTint   = "\x1b[31m"
	greenTint = "\x1b[32m"
)

func endTint(line []byte) string {
	switch {
	case bytes.HasPrefix(line, []byte("✗")):
		return redTint
	case bytes.HasPrefix(line, []byte("✓")):
		return greenTint
	}
	return ""
}

func (g *gutter) tint(tint, s string) string {
	if !g.colour {
		return s
	}
	return tint + s + plainTint
}

func (g *gutter) mark() string         { return g.tint(dimTint, "│") }
func (g *gutter) bold(s string) string { return g.tint(boldTint, s) }
func (g *gutter) good(s string) string { return g.tint(greenTint, s) }

// onTerminal reports whether colours would be seen. NO_COLOR (no-color.org) is heeded.
func onTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
