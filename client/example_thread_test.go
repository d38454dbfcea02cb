package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// A chat page asks once what was said and what is running, and follows from there.
func ExampleClient_Thread() {
	c, stop := cluster(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"threadId":"chat-1","cursor":"1.4","messages":[{"id":"m1","role":"user","content":"Hello"}],
			"activeRun":{"runId":"run-2","status":"running"},"runs":[{"runId":"run-2"},{"runId":"run-1"}],"interrupts":[]}`)
	})
	defer stop()

	thread, err := c.Thread(context.Background(), "chat-1", client.ThreadQuery{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range thread.Messages {
		fmt.Printf("%s: %s\n", m.Role, m.Text())
	}
	fmt.Println("running:", thread.ActiveRun.RunID, "follow from", thread.Cursor)
	// Output:
	// user: Hello
	// running: run-2 follow from 1.4
}

// A thread is followed across its runs; elections and dead nodes do not show.
func ExampleClient_ThreadTail() {
	c, stop := cluster(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "id: 1.5\ndata: {\"type\":\"RUN_FINISHED\"}\n\n")
		fmt.Fprint(w, "id: 2.1\ndata: {\"type\":\"RUN_STARTED\"}\n\n")
	})
	defer stop()

	for record, err := range c.ThreadTail(context.Background(), "chat-1", event.ThreadCursor{Ordinal: 1, Offset: 4}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s %s\n", record.Cursor, record.Raw)
		if record.Cursor.Ordinal == 2 {
			break
		}
	}
	// Output:
	// 1.5 {"type":"RUN_FINISHED"}
	// 2.1 {"type":"RUN_STARTED"}
}

// An envelope is what a fresh run is started from when the agent's own memory is gone.
func ExampleClient_Envelope() {
	c, stop := cluster(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"threadId":"chat-1","cursor":"1.4","format":"text","text":"…","kept":12,"omitted":30}`)
	})
	defer stop()

	envelope, err := c.Envelope(context.Background(), "chat-1", client.EnvelopeQuery{Format: "text", MaxChars: 20_000})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(envelope.Kept, "messages kept,", envelope.Omitted, "left out")
	// Output: 12 messages kept, 30 left out
}

// A supervisor watches what happens to all runs.
func ExampleClient_Changes() {
	c, stop := cluster(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "id: 41\ndata: {\"change\":\"lapsed\",\"runId\":\"run-7\",\"epoch\":3,\"holder\":\"host-2\"}\n\n")
	})
	defer stop()

	for change, err := range c.Changes(context.Background(), client.ChangesFrom{Offset: 41}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if change.Change.Change == event.ChangeLapsed {
			fmt.Println(change.RunID, "was left by", change.Holder)
			break
		}
	}
	// Output: run-7 was left by host-2
}
