package projection

import "bytes"

// An envelope travels through hosts and comes back in a run's input or in a snapshot. It must be
// known there, or the conversation would be recorded again, as something that a user said.

// envelopeMark is the metadata member that every message of an envelope carries.
const envelopeMark = "runlog.envelope"

// The text form stands between these lines. They contain nothing that JSON escapes, so that they
// are found in the body of a JSON string; no line of the text between them contains them.
const (
	envelopeBegin = "```runlog-envelope-begin"
	envelopeEnd   = "runlog-envelope-end```"
)

// envelope reports whether m came out of an envelope.
func (m *message) envelope() bool { return m.meta.find([]byte(envelopeMark)) >= 0 }

// cutEnvelope takes envelopes in text form out of the message's content. When nothing else is left
// the message is marked as the envelope that it is.
func (m *message) cutEnvelope() {
	if m.kind != contentText && m.kind != contentJSON || !bytes.Contains(m.text, []byte(envelopeBegin)) {
		return
	}
	for {
		from := bytes.Index(m.text, []byte(envelopeBegin))
		if from < 0 {
			break
		}
		to := m.envelopeEnd(from)
		m.text = append(m.text[:from:from], m.text[to:]...)
	}
	if m.kind == contentText {
		m.text = trimBreaks(m.text)
	}
	if m.blank() {
		m.meta.merge([]byte(`{"` + envelopeMark + `":1}`))
	}
}

// trimBreaks takes white space off the front of a JSON string's body.
func trimBreaks(body []byte) []byte {
	for {
		switch {
		case len(body) > 0 && body[0] == ' ':
			body = body[1:]
		case len(body) > 1 && body[0] == '\\' && (body[1] == 'n' || body[1] == 'r' || body[1] == 't'):
			body = body[2:]
		default:
			return body
		}
	}
}

// envelopeEnd returns where the envelope that begins at from ends: behind its last line, or, when
// somebody cut it off, at the end of the string that it stands in.
func (m *message) envelopeEnd(from int) int {
	end := len(m.text)
	if m.kind == contentJSON {
		for i := from; ; i++ {
			n := bytes.IndexByte(m.text[i:], '"')
			if n < 0 {
				break
			}
			i += n
			if back := bytes.TrimRight(m.text[from:i], `\`); (i-from-len(back))%2 == 0 {
				end = i
				break
			}
		}
	}
	if n := bytes.Index(m.text[from:end], []byte(envelopeEnd)); n >= 0 {
		return from + n + len(envelopeEnd)
	}
	return end
}

// blank reports whether the content is nothing but white space.
func (m *message) blank() bool {
	if m.kind == contentText {
		return len(bytes.TrimSpace(nameBytes(m.text))) == 0
	}
	it := elements(m.text)
	for v, ok := it.next(); ok; v, ok = it.next() {
		text := memberOf(v, "text")
		if !isString(text) || len(bytes.TrimSpace(keyBytes(text))) > 0 {
			return false
		}
	}
	return true
}
