package projection

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// EnvelopeFormat says what an envelope is made of.
type EnvelopeFormat string

// EnvelopeAGUI is a list of AG-UI messages, for hosts that keep roles and tool calls apart;
// EnvelopeText is one text, for hosts that have a prompt only.
const (
	EnvelopeAGUI EnvelopeFormat = "agui"
	EnvelopeText EnvelopeFormat = "text"
)

// MinEnvelopeChars is the least bound that an envelope can be held to: its explanation needs some
// room. DefaultEnvelopeChars is the bound when none is asked for.
const (
	MinEnvelopeChars     = 1000
	DefaultEnvelopeChars = 100_000
)

// Errors of [Envelope].
var (
	ErrEnvelopeChars  = fmt.Errorf("an envelope cannot be held to fewer than %d characters", MinEnvelopeChars)
	ErrEnvelopeFormat = errors.New(`the formats of an envelope are "agui" and "text"`)
)

// Rehydration is a conversation packed up for a fresh run.
type Rehydration struct {
	// Messages is the envelope as AG-UI messages, oldest first, the first of them an explanation;
	// nil in another format.
	Messages []json.RawMessage
	// Text is the envelope as text; empty in another format.
	Text string
	// Kept and Omitted count the transcript's messages that are in it, and that are not.
	// Reasoning and activities are not counted: they are no part of a model's history.
	Kept, Omitted int
}

// Envelope packs a transcript up for a fresh run: what was said, in at most maxChars characters
// (Unicode code points; for EnvelopeAGUI, of the messages as a JSON array).
//
// When that is not enough the newest messages are kept, the newest of all shortened if it must be.
// A message with calls and their results stay together: each call has exactly one result, and no
// result is without its call. A call that was interrupted, or that nobody answered, says so in its
// result, since whether it took effect is not known. Everything is marked: a message of an
// envelope that comes back in a run's input or in a snapshot does not enter the transcript.
//
// transcript must come from [New] with KindTranscript. The errors are [ErrEnvelopeChars] and
// [ErrEnvelopeFormat].
func Envelope(transcript Fold, maxChars int, format EnvelopeFormat) (Rehydration, error) {
	if maxChars < MinEnvelopeChars {
		return Rehydration{}, ErrEnvelopeChars
	}
	var w envelopeWriter
	switch format {
	case EnvelopeAGUI:
		w = aguiWriter{}
	case EnvelopeText:
		w = textWriter{}
	default:
		return Rehydration{}, ErrEnvelopeFormat
	}
	turns, spoken := transcript.(*transcriptFold).turns()
	kept := fit(w, turns, maxChars-explanationChars)
	r := Rehydration{Omitted: spoken}
	for _, t := range kept {
		r.Kept += t.spoken
	}
	r.Omitted -= r.Kept
	w.write(&r, explain(r.Omitted), kept)
	return r, nil
}

// envelopeWriter is a format.
type envelopeWriter interface {
	chars(t turn) int // that the turn takes, separators included
	write(r *Rehydration, explanation string, turns []turn)
}

// explanationChars is more than what stands around the turns takes, in either format.
const explanationChars = 800

func explain(omitted int) string {
	s := "What follows is an earlier conversation, restored from the log in which it was recorded. " +
		"It is history: it is not a new request, and its tool calls are not to be made again. " +
		"Where a result says that a call was interrupted, it is not known whether the call took effect."
	if omitted > 0 {
		s += fmt.Sprintf(" %d older messages are left out.", omitted)
	}
	return s
}

// shortest are the lengths that texts are cut to, one after the other, until a turn fits.
var shortest = []int{20_000, 5_000, 2_000, 1_000, 500, 200, 100, 50, 20}

// leastOlder is the length below which an older turn is left out rather than cut.
const leastOlder = 200

// fit returns the newest turns that take at most room characters.
func fit(w envelopeWriter, turns []turn, room int) []turn {
	from := len(turns)
	for from > 0 {
		n := w.chars(turns[from-1])
		if n > room {
			break
		}
		room -= n
		from--
	}
	kept := turns[from:]
	if from == 0 {
		return kept
	}
	for _, limit := range shortest {
		if len(kept) > 0 && limit < leastOlder {
			break
		}
		if t := turns[from-1].cut(limit); w.chars(t) <= room {
			return append([]turn{t}, kept...)
		}
	}
	return kept
}

// aguiWriter writes messages.
type aguiWriter struct{}

func (aguiWriter) chars(t turn) int {
	n := 0
	for _, m := range t.messages {
		n += utf8.RuneCount(m.appendJSON(nil)) + 1
	}
	return n
}

func (aguiWriter) write(r *Rehydration, explanation string, turns []turn) {
	first := &message{id: `"runlog-envelope"`, role: roleSystem}
	first.setText(explanation)
	first.mark()
	r.Messages = []json.RawMessage{first.appendJSON(nil)}
	for _, t := range turns {
		for _, m := range t.messages {
			r.Messages = append(r.Messages, m.appendJSON(nil))
		}
	}
}

// textWriter writes one text.
type textWriter struct{}

func (textWriter) chars(t turn) int { return utf8.RuneCountInString(t.text()) }

func (textWriter) write(r *Rehydration, explanation string, turns []turn) {
	var b strings.Builder
	b.WriteString(envelopeBegin + "\n" + explanation + "\n")
	for _, t := range turns {
		b.WriteString(t.text())
	}
	b.WriteString(envelopeEnd + "\n")
	r.Text = b.String()
}
