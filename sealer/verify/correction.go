package verify

import (
	"fmt"
	"slices"

	"muniment/sealer"
)

// statementFiles are the statements of one tenant among the files.
type statementFiles struct {
	byText map[string]*statementFile // by sha256
	// rivals are the signed corrections of one statement, by its sha256.
	rivals map[string][]*statementFile
}

func byText(list []*statementFile) statementFiles {
	all := statementFiles{make(map[string]*statementFile), make(map[string][]*statementFile)}
	for _, s := range list {
		all.byText[s.sha256] = s
		if c := s.said.Correction; c != nil && s.signed { // what is not says nothing of others: anybody can have written it
			all.rivals[c.Previous.SHA256] = append(all.rivals[c.Previous.SHA256], s)
		}
	}
	return all
}

// previous checks that a correction continues the statement before it, and returns that if it is
// among the files, else nil. Its signature needs no check, because the correction names the hash of
// its text.
func (s *statementFile) previous(v *verification, others statementFiles) (previous *sealer.Statement, ok bool) {
	c := s.said.Correction
	if c == nil {
		return nil, true
	}
	for _, other := range others.rivals[c.Previous.SHA256] {
		if other.sha256 != s.sha256 {
			s.fail(StatementCorrected, "%s, in %s, corrects the same statement %s", other.said.StatementID, other.File, c.Previous.StatementID)
			return nil, false
		}
	}
	if !s.isNext(v) {
		return nil, false
	}
	file := others.byText[c.Previous.SHA256]
	if file == nil {
		s.pass(StatementUnproven, "the statement %s, which it corrects, is not among the given files: the difference, what disputes have changed of it, who gets it, and which rules were the first, are not proven", c.Previous.StatementID)
		return nil, true
	}
	if fault := continues(&s.said, &file.said); fault != "" {
		s.fail(StatementCorrected, "the statement %s, which it corrects, %s", c.Previous.StatementID, fault)
		return nil, false
	}
	return &file.said, true
}

// isNext reports whether the statement before was the newest of its chain, by what is at hand of
// the log up to the event of the issue.
func (s *statementFile) isNext(v *verification) bool {
	if s.issue == nil {
		return true
	}
	c := s.said.Correction
	var before *statementIssued
	var chain []statementIssued
	for i := range v.files {
		f := &v.files[i]
		if f.conduct == nil || f.conduct.tenantID != s.said.TenantID || !f.ok() {
			continue
		}
		for _, e := range f.conduct.statements {
			switch {
			case e.leaf >= s.issue.leaf:
			case e.id == c.Previous.StatementID:
				before = &e
			case e.Corrects != nil && *e.Corrects == c.Of:
				chain = append(chain, e)
			}
		}
	}
	if before != nil && before.SHA256 != c.Previous.SHA256 {
		s.fail(StatementCorrected, "by leaf %d the text of %s is another one than the one that it corrects", before.leaf, before.id)
		return false
	}
	for _, e := range chain {
		if c.Previous.StatementID == c.Of || before != nil && e.leaf > before.leaf {
			s.fail(StatementCorrected, "by leaf %d the statement %s was corrected before, by %s", e.leaf, c.Previous.StatementID, e.id)
			return false
		}
	}
	return true
}

// continues describes what contradicts the statement before a correction; empty if nothing does.
func continues(s, p *sealer.Statement) string {
	c := s.Correction
	of, rules := p.StatementID, p.AsOf
	if p.Correction != nil {
		of, rules = p.Correction.Of, p.Correction.Rules
	}
	switch {
	case p.TenantID != s.TenantID || !p.From.Equal(s.From.Time) || !p.To.Equal(s.To.Time) || p.Currency != s.Currency ||
		(p.CounterpartyID == nil) != (s.CounterpartyID == nil) || s.CounterpartyID != nil && *p.CounterpartyID != *s.CounterpartyID:
		return "is of another tenant, period, currency or counterparty"
	case p.StatementID != c.Previous.StatementID || p.AsOf != c.Previous.AsOf || p.Total != c.Previous.Total:
		return fmt.Sprintf("is %s up to %v, of %s in all", p.StatementID, p.AsOf, p.Total)
	case of != c.Of || rules != c.Rules:
		return fmt.Sprintf("is of the chain of %s, by the rules of %v", of, rules)
	}
	return ""
}

// recorrect computes from the packs what has changed, and reports whether the correction states
// the same. Without the statement before it only the late changes can be computed.
func (s *statementFile) recorrect(v *verification, previous, computed *sealer.Statement) bool {
	c := s.said.Correction
	before := &c.Previous.AsOf
	if !s.ends(packOf(v.packs[s.said.TenantID], before.PackID), before, StatementCorrected, "up to which the statement before states") {
		return false
	}
	counts, whole := s.counts(before.TreeSize)
	if !whole {
		s.fail(StatementCorrected, "the log up to pack %s, up to which the statement before states, is not part of that up to pack %s", before.PackID, s.said.AsOf.PackID)
		return false
	}
	then := s.said
	made := *c
	computed.Correction = &made
	err := sealer.Settle(v.rating, s.rules, s.metered(counts, false), s.metered(counts, true), &then)
	said := c.Changes
	switch {
	case err != nil:
	case previous == nil:
		made.Changes, err = sealer.Changes(&then, computed, sealer.ChangedLate)
		said = slices.DeleteFunc(slices.Clone(said), func(c sealer.StatementChange) bool { return c.Reason != sealer.ChangedLate })
	default:
		err = computed.Correct(previous, &then)
	}
	switch {
	case err != nil:
		s.fail(StatementCorrected, "%v", err)
	case !slices.Equal(made.Changes, said):
		s.fail(StatementCorrected, "its changes: %s", firstApart(made.Changes, said))
	case !slices.Equal(made.Payees, c.Payees):
		s.fail(StatementCorrected, "what payees get more or less: %s", firstApart(made.Payees, c.Payees))
	default:
		return true
	}
	return false
}

// firstApart names the first place at which two lists are apart.
func firstApart[T comparable](computed, said []T) string {
	for i := range min(len(computed), len(said)) {
		if computed[i] != said[i] {
			return fmt.Sprintf("number %d is %v, the statement says %v", i, computed[i], said[i])
		}
	}
	return fmt.Sprintf("there are %d, the statement says %d", len(computed), len(said))
}
