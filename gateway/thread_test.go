package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/runlog/runlog/event"
)

// startIn starts a run in a thread through an append.
func startIn(thread string) string { return `{"type":"RUN_STARTED","threadId":"` + thread + `"}` }

// said is a message that is complete.
func said(id, text string) string {
	return fmt.Sprintf(`{"type":"TEXT_MESSAGE_START","messageId":%q,"role":"assistant"}`+"\n"+
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":%q,"delta":%q}`+"\n"+`{"type":"TEXT_MESSAGE_END","messageId":%q}`, id, id, text, id)
}

type threadJSON struct {
	ThreadID, Cursor, NextCursor string
	Messages                     []struct{ ID, Content string }
	MessagesOmitted              int
	MissingRunID                 string
	ActiveRun                    *event.Run
	Runs                         []event.Run
	Interrupts                   []event.Interrupt
}

func (h *harness) thread(path string) (v threadJSON) {
	h.t.Helper()
	r := h.must(200, "GET", "/v1/threads/"+path, "")
	if err := json.Unmarshal(r.body, &v); err != nil {
		h.t.Fatalf("%v: %s", err, r)
	}
	return v
}

func (v threadJSON) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", v.Cursor)
	for _, m := range v.Messages {
		fmt.Fprintf(&b, " %s=%s", m.ID, m.Content)
	}
	b.WriteString(" |")
	for _, r := range v.Runs {
		b.WriteString(" " + string(r.RunID))
	}
	if v.ActiveRun != nil {
		b.WriteString(" active " + string(v.ActiveRun.RunID))
	}
	return b.String()
}

func TestThread(t *testing.T) {
	t.Parallel()
	h := start(t)
	r := h.must(200, "GET", "/v1/threads/t", "")
	if want := `{"threadId":"t","cursor":"0.0","messages":[],"activeRun":null,"runs":[],"interrupts":[]}`; string(r.body) != want {
		t.Errorf("unknown: %s", r)
	}
	h.append("a", startIn("t"), said("m1", "one"), finished())
	if got := h.thread("t").String(); got != "0.5 m1=one | a" {
		t.Error(got)
	}
	h.must(201, "POST", "/v1/runs", `{"runId":"b","threadId":"t","parentRunId":"a"}`)
	h.append("b", said("m2", "two"))
	h.append("other", startIn("u"), said("mx", "x"))
	h.node.interrupts = []event.Interrupt{{InterruptID: "i", RunID: "a", Status: event.InterruptPending, Interrupt: json.RawMessage(`{"id":"i","x":"<&>"}`)}}
	v := h.thread("t?consistency=linearizable")
	if got := v.String(); got != "1.4 m1=one m2=two | b a active b" || len(v.Interrupts) != 1 || string(v.Interrupts[0].Interrupt) != `{"id":"i","x":"<&>"}` {
		t.Error(got, v.Interrupts)
	}
	h.must(201, "POST", "/v1/runs", `{"runId":"c","threadId":"t","parentRunId":"a"}`)
	h.append("c", said("m3", "three"))
	for path, want := range map[string]string{
		"t":                          "1.4 m1=one m2=two | c b a active c", // b's end has yet to come, then c
		"t?messages=false":           "1.4 | c b a active c",
		"t?messages=1&limit=1":       "1.4 m2=two | c active c",
		"t?head=c":                   "1.4 m1=one m3=three | c a active c",
		"t?head=a":                   "1.4 m1=one | a active c",
		"t/transcript":               "1.4 m1=one m2=two |",
		"t/transcript?head=c":        "1.4 m1=one m3=three |",
		"t?messages=0&limit=2":       "1.4 | c b active c",
		"t?limit=2&before=2&head=c":  "1.4 m1=one m3=three | active c",
		"t?messages=true&limit=1000": "1.4 m1=one m2=two | c b a active c",
	} {
		if got := h.thread(path).String(); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if v := h.thread("t?messages=1&limit=1"); v.MessagesOmitted != 1 || v.NextCursor == "" || h.thread("t?limit=1&before=" + v.NextCursor).Runs[0].RunID != "b" {
		t.Errorf("%+v", v)
	}
	for _, query := range []string{"limit=0", "limit=1001", "before=x", "messages=maybe", "messages=-1", "head=%00", "minOffset=1", "minToken=x"} {
		h.problem(400, "bad_request", "GET", "/v1/threads/t?"+query, "")
	}
	h.problem(404, "run_not_found", "GET", "/v1/threads/t?head=none", "")
	h.problem(404, "run_not_found", "GET", "/v1/threads/t/transcript?head=other", "")
}

// What a thread's answer says of its messages, runs and cursor is of one moment, whatever is written
// between the reads that it is made of; a stream from the cursor tells the rest, once.
func TestThreadIsOfOneMoment(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.append("a", startIn("t"), said("m0", "0"))
	for i := 1; i <= 3; i++ {
		wrote := false
		h.node.afterThread = func() {
			if !wrote {
				wrote = true
				run, text := "a", said(fmt.Sprintf("m%d", i), "new")
				if i == 3 { // the run ends and another begins
					text += "\n" + finished() + "\n"
				}
				h.append(run, text)
				if i == 3 {
					h.append("b", startIn("t"), said("mb", "next"))
				}
			}
		}
		query := ""
		if i == 2 {
			query = "?head=a"
		}
		v := h.thread("t" + query)
		h.node.afterThread = nil
		folded := event.Offset(1 + 3*len(v.Messages))
		if v.Runs[0].Tail != folded || v.Cursor != "0."+folded.String() {
			t.Errorf("%d: cursor %s, tail %d, messages of %d events", i, v.Cursor, v.Runs[0].Tail, folded)
		}
	}
	if got := h.thread("t").String(); !strings.HasPrefix(got, "1.4 m0=0 m1=new m2=new m3=new mb=next | b a") {
		t.Error(got)
	}
}

func TestThreadEvents(t *testing.T) {
	t.Parallel()
	h := start(t)
	s := h.sse("/v1/threads/t/events")
	h.append("a", startIn("t"), custom(1))
	h.append("b", startIn("t"), custom(3)) // waits for a's end
	h.append("a", custom(2), finished())
	ids := func(s *stream, n int) string {
		var got []string
		for range n {
			got = append(got, s.event().id)
		}
		return strings.Join(got, " ")
	}
	if got := ids(s, 6); got != "0.1 0.2 0.3 0.4 1.1 1.2" {
		t.Error(got)
	}
	h.append("b", finished())
	h.append("c", startIn("t"))
	if got := ids(s, 2); got != "1.3 2.1" {
		t.Error(got)
	}
	if got := ids(h.sse("/v1/threads/t/events?after=0.4"), 4); got != "1.1 1.2 1.3 2.1" {
		t.Error(got)
	}
	again := h.sse("/v1/threads/t/events?after=0.0&live=false", "Last-Event-ID", "1.2")
	if got := ids(again, 2); got != "1.3 2.1" {
		t.Error(got)
	}
	again.end()
	for _, bad := range []string{"x", "1", "1.", "01.0", "-1.0", "1.2.3", ""} {
		h.problem(400, "bad_request", "GET", "/v1/threads/t/events?after="+bad, "")
		if bad != "" {
			h.problem(400, "bad_request", "GET", "/v1/threads/t/events", "", "Last-Event-ID", bad)
		}
	}
	for _, beyond := range []string{"2.2", "3.0", "0.5", "7.7"} {
		if beyond == "0.5" {
			continue // within the thread's end, and behind that run's: nothing is missed
		}
		r := h.problem(416, "offset_out_of_range", "GET", "/v1/threads/t/events?after="+beyond, "")
		if r.json(t, "cursor") != "2.1" || r.json(t, "after") != beyond {
			t.Error(r)
		}
	}
	h.problem(416, "offset_out_of_range", "GET", "/v1/threads/none/events?after=0.1", "")
	h.gw.Drain()
	s.end()
}

// Neither a node that lags nor an election ends a thread's stream.
func TestThreadEventsThroughAnElection(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.append("a", startIn("t"))
	h.node.mu.Lock()
	h.node.lagging = true
	h.node.mu.Unlock()
	h.append("a", custom(1))
	elect := h.node.loseLeader()
	h.gw.cfg.ReadWait = 1 // ns: nothing can be proved
	s := h.sse("/v1/threads/t/events?after=0.2")
	if f, err := s.next(); err != nil || f.retry == "" {
		t.Fatal(f, err)
	}
	h.gw.cfg.ReadWait = patience
	elect()
	h.append("a", custom(2))
	h.must(200, "GET", "/v1/threads/t?consistency=linearizable", "")
	if f := s.event(); f.id != "0.3" {
		t.Error(f)
	}
}

func TestThreads(t *testing.T) {
	t.Parallel()
	h := start(t)
	if r := h.must(200, "GET", "/v1/threads", ""); string(r.body) != `{"threads":[]}` {
		t.Error(r)
	}
	h.append("a", startIn("t1"), finished())
	h.append("b", startIn("t2"))
	r := h.must(200, "GET", "/v1/threads?prefix=t&limit=5", "")
	var got struct{ Threads []event.ThreadSummary }
	if err := json.Unmarshal(r.body, &got); err != nil || len(got.Threads) != 2 || got.Threads[0].ThreadID != "t2" ||
		len(got.Threads[0].ActiveRuns) != 1 || !strings.Contains(string(r.body), `"activeRuns":[]`) {
		t.Error(err, r)
	}
	h.problem(400, "bad_request", "GET", "/v1/threads?cursor=x", "")
	h.problem(400, "bad_request", "GET", "/v1/threads?limit=0", "")
}

func TestEnvelope(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.append("a", startIn("t"), said("m1", "hello"), finished())
	r := h.must(200, "GET", "/v1/threads/t/envelope", "")
	if r.json(t, "kept") != 1.0 || r.json(t, "omitted") != 0.0 || r.json(t, "cursor") != "0.5" || !strings.Contains(string(r.body), `"runlog.envelope"`) {
		t.Error(r)
	}
	r = h.must(200, "GET", "/v1/threads/t/envelope?format=text&maxChars=1000", "")
	if text, _ := r.json(t, "text").(string); !strings.Contains(text, "hello") || len(text) > 1000 {
		t.Error(r)
	}
	for _, q := range []string{"maxChars=999", "maxChars=x", "format=xml"} {
		h.problem(400, "bad_request", "GET", "/v1/threads/t/envelope?"+q, "")
	}
}
