package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/runlog/runlog/event"
)

// screen shows a run as it happens, for people: text as it streams, a line for a tool call when
// its arguments are complete and one for its result.
type screen struct {
	w      io.Writer
	open   string            // the message whose text was printed last, unless a line came after it
	column bool              // something stands on the cursor's line
	halves map[string]string // by message: the first half of a surrogate pair, as its escape
	calls  map[string]*screenCall
}

type screenCall struct{ name, args string }

func newScreen(w io.Writer) *screen {
	return &screen{w: w, halves: map[string]string{}, calls: map[string]*screenCall{}}
}

// shown is what screen reads of an event.
type shown struct {
	MessageID    string          `json:"messageId"`
	Role         string          `json:"role"`
	Delta        json.RawMessage `json:"delta"`
	ToolCallID   string          `json:"toolCallId"`
	ToolCallName string          `json:"toolCallName"`
	StepName     string          `json:"stepName"`
	Content      json.RawMessage `json:"content"`
	Message      string          `json:"message"`
	Code         string          `json:"code"`
	Outcome      struct {
		Type string `json:"type"`
	} `json:"outcome"`
}

// show prints one event, or nothing where an event shows nothing.
func (s *screen) show(r event.Record) {
	e, err := event.ParseEvent(r.Raw)
	var v shown
	if err != nil || json.Unmarshal(r.Raw, &v) != nil {
		return
	}
	switch e.Header.Type {
	case event.TypeTextMessageContent, event.TypeTextMessageChunk:
		s.text(v.MessageID, "assistant", v.Delta)
	case event.TypeReasoningMessageContent, event.TypeReasoningMessageChunk:
		s.text(v.MessageID, "thinking", v.Delta)
	case event.TypeToolCallStart:
		s.calls[v.ToolCallID] = &screenCall{name: v.ToolCallName}
	case event.TypeToolCallArgs, event.TypeToolCallChunk:
		s.args(v)
	case event.TypeToolCallEnd:
		if c := s.calls[v.ToolCallID]; c != nil {
			s.line("→ %s(%s)", c.name, c.args)
		}
	case event.TypeToolCallResult:
		s.result(v)
	case event.TypeStepStarted:
		s.line("· %s", v.StepName)
	case event.TypeRunFinished:
		s.line("✓ finished%s", outcome(v.Outcome.Type))
	case event.TypeRunError:
		s.line("✗ %s%s", v.Message, outcome(v.Code))
	}
}

func outcome(s string) string {
	if s == "" || s == "success" {
		return ""
	}
	return " (" + s + ")"
}

// text prints a delta behind what its message has so far, under a heading where another message
// came between.
func (s *screen) text(id, who string, delta json.RawMessage) {
	text := s.join(id, delta)
	if text == "" {
		return
	}
	switch {
	case s.open != id:
		s.newline()
		fmt.Fprintf(s.w, "%s: ", who)
	case !s.column:
		fmt.Fprintf(s.w, "%s … ", who) // a note broke in
		text = strings.TrimPrefix(text, " ")
	}
	s.open, s.column = id, true
	io.WriteString(s.w, strings.ReplaceAll(printable(text), "\n", "\n  "))
}

// join decodes a delta. A producer may cut between the halves of a surrogate pair ("\ud83d" here,
// "\ude00" in the next delta): the first half waits for the second.
func (s *screen) join(id string, delta json.RawMessage) string {
	if len(delta) < 2 || delta[0] != '"' {
		return ""
	}
	body := s.halves[id] + string(delta[1:len(delta)-1])
	delete(s.halves, id)
	if n := len(body) - 6; n >= 0 && highSurrogate(body[n:]) && !escaped(body, n) {
		s.halves[id] = body[n:]
		body = body[:n]
	}
	var text string
	if json.Unmarshal([]byte(`"`+body+`"`), &text) != nil {
		return ""
	}
	return text
}

func highSurrogate(s string) bool {
	return s[0] == '\\' && s[1] == 'u' && (s[2] == 'd' || s[2] == 'D') && strings.IndexByte("89abAB", s[3]) >= 0
}

// escaped reports whether the backslash at s[i] is itself escaped.
func escaped(s string, i int) bool {
	n := 0
	for i > n && s[i-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

func (s *screen) args(v shown) {
	c := s.calls[v.ToolCallID]
	if c == nil {
		c = &screenCall{name: v.ToolCallName}
		s.calls[v.ToolCallID] = c
	}
	c.args += s.join("call "+v.ToolCallID, v.Delta)
}

func (s *screen) result(v shown) {
	name := v.ToolCallID
	if c := s.calls[v.ToolCallID]; c != nil {
		name = c.name
		delete(s.calls, v.ToolCallID)
	}
	content := string(v.Content)
	var text string
	if json.Unmarshal(v.Content, &text) == nil {
		content = text
	}
	s.line("← %s: %s", name, shorten(content, 100))
}

// line prints a line of its own; its arguments come from events.
func (s *screen) line(format string, args ...any) {
	s.newline()
	io.WriteString(s.w, oneLine(fmt.Sprintf(format, args...))+"\n")
	s.column, s.open = false, ""
}

// note breaks in with a line that is not part of the run.
func (s *screen) note(text string) {
	s.newline()
	fmt.Fprintf(s.w, "\n%s\n\n", text)
}

func (s *screen) newline() {
	if s.column {
		io.WriteString(s.w, "\n")
	}
	s.column = false
}

// finish ends the last line.
func (s *screen) finish() { s.newline() }
