package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runlog runs a command line in this process.
func runlog(args ...string) (code int, out, err string) {
	var o, e bytes.Buffer
	code = run(context.Background(), args, &terminal{strings.NewReader(""), &o, &e})
	return code, o.String(), e.String()
}

// TestExitCodes: a wrong command line is 2, a failure 1, and both say why in one line.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]struct {
		code int
		err  string
	}{
		"version":                     {0, ""},
		"":                            {0, ""},
		"bench append --help":         {0, ""},
		"nonsense":                    {2, "unexpected argument nonsense"},
		"transcript":                  {2, "name a run or a --thread"},
		"tail r --output=xml":         {2, "--output must be one of"},
		"append r --batch 0":          {2, "--batch must be between 1 and 1000"},
		"runs --server 127.0.0.1":     {2, "is not an http:// or https:// URL"},
		"serve --id n1":               {2, "--data"},
		"bench append --writers 0":    {2, "--writers must be more than 0"},
		"bench append --writers=4,-1": {2, "--writers must be more than 0"},
		"bench append --batch 0":      {2, "--batch must be more than 0"},
		"bench append --duration 0s":  {2, "--duration must be more than 0"},
		"bench length --rounds 0":     {2, "--rounds must be more than 0"},
		"bench tail --events 0":       {2, "--events must be more than 0"},
		"bench floor --rounds=-1":     {2, "--rounds must be more than 0"},
		"cancel r --within=-1s":       {2, "--within must not be negative"},
		"lease acquire r":             {2, "--holder"},
		"lease renew r":               {2, "--epoch"},
		"serve --id n1 --data /nowhere --http 0.0.0.0:4437":           {2, "--insecure allows it"},
		"serve --id n1 --data /nowhere --http 4437":                   {2, "is not host:port"},
		"serve --id n1 --data /nowhere --debug-addr 0.0.0.0:1":        {2, "must be a loopback address"},
		"serve --id n1 --data /nowhere --bootstrap n1=127.0.0.1:1":    {2, "is not ID=RAFT@HTTP"},
		"serve --id n1 --data /nowhere --log-store paper":             {2, "--log-store must be one of"},
		"--config /nowhere/c.json version":                            {2, "no such file"},
		"append r /nowhere/events.ndjson --server http://127.0.0.1:1": {1, "no such file"},
		"cluster status --server http://127.0.0.1:1":                  {1, "no server took the request"},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			code, out, err := runlog(strings.Fields(args)...)
			if code != want.code || !strings.Contains(err, want.err) {
				t.Errorf("code %d, %q", code, err)
			}
			if code != 0 && (out != "" || strings.Count(err, "\n") != 1) {
				t.Errorf("output %q, errors %q", out, err)
			}
		})
	}
}

func parseServe(t *testing.T, file string, args ...string) (*commandLine, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.json")
	if err := os.WriteFile(path, []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	var cl commandLine
	if _, err := newParser(&cl).Parse(append([]string{"--config", path, "serve"}, args...)); err != nil {
		return nil, err.Error()
	}
	return &cl, ""
}

// TestConfig: the command line wins over the environment, the environment over the file, the file
// over the defaults.
func TestConfig(t *testing.T) {
	t.Setenv("RUNLOG_LOG_LEVEL", "warn")
	t.Setenv("RUNLOG_RAFT", "127.0.0.1:2")
	cl, err := parseServe(t, `{"id":"n9","data":"/d","bootstrap":["n9=a:1@b:2","n8=c:3@d:4"],"log-level":"debug","election-timeout":"2s",
		"memory-limit":64,"insecure":true,"raft":"127.0.0.1:1","http":"127.0.0.1:1"}`, "--http", "127.0.0.1:3")
	if err != "" {
		t.Fatal(err)
	}
	s := cl.Serve
	if s.ID != "n9" || s.ElectionTimeout.String() != "2s" || s.MemoryLimit != 64 || !s.Insecure || s.LogStore != "wal" || len(s.Bootstrap) != 2 {
		t.Errorf("from the file: %+v", s)
	}
	if s.LogLevel != "warn" || s.Raft != "127.0.0.1:2" {
		t.Errorf("from the environment: %+v", s)
	}
	if s.HTTP != "127.0.0.1:3" {
		t.Errorf("from the command line: %+v", s)
	}
}

// TestConfigMisspelled: a key that is no flag is refused, not ignored.
func TestConfigMisspelled(t *testing.T) {
	t.Parallel()
	if _, err := parseServe(t, `{"id":"n1","data":"/d","log_level":"debug"}`); !strings.Contains(err, `there is no flag "log_level"`) {
		t.Error(err)
	}
	if _, err := parseServe(t, `{"id":`); !strings.Contains(err, "c.json") {
		t.Error(err)
	}
}

// TestMembers: the list is read as it is written, and what is not one is named.
func TestMembers(t *testing.T) {
	t.Parallel()
	m, err := parseMembers([]string{"n1=127.0.0.1:5437@127.0.0.1:4437", "n2=[::1]:5437@h:80"})
	if err != nil || len(m) != 2 || m[0].ID != "n1" || m[0].Raft != "127.0.0.1:5437" || m[0].HTTP != "127.0.0.1:4437" || m[1].Raft != "[::1]:5437" {
		t.Fatalf("%+v, %v", m, err)
	}
	for _, bad := range []string{"", "n1", "n1=a:1", "=a:1@b:2", "n1=@b:2", "n1=a:1@"} {
		if _, err := parseMembers([]string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestLoopback: what other machines can reach is not loopback, whatever its name.
func TestLoopback(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true,
		"0.0.0.0:1": false, ":1": false, "[::]:1": false, "10.0.0.1:1": false, "example.com:1": false, "nonsense": false,
	} {
		if loopback(addr) != want {
			t.Errorf("loopback(%q) is %t", addr, !want)
		}
	}
}
