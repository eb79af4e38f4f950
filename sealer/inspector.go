package sealer

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Finding is what is known of an entry of a pack without its neighbours.
type Finding struct {
	leaf     Hash
	Event    Event
	Delivery *RecordedDelivery
	// Code is empty if nothing is wrong with the entry.
	Code Code
	Err  error
}

// Inspector examines entries. It is pure: a finding depends on these fields and
// the text only, so any number of goroutines may use one.
type Inspector struct {
	Directory *Directory
	// Purpose is that of the keys which may have signed receipts.
	Purpose string
	// SealedAt is the moment by which all entries stood under a checkpoint. None is
	// younger: or else the moment is false, on which rests what revocations mean.
	SealedAt time.Time
}

// Inspect examines the text of an entry.
func (in *Inspector) Inspect(text []byte) Finding {
	f := Finding{leaf: LeafHash(text)}
	f.Event, f.Delivery, f.Err = ReadEvent(text)
	switch {
	case errors.Is(f.Err, ErrWitness):
		f.Code = WitnessMismatch
	case f.Err != nil:
		f.Code = EntryAltered
	case f.Delivery != nil:
		f.Code, f.Err = in.checkSignature(f.Delivery)
	}
	if f.Code == "" && f.Event.At.After(in.SealedAt) {
		f.Code = EntryAfterSeal
		f.Err = fmt.Errorf("event %s is of %s, it was sealed at %s", f.Event.EventID, FormatTime(f.Event.At), FormatTime(in.SealedAt))
	}
	return f
}

func (in *Inspector) checkSignature(d *RecordedDelivery) (Code, error) {
	pub, code := in.Directory.FindSealed(d.KeyID, in.Purpose, d.Receipt.IssuedAt, in.SealedAt)
	if code != "" {
		return code, fmt.Errorf("receipt %s is signed by key %s", d.Receipt.ReceiptID, d.KeyID)
	}
	if !ed25519.Verify(pub, d.ReceiptText, d.Signature) {
		return SignatureInvalid, fmt.Errorf("receipt %s is not signed by key %s", d.Receipt.ReceiptID, d.KeyID)
	}
	return "", nil
}

// Workers inspect entries on several goroutines and fold the findings in the order of
// the entries, on one goroutine. A few hundred entries are in memory at a time.
type Workers struct {
	inspect func(text []byte) Finding
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

const batchEntries = 32

// NewWorkers starts n goroutines that inspect, and one that folds. Wait must be called.
func NewWorkers(n int, inspect func([]byte) Finding, fold func(Finding)) *Workers {
	w := &Workers{
		inspect: inspect,
		jobs:    make(chan *batch, n),
		order:   make(chan *batch, 2*n),
		folded:  make(chan struct{}),
	}
	for range n {
		w.workers.Go(func() {
			for b := range w.jobs {
				for _, text := range b.texts {
					b.findings = append(b.findings, w.inspect(text))
				}
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

// Add hands over one entry; its text must not change until Wait returns.
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

// Wait returns when everything is folded and all goroutines have ended. Only its
// first call does anything.
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
