package gateway

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/raftlog"
)

// takenOver is a run as its host tells it.
var takenOver = []string{
	`{"type":"RUN_STARTED","runId":"r","threadId":"t"}`,
	`{"type":"TEXT_MESSAGE_START","messageId":"m"}`,
	`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"Starting "}`,
	`{"type":"CUSTOM","name":"live","value":1}`,
	`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"the job 😀."}`,
	`{"type":"TEXT_MESSAGE_END","messageId":"m"}`,
	`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"bash"}`,
	`{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{}"}`,
	`{"type":"TOOL_CALL_END","toolCallId":"c"}`,
	`{"type":"TOOL_CALL_RESULT","toolCallId":"c","messageId":"res","content":"done"}`,
	`{"type":"RUN_FINISHED","runId":"r","threadId":"t"}`,
}

func whole() string { return strings.Join(takenOver, "\n") + "\n" }

func (t *replayTest) wantLog(want string) {
	t.Helper()
	if got := t.node.log(); got != want {
		t.Fatalf("the log is\n%s\nwant\n%s", got, want)
	}
}

func (t *replayTest) want(a replayAnswered, matched, appended int) {
	t.Helper()
	if a.Status != 0 && a.Status != 200 || a.Matched != matched || a.Appended != appended || int(a.Tail) != len(t.node.records) {
		t.Fatalf("got %+v (%s), want %d matched, %d appended, tail %d", a, a.Detail, matched, appended, len(t.node.records))
	}
}

// TestReplayEveryCut, R3_2, R3_5: wherever the log stops, a replay from the first event appends the rest.
func TestReplayEveryCut(t *testing.T) {
	t.Parallel()
	for cut := range len(takenOver) + 1 {
		for form, body := range map[string]string{"ndjson": whole(), "array": " [" + strings.Join(takenOver, " ,\n") + "] "} {
			rt := newReplayTest(t, takenOver[:cut]...)
			rt.want(rt.send(body), cut, len(takenOver)-cut)
			rt.wantLog(whole())
			rt.want(rt.send(body), len(takenOver), 0)
			if t.Failed() {
				t.Fatalf("cut %d, %s", cut, form)
			}
		}
	}
}

func TestReplayAppendsTheRestOfADelta(t *testing.T) {
	t.Parallel()
	rt := newReplayTest(t, takenOver[0], takenOver[1], `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"Start\u0069ng the job \ud83d"}`)
	a := rt.send(whole())
	rt.want(a, 3, len(takenOver)-4)
	if a.Lacking != 1 { // the CUSTOM event
		t.Fatalf("got %+v", a)
	}
	if line := strings.Split(rt.node.log(), "\n")[3]; line != `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"\ude00."}` {
		t.Fatalf("appended %s", line)
	}
}

// TestReplayStaysOpen: events go in as the agent goes on, without waiting for more of the body.
func TestReplayStaysOpen(t *testing.T) {
	t.Parallel()
	rt := newReplayTest(t, takenOver[:3]...)
	r, w := io.Pipe()
	lines := rt.lines(r)
	for i, e := range takenOver {
		if _, err := io.WriteString(w, e+"\n"); err != nil {
			t.Fatal(err)
		}
		a := lines.until(i + 1)
		if a.Appended != max(0, i+1-3) || int(a.Tail) != max(i+1, 3) && i >= 3 {
			t.Fatalf("after event %d: %+v", i, a)
		}
	}
	w.Close()
	rt.want(lines.last(), 3, len(takenOver)-3)
	rt.wantLog(whole())
}

// TestReplayToken: each form of the answer names the write that reads must see.
func TestReplayToken(t *testing.T) {
	t.Parallel()
	rt := newReplayTest(t, takenOver[:3]...)
	r, w := io.Pipe()
	lines := rt.lines(r)
	for _, e := range takenOver[:5] {
		io.WriteString(w, e+"\n")
	}
	if a := lines.until(5); a.Token != formatToken(uint64(len(rt.node.batches))) {
		t.Errorf("progress: %+v", a)
	}
	w.Close()
	if a := lines.last(); a.Token != formatToken(uint64(len(rt.node.batches))) {
		t.Errorf("result: %+v", a)
	}
	if got := lines.resp.Trailer.Get("Runlog-Token"); got != formatToken(uint64(len(rt.node.batches))) {
		t.Errorf("trailer %q", got)
	}
	if a := rt.send(whole()); a.Token == "" {
		t.Errorf("at once: %+v", a)
	}
	if a := rt.send(whole()); a.Token != "" {
		t.Errorf("nothing was appended: %+v", a)
	}
}

// TestReplayDisturbed: conflicts, unknown outcomes of both kinds and times without a leader.
func TestReplayDisturbed(t *testing.T) {
	t.Parallel()
	n := 0
	rt := newReplayTest(t, takenOver[:2]...)
	rt.node.disturb = func(n2 *replayNode, b *event.Batch) (bool, error) {
		n++
		switch n % 7 {
		case 1:
			return true, raftlog.ErrOutcomeUnknown
		case 2:
			return false, raftlog.ErrOutcomeUnknown
		case 3:
			return false, raftlog.ErrUnavailable
		case 4:
			return false, raftlog.ErrOverloaded
		case 5: // somebody else's part of the same, and something of its own
			raw, _ := event.ParseEvent([]byte(`{"type":"RAW","event":"other"}`))
			n2.append(&event.Batch{Epoch: b.Epoch, Events: append([]event.Event{raw}, b.Events[:1]...)})
		}
		return false, nil
	}
	r, w := io.Pipe()
	lines := rt.lines(r)
	for i, e := range takenOver {
		if _, err := io.WriteString(w, e+"\n"); err != nil {
			t.Fatal(err)
		}
		lines.until(i + 1)
	}
	w.Close()
	a := lines.last()
	if a.Matched+a.Skipped+a.Appended < len(takenOver) || a.Code != "" || a.Problem != nil {
		t.Fatalf("got %+v, %s", a, a.Problem)
	}
	rt.wantLogWithout(`{"type":"RAW","event":"other"}`)
	if n < 8 {
		t.Fatalf("only %d appends were tried", n)
	}
}

func (t *replayTest) wantLogWithout(line string) {
	t.Helper()
	if got := strings.ReplaceAll(t.node.log(), line+"\n", ""); got != whole() {
		t.Fatalf("the log is\n%s", t.node.log())
	}
}

func TestReplayGivesUp(t *testing.T) {
	t.Parallel()
	rt := newReplayTest(t, takenOver[:2]...)
	rt.gw.replayPatience = 100 * time.Millisecond
	rt.node.disturb = func(*replayNode, *event.Batch) (bool, error) { return false, raftlog.ErrUnavailable }
	if a := rt.send(whole()); a.Status != 503 || a.Code != "unavailable" {
		t.Fatalf("got %+v", a)
	}
	rt.wantLog(strings.Join(takenOver[:2], "\n") + "\n")
}

func TestReplayFencedInTheMiddle(t *testing.T) {
	t.Parallel()
	rt := newReplayTest(t, takenOver[:2]...)
	r, w := io.Pipe()
	lines := rt.lines(r)
	io.WriteString(w, strings.Join(takenOver[:5], "\n")+"\n")
	lines.until(5)
	rt.node.mu.Lock()
	rt.node.epoch = 4
	rt.node.mu.Unlock()
	io.WriteString(w, takenOver[5]+"\n") // the body stays open: the answer must not wait for its end
	a := lines.last()
	if !strings.Contains(string(a.Problem), `"code":"fenced","epoch":3,"currentEpoch":4`) {
		t.Fatalf("got %+v, %s", a, a.Problem)
	}
	w.Close()
	rt.wantLog(strings.Join(takenOver[:5], "\n") + "\n")
}

// TestReplayFencedWithoutAnAppend, R1_3: a host that was taken over from while its replay was open is not
// told that all is well, though its successor has written the rest of it.
func TestReplayFencedWithoutAnAppend(t *testing.T) {
	t.Parallel()
	rt := newReplayTest(t, takenOver[:5]...)
	r, w := io.Pipe()
	lines := rt.lines(r)
	io.WriteString(w, strings.Join(takenOver[:5], "\n")+"\n")
	lines.until(5)
	rt.node.mu.Lock()
	rt.node.epoch = 4
	rt.node.mu.Unlock()
	rt.store(takenOver[5:]...)
	io.WriteString(w, strings.Join(takenOver[5:], "\n")+"\n")
	w.Close()
	if a := lines.last(); !strings.Contains(string(a.Problem), `"code":"fenced","epoch":3,"currentEpoch":4`) {
		t.Fatalf("got %+v, %s", a, a.Problem)
	}
	rt.wantLog(whole())
}

func TestReplayDiverged(t *testing.T) {
	t.Parallel()
	other := strings.Replace(whole(), `"toolCallName":"bash"`, `"toolCallName":"sh"`, 1)
	rt := newReplayTest(t, takenOver[:8]...)
	a := rt.send(other)
	if a.Status != 409 || a.Code != "diverged" || a.Offset != 6 || a.Field != "toolCallName" ||
		string(a.Stored) != takenOver[6] || !strings.Contains(string(a.Replayed), `"sh"`) {
		t.Fatalf("got %+v", a)
	}
	r, w := io.Pipe()
	lines := rt.lines(r)
	io.WriteString(w, other)
	if a := lines.last(); !strings.Contains(string(a.Problem), `"code":"diverged","offset":6`) {
		t.Fatalf("got %+v, %s", a, a.Problem)
	}
	w.Close()
	if a := rt.send(strings.Replace(whole(), `"threadId":"t"`, `"threadId":"mine"`, 1)); a.Field != "threadId" || a.Hint == "" {
		t.Fatalf("got %+v", a)
	}
	rt.wantLog(strings.Join(takenOver[:8], "\n") + "\n")
}

// TestReplayDivergedWhileOpen: in the form without progress too the answer does not wait for the
// end of the body.
func TestReplayDivergedWhileOpen(t *testing.T) {
	t.Parallel()
	rt := newReplayTest(t, takenOver...)
	r, w := io.Pipe()
	defer w.Close()
	go io.WriteString(w, `{"type":"RUN_STARTED"}`+"\n"+`{"type":"STEP_STARTED","stepName":"s"}`+"\n")
	resp := rt.open(r)
	if b, err := io.ReadAll(resp.Body); resp.StatusCode != 409 || err != nil {
		t.Fatalf("got %s %s %v", resp.Status, b, err)
	}
}

func TestReplayOfAnEndedRun(t *testing.T) {
	t.Parallel()
	rt := newReplayTest(t, takenOver...)
	rt.want(rt.send(whole()), len(takenOver), 0)
	rt.want(rt.send(strings.Join(takenOver[:4], "\n")), 4, 0)
	if a := rt.send(whole() + `{"type":"CUSTOM","name":"more","value":1}`); a.Status != 409 || a.Code != "run_ended" {
		t.Fatalf("got %+v", a)
	}
	// Ended by the cluster in the middle of the call: the successor came too late.
	lost := newReplayTest(t, append(append([]string{}, takenOver[:7]...),
		`{"type":"TOOL_CALL_END","toolCallId":"c"}`,
		`{"type":"TOOL_CALL_RESULT","messageId":"c-result","toolCallId":"c","content":"{}","role":"tool","metadata":{"interrupted":true}}`,
		`{"type":"RUN_ERROR","message":"lost","code":"host_lost"}`)...)
	lost.want(lost.send(strings.Join(takenOver[:7], "\n")), 7, 0)
	if a := lost.send(whole()); a.Status != 409 || a.Code != "run_ended" {
		t.Fatalf("got %+v", a)
	}
	if a := lost.send(strings.Replace(whole(), "Starting", "Stopping", 1)); a.Code != "diverged" || a.Offset != 2 {
		t.Fatalf("got %+v", a)
	}
}

func TestReplayRefused(t *testing.T) {
	t.Parallel()
	rt := newReplayTest(t, takenOver[:3]...)
	for _, c := range []struct {
		name, body string
		headers    []string
		status     int
		code       string
		stored     int // events of the run in the log afterwards
	}{
		{"no epoch", whole(), []string{"Run-Epoch", ""}, 428, "epoch_required", 3},
		{"old epoch", whole(), []string{"Run-Epoch", "2"}, 409, "fenced", 3},
		{"nothing to append at an old epoch", takenOver[0], []string{"Run-Epoch", "2"}, 409, "fenced", 3},
		{"bad epoch", whole(), []string{"Run-Epoch", "x"}, 400, "bad_request", 3},
		{"encoding", whole(), []string{"Content-Encoding", "gzip"}, 415, "unsupported_media_type", 3},
		{"no JSON", takenOver[0] + "\nnull", nil, 422, "invalid_event", 3},
		{"cut short", takenOver[0] + "\n{", nil, 422, "invalid_event", 3},
		{"no end of array", "[" + takenOver[0], nil, 422, "invalid_event", 3},
		{"something after the array", "[" + takenOver[0] + "]1", nil, 422, "invalid_event", 3},
		{"an event that is too large", takenOver[0] + `{"type":"CUSTOM","name":"` + strings.Repeat("x", 1<<21), nil, 413, "too_large", 3},
		{"what cannot follow", strings.Join(takenOver[:5], "\n") + takenOver[9] + takenOver[9], nil, 422, "invalid_event", 6},
	} {
		a := rt.send(c.body, c.headers...)
		if a.Status != c.status || a.Code != c.code || len(rt.node.records) != c.stored {
			t.Errorf("%s: got %+v, %d stored", c.name, a, len(rt.node.records))
		}
		if c.name == "what cannot follow" && a.Index != 6 {
			t.Errorf("%s: index %d", c.name, a.Index)
		}
	}
}

func TestReplayOfAnUnknownRun(t *testing.T) {
	t.Parallel()
	rt := newReplayTest(t)
	rt.node.epoch = 0
	if a := rt.send(takenOver[1], "Run-Epoch", ""); a.Status != 404 || a.Code != "run_not_found" {
		t.Fatalf("got %+v", a)
	}
	rt.want(rt.send(whole(), "Run-Epoch", ""), 0, len(takenOver))
}

func TestReplayEndsWhenDraining(t *testing.T) {
	t.Parallel()
	rt := newReplayTest(t, takenOver[:3]...)
	r, w := io.Pipe()
	defer w.Close()
	lines := rt.lines(r)
	io.WriteString(w, strings.Join(takenOver[:4], "\n")+"\n")
	lines.until(4)
	rt.gw.Drain()
	if a := lines.last(); !strings.Contains(string(a.Problem), `"code":"unavailable"`) {
		t.Fatalf("got %+v, %s", a, a.Problem)
	}
}

// repeated is a body of n equal lines after a first one, made as it is read.
type repeated struct {
	first, line string
	n           int
	rest        string
}

func (b *repeated) Read(p []byte) (int, error) {
	if b.rest == "" {
		if b.first != "" {
			b.rest, b.first = b.first, ""
		} else if b.n--; b.n < 0 {
			return 0, io.EOF
		} else {
			b.rest = b.line
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// TestReplayMemoryIsBounded: far more is streamed than is held.
func TestReplayMemoryIsBounded(t *testing.T) {
	rt := newReplayTest(t)
	rt.node.sink = true
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	most, batches := uint64(0), 0
	rt.node.disturb = func(*replayNode, *event.Batch) (bool, error) {
		if batches++; batches%50 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc-min(before.HeapAlloc, now.HeapAlloc))
		}
		return false, nil
	}
	const n, size = 3000, 32 << 10
	resp := rt.open(&repeated{
		first: takenOver[0] + "\n", n: n, line: fmt.Sprintf(`{"type":"CUSTOM","name":"n","value":"%s"}`+"\n", strings.Repeat("x", size)),
	})
	b, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(b), fmt.Sprintf(`"appended":%d,`, n+1)) {
		t.Fatalf("%s, %v", b, err)
	}
	if batches < 50 || most > 16<<20 { // never measured, or too much
		t.Fatalf("%d MiB were streamed in %d batches and up to %d KiB held", n*size>>20, batches, most>>10)
	}
}
