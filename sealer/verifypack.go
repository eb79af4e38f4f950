package sealer

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"
)

// packCheck is the verification of one pack.
type packCheck struct {
	trust *trust
	rate  Rate
	// inspect overrides how an entry is examined; nil for inspector.inspect.
	inspect func(*inspector, []byte) finding
	// leaves is set if the leaves are going to be asked for.
	leaves bool
	// seen is called with each delivery and its place in the pack.
	seen func(index int, d *RecordedDelivery)

	header   *PackHeader // nil if the file is no pack
	text     []byte      // of the header
	verdicts []Verdict
	// signed is set if the header is what the pack's key has signed.
	signed bool
	// revoked is set if all that speaks against the pack's key is a revocation
	// after sealedAt: then a later pack of the chain may vouch for this one.
	revoked bool
	before  *Tree // of the log before the first entry
	ledger  *ledger
	conduct *conduct
}

func (c *packCheck) pass(code Code, format string, args ...any) {
	c.verdicts = append(c.verdicts, Verdict{Code: code, OK: true, Message: fmt.Sprintf(format, args...)})
}

func (c *packCheck) fail(code Code, format string, args ...any) {
	c.verdicts = append(c.verdicts, Verdict{Code: code, Message: fmt.Sprintf(format, args...)})
}

// failed reports whether a check has failed.
func (c *packCheck) failed() bool {
	return slices.ContainsFunc(c.verdicts, func(v Verdict) bool { return !v.OK })
}

// run verifies the pack that r holds, and notes its entries in h, which is above what is
// known of the log before. The error is one of reading r or of ctx; what is wrong with the
// pack is in the verdicts. Receipts are checked on all processors; a bundle is streamed.
func (c *packCheck) run(ctx context.Context, r io.Reader, h *history) error {
	in := &source{Reader: r}
	p, err := ReadPack(in)
	if err != nil {
		c.fail(FormatInvalid, "%v", err)
		return in.err
	}
	c.header, c.text = p.Header(), p.HeaderText()

	verdict := c.trust.directory(c.header.Directory, false)
	c.verdicts = append(c.verdicts, verdict)
	if !verdict.OK {
		return nil // without keys nothing else can be told
	}
	directory := c.trust.newer
	pub, receipts := c.key(directory)
	c.beside(p.beside, directory)
	c.before = c.consistency()
	c.ledger = newLedger(c.header.TenantID, c.header.FirstIndex, c.before, h)
	c.conduct = newConduct(c.header.TenantID, c.header.FirstIndex)
	c.conduct.sealed(uint64(c.header.Count), c.header.TreeSize, c.header.SealedAt)
	c.ledger.claim, c.ledger.settles, c.ledger.keeps = c.header.claim(), true, c.leaves
	c.ledger.adopt(c.header.Rules())
	if err := c.entries(ctx, p, &inspector{directory, receipts, c.header.SealedAt}); err != nil {
		c.fail(FormatInvalid, "%v", err)
		return errors.Join(in.err, ctx.Err())
	}
	c.signatures(p, pub)
	if c.signed && directory.ofSandbox(c.header.SigningKeyID) {
		c.verdicts = append(c.verdicts, sandboxKey(c.header.SigningKeyID))
	}
	c.checkpoint(pub)
	c.tree()
	c.faults()
	c.metering()
	c.settlement()
	c.ledger.close()
	c.conduct.close()
	return nil
}

// key finds the pack's key, nil if it must not have signed, and the purpose that
// its receipts' keys must have.
func (c *packCheck) key(d *Directory) (pub ed25519.PublicKey, receipts string) {
	h := c.header
	purpose, receipts := packPurposes(d, h.SigningKeyID)
	pub, code := d.Find(h.SigningKeyID, purpose, h.SealedAt)
	if code == KeyRevoked {
		pub, code = d.FindSealed(h.SigningKeyID, purpose, h.SealedAt, h.SealedAt)
		c.revoked = code == ""
	}
	if code != "" {
		c.fail(code, "the pack is signed by key %s at %s", h.SigningKeyID, FormatTime(h.SealedAt))
	}
	return pub, receipts
}

// beside holds the key that came with the pack against those that decide. It is never
// believed. What it says against itself counts: an answer may be newer than the keys at
// hand, and know of an end or a revocation that they don't.
func (c *packCheck) beside(k *Key, d *Directory) {
	if k == nil {
		return
	}
	h, known := c.header, d.key(k.KeyID)
	switch {
	case k.KeyID != h.SigningKeyID:
		c.fail(KeyMismatch, "the key beside the pack is %s, the pack is signed by %s", k.KeyID, h.SigningKeyID)
	case known == nil: // said before
	case k.Algorithm != known.Algorithm || k.PublicKey != known.PublicKey || k.Purpose != known.Purpose || !k.NotBefore.Equal(known.NotBefore),
		contradicts(k.NotAfter, known.NotAfter), contradicts(k.RevokedAt, known.RevokedAt):
		c.fail(KeyMismatch, "the key %s beside the pack is not as the keys at hand have it", k.KeyID)
	case k.NotAfter != nil && !h.SealedAt.Before(*k.NotAfter):
		c.fail(KeyOutsideWindow, "by the answer the key %s signed no more from %s on", k.KeyID, FormatTime(*k.NotAfter))
	case k.RevokedAt == nil || known.RevokedAt != nil:
	case h.SealedAt.Before(*k.RevokedAt):
		c.revoked = true
	default:
		c.fail(KeyRevoked, "by the answer the key %s was revoked at %s", k.KeyID, FormatTime(*k.RevokedAt))
	}
}

// contradicts says whether two lists differ in a moment that both know.
func contradicts(a, b *time.Time) bool { return a != nil && b != nil && !a.Equal(*b) }

// consistency checks the proof from the previous tree and returns that tree, an
// empty one if the proof is no good.
func (c *packCheck) consistency() *Tree {
	h := c.header
	if h.Previous == nil {
		if len(h.Consistency) != 0 {
			c.fail(ConsistencyMismatch, "the first pack of a log has a consistency proof")
		}
		return NewTree()
	}
	err := VerifyConsistency(h.FirstIndex, h.TreeSize, h.Previous.RootHash, h.RootHash, h.Consistency)
	if err == nil {
		var before *Tree
		if before, err = treeBefore(h.FirstIndex, h.TreeSize, h.Previous.RootHash, h.Consistency); err == nil {
			c.pass(ConsistencyOK, "extends the tree of %d leaves that %s ended with", h.FirstIndex, h.Previous.PackID)
			return before
		}
	}
	c.fail(ConsistencyMismatch, "the log does not extend that of %s: %v", h.Previous.PackID, err)
	return NewTree()
}

// entries folds all entries into the ledger.
func (c *packCheck) entries(ctx context.Context, p *PackReader, in *inspector) error {
	inspect := in.inspect
	if c.inspect != nil {
		inspect = func(text []byte) finding { return c.inspect(in, text) }
	}
	crew := newCrew(runtime.GOMAXPROCS(0), inspect, func(f finding) {
		if c.seen != nil && f.delivery != nil && f.code == "" {
			c.seen(c.ledger.entries, f.delivery)
		}
		c.ledger.fold(f)
		c.conduct.note(&f)
	})
	defer crew.wait()
	for n := 0; ; n++ {
		event, err := p.Next()
		switch {
		case err == io.EOF:
			return ctx.Err()
		case err != nil:
			return err
		case n == c.header.Count:
			return fmt.Errorf("%w: more than %d entries", ErrNotCanonical, n)
		}
		crew.add(event)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func (c *packCheck) signatures(p *PackReader, pub ed25519.PublicKey) {
	h := c.header
	c.signed = pub != nil && ed25519.Verify(pub, c.text, p.Signature())
	switch {
	case pub == nil: // said before
	case !c.signed:
		c.fail(SignatureInvalid, "the header is not what key %s signed", h.SigningKeyID)
	case !slices.ContainsFunc(c.ledger.faults, func(v Verdict) bool { return !aboutContent(v.Code) }):
		c.pass(SignatureOK, "header by key %s, and %s", h.SigningKeyID, count(c.ledger.deliveries, "receipt"))
	}
}

// aboutContent reports whether a fault of an entry lies in what it says, not in
// who signed it.
func aboutContent(code Code) bool {
	switch code {
	case EntryAltered, EntryRepeated, EntryAfterSeal, WitnessMismatch, TenantMismatch:
		return true
	}
	return false
}

func (c *packCheck) checkpoint(pub ed25519.PublicKey) {
	h := c.header
	if pub == nil {
		return
	}
	origin := Origin(h.TenantID)
	point, err := OpenCheckpoint(h.Checkpoint, origin, pub)
	switch {
	case err != nil:
		c.fail(CheckpointMismatch, "%v", err)
	case point != Checkpoint{origin, h.TreeSize, h.RootHash, h.SealedAt.Truncate(time.Second)}:
		c.fail(CheckpointMismatch, "the checkpoint states size %d and root %s, sealed at %s", point.Size, point.Root, FormatTime(point.SealedAt))
	default:
		c.pass(CheckpointOK, "signed note of %s, size %d", origin, h.TreeSize)
	}
}

func (c *packCheck) tree() {
	h, l := c.header, c.ledger
	switch {
	case l.entries != h.Count:
		c.fail(CountMismatch, "%s, the header states %d", count(l.entries, "entry"), h.Count)
	case l.tree.Root() != h.RootHash:
		c.fail(RootMismatch, "the entries make root %s, the header states %s", l.tree.Root(), h.RootHash)
	default:
		c.pass(InclusionOK, "leaves %d to %d under root %s", h.FirstIndex, h.TreeSize-1, h.RootHash)
	}
}

// maxFaults bounds how many faulty entries are named.
const maxFaults = 100

func (c *packCheck) faults() {
	if len(c.ledger.faults) == 0 {
		c.pass(WitnessOK, "every receipt stands in the event that it was signed for")
	}
	c.verdicts = append(c.verdicts, namedFaults(c.ledger.faults)...)
}

// namedFaults are the first faults, the last of which counts those left out.
func namedFaults(faults []Verdict) []Verdict {
	if n := len(faults) - maxFaults; n > 0 {
		faults = slices.Clone(faults[:maxFaults])
		faults[maxFaults-1].Message += fmt.Sprintf("; and %s more", count(n, "fault"))
	}
	return faults
}

// metering compares duplicates and rows, unless entries are missing from them
// because they are at fault themselves.
func (c *packCheck) metering() {
	h, l := c.header, c.ledger
	if len(l.faults) > 0 || l.entries != h.Count {
		return
	}
	c.duplicates()
	rows := l.meter.Rows()
	if !slices.Equal(rows, h.Metering) {
		c.fail(MeteringMismatch, "%s", differingRow(rows, h.Metering))
	} else {
		var receipts, quantity, impressions int64
		for _, r := range rows {
			receipts, quantity, impressions = receipts+r.Receipts, quantity+r.QuantityMs, impressions+r.Impressions
		}
		c.pass(MeteringOK, "%s recomputed: %s, %s ms billed, impressions: %s", count(len(rows), "row"), count(int(receipts), "receipt"),
			grouped(quantity), FormatImpressions(impressions))
	}
	c.unproven()
}

// differingRow describes the first row that is not the same.
func differingRow(computed, stated []MeterRow) string {
	for i := range max(len(computed), len(stated)) {
		switch {
		case i >= len(computed):
			return "the header states a row that no entry makes: " + stated[i].describe()
		case i >= len(stated):
			return "the header lacks the row " + computed[i].describe()
		case computed[i] != stated[i]:
			return fmt.Sprintf("the entries make the row %s; the header states %s", computed[i].describe(), stated[i].describe())
		}
	}
	return "no row differs"
}

// describe is the row as people read it.
func (r *MeterRow) describe() string {
	return fmt.Sprintf("right %s, substrate %s, basis %s, metering basis %s, reason %s: %s, %s ms, impressions: %s",
		r.RightID, r.Substrate, r.BasisID, r.MeteringBasis, r.Reason, count(int(r.Receipts), "receipt"), grouped(r.QuantityMs), FormatImpressions(r.Impressions))
}

// claim makes the header's list of duplicates a question.
func (h *PackHeader) claim() func(*Event, uint64) (uint64, bool) {
	firsts := make(map[uint64]uint64, len(h.Duplicates))
	for _, d := range h.Duplicates {
		firsts[d.Leaf] = d.First
	}
	return func(_ *Event, leaf uint64) (uint64, bool) {
		first, ok := firsts[leaf]
		return first, ok
	}
}

// source remembers why reading failed, so that a broken disk is not taken for a
// broken pack.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}
