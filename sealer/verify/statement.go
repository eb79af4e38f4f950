package verify

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"muniment/sealer"
)

// Types of events that statements depend on.
const (
	statementIssuedEvent = "statement.issued"
	disputeOpened        = "dispute.opened"
	disputeResolved      = "dispute.resolved"
)

// statementIssued is what the event of a statement says.
type statementIssued struct {
	leaf           uint64
	id             string
	SHA256         string
	From, To       string
	Currency       string
	CounterpartyID *string
	PackID         string
	Corrects       *string
}

// states reports whether the event has the members of a statement's text.
func (e *statementIssued) states(s *sealer.Statement) bool {
	var corrects *string
	if s.Correction != nil {
		corrects = &s.Correction.Of
	}
	return e.From == sealer.FormatTime(s.From.Time) && e.To == sealer.FormatTime(s.To.Time) && e.Currency == s.Currency && same(e.CounterpartyID, s.CounterpartyID) &&
		e.PackID == s.AsOf.PackID && same(e.Corrects, corrects)
}

// bills describes what an event says to be billed that a first statement bills too, or may bill as it
// states another end of the log, by other rules; empty if there is nothing. Times that can't be read
// overlap with nothing: the statement of such an event fails.
func (e *statementIssued) bills(s *sealer.Statement) string {
	from, err := sealer.ParseTime(e.From)
	to, fault := sealer.ParseTime(e.To)
	switch {
	case e.Corrects != nil || s.Correction != nil || err != nil || fault != nil || !from.Before(s.To.Time) || !s.From.Before(to):
		return ""
	case e.Currency == s.Currency && (e.CounterpartyID == nil || s.CounterpartyID == nil || *e.CounterpartyID == *s.CounterpartyID):
		return "receipts of that time"
	case e.PackID != s.AsOf.PackID:
		return "that time up to another end of the log, " + e.PackID
	}
	return ""
}

// same reports whether both are nil, or equal.
func same(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// noteMoney records an event that a statement may depend on.
func (c *conduct) noteMoney(leaf uint64, e *sealer.Event) {
	switch e.Type {
	case statementIssuedEvent:
		s := statementIssued{leaf: leaf, id: e.Subject.ID}
		if json.Unmarshal(e.Data, &s) == nil {
			c.statements = append(c.statements, s)
		}
	case disputeOpened, disputeResolved:
		d := disputed{leaf: leaf, at: e.At, id: e.Subject.ID, kind: e.Type}
		if json.Unmarshal(e.Data, &d) == nil {
			c.disputes = append(c.disputes, d)
		}
	}
}

// statementFile is a file with a statement.
type statementFile struct {
	*FileReport
	text      []byte
	sha256    string // of text
	keyID     string
	signature []byte
	said      sealer.Statement
	// authentic says that the key that it names has signed the text, whenever that was; signed that the
	// key was allowed to, once packs are judged. issue is the event of its issue, if a sound file holds
	// it.
	authentic, signed bool
	issue             *statementIssued

	// named is the pack of asOf, priced the one with the rules; nil if they are not among the files.
	// edges are the moments at which these rules begin and end.
	named, priced *packFile
	rules         []sealer.SettlementRule
	edges         []int64
	out           exclusions
	parts         []*statementPart
}

// statementPart is what one pack has of the period.
type statementPart struct {
	pack   *packCheck
	counts map[stated]*statedSum
}

func (v *verification) openStatement(f *FileReport, text []byte) {
	s := &statementFile{FileReport: f}
	lines := bytes.SplitAfter(text, []byte("\n"))
	if len(lines) != 3 || len(lines[2]) != 0 {
		f.fail(FormatInvalid, "a statement is two lines: its text, and its signature")
		return
	}
	s.text = bytes.TrimSuffix(lines[0], []byte("\n"))
	var err error
	if s.keyID, s.signature, err = sealer.ParseSignatureLine(bytes.TrimSuffix(lines[1], []byte("\n"))); err == nil {
		s.said, err = sealer.ParseStatement(s.text)
	}
	if err == nil {
		s.out, err = newExclusions(s.said.Excluded)
	}
	s.sha256 = sealer.Hash(sha256.Sum256(s.text)).String()
	if err != nil {
		f.fail(FormatInvalid, "%v", err)
		return
	}
	v.statements[s.said.TenantID] = append(v.statements[s.said.TenantID], s)
}

// packOf is the pack of an id, nil if there is none.
func packOf(packs []*packFile, id string) *packFile {
	i := slices.IndexFunc(packs, func(p *packFile) bool { return p.header.PackID == id })
	if i < 0 {
		return nil
	}
	return packs[i]
}

// prepare readies the statement for counting: it verifies the signature, so that nothing is counted for
// what anybody can have written, and looks for the packs that the statement names among those whose
// headers are read. All directories are known.
func (s *statementFile) prepare(v *verification, packs []*packFile) {
	if v.trust.newer != nil {
		if k := v.trust.newer.Key(s.keyID); k != nil {
			pub, err := k.Public()
			s.authentic = err == nil && ed25519.Verify(pub, s.text, s.signature)
		}
	}
	if s.authentic {
		s.findRules(packs)
	}
}

// findRules looks for the packs that the statement names.
func (s *statementFile) findRules(packs []*packFile) {
	s.named = packOf(packs, s.said.AsOf.PackID)
	s.priced = s.named
	if c := s.said.Correction; c != nil {
		s.priced = packOf(packs, c.Rules.PackID)
	}
	if s.priced == nil {
		return
	}
	s.rules = s.priced.header.Rules()
	for _, r := range s.rules {
		var window struct{ EffectiveFrom, EffectiveUntil *time.Time }
		if json.Unmarshal(r.Record, &window) != nil {
			continue // rating will say so
		}
		for _, at := range []*time.Time{window.EffectiveFrom, window.EffectiveUntil} {
			if at != nil {
				s.edges = append(s.edges, at.UnixMilli())
			}
		}
	}
	slices.Sort(s.edges)
	s.edges = slices.Compact(s.edges)
}

// authenticate judges the signature of a statement, once all packs are judged.
func (s *statementFile) authenticate(v *verification) {
	if v.trust.newer == nil {
		s.noDirectory()
		return
	}
	said := &s.said
	sealedAt := s.findIssue(v)
	_, code := packKey(v.trust.newer, s.keyID, said.IssuedAt.Time)
	if code == sealer.KeyRevoked && !sealedAt.IsZero() {
		_, code = v.trust.newer.FindSealed(s.keyID, v.trust.newer.Key(s.keyID).Purpose, said.IssuedAt.Time, sealedAt)
	}
	switch {
	case code != "":
		s.fail(code, "the statement is signed by key %s at %s", s.keyID, sealer.FormatTime(said.IssuedAt.Time))
		return
	case !s.authentic:
		s.fail(sealer.SignatureInvalid, "the statement is not what key %s has signed", s.keyID)
		return
	}
	s.signed = true
	s.pass(SignatureOK, "statement %s of %s, issued %s", said.StatementID, said.TenantID, sealer.FormatTime(said.IssuedAt.Time))
	if sealer.PurposeOf(v.trust.newer.Key(s.keyID).Purpose).Sandbox {
		s.noteSandbox(s.keyID)
	}
	if s.issue == nil {
		s.pass(StatementUnproven, "no given file holds the event of its issue, %s", statementIssuedEvent)
	}
}

// verify judges what a signed statement says, once all statements of its tenant are authenticated.
func (s *statementFile) verify(v *verification, others statementFiles) {
	previous, ok := s.previous(v, others)
	if !ok || !s.isFirst(v) || !s.ends(s.named, &s.said.AsOf, StatementLog, "up to which it states") {
		return
	}
	if c := s.said.Correction; c != nil && !s.ends(s.priced, &c.Rules, StatementCorrected, "whose rules it states by") {
		return
	}
	s.disputes(v, s.issue != nil)
	s.recompute(v, previous)
}

// ends reports whether a pack is at hand and sound, and ends the log as the statement states.
func (s *statementFile) ends(p *packFile, at *sealer.StatementAsOf, code sealer.Code, which string) bool {
	if p == nil {
		s.pass(StatementUnproven, "pack %s, %s, is not among the given files", at.PackID, which)
		return false
	}
	switch c := p.report.pack; {
	case c == nil || c.header == nil || !p.report.ok():
		s.fail(code, "pack %s, %s, is not sound itself", at.PackID, which)
	case c.header.TreeSize != at.TreeSize || c.header.RootHash.String() != at.RootHash:
		s.fail(code, "pack %s ends a log of %d leaves with root %s, the statement names %d and %s", at.PackID, c.header.TreeSize, c.header.RootHash, at.TreeSize, at.RootHash)
	default:
		return true
	}
	return false
}

// findIssue looks for the event of the statement's issue, and returns when the pack that holds
// it was sealed; zero if none does.
func (s *statementFile) findIssue(v *verification) (sealedAt time.Time) {
	for i := range v.files {
		f := &v.files[i]
		if f.conduct == nil || f.conduct.tenantID != s.said.TenantID {
			continue
		}
		for _, e := range f.conduct.statements {
			if e.id != s.said.StatementID || !f.ok() {
				continue
			}
			s.issue = &e
			if e.SHA256 != s.sha256 || !e.states(&s.said) {
				s.fail(sealer.EntryAltered, "leaf %d of %s, in %s, is of another text of this statement", e.leaf, sealer.Origin(s.said.TenantID), f.File)
				return sealedAt
			}
			s.pass(InclusionOK, "leaf %d of %s, as %s holds it, is of its issue", e.leaf, sealer.Origin(s.said.TenantID), f.File)
			if f.pack != nil && f.pack.header != nil {
				sealedAt = f.pack.header.SealedAt
			}
			return sealedAt
		}
	}
	return sealedAt
}

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

// isFirst reports whether nothing that was issued before a first statement bills the same receipts, by
// the known part of the log up to the event of the issue.
func (s *statementFile) isFirst(v *verification) bool {
	if s.issue == nil || s.said.Correction != nil {
		return true
	}
	for i := range v.files {
		f := &v.files[i]
		if f.conduct == nil || f.conduct.tenantID != s.said.TenantID || !f.ok() {
			continue
		}
		for _, e := range f.conduct.statements {
			if e.leaf >= s.issue.leaf {
				continue
			}
			if what := e.bills(&s.said); what != "" {
				s.fail(StatementOverlap, "by leaf %d the statement %s, of %s to %s, was issued before, and bills %s", e.leaf, e.id, e.From, e.To, what)
				return false
			}
		}
	}
	return true
}

// isNext reports whether the statement before was the newest of its chain, by the known part of
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

// firstApart describes the first place at which two lists differ.
func firstApart[T comparable](computed, said []T) string {
	for i := range min(len(computed), len(said)) {
		if computed[i] != said[i] {
			return fmt.Sprintf("number %d is %v, the statement says %v", i, computed[i], said[i])
		}
	}
	return fmt.Sprintf("there are %d, the statement says %d", len(computed), len(said))
}
