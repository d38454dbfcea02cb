package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the binary that the scripts run out of this test binary.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"runlog": main})
}

// TestScript runs the stories in testdata/script with real processes, disks and sockets.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"freeports": freePorts,
			"ready":     waitReady,
			"kill9":     kill9,
			"gone":      gone,
			"appears":   appears,

			"conversation": conversation,
			"supervisor":   supervisor,
			"abandon":      abandon,
			"hangup":       hangUp,
		},
	})
}

// freePorts sets HTTP_PORT and RAFT_PORT to the first of three ports in a row that nobody listens
// on, and N1 to N3 to the nodes' URLs. The ports are below those that the kernel gives to others.
func freePorts(ts *testscript.TestScript, neg bool, args []string) {
	for range 100 {
		base := 20000 + rand.IntN(6000)*2
		if !free(base) || !free(base+3) {
			continue
		}
		ts.Setenv("HTTP_PORT", strconv.Itoa(base))
		ts.Setenv("RAFT_PORT", strconv.Itoa(base+3))
		for i := range 3 {
			ts.Setenv(fmt.Sprintf("N%d", i+1), fmt.Sprintf("http://127.0.0.1:%d", base+i))
		}
		return
	}
	ts.Fatalf("no free ports")
}

func free(base int) bool {
	for i := range 3 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", base+i))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}

// waitReady waits until each URL answers /readyz with 200.
func waitReady(ts *testscript.TestScript, neg bool, urls []string) {
	for _, url := range urls {
		poll(ts, url+" is not ready", func() bool {
			resp, err := http.Get(url + "/readyz")
			if err != nil {
				return false
			}
			resp.Body.Close()
			return resp.StatusCode == http.StatusOK
		})
	}
}

// kill9 kills the process whose id a file holds, and waits until it is gone.
func kill9(ts *testscript.TestScript, neg bool, args []string) {
	pid := readPID(ts, args[0])
	ts.Check(syscall.Kill(pid, syscall.SIGKILL))
	waitGone(ts, pid)
}

// hangUp tells what runs in the background that its terminal is gone.
func hangUp(ts *testscript.TestScript, neg bool, args []string) {
	for _, c := range ts.BackgroundCmds() {
		ts.Check(c.Process.Signal(syscall.SIGHUP))
	}
}

// gone waits until the processes whose ids the files hold are gone, or are waiting for a parent
// that takes note.
func gone(ts *testscript.TestScript, neg bool, files []string) {
	for _, file := range files {
		waitGone(ts, readPID(ts, file))
	}
}

func waitGone(ts *testscript.TestScript, pid int) {
	poll(ts, fmt.Sprintf("process %d does not die", pid), func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		zombie := err == nil && strings.Contains(string(stat), ") Z ")
		return zombie || syscall.Kill(pid, 0) != nil
	})
}

func readPID(ts *testscript.TestScript, file string) int {
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(file)))
	ts.Check(err)
	return pid
}

// appears waits until a file that something writes to holds a text.
func appears(ts *testscript.TestScript, neg bool, args []string) {
	poll(ts, args[1]+" does not appear in "+args[0], func() bool {
		b, err := os.ReadFile(ts.MkAbs(args[0]))
		return err == nil && strings.Contains(string(b), args[1])
	})
}

// poll asks again and again until done says yes, for a minute at most.
func poll(ts *testscript.TestScript, failure string, done func() bool) {
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("%s", failure)
		}
	}
}
