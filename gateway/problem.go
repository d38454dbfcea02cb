package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/raftlog"
)

// The codes of problems that are not refusals of the state machine.
const (
	codeBadRequest       = "bad_request"
	codeNotFound         = "not_found"
	codeMethodNotAllowed = "method_not_allowed"
	codeUnsupported      = "unsupported_media_type"
	codeOverloaded       = "overloaded"
	codeUnavailable      = "unavailable"
	codeOutcomeUnknown   = "outcome_unknown"
	codeInternal         = "internal"
	codeChangesGone      = "changes_gone"

	codeStreamNameTaken = "stream_name_taken"
	codeForkSourceGone  = "fork_source_gone"
	codeUpgrading       = "upgrade_pending"
)

// problemKind is what every problem of one code has in common.
type problemKind struct {
	status int
	title  string
	// detail is said when the error itself has nothing fit for a client.
	detail string
	// retry adds Retry-After: the same request may succeed soon, and was not carried out.
	retry bool
}

// problems is the one table from code to answer (RFC 9457). Each code of event.RefusalCodes is in it.
var problems = map[string]problemKind{
	event.CodeRunNotFound:         {status: 404, title: "No such run"},
	event.CodeRunDeleted:          {status: 410, title: "The run was deleted"},
	event.CodeEpochRequired:       {status: 428, title: "Run-Epoch is required"},
	event.CodeFenced:              {status: 409, title: "Another writer holds the run"},
	event.CodeRunEnded:            {status: 409, title: "The run has ended"},
	event.CodeOffsetConflict:      {status: 409, title: "The tail is elsewhere"},
	event.CodeProducerGap:         {status: 409, title: "A sequence number was skipped"},
	event.CodeProducerFenced:      {status: 403, title: "The producer has a higher epoch"},
	event.CodeProducerConflict:    {status: 409, title: "The sequence number was used for another body"},
	event.CodeTooManyProducers:    {status: 429, title: "Too many producers", retry: true},
	event.CodeInvalidEvent:        {status: 422, title: "An event is not acceptable"},
	event.CodeRunExists:           {status: 409, title: "The run exists"},
	event.CodeThreadBusy:          {status: 409, title: "The thread has an open run"},
	event.CodeLeaseHeld:           {status: 409, title: "The lease is held"},
	event.CodeRunActive:           {status: 409, title: "The run has not ended"},
	event.CodeDiverged:            {status: 409, title: "The replay differs from the log"},
	event.CodeStaleVerdict:        {status: 409, title: "The run moved on"}, // of the lessor's proposals: no client's
	event.CodeInterruptNotPending: {status: 409, title: "The interrupt was answered"},
	event.CodeTooLarge:            {status: 413, title: "Too large"},
	event.CodeOffsetOutOfRange:    {status: 416, title: "Beyond the tail"},

	event.CodeStreamNotFound:      {status: 404, title: "No such stream"},
	event.CodeStreamGone:          {status: 410, title: "The stream was deleted"},
	event.CodeStreamExists:        {status: 409, title: "The stream exists"},
	event.CodeStreamClosed:        {status: 409, title: "The stream is closed"},
	event.CodeContentTypeConflict: {status: 409, title: "The stream has another content type"},
	event.CodeStreamSeqConflict:   {status: 409, title: "Stream-Seq is not larger than the last"},
	event.CodeProducerReset:       {status: 400, title: "A new epoch begins with sequence number 0"},
	event.CodeForkSource:          {status: 404, title: "There is nothing to fork"},
	event.CodeForkOffset:          {status: 400, title: "The fork's offset is beyond its source"},

	event.CodeSubscriptionNotFound: {status: 404, title: "No such subscription"},
	event.CodeSubscriptionExists:   {status: 409, title: "The subscription exists"},
	event.CodeWakeFenced:           {status: 409, title: "The wake is over"},
	event.CodeWakeClaimed:          {status: 409, title: "The wake is held"},
	event.CodeNothingPending:       {status: 409, title: "Nothing is pending"},
	event.CodeBadAck:               {status: 409, title: "The acknowledgement cannot be"},
	event.CodeTooManySubscriptions: {status: 429, title: "Too many subscriptions"},

	codeStreamNameTaken: {status: 409, title: "The name is taken", detail: "the stream of this name was deleted while forks read it; the name is free once they are gone"},
	codeForkSourceGone:  {status: 409, title: "The fork's source was deleted", detail: "the stream to fork was deleted; only the forks that it had still read it"},

	codeBadRequest:       {status: 400, title: "The request cannot be understood"},
	codeNotFound:         {status: 404, title: "No such resource", detail: "nothing is served at this path"},
	codeMethodNotAllowed: {status: 405, title: "Method not allowed", detail: "this path does not take this method; see Allow"},
	codeUnsupported:      {status: 415, title: "Unsupported encoding", detail: "the body must be sent without a Content-Encoding"},
	codeOverloaded:       {status: 429, title: "Too much at once", detail: "too much is waiting already; nothing was done", retry: true},
	codeUnavailable:      {status: 503, title: "Not available now", detail: "no leader could be asked, or this node is too far behind; nothing was written", retry: true},
	codeOutcomeUnknown: {status: 504, title: "The outcome is unknown", detail: "the request may or may not have been carried out; repeating it is safe " +
		"with the same producer headers, expected offset or Idempotency-Key"},
	codeChangesGone: {status: 410, title: "No longer kept"},
	codeUpgrading:   {status: 503, title: "An upgrade is under way", detail: "not every member of the cluster knows this operation yet; nothing was written", retry: true},

	raftlog.MemberNotFound: {status: 404, title: "No such member"},
	raftlog.MemberRefused:  {status: 409, title: "The cluster does not take the node"},
	raftlog.MemberAtRisk:   {status: 409, title: "The cluster needs the node"},

	codeInternal: {status: 500, title: "Internal error", detail: "something went wrong inside; it has been logged"},
}

// inputError says which part of a request cannot be understood, and why.
type inputError struct {
	In     string `json:"in"` // header, path, query or body
	Name   string `json:"name,omitempty"`
	Reason string `json:"-"`
}

// Error names the part and the reason, never the value.
func (e *inputError) Error() string {
	if e.Name == "" {
		return "the " + e.In + " " + e.Reason
	}
	return e.In + " " + e.Name + " " + e.Reason
}

// Conditions of this package that have an entry in the table.
var (
	errNoRoute     = errors.New("no such route")
	errNoMethod    = errors.New("no such method")
	errEncoding    = errors.New("the body has a Content-Encoding")
	errOverloaded  = errors.New("too many tails are open, or answers under way")
	errUnavailable = errors.New("this node is too far behind")

	errNameTaken      = errors.New("the name belongs to a deleted stream with forks")
	errForkSourceGone = errors.New("the source of the fork was deleted")
)

// problem is one answer: its code and what the table does not say.
type problem struct {
	code   string
	detail string
	fields any // its JSON members join the answer's; nil: none
}

// problemOf finds the problem that tells err to a client.
func problemOf(err error) problem {
	var refusal event.Refusal
	var input *inputError
	var tooLong *http.MaxBytesError
	var beyond *beyondThread
	var gone *changesGone
	var member *raftlog.MembershipError
	switch {
	case errors.As(err, &beyond):
		return problem{event.CodeOffsetOutOfRange, beyond.Error(), beyond.fields()}
	case errors.As(err, &gone):
		return problem{codeChangesGone, gone.Error(), gone}
	case errors.As(err, &member):
		return problem{member.Code, member.Reason, nil}
	case errors.As(err, &refusal):
		return problem{refusal.Code(), refusal.Error(), refusal}
	case errors.As(err, &input):
		return problem{codeBadRequest, input.Error(), input}
	case errors.Is(err, event.ErrBadCursor):
		input = &inputError{"query", "cursor", "is not one that a listing returned"}
		return problem{codeBadRequest, input.Error(), input}
	case errors.As(err, &tooLong):
		e := &event.TooLarge{What: "bytes in the body", Limit: int(tooLong.Limit)}
		return problem{e.Code(), e.Error(), e}
	}
	for _, c := range conditions {
		if errors.Is(err, c.err) {
			return problem{code: c.code}
		}
	}
	return problem{code: codeInternal}
}

var conditions = []struct {
	err  error
	code string
}{
	{raftlog.ErrOutcomeUnknown, codeOutcomeUnknown},
	{raftlog.ErrOverloaded, codeOverloaded},
	{raftlog.ErrUpgrading, codeUpgrading},
	{raftlog.ErrUnavailable, codeUnavailable},
	{raftlog.ErrClosed, codeUnavailable},
	{errUnavailable, codeUnavailable},
	{errOverloaded, codeOverloaded},
	{errNoRoute, codeNotFound},
	{errNoMethod, codeMethodNotAllowed},
	{errEncoding, codeUnsupported},
	{errNameTaken, codeStreamNameTaken},
	{errForkSourceGone, codeForkSourceGone},
	{context.DeadlineExceeded, codeUnavailable},
}

// writeProblem answers with the problem of err. An error that the table does not know is logged;
// nothing else is.
func (g *Gateway) writeProblem(c *gin.Context, err error) {
	p := problemOf(err)
	kind, known := problems[p.code]
	if !known { // a refusal newer than this table
		kind = problems[codeInternal]
		p = problem{code: codeInternal}
	}
	if p.code == codeInternal {
		g.log.Error("request failed", "method", c.Request.Method, "route", c.FullPath(), "error", err)
	}
	g.metrics.problems.WithLabelValues(p.code).Inc()
	h := c.Writer.Header()
	h["Content-Type"] = contentTypeProblem
	if kind.retry {
		h.Set("Retry-After", "1")
	}
	if errors.As(err, new(forbidden)) {
		kind.status = http.StatusForbidden
	}
	c.Writer.WriteHeader(kind.status)
	_, _ = c.Writer.Write(appendProblem(nil, p, kind))
}

// appendProblem appends the problem's JSON.
func appendProblem(dst []byte, p problem, kind problemKind) []byte {
	detail := p.detail
	if detail == "" {
		detail = kind.detail
	}
	dst = append(dst, `{"type":"urn:runlog:problem:`...)
	dst = append(dst, p.code...)
	dst = append(dst, `","title":`...)
	dst = appendString(dst, kind.title)
	dst = append(dst, `,"status":`...)
	dst = strconv.AppendInt(dst, int64(kind.status), 10)
	dst = append(dst, `,"detail":`...)
	dst = appendString(dst, detail)
	dst = append(dst, `,"code":`...)
	dst = appendString(dst, p.code)
	if fields, err := json.Marshal(p.fields); err == nil && len(fields) > 2 && fields[0] == '{' {
		dst = append(append(dst, ','), fields[1:len(fields)-1]...)
	}
	return append(dst, '}')
}

// bodyError turns what reading a request's body failed with into an error of the table.
func bodyError(err error) error {
	var tooLong *http.MaxBytesError
	if errors.As(err, &tooLong) {
		return err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return &inputError{"body", "", "ended before its announced length"}
	}
	return &inputError{"body", "", "could not be read to its end"}
}
