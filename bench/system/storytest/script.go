package storytest

import (
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/control/sandbox"
	"muniment.example/gateway/api"
)

// inPath is a parameter of an operation's path.
var inPath = regexp.MustCompile(`\{\w+\}`)

// transitions are the rows of the contract's table of states, by the scripts that play
// them: those of an export's job are still to come, with its routes.
var transitions = []string{
	"right-suspend", "right-resume", "right-revoke", "challenge-upheld", "challenge-overturned",
	"offer-counter", "offer-withdraw", "offer-reject", "offer-accept", "challenge-withdraw",
	"delivery-of-an-active-right",
}

// beyondScripts are the tests of codes that take a busy tenant, or a fault inside.
var beyondScripts = map[string]struct{ file, test, constant string }{
	"RATE_LIMITED":   {"control/limit_test.go", "TestTenantLimit", "api.RateLimited"},
	"INTERNAL_ERROR": {"control/handler_test.go", "TestRefusals", "api.InternalError"},
}

func Scripts(t *testing.T, s *systemtest.Service) {
	files, err := filepath.Glob(systemtest.Scripts + "*.http")
	require.NoError(t, err)
	r, played := systemtest.Reached{Replayed: map[string]bool{}, Codes: map[string]bool{}, States: map[string]bool{}}, map[string]map[string]bool{} // operations by script
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".http")
		if name == "before" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			key := systemtest.CreateTenant(t, s.Data).APIKey
			p := systemtest.Player{URL: s.Server.API, Client: &http.Client{Jar: systemtest.NewJar(t)}, Names: map[string]any{"key": key, "wildcard": systemtest.CreateTenant(t, s.Data, "--scope", "*").APIKey, "today": time.Now().UTC().Format(time.DateOnly), "tomorrow": time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)},
				Reached: systemtest.Reached{Operations: map[string]bool{}, Replayed: r.Replayed, Codes: r.Codes, States: r.States}}
			p.Play(t, systemtest.Scripts+"before.http")
			p.Play(t, file)
			played[name] = p.Operations
		})
	}
	if len(played) < len(files)-1 {
		return // -run has left some out, or they have failed
	}

	for _, row := range transitions {
		require.NotEmpty(t, played[row], "no script %s%s.http", systemtest.Scripts, row)
	}
	for _, o := range systemtest.OperationsOf(t, s.Server, true) {
		if o.Id == "playground-events" { // has no end: control/TestPlaygroundEvents
			continue
		}
		path, _, _ := strings.Cut(o.Path, "?")
		require.True(t, played[o.Id][o.Method+" "+path], "no script %s%s.http, in which it succeeds", systemtest.Scripts, o.Id)
	}
	for _, o := range systemtest.OperationsOf(t, s.Server, false) {
		if x := (systemtest.Exchange{Method: o.Method, Target: o.Path}); x.Replays() {
			require.True(t, r.Replayed[o.Method+" "+inPath.ReplaceAllString(o.Path, "{}")], "no script in which %s %s succeeds", o.Method, o.Path)
		}
	}
	var listed []string
	for _, code := range api.Codes() {
		listed = append(listed, string(code))
	}
	for _, code := range sandbox.Codes() {
		listed = append(listed, "sandbox "+string(code))
	}
	for code, by := range beyondScripts {
		require.False(t, r.Codes[code], "a script reaches %s", code)
		_, rest, _ := strings.Cut(string(systemtest.ReadFile(t, by.file)), "\nfunc "+by.test+"(t *testing.T) {\n")
		body, _, _ := strings.Cut(rest, "\n}\n")
		require.Contains(t, body, by.constant, "%s of %s reaches no %s", by.test, by.file, code)
		r.Codes[code] = true
	}
	require.ElementsMatch(t, listed, slices.Collect(maps.Keys(r.Codes)), "the error codes, and those that are reached")
	for _, state := range []string{
		"right.ACTIVE", "right.SUSPENDED", "right.REVOKED",
		"offer.PROPOSED", "countered.COUNTERED", "offer.WITHDRAWN", "offer.REJECTED", "offer.ACCEPTED",
		"dispute.OPEN", "dispute.INVESTIGATING", "dispute.RESPONDED", "dispute.RESOLVED",
		"statement.DRAFT", "statement.ISSUED", "statement.SETTLED",
		"challenge.OPEN", "challenge.UPHELD", "challenge.OVERTURNED", "challenge.WITHDRAWN",
	} {
		require.True(t, r.States[state], "no script reaches %s", state)
	}
}
