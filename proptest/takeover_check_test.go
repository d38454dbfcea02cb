package proptest

import (
	"context"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/internal/agentrun"
)

// check reads the run from a node and compares it with the uninterrupted one.
func (s *story) check(seen []string) {
	reader := s.host()
	defer reader.die()
	var got []event.Event
	var epoch event.Epoch
	terminals := 0
	for rec, err := range reader.Tail(context.Background(), s.id, 0) {
		if err != nil {
			s.t.Errorf("%s: %v", s.id, err)
			return
		}
		e, err := event.ParseEvent(rec.Raw)
		if err != nil {
			s.t.Errorf("%s: %s: %v", s.id, rec.Raw, err)
			return
		}
		if rec.Epoch < epoch {
			s.t.Errorf("%s: epoch %d wrote %s after epoch %d", s.id, rec.Epoch, rec.Raw, epoch)
		}
		epoch = rec.Epoch
		if isTerminal(string(rec.Raw)) {
			terminals++
		}
		got = append(got, e)
	}
	raws := strings.Split(strings.TrimSuffix(linesOf(got), "\n"), "\n")
	if strings.Join(seen, "\n") != strings.Join(raws, "\n") {
		s.t.Errorf("%s: the reader saw\n%s\nstored is\n%s", s.id, strings.Join(seen, "\n"), strings.Join(raws, "\n"))
	}
	if terminals != 1 || !isTerminal(raws[len(raws)-1]) {
		s.t.Errorf("%s: %d terminals in\n%s", s.id, terminals, linesOf(got))
	}
	switch {
	case s.lost:
		s.checkLost(got)
	case s.exact && linesOf(got) != linesOf(s.run):
		s.t.Errorf("%s is\n%s\nnot\n%s", s.id, linesOf(got), linesOf(s.run))
	default:
		s.checkFolds(got)
	}
	if r, err := reader.Run(context.Background(), s.id, client.View{}); err != nil || strings.Contains(string(r.Metadata), "zombie") {
		s.t.Errorf("%s: metadata %s, error %v", s.id, r.Metadata, err)
	}
}

// checkLost: what the host had written is there, byte for byte, and one end of the cluster's after it,
// which closes each thing that was open, and nothing else, once (R2_3, R2_4, R2_6, R2_7, R2_9).
func (s *story) checkLost(got []event.Event) {
	takeovers.lost.Add(1)
	all := linesOf(got)
	n := 0
	for n < len(got) && n < len(s.run) && string(got[n].Raw) == string(s.run[n].Raw) {
		n++
	}
	if n < s.written || !agentrun.IsStrict(got) || gjson.GetBytes(got[len(got)-1].Raw, "code").Str != event.CodeHostLost {
		s.t.Errorf("%s, of which %d events were acknowledged, did not end well:\n%s", s.id, s.written, all)
	}
	owed, pay := openAfter(got[:n]), map[string]int{}
	for _, e := range got[n : len(got)-1] {
		kind := e.Header.Type.String()
		if kind == "RUN_STARTED" && n == 0 {
			continue
		}
		if kind == "TOOL_CALL_RESULT" && !gjson.GetBytes(e.Raw, "metadata.interrupted").Bool() {
			s.t.Errorf("%s: the cluster wrote %s", s.id, e.Raw)
		}
		pay[kind+" "+e.Header.ID]++
	}
	for what, times := range owed {
		if pay[what] != times {
			s.t.Errorf("%s: %s is there %d times after the loss, want %d:\n%s", s.id, what, pay[what], times, all)
		}
		delete(pay, what)
	}
	if len(pay) > 0 {
		s.t.Errorf("%s: the cluster also wrote %v:\n%s", s.id, pay, all)
	}
}

// openAfter counts the events that close what is open after some.
func openAfter(events []event.Event) map[string]int {
	owed := map[string]int{}
	for _, e := range events {
		kind, id := e.Header.Type.String(), e.Header.ID
		delete(owed, kind+" "+id)
		switch kind {
		case "TEXT_MESSAGE_START", "REASONING_START", "REASONING_MESSAGE_START":
			owed[strings.Replace(kind, "_START", "_END", 1)+" "+id] = 1
		case "TOOL_CALL_START":
			owed["TOOL_CALL_END "+id], owed["TOOL_CALL_RESULT "+id] = 1, 1
		case "TOOL_CALL_CHUNK":
			if id != "" {
				owed["TOOL_CALL_RESULT "+id] = 1
			}
		case "STEP_STARTED":
			owed["STEP_FINISHED "+id] = 1
		}
	}
	return owed
}

func (s *story) checkFolds(got []event.Event) {
	is, want := agentrun.Folds(got), agentrun.Folds(s.run)
	for i, name := range []string{"transcript", "tool history", "state"} {
		if agentrun.Canonical(is[i]) != agentrun.Canonical(want[i]) {
			s.t.Errorf("%s: the %s is\n%s\nnot\n%s", s.id, name, is[i], want[i])
		}
	}
}

func linesOf(events []event.Event) string {
	var b strings.Builder
	for _, e := range events {
		b.Write(e.Raw)
		b.WriteByte('\n')
	}
	return b.String()
}
