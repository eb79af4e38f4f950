package verify

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/checkpoint"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/settlement"
	"muniment.example/sealer/statement"
)

// Types of events that statements depend on.
const (
	statementIssuedEvent = "statement.issued"
	statementVoidedEvent = "statement.voided"
	disputeOpened        = "dispute.opened"
	disputeResolved      = "dispute.resolved"
)

// statementIssued is what the event of a statement says: that it was issued, or that it voids others.
type statementIssued struct {
	leaf           uint64
	id             string
	SHA256         string
	From, To       time.Time
	Currency       string
	CounterpartyID *string
	PackID         string
	RootHash       string
	TreeSize       uint64
	Corrects       *string
	VoidReason     *string
}

// first is the id of the chain's first statement.
func (e *statementIssued) first() string {
	if e.Corrects != nil {
		return *e.Corrects
	}
	return e.id
}

// overlaps reports whether the period of the event's statement overlaps with the time on which s depends.
func (e *statementIssued) overlaps(s *statement.Statement) bool {
	return e.id != s.StatementID && e.From.Before(s.To.Time) && s.Since.Before(e.To)
}

// states reports whether the event has the members of a statement's text.
func (e *statementIssued) states(s *statement.Statement) bool {
	var corrects, reason *string
	if s.Correction != nil {
		corrects, reason = &s.Correction.Of, s.Correction.VoidReason
	}
	return e.From.Equal(s.From.Time) && e.To.Equal(s.To.Time) && e.Currency == s.Currency && same(e.CounterpartyID, s.CounterpartyID) &&
		statement.PackRef{PackID: e.PackID, RootHash: e.RootHash, TreeSize: e.TreeSize} == s.AsOf && same(e.Corrects, corrects) && same(e.VoidReason, reason)
}

// same reports whether both are nil, or equal.
func same(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// noteMoney records an event that a statement may depend on.
func (c *conduct) noteMoney(leaf uint64, e *sealer.Event) {
	switch e.Type {
	case statementIssuedEvent, statementVoidedEvent:
		s := statementIssued{leaf: leaf, id: e.Subject.ID}
		_ = json.Unmarshal(e.Data, &s)                             // the statement of an event that can't be read fails
		if e.Type == statementIssuedEvent || s.VoidReason != nil { // not those that are voided
			c.statements = append(c.statements, s)
		}
	case disputeOpened, disputeResolved:
		d := disputeHistory{leaf: leaf, at: e.At, id: e.Subject.ID, kind: e.Type}
		if json.Unmarshal(e.Data, &d) == nil {
			c.disputes = append(c.disputes, d)
		}
	}
}

// statementFile is a file with a statement.
type statementFile struct {
	*FileReport
	text      []byte
	sha256    string // of the file
	keyID     string
	signature []byte
	said      statement.Statement
	// authentic says that the key that it names has signed the text, whenever that was; signed that the
	// key was allowed to, once packs are judged. issue is the event of its issue, if a sound file holds
	// it.
	authentic, signed bool
	issue             *statementIssued

	// named is the pack of asOf; nil if it is not among the files.
	named *packFile
	// packs are those of its log, in the order of their leaves.
	packs []*packCheck
	out   exclusions
	// monthsBefore are those of the statement that it corrects.
	monthsBefore []settlement.Month
}

func (v *verification) openStatement(f *FileReport, file []byte) {
	s := &statementFile{FileReport: f}
	lines := bytes.SplitAfter(file, []byte("\n"))
	if len(lines) != 3 || len(lines[2]) != 0 {
		f.say(FormatInvalid, "a statement is two lines: its text, and its signature")
		return
	}
	s.text = bytes.TrimSuffix(lines[0], []byte("\n"))
	var err error
	if s.keyID, s.signature, err = sealer.ParseSignatureLine(bytes.TrimSuffix(lines[1], []byte("\n"))); err == nil {
		s.said, err = statement.Parse(s.text)
	}
	if err == nil {
		s.out, err = newExclusions(s.said.Excluded)
	}
	s.sha256 = merkle.Hash(sha256.Sum256(file)).String()
	if err != nil {
		f.say(FormatInvalid, "%v", err)
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

// prepare verifies the signature, so that nothing is kept for what anybody can have written. All
// directories are known.
func (s *statementFile) prepare(v *verification) {
	if v.trust.newer != nil {
		if k := v.trust.newer.Key(s.keyID); k != nil {
			pub, err := k.Public()
			s.authentic = err == nil && ed25519.Verify(pub, s.text, s.signature)
		}
	}
}

// findPacks finds the packs of the statement's log, which are judged.
func (s *statementFile) findPacks(v *verification) {
	s.named = packOf(v.packs[s.said.TenantID], s.said.AsOf.PackID)
	for _, p := range v.packs[s.said.TenantID] {
		if c := p.report.pack; c != nil && c.header != nil {
			s.packs = append(s.packs, c)
		}
	}
	slices.SortFunc(s.packs, func(a, b *packCheck) int { return cmp.Compare(a.header.TreeSize, b.header.TreeSize) })
}

// authenticate judges the signature of a statement, once all packs are judged.
func (s *statementFile) authenticate(v *verification) {
	if v.trust.newer == nil {
		s.noDirectory(v.trust)
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
		s.say(code, "the statement is signed by key %s at %s", s.keyID, canonical.FormatTime(said.IssuedAt.Time))
		return
	case !s.authentic:
		s.say(sealer.SignatureInvalid, "the statement is not what key %s has signed", s.keyID)
		return
	}
	s.signed = true
	s.findPacks(v)
	s.say(SignatureOK, "statement %s of %s, issued %s", said.StatementID, said.TenantID, canonical.FormatTime(said.IssuedAt.Time))
	if keydir.PurposeOf(v.trust.newer.Key(s.keyID).Purpose).Sandbox {
		s.noteSandbox(s.keyID)
	}
	if s.issue == nil {
		s.say(IssueUnproven, "no given file holds the event of its issue, %s", statementIssuedEvent)
	}
	s.remarkVoid(v)
}

// remarkVoid remarks that the statement was voided since.
func (s *statementFile) remarkVoid(v *verification) {
	first := s.said.StatementID
	if c := s.said.Correction; c != nil {
		first = c.Of
	}
	for _, e := range v.issues(s.said.TenantID) {
		if e.VoidReason != nil && e.first() == first && e.id != s.said.StatementID {
			s.say(StatementVoided, "by leaf %d the statement %s voids it, because of %q: nothing of it is due", e.leaf, e.id, *e.VoidReason)
		}
	}
}

// verify judges what a signed statement says, once all statements of its tenant are authenticated.
func (s *statementFile) verify(v *verification, others statementFiles) {
	previous, ok := s.previous(others)
	if !ok {
		return
	}
	if c := s.said.Correction; c != nil && c.VoidReason != nil {
		s.voids(v, previous)
		return
	}
	before, ok := s.issuedBefore(v)
	if !ok || !s.ends(s.named, &s.said.AsOf, StatementLog, "up to which it states") {
		return
	}
	s.disputes(v, s.issue != nil)
	s.recompute(v, before, previous)
}

// ends reports whether a pack is at hand and sound, and ends the log as the statement states.
func (s *statementFile) ends(p *packFile, at *statement.PackRef, code sealer.Code, which string) bool {
	if p == nil {
		s.say(StatementUnproven, "pack %s, %s, is not among the given files", at.PackID, which)
		return false
	}
	switch c := p.report.pack; {
	case worst(p.report.Verdicts) == VerdictUnjudged:
		s.say(StatementUnproven, "pack %s, %s, can't be judged itself", at.PackID, which)
	case c == nil || c.header == nil || !p.report.ok():
		s.say(code, "pack %s, %s, is not sound itself", at.PackID, which)
	case c.header.TreeSize != at.TreeSize || c.header.RootHash.String() != at.RootHash:
		s.say(code, "pack %s ends a log of %d leaves with root %s, the statement names %d and %s", at.PackID, c.header.TreeSize, c.header.RootHash, at.TreeSize, at.RootHash)
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
				s.say(sealer.EntryAltered, "leaf %d of %s, in %s, is of another text of this statement", e.leaf, checkpoint.Origin(s.said.TenantID), f.File)
				return sealedAt
			}
			s.say(InclusionOK, "leaf %d of %s, as %s holds it, is of its issue", e.leaf, checkpoint.Origin(s.said.TenantID), f.File)
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
func (s *statementFile) previous(others statementFiles) (previous *statement.Statement, ok bool) {
	c := s.said.Correction
	if c == nil {
		return nil, true
	}
	for _, other := range others.rivals[c.Previous.SHA256] {
		if other.sha256 != s.sha256 {
			s.say(StatementCorrected, "%s, in %s, corrects the same statement %s", other.said.StatementID, other.File, c.Previous.StatementID)
			return nil, false
		}
	}
	file := others.byText[c.Previous.SHA256]
	if file == nil {
		s.say(StatementUnproven, "the statement %s, which it corrects, is not among the given files: the difference, what disputes have changed of it, and who gets it are not proven", c.Previous.StatementID)
		return nil, true
	}
	if fault := continues(&s.said, &file.said); fault != "" {
		s.say(StatementCorrected, "the statement %s, which it corrects, %s", c.Previous.StatementID, fault)
		return nil, false
	}
	return &file.said, true
}

// voids checks the end of a chain of statements.
func (s *statementFile) voids(v *verification, previous *statement.Statement) {
	if s.issue != nil {
		before := slices.DeleteFunc(v.issues(s.said.TenantID), func(e statementIssued) bool { return e.leaf >= s.issue.leaf })
		if !s.isNext(before) {
			return
		}
	}
	if previous == nil {
		return
	}
	computed, made := s.said, *s.said.Correction
	computed.Correction = &made
	err := computed.Correct(previous, statement.Step{Statement: &computed, Reason: statement.Voided})
	if s.changes(err, &made, s.said.Correction.Changes) {
		s.say(StatementOK, "it takes back %s %s, of %s", previous.Total, s.said.Currency, previous.StatementID)
	}
}

// issues are the events of statements of a tenant in sound files, in the order of their leaves.
func (v *verification) issues(tenantID string) (all []statementIssued) {
	for i := range v.files {
		if f := &v.files[i]; f.conduct != nil && f.conduct.tenantID == tenantID && f.ok() {
			all = append(all, f.conduct.statements...)
		}
	}
	slices.SortFunc(all, func(a, b statementIssued) int { return cmp.Compare(a.leaf, b.leaf) })
	return slices.CompactFunc(all, func(a, b statementIssued) bool { return a.leaf == b.leaf })
}

// issuedBefore returns the events of the statements with which the period overlaps, in their order.
// The statement lists all before its own. They are in the log that it states: it is not issued if there
// are more of them since. None of them may bill the same receipts. It is not ok if one of them is missing: then nothing shows by which rules they state.
func (s *statementFile) issuedBefore(v *verification) (before []statementIssued, ok bool) {
	listed := make(map[string]string) // hashes
	for _, o := range s.said.Overlaps {
		listed[o.StatementID] = o.SHA256
	}
	for _, e := range v.issues(s.said.TenantID) {
		hash, isListed := listed[e.id]
		stated := e.leaf < s.said.AsOf.TreeSize
		switch earlier := stated || s.issue != nil && e.leaf < s.issue.leaf; {
		case !isListed && earlier && e.overlaps(&s.said):
			s.say(StatementOverlap, "by leaf %d the statement %s, of %s to %s, was issued before, and is not listed", e.leaf, e.id, canonical.FormatTime(e.From), canonical.FormatTime(e.To))
			return nil, false
		case !isListed:
		case e.TreeSize > e.leaf:
			s.say(StatementOverlap, "the statement %s is listed, and by leaf %d it states %d events: more than there were", e.id, e.leaf, e.TreeSize)
			return nil, false
		case !stated, hash != e.SHA256, !e.overlaps(&s.said):
			s.say(StatementOverlap, "the statement %s is listed, and by leaf %d it was issued later, has another text or does not overlap", e.id, e.leaf)
			return nil, false
		default:
			before = append(before, e)
			delete(listed, e.id)
		}
	}
	if len(listed) > 0 {
		s.say(StatementUnproven, "no given file holds the event of the issue of %s, with which the period overlaps: the rules of the receipts that it states can't be judged", slices.Min(slices.Collect(maps.Keys(listed))))
		return nil, false
	}
	return before, s.isNext(before) && s.isFirst(before)
}

// isFirst reports whether no live one of the statements before a first statement bills the same receipts.
func (s *statementFile) isFirst(before []statementIssued) bool {
	if s.said.Correction != nil {
		return true
	}
	for _, e := range before {
		switch over := slices.ContainsFunc(before, func(end statementIssued) bool { return end.VoidReason != nil && end.first() == e.first() }); {
		case over, !s.said.From.Before(e.To), e.Currency != s.said.Currency, e.CounterpartyID != nil && s.said.CounterpartyID != nil && *e.CounterpartyID != *s.said.CounterpartyID:
		default:
			s.say(StatementOverlap, "by leaf %d the statement %s, of %s to %s, was issued before, and bills receipts of that time", e.leaf, e.id, canonical.FormatTime(e.From), canonical.FormatTime(e.To))
			return false
		}
	}
	return true
}

// isNext reports whether the statement that a correction corrects is the newest of its chain among
// those before it.
func (s *statementFile) isNext(before []statementIssued) bool {
	c := s.said.Correction
	if c == nil {
		return true
	}
	var newest *statementIssued
	for i := range before {
		if before[i].first() == c.Of {
			newest = &before[i]
		}
	}
	switch {
	case newest == nil && c.VoidReason != nil:
		s.say(StatementUnproven, "no given file holds the event of the issue of %s: whether it is the newest of what is voided can't be judged", c.Previous.StatementID)
		return false
	case newest == nil:
		s.say(StatementCorrected, "the statement %s, which it corrects, is not among those that it lists", c.Previous.StatementID)
		return false
	case newest.id != c.Previous.StatementID:
		s.say(StatementCorrected, "by leaf %d the statement %s was corrected or voided before, by %s", newest.leaf, c.Previous.StatementID, newest.id)
		return false
	case newest.SHA256 != c.Previous.SHA256:
		s.say(StatementCorrected, "by leaf %d the text of %s is another one than the one that it corrects", newest.leaf, newest.id)
		return false
	}
	return true
}

// continues describes what contradicts the statement before a correction; empty if nothing does.
func continues(s, p *statement.Statement) string {
	c := s.Correction
	of := p.StatementID
	if p.Correction != nil {
		of = p.Correction.Of
	}
	switch {
	case p.TenantID != s.TenantID || !p.From.Equal(s.From.Time) || !p.To.Equal(s.To.Time) || p.Currency != s.Currency ||
		(p.CounterpartyID == nil) != (s.CounterpartyID == nil) || s.CounterpartyID != nil && *p.CounterpartyID != *s.CounterpartyID:
		return "is of another tenant, period, currency or counterparty"
	case p.StatementID != c.Previous.StatementID || p.AsOf != c.Previous.AsOf || p.Total != c.Previous.Total:
		return fmt.Sprintf("is %s up to %v, of %s in all", p.StatementID, p.AsOf, p.Total)
	case of != c.Of:
		return "is of the chain of " + of
	}
	return ""
}

// recorrect computes from the packs what has changed, and reports whether the correction states
// the same. Without the statement before it only the changes by rules and late ones can be computed.
func (s *statementFile) recorrect(v *verification, then, now *statement.Terms, all statedReceipts, previous, computed *statement.Statement) bool {
	c := s.said.Correction
	before, disputed, ruled := all.below(c.Previous.AsOf.TreeSize), s.said, s.said
	made := *c
	computed.Correction = &made
	disputed.Months = s.monthsBefore
	err := errors.Join(before.settle(v.rating, then, &disputed), before.settle(v.rating, now, &ruled))
	steps := []statement.Step{{Statement: &ruled, Reason: statement.ChangedByRules}, {Statement: computed, Reason: statement.ChangedLate}}
	said := c.Changes
	switch {
	case err != nil:
	case previous == nil:
		made.Changes, err = statement.Changes(&disputed, steps...)
		said = slices.DeleteFunc(slices.Clone(said), func(c statement.Change) bool { return c.Reason == statement.ChangedByDispute })
	default:
		err = computed.Correct(previous, append([]statement.Step{{Statement: &disputed, Reason: statement.ChangedByDispute}}, steps...)...)
	}
	return s.changes(err, &made, said)
}

// changes compares the changes that were computed with those that a correction states.
func (s *statementFile) changes(err error, made *statement.Correction, said []statement.Change) bool {
	c := s.said.Correction
	switch {
	case err != nil:
		s.say(StatementCorrected, "%v", err)
	case !slices.Equal(made.Changes, said):
		s.say(StatementCorrected, "its changes: %s", firstApart(made.Changes, said))
	case !slices.Equal(made.Payees, c.Payees):
		s.say(StatementCorrected, "what payees get more or less: %s", firstApart(made.Payees, c.Payees))
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
