package gateway

import (
	"errors"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/projection"
)

// maxEnvelopeChars bounds what an envelope may be asked to hold: more than any model takes in.
const maxEnvelopeChars = 10_000_000

// getEnvelope is GET /v1/threads/{threadId}/envelope: the conversation packed up for a fresh run.
func (g *Gateway) getEnvelope(c *gin.Context) error {
	r, err := threadOf(c)
	if err != nil {
		return err
	}
	sel := event.ThreadQuery{Head: r.head(), Limit: 1}
	chars := r.q.count("maxChars", projection.DefaultEnvelopeChars, projection.MinEnvelopeChars, maxEnvelopeChars)
	format := projection.EnvelopeFormat(r.q.oneOf("format", string(projection.EnvelopeAGUI), string(projection.EnvelopeAGUI), string(projection.EnvelopeText)))
	if err := r.finish(g, c); err != nil {
		return err
	}
	return g.answerThread(c, r.id, sel, func(t *threadRead) ([]byte, error) {
		env, err := projection.Envelope(t.transcript, chars, format)
		switch {
		case errors.Is(err, projection.ErrEnvelopeChars):
			return nil, &inputError{"query", "maxChars", "is too small: " + err.Error()}
		case errors.Is(err, projection.ErrEnvelopeFormat):
			return nil, &inputError{"query", "format", "is none: " + err.Error()}
		case err != nil:
			return nil, err
		}
		return appendRehydration(nil, t, &env, format), nil
	})
}

func appendRehydration(dst []byte, t *threadRead, env *projection.Rehydration, format projection.EnvelopeFormat) []byte {
	dst = appendString(append(dst, `{"threadId":`...), string(t.ThreadID))
	dst = append(append(append(dst, `,"cursor":"`...), t.Cursor.String()...), `","format":"`...)
	dst = append(append(dst, format...), `",`...)
	if format == projection.EnvelopeText {
		dst = appendString(append(dst, `"text":`...), env.Text)
	} else {
		dst = append(dst, `"messages":[`...)
		for i, m := range env.Messages {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, m...)
		}
		dst = append(dst, ']')
	}
	dst = strconv.AppendInt(append(dst, `,"kept":`...), int64(env.Kept), 10)
	dst = strconv.AppendInt(append(dst, `,"omitted":`...), int64(env.Omitted), 10)
	return append(appendMissing(dst, t), '}')
}
