package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// verdict is a verifier's output and exit status.
type verdict struct {
	said   string
	status int
}

// requireAgreement: muniment-verify prints for each vector what muniment verify prints, byte for
// byte, and refuses the same command lines. Both exit with the vector's status.
func requireAgreement(t *testing.T, muniment, verifier string) {
	t.Helper()
	evidence := filepath.Join("..", "..", "sealer", "testdata")
	text, err := os.ReadFile(filepath.Join(evidence, "vectors.json"))
	require.NoError(t, err)
	var vectors []struct {
		Name         string
		Files        []string
		Keys, Expect string
		Exit         int
	}
	require.NoError(t, json.Unmarshal(text, &vectors))
	require.Greater(t, len(vectors), 200)
	agree := func(args ...string) (status int) {
		t.Helper()
		want := verdictOf(t, muniment, append([]string{"verify"}, args...))
		require.Equal(t, want, verdictOf(t, verifier, args), "%q", args)
		return want.status
	}
	at := func(name string) string { return filepath.Join(evidence, name) }
	for i, v := range vectors {
		args := []string{"--root", at("root.vkey")}
		for _, file := range v.Files {
			args = append(args, at(file))
		}
		if v.Keys != "" {
			args = append(args, "--keys="+at(v.Keys))
		}
		if v.Expect != "" {
			args = append(args, "--expect-checkpoint", at(v.Expect))
		}
		if i%2 == 0 {
			args = append(args, "--json")
		}
		require.Equal(t, v.Exit, agree(args...), v.Name)
	}
	t.Logf("both verifiers agree on %d vectors", len(vectors))

	names := strings.NewReplacer("PACK", at("good/chain-1.ndjson"), "KEYS", at("good/keys.json"), "ROOT", at("root.vkey"), "SANDBOX", at("good/sandbox.json"), "LATE", at("bad/stops-50-1.ndjson"))
	for _, line := range []string{
		"--keys KEYS PACK", "--root ROOT --keys= PACK", "--root= --keys KEYS PACK", "--keys=x --keys KEYS PACK", "PACK", "", "--keys PACK PACK",
		"--root", "--root --json PACK", "--root=--json PACK", "--root ROOT -- --json", "--root ROOT - PACK", "-json PACK", "-x", "--frob",
		"--root ROOT nowhere.ndjson", "--root nowhere PACK", "--root ROOT --json=false PACK", "--root ROOT --json=maybe PACK", "--root ROOT --expect-checkpoint=nowhere PACK",
		"--root ROOT --no-sandbox SANDBOX", "SANDBOX --root ROOT --no-sandbox=true --json", "--root ROOT --expect-checkpoint=~/nowhere PACK",
		"--root ROOT LATE", "--root ROOT --bound=91s LATE", "--root ROOT --bound 0s PACK", "--root ROOT --bound soon PACK", "--root ROOT --bound -1s PACK",
	} {
		agree(strings.Fields(names.Replace(line))...)
	}
}

// verdictOf runs a program. Each process draws one of two texts for errors of the JSON library, so
// that nobody relies on them: they are rendered as one.
func verdictOf(t *testing.T, program string, args []string) verdict {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	out, _ := cmd.Output() // the status says it
	require.True(t, cmd.ProcessState.Exited(), "%q", args)
	return verdict{strings.ReplaceAll(string(out), "json: unable to ", "json: cannot "), cmd.ProcessState.ExitCode()}
}
