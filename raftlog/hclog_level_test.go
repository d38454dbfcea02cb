package raftlog

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// TestLevels: what is harmless is not at ERROR, and all else is where raft put it.
func TestLevels(t *testing.T) {
	t.Parallel()
	for msg, c := range map[string]struct {
		args []any
		want string
	}{
		"failed to heartbeat to":                    {[]any{"error", errors.New("refused")}, "level=WARN"},
		"failed to decode incoming command":         {nil, "level=DEBUG"},
		"peer has newer term, stopping replication": {nil, "level=INFO"},
		"failed to get log":                         {[]any{"index", 7, "error", raft.ErrLogNotFound}, "level=INFO"},
		"failed to commit logs":                     {[]any{"error", errors.New("no space")}, "level=ERROR"},
	} {
		var out bytes.Buffer
		newHCLog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))).Error(msg, c.args...)
		if !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %s", msg, out.String())
		}
	}
	var out bytes.Buffer
	newHCLog(slog.New(slog.NewTextHandler(&out, nil))).Error("failed to get log", "error", errors.New("input/output error"))
	if !strings.Contains(out.String(), "level=ERROR") {
		t.Errorf("a log that cannot be read: %s", out.String())
	}
}

// TestMilderMessagesExist: each is one that the pinned version of hashicorp/raft writes.
func TestMilderMessagesExist(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/hashicorp/raft").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(b)
	}
	for msg := range milder {
		if !strings.Contains(source.String(), `"`+msg+`"`) {
			t.Errorf("raft does not say %q", msg)
		}
	}
}
