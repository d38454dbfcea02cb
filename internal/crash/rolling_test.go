package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// TestRollingRestart restarts each node in turn, the way a supervisor does, under writers and tails
// through all nodes: the client reports no failure, and nothing is lost, doubled or out of order.
// Beside them callers that try once, as curl does, are counted.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	g := found(t, 3)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var writing, tailing, once sync.WaitGroup
	acked, seen := make([][]string, writers), make([][]string, writers)
	for w := range writers {
		run := event.RunID(fmt.Sprintf("run-%d", w))
		urls := strings.Split(g.urls(), ",")
		cl, err := client.New(client.Config{Servers: append(urls[w%3:], urls[:w%3]...), RetryFor: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		appendOne(t, cl, run, 0, `{"type":"RUN_STARTED"}`)
		writing.Go(func() { acked[w] = writeUntil(ctx, t, cl, run) })
		tailing.Go(func() { seen[w] = tail(t, cl, run) })
	}
	var tries, refused, broken, failed atomic.Int64
	g.connect()
	for _, n := range g.nodes {
		appendOne(t, g.cl, onceRun(n.URL()), 0, `{"type":"RUN_STARTED"}`)
		once.Go(func() {
			for ctx.Err() == nil {
				tries.Add(1)
				switch status, err := appendPlainly(ctx, n.URL()); {
				case errors.Is(err, syscall.ECONNREFUSED):
					refused.Add(1)
				case err != nil && ctx.Err() == nil:
					broken.Add(1)
					t.Logf("%s: %v", n.ID, err)
				case err == nil && status >= 400:
					failed.Add(1)
					t.Logf("%s answered %d", n.ID, status)
				}
			}
		})
	}
	for range 2 {
		for _, n := range g.nodes {
			n.Stop()
			n.Serve("--bootstrap", g.bootstrap())
			n.WaitReady()
		}
	}
	stop()
	writing.Wait()
	once.Wait()
	tailing.Wait()
	total := 0
	for w := range writers {
		total += len(acked[w])
		if got := fmt.Sprint(seen[w]); got != fmt.Sprint(acked[w]) {
			t.Errorf("run-%d: a tail saw %d events, acknowledged were %d", w, len(seen[w]), len(acked[w]))
		}
		for _, n := range g.nodes {
			g.holds(n, event.RunID(fmt.Sprintf("run-%d", w)), len(acked[w]))
		}
	}
	if failed.Load() > 0 {
		t.Errorf("%d single attempts were answered with an error", failed.Load())
	}
	t.Logf("6 restarts: %d events acknowledged through the client; %d single attempts, of which %d found nobody listening, %d were cut off and %d answered with an error",
		total, tries.Load(), refused.Load(), broken.Load(), failed.Load())
}

// onceRun names the run that is written through one node by callers that try once.
func onceRun(url string) event.RunID {
	return event.RunID("once-" + strings.NewReplacer(":", "-", "/", "-").Replace(strings.TrimPrefix(url, "http://")))
}

// appendPlainly tries once to append to a run of its own.
func appendPlainly(ctx context.Context, url string) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	body := `{"type":"CUSTOM","name":"n","value":1}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/runs/"+string(onceRun(url))+"/events", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Close = true // curl has no connection to come back to
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// TestRollingUpgrade runs a cluster in which one node knows older commands only: newer ones wait for
// it, and an old build is kept out once the cluster has gone on.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	g := &group{t: t, dir: t.TempDir()}
	for i := range 3 {
		g.nodes = append(g.nodes, NewNode(t, g.dir, fmt.Sprintf("n%d", i+1)))
	}
	old := []string{"--bootstrap", g.bootstrap(), "--level", "1"}
	for _, n := range g.nodes {
		n.Serve(old...)
	}
	for _, n := range g.nodes {
		n.WaitReady()
	}
	g.connect()
	level := func() uint64 {
		c, err := g.cl.Cluster(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c.Level
	}
	for i, n := range g.nodes {
		if got := level(); got != 1 {
			t.Errorf("with %d nodes upgraded the level is %d", i, got)
		}
		var p *client.Problem
		if _, err := g.cl.AddNode(t.Context(), client.NewNode{ID: "n4", Raft: "127.0.0.1:1"}); !errors.As(err, &p) || !strings.Contains(p.Detail, "upgrade all of them") {
			t.Errorf("with %d nodes upgraded a node is added: %v", i, err)
		}
		g.fill(event.RunID(fmt.Sprintf("r%d", i)), 10)
		n.Stop()
		n.Serve("--bootstrap", g.bootstrap())
		n.WaitReady()
	}
	g.nodes[0].Eventually("the level is 2", func() bool { return level() == 2 })
	for i := range g.nodes {
		g.holds(g.nodes[0], event.RunID(fmt.Sprintf("r%d", i)), 10)
	}
	n := g.nodes[2]
	n.Eventually("n3 has the level", func() bool {
		c, err := Command(t, "cluster", "status", "--server", n.URL(), "-o", "json")
		return err == nil && strings.Contains(c, `"level": 2`)
	})
	n.Stop()
	n.Serve(old...)
	if code := n.Exited(); code != 1 || !strings.Contains(n.Log(), "run a newer build") {
		t.Errorf("an old build in an upgraded cluster: exit code %d\n%s", code, n.Log())
	}
}
