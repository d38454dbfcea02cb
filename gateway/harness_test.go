package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// harness is a gateway over a fake node, served on a real socket with the real server's settings.
type harness struct {
	t    testing.TB
	node *fakeNode
	gw   *Gateway
	srv  *httptest.Server
	http *http.Client
}

func start(t testing.TB, change ...func(*Config)) *harness {
	t.Helper()
	n := newFake()
	cfg := Config{Log: n, Reader: n, Cluster: n, Threads: n, ReadWait: 5 * time.Second}
	for _, f := range change {
		f(&cfg)
	}
	gw, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(gw)
	srv.Config = NewServer(gw, nil)
	srv.Start()
	// One transport a test: closing it must not disturb tests beside it.
	h := &harness{t, n, gw, srv, &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 8}}}
	t.Cleanup(func() {
		gw.Drain()
		h.http.CloseIdleConnections()
		srv.Close()
	})
	return h
}

// patience bounds whatever a test waits for, so that what never comes is a failure with a name and
// not a hang.
const patience = time.Minute

// await looks again and again until something is so. It must be something that stays so: what comes
// and goes may be missed.
func (h *harness) await(what string, is func() bool) {
	h.t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			h.t.Fatalf("still waiting: %s", what)
		}
	}
}

// reply is an answer read to its end.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (r reply) String() string { return fmt.Sprintf("%d %s", r.status, r.body) }

// json returns a member of the answer's object.
func (r reply) json(t testing.TB, name string) any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(r.body, &m); err != nil {
		t.Fatalf("%v: %s", err, r)
	}
	return m[name]
}

// do sends a request whose headers alternate name and value.
func (h *harness) do(method, path, body string, headers ...string) reply {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, h.srv.URL+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := h.http.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, b}
}

func (h *harness) get(path string, headers ...string) reply {
	h.t.Helper()
	return h.do("GET", path, "", headers...)
}

// must sends a request that has to be answered with a status.
func (h *harness) must(status int, method, path, body string, headers ...string) reply {
	h.t.Helper()
	r := h.do(method, path, body, headers...)
	if r.status != status {
		h.t.Fatalf("%s %s: want %d, got %s", method, path, status, r)
	}
	return r
}

// problem sends a request that has to be answered with a problem.
func (h *harness) problem(status int, code, method, path, body string, headers ...string) reply {
	h.t.Helper()
	r := h.must(status, method, path, body, headers...)
	if got := r.json(h.t, "code"); got != code {
		h.t.Fatalf("%s %s: want code %s, got %s", method, path, code, r)
	}
	if ct := r.header.Get("Content-Type"); ct != "application/problem+json" {
		h.t.Fatalf("%s %s: content type %q", method, path, ct)
	}
	return r
}

// Events of a run that the strict grammar accepts.
func started() string { return `{"type":"RUN_STARTED"}` }
func finished() string {
	return `{"type":"RUN_FINISHED"}`
}
func custom(n int) string { return fmt.Sprintf(`{"type":"CUSTOM","name":"n","value":%d}`, n) }

// run starts a run through an append.
func (h *harness) run(id string, events ...string) {
	h.t.Helper()
	h.must(200, "POST", "/v1/runs/"+id+"/events", "["+strings.Join(append([]string{started()}, events...), ",")+"]")
}

func (h *harness) append(id string, events ...string) {
	h.t.Helper()
	h.must(200, "POST", "/v1/runs/"+id+"/events", strings.Join(events, "\n"))
}

// stream is an answer that is read as it comes.
type stream struct {
	t    testing.TB
	resp *http.Response
	r    *bufio.Reader
	stop context.CancelFunc
}

func (h *harness) open(path string, headers ...string) *stream {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	req, err := http.NewRequestWithContext(ctx, "GET", h.srv.URL+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := h.http.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	s := &stream{h.t, resp, bufio.NewReaderSize(resp.Body, 64<<10), cancel}
	h.t.Cleanup(s.close)
	return s
}

func (h *harness) sse(path string, headers ...string) *stream {
	h.t.Helper()
	return h.open(path, append([]string{"Accept", "text/event-stream"}, headers...)...)
}

func (s *stream) close() {
	s.stop()
	s.resp.Body.Close()
}

// frame is one server-sent event, or a comment.
type frame struct {
	id, data, retry string
	comment         bool
}

// next returns the next frame; io.EOF is the stream's orderly end.
func (s *stream) next() (frame, error) {
	var f frame
	for {
		line, err := s.r.ReadString('\n')
		if err != nil {
			return f, err
		}
		line = strings.TrimSuffix(line, "\n")
		switch name, value, _ := strings.Cut(line, ":"); {
		case line == "":
			return f, nil
		case name == "":
			f.comment = true
		case name == "id":
			f.id = strings.TrimPrefix(value, " ")
		case name == "data":
			f.data += strings.TrimPrefix(value, " ")
		case name == "retry":
			f.retry = strings.TrimPrefix(value, " ")
		default:
			s.t.Errorf("unexpected line %q", line)
		}
	}
}

// event returns the next event, passing over comments and retry.
func (s *stream) event() frame {
	s.t.Helper()
	for {
		f, err := s.next()
		if err != nil {
			s.t.Fatalf("stream ended: %v", err)
		}
		if f.data != "" {
			return f
		}
	}
}

// end requires that nothing but comments comes before the orderly end.
func (s *stream) end() {
	s.t.Helper()
	for {
		f, err := s.next()
		if err == io.EOF {
			return
		}
		if err != nil || f.data != "" {
			s.t.Fatalf("want the end, got %+v, %v", f, err)
		}
	}
}
