package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// outcomeOf is what a run left: its messages and its tool calls.
type outcomeOf struct {
	messages []client.Message
	raw      []byte // of the messages
	calls    []client.ToolCall
	tools    []byte // what of the calls depends on no clock
}

func (d *demo) client() (*client.Client, error) {
	return client.New(client.Config{Servers: []string{d.nodes[2].URL()}, RetryFor: electionTime})
}

func (d *demo) outcome(ctx context.Context, run event.RunID) (o outcomeOf, err error) {
	cl, err := d.client()
	if err != nil {
		return o, err
	}
	now := client.View{Read: client.Read{Linearizable: true}}
	tr, err := cl.Transcript(ctx, run, now)
	if err != nil {
		return o, err
	}
	h, err := cl.Tools(ctx, run, now)
	if err != nil {
		return o, err
	}
	for _, m := range tr.Messages {
		o.raw = append(append(o.raw, m.Raw...), '\n')
	}
	for _, c := range h.ToolCalls {
		o.tools = fmt.Appendf(o.tools, "%s %s %s %s %s %s\n", c.ToolCallID, c.Name, c.Arguments, c.Status, span(c), resultText(c))
	}
	o.messages, o.calls = tr.Messages, h.ToolCalls
	return o, nil
}

// compare shows two runs beside each other and fails unless they left the same.
func (d *demo) compare(ctx context.Context, run, plain event.RunID) error {
	a, err := d.outcome(ctx, run)
	if err != nil {
		return err
	}
	b, err := d.outcome(ctx, plain)
	if err != nil {
		return err
	}
	const width = 36
	fmt.Fprintf(d.out, "\n  %-9s  %-*s     %s\n", "", width, "killed and taken over", "undisturbed")
	for i := range max(len(a.messages), len(b.messages)) {
		beside(d.out, width, at(a.messages, i), at(b.messages, i))
	}
	return d.verdict(a, b)
}

// same is compare without a picture.
func (d *demo) same(ctx context.Context, run, plain event.RunID) error {
	a, err := d.outcome(ctx, run)
	if err != nil {
		return err
	}
	b, err := d.outcome(ctx, plain)
	if err != nil {
		return err
	}
	return d.verdict(a, b)
}

func (d *demo) verdict(a, b outcomeOf) error {
	if !bytes.Equal(a.raw, b.raw) || !bytes.Equal(a.tools, b.tools) {
		return errors.New("the run that was taken over differs from the undisturbed one")
	}
	fmt.Fprintf(d.out, "\n  %s: %s and %s, byte for byte; %s read live, each once and in order\n", d.gutter.good("identical"),
		plural(uint64(len(a.messages)), "message"), plural(uint64(len(a.calls)), "tool call"), plural(uint64(len(d.read)), "event"))
	return nil
}

func at(list []client.Message, i int) client.Message {
	if i < len(list) {
		return list[i]
	}
	return client.Message{}
}

// beside prints two messages in two columns.
func beside(w io.Writer, width int, a, b client.Message) {
	left, right := wrap(a, width), wrap(b, width)
	for i := range max(len(left), len(right)) {
		role, sign, l, r := "", " ", "", ""
		if i == 0 {
			if role, sign = oneLine(a.Role), "≠"; bytes.Equal(a.Raw, b.Raw) {
				sign = "="
			}
		}
		if i < len(left) {
			l = left[i]
		}
		if i < len(right) {
			r = right[i]
		}
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("  %-9s  %-*s  %s  %s", role, width, l, sign, r), " "))
	}
}

// wrap is a message in lines of at most width characters.
func wrap(m client.Message, width int) []string {
	lines := wrapText(oneLine(m.Text()), width)
	for _, c := range m.ToolCalls {
		lines = append(lines, wrapText(oneLine("→ "+c.Function.Name+" "+c.Function.Arguments), width)...)
	}
	return lines
}

func wrapText(text string, width int) []string {
	var lines []string
	var line []rune
	for word := range strings.FieldsSeq(text) {
		if len(line) > 0 && len(line)+1+len([]rune(word)) > width {
			lines, line = append(lines, string(line)), nil
		}
		if len(line) > 0 {
			line = append(line, ' ')
		}
		for line = append(line, []rune(word)...); len(line) > width; line = line[width:] {
			lines = append(lines, string(line[:width]))
		}
	}
	if len(line) > 0 {
		lines = append(lines, string(line))
	}
	return lines
}

// lost shows how the cluster ended a run, and fails unless it did.
func (d *demo) lost(ctx context.Context, run event.RunID) error {
	if err := d.status(ctx, run, event.StatusLost); err != nil {
		return err
	}
	o, err := d.outcome(ctx, run)
	if err != nil {
		return err
	}
	for _, c := range o.calls {
		if c.Status != "interrupted" {
			return fmt.Errorf("tool call %s is %s", c.ToolCallID, c.Status)
		}
		fmt.Fprintf(d.out, "\n  The cluster ended the run %.1f s after the kill; %s is %s.\n", d.took.Seconds(), oneLine(c.Name), oneLine(string(c.Status)))
	}
	return nil
}

func (d *demo) status(ctx context.Context, run event.RunID, want event.Status) error {
	cl, err := d.client()
	if err != nil {
		return err
	}
	r, err := cl.Run(ctx, run, client.View{Read: client.Read{Linearizable: true}})
	if err != nil {
		return err
	}
	if r.Status != want {
		return fmt.Errorf("run %s is %s, not %s", run, r.Status, want)
	}
	return nil
}

func (d *demo) heading(text string) {
	fmt.Fprintf(d.out, "\n%s\n\n", d.gutter.bold(text))
}

// say prints a line about a host.
func (d *demo) say(who, what string) {
	d.screen.newline()
	d.screen.open = ""
	fmt.Fprintf(d.out, "  %s  %s\n", d.gutter.bold(who), oneLine(what))
}
