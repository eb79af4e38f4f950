package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/verify"
)

// TestVectors: the program's verdicts are those of the vectors. That it prints what muniment verify
// prints, deploy/release tests with both programs of a release.
func TestVectors(t *testing.T) {
	t.Chdir(filepath.Join("..", "..", "testdata"))
	text, err := os.ReadFile("vectors.json")
	require.NoError(t, err)
	var vectors []struct {
		Name, Keys, Expect string
		Files              []string
		Exit               int
		Failures           [][]sealer.Code
	}
	require.NoError(t, json.Unmarshal(text, &vectors))
	require.NotEmpty(t, vectors)
	for _, v := range vectors {
		args := append([]string{"--json", "--root=root.vkey"}, v.Files...)
		if v.Keys != "" {
			args = append(args, "--keys", v.Keys)
		}
		if v.Expect != "" {
			args = append(args, "--expect-checkpoint", v.Expect)
		}
		var said, failed bytes.Buffer
		require.Equal(t, v.Exit, run(t.Context(), args, &said, &failed), v.Name)
		require.Empty(t, failed.String(), v.Name)
		var report verify.Report
		require.NoError(t, json.Unmarshal(said.Bytes(), &report), v.Name)
		require.Len(t, report.Files, len(v.Failures), v.Name)
		for i, f := range report.Files {
			var codes []sealer.Code
			for _, verdict := range f.Verdicts {
				if !verdict.OK && !slices.Contains(codes, verdict.Code) {
					codes = append(codes, verdict.Code)
				}
			}
			require.Equal(t, v.Failures[i], codes, "%s: %s", v.Name, f.File)
		}
	}
}

// TestRefusals: a command line that can't be run as it stands is refused, on stderr alone.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		says string
		args []string
	}{
		{`expected "<file> ..."`, []string{"--root=x"}},
		{"unknown flag -json", []string{"-json", "file"}},
		{"unknown flag --frob", []string{"--frob=1", "file"}},
		{"--root: it has no value", []string{"--root", "--json", "file"}},
		{"--keys: it has no value", []string{"file", "--keys"}},
		{"it is given twice", []string{"--keys=a", "--keys", "b", "file"}},
		{"it is empty", []string{"--root=", "--keys=a", "file"}},
		{"--bound must be greater than 0", []string{"--bound", "0s", "file"}},
	} {
		var said, failed bytes.Buffer
		require.Equal(t, verify.ExitUnjudged, run(t.Context(), c.args, &said, &failed), "%q", c.args)
		require.Empty(t, said.String())
		require.Contains(t, failed.String(), "muniment-verify: error: ")
		require.Contains(t, failed.String(), c.says)
	}
}

func TestVersionOf(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "c9f006e"}}}
	require.Equal(t, "v1.2.0 (revision 87b5c92, go1.26.8)", versionOf("v1.2.0", "87b5c92", info))
	require.Equal(t, "devel (revision c9f006e, go1.26.8)", versionOf("", "", info))
	require.Equal(t, "devel (revision unknown, )", versionOf("", "", nil))
}

// TestDependsOnNoServer: nothing that would make the program large, or opens a network, is part of
// it.
func TestDependsOnNoServer(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	deps := strings.Fields(string(out))
	require.Contains(t, deps, "muniment.example/sealer/verify")
	for _, dep := range deps {
		if ours, ok := strings.CutPrefix(dep, "muniment.example/"); ok {
			require.Contains(t, []string{"gate", "sealer", "sealer/canonical", "sealer/checkpoint", "sealer/dsar", "sealer/keydir", "sealer/merkle", "sealer/pack", "sealer/settlement", "sealer/signature", "sealer/statement", "sealer/terminal", "sealer/verify", "sealer/verify/muniment-verify", "sealer/rate", "sealer/calendar"}, ours)
		}
		for _, banned := range []string{"sqlite", "pgx", "clickhouse", "kafka", "fasthttp", "huma", "prometheus", "goose", "kong", "minio", "testify", "parquet", "net/http"} {
			require.NotContains(t, strings.ToLower(dep), banned)
		}
		require.NotEqual(t, "database/sql", dep)
	}
}
