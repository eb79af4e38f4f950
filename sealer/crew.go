package sealer

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"sync"
	"time"
)

// finding is what one entry of a pack tells without its neighbours.
type finding struct {
	leaf     Hash
	event    Event
	delivery *RecordedDelivery
	// code is empty if nothing is wrong with the entry.
	code Code
	err  error
}

// inspector examines entries. It is pure: a finding depends on these fields and
// the text only, so any number of goroutines may use one.
type inspector struct {
	directory *Directory
	// purpose is that of the keys which may have signed receipts.
	purpose string
	// sealedAt is the moment by which all entries stood under a checkpoint. None is
	// younger: or else the moment is false, on which rests what revocations mean.
	sealedAt time.Time
}

func (in *inspector) inspect(text []byte) finding {
	f := finding{leaf: LeafHash(text)}
	f.event, f.delivery, f.err = checkEvent(text)
	switch {
	case errors.Is(f.err, ErrWitness):
		f.code = WitnessMismatch
	case f.err != nil:
		f.code = EntryAltered
	case f.delivery != nil:
		f.code, f.err = in.checkSignature(f.delivery)
	}
	if f.code == "" && f.event.At.After(in.sealedAt) {
		f.code = EntryAfterSeal
		f.err = fmt.Errorf("event %s is of %s, it was sealed at %s", f.event.EventID, FormatTime(f.event.At), FormatTime(in.sealedAt))
	}
	return f
}

func (in *inspector) checkSignature(d *RecordedDelivery) (Code, error) {
	pub, code := in.directory.FindSealed(d.KeyID, in.purpose, d.Receipt.IssuedAt, in.sealedAt)
	if code != "" {
		return code, fmt.Errorf("receipt %s is signed by key %s", d.Receipt.ReceiptID, d.KeyID)
	}
	if !ed25519.Verify(pub, d.ReceiptText, d.Signature) {
		return SignatureInvalid, fmt.Errorf("receipt %s is not signed by key %s", d.Receipt.ReceiptID, d.KeyID)
	}
	return "", nil
}

// crew inspects entries on several goroutines and folds the findings in the order of
// the entries, on one goroutine. A few hundred entries are in memory at a time.
type crew struct {
	inspect func(text []byte) finding
	open    *batch
	jobs    chan *batch
	order   chan *batch
	workers sync.WaitGroup
	folded  chan struct{}
}

type batch struct {
	texts    [][]byte
	findings []finding
	done     chan struct{}
}

const batchEntries = 32

// newCrew starts a crew of n; wait must be called.
func newCrew(n int, inspect func([]byte) finding, fold func(finding)) *crew {
	c := &crew{
		inspect: inspect,
		jobs:    make(chan *batch, n),
		order:   make(chan *batch, 2*n),
		folded:  make(chan struct{}),
	}
	for range n {
		c.workers.Go(func() {
			for b := range c.jobs {
				for _, text := range b.texts {
					b.findings = append(b.findings, c.inspect(text))
				}
				close(b.done)
			}
		})
	}
	go func() {
		defer close(c.folded)
		for b := range c.order {
			<-b.done
			for _, f := range b.findings {
				fold(f)
			}
		}
	}()
	return c
}

// add hands over one entry; its text must not change until wait returns.
func (c *crew) add(text []byte) {
	if c.open == nil {
		c.open = &batch{done: make(chan struct{})}
	}
	if c.open.texts = append(c.open.texts, text); len(c.open.texts) == batchEntries {
		c.flush()
	}
}

func (c *crew) flush() {
	if c.open != nil {
		c.order <- c.open
		c.jobs <- c.open
		c.open = nil
	}
}

// wait returns when everything is folded and all goroutines have ended. Only its
// first call does anything.
func (c *crew) wait() {
	if c.jobs == nil {
		return
	}
	c.flush()
	close(c.jobs)
	close(c.order)
	<-c.folded
	c.workers.Wait()
	c.jobs = nil
}
