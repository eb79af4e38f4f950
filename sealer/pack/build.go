package pack

import (
	"cmp"
	"crypto"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"sync"
	"time"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/checkpoint"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/settlement"
	"muniment.example/sealer/signature"
)

// Config is what a pack is built from, besides its entries.
type Config struct {
	// PackID names the pack; TenantID the tenant whose log it is a slice of.
	PackID, TenantID string
	// Before is the tree of the log before the first entry: Pack.Tree of the
	// pack before, or merkle.NewTree. It is not changed.
	Before *merkle.Tree
	// Previous is the pack before; nil for the first.
	Previous *Ref
	// SealedAt must not be earlier than any entry.
	SealedAt time.Time
	// Directory is a signed key directory as keydir.Sign returns it. It must list
	// Key, with a keydir.PackPurpose, and the keys of all receipts, with the keydir.ReceiptPurpose of
	// the same: of the sandbox, or not.
	Directory []byte
	// Key is the Ed25519 key that signs the pack.
	Key crypto.Signer
	// Earlier has, by event id, the entries that repeat a delivery of an earlier pack, with
	// the lowest leaf that they repeat. The builder itself finds repetitions within the pack;
	// Repeats adds what becomes known later.
	Earlier map[string]uint64
	// Rules are the settlement rules of the log before the first entry: those of the
	// header of the pack before. The builder itself finds rules among the entries.
	Rules []settlement.Rule
	// Rate rates the pack. It may be nil as long as there are no rules.
	Rate settlement.Rate
	// Rights may be nil as long as no rule names a campaign or a label.
	Rights settlement.Rights
	// Counted is as Ledger.Counted; nil: nobody counts. It is called on another goroutine, until Seal or
	// Abort returns.
	Counted func(d *sealer.RecordedDelivery, duplicate bool)
	// Workers is how many goroutines verify receipts. Default runtime.GOMAXPROCS(0).
	Workers int
}

// Builder builds one pack from its entries, in one pass and without keeping them. It
// belongs to one goroutine. It verifies every receipt, on other goroutines, before it signs.
type Builder struct {
	cfg     Config
	ledger  *Ledger
	workers *Workers
	added   int

	mu      sync.Mutex
	earlier map[string]uint64 // guarded by mu
}

// NewBuilder begins a pack. The caller must Seal or Abort it.
func NewBuilder(cfg Config) (*Builder, error) {
	b, err := newBuilder(cfg)
	if err != nil {
		return nil, fmt.Errorf("cannot build pack %s: %w", cfg.PackID, err)
	}
	return b, nil
}

func newBuilder(cfg Config) (*Builder, error) {
	directory, err := keydir.Read(cfg.Directory)
	if err != nil {
		return nil, err
	}
	pub, err := sealer.PublicKey(cfg.Key)
	if err != nil {
		return nil, err
	}
	sandbox := directory.OfSandbox(keydir.KeyID(pub))
	if _, code := directory.Find(keydir.KeyID(pub), keydir.PackPurpose(sandbox), cfg.SealedAt); code != "" {
		return nil, fmt.Errorf("key %s: %s", keydir.KeyID(pub), code)
	}
	if p := cfg.Previous; p != nil && (p.TreeSize != cfg.Before.Size() || p.RootHash != cfg.Before.Root()) {
		return nil, fmt.Errorf("the previous pack %s does not end with the given tree", p.PackID)
	}
	cfg.Before = cfg.Before.Clone()
	b := &Builder{cfg: cfg, earlier: maps.Clone(cfg.Earlier), ledger: NewLedger(cfg.TenantID, cfg.Before.Size(), cfg.Before, nil)}
	b.ledger.Settles, b.ledger.Keeps = true, true
	b.ledger.Adopt(cfg.Rules)
	b.ledger.Claim, b.ledger.Counted = b.claim, cfg.Counted
	in := &Inspector{Directory: directory, Purpose: keydir.ReceiptPurpose(sandbox), SealedAt: cfg.SealedAt, Signatures: new(signature.Checker)}
	b.workers = NewWorkers(cmp.Or(cfg.Workers, runtime.GOMAXPROCS(0)), in.Inspect, b.ledger.Fold)
	return b, nil
}

func (b *Builder) claim(event *sealer.Event, _ uint64) (first uint64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first, ok = b.earlier[event.EventID]
	return first, ok
}

// Repeats adds an entry to Earlier. It must be called before Add of that entry.
func (b *Builder) Repeats(eventID string, first uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.earlier == nil {
		b.earlier = map[string]uint64{}
	}
	b.earlier[eventID] = first
}

// Add adds the next entry, the text of an event verbatim. The text must not be changed until
// Seal returns. What is wrong with an entry, Seal returns as its error.
func (b *Builder) Add(event []byte) {
	b.added++
	if b.added <= MaxEntries {
		b.workers.Add(event)
	}
}

// Abort stops the goroutines of a pack that is not sealed. It does nothing after Seal.
func (b *Builder) Abort() { b.workers.Wait() }

// Seal ends the pack and signs it. It fails if an entry is not canonical, is of another
// tenant, repeats an event id or is later than SealedAt, if a delivery has another event's
// witness or an invalid signature, or if Earlier contradicts itself. The error names the first
// such entry.
func (b *Builder) Seal() (*Pack, error) {
	p, err := b.seal()
	if err != nil {
		return nil, fmt.Errorf("cannot seal pack %s: %w", b.cfg.PackID, err)
	}
	return p, nil
}

func (b *Builder) seal() (*Pack, error) {
	b.workers.Wait()
	l := b.ledger
	if len(l.Faults) > 0 {
		f := l.Faults[0]
		return nil, fmt.Errorf("entry %d: %s: %s", f.Index, f.Code, f.Message)
	}
	// Every verifier would refuse such a pack, and a sealed pack stays in the log.
	if fault := l.Contradiction(); fault != "" {
		return nil, fmt.Errorf("the duplicates of earlier packs contradict each other: %s", fault)
	}
	return b.sign()
}

// sign signs the pack of the entries that were added.
func (b *Builder) sign() (*Pack, error) {
	l := b.ledger
	pub, err := sealer.PublicKey(b.cfg.Key)
	if err != nil {
		return nil, err
	}
	consistency, err := b.cfg.Before.Consistency(l.Leaves)
	if err != nil {
		return nil, err
	}
	settlement, err := l.Settlement(b.cfg.Rate, b.cfg.Rights)
	if err != nil {
		return nil, err
	}
	h := Header{
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
		SigningKeyID: keydir.KeyID(pub),
		TenantID:     b.cfg.TenantID,
		TreeSize:     l.Tree.Size(),
	}
	if h.Checkpoint, err = checkpoint.Sign(checkpoint.Checkpoint{Origin: checkpoint.Origin(h.TenantID), Size: h.TreeSize, Root: h.RootHash, SealedAt: h.SealedAt}, b.cfg.Key); err != nil {
		return nil, err
	}
	text := h.Append(nil)
	// No header is signed that readers refuse.
	if h, err = parseHeader(text); err != nil {
		return nil, err
	}
	if len(text) > maxHeaderBytes {
		return nil, fmt.Errorf("the header has %d bytes, more than %d", len(text), maxHeaderBytes)
	}
	signature, err := sealer.Sign(b.cfg.Key, text)
	if err != nil {
		return nil, err
	}
	return &Pack{Header: h, HeaderText: text, Signature: signature, Tree: l.Tree, before: b.cfg.Before}, nil
}

// Finding is the result of examining one entry of a pack by itself.
type Finding struct {
	leaf     merkle.Hash
	Event    sealer.Event
	Delivery *sealer.RecordedDelivery
	// Code is empty if nothing is wrong with the entry.
	Code sealer.Code
	Err  error
}

// Inspector examines entries. A finding depends on these fields and the text only.
// It is safe for concurrent use.
type Inspector struct {
	Directory *keydir.Directory
	// Purpose is the purpose of the keys that may sign receipts.
	Purpose string
	// SealedAt is the moment by which a checkpoint covered all entries. An entry that is
	// younger shows that this moment is false, so no revocation could be judged by it.
	SealedAt time.Time
	// Signatures checks them; nil: each by itself.
	Signatures *signature.Checker
}

// Inspect examines the texts of entries, and the signatures of all of them as a group.
func (in *Inspector) Inspect(texts ...[]byte) []Finding {
	findings := make([]Finding, len(texts))
	var signed []signature.Signed
	var of []*Finding // of each that is signed
	for i, text := range texts {
		f := &findings[i]
		f.leaf = merkle.LeafHash(text)
		f.Event, f.Delivery, f.Err = sealer.ReadEvent(text)
		switch d := f.Delivery; {
		case errors.Is(f.Err, sealer.ErrWitness):
			f.Code = sealer.WitnessMismatch
		case f.Err != nil:
			f.Code = sealer.EntryAltered
		case d != nil:
			pub, code := in.Directory.FindSealed(d.KeyID, in.Purpose, d.Receipt.IssuedAt, in.SealedAt)
			if code != "" {
				f.Code, f.Err = code, fmt.Errorf("receipt %s is signed by key %s", d.Receipt.ReceiptID, d.KeyID)
				continue
			}
			signed, of = append(signed, signature.Signed{Key: pub, Text: d.ReceiptText, Signature: d.Signature}), append(of, f)
		}
	}
	in.Signatures.Check(signed)
	for i, f := range of {
		if d := f.Delivery; !signed[i].Sound {
			f.Code, f.Err = sealer.SignatureInvalid, fmt.Errorf("receipt %s is not signed by key %s", d.Receipt.ReceiptID, d.KeyID)
		}
	}
	for i := range findings {
		if f := &findings[i]; f.Code == "" && f.Event.At.After(in.SealedAt) {
			f.Code = sealer.EntryAfterSeal
			f.Err = fmt.Errorf("event %s is of %s, but was sealed at %s", f.Event.EventID, canonical.FormatTime(f.Event.At), canonical.FormatTime(in.SealedAt))
		}
	}
	return findings
}

// Workers inspect entries on several goroutines and fold the findings on one, in the order of
// the entries. A few hundred entries are in memory at a time.
type Workers struct {
	inspect func(texts ...[]byte) []Finding
	open    *batch
	jobs    chan *batch
	order   chan *batch
	workers sync.WaitGroup
	folded  chan struct{}
}

type batch struct {
	texts    [][]byte
	findings []Finding
	done     chan struct{}
}

// batchEntries is how many entries are inspected together, which share one inversion of their signatures.
const batchEntries = 32

// NewWorkers starts n goroutines that inspect, and one that folds. Wait must be called.
func NewWorkers(n int, inspect func(texts ...[]byte) []Finding, fold func(Finding)) *Workers {
	w := &Workers{
		inspect: inspect,
		jobs:    make(chan *batch, n),
		order:   make(chan *batch, 2*n),
		folded:  make(chan struct{}),
	}
	for range n {
		w.workers.Go(func() {
			for b := range w.jobs {
				b.findings = w.inspect(b.texts...)
				close(b.done)
			}
		})
	}
	go func() {
		defer close(w.folded)
		for b := range w.order {
			<-b.done
			for _, f := range b.findings {
				fold(f)
			}
		}
	}()
	return w
}

// Add adds one entry, whose text must not change until Wait returns.
func (w *Workers) Add(text []byte) {
	if w.open == nil {
		w.open = &batch{done: make(chan struct{})}
	}
	if w.open.texts = append(w.open.texts, text); len(w.open.texts) == batchEntries {
		w.flush()
	}
}

func (w *Workers) flush() {
	if w.open != nil {
		w.order <- w.open
		w.jobs <- w.open
		w.open = nil
	}
}

// Wait returns when everything is folded and all goroutines have ended. Further calls do
// nothing.
func (w *Workers) Wait() {
	if w.jobs == nil {
		return
	}
	w.flush()
	close(w.jobs)
	close(w.order)
	<-w.folded
	w.workers.Wait()
	w.jobs = nil
}
