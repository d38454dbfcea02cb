package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/fsm"
)

// machineStreams is the state machine as Streams.
type machineStreams struct{ *fsm.Machine }

func (s machineStreams) WatchStream(name event.StreamName) Watch { return s.Machine.WatchStream(name) }

// startRunStreams is startMachine with the Durable Streams protocol.
func startRunStreams(t testing.TB) (*harness, *machineNode) {
	t.Helper()
	m, err := fsm.Open(fsm.Config{InMemory: true, Fatal: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	n := &machineNode{m: m}
	gw, err := New(Config{Log: n, Reader: machineReader{m}, Leases: n, Cluster: newFake(), Streams: machineStreams{m}, RunStreams: m})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(gw)
	h := &harness{t, nil, gw, srv, &http.Client{Transport: &http.Transport{DisableCompression: true}}}
	t.Cleanup(func() {
		gw.Drain()
		h.http.CloseIdleConnections()
		srv.Close()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return h, n
}

// The run r as a stream, on both of its paths.
const (
	runPath     = "/v1/stream/runs/r"
	tanstackRun = "/streams/runs%2Fr"
)

var asJSON = []string{"Content-Type", "application/json"}

// put and post are requests of the protocol with a JSON body; headers alternate name and value.
func (h *harness) put(status int, path, body string, headers ...string) reply {
	h.t.Helper()
	return h.must(status, "PUT", path, body, append(headers, asJSON...)...)
}

func (h *harness) post(status int, path, body string, headers ...string) reply {
	h.t.Helper()
	return h.must(status, "POST", path, body, append(headers, asJSON...)...)
}

// holder returns the headers that a holder's client sets once.
func holder(name string) []string { return []string{"Run-Holder", name, "Run-Lease-Ms", "5000"} }

func wire(seq int, chunk string) string {
	return fmt.Sprintf(`{"v":1,"seq":%d,"chunk":%s}`, seq, chunk)
}

func list(items ...string) string { return "[" + strings.Join(items, ",") + "]" }

// expire ends the run as the cluster does once its last holder is gone.
func (n *machineNode) expire(t *testing.T, id event.RunID) {
	t.Helper()
	run, err := n.m.Run(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	r, err := n.Propose(t.Context(), event.ExpireRun{Run: id, Epoch: run.Epoch, Tail: run.Tail, MaxBytes: 1 << 20})
	if err != nil || r.Refusal != nil {
		t.Fatal(err, r.Refusal)
	}
}

// TestRunIsOneLogOnBothSides: "The stream runs/<runId> is that run: same log, both APIs."
func TestRunIsOneLogOnBothSides(t *testing.T) {
	t.Parallel()
	h, _ := startRunStreams(t)
	r := h.put(201, runPath, "")
	if r.header.Get("Location") == "" || r.header.Get("Stream-Next-Offset") == "" || r.header.Get("Content-Type") != "application/json" {
		t.Fatalf("%v", r.header)
	}
	h.put(200, tanstackRun, "")
	h.post(204, tanstackRun, list(started(), custom(1)))
	h.append("r", custom(2))
	if got := string(h.get(runPath).body); got != list(started(), custom(1), custom(2)) {
		t.Fatal(got)
	}
	if got := string(h.get("/v1/runs/r/events?live=false", "Accept", "application/x-ndjson").body); !strings.HasPrefix(got, started()+"\n"+custom(1)) {
		t.Fatal(got)
	}
	if got := h.get("/v1/runs/r").json(t, "tail"); got != 3.0 {
		t.Fatal(got)
	}
	h.must(201, "POST", "/v1/runs", `{"runId":"native"}`)
	if r := h.get("/streams/runs/native?offset=-1"); r.status != 200 || !strings.Contains(string(r.body), "RUN_STARTED") {
		t.Fatalf("%s", r)
	}
}

// TestFramingIsFixedByTheFirstEvent: "Its framing … is fixed by its first event; native reads and
// projections unwrap records".
func TestFramingIsFixedByTheFirstEvent(t *testing.T) {
	t.Parallel()
	h, _ := startRunStreams(t)
	h.put(201, runPath, "")
	text := `{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}`
	content := `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"hi"}`
	records := list(wire(1, started()), wire(2, text), wire(5, content))
	h.post(204, runPath, records)
	if got := string(h.get(runPath).body); got != records {
		t.Fatal("the stream changed its records: " + got)
	}
	if got := string(h.get("/v1/runs/r/events?live=false", "Accept", "application/x-ndjson").body); got != started()+"\n"+text+"\n"+content+"\n" {
		t.Fatal("native read: " + got)
	}
	if got := string(h.get("/v1/runs/r/transcript").body); !strings.Contains(got, `"content":"hi"`) {
		t.Fatal("transcript: " + got)
	}
	h.append("r", custom(1)) // native writes are bare, and wrapped here
	if got := string(h.get(runPath).body); got != strings.TrimSuffix(records, "]")+","+wire(6, custom(1))+"]" {
		t.Fatal(got)
	}
	h.post(422, runPath, list(wire(6, custom(2)))) // the number is taken
	h.post(422, runPath, list(wire(7, custom(2)), custom(3)))

	h.put(201, "/v1/stream/runs/bare", list(started()))
	h.post(422, "/v1/stream/runs/bare", list(wire(1, custom(1))))
}

// TestClusterContinuesRecords: "what the cluster adds to a record run continues the numbering and is
// wrapped on this side."
func TestClusterContinuesRecords(t *testing.T) {
	t.Parallel()
	h, n := startRunStreams(t)
	h.put(201, tanstackRun, "", holder("a")...)
	call := `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"n"}`
	h.post(204, tanstackRun, list(wire(1, started()), wire(2, call)), holder("a")...)
	n.expire(t, "r")
	r := h.get(tanstackRun)
	events := strings.Split(strings.TrimSpace(string(h.get("/v1/runs/r/events?live=false", "Accept", "application/x-ndjson").body)), "\n")
	if len(events) < 4 || !strings.Contains(events[len(events)-1], `"host_lost"`) {
		t.Fatalf("%q", events)
	}
	for i, e := range events {
		events[i] = wire(i+1, e)
	}
	if string(r.body) != list(events...) || r.header.Get("Stream-Closed") != "true" {
		t.Fatalf("got %s %v\nwant %s", r.body, r.header, list(events...))
	}
	if got := string(h.get("/v1/runs/r/tools").body); !strings.Contains(got, `"status":"interrupted"`) {
		t.Fatal(got)
	}
}

// TestOldEpochComesFirst: "a mutating request whose Run-Epoch is below the current epoch gets 403 with
// Producer-Epoch: <current> before anything else is looked at."
func TestOldEpochComesFirst(t *testing.T) {
	t.Parallel()
	h, n := startRunStreams(t)
	h.put(201, runPath, list(started()), holder("a")...)
	for range 2 { // the same holder again: another epoch
		if _, err := n.Propose(t.Context(), event.LapseLease{Run: "r", Epoch: 1, Tail: 1}); err != nil {
			t.Fatal(err)
		}
		h.put(200, runPath, "", holder("a")...)
	}
	now := h.get("/v1/runs/r").json(t, "epoch")
	if now == 1.0 {
		t.Fatal("nothing was acquired")
	}
	check := func() {
		t.Helper()
		for _, w := range []struct {
			method, body string
			headers      []string
		}{
			{"PUT", "", asJSON},
			{"PUT", "{", []string{"Content-Type", "text/plain"}},
			{"PUT", "", []string{"Stream-TTL", "5"}},
			{"PUT", "", []string{"Run-Holder", "a"}},
			{"POST", list(custom(1)), asJSON},
			{"POST", "{not JSON", asJSON},
			{"POST", "", nil},
			{"POST", list(custom(1)), nil},
			{"POST", list(custom(1)), []string{"Content-Type", "text/plain", "Producer-Id", "p"}},
			{"POST", list(custom(1)), []string{"Content-Type", "application/json", "Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", "7"}},
			{"POST", list(custom(1)), append([]string{"Run-Lease-Ms", "1"}, asJSON...)},
			{"POST", "", []string{"Stream-Closed", "true"}},
			{"DELETE", "", nil},
		} {
			r := h.problem(403, "fenced", w.method, runPath, w.body, append([]string{"Run-Epoch", "1"}, w.headers...)...)
			if got := r.header.Get("Producer-Epoch"); got != fmt.Sprint(now) {
				t.Fatalf("%s %q: Producer-Epoch %q", w.method, w.body, got)
			}
		}
	}
	check()
	h.post(204, runPath, list(finished()), "Run-Epoch", fmt.Sprint(now))
	check() // nor does it matter that the run has ended
}

// TestRunHolder: "PUT acquires (another's live lease → 403), POST renews, a POST or close of anyone but
// the holder → 403."
func TestRunHolder(t *testing.T) {
	t.Parallel()
	h, n := startRunStreams(t)
	if r := h.put(201, runPath, list(started()), holder("a")...); r.header.Get("Run-Epoch") != "1" {
		t.Fatalf("%v", r.header)
	}
	h.problem(403, "lease_held", "PUT", runPath, "", append(holder("b"), asJSON...)...)
	for _, other := range [][]string{nil, holder("b")} {
		h.problem(403, "lease_held", "POST", runPath, list(custom(1)), append(other, asJSON...)...)
		h.problem(403, "lease_held", "POST", runPath, "", append(other, "Stream-Closed", "true")...)
	}
	lease := func() string {
		return fmt.Sprint(h.get("/v1/runs/r").json(t, "lease").(map[string]any)["state"])
	}
	if _, err := n.Propose(t.Context(), event.LapseLease{Run: "r", Epoch: 1, Tail: 1}); err != nil || lease() != "lapsed" {
		t.Fatal(err, lease())
	}
	h.post(204, runPath, list(custom(1)), holder("a")...)
	if lease() != "held" {
		t.Fatal("a POST does not renew: " + lease())
	}
	if _, err := n.Propose(t.Context(), event.LapseLease{Run: "r", Epoch: 1, Tail: 2}); err != nil {
		t.Fatal(err)
	}
	if r := h.put(200, runPath, "", holder("b")...); r.header.Get("Run-Epoch") != "2" {
		t.Fatalf("%v", r.header)
	}
	h.problem(403, "lease_held", "POST", runPath, list(custom(2)), append(holder("a"), asJSON...)...)
	h.problem(403, "lease_held", "POST", runPath, "", append(holder("a"), "Stream-Closed", "true")...)
	h.problem(400, "bad_request", "PUT", runPath, "", "Run-Lease-Ms", "5000")
	h.problem(400, "bad_request", "PUT", runPath, "", "Run-Holder", "c", "Run-Lease-Ms", "5")
	if got := string(h.get(runPath).body); got != list(started(), custom(1)) {
		t.Fatal("a refused write wrote: " + got)
	}
}

// TestRunStreamTakeoverWindow: Run-Takeover-Ms at a PUT is the run's window.
func TestRunStreamTakeoverWindow(t *testing.T) {
	t.Parallel()
	h, _ := startRunStreams(t)
	h.put(201, runPath, "", append(holder("a"), "Run-Takeover-Ms", "60000")...)
	if got := h.get("/v1/runs/r").json(t, "takeoverMs"); got != 60000.0 {
		t.Fatal(got)
	}
	h.problem(400, "bad_request", "PUT", "/v1/stream/runs/x", "", "Run-Takeover-Ms", "86400001")
}

// TestTerminalClosesTheStream: "A terminal event closes the stream (a later close-only: 204)."
func TestTerminalClosesTheStream(t *testing.T) {
	t.Parallel()
	h, _ := startRunStreams(t)
	h.put(201, runPath, list(started()), holder("a")...)
	if r := h.post(204, runPath, list(finished()), holder("a")...); r.header.Get("Stream-Closed") != "true" {
		t.Fatalf("%v", r.header)
	}
	for range 2 {
		r := h.must(204, "POST", runPath, "", append(holder("a"), "Stream-Closed", "true")...)
		if r.header.Get("Stream-Closed") != "true" || r.header.Get("Stream-Next-Offset") == "" {
			t.Fatalf("%v", r.header)
		}
	}
	r := h.problem(409, "stream_closed", "POST", runPath, list(custom(1)),
		append([]string{"Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", "0"}, append(holder("a"), asJSON...)...)...)
	for _, name := range []string{"Stream-Closed", "Stream-Next-Offset", "Producer-Expected-Seq", "Producer-Received-Seq"} {
		if r.header.Get(name) == "" {
			t.Fatalf("no %s: %v", name, r.header)
		}
	}
	if got := h.get("/v1/runs/r").json(t, "status"); got != "completed" {
		t.Fatal(got)
	}
	h.put(409, runPath, "") // the run is closed, the request's stream is not
	h.put(200, runPath, "", "Stream-Closed", "true")
}

// TestCloseWithoutTerminalReleases: "A close without a terminal releases the lease and does not end the run."
func TestCloseWithoutTerminalReleases(t *testing.T) {
	t.Parallel()
	h, _ := startRunStreams(t)
	h.put(201, runPath, list(started()), holder("a")...)
	if r := h.must(204, "POST", runPath, "", append(holder("a"), "Stream-Closed", "true")...); r.header.Get("Stream-Closed") != "true" {
		t.Fatalf("its writer is not told: %v", r.header)
	}
	run := h.get("/v1/runs/r")
	if run.json(t, "ended") != false || run.json(t, "lease").(map[string]any)["state"] != "released" {
		t.Fatalf("%s", run)
	}
	if r := h.must(200, "HEAD", runPath, ""); r.header.Get("Stream-Closed") != "" {
		t.Fatal("readers see an end that is none")
	}
	if r := h.must(403, "POST", runPath, list(custom(1)), append(holder("b"), asJSON...)...); r.json(t, "code") != "epoch_required" || r.header.Get("Producer-Epoch") != "1" {
		t.Fatalf("%s %v", r, r.header)
	}
	h.put(200, runPath, "", holder("b")...)
	h.post(204, runPath, list(finished()), append(holder("b"), "Stream-Closed", "true")...)
	if r := h.get(runPath); r.header.Get("Stream-Closed") != "true" || string(r.body) != list(started(), finished()) {
		t.Fatalf("%s %v", r, r.header)
	}
}

// TestRunsHaveNoTTL: "TTL on a run → 400".
func TestRunsHaveNoTTL(t *testing.T) {
	t.Parallel()
	h, _ := startRunStreams(t)
	h.problem(400, "bad_request", "PUT", runPath, "", "Stream-TTL", "60")
	h.problem(400, "bad_request", "PUT", runPath, "", "Stream-Expires-At", "2030-01-01T00:00:00Z")
	h.problem(404, "run_not_found", "GET", runPath, "")
}

// TestDeleteOfARun: "DELETE of an open run → 409"; an ended one's name stays used.
func TestDeleteOfARun(t *testing.T) {
	t.Parallel()
	h, _ := startRunStreams(t)
	h.put(201, runPath, list(started()))
	h.problem(409, "run_active", "DELETE", runPath, "")
	h.post(204, runPath, list(finished()))
	h.must(204, "DELETE", runPath, "")
	for _, method := range []string{"GET", "PUT", "POST", "DELETE"} {
		body := ""
		if method == "POST" {
			body = list(custom(1))
		}
		h.problem(410, "run_deleted", method, runPath, body, asJSON...)
	}
	h.problem(410, "run_deleted", "GET", "/v1/runs/r", "")
}

// TestForkOfARun: "a fork of a run is a plain stream" that holds the run's messages as they are stored.
func TestForkOfARun(t *testing.T) {
	t.Parallel()
	h, _ := startRunStreams(t)
	h.put(201, runPath, list(wire(1, started())), holder("a")...)
	at := h.post(204, runPath, list(wire(2, custom(1))), holder("a")...).header.Get("Stream-Next-Offset")
	h.post(204, runPath, list(wire(3, finished())), holder("a")...)
	const fork = "/v1/stream/branch"
	h.must(201, "PUT", fork, "", "Stream-Forked-From", runPath, "Stream-Fork-Offset", at)
	h.post(204, fork, `[{"anything":1}]`) // no grammar, no lease, no fence
	if r := h.get(fork); string(r.body) != list(wire(1, started()), wire(2, custom(1)), `{"anything":1}`) || r.header.Get("Stream-Closed") != "" {
		t.Fatalf("%s %v", r, r.header)
	}
	h.must(204, "DELETE", fork, "")
	if r := h.get(runPath); !strings.Contains(string(r.body), "RUN_FINISHED") {
		t.Fatalf("%s", r)
	}
	h.problem(400, "bad_request", "PUT", "/v1/stream/runs/x", "", "Stream-Forked-From", runPath)
}

// TestRunsHoldJSONAlone: another content type is 409.
func TestRunsHoldJSONAlone(t *testing.T) {
	t.Parallel()
	h, _ := startRunStreams(t)
	h.put(201, runPath, list(started()))
	h.must(409, "PUT", runPath, "", "Content-Type", "text/plain")
	h.must(409, "POST", runPath, "x", "Content-Type", "text/plain")
	h.must(409, "PUT", "/v1/stream/runs/new", "", "Content-Type", "application/octet-stream")
	h.problem(404, "run_not_found", "GET", "/v1/stream/runs/new", "")
	h.post(400, runPath, "[]")
	h.post(400, runPath, "{")
}

// TestClusterEndsAnUnwrittenRun: a run that was opened and never written ends with what its opener's
// path promises readers: records where TanStack AI's adapter asks, bare events elsewhere.
func TestClusterEndsAnUnwrittenRun(t *testing.T) {
	t.Parallel()
	for path, first := range map[string]string{
		tanstackRun:       `[{"v":1,"seq":1,"chunk":{`,
		"/streams/runs/r": `[{"v":1,"seq":1,"chunk":{`,
		runPath:           `[{"type":"RUN_STARTED"`,
	} {
		h, n := startRunStreams(t)
		h.put(201, path, "", holder("a")...)
		n.expire(t, "r")
		for _, reads := range []string{path, runPath} {
			if r := h.get(reads); !strings.HasPrefix(string(r.body), first) || !strings.Contains(string(r.body), "host_lost") {
				t.Errorf("opened at %s, read at %s: %s", path, reads, r)
			}
		}
	}
}

// TestRunThread: a PUT says which thread a new run belongs to, by its header or its RUN_STARTED.
func TestRunThread(t *testing.T) {
	t.Parallel()
	h, _ := startRunStreams(t)
	h.put(201, runPath, "", append(holder("a"), "Run-Thread", "chat")...)
	h.put(200, runPath, "", append(holder("a"), "Run-Thread", "chat")...)
	h.put(200, runPath, "")
	h.put(201, "/v1/stream/runs/body", `{"type":"RUN_STARTED","threadId":"chat","runId":"body"}`)
	h.put(201, "/v1/stream/runs/none", "")
	for id, want := range map[string]string{"r": "chat", "body": "chat", "none": "none"} {
		if got := h.get("/v1/runs/"+id).json(t, "threadId"); got != want {
			t.Errorf("run %s is of thread %v, want %s", id, got, want)
		}
	}
	h.problem(409, "stream_exists", "PUT", runPath, "", append([]string{"Run-Thread", "other"}, asJSON...)...)
	h.problem(400, "bad_request", "PUT", "/v1/stream/runs/new", "", "Run-Thread", "")
}
