package gateway

import (
	"context"
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/raftlog"
)

// releasesAtOnce bounds the releases of one request that are on their way together.
const releasesAtOnce = 64

// renewedRun is one run of PUT /v1/leases' answer.
type renewedRun struct {
	RunID           event.RunID `json:"runId"`
	OK              bool        `json:"ok"`
	Code            string      `json:"code,omitempty"`
	ExpiresInMs     *int64      `json:"expiresInMs,omitempty"`
	CancelRequested bool        `json:"cancelRequested,omitempty"`
}

// renewLeases is PUT /v1/leases: a host renews all its runs in one request. A run that is not its
// any more does not keep the others from being renewed.
func (g *Gateway) renewLeases(c *gin.Context) error {
	o, err := bodyObject(c)
	if err != nil {
		return err
	}
	o.required("holder")
	term := int64(0)
	if n := o.number("leaseMs", g.cfg.MinLease.Milliseconds(), maxLeaseMs); n != nil {
		term = *n
	}
	renewals := o.renewals("runs", term)
	if o.err != nil {
		return o.err
	}
	answer := struct {
		Runs []renewedRun `json:"runs"`
	}{make([]renewedRun, len(renewals))}
	if len(renewals) > 0 {
		results, err := g.leases.Renew(c.Request.Context(), renewals)
		if err != nil {
			return err
		}
		for i, r := range results {
			answer.Runs[i] = renewedRun{RunID: renewals[i].Run, OK: r.Refusal == nil, CancelRequested: r.CancelRequested}
			if r.Refusal != nil {
				answer.Runs[i].Code = r.Refusal.Code()
			} else {
				answer.Runs[i].ExpiresInMs = &r.ExpiresInMs
			}
		}
	}
	return writeValue(c, http.StatusOK, answer)
}

// renewals reads a member that lists runs and their epochs.
func (o *object) renewals(name string, leaseMs int64) []raftlog.Renewal {
	list, ok := o.get(name)
	if !ok || !list.IsArray() {
		o.fail(name, "must be an array of {runId, epoch}")
		return nil
	}
	var renewals []raftlog.Renewal
	list.ForEach(func(_, v gjson.Result) bool {
		run := v.Get("runId")
		epoch, whole := parseNumber(v.Get("epoch").Raw)
		if run.Type != gjson.String || !whole || event.CheckID("runId", run.Str) != nil || event.HalfSurrogate(run.Raw) {
			o.fail(name, "must hold objects with a runId and an epoch; element "+itoa(len(renewals))+" is none")
			return false
		}
		renewals = append(renewals, raftlog.Renewal{Run: event.RunID(run.Str), Epoch: event.Epoch(epoch), LeaseMs: leaseMs})
		return true
	})
	return renewals
}

// releaseLeases is DELETE /v1/leases: a host that is about to stop gives up all its runs in one
// request. One that somebody else acquired meanwhile is left out of the answer.
func (g *Gateway) releaseLeases(c *gin.Context) error {
	o, err := bodyObject(c)
	if err != nil {
		return err
	}
	holder := event.HolderID(o.required("holder"))
	window := o.number("takeoverMs", 0, maxTakeoverMs)
	if o.err != nil {
		return o.err
	}
	ctx := c.Request.Context()
	if err := g.settle(ctx, "", freshness{linearizable: true}); err != nil {
		return err
	}
	runs, err := g.leases.HolderRuns(holder)
	if err != nil {
		return err
	}
	released, err := g.release(ctx, runs, window)
	if err != nil {
		return err
	}
	answer := struct {
		Runs []*event.Run `json:"runs"`
	}{[]*event.Run{}}
	index := uint64(0)
	for _, res := range released {
		if res.Run != nil {
			res.Run.Open = nil
			answer.Runs = append(answer.Runs, res.Run)
		}
		index = max(index, res.Index)
	}
	g.setToken(c, index)
	return writeValue(c, http.StatusOK, answer)
}

// release releases leases at the epochs that were seen; results without a run were refused.
func (g *Gateway) release(ctx context.Context, runs []event.LeaseView, window *int64) ([]event.Result, error) {
	results := make([]event.Result, len(runs))
	var group errgroup.Group
	group.SetLimit(releasesAtOnce)
	for i, v := range runs {
		group.Go(func() error {
			res, err := g.node.Propose(ctx, event.ReleaseLease{Run: v.Run, Epoch: v.Epoch, TakeoverMs: window})
			if err != nil {
				return err
			}
			if res.Refusal != nil && !errors.Is(res.Refusal, event.ErrFenced) && !errors.Is(res.Refusal, event.ErrRunDeleted) {
				return res.Refusal
			}
			results[i] = res
			return nil
		})
	}
	return results, group.Wait()
}
