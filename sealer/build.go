package sealer

import (
	"cmp"
	"crypto"
	"fmt"
	"maps"
	"runtime"
	"sync"
	"time"
)

// PackConfig is what a pack is built from, beside its entries.
type PackConfig struct {
	// PackID and TenantID name the pack and whose log it is a slice of.
	PackID, TenantID string
	// Before is the tree of the log before the first entry: SealedPack.Tree of the
	// pack before, or NewTree. It is not changed.
	Before *Tree
	// Previous is the pack before; nil for the first.
	Previous *PackRef
	// SealedAt must not be before any of the entries.
	SealedAt time.Time
	// Directory is a signed key directory as SignDirectory returns it. It must list
	// Key, with a PackPurpose, and the keys of all receipts, with the ReceiptPurpose of
	// the same: of the sandbox, or not.
	Directory []byte
	// Key is the Ed25519 key that signs the pack.
	Key crypto.Signer
	// Earlier names, for entries that repeat a delivery of an earlier pack, the
	// lowest such leaf by event id. Repetitions within the pack are found anyway. Repeats adds
	// what becomes known later.
	Earlier map[string]uint64
	// Rules are the settlement rules of the log before the first entry: those of the
	// header of the pack before. Rules among the entries are found anyway.
	Rules []SettlementRule
	// Rate rates the pack. It may be nil as long as there are no rules.
	Rate Rate
	// Workers is how many goroutines verify receipts. Default runtime.GOMAXPROCS(0).
	Workers int
}

// PackBuilder builds one pack out of its entries, in one pass and without
// keeping them. It belongs to one goroutine; others verify each receipt before it stands
// under a checkpoint.
type PackBuilder struct {
	cfg     PackConfig
	ledger  *Ledger
	workers *Workers
	added   int

	mu      sync.Mutex
	earlier map[string]uint64 // guarded by mu
}

// NewPackBuilder begins a pack. The caller must Seal or Abort it.
func NewPackBuilder(cfg PackConfig) (*PackBuilder, error) {
	b, err := newPackBuilder(cfg)
	if err != nil {
		return nil, fmt.Errorf("cannot build pack %s: %w", cfg.PackID, err)
	}
	return b, nil
}

func newPackBuilder(cfg PackConfig) (*PackBuilder, error) {
	directory, err := ReadDirectory(cfg.Directory)
	if err != nil {
		return nil, err
	}
	pub, err := publicKey(cfg.Key)
	if err != nil {
		return nil, err
	}
	sandbox := directory.OfSandbox(KeyID(pub))
	if _, code := directory.Find(KeyID(pub), PackPurpose(sandbox), cfg.SealedAt); code != "" {
		return nil, fmt.Errorf("key %s: %s", KeyID(pub), code)
	}
	if p := cfg.Previous; p != nil && (p.TreeSize != cfg.Before.Size() || p.RootHash != cfg.Before.Root()) {
		return nil, fmt.Errorf("%s, the previous, does not end with the tree before", p.PackID)
	}
	cfg.Before = cfg.Before.Clone()
	b := &PackBuilder{cfg: cfg, earlier: maps.Clone(cfg.Earlier), ledger: NewLedger(cfg.TenantID, cfg.Before.Size(), cfg.Before, nil)}
	b.ledger.Settles, b.ledger.Keeps = true, true
	b.ledger.Adopt(cfg.Rules)
	b.ledger.Claim = b.claim
	in := &Inspector{Directory: directory, Purpose: ReceiptPurpose(sandbox), SealedAt: cfg.SealedAt}
	b.workers = NewWorkers(cmp.Or(cfg.Workers, runtime.GOMAXPROCS(0)), in.Inspect, b.ledger.Fold)
	return b, nil
}

func (b *PackBuilder) claim(event *Event, _ uint64) (first uint64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first, ok = b.earlier[event.EventID]
	return first, ok
}

// Repeats adds to Earlier an entry that Add has not taken yet.
func (b *PackBuilder) Repeats(eventID string, first uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.earlier == nil {
		b.earlier = map[string]uint64{}
	}
	b.earlier[eventID] = first
}

// Add takes the next entry, the text of an event verbatim. The builder reads it
// until Seal returns, so it must not be changed; it is not kept beyond. Seal
// returns what is wrong with an entry.
func (b *PackBuilder) Add(event []byte) {
	b.added++
	if b.added <= MaxPackEntries {
		b.workers.Add(event)
	}
}

// Abort gives the pack up. It does nothing after Seal.
func (b *PackBuilder) Abort() { b.workers.Wait() }

// Seal ends the pack and signs it. It fails, naming the first, if an entry is not
// what it has to be: canonical, of this tenant, of an id of its own, not of a moment
// after the seal, a delivery with its own witness and a valid signature; and if what
// Earlier says can't be so.
func (b *PackBuilder) Seal() (*SealedPack, error) {
	p, err := b.seal()
	if err != nil {
		return nil, fmt.Errorf("cannot seal pack %s: %w", b.cfg.PackID, err)
	}
	return p, nil
}

func (b *PackBuilder) seal() (*SealedPack, error) {
	b.workers.Wait()
	l := b.ledger
	if len(l.Faults) > 0 {
		f := l.Faults[0]
		return nil, fmt.Errorf("entry %d: %s: %s", f.Index, f.Code, f.Message)
	}
	// The log would hold such a pack for good, and every verifier would refuse it.
	if fault := l.Contradiction(); fault != "" {
		return nil, fmt.Errorf("what is known of earlier packs contradicts itself: %s", fault)
	}
	return b.sign()
}

// sign signs what was added, as it is.
func (b *PackBuilder) sign() (*SealedPack, error) {
	l := b.ledger
	pub, err := publicKey(b.cfg.Key)
	if err != nil {
		return nil, err
	}
	consistency, err := b.cfg.Before.Consistency(l.Leaves)
	if err != nil {
		return nil, err
	}
	settlement, err := l.Settlement(b.cfg.Rate)
	if err != nil {
		return nil, err
	}
	h := PackHeader{
		Consistency:  consistency,
		Count:        b.added,
		Directory:    b.cfg.Directory,
		Duplicates:   l.Duplicates,
		FirstIndex:   b.cfg.Before.Size(),
		Metering:     l.Meter.Rows(),
		PackID:       b.cfg.PackID,
		Previous:     b.cfg.Previous,
		RootHash:     l.Tree.Root(),
		SealedAt:     b.cfg.SealedAt,
		Settlement:   settlement,
		SigningKeyID: KeyID(pub),
		TenantID:     b.cfg.TenantID,
		TreeSize:     l.Tree.Size(),
	}
	if h.Checkpoint, err = SignCheckpoint(Checkpoint{Origin(h.TenantID), h.TreeSize, h.RootHash, h.SealedAt}, b.cfg.Key); err != nil {
		return nil, err
	}
	text := h.Append(nil)
	// What can't be read again must not be signed.
	if h, err = parsePackHeader(text); err != nil {
		return nil, err
	}
	if len(text) > maxHeaderBytes {
		return nil, fmt.Errorf("a header of %d bytes, of which %d are the most", len(text), maxHeaderBytes)
	}
	signature, err := sign(b.cfg.Key, text)
	if err != nil {
		return nil, err
	}
	return &SealedPack{Header: h, HeaderText: text, Signature: signature, Tree: l.Tree, before: b.cfg.Before}, nil
}
