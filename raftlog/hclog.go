package raftlog

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// hcLog lets hashicorp's libraries log through slog.
type hcLog struct {
	out     *slog.Logger
	name    string
	implied []any
}

func newHCLog(out *slog.Logger) hclog.Logger { return &hcLog{out: out} }

func slogLevel(l hclog.Level) slog.Level {
	switch l {
	case hclog.Error:
		return slog.LevelError
	case hclog.Warn:
		return slog.LevelWarn
	case hclog.Info, hclog.NoLevel:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

func (h *hcLog) enabled(l hclog.Level) bool { return h.out.Enabled(context.Background(), slogLevel(l)) }

// Log writes one line. A lazily formatted argument (hclog.Fmt) is formatted here, after the level was
// found enabled.
func (h *hcLog) Log(l hclog.Level, msg string, args ...any) {
	l = sensible(l, msg, args)
	if !h.enabled(l) {
		return
	}
	for i, a := range args {
		switch a := a.(type) {
		case hclog.Format:
			args[i] = slog.StringValue(fmt.Sprintf(a[0].(string), a[1:]...))
		case hclog.Quote:
			args[i] = string(a)
		}
	}
	h.out.Log(context.Background(), slogLevel(l), msg, args...)
}

func (h *hcLog) Trace(msg string, args ...any) { h.Log(hclog.Trace, msg, args...) }
func (h *hcLog) Debug(msg string, args ...any) { h.Log(hclog.Debug, msg, args...) }
func (h *hcLog) Info(msg string, args ...any)  { h.Log(hclog.Info, msg, args...) }
func (h *hcLog) Warn(msg string, args ...any)  { h.Log(hclog.Warn, msg, args...) }
func (h *hcLog) Error(msg string, args ...any) { h.Log(hclog.Error, msg, args...) }

func (h *hcLog) IsTrace() bool { return h.enabled(hclog.Trace) }
func (h *hcLog) IsDebug() bool { return h.enabled(hclog.Debug) }
func (h *hcLog) IsInfo() bool  { return h.enabled(hclog.Info) }
func (h *hcLog) IsWarn() bool  { return h.enabled(hclog.Warn) }
func (h *hcLog) IsError() bool { return h.enabled(hclog.Error) }

func (h *hcLog) ImpliedArgs() []any { return h.implied }

func (h *hcLog) With(args ...any) hclog.Logger {
	implied := append(h.implied[:len(h.implied):len(h.implied)], args...)
	return &hcLog{h.out.With(args...), h.name, implied}
}

func (h *hcLog) Name() string { return h.name }

func (h *hcLog) Named(name string) hclog.Logger {
	if h.name != "" {
		name = h.name + "." + name
	}
	return h.ResetNamed(name)
}

func (h *hcLog) ResetNamed(name string) hclog.Logger { return &hcLog{h.out, name, h.implied} }

// SetLevel does nothing: the level is the slog handler's.
func (h *hcLog) SetLevel(hclog.Level) {}

func (h *hcLog) GetLevel() hclog.Level {
	for _, l := range []hclog.Level{hclog.Debug, hclog.Info, hclog.Warn} {
		if h.enabled(l) {
			return l
		}
	}
	return hclog.Error
}

func (h *hcLog) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return log.New(h.StandardWriter(nil), "", 0)
}

func (h *hcLog) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return lineWriter{h} }

type lineWriter struct{ h *hcLog }

func (w lineWriter) Write(p []byte) (int, error) {
	w.h.Info(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}
