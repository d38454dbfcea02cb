package gateway

import (
	"errors"
	"net/http"

	"github.com/runlog/runlog/event"
)

// controlError is an error of the control routes, which tell errors in the protocol's own form and
// words; problems is the table of all others.
type controlError struct {
	code    string // one of controlStatuses
	message string
	claimed *event.WakeClaimed // told with ALREADY_CLAIMED
}

// Error returns the message, which is fit for a client.
func (e *controlError) Error() string { return e.message }

func badControl(message string) error {
	return &controlError{code: "INVALID_REQUEST", message: message}
}

// controlStatuses is the one table from the protocol's codes to statuses.
var controlStatuses = map[string]int{
	"INVALID_REQUEST":             http.StatusBadRequest,
	"WEBHOOK_URL_REJECTED":        http.StatusBadRequest,
	"TOKEN_INVALID":               http.StatusUnauthorized,
	"TOKEN_EXPIRED":               http.StatusUnauthorized,
	"SUBSCRIPTION_NOT_FOUND":      http.StatusNotFound,
	"SUBSCRIPTION_ALREADY_EXISTS": http.StatusConflict,
	"FENCED":                      http.StatusConflict,
	"ALREADY_CLAIMED":             http.StatusConflict,
	"NO_PENDING_WORK":             http.StatusConflict,
	"INVALID_OFFSET":              http.StatusConflict,
}

// controlErrorOf is err in the protocol's form; nil: the protocol has none for it.
func controlErrorOf(err error) *controlError {
	var known *controlError
	if errors.As(err, &known) || err == nil {
		return known
	}
	for _, c := range []struct {
		err  error
		code string
	}{
		{errNoRoute, "SUBSCRIPTION_NOT_FOUND"},
		{event.ErrSubscriptionNotFound, "SUBSCRIPTION_NOT_FOUND"},
		{event.ErrSubscriptionExists, "SUBSCRIPTION_ALREADY_EXISTS"},
		{event.ErrWakeFenced, "FENCED"},
		{event.ErrWakeClaimed, "ALREADY_CLAIMED"},
		{event.ErrNothingPending, "NO_PENDING_WORK"},
		{event.ErrBadAck, "INVALID_OFFSET"},
	} {
		if errors.Is(err, c.err) {
			e := &controlError{code: c.code, message: err.Error()}
			errors.As(err, &e.claimed)
			return e
		}
	}
	return nil
}

// controlProblem is the protocol's form.
type controlProblem struct {
	Error struct {
		Code       string `json:"code"`
		Message    string `json:"message"`
		Holder     string `json:"current_holder,omitempty"`
		Generation uint64 `json:"generation,omitempty"`
	} `json:"error"`
}

func (e *controlError) problem() (p controlProblem) {
	p.Error.Code, p.Error.Message = e.code, e.message
	if e.claimed != nil {
		p.Error.Holder, p.Error.Generation = e.claimed.Holder, e.claimed.Generation
	}
	return p
}
