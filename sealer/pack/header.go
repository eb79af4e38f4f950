// Package pack has proof packs, contiguous slices of a tenant's log: it builds them from events and signs them, writes
// them as files, and reads them strictly, as it reads audit exports. What it takes to judge a
// pack is here as well: Inspector examines entries, Ledger folds them into totals, duplicates and settlement rules, and
// History knows the entries of earlier packs. Builder signs what they find; package verify compares it
// with what was signed. Package sealer specifies the texts.
//
// It keeps no state and reads no clock; a History alone uses randomness. A Meter, a Ledger, a History, a Builder, a BundleWriter and
// a Reader belong to one goroutine.
package pack

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"time"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/settlement"
)

// MaxEntries is the most entries of one pack.
const MaxEntries = 100_000

// Header is what a proof pack states about its entries, a contiguous slice of
// one tenant's log. Its canonical text is what the pack's signature is over.
type Header struct {
	// Checkpoint is the C2SP signed note for TreeSize and RootHash.
	Checkpoint string
	// Consistency is the RFC 6962 proof from the previous tree to this one; empty
	// for the first pack.
	Consistency []merkle.Hash
	// Count is the number of entries, 1 to MaxEntries.
	Count int
	// Directory is the signed key directory, verbatim.
	Directory []byte
	// Duplicates are the entries that repeat an earlier delivery, by rising leaf.
	Duplicates []Duplicate
	// FirstIndex is the leaf of the first entry, and the size of the previous tree.
	FirstIndex uint64
	// Metering adds up all deliveries of the pack; sorted, see MeterRow.
	Metering []MeterRow
	PackID   string
	// Previous is the pack before this one; nil if FirstIndex is 0.
	Previous *Ref
	RootHash merkle.Hash
	SealedAt time.Time
	// Settlement is what the settlement rules make of the pack; nil if there are none.
	Settlement *settlement.Settlement
	// SigningKeyID names the key of the signature and of the checkpoint, of
	// keydir.PurposePack or, for a sandbox, keydir.PurposeSandbox.
	SigningKeyID string
	TenantID     string
	// TreeSize is FirstIndex + Count.
	TreeSize uint64
}

// Ref names a sealed pack and the tree that it ended with. It binds the whole
// pack: the root its entries, HeaderHash all that it says about them.
type Ref struct {
	HeaderHash merkle.Hash // SHA-256 of the header's canonical text
	PackID     string
	RootHash   merkle.Hash
	TreeSize   uint64
}

// Ref is how the next pack names this one.
func (h *Header) Ref() Ref {
	return Ref{sha256.Sum256(h.Append(nil)), h.PackID, h.RootHash, h.TreeSize}
}

// Append appends the canonical text, which the pack's signature covers.
func (h *Header) Append(dst []byte) []byte {
	dst = append(dst, `{"checkpoint":`...)
	dst = canonical.AppendString(dst, h.Checkpoint)
	dst = append(dst, `,"consistency":`...)
	dst = sealer.AppendHashes(dst, h.Consistency)
	dst = append(dst, `,"count":`...)
	dst = strconv.AppendInt(dst, int64(h.Count), 10)
	dst = append(dst, `,"directory":`...)
	dst = append(dst, h.Directory...)
	dst = append(dst, `,"duplicates":[`...)
	for i, d := range h.Duplicates {
		dst = canonical.AppendComma(dst, i)
		dst = append(dst, `{"first":`...)
		dst = strconv.AppendUint(dst, d.First, 10)
		dst = append(dst, `,"leaf":`...)
		dst = strconv.AppendUint(dst, d.Leaf, 10)
		dst = append(dst, '}')
	}
	dst = append(dst, `],"firstIndex":`...)
	dst = strconv.AppendUint(dst, h.FirstIndex, 10)
	dst = append(dst, `,"metering":[`...)
	for i := range h.Metering {
		dst = canonical.AppendComma(dst, i)
		dst = h.Metering[i].append(dst)
	}
	dst = append(dst, `],"packId":`...)
	dst = canonical.AppendString(dst, h.PackID)
	dst = append(dst, `,"previous":`...)
	if h.Previous == nil {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, `{"headerHash":`...)
		dst = sealer.AppendHash(dst, h.Previous.HeaderHash)
		dst = append(dst, `,"packId":`...)
		dst = canonical.AppendString(dst, h.Previous.PackID)
		dst = append(dst, `,"rootHash":`...)
		dst = sealer.AppendHash(dst, h.Previous.RootHash)
		dst = append(dst, `,"treeSize":`...)
		dst = strconv.AppendUint(dst, h.Previous.TreeSize, 10)
		dst = append(dst, '}')
	}
	dst = append(dst, `,"rootHash":`...)
	dst = sealer.AppendHash(dst, h.RootHash)
	dst = append(dst, `,"sealedAt":`...)
	dst = canonical.AppendQuotedTime(dst, h.SealedAt)
	dst = append(dst, `,"settlement":`...)
	dst = h.Settlement.Append(dst)
	dst = append(dst, `,"signingKeyId":`...)
	dst = canonical.AppendString(dst, h.SigningKeyID)
	dst = append(dst, `,"tenantId":`...)
	dst = canonical.AppendString(dst, h.TenantID)
	dst = append(dst, `,"treeSize":`...)
	dst = strconv.AppendUint(dst, h.TreeSize, 10)
	return append(dst, `,"v":1}`...)
}

func (r *MeterRow) append(dst []byte) []byte {
	dst = append(dst, `{"basisId":`...)
	dst = canonical.AppendString(dst, r.BasisID)
	dst = append(dst, `,"impressions":"`...)
	dst = sealer.AppendImpressions(dst, r.Impressions)
	dst = append(dst, `","meteringBasis":`...)
	dst = canonical.AppendString(dst, r.MeteringBasis)
	dst = append(dst, `,"quantityMs":`...)
	dst = strconv.AppendInt(dst, r.QuantityMs, 10)
	dst = append(dst, `,"reason":`...)
	dst = canonical.AppendString(dst, r.Reason)
	dst = append(dst, `,"receipts":`...)
	dst = strconv.AppendInt(dst, r.Receipts, 10)
	dst = append(dst, `,"rightId":`...)
	dst = canonical.AppendString(dst, r.RightID)
	dst = append(dst, `,"substrate":`...)
	dst = canonical.AppendString(dst, r.Substrate)
	return append(dst, '}')
}

// ParseHeader reads the canonical text of a header and checks that it is consistent:
// sizes, order of lists. It verifies no signature.
func ParseHeader(text []byte) (Header, error) {
	h, err := parseHeader(text)
	if err != nil {
		return Header{}, fmt.Errorf("cannot read pack header: %w", err)
	}
	return h, nil
}

func parseHeader(text []byte) (h Header, err error) {
	s := sealer.NewScanner(string(text))
	s.Lit(`{"checkpoint":`)
	h.Checkpoint = s.Name()
	s.Lit(`,"consistency":`)
	h.Consistency = s.Hashes()
	s.Lit(`,"count":`)
	h.Count = int(s.Integer())
	s.Lit(`,"directory":`)
	directoryAt := s.At
	s.Object()
	h.Directory = text[directoryAt:s.At:s.At]
	s.Lit(`,"duplicates":`)
	s.List(func() { h.Duplicates = append(h.Duplicates, readDuplicate(&s)) })
	s.Lit(`,"firstIndex":`)
	h.FirstIndex = uint64(s.Integer())
	s.Lit(`,"metering":`)
	s.List(func() { h.Metering = append(h.Metering, readMeterRow(&s)) })
	s.Lit(`,"packId":`)
	h.PackID = s.PackID()
	s.Lit(`,"previous":`)
	if !s.Has("null") {
		h.Previous = readRef(&s)
	}
	s.Lit(`,"rootHash":`)
	h.RootHash = s.Hash()
	s.Lit(`,"sealedAt":`)
	h.SealedAt = s.Time()
	s.Lit(`,"settlement":`)
	h.Settlement = settlement.Read(&s)
	s.Lit(`,"signingKeyId":`)
	h.SigningKeyID = s.Name()
	s.Lit(`,"tenantId":`)
	h.TenantID = s.TenantID()
	s.Lit(`,"treeSize":`)
	h.TreeSize = uint64(s.Integer())
	s.Lit(`,"v":1}`)
	if err := s.End(); err != nil {
		return h, err
	}
	return h, h.check()
}

func readDuplicate(s *sealer.Scanner) (d Duplicate) {
	s.Lit(`{"first":`)
	d.First = uint64(s.Integer())
	s.Lit(`,"leaf":`)
	d.Leaf = uint64(s.Integer())
	s.Lit(`}`)
	return d
}

func readMeterRow(s *sealer.Scanner) (r MeterRow) {
	s.Lit(`{"basisId":`)
	r.BasisID = s.Name()
	s.Lit(`,"impressions":`)
	r.Impressions = s.Impressions()
	s.Lit(`,"meteringBasis":`)
	r.MeteringBasis = s.Name()
	s.Lit(`,"quantityMs":`)
	r.QuantityMs = s.Integer()
	s.Lit(`,"reason":`)
	r.Reason = s.Name()
	s.Lit(`,"receipts":`)
	r.Receipts = s.Integer()
	s.Lit(`,"rightId":`)
	r.RightID = s.Name()
	s.Lit(`,"substrate":`)
	r.Substrate = s.Name()
	s.Lit(`}`)
	return r
}

func readRef(s *sealer.Scanner) *Ref {
	r := new(Ref)
	s.Lit(`{"headerHash":`)
	r.HeaderHash = s.Hash()
	s.Lit(`,"packId":`)
	r.PackID = s.PackID()
	s.Lit(`,"rootHash":`)
	r.RootHash = s.Hash()
	s.Lit(`,"treeSize":`)
	r.TreeSize = uint64(s.Integer())
	s.Lit(`}`)
	return r
}

// check checks that the header is consistent.
func (h *Header) check() error {
	switch {
	case h.Count < 1 || h.Count > MaxEntries:
		return fmt.Errorf("the pack has %d entries, want 1 to %d", h.Count, MaxEntries)
	case h.TreeSize != h.FirstIndex+uint64(h.Count):
		return fmt.Errorf("%d entries from leaf %d on do not make a tree of %d leaves", h.Count, h.FirstIndex, h.TreeSize)
	case (h.Previous == nil) != (h.FirstIndex == 0), h.Previous != nil && h.Previous.TreeSize != h.FirstIndex:
		return fmt.Errorf("the previous pack does not end at leaf %d", h.FirstIndex)
	}
	for i, d := range h.Duplicates {
		if d.First >= d.Leaf || d.Leaf < h.FirstIndex || d.Leaf >= h.TreeSize ||
			(i > 0 && d.Leaf <= h.Duplicates[i-1].Leaf) {
			return fmt.Errorf("duplicate %d of leaf %d is out of range or order", d.Leaf, d.First)
		}
	}
	return h.Settlement.Check(h.TreeSize)
}

// Pack is what Builder.Seal returns: a sealed pack without its entries. The caller passes
// those to a BundleWriter once more.
type Pack struct {
	Header Header
	// HeaderText is the canonical text of Header, the bytes that are signed.
	HeaderText []byte
	// Signature is by the key that Header.SigningKeyID names.
	Signature []byte
	// Tree is the tree of the log at the end of the pack. The next pack begins with it.
	Tree *merkle.Tree

	before *merkle.Tree
}

// Before returns the tree that the pack was built on, from its consistency proof.
func (h *Header) Before() (*merkle.Tree, error) {
	if h.Previous == nil {
		return merkle.NewTree(), nil
	}
	t, err := merkle.TreeBefore(h.FirstIndex, h.TreeSize, h.Previous.RootHash, h.Consistency)
	if err != nil {
		return nil, fmt.Errorf("cannot find the tree before pack %s: %w", h.PackID, err)
	}
	return t, nil
}

// Rules are the settlement rules of the log at the end of the pack.
func (h *Header) Rules() []settlement.Rule {
	if h.Settlement == nil {
		return nil
	}
	return h.Settlement.Rules
}
