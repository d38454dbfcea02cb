package projection

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// turn is what an envelope keeps or leaves out as one: a message, with the results of its calls.
// Its messages are copies, marked, without what only the run that made them can use.
type turn struct {
	messages []*message
	spoken   int // how many of the transcript's messages it stands for
}

// turns takes the transcript apart, oldest first. spoken counts the messages that could be kept.
func (t *transcriptFold) turns() (turns []turn, spoken int) {
	msgs := t.history()
	results := make(map[string][]*message)
	for _, m := range msgs {
		if m.role == roleTool {
			results[keyOf(m.toolCallID)] = append(results[keyOf(m.toolCallID)], m)
		}
	}
	seen := make(map[string]bool)
	for _, m := range msgs {
		if m.role == roleReasoning || m.role == roleActivity || m.envelope() {
			continue
		}
		spoken++
		if m.role == roleTool {
			continue // with its call, or an orphan
		}
		one := newTurn(m, results, seen)
		if len(one.messages) > 0 {
			turns = append(turns, one)
		}
	}
	return turns, spoken
}

// newTurn copies m with one result for each call that no message before has made.
func newTurn(m *message, results map[string][]*message, seen map[string]bool) turn {
	own := &message{id: m.id, role: m.role, kind: m.kind, text: m.text, name: m.name}
	own.mark()
	t := turn{messages: []*message{own}, spoken: 1}
	for _, c := range m.once().calls {
		key := keyOf(c.id)
		if seen[key] {
			continue // no model would know which of them a result answers
		}
		seen[key] = true
		own.hasCalls = true
		own.calls = append(own.calls, &call{id: c.id, name: orEmpty(c.name), args: validArguments(c.args)})
		t.messages = append(t.messages, answerOf(c, results[key]))
		t.spoken += len(results[key])
	}
	if own.kind == contentNone && !own.hasCalls {
		return turn{spoken: 1}
	}
	return t
}

// answerOf returns the one result that a call is shown with: the first that somebody gave, else
// what is known of its end.
func answerOf(c *call, results []*message) *message {
	answer := &message{id: quote(keyOf(c.id) + "-unanswered"), role: roleTool, toolCallID: c.id}
	answer.mark()
	var stopped *message
	for _, r := range results {
		if i := r.meta.find([]byte("interrupted")); i >= 0 && r.meta.members[i].value == "true" {
			if stopped == nil {
				stopped = r
			}
			continue
		}
		answer.id, answer.kind, answer.text, answer.errorText = r.id, r.kind, r.text, r.errorText
		if r.kind == contentNone {
			answer.setText("")
		}
		return answer
	}
	if stopped == nil {
		answer.setText("No result of this call was recorded. It may have taken effect all the same: check before making it again.")
		return answer
	}
	answer.id = stopped.id
	answer.setText("This call was interrupted: its run ended before a result was recorded. " +
		"It may have taken effect all the same: check before making it again. " +
		"What was recorded: " + stopped.plain())
	return answer
}

// validArguments returns the body of a JSON string that denotes JSON: hosts parse the arguments of
// every call in a history and give up at half-written ones.
func validArguments(args []byte) []byte {
	text := decoded(quoted(args))
	switch {
	case strings.TrimSpace(text) == "":
		return []byte(`{}`)
	case json.Valid([]byte(text)):
		return args
	}
	return bodyOf(`{"incomplete":` + quote(text) + `}`)
}

// decoded is goString for what may be absent.
func decoded(raw string) string { return goString([]byte(raw)) }

func bodyOf(s string) []byte {
	q := quote(s)
	return []byte(q[1 : len(q)-1])
}

func (m *message) mark() { m.meta.merge([]byte(`{"` + envelopeMark + `":1}`)) }

func (m *message) setText(s string) { m.kind, m.text = contentText, bodyOf(s) }

// plain returns the content as readable text.
func (m *message) plain() string {
	if m.kind == contentText {
		return decoded(quoted(m.text))
	}
	var parts []string
	it := elements(m.text)
	for v, ok := it.next(); ok; v, ok = it.next() {
		if text := memberOf(v, "text"); isString(text) {
			parts = append(parts, goString(text))
		} else {
			parts = append(parts, "["+goString(memberOf(v, "type"))+" left out]")
		}
	}
	return strings.Join(parts, "\n")
}

// cut returns the turn with no text longer than limit characters and a little.
func (t turn) cut(limit int) turn {
	out := turn{spoken: t.spoken}
	for _, m := range t.messages {
		short := *m
		if utf8.RuneCount(m.text) > limit {
			short.setText(clip(m.plain(), limit))
		}
		if utf8.RuneCountInString(m.errorText) > limit {
			short.errorText = quote(clip(decoded(m.errorText), limit))
		}
		short.calls = nil
		for _, c := range m.calls {
			own := *c
			if utf8.RuneCount(c.args) > limit {
				own.args = bodyOf(`{"cut":` + quote(clip(decoded(quoted(c.args)), limit)) + `}`)
			}
			short.calls = append(short.calls, &own)
		}
		out.messages = append(out.messages, &short)
	}
	return out
}

func clip(s string, limit int) string {
	runes := []rune(s)
	if len(runes) <= limit {
		return s
	}
	return fmt.Sprintf("%s [… %d characters cut]", string(runes[:limit]), len(runes)-limit)
}

// text returns the turn as lines, ending in a line break.
func (t turn) text() string {
	var b strings.Builder
	for _, m := range t.messages {
		if m.role == roleTool {
			fmt.Fprintf(&b, "[result of %s]\n%s\n", decoded(m.toolCallID), m.plain())
			if m.errorText != "" {
				fmt.Fprintf(&b, "[error] %s\n", decoded(m.errorText))
			}
			continue
		}
		fmt.Fprintf(&b, "\n[%s]\n", roleNames[m.role])
		if m.kind != contentNone {
			b.WriteString(m.plain() + "\n")
		}
		for _, c := range m.calls {
			fmt.Fprintf(&b, "[call %s of %s] %s\n", decoded(c.id), decoded(c.name), decoded(quoted(c.args)))
		}
	}
	return strings.ReplaceAll(b.String(), "runlog-envelope", "runlog_envelope")
}
