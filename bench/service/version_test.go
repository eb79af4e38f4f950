package service

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/gateway/api"
)

// TestVersion requests the version wherever it is shown.
func TestVersion(t *testing.T) {
	t.Parallel()
	b := systemtest.Parse[struct{ Version, Revision, GoVersion string }](t, systemtest.Command(t, "version", "--json"))
	require.Equal(t, "muniment "+b.Version+" (revision "+b.Revision+", "+b.GoVersion+")\n", systemtest.Command(t, "version"))

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
