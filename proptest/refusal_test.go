package proptest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/gateway"
	"github.com/runlog/runlog/raftlog"
)

// refusing is a log that answers every proposal the same.
type refusing struct {
	refusal event.Refusal
	err     error
}

func (r *refusing) Propose(context.Context, event.Command) (event.Result, error) {
	return event.Result{Refusal: r.refusal}, r.err
}
func (r *refusing) ReadIndex(context.Context) error           { return nil }
func (r *refusing) WaitApplied(context.Context, uint64) error { return nil }

type noReader struct{ gateway.Reader }

type noCluster struct{ gateway.Cluster }

func ptr[T any](v T) *T { return &v }

// TestRefusalsCrossTheWire: every refusal that Apply can decide on comes back from the client as the
// same value, through the gateway's table and over HTTP; the conditions of the cluster likewise.
func TestRefusalsCrossTheWire(t *testing.T) {
	t.Parallel()
	log := &refusing{}
	g, err := gateway.New(gateway.Config{Log: log, Reader: noReader{}, Cluster: noCluster{}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(g)
	defer server.Close()
	cl, err := client.New(client.Config{Servers: []string{server.URL}, RetryFor: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	send := func() error {
		_, err := cl.Append(t.Context(), event.Batch{Run: "r", Events: []event.Event{{Raw: []byte(`{"type":"RAW"}`)}}})
		return err
	}
	full := map[string]event.Refusal{
		event.CodeEpochRequired: &event.EpochRequired{CurrentEpoch: 3}, event.CodeFenced: &event.Fenced{Epoch: 1, CurrentEpoch: 2},
		event.CodeRunEnded: &event.RunEnded{TerminalOffset: 9}, event.CodeOffsetConflict: &event.OffsetConflict{Expected: 4, Tail: 5},
		event.CodeProducerGap: &event.ProducerGap{ExpectedSeq: 1, ReceivedSeq: 3}, event.CodeProducerFenced: &event.ProducerFenced{ProducerEpoch: 1, CurrentProducerEpoch: 2},
		event.CodeProducerConflict: &event.ProducerConflict{Seq: 8}, event.CodeTooManyProducers: &event.TooManyProducers{Limit: 1024},
		event.CodeInvalidEvent: &event.InvalidEvent{Index: 2, Reason: "because"}, event.CodeRunExists: &event.RunExists{Run: &event.Run{RunID: "r", ThreadID: "t"}},
		event.CodeThreadBusy: &event.ThreadBusy{ActiveRunID: "r"}, event.CodeLeaseHeld: &event.LeaseHeld{Holder: "h", ExpiresInMs: ptr(int64(5))},
		event.CodeDiverged: &event.Diverged{Offset: 7, Stored: json.RawMessage(`{"a":1}`), Replayed: json.RawMessage(`{"a":2}`), Field: "a", Hint: "h"},
		event.CodeTooLarge: &event.TooLarge{What: "w", Limit: 1}, event.CodeOffsetOutOfRange: &event.OffsetOutOfRange{Offset: 9, Tail: 3},
	}
	for _, code := range event.RefusalCodes() {
		want := full[code]
		if want == nil { // one without data
			if want, err = event.DecodeRefusal(code, []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
		log.refusal = want
		got := send()
		value := reflect.New(reflect.TypeOf(want))
		if !errors.Is(got, want) || !errors.As(got, value.Interface()) || !reflect.DeepEqual(value.Elem().Interface(), want) {
			t.Errorf("%s: got %#v, want %#v", code, got, want)
		}
	}
	log.refusal = nil
	for err, want := range map[error]error{
		raftlog.ErrUnavailable: client.ErrUnavailable, raftlog.ErrOverloaded: client.ErrUnavailable, raftlog.ErrOutcomeUnknown: client.ErrOutcomeUnknown,
	} {
		log.err = err
		if got := send(); !errors.Is(got, want) {
			t.Errorf("%v: got %v, want %v", err, got, want)
		}
	}
}
