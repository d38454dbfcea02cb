package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/runlog/runlog/event"
)

const root = ".."

// pages returns the path and text of every page, README.md and AGENTS.md included.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	read := func(path string) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[path] = string(b)
	}
	read(filepath.Join(root, "README.md"))
	read(filepath.Join(root, "AGENTS.md"))
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			read(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var link = regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]*)?\)`)

// anchors returns the fragments that GitHub gives a page's headings.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for line := range strings.Lines(text) {
		heading, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if !ok || line[0] != '#' {
			continue
		}
		slug := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
		found["#"+strings.ReplaceAll(slug, " ", "-")] = true
	}
	return found
}

func TestLinks(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for page, text := range all {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, fragment := m[1], m[2]
			if strings.Contains(target, "://") {
				continue
			}
			path := page
			if target != "" {
				path = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s links to %s, which is not there", page, target)
				continue
			}
			if fragment != "" && !anchors(all[path])[fragment] {
				t.Errorf("%s links to %s%s, which has no such heading", page, target, fragment)
			}
		}
	}
}

func page(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestProblems holds the table of problems to gateway/problem.go: every code, with its status.
func TestProblems(t *testing.T) {
	t.Parallel()
	text := page(t, "reference/http.md")
	source := page(t, filepath.Join(root, "gateway", "problem.go"))
	refusals := ""
	files, err := filepath.Glob(filepath.Join(root, "event", "*refusal.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		refusals += page(t, f)
	}
	codes := map[string]string{} // by the name of the constant
	for _, m := range regexp.MustCompile(`(?i)(code\w+)\s+= "(\w+)"`).FindAllStringSubmatch(source+refusals, -1) {
		codes[m[1]] = m[2]
	}
	rows := regexp.MustCompile(`(?m)^\t(?:event\.)?([cC]ode\w+): +\{status: (\d+)`).FindAllStringSubmatch(source, -1)
	if len(rows) < len(event.RefusalCodes())+5 {
		t.Fatalf("%d problems found", len(rows))
	}
	for _, row := range rows {
		if want := "\n| `" + codes[row[1]] + "` | " + row[2] + " |"; !strings.Contains(text, want) {
			t.Errorf("reference/http.md has no row %q", want)
		}
	}
}

var typeName = regexp.MustCompile(`[A-Z]+(_[A-Z]+)+|RAW|CUSTOM|_[A-Z]+`)

// TestEventNumbers holds the table of event types to the persisted numbers.
func TestEventNumbers(t *testing.T) {
	t.Parallel()
	rows := regexp.MustCompile(`(?m)^\| ([A-Z_, ]+) \| ([0-9, ]+) \|`).FindAllStringSubmatch(page(t, "reference/events.md"), -1)
	seen := map[event.Type]bool{}
	for _, row := range rows {
		names, numbers := typeName.FindAllString(row[1], -1), strings.Split(row[2], ", ")
		if len(names) != len(numbers) {
			t.Errorf("row %q has %d types and %d numbers", row[1], len(names), len(numbers))
			continue
		}
		for i, name := range names {
			if strings.HasPrefix(name, "_") { // TEXT_MESSAGE_START, _END
				name = names[0][:strings.LastIndexByte(names[0], '_')] + name
			}
			if n, _ := strconv.Atoi(numbers[i]); event.TypeOf(name) != event.Type(n) {
				t.Errorf("%s has number %d, not %s", name, event.TypeOf(name), numbers[i])
			}
			seen[event.TypeOf(name)] = true
		}
	}
	for n := event.TypeRunStarted; n < event.TypeThinkingStart; n++ {
		if !seen[n] {
			t.Errorf("%s is not in the table", n)
		}
	}
}

// declared returns the names of all functions and methods of our packages.
func declared(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, folder := range []string{"event", "projection", "fsm", "raftlog", "gateway", "client", "cmd/runlog"} {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files in %s: %v", folder, err)
		}
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					names[fn.Name.Name] = true
				}
			}
		}
	}
	return names
}

var (
	arrow = regexp.MustCompile(`(?m)^ +(?:loop .*|\w+-?->>\w+: (.*))$`)
	// A step's function: lower or upper camel case, perhaps after a receiver or a package.
	function = regexp.MustCompile(`^(?:\w+\.)?([a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]?\w*|[a-z]{4,})$`)
)

// plain are words of the diagrams that name no function of ours.
var plain = map[string]bool{
	"later": true, "then": true, "returns": true, "leader": true, "followers": true, "memory": true, "chunks": true,
	"from": true, "Badger": true, "heartbeats": true, "meanwhile": true, "response": true, "ends": true,
	"events": true, "retry": true, "Result": true,
}

// TestJourneyNamesFunctions holds the diagrams of the journey to the code.
func TestJourneyNamesFunctions(t *testing.T) {
	t.Parallel()
	names := declared(t)
	steps := arrow.FindAllStringSubmatch(page(t, "explanation/journey.md"), -1)
	if len(steps) < 25 {
		t.Fatalf("%d steps found", len(steps))
	}
	checked := 0
	for _, step := range steps {
		for word := range strings.FieldsFuncSeq(step[1], func(r rune) bool { return strings.ContainsRune(" ,:()[]", r) }) {
			m := function.FindStringSubmatch(word)
			if m == nil || plain[m[1]] {
				continue
			}
			checked++
			if !names[m[1]] {
				t.Errorf("step %q: there is no function %s", step[1], m[1])
			}
		}
	}
	if checked < 40 {
		t.Errorf("only %d functions found in the steps", checked)
	}
}

// TestKeyPrefixes holds the table of keys to fsm/keys.go.
func TestKeyPrefixes(t *testing.T) {
	t.Parallel()
	text := page(t, "reference/storage.md")
	keys := regexp.MustCompile(`(?m)^\tkey\w+ += '(\w)'`).FindAllStringSubmatch(page(t, filepath.Join(root, "fsm", "keys.go")), -1)
	if len(keys) < 10 {
		t.Fatalf("%d keys found", len(keys))
	}
	for _, k := range keys {
		if !strings.Contains(text, "\n| `"+k[1]+"`") {
			t.Errorf("reference/storage.md has no row for key %q", k[1])
		}
	}
}

var flagTag = regexp.MustCompile("(?m)^\t([A-Z]\\w*) +\\*?[\\w.\\[\\]]+ +`([^`]*help:[^`]*)`")

// TestFlags holds the pages on flags to the structs that declare them.
func TestFlags(t *testing.T) {
	t.Parallel()
	text := page(t, "reference/cli.md") + page(t, "reference/configuration.md")
	files, err := filepath.Glob(filepath.Join(root, "cmd", "runlog", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range flagTag.FindAllStringSubmatch(page(t, file), -1) {
			if strings.Contains(m[2], "arg:") || strings.Contains(m[2], "cmd:") {
				continue
			}
			found++
			name := kebab(m[1])
			if own := regexp.MustCompile(`name:"([^"]+)"`).FindStringSubmatch(m[2]); own != nil {
				name = own[1]
			}
			if strings.Contains(m[2], "negatable") {
				name = "no-" + name
			}
			if short := strings.Contains(m[2], `short:"o"`); short && strings.Contains(text, "`-o ") {
				continue
			}
			if !strings.Contains(text, "`--"+name) {
				t.Errorf("%s declares --%s, which neither page names", filepath.Base(file), name)
			}
		}
	}
	if found < 40 {
		t.Errorf("only %d flags found", found)
	}
}

// kebab turns a field's name into kong's name for the flag.
func kebab(s string) string {
	words := regexp.MustCompile(`[A-Z]+(?:[a-z0-9]+|$)`).FindAllString(s, -1)
	return strings.ToLower(strings.Join(words, "-"))
}

// TestLimits holds the table of limits to the constants.
func TestLimits(t *testing.T) {
	t.Parallel()
	text := page(t, "reference/storage.md")
	for row, value := range map[string]string{
		"an event's JSON | ":                        fmt.Sprintf("%d MiB, nesting at most %d deep", event.MaxEventBytes>>20, event.MaxDepth),
		"an append's body | ":                       fmt.Sprintf("%d MiB, 1,000 events", event.MaxBatchBytes>>20),
		"metadata of a run | ":                      fmt.Sprintf("%d KiB", event.MaxMetadataBytes>>10),
		"what one entry may change in the state | ": fmt.Sprintf("%d MiB", event.MaxEntryCost>>20),
	} {
		if !strings.Contains(text, "| "+row+value) {
			t.Errorf("reference/storage.md does not say %q", row+value)
		}
	}
	if event.MaxBatchEvents != 1000 || event.MaxEntryCommands != 4096 || event.MaxOpenSpans != 1024 || event.MaxIDBytes != 256 {
		t.Error("a limit changed that reference/storage.md, reference/http.md and reference/events.md name")
	}
}

// TestMetrics holds the page on metrics to the names that the packages declare.
func TestMetrics(t *testing.T) {
	t.Parallel()
	text := page(t, "reference/metrics.md")
	for file, pattern := range map[string]string{
		"fsm/metrics.go":     `Name: "(runlog_\w+)"`,
		"gateway/metrics.go": `name\("(\w+)"\)`,
		"raftlog/metrics.go": `(?:metricsPrefix \+ |gauge\()"(\w+)"`,
	} {
		prefix := map[string]string{"gateway/metrics.go": "runlog_gateway_", "raftlog/metrics.go": "runlog_raftlog_"}[file]
		names := regexp.MustCompile(pattern).FindAllStringSubmatch(page(t, filepath.Join(root, file)), -1)
		if len(names) < 5 {
			t.Errorf("%d metrics found in %s", len(names), file)
		}
		for _, m := range names {
			if !strings.Contains(text, "| `"+prefix+m[1]+"` |") {
				t.Errorf("reference/metrics.md has no row for %s", prefix+m[1])
			}
		}
	}
}
