package raftlog

import (
	"context"
	"errors"
	"time"

	"github.com/runlog/runlog/event"
)

// Bounds of the verdicts under way at a time, so that the end of a whole fleet neither fills an entry
// nor keeps the loop from its probes, and what happens to those that came to nothing.
const (
	maxVerdicts     = 256
	verdictAgain    = time.Second
	unreadableAgain = 30 * time.Second
	// closingSlack is how much more the end of a run may write than was found before it was proposed.
	closingSlack = 1 << 10
)

// propose proposes the verdicts that the judge finds due. They pass by the admission: what ends runs must get
// through when much else does not. And they are never forwarded: another leader judges for itself.
func (l *lessor) propose(ten *tenure, find func(limit int) []event.Command) {
	l.mu.Lock()
	due := find(maxVerdicts - int(l.pending.Load()))
	l.mu.Unlock()
	if len(due) == 0 {
		return
	}
	var commands [][]byte
	sent := due[:0]
	for _, verdict := range due {
		ready, err := l.complete(verdict)
		if err != nil {
			l.n.metrics.unreadable.Inc()
			l.n.logger.Error("a run cannot be read, so it is not ended", "run", verdictRun(verdict), "error", err)
			l.settle(ten, unreadableAgain, verdict)
			continue
		}
		sent = append(sent, verdict)
		commands = append(commands, event.AppendCommand(nil, ready))
	}
	tickets, err := l.n.queue.add(make([]ticket, 0, len(commands)), true, commands...)
	if err != nil { // the node closes
		l.settle(ten, verdictAgain, sent...)
		return
	}
	l.pending.Add(int64(len(sent)))
	l.waiting.Go(func() {
		for i, t := range tickets {
			l.await(ten, sent[i], t)
			l.pending.Add(-1)
		}
	})
}

// complete adds what an end would write. That a run can be read is found out here, before its end is
// in the log, where it would stop every node.
func (l *lessor) complete(verdict event.Command) (event.Command, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	switch c := verdict.(type) {
	case event.ExpireRun:
		n, err := l.n.state.ClosingBytes(ctx, c.Run, event.StatusLost)
		c.MaxBytes = n + closingSlack
		return c, err
	case event.EnforceCancel:
		n, err := l.n.state.ClosingBytes(ctx, c.Run, event.StatusCancelled)
		c.MaxBytes = n + closingSlack
		return c, err
	}
	return verdict, nil
}

// await takes the answer to a verdict. A stale one is forgotten: what made it stale has been told
// to the judge.
func (l *lessor) await(ten *tenure, verdict event.Command, t ticket) {
	select {
	case <-t.group.done:
	case <-l.n.abort:
		return
	}
	o := t.outcome()
	switch {
	case o.err != nil:
		l.n.logger.Warn("a verdict was not carried out", "run", verdictRun(verdict), "error", o.err)
	case o.result.Refusal != nil && !errors.Is(o.result.Refusal, event.ErrStaleVerdict):
		l.n.logger.Error("a verdict was refused", "run", verdictRun(verdict), "error", o.result.Refusal)
	}
	l.settle(ten, verdictAgain, verdict)
}

// settle tells the judge that verdicts are no longer under way.
func (l *lessor) settle(ten *tenure, again time.Duration, verdicts ...event.Command) {
	l.mu.Lock()
	if l.ten == ten {
		l.take()
		for _, v := range verdicts {
			l.judge.Answered(v, again)
		}
	}
	l.mu.Unlock()
	l.answered.Notify()
}

// verdictRun is whom a verdict is about, for the log.
func verdictRun(verdict event.Command) event.RunID {
	switch c := verdict.(type) {
	case event.LapseLease:
		return c.Run
	case event.ExpireRun:
		return c.Run
	case event.EnforceCancel:
		return c.Run
	case event.LapseLock:
		return event.RunID(c.Name)
	}
	return ""
}
