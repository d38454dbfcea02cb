package supervise

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// pollEvery is how often readiness is asked for.
const pollEvery = 50 * time.Millisecond

// Ready waits until every node says at /readyz that it can serve: it knows a leader and has caught
// up. It returns an error when ctx is done first, or when a node keeps dying.
func (g *Group) Ready(ctx context.Context) error {
	for _, c := range g.children {
		if err := c.ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// NodeReady waits for one node.
func (g *Group) NodeReady(ctx context.Context, id string) error {
	c, err := g.child(id)
	if err != nil {
		return err
	}
	return c.ready(ctx)
}

func (c *child) ready(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if isReady(ctx, c.node.URL()) {
			c.alive()
			return nil
		}
		if err := c.hopeless(); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("node %s is not ready: %w; see %s", c.node.ID, context.Cause(ctx), c.node.LogPath())
		}
	}
}

func isReady(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
