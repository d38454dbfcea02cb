package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/cmd/runlog/internal/supervise"
	"github.com/runlog/runlog/event"
)

// TestHandleSurvivesRestarts, R1_1, R1_2, R1_4: a handle made before a restart of any node, or of all, works after
// it; whatever is asked meanwhile settles with its result or a named error; and everything that was
// written is readable on every node, once and in order.
func TestHandleSurvivesRestarts(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "runlog")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	nodes := localNodes(t.TempDir(), 1, 1)
	if err := anyPorts(nodes); err != nil {
		t.Fatal(err)
	}
	group, err := supervise.Start(supervise.Config{Program: program, Args: serveArgs(nodes), Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	defer group.Stop()
	if err := ready(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	cl, err := client.New(client.Config{Servers: strings.Split(urls(nodes, ","), ",")})
	if err != nil {
		t.Fatal(err)
	}
	h, err := cl.Start(t.Context(), client.NewRun{RunID: "r", Holder: "h", LeaseMs: 120_000})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	w := &numbered{t: t, h: h}

	for _, n := range nodes {
		w.write()
		check(t, group.Kill(t.Context(), n.ID))
		w.write()
		check(t, group.Restart(n.ID))
		check(t, ready(t.Context(), group))
		w.write()
	}
	for _, n := range nodes {
		check(t, group.Kill(t.Context(), n.ID))
	}
	switch err := w.try(); {
	case errors.Is(err, client.ErrOutcomeUnknown):
		w.n++ // the handle settles it
	case !errors.Is(err, client.ErrUnavailable):
		t.Fatalf("without any node: %v", err)
	}
	for _, n := range nodes {
		check(t, group.Restart(n.ID))
	}
	check(t, ready(t.Context(), group))
	w.write()
	if _, err := h.Finish(t.Context(), client.Finished{}); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		w.readBack(n)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// numbered appends events that carry their number.
type numbered struct {
	t *testing.T
	h *client.Handle
	n int
}

// try appends the next event. It never hangs: a call that did not settle would end with the
// context's error alone.
func (w *numbered) try() error {
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	_, err := w.h.Append(ctx, event.Event{Raw: fmt.Appendf(nil, `{"type":"CUSTOM","name":"n","value":%d}`, w.n)})
	if ctx.Err() != nil {
		w.t.Fatalf("event %d did not settle: %v", w.n, err)
	}
	return err
}

// write appends the next event, through one node's death at most, which an append outlives.
func (w *numbered) write() {
	w.t.Helper()
	if err := w.try(); err != nil {
		w.t.Fatalf("event %d: %v", w.n, err)
	}
	w.n++
}

func (w *numbered) readBack(n supervise.Node) {
	w.t.Helper()
	cl, err := client.New(client.Config{Servers: []string{n.URL()}})
	check(w.t, err)
	page, err := cl.Events(w.t.Context(), "r", client.EventsQuery{Read: client.Read{Linearizable: true}})
	check(w.t, err)
	if len(page.Records) != w.n+2 || !page.Ended { // RUN_STARTED and RUN_FINISHED around them
		w.t.Fatalf("%s has %d events", n.ID, len(page.Records))
	}
	for i, rec := range page.Records[1 : w.n+1] {
		var v struct{ Value int }
		if err := json.Unmarshal(rec.Raw, &v); err != nil || v.Value != i {
			w.t.Errorf("%s: %s where %d should be", n.ID, rec.Raw, i)
		}
	}
}
