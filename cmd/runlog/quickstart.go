package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/cmd/runlog/internal/supervise"
	"github.com/runlog/runlog/cmd/runlog/sample"
	"github.com/runlog/runlog/event"
)

// quickstartCmd is the whole of runlog in a few seconds: it starts three nodes, streams the sample
// run through one of them while reading it on another, kills the one it writes through in the
// middle of a sentence, goes on, and shows that what all three hold is what was sent.
type quickstartCmd struct {
	Data     string        `help:"Where the nodes keep their data. Default: a temporary directory, removed at the end." placeholder:"DIR"`
	Keep     bool          `help:"Leave the cluster running until Ctrl-C."`
	Pace     time.Duration `help:"The pause between two events." default:"8ms"`
	HTTPPort int           `name:"http-port" help:"Port of the first node's HTTP; free ones are taken when it is not." default:"4437"`
	RaftPort int           `name:"raft-port" help:"Port of the first node's Raft." default:"5437"`
}

// Run shows the story and returns an error unless all of it is true.
func (c *quickstartCmd) Run(ctx context.Context, t *terminal) error {
	dir, remove, err := c.directory()
	if err != nil {
		return err
	}
	defer remove()
	nodes := localNodes(dir, c.HTTPPort, c.RaftPort)
	if portsFree(nodes) != nil {
		if err := anyPorts(nodes); err != nil {
			return err
		}
	}
	group, err := startGroup(nodes, nil) // deaths and elections are part of the story
	if err != nil {
		return err
	}
	defer group.Stop()
	fmt.Fprintf(t.out, "Starting three nodes, each a process with a Raft log on disk in %s\n", dir)
	if err := ready(ctx, group); err != nil {
		return err
	}
	s := &story{out: t.out, group: group, pace: c.Pace, sent: sample.Events()}
	if err := s.cast(ctx, nodes); err != nil {
		return err
	}
	if err := s.tell(ctx); err != nil {
		return err
	}
	if c.Keep {
		fmt.Fprintf(t.out, "\nThe cluster stays up: %s\nTry  runlog transcript %s --server %s  ·  Ctrl-C stops it.\n", urls(nodes, " "), sample.RunID, nodes[0].URL())
		<-ctx.Done()
	}
	return group.Stop()
}

func (c *quickstartCmd) directory() (dir string, remove func(), err error) {
	if c.Data != "" {
		dir, err = filepath.Abs(c.Data)
		return dir, func() {}, err
	}
	dir, err = os.MkdirTemp("", "runlog-quickstart-")
	return dir, func() { os.RemoveAll(dir) }, err
}

// story is what quickstart tells, with who plays what in it.
type story struct {
	out   io.Writer
	group *supervise.Group
	pace  time.Duration
	sent  []event.Event

	all     []supervise.Node
	writer  supervise.Node // the leader: written through, killed, restarted
	reader  supervise.Node // read live
	witness supervise.Node // asked afterwards

	screen *screen
	read   []event.Record
}

// cast gives the nodes their parts. To kill the leader, which is also the node that the host is
// connected to, is the worst that can happen to one node of three.
func (s *story) cast(ctx context.Context, nodes []supervise.Node) error {
	cl, err := client.New(client.Config{Servers: []string{nodes[0].URL()}, RetryFor: electionTime})
	if err != nil {
		return err
	}
	cluster, err := cl.Cluster(ctx)
	if err != nil {
		return err
	}
	if _, err := cl.Run(ctx, sample.RunID, client.View{Read: client.Read{Linearizable: true}}); !errors.Is(err, event.ErrRunNotFound) {
		if err == nil {
			err = fmt.Errorf("run %s is in this data already; choose another --data", sample.RunID)
		}
		return err
	}
	s.all = nodes
	for i, n := range nodes {
		if n.ID == cluster.Leader {
			s.writer, s.reader, s.witness = n, nodes[(i+1)%3], nodes[(i+2)%3]
			return nil
		}
	}
	return errors.New("the cluster has no leader")
}

// electionTime is how long the story waits for a new leader.
const electionTime = 15 * time.Second

func (s *story) tell(ctx context.Context) error {
	for _, n := range s.all {
		role := ""
		switch n.ID {
		case s.writer.ID:
			role = "leader; the run is written here"
		case s.reader.ID:
			role = "the run is read here, live"
		case s.witness.ID:
			role = "asked afterwards"
		}
		fmt.Fprintf(s.out, "  %s  %s  %s\n", n.ID, n.URL(), role)
	}
	fmt.Fprintf(s.out, "\nRun %s, %d events:\n\n", sample.RunID, len(s.sent))
	if err := s.stream(ctx); err != nil {
		return err
	}
	if err := s.report(ctx); err != nil {
		return err
	}
	return s.verify(ctx)
}

// stream appends the run, event by event as a host would, and shows what the reader gets.
func (s *story) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.screen = newScreen(s.out)
	tail, err := s.follow(ctx)
	if err != nil {
		return err
	}
	host, err := client.New(client.Config{Servers: []string{s.writer.URL(), s.witness.URL()}, RetryFor: electionTime})
	if err != nil {
		return err
	}
	killAt := middleOfText(s.sent)
	for i, e := range s.sent {
		if i == killAt {
			if err := s.show(ctx, tail, i); err != nil {
				return err
			}
			if err := s.kill(ctx); err != nil {
				return err
			}
		}
		producer := event.Producer{ID: "quickstart", Seq: uint64(i)}
		_, err := host.Append(ctx, event.Batch{Run: sample.RunID, Producer: &producer, Events: []event.Event{e}})
		if err != nil {
			return err
		}
		if err := s.drain(tail); err != nil {
			return err
		}
		pause(ctx, s.pace)
	}
	return s.show(ctx, tail, len(s.sent))
}

// arrival is a record that the reader got, or why it got no more.
type arrival struct {
	record event.Record
	err    error
}

// follow reads the run on the reader's node from before it exists until it ends.
func (s *story) follow(ctx context.Context) (<-chan arrival, error) {
	cl, err := client.New(client.Config{Servers: []string{s.reader.URL()}, RetryFor: electionTime})
	if err != nil {
		return nil, err
	}
	started := false
	if _, err := cl.CreateRun(ctx, client.NewRun{RunID: sample.RunID, ThreadID: sample.ThreadID, Started: &started}); err != nil {
		return nil, err
	}
	tail := make(chan arrival, len(s.sent)+1)
	go func() {
		defer close(tail)
		for rec, err := range cl.Tail(ctx, sample.RunID, 0) {
			tail <- arrival{rec, err} // the channel holds the whole run
		}
	}()
	return tail, nil
}

// drain shows what has arrived.
func (s *story) drain(tail <-chan arrival) error {
	for {
		select {
		case a, ok := <-tail:
			if !ok {
				return nil
			}
			if err := s.take(a); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// show waits until n events have arrived and been shown.
func (s *story) show(ctx context.Context, tail <-chan arrival, n int) error {
	ctx, cancel := context.WithTimeout(ctx, electionTime)
	defer cancel()
	for len(s.read) < n {
		select {
		case a, ok := <-tail:
			if !ok {
				return fmt.Errorf("the reader got %d events of %d", len(s.read), n)
			}
			if err := s.take(a); err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("the reader got %d events of %d: %w", len(s.read), n, context.Cause(ctx))
		}
	}
	return nil
}

func (s *story) take(a arrival) error {
	if a.err != nil {
		return a.err
	}
	s.read = append(s.read, a.record)
	s.screen.show(a.record)
	return nil
}

func (s *story) kill(ctx context.Context) error {
	if err := s.group.Kill(ctx, s.writer.ID); err != nil {
		return err
	}
	s.screen.note(fmt.Sprintf("—— %s, the leader, is killed (SIGKILL); the host goes on through %s ——", s.writer.ID, s.witness.ID))
	return nil
}

// middleOfText is the index of the delta in the middle of the run's text.
func middleOfText(events []event.Event) int {
	var deltas []int
	for i, e := range events {
		if e.Header.Type == event.TypeTextMessageContent {
			deltas = append(deltas, i)
		}
	}
	return deltas[len(deltas)/2]
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
