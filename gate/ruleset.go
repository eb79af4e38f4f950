package gate

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
)

// RulesetHash identifies the tables by which a delivery was decided: the
// base64url SHA-256 of their canonical text. It changes when a field, a fact, a
// threshold, a rule, a suppression or a class of the projection does, and not
// when only a wording does. Every receipt's event carries it.
func RulesetHash() string { return rulesetHash }

var rulesetHash = func() string {
	sum := sha256.Sum256([]byte(rulesetText()))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}()

// rulesetText is the tables as text, one row a line.
func rulesetText() string {
	var b strings.Builder
	names := factNames()
	fmt.Fprintln(&b, Version)
	fmt.Fprintf(&b, "bars audible=%dms video=%dms display=%dms number=%d text=%d\n", audibleBarMs, videoBarMs, displayBarMs, int64(maxNumber), maxTextBytes)
	for f := range fieldCount {
		writeField(&b, &fields[f])
	}
	for i := range keeping {
		fmt.Fprintf(&b, "keep %c when", keeping[i].class.letter())
		writeTerm(&b, &keeping[i].when, names)
	}
	for i := range rules {
		r := &rules[i]
		fmt.Fprintf(&b, "refuse %s %s on %s fields", r.Code, r.ID, r.On)
		for _, f := range r.Fields {
			fmt.Fprintf(&b, " %s", fields[f].name)
		}
		fmt.Fprintln(&b)
		writeTerms(&b, r.Terms, names)
	}
	for i := range suppressions {
		s := &suppressions[i]
		fmt.Fprintf(&b, "suppress %s on %s\n", s.Reason, s.On)
		writeTerms(&b, s.Terms, names)
	}
	return b.String()
}

func writeField(b *strings.Builder, s *spec) {
	fmt.Fprintf(b, "field %s %c", s.name, s.class.letter())
	switch s.kind {
	case number:
		fmt.Fprintf(b, " number>=%.0f", s.min)
	case text:
		fmt.Fprint(b, " text")
	default:
		for i, v := range s.values {
			fmt.Fprintf(b, "%c%s", " |"[min(i, 1)], v.text)
		}
	}
	if s.nullable {
		fmt.Fprint(b, " nullable")
	}
	if s.failSafe {
		fmt.Fprint(b, " failsafe")
	}
	fmt.Fprintln(b)
}

func writeTerms(b *strings.Builder, terms []term, names [factCount]string) {
	for i := range terms {
		fmt.Fprint(b, " ")
		writeTerm(b, &terms[i], names)
	}
}

func writeTerm(b *strings.Builder, t *term, names [factCount]string) {
	for _, f := range setOf(t.All).list() {
		fmt.Fprintf(b, " %s", names[f])
	}
	for _, f := range setOf(t.None).list() {
		fmt.Fprintf(b, " !%s", names[f])
	}
	if t.NotAny {
		fmt.Fprint(b, " notany")
	}
	if t.Only != 0 {
		fmt.Fprintf(b, " only %s", t.Only)
	}
	if t.Detail != nil {
		fmt.Fprintf(b, " field %s", fields[t.Detail.Field].name)
	}
	fmt.Fprintln(b)
}

func (c class) letter() byte { return "MESNGX"[c] }

// factNames names each fact by how it is read off: "linkState=lost",
// "speedMph>=5"; one that several fields state, by all of them.
func factNames() (names [factCount]string) {
	for f, ways := range readings() {
		for i, r := range ways {
			names[f] += "/"[:min(i, 1)] + r.name
		}
	}
	return names
}

// String lists the names of the set, joined by commas.
func (set surfaces) String() string {
	var names []string
	for _, s := range set.list() {
		names = append(names, s.String())
	}
	return strings.Join(names, ",")
}
