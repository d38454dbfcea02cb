package main

import (
	"context"
	"fmt"
	"io"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// transcriptCmd prints a run's messages.
type transcriptCmd struct {
	RunID event.RunID `arg:"" optional:"" name:"run" help:"The run's id."`
	connection
	view
	Thread event.ThreadID `help:"The messages of all runs of this thread." placeholder:"ID"`
	Head   event.RunID    `help:"With --thread: only the chain of parents that ends at this run." placeholder:"RUN"`
	Output string         `short:"o" enum:"text,json" default:"text" help:"text or json."`
}

// Run prints the transcript.
func (c *transcriptCmd) Run(ctx context.Context, t *terminal) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	switch {
	case (c.RunID == "") == (c.Thread == ""):
		return usageError("name a run or a --thread")
	case c.Thread == "" && c.Head != "":
		return usageError("--head needs a --thread")
	case c.Thread != "" && c.At != nil:
		return usageError("--at needs a run")
	case c.Thread != "":
		return c.thread(ctx, cl, t)
	}
	tr, err := cl.Transcript(ctx, c.RunID, c.view.view())
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return printJSON(t.out, tr)
	}
	printTranscript(t.out, tr.Messages)
	return nil
}

// thread prints a thread's transcript, and in text what waits for an answer.
func (c *transcriptCmd) thread(ctx context.Context, cl *client.Client, t *terminal) error {
	thread, err := cl.Thread(ctx, c.Thread, client.ThreadQuery{Head: c.Head, Read: c.view.view().Read})
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return printJSON(t.out, struct {
			ThreadID event.ThreadID   `json:"threadId"`
			Cursor   string           `json:"cursor"`
			Messages []client.Message `json:"messages"`
		}{thread.ThreadID, thread.Cursor.String(), thread.Messages})
	}
	printTranscript(t.out, thread.Messages)
	for _, i := range thread.Interrupts {
		if i.Status == event.InterruptPending {
			fmt.Fprintf(t.out, "\nwaiting for an answer to %s (run %s)\n", oneLine(i.InterruptID), oneLine(string(i.RunID)))
		}
	}
	if r := thread.ActiveRun; r != nil {
		fmt.Fprintf(t.out, "\nrun %s goes on\n", oneLine(string(r.RunID)))
	}
	return nil
}

// printTranscript writes messages as people read them: who, then what, with the tool calls.
func printTranscript(w io.Writer, messages []client.Message) {
	for i, m := range messages {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if m.ToolCallID != "" {
			fmt.Fprintf(w, "%s (%s)\n", oneLine(m.Role), oneLine(m.ToolCallID))
		} else {
			fmt.Fprintln(w, oneLine(m.Role))
		}
		if text := m.Text(); text != "" {
			fmt.Fprintln(w, indent(printable(text)))
		} else if len(m.Content) > 0 && m.Content[0] == '{' {
			fmt.Fprintln(w, indent(printable(string(m.Content))))
		}
		for _, call := range m.ToolCalls {
			fmt.Fprintf(w, "  → %s(%s)  [%s]\n", oneLine(call.Function.Name), oneLine(call.Function.Arguments), oneLine(call.ID))
		}
	}
}
