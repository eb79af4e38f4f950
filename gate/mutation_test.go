package gate

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// trial is a case ready to be run against any tables: the facts of one delivery,
// and which bits of the outcome are expected. What is expected comes from the
// cases' text, never from the tables under test.
type trial struct {
	name             string
	on               Substrate
	stated           factSet
	seen, want       outcome // of the bits seen, exactly want
	seenMin, wantMin outcome // the same of what only minor mode adds
}

func (c *trial) passes(p *program) bool {
	all, minorOnly := p.run(c.on, c.stated)
	return all&c.seen == c.want && minorOnly&c.seenMin == c.wantMin
}

const (
	refusalBits     = outcome(1<<suppressShift - 1)
	suppressionBits = ^refusalBits
)

func rowNamed(t testing.TB, code string) outcome {
	for i := range rules {
		if rules[i].Code == code {
			return 1 << i
		}
	}
	for i := range suppressions {
		if suppressions[i].Reason.String() == code {
			return 1 << (suppressShift + i)
		}
	}
	require.Fail(t, "no row is named "+code)
	return 0
}

func rowsNamed(t testing.TB, codes []string) (set outcome) {
	for _, code := range codes {
		set |= rowNamed(t, code)
	}
	return set
}

// trials are the published vectors, both matrices and the cases of cases_test.go.
func trials(t testing.TB) (list []trial) {
	file := readVectors(t)
	all := slices.Clone(file.Vectors)
	for i := range cases {
		all = append(all, cases[i].vector(i))
	}
	for i := range all {
		v := &all[i]
		if v.Expect.Status == 422 {
			continue
		}
		verdict := Evaluate(mustRight(t, v.Substrate, string(v.RightScope)), mustDecode(t, string(v.Telemetry)), v.DwellMs)
		c := trial{name: v.ID + " " + v.Title, on: verdict.Substrate, stated: verdict.stated, seen: refusalBits, seenMin: refusalBits,
			want: rowsNamed(t, v.Expect.Violations), wantMin: rowsNamed(t, v.Expect.TightenedByMinorMode)}
		if v.Expect.Status == 200 {
			c.seen |= suppressionBits
			c.want |= rowsNamed(t, v.Expect.SuppressReasons)
		}
		list = append(list, c)
	}
	for _, row := range append(file.Matrix, matrix...) {
		for s := range Substrate(Substrates) {
			stated := Evaluate(&Right{Substrate: s}, mustDecode(t, string(row.Telemetry)), row.DwellMs).stated
			c := trial{name: fmt.Sprintf("%s on %s", row.Code, s), on: s, stated: stated, seen: rowNamed(t, row.Code)}
			if slices.Contains(row.FiresOn, s) {
				c.want = c.seen
			}
			list = append(list, c)
		}
	}
	return list
}

// The tables as they are pass: this is also where the matrices are checked.
func TestTrials(t *testing.T) {
	for _, c := range trials(t) {
		require.True(t, c.passes(compiled), c.name)
	}
}

// A table is only as good as what would notice an error in it: with any term,
// any single fact of a term, any substrate of a set or any NotAny changed, a
// trial must fail.
func TestNoMutantOfTheTablesSurvives(t *testing.T) {
	list := trials(t)
	mutants := 0
	mutate(func(what string, p *program) {
		if reflect.DeepEqual(p, compiled) {
			return // a substrate added where the row's terms don't count anyway
		}
		mutants++
		if !slices.ContainsFunc(list, func(c trial) bool { return !c.passes(p) }) {
			t.Errorf("survived: %s", what)
		}
	})
	require.Greater(t, mutants, 900)
	t.Logf("%d mutants against %d trials", mutants, len(list))
}

// mutate calls visit with each program that is one change away from the tables.
func mutate(visit func(what string, p *program)) {
	for i := range rules {
		mutateRow(rules[i].Code, rules[i].On, rules[i].Terms, func(what string, on surfaces, terms []term) {
			table := slices.Clone(rules)
			table[i].On, table[i].Terms = on, terms
			visit(what, compile(table, suppressions))
		})
	}
	for i := range suppressions {
		mutateRow(suppressions[i].Reason.String(), suppressions[i].On, suppressions[i].Terms, func(what string, on surfaces, terms []term) {
			table := slices.Clone(suppressions)
			table[i].On, table[i].Terms = on, terms
			visit(what, compile(rules, table))
		})
	}
}

func mutateRow(code string, set surfaces, terms []term, visit func(what string, on surfaces, terms []term)) {
	for s := range Substrate(Substrates) {
		visit(fmt.Sprintf("%s: %s toggled", code, s), set^on(s), terms)
	}
	names := factNames()
	for i := range terms {
		with := func(change func(*term)) []term {
			changed := slices.Clone(terms)
			change(&changed[i])
			return changed
		}
		visit(fmt.Sprintf("%s: term %d dropped", code, i), set, slices.Delete(slices.Clone(terms), i, i+1))
		for j, f := range terms[i].All {
			visit(fmt.Sprintf("%s: %s dropped from term %d", code, names[f], i), set, with(func(t *term) { t.All = slices.Delete(slices.Clone(t.All), j, j+1) }))
		}
		for j, f := range terms[i].None {
			visit(fmt.Sprintf("%s: !%s dropped from term %d", code, names[f], i), set, with(func(t *term) { t.None = slices.Delete(slices.Clone(t.None), j, j+1) }))
		}
		visit(fmt.Sprintf("%s: NotAny of term %d flipped", code, i), set, with(func(t *term) { t.NotAny = !t.NotAny }))
		if terms[i].Only != 0 {
			for s := range Substrate(Substrates) {
				visit(fmt.Sprintf("%s: %s toggled for term %d", code, s, i), set, with(func(t *term) { t.Only ^= on(s) }))
			}
		}
	}
}
