package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/runlog/runlog/event"
)

// Conditions of the cluster, as opposed to refusals. Match them with errors.Is; the error that is
// returned also wraps what was last seen.
var (
	// ErrUnavailable: no server took the request in time. Nothing was written.
	ErrUnavailable = errors.New("no server took the request")
	// ErrOutcomeUnknown: the request may have been carried out, or may still be, and repeating it
	// blindly could do it twice. Read to find out, or repeat it with what makes that harmless.
	ErrOutcomeUnknown = errors.New("the request may or may not have been carried out")
)

// Problem is an answer of a server that is neither a success nor a refusal that package event
// knows: RFC 9457's application/problem+json.
type Problem struct {
	Status int    `json:"status"`
	Code   string `json:"code"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
	// Raw is the whole answer, with whatever fields the code brings.
	Raw json.RawMessage `json:"-"`
}

// Error returns the detail, or what there is instead of it.
func (p *Problem) Error() string {
	switch {
	case p.Detail != "" && p.Code != "":
		return p.Code + ": " + p.Detail
	case p.Detail != "":
		return p.Detail
	case p.Title != "":
		return p.Title
	}
	return fmt.Sprintf("the server answered %d %s", p.Status, http.StatusText(p.Status))
}

// maxProblemBytes bounds what is read of a failure's body; a run_exists carries a whole run.
const maxProblemBytes = 4 << 20

// readProblem turns a response that is not a success into a refusal or a *Problem.
func readProblem(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblemBytes))
	if err != nil {
		return &Problem{Status: resp.StatusCode, Detail: "the answer was cut short: " + err.Error()}
	}
	return decodeProblem(resp.StatusCode, resp.Header.Get("Content-Type"), body)
}

func decodeProblem(status int, contentType string, body []byte) error {
	p := &Problem{Status: status}
	if !strings.Contains(contentType, "json") || json.Unmarshal(body, p) != nil {
		return &Problem{Status: status}
	}
	p.Status, p.Raw = status, body
	if refusal, err := event.DecodeRefusal(p.Code, body); err == nil {
		return refusal
	}
	return p
}
