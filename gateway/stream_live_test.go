package gateway

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sseEvent is an event of the protocol as a reader of server-sent events gets it.
type sseEvent struct{ name, data string }

// control is what a "control" event says.
type control struct {
	StreamNextOffset string
	StreamCursor     string
	UpToDate         bool
	StreamClosed     bool
}

// readEvent returns the next event; io.EOF is the stream's orderly end. It fails for whatever the
// strictest published reader does.
func (s *stream) readEvent() (e sseEvent, comments int, err error) {
	s.t.Helper()
	var lines []string
	for {
		line, err := s.r.ReadString('\n')
		if err != nil {
			return e, comments, err
		}
		switch name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":"); {
		case line == "\n" && e.name == "" && lines == nil: // after a comment
		case line == "\n":
			e.data = strings.Join(lines, "\n")
			return e, comments, nil
		case name == "":
			comments++
		case name == "event" && lines == nil:
			e.name = strings.TrimPrefix(value, " ")
		case name == "data" && e.name != "":
			lines = append(lines, value)
		default:
			s.t.Fatalf("unexpected line %q", line)
		}
	}
}

// pair returns the next data event's payload, empty when the next event is a control, and the control.
func (s *stream) pair() (data string, c control) {
	s.t.Helper()
	e, _, err := s.readEvent()
	if err == nil && e.name == "data" {
		data = e.data
		e, _, err = s.readEvent()
	}
	if err != nil || e.name != "control" {
		s.t.Fatalf("want a control event, got %+v, %v", e, err)
	}
	if err := json.Unmarshal([]byte(e.data), &c); err != nil {
		s.t.Fatal(err)
	}
	return data, c
}

func TestStreamSSE(t *testing.T) {
	t.Parallel()
	h := startStreams(t)
	h.must(201, "PUT", chat, "", asJSON...)
	s := h.open(chat + "?offset=-1&live=sse")
	if got := s.resp.Header.Get("Content-Type"); got != "text/event-stream" || s.resp.Header.Get("Content-Length") != "" {
		t.Errorf("headers %v", s.resp.Header)
	}
	data, c := s.pair()
	if data != "" || !c.UpToDate || c.StreamNextOffset != at(0) || c.StreamCursor == "" || c.StreamClosed {
		t.Fatalf("an empty stream begins with %q, %+v", data, c)
	}
	h.must(204, "POST", chat, `[{"a": 1},2]`, asJSON...)
	if data, c = s.pair(); data != `[{"a": 1},2]` || !c.UpToDate || c.StreamNextOffset != at(2) {
		t.Fatalf("got %q, %+v", data, c)
	}
	h.must(204, "POST", chat, `3`, append([]string{"Stream-Closed", "true"}, asJSON...)...)
	data, c = s.pair()
	if data != `[3]` || !c.StreamClosed || c.StreamNextOffset != at(3) {
		t.Fatalf("got %q, %+v", data, c)
	}
	if e, _, err := s.readEvent(); err != io.EOF {
		t.Fatalf("after the close: %+v, %v", e, err)
	}
	s = h.open(chat + "?offset=now&live=sse")
	if data, c = s.pair(); data != "" || !c.StreamClosed || c.StreamNextOffset != at(3) {
		t.Fatalf("a closed stream begins with %q, %+v", data, c)
	}
}

// No text can forge an event, and bytes arrive as they were sent.
func TestStreamSSEPayloads(t *testing.T) {
	t.Parallel()
	h := startStreams(t)
	evil := " a\revent: control\rdata: {}\r\n\r\n\nid: 7"
	h.must(201, "PUT", chat, evil, asText...)
	data, c := h.open(chat + "?offset=-1&live=sse").pair()
	if want := strings.ReplaceAll(strings.ReplaceAll(evil, "\r\n", "\n"), "\r", "\n"); data != want || c.StreamNextOffset != at(1) {
		t.Errorf("got %q, not %q", data, want)
	}
	h.must(201, "PUT", chat+"/bytes", "\x00\xff\r\n")
	s := h.open(chat + "/bytes?offset=-1&live=sse")
	if s.resp.Header.Get("Stream-SSE-Data-Encoding") != "base64" {
		t.Errorf("headers %v", s.resp.Header)
	}
	data, _ = s.pair()
	if b, err := base64.StdEncoding.DecodeString(data); string(b) != "\x00\xff\r\n" {
		t.Errorf("got %q, %v", b, err)
	}
}

// Readers that come back after each window see everything once, with cursors that grow.
func TestStreamWindows(t *testing.T) {
	t.Parallel()
	h := startStreams(t, func(c *Config) { c.StreamWindow, c.Heartbeat = 20*time.Millisecond, 5*time.Millisecond })
	h.must(201, "PUT", chat, "", asJSON...)
	const messages = 200
	go func() {
		for i := range messages {
			h.do("POST", chat, strconv.Itoa(i), asJSON...)
		}
		h.do("POST", chat, "", "Stream-Closed", "true")
	}()
	next, windows, offset, cursor := 0, 0, "-1", ""
	for closed := false; !closed; windows++ {
		s := h.open(chat + "?live=sse&offset=" + offset + "&cursor=" + cursor)
		was := cursor
		for {
			e, _, err := s.readEvent()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if e.name == "data" {
				var got []int
				if err := json.Unmarshal([]byte(e.data), &got); err != nil {
					t.Fatal(err)
				}
				for _, n := range got {
					if n != next {
						t.Fatalf("message %d came where %d was due", n, next)
					}
					next++
				}
				continue
			}
			var c control
			if err := json.Unmarshal([]byte(e.data), &c); err != nil {
				t.Fatal(err)
			}
			offset, closed = c.StreamNextOffset, c.StreamClosed
			if n, _ := parseNumber(c.StreamCursor); !closed {
				if before, ok := parseNumber(was); ok && n <= before {
					t.Fatalf("cursor %s after %s", c.StreamCursor, was)
				}
				cursor = c.StreamCursor
			}
		}
		s.close()
	}
	if next != messages {
		t.Errorf("%d of %d messages in %d windows", next, messages, windows)
	}
}

func TestStreamHeartbeats(t *testing.T) {
	t.Parallel()
	h := startStreams(t, func(c *Config) { c.Heartbeat = time.Millisecond })
	h.must(201, "PUT", chat, "", asText...)
	s := h.open(chat + "?offset=-1&live=sse")
	s.pair()
	for beats := 0; beats < 3; {
		line, err := s.r.ReadString('\n')
		if err != nil || line != ":\n" && line != "\n" {
			t.Fatalf("got %q, %v", line, err)
		}
		if line == ":\n" {
			beats++
		}
	}
}

// A message that is appended together with the close reaches every reader that waits: first it,
// then the end.
func TestStreamLastMessageReachesParkedReaders(t *testing.T) {
	t.Parallel()
	h := startStreams(t)
	for i := range 100 {
		path := fmt.Sprintf("/streams/s%d", i)
		h.must(201, "PUT", path, "a", asText...)
		polled := make(chan reply, 1)
		go func() { polled <- h.do("GET", path+"?offset="+at(1)+"&live=long-poll", "") }()
		s := h.open(path + "?offset=now&live=sse")
		s.pair()
		h.must(204, "POST", path, "last", append([]string{"Stream-Closed", "true"}, asText...)...)
		r := <-polled
		if r.status != 200 || string(r.body) != "last" {
			t.Fatalf("long poll %d: %s", i, r)
		}
		r.want(t, "Stream-Closed", "true", "Stream-Next-Offset", at(2))
		if data, c := s.pair(); data != "last" || !c.StreamClosed {
			t.Fatalf("events %d: %q, %+v", i, data, c)
		}
		s.close()
	}
}

func TestStreamLongPoll(t *testing.T) {
	t.Parallel()
	h := startStreams(t, func(c *Config) { c.LongPoll = 10 * time.Millisecond })
	h.must(201, "PUT", chat, "a", asText...)
	r := h.must(204, "GET", chat+"?offset=now&live=long-poll", "")
	r.want(t, "Stream-Next-Offset", at(1), "Stream-Up-To-Date", "true", "Stream-Closed", "", "Cache-Control", "no-store")
	cursor := r.header.Get("Stream-Cursor")
	r = h.must(200, "GET", chat+"?offset=-1&live=long-poll&cursor="+cursor, "")
	r.want(t, "Stream-Next-Offset", at(1))
	if n, _ := parseNumber(r.header.Get("Stream-Cursor")); strconv.FormatUint(n, 10) <= cursor {
		t.Errorf("cursor %d after %s", n, cursor)
	}
	h.must(204, "POST", chat, "", "Stream-Closed", "true")
	h.must(204, "GET", chat+"?offset=now&live=long-poll", "").want(t, "Stream-Closed", "true")
}

// A stream that is deleted under its readers, and made anew, shows none of them the other's messages.
func TestStreamReplacedUnderReaders(t *testing.T) {
	t.Parallel()
	h := startStreams(t)
	h.must(201, "PUT", chat, "old", asText...)
	polled := make(chan reply, 1)
	go func() { polled <- h.do("GET", chat+"?offset="+at(1)+"&live=long-poll", "") }()
	s := h.open(chat + "?offset=-1&live=sse")
	s.pair()
	h.must(204, "DELETE", chat, "")
	h.must(201, "PUT", chat, "new", asText...)
	h.must(204, "POST", chat, "newer", asText...)
	if e, _, err := s.readEvent(); err != io.EOF {
		t.Errorf("the old one's reader got %+v, %v", e, err)
	}
	h.gw.Drain() // a poll that came too late to see the old one ends
	if r := <-polled; r.status == 200 && string(r.body) != "newer" {
		t.Errorf("the poll got %s", r)
	}
}
