package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// The tests of the published suite, and those it has of subscriptions, which are opt-in.
const (
	suiteTests        = 332
	subscriptionTests = 6
	// What the reference server of the same release fails: three of sliding TTLs, one of CORS, two of
	// the framing of server-sent events.
	referenceFails = 6
)

// suiteRun is one run of the suite against one URL.
type suiteRun struct {
	name          string
	url           string
	anew          bool // a connection for each request
	subscriptions bool
	filter        string // of test names; "" is all
	fails         int    // how many tests are expected to fail
}

// run runs the suite, whose summary goes to standard output, and returns an error unless exactly
// the expected tests passed.
func (s suiteRun) run(ctx context.Context, dir, temp string) error {
	want := suiteTests - s.fails
	if s.subscriptions {
		want += subscriptionTests
	}
	fmt.Printf("\n== suite against %s, %s\n", s.name, s.url)
	report := filepath.Join(temp, "suite.json")
	args := []string{"vitest", "run", "--reporter=default", "--reporter=json", "--outputFile.json=" + report}
	if s.filter != "" {
		args = append(args, "-t", s.filter)
	}
	cmd := node(ctx, dir, "npx", args...)
	cmd.Env = append(os.Environ(), "CONFORMANCE_TEST_URL="+s.url, "CI=1", "NO_COLOR=1")
	if s.subscriptions {
		cmd.Env = append(cmd.Env, "CONFORMANCE_SUBSCRIPTIONS=1")
	}
	if s.anew {
		cmd.Env = append(cmd.Env, "CONFORMANCE_CONNECT_ANEW=1")
	}
	runErr := cmd.Run() // a failure is known by the count
	b, err := os.ReadFile(report)
	if err != nil {
		return fmt.Errorf("the suite left no report: %w, %w", runErr, err)
	}
	defer os.Remove(report)
	var r struct{ NumPassedTests, NumFailedTests, NumPendingTests int }
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("read the suite's report: %w", err)
	}
	fmt.Printf("%s: %d of %d passed, %d failed, %d not run\n", s.name, r.NumPassedTests, want+s.fails, r.NumFailedTests, r.NumPendingTests)
	if s.filter == "" && r.NumPassedTests != want || r.NumFailedTests != s.fails || r.NumPassedTests == 0 {
		return fmt.Errorf("suite against %s: %d passed and %d failed, want %d and %d", s.name, r.NumPassedTests, r.NumFailedTests, want, s.fails)
	}
	return nil
}
