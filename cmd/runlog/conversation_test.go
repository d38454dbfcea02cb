package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

var conversationRuns = flag.Int("conversation.runs", 6, "runs of the conversation that two tabs follow while nodes are killed")

// wordsPerRun is how much each run says.
const wordsPerRun = 60

// conversation plays a chat over a cluster whose nodes it kills with SIGKILL, one after each run:
// an agent writes run after run, two tabs read the thread, follow it from the cursor and reload now
// and then. It counts what a tab lacks in the end, and what it has twice. Arguments: the directory
// of the nodes, then their URLs.
func conversation(ts *testscript.TestScript, neg bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	runs := *conversationRuns
	var tabs [2]*tab
	var all sync.WaitGroup
	for i := range tabs {
		tabs[i] = &tab{urls: append(args[1+i:], args[1:1+i]...), last: event.Ordinal(runs - 1), every: 40 + 13*i}
		all.Go(func() { tabs[i].err = tabs[i].follow(ctx) })
	}
	writeErr := converse(ctx, args[1:], runs, func(run int) {
		node := fmt.Sprintf("%s/n%d/node.pid", args[0], run%3+1)
		if pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(node))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be dead already
		}
	})
	if writeErr != nil {
		cancel()
	}
	all.Wait()
	ts.Check(writeErr)
	missed, doubled, reloads := 0, 0, 0
	for _, tab := range tabs {
		ts.Check(tab.err)
		m, d := tab.count(runs)
		missed, doubled, reloads = missed+m, doubled+d, reloads+tab.reloads
	}
	fmt.Fprintf(os.Stderr, "conversation: %d runs, %d nodes killed, %d reloads: missed %d, doubled %d\n", runs, runs, reloads, missed, doubled)
	if missed > 0 || doubled > 0 || reloads < 2 {
		ts.Fatalf("missed %d, doubled %d, %d reloads", missed, doubled, reloads)
	}
}

// converse writes the runs, word by word.
func converse(ctx context.Context, urls []string, runs int, ended func(run int)) error {
	cl, err := client.New(client.Config{Servers: urls, RetryFor: 30 * time.Second})
	if err != nil {
		return err
	}
	for i := range runs {
		id := event.RunID(fmt.Sprintf("talk-%d", i))
		if _, err := cl.CreateRun(ctx, client.NewRun{RunID: id, ThreadID: "talk", OnBusy: "reject"}); err != nil {
			return err
		}
		for seq := range wordsPerRun + 2 {
			raw := fmt.Sprintf(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m%d","delta":"%d "}`, i, seq-1)
			switch seq {
			case 0:
				raw = fmt.Sprintf(`{"type":"TEXT_MESSAGE_START","messageId":"m%d","role":"assistant"}`, i)
			case wordsPerRun + 1:
				raw = fmt.Sprintf(`{"type":"TEXT_MESSAGE_END","messageId":"m%d"}`, i)
			}
			batch := event.Batch{Run: id, Producer: &event.Producer{ID: "agent", Seq: uint64(seq)}, Events: []event.Event{{Raw: []byte(raw)}}}
			if seq == wordsPerRun+1 {
				batch.Events = append(batch.Events, event.Event{Raw: []byte(`{"type":"RUN_FINISHED"}`)})
			}
			if _, err := cl.Append(ctx, batch); err != nil {
				return err
			}
		}
		ended(i)
	}
	return nil
}

// tab is one reader: what it shows, by message.
type tab struct {
	urls    []string
	last    event.Ordinal
	every   int // events between two reloads
	reloads int
	shown   map[string]string
	err     error
}

func (t *tab) follow(ctx context.Context) error {
	for done := false; !done; t.reloads++ {
		// A page that is loaded anew has a client of its own, and may ask another node.
		cl, err := client.New(client.Config{Servers: append(t.urls[t.reloads%3:], t.urls[:t.reloads%3]...), RetryFor: 30 * time.Second})
		if err != nil {
			return err
		}
		if done, err = t.load(ctx, cl); err != nil {
			return err
		}
	}
	return nil
}

// load reads the thread and follows it until the next reload, or to the end of the last run.
func (t *tab) load(ctx context.Context, cl *client.Client) (done bool, err error) {
	thread, err := cl.Thread(ctx, "talk", client.ThreadQuery{})
	if err != nil {
		return false, err
	}
	t.shown = map[string]string{}
	for _, m := range thread.Messages {
		t.shown[m.ID] = m.Text()
	}
	if thread.Cursor.Ordinal == t.last && thread.Runs[0].Ended {
		return true, nil
	}
	n := 0
	for rec, err := range cl.ThreadTail(ctx, "talk", thread.Cursor) {
		if err != nil {
			return false, err
		}
		var e struct{ Type, MessageID, Delta string }
		if err := json.Unmarshal(rec.Raw, &e); err != nil {
			return false, err
		}
		t.shown[e.MessageID] += e.Delta
		if e.Type == "RUN_FINISHED" && rec.Cursor.Ordinal == t.last {
			return true, nil
		}
		if n++; n == t.every {
			return false, nil
		}
	}
	return false, ctx.Err()
}

// count compares what the tab shows with what was said.
func (t *tab) count(runs int) (missed, doubled int) {
	for i := range runs {
		times := map[string]int{}
		for _, word := range strings.Fields(t.shown[fmt.Sprintf("m%d", i)]) {
			times[word]++
		}
		for w := range wordsPerRun {
			switch n := times[strconv.Itoa(w)]; {
			case n == 0:
				missed++
			case n > 1:
				doubled += n - 1
			}
		}
	}
	return missed, doubled
}
