package main

import (
	"bytes"
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/cmd/runlog/internal/supervise"
	"github.com/runlog/runlog/cmd/runlog/sample"
	"github.com/runlog/runlog/event"
)

// report prints what the run amounts to, as the node that was neither written to nor read sees it.
func (s *story) report(ctx context.Context) error {
	cl, err := client.New(client.Config{Servers: []string{s.witness.URL()}, RetryFor: electionTime})
	if err != nil {
		return err
	}
	view := client.View{Read: client.Read{MinOffset: event.Offset(len(s.sent))}}
	transcript, err := cl.Transcript(ctx, sample.RunID, view)
	if err != nil {
		return err
	}
	tools, err := cl.Tools(ctx, sample.RunID, view)
	if err != nil {
		return err
	}
	state, err := cl.State(ctx, sample.RunID, view)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "\nWhat %s makes of it\n\nTranscript, %s:\n", s.witness.ID, plural(uint64(len(transcript.Messages)), "message"))
	tw := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	for _, m := range transcript.Messages {
		calls := ""
		if n := len(m.ToolCalls); n > 0 {
			calls = " [" + plural(uint64(n), "call") + "]"
		}
		fmt.Fprintf(tw, "  %s\t%s%s\n", oneLine(m.Role), shorten(m.Text(), 84), calls)
	}
	fmt.Fprintf(tw, "\nTool history, %s:\n", plural(uint64(len(tools.ToolCalls)), "call"))
	for _, c := range tools.ToolCalls {
		fmt.Fprintf(tw, "  %s\t%s, offsets %s: %s\n", oneLine(c.Name), c.Status, span(c), shorten(resultText(c), 56))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "\nState:\n  %s\n", oneLine(string(state.State)))
	return nil
}

// verify starts the killed node again and compares what each node holds with what was sent.
func (s *story) verify(ctx context.Context) error {
	for i, rec := range s.read {
		if !bytes.Equal(rec.Raw, s.sent[i].Raw) {
			return fmt.Errorf("the reader got another event at offset %d than was sent", i)
		}
	}
	if err := s.group.Restart(s.writer.ID); err != nil {
		return err
	}
	if err := ready(ctx, s.group); err != nil {
		return err
	}
	var first []byte
	for _, n := range s.all {
		transcript, err := s.check(ctx, n)
		if err != nil {
			return fmt.Errorf("node %s: %w", n.ID, err)
		}
		if first == nil {
			first = transcript
		}
		if !bytes.Equal(first, transcript) {
			return fmt.Errorf("node %s has another transcript than node %s", n.ID, s.all[0].ID)
		}
	}
	fmt.Fprintf(s.out, "\n%s is back on its disk. %d events appended, %d read live, each once and in order;\nidentical byte for byte on 3 nodes.\n",
		s.writer.ID, len(s.sent), len(s.read))
	return nil
}

// check compares a node's events with what was sent and returns its transcript.
func (s *story) check(ctx context.Context, n supervise.Node) ([]byte, error) {
	cl, err := client.New(client.Config{Servers: []string{n.URL()}, RetryFor: electionTime})
	if err != nil {
		return nil, err
	}
	fresh := client.Read{MinOffset: event.Offset(len(s.sent))}
	page, err := cl.Events(ctx, sample.RunID, client.EventsQuery{Read: fresh, Limit: len(s.sent) + 1})
	if err != nil {
		return nil, err
	}
	if len(page.Records) != len(s.sent) || !page.Ended {
		return nil, fmt.Errorf("it holds %d events of %d", len(page.Records), len(s.sent))
	}
	for i, rec := range page.Records {
		if rec.Offset != event.Offset(i) || !bytes.Equal(rec.Raw, s.sent[i].Raw) {
			return nil, fmt.Errorf("it holds another event at offset %d than was sent", i)
		}
	}
	transcript, err := cl.Transcript(ctx, sample.RunID, client.View{Read: fresh})
	if err != nil {
		return nil, err
	}
	var all []byte
	for _, m := range transcript.Messages {
		all = append(append(all, m.Raw...), '\n')
	}
	return all, nil
}
