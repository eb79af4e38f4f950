package right

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment/control/store"
	"muniment/gateway/api"
)

var now = store.At(time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC))

// TestTransitions reads like the contract's table.
func TestTransitions(t *testing.T) {
	const refused = api.RightState("")
	for _, c := range []struct {
		from    api.RightState
		action  Action
		to      api.RightState
		changed bool
	}{
		{api.RightActive, Suspend, api.RightSuspended, true},
		{api.RightActive, Resume, refused, false},
		{api.RightActive, Revoke, api.RightRevoked, true},
		{api.RightSuspended, Suspend, refused, false},
		{api.RightSuspended, Resume, api.RightActive, true},
		{api.RightSuspended, Revoke, api.RightRevoked, true},
		{api.RightRevoked, Suspend, refused, false},
		{api.RightRevoked, Resume, refused, false},
		{api.RightRevoked, Revoke, api.RightRevoked, false},
	} {
		t.Run(fmt.Sprintf("%s %s", c.action, c.from), func(t *testing.T) {
			was := Right{ID: "rgh_a", State: c.from, StateReason: new("before"), UpdatedAt: now}
			later := store.At(now.Add(time.Second))
			next, changed, err := was.After(c.action, new("why"), later)
			require.Equal(t, c.changed, changed)
			if c.to == refused {
				require.Equal(t, api.StateConflict, api.From(err).Code)
				require.Equal(t, was, next)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.to, next.State)
			if !changed {
				require.Equal(t, was, next)
				return
			}
			require.Equal(t, "why", *next.StateReason)
			require.Equal(t, later, next.UpdatedAt)
			require.Equal(t, "before", *was.StateReason, "the record before stays as it was")
		})
	}
}

// TestEffectiveState holds effective against a model: walk up, and take the first
// of the worst.
func TestEffectiveState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		states := rapid.SliceOfN(rapid.SampledFrom(severity), 1, 6).Draw(t, "own state, then the ancestors'")
		ids, byID := []string{}, map[string]api.RightState{}
		for i, s := range states[1:] {
			id := fmt.Sprint("rgh_", i)
			ids, byID[id] = append(ids, id), s
		}
		worst, at := api.RightActive, 0
		for i, s := range states {
			if (s == api.RightRevoked && worst != api.RightRevoked) || (s == api.RightSuspended && worst == api.RightActive) {
				worst, at = s, i
			}
		}
		state, blockedBy := effective(states[0], ids, byID)
		if state != worst {
			t.Fatalf("effective state of %v is %s, not %s", states, state, worst)
		}
		if (blockedBy != nil) != (at > 0) || (at > 0 && *blockedBy != ids[at-1]) {
			t.Fatalf("%v is blocked by %v, the worst is at %d", states, blockedBy, at)
		}
	})
}

func TestScopeForms(t *testing.T) {
	for _, c := range []struct{ in, canonical, field string }{
		{`{"regions":["US"],"bvlos":true,"maxSpeedMph":0}`, `{"bvlos":true,"maxSpeedMph":0,"regions":["US"]}`, ""},
		{`{ "z" : 1.0, "a": {"y":[1e2], "x":null} }`, `{"a":{"x":null,"y":[100]},"z":1}`, ""},
		{`"lobby screens"`, `{"description":"lobby screens"}`, ""},
		{`null`, `{}`, ""},
		{``, `{}`, ""},
		{`{}`, `{}`, ""},
		{`{"regions":[]}`, `{"regions":[]}`, ""},
		{`[]`, "", "scope"},
		{`7`, "", "scope"},
		{`true`, "", "scope"},
		{`{"regions":"US"}`, "", "scope.regions"},
		{`{"regions":["US",1]}`, "", "scope.regions"},
		{`{"regions":["US",null]}`, "", "scope.regions"},
		{`{"regions":null}`, "", "scope.regions"},
		{`{"channels":{}}`, "", "scope.channels"},
		{`{"campaigns":[[]]}`, "", "scope.campaigns"},
		{`{"maxSpeedMph":-1}`, "", "scope.maxSpeedMph"},
		{`{"maxSpeedMph":"4"}`, "", "scope.maxSpeedMph"},
		{`{"maxSpeedMph":null}`, "", "scope.maxSpeedMph"},
		{`{"bvlos":"true"}`, "", "scope.bvlos"},
		{`{"bvlos":null}`, "", "scope.bvlos"},
		{`{"custom":1e400}`, "", "scope"},
	} {
		t.Run(c.in, func(t *testing.T) {
			scope, faults := readScope("DRONE", json.RawMessage(c.in))
			if c.field != "" {
				require.Len(t, faults, 1)
				require.Equal(t, c.field, faults[0].Field)
				return
			}
			require.Empty(t, faults)
			text, faults := canonical(scope)
			require.Empty(t, faults)
			require.Equal(t, c.canonical, string(text))
			again, faults := readScope("DRONE", text)
			require.Empty(t, faults)
			require.Equal(t, scope, again, "what is stored reads the same")
		})
	}
}

// TestDerivedRightRule is the rule as a table: a right under a parent of substrate
// CTV, within 2026, with the limits given.
func TestDerivedRightRule(t *testing.T) {
	const year = "2026-01-01T00:00:00.000Z 2027-01-01T00:00:00.000Z"
	for _, c := range []struct {
		name, limits           string // the parent's
		substrate, window, ask string // the derived right's
		field                  string // the fault, if it is refused
	}{
		{"the same", `{"regions":["US"]}`, "CTV", year, `{"regions":["US"]}`, ""},
		{"another substrate", `{}`, "AUDIO", year, `{}`, "substrate"},
		{"every substrate", `{}`, "ANY", year, `{}`, "substrate"},

		{"a part of the time", `{}`, "CTV", "2026-02-01T00:00:00.000Z 2026-03-01T00:00:00.000Z", `{}`, ""},
		{"without an end of its own", `{}`, "CTV", "2026-02-01T00:00:00.000Z -", `{}`, ""},
		{"earlier", `{}`, "CTV", "2025-12-31T23:59:59.999Z 2026-03-01T00:00:00.000Z", `{}`, "effectiveFrom"},
		{"later", `{}`, "CTV", "2026-02-01T00:00:00.000Z 2027-01-01T00:00:00.001Z", `{}`, "effectiveUntil"},
		{"begins at the end", `{}`, "CTV", "2027-01-01T00:00:00.000Z -", `{}`, "effectiveUntil"},

		{"fewer regions", `{"regions":["US","CA"]}`, "CTV", year, `{"regions":["CA"]}`, ""},
		{"no regions at all", `{"regions":["US"]}`, "CTV", year, `{"regions":[]}`, ""},
		{"another region", `{"regions":["US"]}`, "CTV", year, `{"regions":["US","MX"]}`, "scope.regions"},
		{"without the limit", `{"regions":["US"]}`, "CTV", year, `{}`, "scope.regions"},
		{"with a new limit", `{}`, "CTV", year, `{"regions":["US"],"channels":["a"],"maxSpeedMph":3}`, ""},
		{"fewer channels", `{"channels":["a","b"]}`, "CTV", year, `{"channels":["b"]}`, ""},
		{"another channel", `{"channels":["a"]}`, "CTV", year, `{"channels":["b"]}`, "scope.channels"},
		{"another campaign", `{"campaigns":["a"]}`, "CTV", year, `{"campaigns":["b"]}`, "scope.campaigns"},

		{"slower", `{"maxSpeedMph":4}`, "CTV", year, `{"maxSpeedMph":3.5}`, ""},
		{"as fast", `{"maxSpeedMph":4}`, "CTV", year, `{"maxSpeedMph":4.0}`, ""},
		{"faster", `{"maxSpeedMph":4}`, "CTV", year, `{"maxSpeedMph":4.5}`, "scope.maxSpeedMph"},
		{"as fast as one likes", `{"maxSpeedMph":4}`, "CTV", year, `{}`, "scope.maxSpeedMph"},

		{"with the duty of a waiver", `{"bvlos":true}`, "CTV", year, `{"bvlos":true}`, ""},
		{"without the duty", `{"bvlos":true}`, "CTV", year, `{}`, "scope.bvlos"},
		{"the duty denied", `{"bvlos":true}`, "CTV", year, `{"bvlos":false}`, "scope.bvlos"},
		{"a duty of its own", `{"bvlos":false}`, "CTV", year, `{"bvlos":true}`, ""},
		{"no duty, nothing said", `{"bvlos":false}`, "CTV", year, `{}`, ""},

		{"another description", `{"description":"all"}`, "CTV", year, `"some"`, ""},
		{"an unknown limit kept", `{"dayparts":{"from":6}}`, "CTV", year, `{"dayparts":{ "from":6.0 }}`, ""},
		{"an unknown limit changed", `{"dayparts":{"from":6}}`, "CTV", year, `{"dayparts":{"from":7}}`, "scope.dayparts"},
		{"an unknown limit dropped", `{"dayparts":{"from":6}}`, "CTV", year, `{}`, "scope.dayparts"},
		{"an unknown limit added", `{}`, "CTV", year, `{"dayparts":{"from":6}}`, ""},
	} {
		for _, parentSubstrate := range []string{"CTV", "ANY"} {
			t.Run(c.name+" under "+parentSubstrate, func(t *testing.T) {
				parent := mustIssue(t, parentSubstrate, year, c.limits, nil)
				asked := ask(c.substrate, c.window, c.ask)
				got, err := issue(asked, lineage{basis: openBasis(), parent: &parent}, now)
				if c.field == "" || (c.field == "substrate" && parentSubstrate == "ANY") {
					require.NoError(t, err)
					require.Equal(t, []string{"rgh_parent"}, got.Ancestors)
					require.Equal(t, "rgh_parent", *got.ParentRightID)
					require.False(t, got.EffectiveUntil.After(parent.EffectiveUntil.Time))
					return
				}
				require.Equal(t, c.field, api.From(err).Field, "%v", err)
			})
		}
	}
}

// TestNarrowerIsTransitive derives twice: what the grandchild may do, the root may.
func TestNarrowerIsTransitive(t *testing.T) {
	scopes := rapid.Custom(func(t *rapid.T) map[string]json.RawMessage {
		scope := map[string]json.RawMessage{}
		put := func(key string, values ...string) {
			if v := rapid.SampledFrom(append(values, "")).Draw(t, key); v != "" {
				scope[key] = json.RawMessage(v)
			}
		}
		put("regions", `[]`, `["A"]`, `["B"]`, `["A","B"]`)
		put("maxSpeedMph", "1", "2", "3")
		put("bvlos", "true", "false")
		put("custom", "1", "2")
		return scope
	})
	rapid.Check(t, func(t *rapid.T) {
		root, child, grandchild := scopes.Draw(t, "root"), scopes.Draw(t, "child"), scopes.Draw(t, "grandchild")
		if len(narrower(root, root)) > 0 {
			t.Fatalf("%s is wider than itself", root)
		}
		if len(narrower(child, root)) == 0 && len(narrower(grandchild, child)) == 0 && len(narrower(grandchild, root)) > 0 {
			t.Fatalf("%s fits under %s, and that under %s, but not the first under the last", grandchild, child, root)
		}
	})
}

// TestLongListsAreCompared derives with lists far longer than a scope's. Holding each
// string against each would take minutes, in which nobody else could change anything.
func TestLongListsAreCompared(t *testing.T) {
	list := func(all, last string) map[string]json.RawMessage {
		return map[string]json.RawMessage{"regions": json.RawMessage(`["` + strings.Repeat(all+`","`, 1<<19) + last + `"]`)}
	}
	require.Empty(t, narrower(list("A", "B"), list("B", "A")))
	require.Equal(t, []api.ValidationError{{Field: "scope.regions", Message: `"C" is not in the parent right's`}},
		narrower(list("A", "C"), list("B", "A")))
}

func TestIssueRefusesByState(t *testing.T) {
	parent := mustIssue(t, "CTV", "2026-01-01T00:00:00.000Z -", `{}`, nil)
	conflict := func(from lineage) string {
		_, err := issue(ask("CTV", "2026-01-01T00:00:00.000Z -", `{}`), from, now)
		require.Equal(t, api.StateConflict, api.From(err).Code, "%v", err)
		return err.Error()
	}
	require.Contains(t, conflict(lineage{basis: openBasis(), parent: &parent, blocker: "rgh_root"}), "rgh_root")
	expired := openBasis()
	expired.EffectiveUntil = now
	require.Contains(t, conflict(lineage{basis: expired}), "has expired")

	ending := openBasis()
	ending.EffectiveFrom, ending.EffectiveUntil = now, store.At(now.Add(time.Hour))
	got := mustIssue(t, "CTV", "2026-11-21T04:00:00.000Z -", `{}`, ending)
	require.Equal(t, ending.EffectiveUntil, got.EffectiveUntil, "a right ends with its basis")
	_, err := issue(ask("CTV", "2026-11-21T03:59:59.999Z -", `{}`), lineage{basis: ending}, now)
	require.Equal(t, "effectiveFrom", api.From(err).Field)
	_, err = issue(ask("CTV", "2026-11-21T04:00:00.000Z 2026-11-21T05:00:00.001Z", `{}`), lineage{basis: ending}, now)
	require.Equal(t, "effectiveUntil", api.From(err).Field)

	other := ask("CTV", "2026-01-01T00:00:00.000Z -", `{}`)
	other.BasisID = "bas_other"
	_, err = issue(other, lineage{basis: openBasis(), parent: &parent}, now)
	require.Equal(t, "basisId", api.From(err).Field)
	parent.Ancestors = make([]string, maxDepth)
	_, err = issue(ask("CTV", "2026-01-01T00:00:00.000Z -", `{}`), lineage{basis: openBasis(), parent: &parent}, now)
	require.Equal(t, "parentRightId", api.From(err).Field)
}

func openBasis() *Basis { return &Basis{ID: "bas_a"} }

// ask is a right as it is asked for; window is "from until", "-" for no end.
func ask(substrate, window, scope string) Right {
	var from, until string
	fmt.Sscan(window, &from, &until)
	r := Right{ID: "rgh_asked", BasisID: "bas_a", Substrate: substrate, Scope: json.RawMessage(scope), EffectiveFrom: at(from)}
	if until != "-" {
		r.EffectiveUntil = at(until)
	}
	return r
}

func at(text string) store.Instant {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return store.At(t)
}

func mustIssue(t *testing.T, substrate, window, scope string, basis *Basis) Right {
	t.Helper()
	if basis == nil {
		basis = openBasis()
	}
	r, err := issue(ask(substrate, window, scope), lineage{basis: basis}, now)
	require.NoError(t, err)
	r.ID = "rgh_parent"
	return r
}
