package client

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/runlog/runlog/event"
)

// Transcript is the AG-UI messages that a run amounts to.
type Transcript struct {
	RunID    event.RunID    `json:"runId"`
	ThreadID event.ThreadID `json:"threadId"`
	Offset   event.Offset   `json:"offset"` // how many events are folded in
	Messages []Message      `json:"messages"`
}

// Message is an AG-UI message: the members that most readers want, and Raw with all of them.
type Message struct {
	ID         string          `json:"id"`
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"` // a string, an array of parts, an object, or absent
	ToolCalls  []MessageCall   `json:"toolCalls"`
	ToolCallID string          `json:"toolCallId"` // of role "tool"
	Raw        json.RawMessage `json:"-"`
}

// MessageCall is a tool call as an assistant message carries it.
type MessageCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// UnmarshalJSON keeps the message's own bytes in Raw.
func (m *Message) UnmarshalJSON(b []byte) error {
	type plain Message
	if err := json.Unmarshal(b, (*plain)(m)); err != nil {
		return err
	}
	m.Raw = append(json.RawMessage(nil), b...)
	return nil
}

// MarshalJSON returns the message as it was received.
func (m Message) MarshalJSON() ([]byte, error) {
	if m.Raw != nil {
		return m.Raw, nil
	}
	type plain Message
	return json.Marshal(plain(m))
}

// Text returns the content's text: a string as it is, the text parts of an array joined, and
// nothing of any other content.
func (m Message) Text() string { return contentText(m.Content) }

func contentText(content json.RawMessage) string {
	var s string
	if json.Unmarshal(content, &s) == nil {
		return s
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &parts) != nil {
		return ""
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Type == "text" {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// Transcript reads a run's transcript.
func (c *Client) Transcript(ctx context.Context, id event.RunID, v View) (Transcript, error) {
	var t Transcript
	if err := c.get(ctx, runPath(id, "/transcript"), v.query(), &t); err != nil {
		return Transcript{}, fmt.Errorf("transcript of run %s: %w", id, err)
	}
	return t, nil
}

// ToolHistory is the tool calls of a run, in order of starting.
type ToolHistory struct {
	RunID     event.RunID  `json:"runId"`
	Offset    event.Offset `json:"offset"`
	ToolCalls []ToolCall   `json:"toolCalls"`
}

// CallStatus is how far a tool call has come.
type CallStatus string

// The statuses of a tool call.
const (
	CallStreaming   CallStatus = "streaming"   // its arguments are coming
	CallCalled      CallStatus = "called"      // it has them all
	CallCompleted   CallStatus = "completed"   // it has a result
	CallInterrupted CallStatus = "interrupted" // the cluster closed it
	CallPending     CallStatus = "pending"     // the run ended and the client owes the result
)

// ToolCall is one tool call. Offsets and times are absent until what they point at has happened.
type ToolCall struct {
	ToolCallID      string          `json:"toolCallId"`
	Name            string          `json:"name"`
	Arguments       string          `json:"arguments"`
	Status          CallStatus      `json:"status"`
	ParentMessageID string          `json:"parentMessageId,omitempty"`
	SubagentRunID   string          `json:"subagentRunId,omitempty"`
	StartedOffset   event.Offset    `json:"startedOffset"`
	StartedAt       event.Time      `json:"startedAt"`
	EndedOffset     *event.Offset   `json:"endedOffset,omitempty"`
	EndedAt         *event.Time     `json:"endedAt,omitempty"`
	ResultOffset    *event.Offset   `json:"resultOffset,omitempty"`
	ResultAt        *event.Time     `json:"resultAt,omitempty"`
	ResultMessageID string          `json:"resultMessageId,omitempty"`
	Result          json.RawMessage `json:"result,omitempty"` // a string or an array of parts
}

// ResultText returns the text of the result, as [Message.Text] does of a message.
func (t ToolCall) ResultText() string { return contentText(t.Result) }

// Tools reads a run's tool calls.
func (c *Client) Tools(ctx context.Context, id event.RunID, v View) (ToolHistory, error) {
	var h ToolHistory
	if err := c.get(ctx, runPath(id, "/tools"), v.query(), &h); err != nil {
		return ToolHistory{}, fmt.Errorf("tool calls of run %s: %w", id, err)
	}
	return h, nil
}

// State is AG-UI's shared state: the fold of a run's snapshots and deltas.
type State struct {
	Offset event.Offset    `json:"offset"`
	State  json.RawMessage `json:"state"`
}

// State reads a run's shared state.
func (c *Client) State(ctx context.Context, id event.RunID, v View) (State, error) {
	var s State
	if err := c.get(ctx, runPath(id, "/state"), v.query(), &s); err != nil {
		return State{}, fmt.Errorf("state of run %s: %w", id, err)
	}
	return s, nil
}
