package crash

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

var hosts = flag.Int("hosts", 20, "how many hosts TestHostKilled kills")

const (
	hostLease = 1500 * time.Millisecond
	hostEnv   = "RUNLOG_CRASH_HOST" // "<run> <server>,…": this process is a host, not a test
)

// TestMain lets the test binary play the host that is killed.
func TestMain(m *testing.M) {
	if spec := os.Getenv(hostEnv); spec != "" {
		host(spec)
		return
	}
	if spec := os.Getenv(agentEnv); spec != "" {
		playAgent(spec)
	}
	os.Exit(m.Run())
}

// host holds a run, opens a message and a call, and streams until it is killed.
func host(spec string) {
	run, servers, _ := strings.Cut(spec, " ")
	c, err := client.New(client.Config{Servers: strings.Split(servers, ",")})
	if err != nil {
		panic(err)
	}
	h, err := c.Start(context.Background(), client.NewRun{RunID: event.RunID(run), Holder: event.HolderID("host of " + run), LeaseMs: hostLease.Milliseconds()})
	if err != nil {
		panic(err)
	}
	for i := 0; ; i++ {
		raw := `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"}`
		switch i {
		case 0:
			raw = `{"type":"TEXT_MESSAGE_START","messageId":"m"}`
		case 1:
			raw = `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"n"}`
		}
		if _, err := h.Append(context.Background(), event.Event{Raw: []byte(raw)}); err != nil {
			panic(err)
		}
		time.Sleep(20 * time.Millisecond) // a model's pace
	}
}

// TestHostKilled kills hosts with SIGKILL in the middle of a run (R2_1, R2_3, R2_6): each run
// ends by itself, once, its call interrupted, for a reader who was there all the time.
func TestHostKilled(t *testing.T) {
	c := Start(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cl, err := client.New(client.Config{Servers: c.URLs(), RetryFor: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var took []time.Duration
	slots := make(chan struct{}, 5)
	var wg sync.WaitGroup
	for k := range *hosts {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			d := killHost(t, cl, self, fmt.Sprintf("run-%d %s", k, strings.Join(c.URLs(), ",")))
			mu.Lock()
			defer mu.Unlock()
			took = append(took, d)
		})
	}
	wg.Wait()
	slices.Sort(took)
	t.Logf("%d hosts killed; kill to visible end: p50 %v, p99 %v, max %v (lease %v, window 0)", len(took),
		took[len(took)/2].Round(time.Millisecond), took[len(took)*99/100].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond), hostLease)
}

// killHost starts a host, kills it once a reader has seen some of its events, and returns how long after
// the kill that reader saw the end.
func killHost(t *testing.T, cl *client.Client, self, spec string) time.Duration {
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), hostEnv+"="+spec)
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return 0
	}
	name, _, _ := strings.Cut(spec, " ")
	run := event.RunID(name)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) { // poll
		if r, err := cl.Run(context.Background(), run, client.View{}); err == nil && r.Tail > 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("%s never began", run)
			break
		}
	}
	killAfter := 3 + rand.IntN(30)
	var killed time.Time
	var raws []string
	for rec, err := range cl.Tail(context.Background(), run, 0) {
		if err != nil {
			t.Errorf("%s: %v", run, err)
			break
		}
		raws = append(raws, string(rec.Raw))
		if len(raws) == killAfter {
			killed = time.Now()
			_ = cmd.Process.Kill()
		}
	}
	took := time.Since(killed)
	_ = cmd.Wait() // says "signal: killed"
	all := strings.Join(raws, "\n")
	for what, want := range map[string]int{`"code":"host_lost"`: 1, `"c-result"`: 1, `"TEXT_MESSAGE_END"`: 1, `"TOOL_CALL_END"`: 1, "RUN_FINISHED": 0} {
		if got := strings.Count(all, what); got != want {
			t.Errorf("%s: %s is there %d times, want %d:\n%s", run, what, got, want, all)
		}
	}
	return took
}
