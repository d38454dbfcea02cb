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
	RunID event.RunID `arg:"" name:"run" help:"The run's id."`
	connection
	view
	Output string `short:"o" enum:"text,json" default:"text" help:"text or json."`
}

// Run prints the transcript.
func (c *transcriptCmd) Run(ctx context.Context, t *terminal) error {
	cl, err := c.client()
	if err != nil {
		return err
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
