package process

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Build identifies a program.
type Build struct {
	Version string `json:"version"`
	// Revision is the commit, with "-dirty" behind it if the work tree had changes.
	Revision  string `json:"revision"`
	GoVersion string `json:"goVersion"`
}

// String is the form in errors and on the command line.
func (b Build) String() string {
	return fmt.Sprintf("%s (revision %s, %s)", b.Version, b.Revision, b.GoVersion)
}

// ThisBuild identifies this program. version and revision are what the linker has set; where they are empty,
// what the Go toolchain knows stands in.
func ThisBuild(version, revision string) Build {
	info, _ := debug.ReadBuildInfo()
	return buildOf(version, revision, info)
}

// buildOf reads what the toolchain has put into a binary, which without git, or in a
// test, is little. info may be nil.
func buildOf(version, revision string, info *debug.BuildInfo) Build {
	if info == nil {
		info = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	module := strings.Trim(info.Main.Version, "()") // which is "(devel)" without git
	b := Build{cmp.Or(version, module, "devel"), cmp.Or(revision, settings["vcs.revision"], "unknown"), info.GoVersion}
	if settings["vcs.modified"] == "true" {
		b.Revision += "-dirty"
	}
	return b
}

// newRegistry has the metrics of every server.
func newRegistry(b Build) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "muniment_build_info", Help: "The program that runs; always 1.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "goversion": b.GoVersion},
	})
	info.Set(1)
	registry.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}
