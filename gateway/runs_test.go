package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"
)

func TestCreateRun(t *testing.T) {
	t.Parallel()
	h := start(t)
	r := h.must(201, "POST", "/v1/runs", `{"runId":"r","threadId":"t","parentRunId":"p","metadata":{"n":12345678901234567890},"input":{"x": "\ud83d"},"unknown":[1]}`)
	for name, want := range map[string]any{
		"runId": "r", "threadId": "t", "parentRunId": "p", "created": true, "tail": 1.0, "epoch": 0.0, "status": "running",
		"ended": false, "lease": nil, "takeoverMs": nil, "grammar": "strict",
	} {
		if got := r.json(t, name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if !strings.Contains(string(r.body), `"metadata":{"n":12345678901234567890}`) {
		t.Errorf("metadata of %s", r)
	}
	if r.header.Get("Location") != "/v1/runs/r" || r.header.Get("Runlog-Token") == "" {
		t.Errorf("headers %v", r.header)
	}
	p := h.readPage("/v1/runs/r/events")
	if got := string(p.Events[0].Event); got != `{"type":"RUN_STARTED","threadId":"t","runId":"r","parentRunId":"p","input":{"x": "\ud83d"}}` {
		t.Errorf("RUN_STARTED is %s", got)
	}
	if r := h.must(200, "POST", "/v1/runs", `{"runId":"r","threadId":"t"}`); r.json(t, "created") != false || r.json(t, "tail") != 1.0 {
		t.Errorf("again: %s", r)
	}
	r = h.problem(409, "run_exists", "POST", "/v1/runs", `{"runId":"r","threadId":"other"}`)
	if run, _ := r.json(t, "run").(map[string]any); run["threadId"] != "t" {
		t.Errorf("run of %s", r)
	}
	r = h.problem(409, "thread_busy", "POST", "/v1/runs", `{"threadId":"t","onBusy":"reject"}`)
	if r.json(t, "activeRunId") != "r" {
		t.Errorf("activeRunId of %s", r)
	}
	h.must(201, "POST", "/v1/runs", `{"threadId":"t","onBusy":"allow"}`)
}

func TestCreateRunDefaults(t *testing.T) {
	t.Parallel()
	h := start(t)
	ids := map[any]bool{}
	for _, body := range []string{"", "{}", " {} ", `{"runId":null,"holder":null}`} {
		r := h.must(201, "POST", "/v1/runs", body)
		id, _ := r.json(t, "runId").(string)
		if _, err := ulid.ParseStrict(id); err != nil || ids[id] || r.json(t, "threadId") != id {
			t.Errorf("%q: %s", body, r)
		}
		ids[id] = true
	}
	r := h.must(201, "POST", "/v1/runs", `{"runId":"quiet","started":false,"grammar":"lenient"}`)
	if r.json(t, "tail") != 0.0 || r.json(t, "grammar") != "lenient" || r.json(t, "status") != "running" {
		t.Errorf("not started: %s", r)
	}
	r = h.must(201, "POST", "/v1/runs", `{"runId":"leased","holder":"h"}`)
	lease, _ := r.json(t, "lease").(map[string]any)
	if r.json(t, "epoch") != 1.0 || lease["holder"] != "h" || lease["leaseMs"] != 15000.0 || lease["state"] != "held" || r.json(t, "takeoverMs") != 0.0 {
		t.Errorf("leased: %s", r)
	}
	if r := h.must(200, "POST", "/v1/runs", `{"runId":"leased","holder":"h","leaseMs":600000}`); r.json(t, "epoch") != 2.0 || r.json(t, "created") != false {
		t.Errorf("acquired again: %s", r)
	}
	h.problem(409, "lease_held", "POST", "/v1/runs", `{"runId":"leased","holder":"other"}`)
}

// A request with an Idempotency-Key names the same run each time, on whichever node.
func TestCreateRunRepeated(t *testing.T) {
	t.Parallel()
	h, other := start(t), start(t)
	r := h.must(201, "POST", "/v1/runs", "", "Idempotency-Key", "k")
	again := h.must(201, "POST", "/v1/runs", "", "Idempotency-Key", "k")
	elsewhere := other.must(201, "POST", "/v1/runs", "", "Idempotency-Key", "k")
	id := r.json(t, "runId")
	if again.json(t, "runId") != id || elsewhere.json(t, "runId") != id || again.json(t, "tail") != 1.0 {
		t.Errorf("%s, %s, %s", r, again, elsewhere)
	}
	if _, err := ulid.ParseStrict(id.(string)); err != nil {
		t.Errorf("id %v: %v", id, err)
	}
	if h.must(201, "POST", "/v1/runs", "", "Idempotency-Key", "k2").json(t, "runId") == id {
		t.Error("another key named the same run")
	}
	leased := `{"runId":"l","holder":"h"}`
	if e := h.must(201, "POST", "/v1/runs", leased, "Idempotency-Key", "k").json(t, "epoch"); e != 1.0 {
		t.Errorf("epoch %v", e)
	}
	if e := h.must(201, "POST", "/v1/runs", leased, "Idempotency-Key", "k").json(t, "epoch"); e != 1.0 {
		t.Errorf("repeated: epoch %v", e)
	}
}

func TestCreateRunBadInput(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, c := range []struct {
		body, name string
		headers    []string
	}{
		{body: "hello"}, {body: "[]"}, {body: "null"}, {body: `"x"`}, {body: `{"runId":"a"`}, {body: "{}{}"}, {body: "{\"runId\":\"\xff\"}"},
		{`{"runId":7}`, "runId", nil}, {`{"runId":""}`, "runId", nil}, {`{"runId":"a\nb"}`, "runId", nil}, {`{"runId":"a\u0000"}`, "runId", nil}, {`{"runId":".."}`, "runId", nil},
		{`{"runId":"` + strings.Repeat("x", 257) + `"}`, "runId", nil},
		{`{"runId":"a\ud83d"}`, "runId", nil}, {`{"threadId":"\ude80"}`, "threadId", nil}, {`{"holder":"\ud83d\ud83d"}`, "holder", nil}, {`{"parentRunId":"\ud83dx"}`, "parentRunId", nil},
		{`{"threadId":{}}`, "threadId", nil}, {`{"parentRunId":[]}`, "parentRunId", nil}, {`{"holder":true}`, "holder", nil},
		{`{"holder":"h","leaseMs":"5000"}`, "leaseMs", nil}, {`{"holder":"h","leaseMs":999}`, "leaseMs", nil}, {`{"holder":"h","leaseMs":600001}`, "leaseMs", nil},
		{`{"holder":"h","leaseMs":5000.5}`, "leaseMs", nil}, {`{"holder":"h","leaseMs":5e3}`, "leaseMs", nil}, {`{"holder":"h","leaseMs":99999999999999999999}`, "leaseMs", nil},
		{`{"leaseMs":5000}`, "leaseMs", nil},
		{`{"takeoverMs":-1}`, "takeoverMs", nil}, {`{"takeoverMs":86400001}`, "takeoverMs", nil}, {`{"takeoverMs":false}`, "takeoverMs", nil},
		{`{"input":"text"}`, "input", nil}, {`{"input":[]}`, "input", nil}, {`{"input":{},"started":false}`, "input", nil},
		{`{"input":{"deep":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}}`, "input", nil},
		{body: strings.Repeat("[", 1<<19)}, {body: `{"metadata":{"x":` + strings.Repeat("[", 1<<19)},
		{`{"metadata":[1]}`, "metadata", nil}, {`{"started":"yes"}`, "started", nil}, {`{"onBusy":"wait"}`, "onBusy", nil}, {`{"onBusy":1}`, "onBusy", nil},
		{`{"grammar":"loose"}`, "grammar", nil},
		{"{}", "Idempotency-Key", []string{"Idempotency-Key", ""}},
		{"{}", "Idempotency-Key", []string{"Idempotency-Key", "a", "Idempotency-Key", "b"}},
		{"{}", "Idempotency-Key", []string{"Idempotency-Key", strings.Repeat("x", 257)}},
	} {
		r := h.problem(400, "bad_request", "POST", "/v1/runs", c.body, c.headers...)
		name, _ := r.json(t, "name").(string)
		if name != c.name {
			t.Errorf("%.60s: names %q, want %q: %s", c.body, name, c.name, r)
		}
		if len(h.node.order) > 0 {
			t.Fatalf("%.60s: left a run", c.body)
		}
	}
	h.problem(413, "too_large", "POST", "/v1/runs", `{"input":{"x":"`+strings.Repeat("x", 1<<20)+`"}}`)
	h.problem(413, "too_large", "POST", "/v1/runs", `{"input":{"x":"`+strings.Repeat("x", 1<<20-20)+`"}}`)
}

func TestPatchRun(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.must(201, "POST", "/v1/runs", `{"runId":"r","metadata":{"a":1,"b":{"c":2}}}`)
	r := h.must(200, "PATCH", "/v1/runs/r", `{"metadata":{"a":null,"b":{"d":12345678901234567890}}}`)
	if want := `"metadata":{"b":{"c":2,"d":12345678901234567890}}`; !strings.Contains(string(r.body), want) {
		t.Errorf("want %s in %s", want, r)
	}
	if r.header.Get("Runlog-Token") == "" {
		t.Error("no token")
	}
	h.problem(409, "fenced", "PATCH", "/v1/runs/r", `{"metadata":{}}`, "Run-Epoch", "3")
	h.problem(404, "run_not_found", "PATCH", "/v1/runs/none", `{"metadata":{}}`)
	for _, body := range []string{"", "{}", `{"metadata":null}`, `{"metadata":[]}`, `{"metadata":1}`, "[]", "x"} {
		h.problem(400, "bad_request", "PATCH", "/v1/runs/r", body)
	}
	if r := h.do("PATCH", "/v1/runs/r", `{"metadata":null}`); !strings.Contains(string(r.body), "must be an object") {
		t.Errorf("null: %s", r)
	}
	for _, id := range []string{"%ED%A0%BD", "%FF", "a%C3"} { // an encoded surrogate, and what is no UTF-8
		h.problem(400, "bad_request", "GET", "/v1/runs/"+id, "")
		h.problem(400, "bad_request", "GET", "/v1/runs?threadId="+id, "")
	}
}

func TestDeleteRun(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.run("r")
	h.problem(409, "run_active", "DELETE", "/v1/runs/r", "")
	h.append("r", finished())
	if r := h.must(204, "DELETE", "/v1/runs/r", ""); r.header.Get("Runlog-Token") == "" || len(r.body) > 0 {
		t.Errorf("answer %v %s", r.header, r)
	}
	h.problem(410, "run_deleted", "GET", "/v1/runs/r", "")
	h.problem(410, "run_deleted", "POST", "/v1/runs", `{"runId":"r"}`)
	h.problem(404, "run_not_found", "DELETE", "/v1/runs/none", "")
}

// An ended run that is found by a create comes with what its terminal event says.
func TestCreateFindsAnEndedRun(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.run("r", `{"type":"RUN_ERROR","message":"broke <here>","code":"c"}`)
	r := h.must(200, "POST", "/v1/runs", `{"runId":"r"}`)
	if !strings.Contains(string(r.body), `"error":{"message":"broke <here>","code":"c"}`) || r.json(t, "status") != "failed" {
		t.Errorf("answer %s", r)
	}
}

func TestListRuns(t *testing.T) {
	t.Parallel()
	h := start(t)
	if got := string(h.must(200, "GET", "/v1/runs", "").body); got != `{"runs":[]}` {
		t.Errorf("empty: %s", got)
	}
	for i := range 5 {
		h.run(fmt.Sprintf("r%d", i))
	}
	var ids []string
	for cursor := ""; ; {
		var page struct {
			Runs []struct {
				RunID string
				Open  json.RawMessage
			}
			NextCursor string
		}
		if err := json.Unmarshal(h.must(200, "GET", "/v1/runs?limit=2&status=running&cursor="+cursor, "").body, &page); err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Runs {
			if ids = append(ids, r.RunID); r.Open != nil {
				t.Error("a listed run has open")
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if strings.Join(ids, ",") != "r4,r3,r2,r1,r0" {
		t.Errorf("listed %v", ids)
	}
	for _, query := range []string{
		"status=done", "lease=live", "order=up", "limit=0", "limit=1001", "limit=x", "expiresWithinMs=-1", "holder=", "holder=a%00", "threadId=..",
		"prefix=" + strings.Repeat("x", 257), "cursor=nonsense", "minOffset=1", "limit=1&limit=2",
	} {
		h.problem(400, "bad_request", "GET", "/v1/runs?"+query, "")
	}
}

func TestGetRun(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.run("r", `{"type":"TEXT_MESSAGE_START","messageId":"m"}`, `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"n"}`)
	r := h.must(200, "GET", "/v1/runs/r", "")
	if !strings.Contains(string(r.body), `"open":{"messages":["m"],"toolCalls":["c"]}`) {
		t.Errorf("open of %s", r)
	}
	if r := h.must(200, "GET", "/v1/runs/r?at=1", ""); r.json(t, "tail") != 1.0 {
		t.Errorf("at 1: %s", r)
	}
	h.problem(416, "offset_out_of_range", "GET", "/v1/runs/r?at=9", "")
	h.problem(400, "bad_request", "GET", "/v1/runs/r?at=-1", "")
}
