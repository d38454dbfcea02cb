package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// benchCmd groups the measurements. They write runs of their own, named bench-…, to the cluster.
type benchCmd struct {
	Append  benchAppendCmd  `cmd:"" help:"Acknowledged appends per second, and how long each takes."`
	Streams benchStreamsCmd `cmd:"" help:"Appends to Durable Streams, at any server of the protocol."`
	Tail    benchTailCmd    `cmd:"" help:"How soon a follower's reader sees an isolated event."`
	Length  benchLengthCmd  `cmd:"" help:"Whether a long run is slower to append to than a short one."`
	Floor   benchFloorCmd   `cmd:"" help:"What this machine cannot do faster: the least that one append costs."`
}

// roles is where a cluster's nodes are, as host:port.
type roles struct {
	leader    string
	followers []string
}

// findRoles asks who leads, and waits through an election.
func findRoles(ctx context.Context, cl *client.Client) (roles, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, benchPatience, errors.New("the cluster has no leader"))
	defer cancel()
	for {
		cluster, err := cl.Cluster(ctx)
		if err != nil {
			return roles{}, err
		}
		if r := rolesOf(cluster); r.leader != "" {
			return r, nil
		}
		if pause(ctx, 100*time.Millisecond); ctx.Err() != nil {
			return roles{}, context.Cause(ctx)
		}
	}
}

// benched returns a client for the cluster that is measured, and its roles.
func (c *connection) benched(ctx context.Context) (*client.Client, roles, error) {
	cl, err := c.patient(benchPatience)
	if err != nil {
		return nil, roles{}, err
	}
	r, err := findRoles(ctx, cl)
	return cl, r, err
}

func rolesOf(cluster client.Cluster) roles {
	var r roles
	for _, n := range cluster.Nodes {
		if n.ID == cluster.Leader {
			r.leader = hostPort(n.HTTP)
		} else {
			r.followers = append(r.followers, hostPort(n.HTTP))
		}
	}
	return r
}

// hostPort takes the address out of a URL, or leaves an address as it is.
func hostPort(s string) string {
	if u, err := url.Parse(s); err == nil && u.Host != "" {
		return u.Host
	}
	return strings.TrimSuffix(s, "/")
}

// benchPrefix returns a prefix for run ids that no earlier benchmark used.
func benchPrefix() string { return "bench-" + strings.ToLower(rand.Text()[:8]) }

// benchStart is what a benchmark's run begins with: its start and an open message. The events that
// are measured are the message's deltas, so that the whole of the grammar is at work.
func benchStart(run string) []byte {
	return fmt.Appendf(nil, `[{"type":"RUN_STARTED","threadId":"bench","runId":%q},{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}]`, run)
}

// beginRun makes a run that a benchmark can append to. It takes its time, and is not measured.
func beginRun(ctx context.Context, cl *client.Client, run string) error {
	start, err := event.ParseBody(benchStart(run))
	if err != nil {
		return err
	}
	_, err = cl.Append(ctx, event.Batch{Run: event.RunID(run), Producer: &event.Producer{ID: "bench-start"}, Events: start})
	return err
}

// benchDelta is an event of size bytes, or of the fewest that one can have.
func benchDelta(size int) []byte {
	const head, tail = `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"`, `"}`
	return []byte(head + filler(size-len(head)-len(tail)) + tail)
}

// benchBatch is an append's body: one event, or an array of them.
func benchBatch(event []byte, n int) []byte {
	if n == 1 {
		return event
	}
	return []byte("[" + strings.Repeat(string(event)+",", n-1) + string(event) + "]")
}

// filler is n bytes of text that no compressor finds too easy.
func filler(n int) string {
	const alphabet = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	b := make([]byte, max(n, 1))
	x := uint32(2463534242) // Marsaglia, "Xorshift RNGs" (2003): the same text each time
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = alphabet[x%uint32(len(alphabet))]
	}
	return string(b)
}

// benchPatience bounds what a benchmark does before it measures: the machine may be busy.
const benchPatience = 30 * time.Second

// jsonHeader is the header of a benchmark's requests.
const jsonHeader = "Content-Type: application/json\r\n"

func eventsPath(run string) string { return "/v1/runs/" + url.PathEscape(run) + "/events" }

// positives returns the error of the first flag whose value is less than 1.
func positives(flagsAndValues ...any) error {
	for i := 0; i < len(flagsAndValues); i += 2 {
		if flagsAndValues[i+1].(int) < 1 {
			return positive(flagsAndValues[i].(string))
		}
	}
	return nil
}

func positive(flag string) error { return fmt.Errorf("--%s must be more than 0", flag) }
