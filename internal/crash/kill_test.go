package crash

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

var kills = flag.Int("kills", 12, "how many nodes TestKill kills")

const writers = 6

// TestKill kills nodes with SIGKILL, one at a time and sometimes all, under writers that repeat what
// they do not know the outcome of, and tails. Nothing acknowledged is lost, nothing is there twice,
// every tail sees every event once and in order, and all nodes hold the same.
func TestKill(t *testing.T) {
	c := Start(t)
	cl, err := client.New(client.Config{Servers: c.URLs(), RetryFor: 60 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg, tails sync.WaitGroup
	acked := make([][]string, writers)
	seen := make([][]string, writers)
	for w := range writers {
		run := event.RunID(fmt.Sprintf("run-%d", w))
		appendOne(t, cl, run, 0, `{"type":"RUN_STARTED"}`)
		wg.Go(func() { acked[w] = writeUntil(ctx, t, cl, run) })
		tails.Go(func() { seen[w] = tail(t, cl, run) })
	}
	rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	for k := range *kills {
		if k%6 == 5 { // all of them
			for i := range 3 {
				c.Kill(i)
			}
			for i := range 3 {
				c.Run(i)
			}
			for i := range 3 {
				c.WaitReady(i)
			}
			continue
		}
		i := rnd.IntN(3)
		c.Kill(i)
		c.Run(i)
		c.WaitReady(i)
	}
	stop()
	wg.Wait()
	tails.Wait()
	total := 0
	for w := range writers {
		run := event.RunID(fmt.Sprintf("run-%d", w))
		total += len(acked[w])
		if got := fmt.Sprint(seen[w]); got != fmt.Sprint(acked[w]) {
			t.Errorf("%s: a tail saw\n%s\nacknowledged were\n%s", run, got, fmt.Sprint(acked[w]))
		}
		for _, url := range c.URLs() {
			if got := readAll(t, url, run); fmt.Sprint(got) != fmt.Sprint(acked[w]) {
				t.Errorf("%s on %s: %d events, acknowledged %d", run, url, len(got), len(acked[w]))
			}
		}
	}
	t.Logf("%d kills, %d events acknowledged", *kills, total)
}

func appendOne(t *testing.T, cl *client.Client, run event.RunID, seq uint64, raw string) {
	_, err := cl.Append(context.Background(), event.Batch{Run: run, Events: []event.Event{{Raw: []byte(raw)}},
		Producer: &event.Producer{ID: "writer", Seq: seq}})
	if err != nil {
		t.Errorf("%s, append %d: %v", run, seq, err)
	}
}

// writeUntil appends until ctx ends, then ends the run.
func writeUntil(ctx context.Context, t *testing.T, cl *client.Client, run event.RunID) []string {
	acked := []string{`{"type":"RUN_STARTED"}`}
	for seq := uint64(1); !t.Failed(); seq++ {
		raw := fmt.Sprintf(`{"type":"CUSTOM","name":"n","value":%d}`, seq)
		last := ctx.Err() != nil
		if last {
			raw = `{"type":"RUN_FINISHED"}`
		}
		appendOne(t, cl, run, seq, raw)
		acked = append(acked, raw)
		if last {
			break
		}
	}
	return acked
}

func tail(t *testing.T, cl *client.Client, run event.RunID) (seen []string) {
	for rec, err := range cl.Tail(context.Background(), run, 0) {
		if err != nil {
			t.Errorf("tail of %s after %d events: %v", run, len(seen), err)
			return seen
		}
		seen = append(seen, string(rec.Raw))
	}
	return seen
}

func readAll(t *testing.T, url string, run event.RunID) (raws []string) {
	cl, err := client.New(client.Config{Servers: []string{url}})
	if err != nil {
		t.Fatal(err)
	}
	for {
		page, err := cl.Events(t.Context(), run, client.EventsQuery{From: event.Offset(len(raws)), Read: client.Read{Linearizable: true}})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Records) == 0 {
			return raws
		}
		for _, r := range page.Records {
			raws = append(raws, string(r.Raw))
		}
	}
}
