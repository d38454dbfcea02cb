package gateway

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/oklog/ulid/v2"
	"github.com/tidwall/gjson"

	"github.com/runlog/runlog/event"
)

// Bounds and defaults of a lease.
const (
	defaultLeaseMs = 15_000
	maxLeaseMs     = 600_000
	maxTakeoverMs  = 86_400_000
)

// createdRun is POST /v1/runs' answer.
type createdRun struct {
	*event.Run
	Created bool `json:"created"`
}

// createRun is POST /v1/runs: it creates a run, or finds the one of that name, or acquires it.
func (g *Gateway) createRun(c *gin.Context) error {
	key, hasKey, err := header(c.Request.Header, "Idempotency-Key")
	if err != nil {
		return err
	}
	if hasKey {
		if err := checkID("header", "Idempotency-Key", key); err != nil {
			return err
		}
	}
	b, err := readBody(c)
	if err != nil {
		return err
	}
	cmd, err := g.parseCreate(b.in, key)
	b.free() // parseCreate copies
	if err != nil {
		return err
	}
	res, err := g.propose(c, *cmd)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if res.Created {
		status = http.StatusCreated
	}
	c.Writer.Header().Set("Location", "/v1/runs/"+escapeSegment(string(cmd.Run)))
	run := g.whole(c, res)
	g.addRemaining(run)
	return writeValue(c, status, createdRun{run, res.Created})
}

// parseCreate reads the request object. Everything that would differ between two nodes, such as a
// new id, is decided here, before the command travels.
func (g *Gateway) parseCreate(b []byte, key string) (*event.CreateRun, error) {
	o, err := newObject(b)
	if err != nil {
		return nil, err
	}
	cmd := &event.CreateRun{
		Run: event.RunID(o.id("runId")), Thread: event.ThreadID(o.id("threadId")),
		Parent: event.RunID(o.id("parentRunId")), Holder: event.HolderID(o.id("holder")),
		TakeoverMs: o.number("takeoverMs", 0, maxTakeoverMs),
		RejectBusy: o.oneOf("onBusy", "allow", "allow", "reject") == "reject",
		Metadata:   o.raw("metadata", gjson.Result.IsObject, "an object"),
		Grammar:    event.Grammar(o.oneOf("grammar", "strict", "strict", "lenient")),
	}
	lease := o.number("leaseMs", g.cfg.MinLease.Milliseconds(), maxLeaseMs)
	started := o.flag("started", true)
	input := o.raw("input", gjson.Result.IsObject, "an object")
	switch {
	case lease != nil && cmd.Holder == "":
		o.fail("leaseMs", "needs a holder")
	case !started && input != nil:
		o.fail("input", "is carried by RUN_STARTED, which started: false does not write")
	case cmd.Holder != "":
		if cmd.LeaseMs = defaultLeaseMs; lease != nil {
			cmd.LeaseMs = *lease
		}
	}
	if o.err != nil {
		return nil, o.err
	}
	if cmd.Run == "" {
		cmd.Run = newRunID(key)
	}
	if cmd.Thread == "" {
		cmd.Thread = event.ThreadID(cmd.Run)
	}
	if key != "" {
		// The holder is part of it: the same key for another holder is another request.
		cmd.Key = event.HashKey("create "+string(cmd.Run)+" "+string(cmd.Holder), key)
	}
	if started {
		cmd.Started, err = runStarted(cmd, input)
	}
	return cmd, err
}

// newRunID returns a new ULID; with an Idempotency-Key, one that is derived from the key, so that
// the request repeated, on whichever node, names the same run.
func newRunID(key string) event.RunID {
	if key == "" {
		return event.RunID(ulid.MustNew(ulid.Timestamp(time.Now()), ulid.DefaultEntropy()).String())
	}
	id := ulid.ULID(event.HashKey("run id", key))
	id[0] &= 0x7f // a ULID's first character holds three bits of time
	return event.RunID(id.String())
}

// runStarted builds the RUN_STARTED event of a new run; input stays as it was sent.
func runStarted(cmd *event.CreateRun, input []byte) (*event.Event, error) {
	raw := append([]byte(nil), `{"type":"RUN_STARTED","threadId":`...)
	raw = appendString(raw, string(cmd.Thread))
	raw = appendString(append(raw, `,"runId":`...), string(cmd.Run))
	if cmd.Parent != "" {
		raw = appendString(append(raw, `,"parentRunId":`...), string(cmd.Parent))
	}
	if input != nil {
		raw = append(append(raw, `,"input":`...), input...)
	}
	raw = append(raw, '}')
	if len(raw) > event.MaxEventBytes {
		return nil, &event.TooLarge{What: "bytes in the RUN_STARTED event", Limit: event.MaxEventBytes}
	}
	e, err := event.ParseEvent(raw)
	if err != nil {
		return nil, &inputError{"body", "input", "cannot be part of an event: " + err.Error()}
	}
	return &e, nil
}
