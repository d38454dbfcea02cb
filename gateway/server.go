package gateway

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
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
		// What net/http reports are clients' broken connections.
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
}

// CheckListen returns an error if addr, host:port, can be reached from another machine and
// insecure is not set: the API has no access control.
func CheckListen(addr string, insecure bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("listen address %q: %w", addr, err)
	}
	if insecure || host == "localhost" {
		return nil
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("listen address %q is not on loopback, and there is no access control: "+
		"whoever reaches it can read and write every run; say --insecure to accept that", addr)
}
