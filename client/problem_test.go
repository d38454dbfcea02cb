package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"testing"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// fields are the fields of each refusal's problem, as the contract names them, and the value that
// must come back.
var fields = map[string]struct {
	fields map[string]any
	want   event.Refusal
	is     error
}{
	event.CodeRunNotFound:      {nil, &event.RunNotFound{}, event.ErrRunNotFound},
	event.CodeRunDeleted:       {nil, &event.RunDeleted{}, event.ErrRunDeleted},
	event.CodeEpochRequired:    {map[string]any{"currentEpoch": 4}, &event.EpochRequired{CurrentEpoch: 4}, event.ErrEpochRequired},
	event.CodeFenced:           {map[string]any{"epoch": 1, "currentEpoch": 2}, &event.Fenced{Epoch: 1, CurrentEpoch: 2}, event.ErrFenced},
	event.CodeRunEnded:         {map[string]any{"terminalOffset": 9}, &event.RunEnded{TerminalOffset: 9}, event.ErrRunEnded},
	event.CodeOffsetConflict:   {map[string]any{"expected": 3, "tail": 4}, &event.OffsetConflict{Expected: 3, Tail: 4}, event.ErrOffsetConflict},
	event.CodeProducerGap:      {map[string]any{"expectedSeq": 3, "receivedSeq": 5}, &event.ProducerGap{ExpectedSeq: 3, ReceivedSeq: 5}, event.ErrProducerGap},
	event.CodeProducerFenced:   {map[string]any{"producerEpoch": 1, "currentProducerEpoch": 2}, &event.ProducerFenced{ProducerEpoch: 1, CurrentProducerEpoch: 2}, event.ErrProducerFenced},
	event.CodeProducerConflict: {map[string]any{"seq": 6}, &event.ProducerConflict{Seq: 6}, event.ErrProducerConflict},
	event.CodeTooManyProducers: {map[string]any{"limit": 1024}, &event.TooManyProducers{Limit: 1024}, event.ErrTooManyProducers},
	event.CodeInvalidEvent:     {map[string]any{"index": 2, "reason": "why"}, &event.InvalidEvent{Index: 2, Reason: "why"}, event.ErrInvalidEvent},
	event.CodeRunExists:        {map[string]any{"run": map[string]any{"runId": "r", "threadId": "t"}}, &event.RunExists{Run: &event.Run{RunID: "r", ThreadID: "t"}}, event.ErrRunExists},
	event.CodeThreadBusy:       {map[string]any{"activeRunId": "r"}, &event.ThreadBusy{ActiveRunID: "r"}, event.ErrThreadBusy},
	event.CodeLeaseHeld:        {map[string]any{"holder": "h"}, &event.LeaseHeld{Holder: "h"}, event.ErrLeaseHeld},
	event.CodeRunActive:        {nil, &event.RunActive{}, event.ErrRunActive},
	event.CodeStaleVerdict:     {nil, &event.StaleVerdict{}, event.ErrStaleVerdict},
	event.CodeDiverged: {map[string]any{"offset": 3, "stored": json.RawMessage(`{"a":1}`), "replayed": json.RawMessage(`{"a":2}`), "field": "a", "hint": "why"},
		&event.Diverged{Offset: 3, Stored: []byte(`{"a":1}`), Replayed: []byte(`{"a":2}`), Field: "a", Hint: "why"}, event.ErrDiverged},
	event.CodeInterruptNotPending: {map[string]any{"interruptId": "i", "interruptStatus": "resolved", "byRunId": "b"},
		&event.InterruptNotPending{InterruptID: "i", Status: event.InterruptResolved, ByRunID: "b"}, event.ErrInterruptNotPending},
	event.CodeStreamNotFound:      {nil, &event.StreamNotFound{}, event.ErrStreamNotFound},
	event.CodeStreamGone:          {nil, &event.StreamGone{}, event.ErrStreamGone},
	event.CodeStreamExists:        {map[string]any{"what": "TTL"}, &event.StreamExists{What: "TTL"}, event.ErrStreamExists},
	event.CodeStreamClosed:        {map[string]any{"tail": 4}, &event.StreamClosed{Tail: 4}, event.ErrStreamClosed},
	event.CodeContentTypeConflict: {map[string]any{"contentType": "text/plain"}, &event.ContentTypeConflict{ContentType: "text/plain"}, event.ErrContentType},
	event.CodeStreamSeqConflict:   {map[string]any{"lastSeq": "9"}, &event.StreamSeqConflict{LastSeq: "9"}, event.ErrStreamSeqConflict},
	event.CodeProducerReset:       {map[string]any{"producerEpoch": 3}, &event.ProducerReset{ProducerEpoch: 3}, event.ErrProducerReset},
	event.CodeForkSource:          {map[string]any{"gone": true}, &event.ForkSource{Gone: true}, event.ErrForkSource},
	event.CodeForkOffset:          {map[string]any{"tail": 8}, &event.ForkOffset{Tail: 8}, event.ErrForkOffset},

	event.CodeSubscriptionNotFound: {nil, &event.SubscriptionNotFound{}, event.ErrSubscriptionNotFound},
	event.CodeSubscriptionExists:   {nil, &event.SubscriptionExists{}, event.ErrSubscriptionExists},
	event.CodeWakeFenced:           {map[string]any{"generation": 2}, &event.WakeFenced{Generation: 2}, event.ErrWakeFenced},
	event.CodeWakeClaimed:          {map[string]any{"holder": "w", "generation": 2}, &event.WakeClaimed{Holder: "w", Generation: 2}, event.ErrWakeClaimed},
	event.CodeNothingPending:       {nil, &event.NothingPending{}, event.ErrNothingPending},
	event.CodeBadAck:               {map[string]any{"stream": "a", "reason": "why"}, &event.BadAck{Stream: "a", Reason: "why"}, event.ErrBadAck},
	event.CodeTooManySubscriptions: {map[string]any{"what": "subscriptions", "limit": 3}, &event.TooManySubscriptions{What: "subscriptions", Limit: 3}, event.ErrTooManySubscriptions},

	event.CodeTooLarge:         {map[string]any{"what": "body", "limit": 10}, &event.TooLarge{What: "body", Limit: 10}, event.ErrTooLarge},
	event.CodeOffsetOutOfRange: {map[string]any{"offset": 8, "tail": 4}, &event.OffsetOutOfRange{Offset: 8, Tail: 4}, event.ErrOffsetOutOfRange},
}

// TestRefusals: each refusal that exists comes back as the value it was, from a read and a write,
// and no other server is asked for a better answer.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, code := range event.RefusalCodes() {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			f, ok := fields[code]
			if !ok {
				t.Fatal("no fixture for this code")
			}
			// 429 is the status of one refusal and of a condition: the code decides.
			c := newClient(t, serve(t, refuse(http.StatusTooManyRequests, code, f.fields)), serve(t, func(http.ResponseWriter, *http.Request) {
				t.Error("another server was asked")
			}))
			_, appendErr := c.Append(context.Background(), batch(1))
			_, readErr := c.Run(context.Background(), "r", client.View{})
			for _, err := range []error{appendErr, readErr} {
				var got event.Refusal
				if !errors.Is(err, f.is) || !errors.As(err, &got) || !reflect.DeepEqual(got, f.want) {
					t.Errorf("%v, value %+v", err, got)
				}
			}
		})
	}
}

// TestProblem: what is no refusal keeps its code, detail and fields.
func TestProblem(t *testing.T) {
	t.Parallel()
	c := newClient(t, serve(t, refuse(http.StatusBadRequest, "invalid_parameter", map[string]any{"detail": "from is negative", "parameter": "from"})))
	_, err := c.Run(context.Background(), "r", client.View{})
	var p *client.Problem
	if !errors.As(err, &p) || p.Status != 400 || p.Code != "invalid_parameter" || p.Detail != "from is negative" {
		t.Fatalf("%v", err)
	}
	if want := "run r: invalid_parameter: from is negative"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}

// TestNotAProblem: an answer that is no problem+json, a proxy's for instance, is a *Problem too.
func TestNotAProblem(t *testing.T) {
	t.Parallel()
	c := newClient(t, serve(t, func(w http.ResponseWriter, r *http.Request) { http.Error(w, "<html>", http.StatusForbidden) }))
	_, err := c.Run(context.Background(), "r", client.View{})
	var p *client.Problem
	if !errors.As(err, &p) || p.Status != 403 || p.Error() != "the server answered 403 Forbidden" {
		t.Fatalf("%v", err)
	}
}
