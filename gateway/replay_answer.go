package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
)

// replayBeat is how often an open replay whose events are not through shows that it is at work.
const replayBeat = time.Second

// replayAnswer is the answer to a replay: one JSON value at its end, or NDJSON as things become
// durable, with empty lines in between.
type replayAnswer struct {
	g      *Gateway
	c      *gin.Context
	lines  bool
	rc     *http.ResponseController
	mu     sync.Mutex // the beat writes too
	opened bool
	behind bool // not all that was taken is through
	said   int  // through, of the last line
	stop   chan struct{}
	once   sync.Once
	done   sync.WaitGroup
}

func newReplayAnswer(g *Gateway, c *gin.Context) *replayAnswer {
	return &replayAnswer{
		g: g, c: c, lines: acceptedForm(c.Request.Header) == formNDJSON,
		rc: http.NewResponseController(unwrap(c.Writer)), stop: make(chan struct{}),
	}
}

// progress says how far the replay has come, where that is asked for and new. The first line comes
// before anything has.
func (a *replayAnswer) progress(r *replay) error {
	if !a.lines {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	through := r.align.Through()
	a.behind = through < r.align.Taken()
	if a.opened && through == a.said {
		return nil
	}
	a.said = through
	line := strconv.AppendInt([]byte(`{"through":`), int64(through), 10)
	line = strconv.AppendInt(append(line, `,"appended":`...), int64(r.align.Appended()), 10)
	line = appendOffset(append(line, `,"tail":`...), r.align.Tail())
	if r.index > 0 {
		line = append(append(append(line, `,"token":"`...), formatToken(r.index)...), '"')
	}
	if r.cancelled {
		line = append(line, `,"cancelRequested":true`...)
	}
	if !a.opened {
		a.opened = true
		h := a.c.Writer.Header()
		h["Content-Type"] = contentTypeNDJSON
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
		h.Set("Trailer", tokenHeader)
		a.c.Writer.WriteHeader(http.StatusOK)
		a.done.Go(a.beat)
	}
	return a.write(append(line, '}', '\n'))
}

// write hands bytes to the reader at once.
func (a *replayAnswer) write(b []byte) error {
	_ = a.rc.SetWriteDeadline(time.Now().Add(a.g.cfg.FlushTimeout))
	if _, err := a.c.Writer.Write(b); err != nil {
		return err
	}
	return ignoreUnsupported(a.rc.Flush())
}

func (a *replayAnswer) beat() {
	tick := time.NewTicker(replayBeat)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			a.mu.Lock()
			if a.behind {
				_ = a.write([]byte{'\n'}) // whoever is gone is noticed by what follows
			}
			a.mu.Unlock()
		case <-a.stop:
			return
		}
	}
}

// end stops the beat and waits for it, so that nothing is written after the last line.
func (a *replayAnswer) end() {
	a.once.Do(func() { close(a.stop) })
	a.done.Wait()
}

// finish answers with the result.
func (a *replayAnswer) finish(res replayResult, index uint64) error {
	a.end()
	if index > 0 {
		res.Token = formatToken(index)
	}
	b, err := json.Marshal(res)
	if err != nil {
		return a.fail(err)
	}
	a.g.setToken(a.c, index) // as a trailer, when the answer has begun
	if a.opened {
		_ = a.write(append(b, '\n'))
		return nil
	}
	return writeJSON(a.c, http.StatusOK, b)
}

// fail answers with the problem of err: by itself, or as the last line of an answer that has begun.
func (a *replayAnswer) fail(err error) error {
	a.end()
	if !a.opened {
		return err
	}
	p := problemOf(err)
	kind, known := problems[p.code]
	if !known {
		p, kind = problem{code: codeInternal}, problems[codeInternal]
	}
	if p.code == codeInternal && a.c.Request.Context().Err() == nil {
		a.g.log.Error("replay ended", "route", a.c.FullPath(), "error", err)
	}
	a.g.metrics.problems.WithLabelValues(p.code).Inc()
	b := appendProblem([]byte(`{"problem":`), p, kind)
	_ = a.write(append(b, '}', '\n'))
	return nil
}
