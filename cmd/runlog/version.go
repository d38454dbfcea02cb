package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// versionCmd prints what this binary was built from.
type versionCmd struct{}

// Run prints one line.
func (versionCmd) Run(t *terminal) error {
	fmt.Fprintf(t.out, "runlog %s %s %s/%s\n", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}

// buildVersion is the module's version, or the commit where it was built from a working tree.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version, dirty := info.Main.Version, ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && (version == "" || version == "(devel)"):
			version = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	if version == "" || version == "(devel)" {
		return "devel"
	}
	return version + dirty
}
