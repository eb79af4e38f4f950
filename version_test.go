package main

import (
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment/bench/system/systemtest"
	"muniment/gateway/api"
)

func TestBuildOf(t *testing.T) {
	of := func(main string, settings ...string) *debug.BuildInfo {
		info := &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Path: "muniment", Version: main}}
		for i := 0; i < len(settings); i += 2 {
			info.Settings = append(info.Settings, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return info
	}
	for _, c := range []struct {
		name             string
		linked, revision string
		info             *debug.BuildInfo
		want             string
	}{
		{"of a tag", "", "", of("v1.2.0", "vcs.revision", "c9f006e", "vcs.modified", "false"), "v1.2.0 (revision c9f006e, go1.26.8)"},
		{"of a changed work tree", "", "", of("v1.2.1-0.20261121040000-c9f006e+dirty", "vcs.revision", "c9f006e", "vcs.modified", "true"),
			"v1.2.1-0.20261121040000-c9f006e+dirty (revision c9f006e-dirty, go1.26.8)"},
		{"as the linker sets it", "v1.2.0-3-gc9f006e", "", of("(devel)", "vcs.revision", "c9f006e"), "v1.2.0-3-gc9f006e (revision c9f006e, go1.26.8)"},
		{"without git", "", "", of("(devel)"), "devel (revision unknown, go1.26.8)"},
		{"without git, as the linker sets it", "v1.2.0", "", of(""), "v1.2.0 (revision unknown, go1.26.8)"},
		{"of a release", "v1.2.0", "c9f006e", of("(devel)"), "v1.2.0 (revision c9f006e, go1.26.8)"},
		{"of which nothing is known", "", "", nil, "devel (revision unknown, " + runtime.Version() + ")"},
	} {
		require.Equal(t, c.want, buildOf(c.linked, c.revision, c.info).String(), c.name)
	}
}

// TestVersion requests the version wherever it is shown.
func TestVersion(t *testing.T) {
	t.Parallel()
	b := systemtest.Parse[build](t, systemtest.Command(t, "version", "--json"))
	require.Equal(t, "muniment "+b.String()+"\n", systemtest.Command(t, "version"))

	s := systemtest.Shared(t).Server
	do := func(url, path string) string {
		return systemtest.Call(t, url, "", systemtest.Operation{Method: "GET", Path: path}).Body
	}
	contract := systemtest.Parse[struct {
		Data struct{ Version, ContractVersion string }
	}](t, do(s.API, "/v1"))
	require.Equal(t, b.Version, contract.Data.Version)
	require.Equal(t, "v1.0", contract.Data.ContractVersion)
	document := systemtest.Parse[struct{ Info struct{ Version string } }](t, do(s.API, "/openapi.json"))
	require.Equal(t, contract.Data.ContractVersion+".0", "v"+document.Info.Version)
	require.Contains(t, do(s.Admin, "/metrics"), "\nmuniment_build_info{"+
		`goversion="`+b.GoVersion+`",revision="`+b.Revision+`",version="`+b.Version+`"} 1`+"\n")
}

// TestVersionsAgree: the changelog's newest entry, from which a release takes its version, is the
// chart's, and names the contract's, as stability.md does. Each entry has a data folder for TestUpgrade.
func TestVersionsAgree(t *testing.T) {
	entries := regexp.MustCompile(`(?ms)^## v(\S+)\n(.*?)(?:^## |\z)`).FindAllStringSubmatch(string(systemtest.ReadFile(t, "deploy/CHANGELOG.md")), -1)
	require.NotEmpty(t, entries)
	newest := entries[0]
	require.Contains(t, newest[2], "Wire contract "+api.ContractVersion+".")
	require.Contains(t, string(systemtest.ReadFile(t, "deploy/stability.md")), "`contractVersion`, now "+api.ContractVersion+",")
	chart := string(systemtest.ReadFile(t, "deploy/helm/Chart.yaml"))
	require.Contains(t, chart, "\nversion: "+newest[1]+"\n")
	require.Contains(t, chart, "\nappVersion: \""+newest[1]+"\"\n")
	for _, entry := range entries {
		require.FileExists(t, filepath.Join(systemtest.UpgradeFrom, "v"+entry[1]+".tar.gz"), "make upgrade-data VERSION=v%s", entry[1])
	}
}

// TestEveryProcessTellsItsBuild: all that serve begin with the same registry.
func TestEveryProcessTellsItsBuild(t *testing.T) {
	b := thisBuild()
	require.NoError(t, testutil.GatherAndCompare(newRegistry(), strings.NewReader(`
		# HELP muniment_build_info The program that runs; always 1.
		# TYPE muniment_build_info gauge
		muniment_build_info{goversion="`+b.GoVersion+`",revision="`+b.Revision+`",version="`+b.Version+`"} 1
	`), "muniment_build_info"))
}
