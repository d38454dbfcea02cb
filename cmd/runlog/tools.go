package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// toolsCmd prints a run's tool calls.
type toolsCmd struct {
	RunID event.RunID `arg:"" name:"run" help:"The run's id."`
	connection
	view
	Output string `short:"o" enum:"text,json" default:"text" help:"text or json."`
}

// Run prints the tool history.
func (c *toolsCmd) Run(ctx context.Context, t *terminal) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	h, err := cl.Tools(ctx, c.RunID, c.view.view())
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return printJSON(t.out, h)
	}
	return printTools(t.out, h.ToolCalls)
}

// printTools writes one line a call.
func printTools(w io.Writer, calls []client.ToolCall) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "CALL\tTOOL\tSTATUS\tOFFSETS\tARGUMENTS\tRESULT")
	for _, c := range calls {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", shorten(c.ToolCallID, 24), shorten(c.Name, 24), oneLine(string(c.Status)),
			span(c), shorten(c.Arguments, 40), shorten(resultText(c), 40))
	}
	return tw.Flush()
}

// span shows where in the run a call started, ended and got its result.
func span(c client.ToolCall) string {
	s := c.StartedOffset.String()
	for _, o := range []*event.Offset{c.EndedOffset, c.ResultOffset} {
		if o != nil {
			s += "–" + o.String()
		}
	}
	return s
}

func resultText(c client.ToolCall) string {
	if text := c.ResultText(); text != "" || len(c.Result) == 0 {
		return text
	}
	return string(c.Result)
}
