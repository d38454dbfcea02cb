package arch

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/runlog/runlog/"

// ours says which packages of this module a folder's shipped code may import. A folder that is
// not listed may import none.
var ours = map[string][]string{
	"event":      {},
	"projection": {"event"},
	"fsm":        {"event", "projection", "internal/watchdog"},
	"raftlog":    {"event", "fsm", "lease", "internal/watchdog"},
	"lease":      {"event"},
	"gateway":    {"event", "projection", "raftlog", "docs"},
	"client":     {"event"},
	"docs":       {},
	"cmd/runlog": {"event", "projection", "fsm", "raftlog", "lease", "gateway", "client"},
}

// homes says where an engine may be imported; tests may use rapid everywhere.
var homes = map[string][]string{
	"github.com/dgraph-io/badger/":         {"fsm"},
	"github.com/hashicorp/raft":            {"raftlog", "fsm"},
	"github.com/hashicorp/raft-boltdb":     {"raftlog"},
	"github.com/hashicorp/raft-wal":        {"raftlog"},
	"go.etcd.io/bbolt":                     {"raftlog"},
	"github.com/gin-gonic/gin":             {"gateway"},
	"github.com/alecthomas/kong":           {"cmd/runlog"},
	"pgregory.net/rapid":                   {},
	"github.com/getkin/kin-openapi/":       {},
	"github.com/rogpeppe/go-internal/":     {},
	"github.com/prometheus/client_golang/": {"fsm", "raftlog", "gateway", "cmd/runlog"},
}

// free folders are about the others and may import all of ours.
func free(folder string) bool {
	for _, f := range []string{"internal", "proptest", "conformance", "examples"} {
		if folder == f || strings.HasPrefix(folder, f+"/") {
			return true
		}
	}
	return false
}

func TestImports(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	files := map[string]int{} // shipped Go files by folder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "testdata" || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		folder = filepath.ToSlash(folder)
		if !strings.HasSuffix(path, "_test.go") {
			files[folder]++
		}
		return checkFile(t, folder, path)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, must := range []string{"event", "projection", "fsm", "raftlog", "gateway", "client", "cmd/runlog"} {
		if files[must] == 0 {
			t.Errorf("no package in %s", must)
		}
	}
	for folder, n := range files { // a package of one file documents itself there
		if _, err := os.Stat(filepath.Join(root, folder, "doc.go")); err != nil && n > 1 {
			t.Errorf("%s has no doc.go", folder)
		}
	}
}

func checkFile(t *testing.T, folder, path string) error {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		return err
	}
	test := strings.HasSuffix(path, "_test.go")
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		if rest, ok := strings.CutPrefix(imported, module); ok && !test && !free(folder) {
			if !slices.Contains(ours[top(folder)], top(rest)) && top(rest) != top(folder) {
				t.Errorf("%s imports %s", path, rest)
			}
		}
		if home, ok := homeOf(imported); ok && !test && !free(folder) && !slices.Contains(home, top(folder)) {
			t.Errorf("%s imports %s, which has its home in %v", path, imported, home)
		}
		if base := filepath.Base(imported); strings.HasPrefix(imported, module) && slices.Contains([]string{"util", "utils", "common", "helpers", "types", "manager"}, base) {
			t.Errorf("%s imports %s: name it after its idea", path, imported)
		}
	}
	return nil
}

// top returns the folder whose rules apply: its first element, or two under cmd and internal.
func top(folder string) string {
	parts := strings.SplitN(folder, "/", 3)
	if (parts[0] == "cmd" || parts[0] == "internal") && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

// homeOf returns the folders where a package of an engine may be imported; the longest prefix counts.
func homeOf(imported string) (home []string, ok bool) {
	longest := -1
	for prefix, folders := range homes {
		if (imported == prefix || strings.HasPrefix(imported, prefix)) && len(prefix) > longest {
			home, ok, longest = folders, true, len(prefix)
		}
	}
	return home, ok
}
