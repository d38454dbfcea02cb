package raftlog

import (
	"context"
	"errors"
	"fmt"
	"net/rpc"
	"time"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/event"
)

// ForwardArgs carries a group of commands, encoded by event.AppendCommand, to the leader.
type ForwardArgs struct{ Commands [][]byte }

// ForwardReply answers each of them: a fate and, for fateDone, the result as event.AppendResult
// encodes it. No answers at all means that the node does not lead.
type ForwardReply struct{ Answers [][]byte }

// The fates of a forwarded command. Nodes of different builds exchange them: they must stay stable.
const (
	fateDone        byte = 0
	fateNotAppended byte = 1
	fateUnknown     byte = 2
	fateOverloaded  byte = 3
	fateUpgrading   byte = 4
)

// forward sends a group to the leader and takes its answers.
func (n *Node) forward(g *group) {
	leader, id := n.raft.LeaderWithID()
	if leader == "" || id == n.id {
		g.fail(errNotAppended)
		return
	}
	g.outcomes = make([]outcome, len(g.commands))
	defer close(g.done)
	commands, at := g.own()
	if len(commands) == 0 {
		return
	}
	n.metrics.forwarded.Add(float64(len(commands)))
	var reply ForwardReply
	if err := n.callLeader(leader, "Forward", &ForwardArgs{commands}, &reply); err != nil {
		for _, i := range at {
			g.outcomes[i].err = forwardError(err)
		}
		return
	}
	for k, i := range at {
		if k < len(reply.Answers) {
			g.outcomes[i] = decodeAnswer(reply.Answers[k])
		} else {
			g.outcomes[i].err = errNotAppended
		}
	}
}

// own returns the commands that were proposed on this node, and their places; foreign and withdrawn
// ones are answered here.
func (g *group) own() (commands [][]byte, at []int) {
	for i, c := range g.commands {
		if g.foreign[i] || c == nil {
			g.outcomes[i].err = errNotAppended
			continue
		}
		commands, at = append(commands, c), append(at, i)
	}
	return commands, at
}

func forwardError(err error) error {
	var answered rpc.ServerError
	if errors.Is(err, errNotSent) || errors.As(err, &answered) {
		return fmt.Errorf("%w: %w", errNotAppended, err)
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}

// callLeader calls the node that leads, and gives up when it does not answer in HoldFor, or in
// an election timeout after another one was seen to lead. Then the connection is not trusted any more,
// and reply is not to be read: it may still be written to.
func (n *Node) callLeader(leader raft.ServerAddress, method string, args, reply any) error {
	ctx, cancel := context.WithTimeout(context.Background(), n.cfg.HoldFor)
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- n.proposals.call(ctx, leader, method, args, reply) }()
	err := n.awaitCall(leader, result)
	if err == nil {
		return nil
	}
	if errors.Is(err, errAbandoned) || errors.Is(err, context.DeadlineExceeded) {
		n.proposals.drop(leader)
	}
	return err
}

// suspectAfter is how long a question goes unanswered before its connection is replaced.
const suspectAfter = time.Second

// ask puts a question whose answer changes nothing to the node at addr.
func (n *Node) ask(ctx context.Context, addr raft.ServerAddress, method string, args, reply any) error {
	began := time.Now()
	err := n.questions.call(ctx, addr, method, args, reply)
	if ctx.Err() != nil && time.Since(began) >= suspectAfter {
		n.questions.drop(addr)
	}
	return err
}

var errAbandoned = errors.New("no answer, and another node leads")

func (n *Node) awaitCall(leader raft.ServerAddress, result chan error) error {
	var grace <-chan time.Time
	for {
		changed := n.leadership.C()
		if now, _ := n.raft.LeaderWithID(); now != leader && now != "" && grace == nil {
			grace = time.After(n.cfg.ElectionTimeout)
		}
		select {
		case err := <-result:
			return err
		case <-changed:
		case <-grace:
			return errAbandoned
		case <-n.abort:
			return errAbandoned
		}
	}
}

func decodeAnswer(b []byte) outcome {
	if len(b) == 0 {
		return outcome{err: fmt.Errorf("%w: empty answer", ErrOutcomeUnknown)}
	}
	switch b[0] {
	case fateDone:
		r, err := event.DecodeResult(b[1:])
		if err != nil {
			return outcome{err: fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)}
		}
		return outcome{result: r}
	case fateNotAppended:
		return outcome{err: errNotAppended}
	case fateOverloaded:
		return outcome{err: ErrOverloaded}
	case fateUpgrading:
		return outcome{err: ErrUpgrading}
	}
	return outcome{err: ErrOutcomeUnknown}
}

func encodeAnswer(o outcome) []byte {
	switch {
	case o.err == nil:
		return event.AppendResult([]byte{fateDone}, o.result)
	case errors.Is(o.err, ErrOutcomeUnknown):
		return []byte{fateUnknown}
	case errors.Is(o.err, ErrOverloaded):
		return []byte{fateOverloaded}
	case errors.Is(o.err, ErrUpgrading):
		return []byte{fateUpgrading}
	}
	return []byte{fateNotAppended}
}
