package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

// configFile names a JSON object of flags, {"id": "n1", "data": "/var/lib/runlog"}; a list or a
// table may be given as a JSON array or object, or as the string that the flag takes.
type configFile string

// BeforeResolve makes the file's values known to the parser.
func (f configFile) BeforeResolve(app *kong.Kong, ctx *kong.Context, trace *kong.Path) error {
	path := string(ctx.FlagValue(trace.Flag).(configFile))
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	values := map[string]any{}
	if err := json.Unmarshal(b, &values); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	ctx.AddResolver(&fileResolver{path: path, values: values})
	return nil
}

// fileResolver gives flags the values that a file holds, unless the environment has one.
type fileResolver struct {
	path   string
	values map[string]any
}

// Validate refuses a key that is no flag of any command: it is more likely misspelled than meant.
func (r *fileResolver) Validate(app *kong.Application) error {
	known := map[string]bool{}
	err := kong.Visit(app, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			known[flag.Name] = true
		}
		return next(nil)
	})
	if err != nil {
		return err
	}
	for key := range r.values {
		if !known[key] || key == "config" {
			return fmt.Errorf("%s: there is no flag %q", r.path, key)
		}
	}
	return nil
}

// Resolve returns the file's value for a flag, or nil.
func (r *fileResolver) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if _, ok := os.LookupEnv(name); ok {
			return nil, nil
		}
	}
	switch v := r.values[flag.Name].(type) {
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = fmt.Sprint(e)
		}
		return strings.Join(parts, ","), nil
	default:
		return v, nil
	}
}
