package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
)

// Deadlines and bounds of the server. Tails and long polls replace the first two by a deadline per
// write.
const (
	readTimeout       = 30 * time.Second // for a whole request, its body included
	writeTimeout      = 60 * time.Second // from the end of a request's header to its answer's end
	readHeaderTimeout = 5 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
)

// NewServer returns an http.Server for the API with deadlines on everything that a client could
// otherwise make last for ever.
func NewServer(h http.Handler, logger *slog.Logger) *http.Server {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &http.Server{
		Handler:           h,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       boundSendBuffer,
		// What net/http reports are clients' broken connections.
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
}

// sendBufferBytes bounds what the kernel holds for one reader. Left alone it grows to megabytes,
// which hundreds of readers that do not read would fill.
const sendBufferBytes = 128 << 10

func boundSendBuffer(ctx context.Context, c net.Conn) context.Context {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBufferBytes) // a connection that is gone already says so when it is used
	}
	return ctx
}

// liftDeadlines lifts the server's deadlines from a request that takes long for a reason.
func liftDeadlines(c *gin.Context) error {
	rc := http.NewResponseController(c.Writer)
	return errors.Join(
		ignoreUnsupported(rc.SetReadDeadline(time.Time{})),
		ignoreUnsupported(rc.SetWriteDeadline(time.Time{})),
	)
}

// restoreDeadline keeps the deadline of a request's last write from ending the connection's next
// request. A server with a WriteTimeout sets a new one for each request by itself.
func restoreDeadline(c *gin.Context) {
	if s, ok := c.Request.Context().Value(http.ServerContextKey).(*http.Server); ok && s.WriteTimeout > 0 {
		return
	}
	_ = http.NewResponseController(c.Writer).SetWriteDeadline(time.Time{})
}
