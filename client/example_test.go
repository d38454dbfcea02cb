package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// cluster stands for a cluster in the examples.
func cluster(h http.HandlerFunc) (c *client.Client, stop func()) {
	s := httptest.NewServer(h)
	c, err := client.New(client.Config{Servers: []string{s.URL}})
	if err != nil {
		panic(err)
	}
	return c, s.Close
}

// A host appends with producer headers: whatever happens on the way, each batch is written once.
func ExampleClient_Append() {
	c, stop := cluster(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"firstOffset":4,"tail":5,"duplicate":false}`)
	})
	defer stop()

	done, err := c.Append(context.Background(), event.Batch{
		Run:      "run-1",
		Producer: &event.Producer{ID: "host-7", Epoch: 0, Seq: 4},
		Events:   []event.Event{{Raw: []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"Hello"}`)}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("written at", done.FirstOffset)
	// Output: written at 4
}

// A host that has been superseded learns it from its next write, with the epoch that fenced it.
func ExampleClient_Append_fenced() {
	c, stop := cluster(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusConflict)
		io.WriteString(w, `{"type":"urn:runlog:problem:fenced","title":"Fenced","status":409,"code":"fenced","epoch":1,"currentEpoch":2}`)
	})
	defer stop()

	epoch := event.Epoch(1)
	_, err := c.Append(context.Background(), event.Batch{
		Run:    "run-1",
		Epoch:  &epoch,
		Events: []event.Event{{Raw: []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"I am still here"}`)}},
	})
	var fenced *event.Fenced
	if errors.As(err, &fenced) {
		fmt.Println("somebody took over at epoch", fenced.CurrentEpoch)
	}
	// Output: somebody took over at epoch 2
}

// A reader follows a run to its end; elections and dead nodes do not show.
func ExampleClient_Tail() {
	c, stop := cluster(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "id: 0\ndata: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"run-1\"}\n\n")
		fmt.Fprint(w, "id: 1\ndata: {\"type\":\"RUN_FINISHED\",\"threadId\":\"t\",\"runId\":\"run-1\"}\n\n")
	})
	defer stop()

	for record, err := range c.Tail(context.Background(), "run-1", 0) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d %s\n", record.Offset, record.Raw)
	}
	// Output:
	// 0 {"type":"RUN_STARTED","threadId":"t","runId":"run-1"}
	// 1 {"type":"RUN_FINISHED","threadId":"t","runId":"run-1"}
}

// A transcript can be read as it was at any offset.
func ExampleClient_Transcript() {
	c, stop := cluster(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"runId":"run-1","threadId":"t","offset":7,"messages":[{"id":"m1","role":"assistant","content":"Hel"}]}`)
	})
	defer stop()

	at := event.Offset(7)
	transcript, err := c.Transcript(context.Background(), "run-1", client.View{At: &at})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range transcript.Messages {
		fmt.Printf("%s: %s\n", m.Role, m.Text())
	}
	// Output: assistant: Hel
}
