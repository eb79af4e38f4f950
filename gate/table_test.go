package gate

import (
	"crypto/sha256"
	"encoding/base64"
	"flag"
	"math/bits"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

func golden(t *testing.T, name, got string) {
	path := "testdata/" + name
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// The order and the names are a promise of gate.v1, and so is the whole ruleset:
// a change of it shows here and changes the hash that receipts carry.
func TestRulesetIsStable(t *testing.T) {
	golden(t, "ruleset.txt", rulesetText())
	sum := sha256.Sum256([]byte(rulesetText()))
	require.Equal(t, base64.RawURLEncoding.EncodeToString(sum[:]), RulesetHash())
}

func TestCodesAndRulesAreUnique(t *testing.T) {
	require.Len(t, rules, 22)
	require.Len(t, suppressions, 14)
	seen := map[string]bool{}
	once := func(name, pattern string) {
		require.Regexp(t, regexp.MustCompile(pattern), name)
		require.False(t, seen[name], name)
		seen[name] = true
	}
	for i := range rules {
		once(rules[i].Code, `^[A-Z]+(_[A-Z]+)*$`)
		once(rules[i].ID, `^[a-z]+(-[a-z]+)*$`)
	}
	for i := range suppressions {
		require.Equal(t, firstSuppression+Reason(i), suppressions[i].Reason, "bits of reasons follow the table")
		once(suppressions[i].Reason.String(), `^[A-Z]+(_[A-Z]+)*$`)
	}
}

// A rule that ANY can't see must say why: it waits for absence, or its sign is
// too generic without the substrate.
func TestNoRuleIsInvisibleToAnyByAccident(t *testing.T) {
	check := func(name string, set surfaces, terms []term) {
		require.NotEmpty(t, terms, name)
		visible := false
		for i := range terms {
			visible = visible || terms[i].visible(set, Any)
			if !set.has(Any) {
				require.True(t, terms[i].NotAny || len(terms[i].All) == 0, "%s: term %d", name, i)
			}
		}
		require.Equal(t, set.has(Any), visible, name)
	}
	for i := range rules {
		check(rules[i].Code, rules[i].On, rules[i].Terms)
	}
	for i := range suppressions {
		check(suppressions[i].Reason.String(), suppressions[i].On, suppressions[i].Terms)
	}
}

func TestTermsAreSound(t *testing.T) {
	var used factSet
	check := func(name string, set surfaces, terms []term) {
		for _, term := range terms {
			all, none := setOf(term.All), setOf(term.None)
			require.Zero(t, all&none, "%s contradicts itself", name)
			require.False(t, none.has(minorTrue), "%s loosens for minors", name)
			require.Zero(t, term.Only&^set, "%s holds where its row does not", name)
			require.Len(t, append(all.list(), none.list()...), len(term.All)+len(term.None), "%s repeats a fact", name)
			used |= all | none
		}
	}
	for i := range rules {
		check(rules[i].Code, rules[i].On, rules[i].Terms)
	}
	for i := range suppressions {
		check(suppressions[i].Reason.String(), suppressions[i].On, suppressions[i].Terms)
	}
	for i := range keeping {
		used |= setOf(keeping[i].when.All) | setOf(keeping[i].when.None)
	}
	require.LessOrEqual(t, int(factCount), 64, "facts fill one word")
	for f, name := range factNames() {
		if fact(f) != noFact {
			require.NotEmpty(t, name, "fact %d is stated by nothing", f)
			require.True(t, used.has(fact(f)), "%s is used by no row", name)
		}
	}
}

// What a violation reports of a rule is complete, and its cause is an input.
func TestRulesTellTheirCause(t *testing.T) {
	for i := range rules {
		r := &rules[i]
		require.NotEmpty(t, r.Fields, r.Code)
		require.NotEmpty(t, r.Reference, r.Code)
		for j := range r.Terms {
			got := Verdict{stated: setOf(r.Terms[j].All), Substrate: aSurface(r.On, &r.Terms[j])}.cause(r)
			require.NotEmpty(t, got.Required, "%s term %d", r.Code, j)
			require.NotEmpty(t, got.Message, "%s term %d", r.Code, j)
			require.True(t, slices.Contains(r.Fields, got.Field), "%s term %d", r.Code, j)
		}
	}
}

func aSurface(set surfaces, t *term) Substrate {
	for s := range Substrate(Substrates) {
		if t.visible(set, s) {
			return s
		}
	}
	return Substrates
}

func TestFieldsAreTheContract(t *testing.T) {
	require.Equal(t, 38, int(optOut), "fields of the contract come first")
	require.Len(t, fieldNamed, int(fieldCount), "names are unique")
	for f := range fieldCount {
		s := &fields[f]
		require.NotEmpty(t, s.name, "field %d", f)
		require.Equal(t, f >= optOut, s.class == extension, s.name)
		require.Equal(t, s.kind == boolean || s.kind == enum, s.values != nil, s.name)
		if s.kind == boolean {
			require.Equal(t, []string{"false", "true"}, []string{s.values[no].text, s.values[yes].text}, s.name)
		}
	}
}

func TestSubstrateNames(t *testing.T) {
	for s := range Substrate(Substrates) {
		got, ok := ParseSubstrate(s.String())
		require.True(t, ok)
		require.Equal(t, s, got)
	}
	for _, name := range []string{"", "dooh", "DOOH ", "ANYTHING"} {
		_, ok := ParseSubstrate(name)
		require.False(t, ok, name)
	}
	require.Equal(t, "Substrate(24)", Substrate(Substrates).String())
	require.Equal(t, 24, bits.OnesCount32(uint32(everywhere)))
	require.Equal(t, 23, bits.OnesCount32(uint32(concrete)))
}
