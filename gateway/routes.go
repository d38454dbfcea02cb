package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/gin-gonic/gin"
)

// handler answers a request, or returns the error whose problem answers it. After it has begun an
// answer it returns nil.
type handler func(c *gin.Context) error

// route is one operation of the API.
type route struct {
	method  string
	path    string // Gin's form
	handler handler
}

// routes joins the lists that stand beside the handlers.
func (g *Gateway) routes() []route {
	var all []route
	for _, group := range [][]route{
		g.serviceRoutes(), g.runRoutes(), g.eventRoutes(), g.replayRoutes(), g.leaseRoutes(), g.projectionRoutes(), g.clusterRoutes(), g.threadRoutes(), g.changeRoutes(),
		g.streamRoutes(),
	} {
		all = append(all, group...)
	}
	return all
}

// handle wraps a handler with what every request gets: recovery, metrics, and the problem of an error.
func (g *Gateway) handle(name string, h handler) gin.HandlerFunc {
	observe := g.metrics.request(name)
	return func(c *gin.Context) {
		start := time.Now()
		defer func() {
			if r := recover(); r != nil {
				g.recovered(c, r)
			}
			observe(c.Writer.Status(), time.Since(start))
		}()
		err := h(c)
		switch {
		case err == nil:
		case errors.Is(err, context.Canceled) && c.Request.Context().Err() != nil:
			c.Writer.WriteHeader(statusClientGone)
		default:
			g.writeProblem(c, err)
		}
	}
}

// statusClientGone is what metrics show of a request whose client left; nobody receives it.
const statusClientGone = 499

// recovered answers a request whose handler panicked. The log says where, and nothing of the request's content.
func (g *Gateway) recovered(c *gin.Context, r any) {
	if r == http.ErrAbortHandler {
		panic(r)
	}
	g.log.Error("handler panicked", "method", c.Request.Method, "route", c.FullPath(),
		"panic", fmt.Sprintf("%T", r), "stack", string(debug.Stack()))
	if c.Writer.Written() {
		panic(http.ErrAbortHandler) // cut the answer off rather than let it look complete
	}
	g.writeProblem(c, errPanic)
}

var errPanic = errors.New("a handler panicked")

// writeJSON answers with JSON that is complete in b.
func writeJSON(c *gin.Context, status int, b []byte) error {
	c.Writer.Header()["Content-Type"] = contentTypeJSON
	c.Writer.WriteHeader(status)
	_, _ = c.Writer.Write(b) // a client that left needs no answer
	return nil
}
