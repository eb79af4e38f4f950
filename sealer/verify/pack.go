package verify

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/checkpoint"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/settlement"
)

// packCheck is the verification of one pack.
type packCheck struct {
	trust *trust
	rate  settlement.Rate
	// inspect overrides how an entry is examined; nil for Inspector.Inspect.
	inspect func(*pack.Inspector, []byte) pack.Finding
	// statements are by tenant. The pack keeps the receipts of their periods.
	statements map[string][]*statementFile
	// leaves is set if the leaves must be kept.
	leaves bool
	// seen is called with each delivery and its place in the pack.
	seen func(index int, d *sealer.RecordedDelivery)

	header   *pack.Header // nil if the file is no pack
	text     []byte       // of the header
	verdicts []Verdict
	// signed is set if the header is what the pack's key has signed.
	signed bool
	// revoked is set if all that speaks against the pack's key is a revocation
	// after sealedAt: then a later pack of the chain may vouch for this one.
	revoked bool
	before  *merkle.Tree // of the log before the first entry
	ledger  *pack.Ledger
	conduct *conduct
	// recording is what it says of plays.
	recording *recording
	// receipts are the metered ones of the periods of statements.
	receipts []keptReceipt
	names    []receiptNames
	// sums are those of its rated receipts, if rules name campaigns or labels, which are named.
	sums  []settlement.Metered
	named settlement.ScopeNames
	// scopes are the names of rules, of all files; nil: of none.
	scopes *settlement.ScopeNames
}

// say adds what a check has found.
func (c *packCheck) say(code sealer.Code, format string, args ...any) {
	c.verdicts = append(c.verdicts, found(code, fmt.Sprintf(format, args...)))
}

// failed reports whether a check has not passed.
func (c *packCheck) failed() bool {
	return slices.ContainsFunc(c.verdicts, func(v Verdict) bool { return !v.OK })
}

// run verifies the pack that r holds. known is what is known of its log before it; nil for
// nothing. The error is one of reading r or of ctx; what is wrong with the pack is in the
// verdicts. Receipts are checked on all processors; a bundle is streamed.
func (c *packCheck) run(ctx context.Context, r io.Reader, known *pack.History) error {
	in := &source{Reader: r}
	p, err := pack.Read(&lineEnds{in: in})
	if err != nil {
		c.say(FormatInvalid, "%v", err)
		return in.err
	}
	c.header, c.text = p.Header(), p.HeaderText()

	verdict := c.trust.directory(c.header.Directory, c.header.SigningKeyID)
	c.verdicts = append(c.verdicts, verdict)
	if !verdict.OK { // without keys nothing else can be checked
		return c.form(ctx, in, p)
	}
	directory := c.trust.newer
	pub, receipts := c.key(directory)
	if worst(c.verdicts) == VerdictUnjudged {
		return c.form(ctx, in, p) // likewise
	}
	c.beside(p.KeyBeside(), directory)
	c.before = c.consistency()
	c.ledger = pack.NewLedger(c.header.TenantID, c.header.FirstIndex, c.before, known)
	c.conduct = newConduct(c.header.TenantID, c.header.FirstIndex, c.scopes)
	c.recording = &recording{tenantID: c.header.TenantID, first: c.header.FirstIndex, end: c.header.TreeSize, by: c.header.SealedAt}
	c.conduct.sealed(uint64(c.header.Count), c.header.TreeSize, c.header.SealedAt)
	c.ledger.Claim, c.ledger.Settles, c.ledger.Keeps = claimOf(c.header), true, c.leaves
	c.ledger.Adopt(c.header.Rules())
	if err := c.entries(ctx, p, &pack.Inspector{Directory: directory, Purpose: receipts, SealedAt: c.header.SealedAt, Signatures: c.trust.signatures}); err != nil {
		c.say(FormatInvalid, "%v", err)
		return errors.Join(in.err, ctx.Err())
	}
	c.signatures(p, pub)
	if c.signed && directory.OfSandbox(c.header.SigningKeyID) {
		c.verdicts = append(c.verdicts, sandboxKey(c.header.SigningKeyID))
	}
	c.checkpoint(pub)
	c.tree()
	c.faults()
	c.metering()
	c.settlement()
	c.keepSums()
	c.keepReceipts()
	c.ledger.Close()
	if c.conduct.close(); !c.signed {
		c.conduct.scopes = nil // anybody can write many
	}
	return nil
}

// key finds the pack's key, nil if it must not have signed, and the purpose that
// its receipts' keys must have.
func (c *packCheck) key(d *keydir.Directory) (pub ed25519.PublicKey, receipts string) {
	h := c.header
	sandbox := d.OfSandbox(h.SigningKeyID)
	purpose, receipts := keydir.PackPurpose(sandbox), keydir.ReceiptPurpose(sandbox)
	pub, code := d.Find(h.SigningKeyID, purpose, h.SealedAt)
	if code == sealer.KeyRevoked {
		pub, code = d.FindSealed(h.SigningKeyID, purpose, h.SealedAt, h.SealedAt)
		c.revoked = code == ""
	}
	if code = KeyFault(d, h.SigningKeyID, h.SealedAt, code); code == sealer.KeyUnknown && c.trust.lists(h.Directory, h.SigningKeyID) {
		c.say(KeyMismatch, "the pack is signed by key %s, which the directory in it lists, and the newer one that decides does not", h.SigningKeyID)
	} else if code != "" {
		c.say(code, "the pack is signed by key %s at %s", h.SigningKeyID, canonical.FormatTime(h.SealedAt))
	}
	return pub, receipts
}

// beside compares the key that came with the pack with the trusted keys. It proves nothing, but
// its end or revocation counts: an answer may be newer than the keys at hand.
func (c *packCheck) beside(k *keydir.Key, d *keydir.Directory) {
	if k == nil {
		return
	}
	h, known := c.header, d.Key(k.KeyID)
	switch {
	case k.KeyID != h.SigningKeyID:
		c.say(KeyMismatch, "the key beside the pack is %s, the pack is signed by %s", k.KeyID, h.SigningKeyID)
	case known == nil: // said before
	case k.Algorithm != known.Algorithm || k.PublicKey != known.PublicKey || k.Purpose != known.Purpose || !k.NotBefore.Equal(known.NotBefore),
		contradicts(k.NotAfter, known.NotAfter), contradicts(k.RevokedAt, known.RevokedAt):
		c.say(KeyMismatch, "the key %s beside the pack is not as the keys at hand have it", k.KeyID)
	case k.NotAfter != nil && !h.SealedAt.Before(*k.NotAfter):
		c.say(sealer.KeyOutsideWindow, "by the answer the key %s signed no more from %s on", k.KeyID, canonical.FormatTime(*k.NotAfter))
	case k.RevokedAt == nil || known.RevokedAt != nil:
	case h.SealedAt.Before(*k.RevokedAt):
		c.revoked = true
	default:
		c.say(sealer.KeyOutsideWindow, "by the answer the key %s was revoked at %s", k.KeyID, canonical.FormatTime(*k.RevokedAt))
	}
}

// contradicts reports whether both moments are known and differ.
func contradicts(a, b *time.Time) bool { return a != nil && b != nil && !a.Equal(*b) }

// consistency checks the proof from the previous tree and returns that tree, an
// empty one if the proof is no good.
func (c *packCheck) consistency() *merkle.Tree {
	h := c.header
	if h.Previous == nil {
		if len(h.Consistency) != 0 {
			c.say(ConsistencyMismatch, "the first pack of a log has a consistency proof")
		}
		return merkle.NewTree()
	}
	err := merkle.VerifyConsistency(h.FirstIndex, h.TreeSize, h.Previous.RootHash, h.RootHash, h.Consistency)
	if err == nil {
		var before *merkle.Tree
		if before, err = h.Before(); err == nil {
			c.say(ConsistencyOK, "extends the tree of %d leaves that %s ended with", h.FirstIndex, h.Previous.PackID)
			return before
		}
	}
	c.say(ConsistencyMismatch, "the log does not extend that of %s: %v", h.Previous.PackID, err)
	return merkle.NewTree()
}

// entries folds all entries into the ledger.
func (c *packCheck) entries(ctx context.Context, p *pack.Reader, in *pack.Inspector) error {
	inspect := in.Inspect
	if c.inspect != nil {
		inspect = func(texts ...[]byte) (all []pack.Finding) {
			for _, text := range texts {
				all = append(all, c.inspect(in, text))
			}
			return all
		}
	}
	workers := pack.NewWorkers(runtime.GOMAXPROCS(0), inspect, func(f pack.Finding) {
		if c.seen != nil && f.Delivery != nil && f.Code == "" {
			c.seen(c.ledger.Entries, f.Delivery)
		}
		f.Code = entryFault(in.Directory, &f)
		repetitions := len(c.ledger.Duplicates)
		c.ledger.Fold(f)
		if f.Delivery != nil && len(c.ledger.Duplicates) == repetitions {
			c.recording.note(f.Delivery)
		}
		c.conduct.note(&f)
	})
	defer workers.Wait()
	return c.read(ctx, p, workers.Add)
}

// form checks that the rest of a pack, whose entries can't be judged, has its form.
func (c *packCheck) form(ctx context.Context, in *source, p *pack.Reader) error {
	if err := c.read(ctx, p, func([]byte) {}); err != nil {
		c.say(FormatInvalid, "%v", err)
		return errors.Join(in.err, ctx.Err())
	}
	return nil
}

// read reads all entries, and adds each.
func (c *packCheck) read(ctx context.Context, p *pack.Reader, add func(event []byte)) error {
	for n := 0; ; n++ {
		event, err := p.Next()
		switch {
		case err == io.EOF:
			return ctx.Err()
		case err != nil:
			return err
		case n == c.header.Count:
			return fmt.Errorf("%w: more than %d entries", canonical.ErrNotCanonical, n)
		}
		add(event)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func (c *packCheck) signatures(p *pack.Reader, pub ed25519.PublicKey) {
	h := c.header
	c.signed = pub != nil && ed25519.Verify(pub, c.text, p.Signature())
	switch {
	case pub == nil: // said before
	case !c.signed:
		c.say(sealer.SignatureInvalid, "the header is not what key %s signed", h.SigningKeyID)
	case !slices.ContainsFunc(c.ledger.Faults, func(f pack.Fault) bool { return !aboutContent(f.Code) }):
		c.say(SignatureOK, "header by key %s, and %s", h.SigningKeyID, count(c.ledger.Deliveries, "receipt"))
	}
}

// aboutContent reports whether a fault is one of the entry's content, not of its signature.
func aboutContent(code sealer.Code) bool {
	switch code {
	case sealer.EntryAltered, sealer.EntryRepeated, sealer.EntryAfterSeal, sealer.WitnessMismatch, sealer.TenantMismatch:
		return true
	}
	return false
}

func (c *packCheck) checkpoint(pub ed25519.PublicKey) {
	h := c.header
	if pub == nil {
		return
	}
	origin := checkpoint.Origin(h.TenantID)
	point, err := checkpoint.Open(h.Checkpoint, origin, pub)
	switch {
	case err != nil:
		c.say(CheckpointMismatch, "%v", err)
	case point != checkpoint.Checkpoint{Origin: origin, Size: h.TreeSize, Root: h.RootHash, SealedAt: h.SealedAt.Truncate(time.Second)}:
		c.say(CheckpointMismatch, "the checkpoint states size %d and root %s, sealed at %s", point.Size, point.Root, canonical.FormatTime(point.SealedAt))
	default:
		c.say(CheckpointOK, "signed note of %s, size %d", origin, h.TreeSize)
	}
}

func (c *packCheck) tree() {
	h, l := c.header, c.ledger
	switch {
	case l.Entries != h.Count:
		c.say(CountMismatch, "%s, the header states %d", count(l.Entries, "entry"), h.Count)
	case l.Tree.Root() != h.RootHash:
		c.say(RootMismatch, "the entries make root %s, the header states %s", l.Tree.Root(), h.RootHash)
	default:
		c.say(InclusionOK, "leaves %d to %d under root %s", h.FirstIndex, h.TreeSize-1, h.RootHash)
	}
}

// maxFaults bounds how many faulty entries are named.
const maxFaults = 100

func (c *packCheck) faults() {
	faults := c.ledger.Faults
	if len(faults) == 0 {
		c.say(WitnessOK, "every receipt stands in the event that it was signed for")
	}
	if c.signed {
		faults = c.trust.vouched(faults)
	}
	c.verdicts = append(c.verdicts, namedFaults(entryVerdicts(faults))...)
}

// entryVerdicts are the faults of entries as verdicts.
func entryVerdicts(faults []pack.Fault) []Verdict {
	list := make([]Verdict, len(faults))
	for i := range faults {
		list[i] = found(faults[i].Code, faults[i].Message)
		list[i].Index = &faults[i].Index
	}
	return list
}

// namedFaults returns the first faults, the last of which counts the omitted ones.
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
	if len(l.Faults) > 0 || l.Entries != h.Count {
		return
	}
	c.duplicates()
	rows := l.Meter.Rows()
	if !slices.Equal(rows, h.Metering) {
		c.say(MeteringMismatch, "%s", differingRow(rows, h.Metering))
	} else {
		var receipts, quantity, impressions int64
		for _, r := range rows {
			receipts, quantity, impressions = receipts+r.Receipts, quantity+r.QuantityMs, impressions+r.Impressions
		}
		c.say(MeteringOK, "%s recomputed: %s, %s ms billed, impressions: %s", count(len(rows), "row"), count(int(receipts), "receipt"),
			grouped(quantity), sealer.FormatImpressions(impressions))
	}
	c.unproven()
}

// differingRow describes the first row that is not the same.
func differingRow(computed, stated []pack.MeterRow) string {
	for i := range max(len(computed), len(stated)) {
		switch {
		case i >= len(computed):
			return "the header states a row that no entry makes: " + describeRow(&stated[i])
		case i >= len(stated):
			return "the header lacks the row " + describeRow(&computed[i])
		case computed[i] != stated[i]:
			return fmt.Sprintf("the entries make the row %s; the header states %s", describeRow(&computed[i]), describeRow(&stated[i]))
		}
	}
	return "no row differs"
}

// describeRow describes the row for people.
func describeRow(r *pack.MeterRow) string {
	return fmt.Sprintf("right %s, substrate %s, basis %s, metering basis %s, reason %s: %s, %s ms, impressions: %s",
		r.RightID, r.Substrate, r.BasisID, r.MeteringBasis, r.Reason, count(int(r.Receipts), "receipt"), grouped(r.QuantityMs), sealer.FormatImpressions(r.Impressions))
}

// claimOf is the Ledger.Claim of a header: its list of duplicates.
func claimOf(h *pack.Header) func(*sealer.Event, uint64) (uint64, bool) {
	firsts := make(map[uint64]uint64, len(h.Duplicates))
	for _, d := range h.Duplicates {
		firsts[d.Leaf] = d.First
	}
	return func(_ *sealer.Event, leaf uint64) (uint64, bool) {
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
