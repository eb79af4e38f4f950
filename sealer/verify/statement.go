package verify

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"time"

	"muniment/sealer"
)

// Events that statements rest on.
const (
	statementIssuedEvent = "statement.issued"
	disputeOpened        = "dispute.opened"
	disputeResolved      = "dispute.resolved"
)

// statementIssued is what the event of a statement says.
type statementIssued struct {
	leaf     uint64
	id       string
	SHA256   string
	Corrects *string
}

// noteMoney notes an event that a statement may rest on.
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
	// signed says that the signature holds, once it is verified; issue is the event of its issue, if a
	// sound file holds it.
	signed bool
	issue  *statementIssued

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

// findRules looks for the packs that the statement names, among those whose headers are read.
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

// authenticate verifies the signature of a statement, once all packs are judged.
func (s *statementFile) authenticate(v *verification) {
	if v.trust.newer == nil {
		s.noDirectory()
		return
	}
	said := &s.said
	sealedAt := s.findIssue(v)
	key, code := packKey(v.trust.newer, s.keyID, said.IssuedAt.Time)
	if code == sealer.KeyRevoked && !sealedAt.IsZero() {
		key, code = v.trust.newer.FindSealed(s.keyID, v.trust.newer.Key(s.keyID).Purpose, said.IssuedAt.Time, sealedAt)
	}
	switch {
	case code != "":
		s.fail(code, "the statement is signed by key %s at %s", s.keyID, sealer.FormatTime(said.IssuedAt.Time))
		return
	case !ed25519.Verify(key, s.text, s.signature):
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
	if !ok || !s.ends(s.named, &s.said.AsOf, StatementLog, "up to which it states") {
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

// findIssue looks for the event by which the log knows of the statement, and returns when the pack
// that holds it was sealed; zero if none does.
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
			if e.SHA256 != s.sha256 {
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
