package gateway

import (
	"bytes"
	"context"
	"flag"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/runlog/runlog/docs"
)

var update = flag.Bool("update", false, "rewrite docs/openapi.json from docs/openapi.yaml")

func loadOpenAPI(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		t.Fatal(err)
	}
	return doc
}

// The served document is the YAML.
func TestOpenAPIJSON(t *testing.T) {
	doc := loadOpenAPI(t)
	want, err := doc.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("../docs/openapi.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(want, docs.OpenAPI) {
		t.Error("docs/openapi.json is not docs/openapi.yaml: run `go test ./gateway -run OpenAPI -update`")
	}
	if r := start(t).must(200, "GET", "/openapi.json", ""); !bytes.Equal(r.body, docs.OpenAPI) {
		t.Error("another document is served")
	}
}

// Every route is described, everything described is a route, and every code is listed.
func TestOpenAPIDescribesEveryRoute(t *testing.T) {
	t.Parallel()
	doc := loadOpenAPI(t)
	var described, served []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			described = append(described, method+" "+path)
		}
	}
	param := regexp.MustCompile(`[:*](\w+)`)
	h, _ := startMachine(t)
	for _, r := range h.gw.routes() {
		served = append(served, r.method+" "+param.ReplaceAllString(r.path, "{$1}"))
	}
	slices.Sort(described)
	slices.Sort(served)
	if !slices.Equal(described, served) {
		t.Errorf("described:\n%s\nserved:\n%s", strings.Join(described, "\n"), strings.Join(served, "\n"))
	}
	listed := doc.Components.Schemas["Problem"].Value.Properties["code"].Value.Enum
	for code := range problems {
		if !slices.Contains(listed, any(code)) {
			t.Errorf("code %s is not listed", code)
		}
	}
	if len(listed) != len(problems) {
		t.Errorf("%d codes are listed, there are %d", len(listed), len(problems))
	}
}

// conformance checks requests and answers against the document.
type conformance struct {
	h      *harness
	router routers.Router
	seen   map[string]bool // operation ids that answered without a problem
}

// check sends a request and validates its answer, and, unless it is meant to be wrong, itself.
func (c *conformance) check(status int, method, path, body string, headers ...string) {
	t := c.h.t
	t.Helper()
	r := c.h.must(status, method, path, body, headers...)
	req, err := http.NewRequest(method, c.h.srv.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	req.URL.Scheme, req.URL.Host, req.Host = "", "", "" // the document's server is "/"
	if body != "" && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	route, params, err := c.router.FindRoute(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	in := &openapi3filter.RequestValidationInput{
		Request: req, PathParams: params, Route: route,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	if status < 400 {
		if err := openapi3filter.ValidateRequest(context.Background(), in); err != nil {
			t.Errorf("%s %s: request: %v", method, path, err)
		}
		c.seen[route.Operation.OperationID] = true
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: r.status, Header: r.header, Options: in.Options}
	out.SetBodyBytes(r.body)
	if err := openapi3filter.ValidateResponse(context.Background(), out); err != nil {
		t.Errorf("%s %s: answer %s: %v", method, path, r, err)
	}
}

// The running gateway does what the document says, in every operation.
func TestOpenAPIConformance(t *testing.T) {
	for _, ct := range []string{"application/x-ndjson", "text/event-stream", "application/octet-stream"} {
		openapi3filter.RegisterBodyDecoder(ct, openapi3filter.PlainBodyDecoder)
	}
	doc := loadOpenAPI(t)
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	c := &conformance{start(t), router, map[string]bool{}}
	c.service()
	c.runs()
	c.events()
	c.leases()
	c.streams()
	c.threads()
	c.failures()
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if !c.seen[op.OperationID] {
				t.Errorf("%s %s was not covered", method, path)
			}
		}
	}
}

func (c *conformance) service() {
	for _, path := range []string{"/", "/openapi.json", "/healthz", "/readyz", "/metrics", "/v1/cluster"} {
		c.check(200, "GET", path, "")
	}
	c.check(204, "POST", "/v1/cluster/transfer-leadership", "{}")
	c.check(200, "POST", "/v1/cluster/nodes", `{"id":"n4","raft":"127.0.0.1:5440"}`)
	c.check(409, "POST", "/v1/cluster/nodes", `{"id":"stranger","raft":"127.0.0.1:5440"}`)
	c.check(400, "POST", "/v1/cluster/nodes", `{"id":"n4"}`)
	c.check(204, "DELETE", "/v1/cluster/nodes/n4", "")
	c.check(409, "DELETE", "/v1/cluster/nodes/n1", "")
	c.check(200, "GET", "/v1/backup", "", "Accept", "application/octet-stream")
}

func (c *conformance) runs() {
	c.check(201, "POST", "/v1/runs", "{}")
	c.check(201, "POST", "/v1/runs", `{"runId":"r","threadId":"t","parentRunId":"p","holder":"h","leaseMs":5000,"takeoverMs":0,
		"input":{"threadId":"t","runId":"r","messages":[]},"metadata":{"a":1},"started":true,"onBusy":"allow","grammar":"strict"}`, "Idempotency-Key", "k")
	c.check(201, "POST", "/v1/runs", `{"runId":"null","holder":null,"onBusy":null,"grammar":null,"input":null}`)
	c.check(200, "POST", "/v1/runs", `{"runId":"r","threadId":"t"}`)
	c.check(200, "GET", "/v1/runs?limit=1&status=running&order=asc", "")
	c.check(200, "GET", "/v1/runs/r?minOffset=1&consistency=linearizable", "")
	c.check(200, "PATCH", "/v1/runs/r", `{"metadata":{"b":[1]}}`, "Run-Epoch", "1")
	c.check(200, "POST", "/v1/runs/gone/events", "["+started()+","+finished()+"]")
	c.check(200, "GET", "/v1/runs/gone", "")
	c.check(204, "DELETE", "/v1/runs/gone", "")
}

func (c *conformance) events() {
	const events = "/v1/runs/r/events"
	c.check(200, "POST", events, custom(1), "Run-Epoch", "1", "Expected-Offset", "1", "Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", "0")
	c.check(200, "POST", events, custom(1), "Run-Epoch", "1", "Expected-Offset", "1", "Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", "0")
	c.check(200, "POST", events, custom(2)+"\n"+custom(3), "Run-Epoch", "1", "Content-Type", "application/x-ndjson")
	c.check(200, "POST", events, `[{"type":"TEXT_MESSAGE_START","messageId":"m"},{"type":"TEXT_MESSAGE_END","messageId":"m"},
		{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"n","parentMessageId":"m"},{"type":"TOOL_CALL_END","toolCallId":"c"},
		{"type":"TOOL_CALL_RESULT","toolCallId":"c","messageId":"cr","content":"done"}]`, "Run-Epoch", "1")
	c.check(200, "GET", events+"?from=1&limit=2&waitMs=5", "")
	c.check(200, "GET", events+"?live=false&envelope=true", "", "Accept", "application/x-ndjson")
	c.check(200, "GET", events+"?live=false&after=0", "", "Accept", "text/event-stream")
	c.check(200, "GET", events+"?live=false&join=snapshot&scope=run", "", "Accept", "text/event-stream")
	for _, p := range []string{"transcript", "tools", "state"} {
		c.check(200, "GET", "/v1/runs/r/"+p+"?at=8", "")
		c.check(304, "GET", "/v1/runs/r/"+p+"?at=8", "", "If-None-Match", "*")
	}
	c.check(200, "POST", events, `{"type":"RUN_FINISHED","outcome":{"type":"success"},"usage":[],"result":7}`, "Run-Epoch", "1")
	c.check(204, "GET", events+"?from=10", "", "Accept", "text/event-stream")
	c.check(200, "GET", "/v1/runs/r", "")
}

func (c *conformance) threads() {
	c.check(200, "POST", "/v1/runs/talk/events", startIn("talk")+"\n"+said("m1", "hi")+"\n"+finished())
	for _, path := range []string{"?messages=1&limit=1&head=talk", "", "/transcript?head=talk", "/envelope?maxChars=1000&format=text", "/envelope"} {
		c.check(200, "GET", "/v1/threads/talk"+path, "")
	}
	c.check(200, "GET", "/v1/threads/t", "")
	c.check(200, "GET", "/v1/threads?prefix=t&limit=2", "")
	c.check(200, "GET", "/v1/threads/talk/events?after=0.1&live=false", "", "Last-Event-ID", "0.2")
	c.check(200, "POST", "/v1/threads/talk/connect", `{"threadId":"talk","runId":"x","messages":[{"id":"m1"}]}`)
	c.check(204, "DELETE", "/v1/threads/talk", "")
	c.check(200, "GET", "/v1/changes?from=0&limit=3&waitMs=1", "")
	c.check(200, "GET", "/v1/changes?live=false&after=0", "", "Accept", "text/event-stream")
	c.check(400, "GET", "/v1/threads/talk/events?after=x", "")
	c.check(404, "GET", "/v1/threads/talk?head=none", "")
	c.check(409, "DELETE", "/v1/threads/null", "")
	c.check(416, "GET", "/v1/changes?from=99", "")
}

func (c *conformance) failures() {
	c.check(400, "POST", "/v1/runs", `{"runId":7}`)
	c.check(409, "POST", "/v1/runs", `{"runId":"r","threadId":"other"}`)
	c.check(400, "GET", "/v1/runs?cursor=x", "")
	c.check(404, "GET", "/v1/runs/none", "")
	c.check(410, "GET", "/v1/runs/gone", "")
	c.check(409, "PATCH", "/v1/runs/r", `{"metadata":{}}`, "Run-Epoch", "9")
	c.check(404, "DELETE", "/v1/runs/none", "")
	c.check(409, "POST", "/v1/runs/r/events", custom(1), "Run-Epoch", "1")
	c.check(428, "POST", "/v1/runs/r/events", custom(1))
	c.check(422, "POST", "/v1/runs/r/events", "x", "Content-Type", "text/plain")
	c.check(416, "GET", "/v1/runs/r/events?from=99", "")
	c.check(416, "GET", "/v1/runs/r/transcript?at=99", "")
	c.h.node.loseLeader()
	c.check(503, "POST", "/v1/cluster/transfer-leadership", "")
	c.check(503, "GET", "/readyz", "")
	c.check(503, "POST", "/v1/runs/r/events", custom(1))
}
