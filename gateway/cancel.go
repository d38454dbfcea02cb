package gateway

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
)

// Bounds and defaults of a cancel.
const (
	defaultWithinMs = 10_000
	maxWithinMs     = 600_000
	maxReasonBytes  = 1024
)

// cancelRun is POST /v1/runs/{runId}/cancel: it asks for the run's end. The holder sees it in its
// next answer; the cluster sees to it when nobody ends the run in time.
func (g *Gateway) cancelRun(c *gin.Context) error {
	id, err := runID(c)
	if err != nil {
		return err
	}
	o, err := bodyObject(c)
	if err != nil {
		return err
	}
	cmd := event.CancelRun{Run: id, Reason: o.text("reason", maxReasonBytes), WithinMs: defaultWithinMs}
	if n := o.number("withinMs", 0, maxWithinMs); n != nil {
		cmd.WithinMs = *n
	}
	if o.err != nil {
		return o.err
	}
	res, err := g.propose(c, cmd)
	if err != nil {
		return err
	}
	run := g.whole(c, res)
	g.addRemaining(run)
	return writeValue(c, http.StatusAccepted, run)
}
