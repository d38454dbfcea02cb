package main

import (
	"encoding/json"
	"io"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// connection is the flags of every command that talks to a cluster.
type connection struct {
	Server []string `help:"Nodes to talk to, any of which will do." placeholder:"URL,…" default:"http://127.0.0.1:4437,http://127.0.0.1:4438,http://127.0.0.1:4439"`
}

func (c *connection) client() (*client.Client, error) { return c.patient(0) }

// patient returns a client that keeps trying for d; 0: as long as a client does by itself.
func (c *connection) patient(d time.Duration) (*client.Client, error) {
	cl, err := client.New(client.Config{Servers: c.Server, RetryFor: d})
	if err != nil {
		return nil, usageError(err.Error())
	}
	return cl, nil
}

// view is the flags of a command that reads a run as it was.
type view struct {
	At           *uint64 `help:"Fold only the events before this offset." placeholder:"OFFSET"`
	Linearizable bool    `help:"See everything that was acknowledged before."`
}

func (v *view) view() client.View {
	r := client.View{Read: client.Read{Linearizable: v.Linearizable}}
	if v.At != nil {
		at := event.Offset(*v.At)
		r.At = &at
	}
	return r
}

// printJSON writes v as indented JSON. Raw JSON inside keeps its numbers and escapes.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// printJSONLine writes v as JSON on one line.
func printJSONLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
