package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
)

// version is set by the linker (-X main.version=v1.2.0): the Makefile does so if git describes
// a tag. Else the version is what the Go toolchain has put into the binary. A release is built
// without git: its revision is set in the same way.
var version, revision string

// build identifies this program.
type build struct {
	Version string `json:"version"`
	// Revision is the commit, with "-dirty" behind it if the work tree had changes.
	Revision  string `json:"revision"`
	GoVersion string `json:"goVersion"`
}

// String is the form in errors and on the command line.
func (b build) String() string {
	return fmt.Sprintf("%s (revision %s, %s)", b.Version, b.Revision, b.GoVersion)
}

func thisBuild() build {
	info, _ := debug.ReadBuildInfo()
	return buildOf(version, revision, info)
}

// buildOf reads what the toolchain has put into a binary, which without git, or in a
// test, is little. info may be nil.
func buildOf(version, revision string, info *debug.BuildInfo) build {
	if info == nil {
		info = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	module := strings.Trim(info.Main.Version, "()") // which is "(devel)" without git
	b := build{cmp.Or(version, module, "devel"), cmp.Or(revision, settings["vcs.revision"], "unknown"), info.GoVersion}
	if settings["vcs.modified"] == "true" {
		b.Revision += "-dirty"
	}
	return b
}

type versionCmd struct {
	JSON bool `help:"Print one JSON object."`
}

// Run prints the version.
func (c *versionCmd) Run(out io.Writer) error {
	if c.JSON {
		return json.NewEncoder(out).Encode(thisBuild())
	}
	_, err := fmt.Fprintln(out, "muniment", thisBuild())
	return err
}
