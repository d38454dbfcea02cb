package main

import (
	"net/http"
	"os/exec"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// supervisor builds the example of that name into the script's directory.
func supervisor(ts *testscript.TestScript, neg bool, args []string) {
	if out, err := exec.Command("go", "build", "-o", ts.MkAbs("supervisor"), "../../examples/supervisor").CombinedOutput(); err != nil {
		ts.Fatalf("%v: %s", err, out)
	}
}

// abandon starts a run whose host is never heard of again. Arguments: a node's URL and the run's id.
func abandon(ts *testscript.TestScript, neg bool, args []string) {
	resp, err := http.Post(args[0]+"/v1/runs", "application/json",
		strings.NewReader(`{"runId":"`+args[1]+`","holder":"dead","leaseMs":1000,"takeoverMs":600000}`))
	ts.Check(err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		ts.Fatalf("%s", resp.Status)
	}
}
