package gateway

import (
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
)

// Gateway is the HTTP API of one node: an http.Handler.
type Gateway struct {
	cfg     Config
	log     *slog.Logger
	node    Log
	reader  Reader
	cluster Cluster
	leases  Leases  // nil: there are none
	streams Streams // nil: there are none
	threads Threads // nil: there are none
	metrics *metrics

	plain      http.Handler // Gin
	compressed http.Handler // Gin behind gzip and zstd

	tails    chan struct{} // one element per open tail
	replays  chan struct{} // one element per open replay
	folds    chan struct{} // one element per fold under way
	answers  *budget
	pieces   *budget
	draining chan struct{} // closed by Drain
	drain    sync.Once

	replayPatience time.Duration // of tests
}

// New returns the API of the node that cfg names. The node is the caller's to open and close.
func New(cfg Config) (*Gateway, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g := &Gateway{
		cfg: cfg, log: cfg.Logger, node: cfg.Log, reader: cfg.Reader, cluster: cfg.Cluster, leases: cfg.Leases, streams: cfg.Streams, threads: cfg.Threads,
		folds: make(chan struct{}, maxFolds), answers: newBudget(answersBytes), pieces: newBudget(piecesBytes),
		tails: make(chan struct{}, cfg.MaxTails), replays: make(chan struct{}, maxReplays), replayPatience: replayPatience, draining: make(chan struct{}),
	}
	if g.metrics, err = newMetrics(cfg.Registry); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	engine, err := g.newEngine()
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g.plain = engine
	if g.compressed, err = compress(engine); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	return g, nil
}

// ServeHTTP answers one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if wantsCompression(r) {
		g.compressed.ServeHTTP(w, r)
		return
	}
	g.plain.ServeHTTP(w, r)
}

// Drain ends every tail between two events and makes readiness fail; other requests go on. Call
// it before http.Server.Shutdown, which waits for the tails. It does not wait itself.
func (g *Gateway) Drain() {
	g.drain.Do(func() { close(g.draining) })
}

func (g *Gateway) isDraining() bool {
	select {
	case <-g.draining:
		return true
	default:
		return false
	}
}

// newEngine returns Gin with every route.
func (g *Gateway) newEngine() (*gin.Engine, error) {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	// Ids may hold "/", "%", "+" and anything else: segments are matched as they were sent and
	// decoded once, by pathID. Gin's own decoding would read "+" as a space.
	e.UseEscapedPath = true
	e.UnescapePathValues = false
	e.RedirectTrailingSlash = false
	e.HandleMethodNotAllowed = true
	if err := e.SetTrustedProxies(nil); err != nil {
		return nil, err
	}
	for _, r := range g.routes() {
		h := g.handle(r.method+" "+r.path, r.handler)
		e.Handle(r.method, r.path, h)
		if r.method == http.MethodGet {
			e.Handle(http.MethodHead, r.path, h) // net/http keeps the body back
		}
	}
	e.NoRoute(g.handle("unknown", func(*gin.Context) error { return errNoRoute }))
	e.NoMethod(g.handle("unknown", func(c *gin.Context) error {
		if isStreamPath(c.Request.URL.Path) {
			browserHeaders(c.Writer.Header())
		}
		return errNoMethod
	}))
	return e, nil
}
