package right

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
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
			next, changed, err := rights.After(was, c.action, later)
			require.Equal(t, c.changed, changed)
			if c.to == refused {
				require.Equal(t, api.StateConflict, api.From(err).Code)
				require.ErrorContains(t, err, "right is already "+string(c.from))
				require.Equal(t, was, next)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.to, next.State)
			if !changed {
				require.Equal(t, was, next)
				return
			}
			require.Equal(t, later, next.UpdatedAt)
			require.Equal(t, "before", *was.StateReason, "the record before stays as it was")
		})
	}
}

// TestEffectiveState reads like the page: what is above a right named r, in which state and window,
// and what that makes of r at hour 5.
func TestEffectiveState(t *testing.T) {
	hour := func(n int) (i store.Instant) {
		if n > 0 {
			i = store.At(now.Add(time.Duration(n) * time.Hour))
		}
		return i
	}
	const active, suspended, revoked = api.RightActive, api.RightSuspended, api.RightRevoked
	type s struct {
		state       api.RightState
		from, until int // hours; 0 is open
	}
	for _, c := range []struct {
		name      string
		line      []s // the right, its ancestors, its basis
		want      api.RightState
		blockedBy string
	}{
		{"in force", []s{{active, 1, 9}, {active, 0, 0}}, active, ""},
		{"begins now", []s{{active, 5, 9}, {active, 0, 0}}, active, ""},
		{"begins later", []s{{active, 6, 9}, {active, 0, 0}}, NotBegun, ""},
		{"ends later", []s{{active, 1, 6}, {active, 0, 9}}, active, ""},
		{"ends now", []s{{active, 1, 5}, {active, 0, 9}}, Expired, ""},
		{"suspended", []s{{suspended, 1, 9}, {active, 0, 0}}, suspended, ""},
		{"revoked", []s{{revoked, 1, 9}, {active, 0, 0}}, revoked, ""},
		{"suspended, and begins later", []s{{suspended, 6, 9}, {active, 0, 0}}, suspended, ""},
		{"suspended, and has ended", []s{{suspended, 1, 5}, {active, 0, 0}}, Expired, ""},
		{"revoked, and has ended", []s{{revoked, 1, 5}, {active, 0, 0}}, revoked, ""},
		{"revoked, and begins later", []s{{revoked, 6, 9}, {active, 0, 0}}, revoked, ""},

		{"ended with its basis", []s{{active, 1, 5}, {active, 0, 5}}, Expired, "1"},
		{"ended before its basis, which has ended too", []s{{active, 1, 4}, {active, 0, 5}}, Expired, ""},
		{"ended with its parent", []s{{active, 1, 5}, {active, 1, 5}, {active, 0, 9}}, Expired, "1"},
		{"ended with parent, grandparent and basis", []s{{active, 2, 5}, {active, 1, 5}, {active, 1, 5}, {active, 0, 5}}, Expired, "3"},
		{"begins with its basis", []s{{active, 6, 9}, {active, 6, 0}}, NotBegun, "1"},
		{"begins behind its parent, which has not begun", []s{{active, 7, 9}, {active, 6, 9}, {active, 0, 0}}, NotBegun, ""},

		{"the parent is suspended", []s{{active, 1, 9}, {suspended, 1, 9}, {active, 0, 0}}, suspended, "1"},
		{"both are suspended", []s{{suspended, 1, 9}, {suspended, 1, 9}, {active, 0, 0}}, suspended, ""},
		{"the grandparent is revoked, the parent suspended", []s{{suspended, 1, 9}, {suspended, 1, 9}, {revoked, 1, 9}, {active, 0, 0}}, revoked, "2"},
		{"parent and grandparent are suspended", []s{{active, 1, 9}, {suspended, 1, 9}, {suspended, 1, 9}, {active, 0, 0}}, suspended, "1"},
		{"begins later, and the parent is suspended", []s{{active, 6, 9}, {suspended, 1, 9}, {active, 0, 0}}, suspended, "1"},
		{"has ended, and the parent is suspended", []s{{active, 1, 5}, {suspended, 1, 9}, {active, 0, 0}}, Expired, ""},
		{"has ended, and the parent is revoked", []s{{active, 1, 5}, {revoked, 1, 9}, {active, 0, 0}}, revoked, "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var line []standing
			for i, s := range c.line {
				line = append(line, standing{fmt.Sprint(i), s.state, hour(s.from), hour(s.until)})
			}
			state, blockedBy := effective(line[0], line[1:], hour(5).Time)
			require.Equal(t, c.want, state)
			if blockedBy == nil {
				blockedBy = new(string)
			}
			require.Equal(t, c.blockedBy, *blockedBy)
		})
	}
}

func TestScopeForms(t *testing.T) {
	for _, c := range []struct{ in, canonical, field string }{
		{`{"regions":["US"],"bvlos":true,"maxSpeedMph":0}`, `{"bvlos":true,"maxSpeedMph":0,"regions":["US"]}`, ""},
		{`{ "x-z" : 1.0, "x-a": {"y":[1e2], "x":null} }`, `{"x-a":{"x":null,"y":[100]},"x-z":1}`, ""},
		{`{"labels":{"team":"east","":"none"}}`, "", "scope.labels"},
		{`{"labels":{"team":"east"},"description":"all"}`, `{"description":"all","labels":{"team":"east"}}`, ""},
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
		{`{"x-custom":1e400}`, "", "scope"},
		{`{"description":7}`, "", "scope.description"},
		{`{"campaigns":["` + strings.Repeat("é", 257) + `"]}`, "", "scope.campaigns"},
		{`{"campaigns":["` + strings.Repeat("é", 256) + `"]}`, `{"campaigns":["` + strings.Repeat("é", 256) + `"]}`, ""},
		{`{"labels":["team"]}`, "", "scope.labels"},
		{`{"labels":{"team":7}}`, "", "scope.labels"},
		{`{"labels":{"team":null}}`, "", "scope.labels"},
		{`{"labels":{"` + strings.Repeat("n", 65) + `":"east"}}`, "", "scope.labels"},
		{`{"labels":{"team":"` + strings.Repeat("v", 257) + `"}}`, "", "scope.labels"},
		{`{"labels":{"l0":""` + manyLabels(32) + `}}`, "", "scope.labels"},
		{`{"x-":1}`, "", "scope.x-"},
		{`{"X-custom":1}`, "", "scope.X-custom"},
		{`{"region":["US"]}`, "", "scope.region"},
	} {
		t.Run(c.in, func(t *testing.T) {
			scope, faults := readScope("DRONE", json.RawMessage(c.in))
			if c.field != "" {
				require.Len(t, faults, 1)
				require.Equal(t, c.field, faults[0].Field)
				return
			}
			require.Empty(t, faults)
			text, faults := canonicalText(scope)
			require.Empty(t, faults)
			require.Equal(t, c.canonical, string(text))
			again, faults := readScope("DRONE", text)
			require.Empty(t, faults)
			require.Equal(t, scope, again, "what is stored reads the same")
		})
	}
}

// manyLabels are n labels behind another.
func manyLabels(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `,"l%d":""`, i+1)
	}
	return text.String()
}

// TestUnknownLimitNamesTheNearest: a limit that is misspelt must not pass for none.
func TestUnknownLimitNamesTheNearest(t *testing.T) {
	for misspelt, nearest := range map[string]string{
		"region": "regions", "Regions": "regions", "REGION": "regions", "chanels": "channels", "campaign": "campaigns", "campaignIds": "campaigns",
		"maxSpeed": "maxSpeedMph", "maxspeedmph": "maxSpeedMph", "BVLOS": "bvlos", "label": "labels", "descripton": "description",
	} {
		_, faults := readScope("CTV", json.RawMessage(fmt.Sprintf(`{%q:["US"]}`, misspelt)))
		require.Len(t, faults, 1, misspelt)
		require.Equal(t, "scope."+misspelt, faults[0].Field)
		require.Contains(t, faults[0].Message, strconv.Quote(nearest), misspelt)
	}
	_, faults := readScope("CTV", json.RawMessage(`{"`+strings.Repeat("x", 10_000)+`":1}`))
	require.Len(t, faults, 1)
	require.Less(t, len(faults[0].Field)+len(faults[0].Message), 512, "the name is not repeated at its full length")
}

// TestDerivedRightRule is the rule as a table: a right under a parent of substrate
// CTV, within 2026, with the limits given.
func TestDerivedRightRule(t *testing.T) {
	const year = "2026-01-01T00:00:00.000Z 2027-01-01T00:00:00.000Z"
	for _, c := range []struct {
		name, limits                 string // the parent's
		substrate, window, requested string // the derived right's
		field                        string // the fault, if it is refused
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
		{"without naming the limit", `{"regions":["US"]}`, "CTV", year, `{}`, ""},
		{"with a new limit", `{}`, "CTV", year, `{"regions":["US"],"channels":["a"],"maxSpeedMph":3}`, ""},
		{"fewer channels", `{"channels":["a","b"]}`, "CTV", year, `{"channels":["b"]}`, ""},
		{"another channel", `{"channels":["a"]}`, "CTV", year, `{"channels":["b"]}`, "scope.channels"},
		{"another campaign", `{"campaigns":["a"]}`, "CTV", year, `{"campaigns":["b"]}`, "scope.campaigns"},

		{"slower", `{"maxSpeedMph":4}`, "CTV", year, `{"maxSpeedMph":3.5}`, ""},
		{"as fast", `{"maxSpeedMph":4}`, "CTV", year, `{"maxSpeedMph":4.0}`, ""},
		{"faster", `{"maxSpeedMph":4}`, "CTV", year, `{"maxSpeedMph":4.5}`, "scope.maxSpeedMph"},
		{"no speed named", `{"maxSpeedMph":4}`, "CTV", year, `{}`, ""},

		{"with the duty of a waiver", `{"bvlos":true}`, "CTV", year, `{"bvlos":true}`, ""},
		{"without naming the duty", `{"bvlos":true}`, "CTV", year, `{}`, ""},
		{"the duty denied", `{"bvlos":true}`, "CTV", year, `{"bvlos":false}`, "scope.bvlos"},
		{"a duty of its own", `{"bvlos":false}`, "CTV", year, `{"bvlos":true}`, ""},
		{"no duty, nothing said", `{"bvlos":false}`, "CTV", year, `{}`, ""},

		{"another description", `{"description":"all"}`, "CTV", year, `"some"`, ""},
		{"another value of a label", `{"labels":{"team":"east"}}`, "CTV", year, `{"labels":{"team":"west"}}`, "scope.labels"},
		{"no value of a label", `{"labels":{"team":"east"}}`, "CTV", year, `{"labels":{"team":""}}`, "scope.labels"},
		{"the same label", `{"labels":{"team":"east"}}`, "CTV", year, `{"labels":{"team":"east"}}`, ""},
		{"another label", `{"labels":{"team":"east"}}`, "CTV", year, `{"labels":{"venue":"north"}}`, ""},
		{"a first label", `{}`, "CTV", year, `{"labels":{"venue":"north"}}`, ""},
		{"as many labels as there may be", `{"labels":{"l0":""` + manyLabels(30) + `}}`, "CTV", year, `{"labels":{"venue":"north"}}`, ""},
		{"too many labels in all", `{"labels":{"l0":""` + manyLabels(31) + `}}`, "CTV", year, `{"labels":{"venue":"north"}}`, "scope.labels"},
		{"a limit of the caller's kept", `{"x-dayparts":{"from":6}}`, "CTV", year, `{"x-dayparts":{ "from":6.0 }}`, ""},
		{"a limit of the caller's changed", `{"x-dayparts":{"from":6}}`, "CTV", year, `{"x-dayparts":{"from":7}}`, "scope.x-dayparts"},
		{"a limit of the caller's not named", `{"x-dayparts":{"from":6}}`, "CTV", year, `{}`, ""},
		{"a limit of the caller's added", `{}`, "CTV", year, `{"x-dayparts":{"from":6}}`, ""},
		{"a misspelt limit", `{"regions":["US"]}`, "CTV", year, `{"region":["US"]}`, "scope.region"},
	} {
		for _, parentSubstrate := range []string{"CTV", "ANY"} {
			t.Run(c.name+" under "+parentSubstrate, func(t *testing.T) {
				parent := mustIssue(t, parentSubstrate, year, c.limits, nil)
				requested := rightFor(c.substrate, c.window, c.requested)
				got, err := issue(requested, lineage{basis: openBasis(), parent: &parent}, now)
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

// TestDerivedScopeInherits: what a derived right's scope does not name is its parent's.
func TestDerivedScopeInherits(t *testing.T) {
	const year = "2026-01-01T00:00:00.000Z 2027-01-01T00:00:00.000Z"
	const limits = `{"bvlos":true,"campaigns":["a"],"channels":["sms","push"],"description":"all","labels":{"team":"east"},"maxSpeedMph":4,"regions":["CA","US"],"x-daypart":"night"}`
	for requested, want := range map[string]string{
		``:                           limits,
		`null`:                       limits,
		`{}`:                         limits,
		limits:                       limits,
		`"sublet"`:                   strings.Replace(limits, `"all"`, `"sublet"`, 1),
		`{"regions":["US"]}`:         strings.Replace(limits, `["CA","US"]`, `["US"]`, 1),
		`{"regions":[]}`:             strings.Replace(limits, `["CA","US"]`, `[]`, 1),
		`{"maxSpeedMph":3}`:          strings.Replace(limits, `4`, `3`, 1),
		`{"labels":{}}`:              limits,
		`{"labels":{"venue":"<b>"}}`: strings.Replace(limits, `{"team":"east"}`, `{"team":"east","venue":"<b>"}`, 1),
		`{"x-fleet":"north"}`:        strings.Replace(limits, `"night"`, `"night","x-fleet":"north"`, 1),
	} {
		t.Run(requested, func(t *testing.T) {
			parent := mustIssue(t, "CTV", year, limits, nil)
			require.Equal(t, limits, string(parent.Scope))
			r, err := derive(Derivation{ID: "rgh_new", Scope: json.RawMessage(requested)}, lineage{basis: openBasis(), parent: &parent}, now)
			require.NoError(t, err)
			require.Equal(t, want, string(r.Scope))
			issued, err := issue(Right{BasisID: "bas_a", Substrate: "CTV", Scope: json.RawMessage(requested), EffectiveFrom: now}, lineage{basis: openBasis(), parent: &parent}, now)
			require.NoError(t, err)
			require.Equal(t, want, string(issued.Scope))
		})
	}

	long := mustIssue(t, "CTV", year, `{"x-note":"`+strings.Repeat("n", 10<<10)+`"}`, nil)
	_, err := derive(Derivation{Scope: json.RawMessage(`{"x-mine":"` + strings.Repeat("n", 10<<10) + `"}`)}, lineage{basis: openBasis(), parent: &long}, now)
	require.Equal(t, "scope", api.From(err).Field)
	require.ErrorContains(t, err, "16384 bytes")
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
		put("x-custom", "1", "2")
		put("labels", `{"team":"east"}`, `{"team":"west"}`, `{"team":"","venue":""}`)
		return scope
	})
	// derived is the scope that a request derives, ok unless it is refused.
	derived := func(requested, parent map[string]json.RawMessage) (scope map[string]json.RawMessage, ok bool) {
		scope = map[string]json.RawMessage{}
		maps.Copy(scope, requested)
		inherit(scope, parent)
		return scope, len(narrower(scope, parent)) == 0
	}
	rapid.Check(t, func(t *rapid.T) {
		root, child, grandchild := scopes.Draw(t, "root"), scopes.Draw(t, "child"), scopes.Draw(t, "grandchild")
		same, ok := derived(nil, root)
		require.True(t, ok)
		require.Equal(t, root, same, "a request without a scope inherits all limits")
		child, ok = derived(child, root)
		if !ok {
			return
		}
		if grandchild, ok = derived(grandchild, child); ok && len(narrower(grandchild, root)) > 0 {
			t.Fatalf("%s fits under %s, and that under %s, but not the first under the last", grandchild, child, root)
		}
	})
}

// TestLongListsAreCompared derives with lists far longer than a scope's. Comparing every pair of
// strings would take minutes, and all other changes would wait.
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
		_, err := issue(rightFor("CTV", "2026-01-01T00:00:00.000Z -", `{}`), from, now)
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
	_, err := issue(rightFor("CTV", "2026-11-21T03:59:59.999Z -", `{}`), lineage{basis: ending}, now)
	require.Equal(t, "effectiveFrom", api.From(err).Field)
	_, err = issue(rightFor("CTV", "2026-11-21T04:00:00.000Z 2026-11-21T05:00:00.001Z", `{}`), lineage{basis: ending}, now)
	require.Equal(t, "effectiveUntil", api.From(err).Field)

	other := rightFor("CTV", "2026-01-01T00:00:00.000Z -", `{}`)
	other.BasisID = "bas_other"
	_, err = issue(other, lineage{basis: openBasis(), parent: &parent}, now)
	require.Equal(t, "basisId", api.From(err).Field)
	parent.Ancestors = make([]string, maxDepth)
	_, err = issue(rightFor("CTV", "2026-01-01T00:00:00.000Z -", `{}`), lineage{basis: openBasis(), parent: &parent}, now)
	require.Equal(t, "parentRightId", api.From(err).Field)
}

func openBasis() *Basis { return &Basis{ID: "bas_a"} }

// rightFor is a requested right; window is "from until", "-" for no end.
func rightFor(substrate, window, scope string) Right {
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
	r, err := issue(rightFor(substrate, window, scope), lineage{basis: basis}, now)
	require.NoError(t, err)
	r.ID = "rgh_parent"
	return r
}
