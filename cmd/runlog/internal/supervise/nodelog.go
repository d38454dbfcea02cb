package supervise

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// Bounds of what a nodeLog keeps.
const (
	keptLines    = 8
	maxLineBytes = 4096
)

// nodeLog takes a child's output: all of it goes to its file, lines that report an error to the
// person watching, and the last lines are kept for when it does not start. The raft library's own
// errors are left to the file: to it, a peer that is away is an error several times a second.
type nodeLog struct {
	file   io.Writer
	report func(string)

	mu   sync.Mutex
	part []byte // a line that is not complete
	kept []string
}

// Write never fails: a full disk must not block the child that fills it.
func (l *nodeLog) Write(p []byte) (int, error) {
	l.file.Write(p)
	l.mu.Lock()
	defer l.mu.Unlock()
	for rest := p; ; {
		line, after, found := bytes.Cut(rest, []byte("\n"))
		l.part = append(l.part, line[:min(len(line), maxLineBytes-len(l.part))]...)
		if !found {
			return len(p), nil
		}
		l.line(string(l.part))
		l.part, rest = l.part[:0], after
	}
}

func (l *nodeLog) line(s string) {
	if len(l.kept) == keptLines {
		l.kept = append(l.kept[:0], l.kept[1:]...)
	}
	l.kept = append(l.kept, s)
	isError := strings.Contains(s, "level=ERROR") || strings.Contains(s, `"level":"ERROR"`)
	raft := strings.Contains(s, "component=raft") || strings.Contains(s, `"component":"raft`)
	if isError && !raft || strings.HasPrefix(s, "panic:") {
		l.report(s)
	}
}

// last returns the last lines.
func (l *nodeLog) last() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.kept...)
}
