package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/raftlog"
)

// Every refusal has its place in the table, and its problem turns back into the same value.
func TestEveryRefusalHasAProblem(t *testing.T) {
	t.Parallel()
	for _, code := range event.RefusalCodes() {
		// Data that differs from the zero value, in whatever shape the refusal has.
		want, err := event.DecodeRefusal(code, []byte(`{"epoch":3,"currentEpoch":4,"terminalOffset":5,"expected":6,"tail":7,
			"expectedSeq":8,"receivedSeq":9,"producerEpoch":10,"currentProducerEpoch":11,"seq":12,"limit":13,"index":14,"reason":"r \"q\"",
			"run":{"runId":"r"},"activeRunId":"a","holder":"h","expiresInMs":15,"what":"w","offset":16,
			"interruptId":"i","interruptStatus":"resolved","byRunId":"b","stored":{"a":1},"replayed":{"a":2},"field":"a","hint":"h"}`))
		if err != nil {
			t.Fatal(err)
		}
		p := problemOf(fmt.Errorf("append run r: %w", want))
		kind, known := problems[p.code]
		if p.code != code || !known {
			t.Errorf("%s: problem %+v, in the table: %v", code, p, known)
			continue
		}
		raw := appendProblem(nil, p, kind)
		var base struct {
			Type, Title, Detail, Code string
			Status                    int
		}
		if err := json.Unmarshal(raw, &base); err != nil {
			t.Fatalf("%s: %v in %s", code, err, raw)
		}
		if base.Type != "urn:runlog:problem:"+code || base.Code != code || base.Title == "" || base.Detail != want.Error() || base.Status != kind.status {
			t.Errorf("%s: %s", code, raw)
		}
		got, err := event.DecodeRefusal(base.Code, raw)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: came back as %#v (%v), was %#v", code, got, err, want)
		}
	}
}

// The other codes, each reached by an error or by nothing but the fallback.
func TestOtherProblems(t *testing.T) {
	t.Parallel()
	errs := map[string]error{
		codeBadRequest:  &inputError{"query", "from", "is odd"},
		codeInternal:    errors.New("anything"),
		codeChangesGone: &changesGone{1, 2, 3},
	}
	for _, code := range []string{raftlog.MemberNotFound, raftlog.MemberRefused, raftlog.MemberAtRisk} {
		errs[code] = fmt.Errorf("wrapped: %w", &raftlog.MembershipError{Code: code, Reason: "why"})
	}
	for _, c := range conditions {
		errs[c.code] = fmt.Errorf("wrapped: %w", c.err)
	}
	refusals := map[string]bool{}
	for _, code := range event.RefusalCodes() {
		refusals[code] = true
	}
	for code, kind := range problems {
		if kind.title == "" || kind.status < 400 || kind.status > 599 {
			t.Errorf("%s: %+v", code, kind)
		}
		if refusals[code] {
			continue
		}
		err, ok := errs[code]
		if !ok {
			t.Errorf("%s: no error leads to it", code)
			continue
		}
		p := problemOf(err)
		if p.code != code || p.detail == "" && kind.detail == "" {
			t.Errorf("%v: %+v", err, p)
		}
	}
	if p := problemOf(&http.MaxBytesError{Limit: 5}); p.code != event.CodeTooLarge {
		t.Errorf("too many bytes: %+v", p)
	}
	if p := problemOf(context.DeadlineExceeded); p.code != codeUnavailable {
		t.Errorf("deadline: %+v", p)
	}
}

// Handlers never choose the status of a failure: only the table's writer and the readiness answer do.
func TestStatusesComeFromTheTable(t *testing.T) {
	t.Parallel()
	allowed := map[string]bool{"problem.go": true, "service.go": true, "control_problem.go": true}
	fset := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || allowed[name] {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && strings.HasPrefix(sel.Sel.Name, "Status") {
				switch sel.Sel.Name {
				case "StatusOK", "StatusCreated", "StatusAccepted", "StatusNoContent", "StatusNotModified", "Status", "StatusCode",
					"StatusLost", "StatusCancelled": // of a run
				default:
					t.Errorf("%s: %s", fset.Position(n.Pos()), sel.Sel.Name)
				}
			}
			return true
		})
	}
}

func TestUnknownRoutes(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, path := range []string{"/v2", "/v1/runs/r/nothing", "/v1/runs/", "/v1/runs/r/events/", "/v1//runs", "/v1/runs/r/events/../../x"} {
		h.problem(404, "not_found", "GET", path, "")
	}
	for path, methods := range map[string][]string{"/v1/runs": {"GET", "POST"}, "/v1/runs/r": {"DELETE", "GET", "PATCH"}, "/v1/cluster": {"GET"}} {
		r := h.problem(405, "method_not_allowed", "PUT", path, "x")
		for _, m := range methods {
			if !strings.Contains(r.header.Get("Allow"), m) {
				t.Errorf("%s: Allow %q lacks %s", path, r.header.Get("Allow"), m)
			}
		}
	}
}

// A handler that panics costs its own request, and tells nobody why.
func TestPanicIsAnswered(t *testing.T) {
	t.Parallel()
	h := start(t)
	e := h.gw.plain.(*gin.Engine)
	e.GET("/panic", h.gw.handle("panic", func(*gin.Context) error { panic("secret") }))
	r := h.problem(500, "internal", "GET", "/panic", "")
	if strings.Contains(string(r.body), "secret") {
		t.Errorf("answer %s", r)
	}
}

func TestAppendStringIsJSON(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "plain", `q"b\s`, "a/b", "é😀", "\u2028", "tab\t", "<&>", strconv.Itoa(1 << 40)} {
		var back string
		if err := json.Unmarshal(appendString(nil, s), &back); err != nil || back != s {
			t.Errorf("%q came back as %q (%v)", s, back, err)
		}
	}
}
