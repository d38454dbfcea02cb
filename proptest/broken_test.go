package proptest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestLawsCatchWhatIsBroken switches mechanisms off, one at a time, in a copy of the source that only the
// compiler sees (go test -overlay), and expects the law that rests on each to fail: a law that
// cannot fail proves nothing. Over nodes and real clients much can go wrong: there the law must also say
// what was to be expected, that a fenced host wrote, or that a replay appends what the log holds.
func TestLawsCatchWhatIsBroken(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the laws once per mechanism; left out with -short")
	}
	for _, c := range []struct{ mechanism, file, was, is, pkg, law, says string }{
		{"the fence", "fsm/apply_append.go", "case epoch != nil && *epoch != r.epoch:", "case epoch != nil && *epoch > r.epoch:", "./proptest", "TestMachineAgreesWithModel", ""},
		{"the duplicate check", "fsm/apply_append.go", "case b.Producer.Epoch > p.known.epoch || b.Producer.Seq > p.known.lastSeq:", "case true:", "./proptest", "TestMachineAgreesWithModel", ""},
		{"the expiry's re-check of the tail", "fsm/apply_lease.go", "r.epoch != epoch || r.tail != tail || r.ended()", "r.epoch != epoch || r.ended()", "./proptest", "TestMachineAgreesWithModel", ""},
		{"the expiry's re-check of the epoch", "fsm/apply_lease.go", "r.epoch != epoch || r.tail != tail || r.ended()", "r.tail != tail || r.ended()", "./proptest", "TestMachineAgreesWithModel", ""},
		{"the fence, over nodes and real clients", "fsm/apply_append.go", "case epoch != nil && *epoch != r.epoch:", "case epoch != nil && *epoch > r.epoch:", "./proptest", "TestTakeoverUnseen", "was told <nil>"},
		{"the alignment", "event/align_place.go", "case a.broken == appendsAll:", "case true:", "./proptest", "TestTakeoverUnseen", "expected the tail at"},
		{"the alignment's comparison", "event/align_place.go", "differs && a.broken != ignoresFields {", "differs && a.broken == ignoresFields {", "./event", "TestDifferenceIsFound", ""},
		{"the lessor's gap rule", "lease/lessor.go", "if sound && elapsed > 0 {", "if elapsed > 0 {", "./lease", "TestLessorAgainstModel", ""},
		{"the skipping of what was applied", "fsm/apply.go", "if l.Index <= m.applied.get() {", "if false {", "./fsm", "TestReplayAfterCrash", ""},
	} {
		t.Run(c.mechanism, func(t *testing.T) {
			t.Parallel()
			out, err := runBroken(t, c.file, c.was, c.is, c.pkg, c.law)
			if err == nil {
				t.Fatalf("%s holds without %s", c.law, c.mechanism)
			}
			if !strings.Contains(out, "--- FAIL: "+c.law) || !strings.Contains(out, c.says) {
				t.Fatalf("%s did not fail as it should, by saying %q: %s", c.law, c.says, out)
			}
		})
	}
}

func runBroken(t *testing.T, file, was, is, pkg, law string) (string, error) {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, filepath.FromSlash(file))
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(source), was) != 1 {
		t.Fatalf("%s no longer says %q once: say here how the mechanism is switched off now", file, was)
	}
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.go")
	if err := os.WriteFile(broken, []byte(strings.Replace(string(source), was, is, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: broken}})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "test", "-overlay", list, "-count=1", "-run", "^"+law+"$", pkg, "-rapid.checks=300", "-rapid.nofailfile", "-rapid.shrinktime=1s")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}
