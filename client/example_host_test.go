package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// leased stands, in the examples, for a cluster with a run that was leased once.
func leased() (*client.Client, func()) {
	f := newFakeRun()
	return cluster(f.ServeHTTP)
}

// A host starts its run under a lease, does its work under the handle's context, and finishes.
// The lease is renewed meanwhile, also while a tool is silent for long.
func ExampleClient_Start() {
	c, stop := leased()
	defer stop()
	ctx := context.Background()

	h, err := c.Start(ctx, client.NewRun{RunID: "r", ThreadID: "t", Holder: "host-7", LeaseMs: 15_000})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close()

	if h.Context().Err() != nil { // give it to models and tools: it ends when the work is in vain
		fmt.Println("stop:", context.Cause(h.Context()))
		return
	}
	if _, err := h.Append(ctx, event.Event{Raw: []byte(`{"type":"CUSTOM","name":"step","value":1}`)}); err != nil {
		fmt.Println(err)
		return
	}
	done, err := h.Finish(ctx, client.Finished{})
	fmt.Println("ended at", done.FirstOffset, err)
	// Output: ended at 2 <nil>
}

// A successor waits for the lapse of a dead host's lease and goes on from the tail.
func ExampleClient_Takeover() {
	c, stop := leased()
	defer stop()
	ctx := context.Background()

	h, err := c.Takeover(ctx, "r", client.Takeover{Holder: "host-8", LeaseMs: 15_000, Wait: time.Minute})
	switch {
	case errors.Is(err, event.ErrLeaseHeld):
		fmt.Println("its host is alive")
		return
	case errors.Is(err, event.ErrRunEnded):
		fmt.Println("nothing left to do")
		return
	case err != nil:
		fmt.Println(err)
		return
	}
	defer h.Close()
	fmt.Println("epoch", h.Epoch(), "tail", h.Run().Tail, "open calls", h.Run().Open.ToolCalls)
	// Output: epoch 2 tail 1 open calls [c1]
}

// A successor that has the journal of the host before it need not know where the log stands: it
// sends everything, and what the log has is passed over.
func ExampleHandle_Replay() {
	c, stop := leased()
	defer stop()
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	journal := filepath.Join(dir, "journal.ndjson")
	if err := os.WriteFile(journal, []byte("{\"type\":\"RUN_STARTED\"}\n{\"type\":\"CUSTOM\"}\n{\"type\":\"CUSTOM\"}\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	h, err := c.Takeover(ctx, "r", client.Takeover{Holder: "host-8"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close()
	result, err := h.Replay(ctx, client.FileSource(journal), nil)
	var diverged *event.Diverged
	if errors.As(err, &diverged) {
		fmt.Println("not the same run: offset", diverged.Offset, "field", diverged.Field)
		return
	}
	fmt.Println(result.Matched, "matched,", result.Appended, "appended; go on at", result.Tail)
	// Output: 1 matched, 2 appended; go on at 3
}

// A host that was asked to cancel closes what it has open and says so.
func ExampleHandle_Finish_cancelled() {
	c, stop := cluster(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == "/v1/runs" {
			io.WriteString(w, `{"runId":"r","threadId":"t","epoch":1,"tail":1,"created":true,"lease":{"holder":"h","leaseMs":15000,"state":"held"}}`)
			return
		}
		io.WriteString(w, `{"firstOffset":1,"tail":2,"duplicate":false,"cancelRequested":true}`)
	})
	defer stop()
	ctx := context.Background()

	h, err := c.Start(ctx, client.NewRun{RunID: "r", ThreadID: "t", Holder: "h"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close()
	if _, err := h.Append(ctx, event.Event{Raw: []byte(`{"type":"CUSTOM","name":"step"}`)}); err != nil {
		fmt.Println(err)
		return
	}
	if errors.Is(context.Cause(h.Context()), client.ErrCancelRequested) {
		_, err := h.Finish(ctx, client.Cancelled)
		fmt.Println("cancelled", err)
	}
	// Output: cancelled <nil>
}
