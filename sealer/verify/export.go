package verify

import (
	"context"
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/checkpoint"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
)

// exportCheck is the verification of one audit export.
type exportCheck struct {
	*FileReport
	header *pack.ExportHeader
	// heads are the checkpoints, once all of them are good.
	heads []*headFile
	// by is, for each checkpoint, the latest moment at which it can have been made.
	by []time.Time
}

// open reads the header, and the directory in it.
func (e *exportCheck) open(v *verification) error {
	file, err := os.Open(e.File)
	if err != nil {
		e.unreadable(err)
		return err
	}
	defer file.Close()
	in := &source{Reader: file}
	r, err := pack.ReadExport(&lineEnds{in: in})
	if in.err != nil {
		e.unreadable(in.err)
	}
	if err != nil {
		return err
	}
	e.header = r.Header()
	v.trust.learn(e.header.Directory) // the verdict is for when all are known
	return nil
}

// signers are the ids of the keys of d by which checkpoints are signed; "" for those of no key.
func (e *exportCheck) signers(d *keydir.Directory) []string {
	ids := []string{""}
	for _, text := range e.header.Checkpoints {
		if d == nil {
			break
		}
		keys, _ := signers(d, text, checkpoint.Origin(e.header.TenantID)) // an error leaves none
		for _, k := range keys {
			ids = append(ids, k.KeyID)
		}
	}
	return ids
}

// sign opens the checkpoints and checks their sizes: they rise, each covers an entry that the
// one before does not, and the last covers all.
func (e *exportCheck) sign(v *verification, d *keydir.Directory) {
	if !e.ok() {
		return
	}
	h := e.header
	end := h.FirstIndex + h.Count
	covered := h.FirstIndex
	var heads []*headFile
	for _, note := range h.Checkpoints {
		c := &headFile{FileReport: e.FileReport, note: note}
		c.sign(v, d)
		switch {
		case !c.good:
			return
		case c.head.Origin != checkpoint.Origin(h.TenantID):
			e.say(sealer.TenantMismatch, "a checkpoint of %s in an export of %s", c.head.Origin, h.TenantID)
			return
		case c.head.Size <= covered || covered >= end:
			e.say(CheckpointMismatch, "the checkpoint of size %d covers no entry from leaf %d to %d that another does not", c.head.Size, h.FirstIndex, end-1)
			return
		}
		covered = c.head.Size
		heads = append(heads, c)
	}
	if covered < end {
		e.say(CheckpointMismatch, "no checkpoint covers leaves %d to %d", covered, end-1)
		return
	}
	e.heads = heads
}

// verify reads the entries and recomputes the root of every checkpoint.
func (e *exportCheck) verify(ctx context.Context, v *verification) {
	check := e.run
	if e.heads == nil || !e.trustHeads(v) {
		check = e.form
	}
	file, err := os.Open(e.File)
	if err == nil {
		in := &source{Reader: file}
		err = check(ctx, v, in)
		if err != nil && in.err == nil && ctx.Err() == nil {
			e.say(FormatInvalid, "%v", err)
			err = nil
		}
		file.Close()
	}
	if err != nil {
		e.unreadable(err)
	}
}

// trustHeads decides about checkpoints whose key was revoked later: each is proven
// by the one behind it, for the entries lead from one to the other.
func (e *exportCheck) trustHeads(v *verification) bool {
	e.by = make([]time.Time, len(e.heads))
	k := v.known(checkpoint.Origin(e.header.TenantID))
	for i, c := range slices.Backward(e.heads) {
		by, known := k.vouch(c.head.Size, c.head.Root)
		if i+1 < len(e.heads) && (!known || e.by[i+1].Before(by)) {
			by, known = e.by[i+1], true
		}
		switch at := c.head.latest(); {
		case c.head.revoked && !known:
			e.say(sealer.KeyRevoked, "the checkpoint of size %d is signed by key %s, and nothing proves that it was signed before the revocation", c.head.Size, c.head.key.KeyID)
			return false
		case !c.head.revoked && (!known || at.Before(by)):
			by = at
		}
		e.by[i] = by
	}
	return true
}

// form checks that an export, whose entries can't be judged, has its form.
func (e *exportCheck) form(ctx context.Context, _ *verification, file io.Reader) error {
	r, err := pack.ReadExport(&lineEnds{in: file})
	for err == nil {
		if _, err = r.Next(); err == nil {
			err = ctx.Err()
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// run folds the entries, one checkpoint after the other.
func (e *exportCheck) run(ctx context.Context, v *verification, file io.Reader) error {
	h := e.header
	before, err := merkle.RestoreTree(h.FirstIndex, h.Before)
	if err != nil {
		e.say(FormatInvalid, "%v", err)
		return nil
	}
	r, err := pack.ReadExport(&lineEnds{in: file})
	if err != nil {
		return err
	}
	l := pack.NewLedger(h.TenantID, h.FirstIndex, before, nil)
	e.conduct = newConduct(h.TenantID, h.FirstIndex, &v.names)
	e.recording = &recording{tenantID: h.TenantID, first: h.FirstIndex, end: h.FirstIndex + h.Count, by: e.by[len(e.by)-1]}
	l.Keeps = true
	l.Claim = func(*sealer.Event, uint64) (uint64, bool) { return 0, false }
	var covered uint64 // by the pack before, or less
	for i, c := range e.heads {
		e.conduct.sealed(c.head.Size-covered, c.head.Size, c.head.SealedAt)
		covered = c.head.Size
		end := min(c.head.Size, h.FirstIndex+h.Count)
		if err := e.section(ctx, v, r, l, i, end); err != nil {
			return err
		}
		if !e.root(v, l, &c.head) {
			return nil
		}
	}
	if _, err := r.Next(); err != io.EOF {
		return err
	}
	e.settle(v, l, before)
	return nil
}

// section folds the entries up to a leaf, those that one checkpoint was sealed for.
func (e *exportCheck) section(ctx context.Context, v *verification, r *pack.ExportReader, l *pack.Ledger, i int, end uint64) error {
	in := &pack.Inspector{Directory: v.trust.newer, Purpose: e.heads[i].head.receipts(), SealedAt: e.by[i], Signatures: v.trust.signatures}
	workers := pack.NewWorkers(runtime.GOMAXPROCS(0), in.Inspect, func(f pack.Finding) {
		if f.Delivery != nil && f.Code == "" {
			v.sight(e.FileReport, f.Delivery, e.by[i], "leaf %d of %s, in %s", l.Next(), e.heads[i].head.Origin, e.File)
		}
		f.Code = entryFault(in.Directory, &f)
		repetitions := len(l.Duplicates)
		l.Fold(f)
		if f.Delivery != nil && len(l.Duplicates) == repetitions {
			e.recording.note(f.Delivery)
		}
		e.conduct.note(&f)
	})
	defer workers.Wait()
	for leaf := l.Next(); leaf < end; leaf++ {
		event, err := r.Next()
		if err != nil {
			return err
		}
		workers.Add(event)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// root compares the root of what was folded with a checkpoint's.
func (e *exportCheck) root(v *verification, l *pack.Ledger, c *head) bool {
	tree := l.Tree
	if tree.Size() < c.Size {
		tree = tree.Clone()
		if err := tree.Extend(c.Size, e.header.After); err != nil {
			e.say(FormatInvalid, "after: %v", err)
			return false
		}
	} else if c.Size == e.header.FirstIndex+e.header.Count && len(e.header.After) > 0 {
		e.say(FormatInvalid, "after: nothing is behind the last entry")
		return false
	}
	if tree.Root() != c.Root {
		e.say(RootMismatch, "the entries make root %s at size %d, the checkpoint states %s", tree.Root(), c.Size, c.Root)
		e.faults(v, l)
		return false
	}
	return true
}

// settle adds the verdicts, once all roots agree.
func (e *exportCheck) settle(v *verification, l *pack.Ledger, before *merkle.Tree) {
	h, last := e.header, e.heads[len(e.heads)-1]
	e.say(CheckpointOK, "%s of %s, the last of size %d, sealed at %s",
		count(len(e.heads), "signed note"), last.head.Origin, last.head.Size, canonical.FormatTime(last.head.SealedAt))
	e.say(InclusionOK, "leaves %d to %d under root %s", h.FirstIndex, h.FirstIndex+h.Count-1, last.head.Root)
	if e.faults(v, l) {
		return
	}
	e.say(SignatureOK, "%s", count(l.Deliveries, "receipt"))
	e.say(WitnessOK, "every receipt stands in the event that it was signed for")
	k := v.known(last.head.Origin)
	for i, c := range e.heads {
		k.learn(e.FileReport, c.head.Size, c.head.Root, e.by[i])
	}
	k.spans = append(k.spans, spanOf(l, e.FileReport, before, e.by[len(e.by)-1]))
}

// faults names what is wrong with entries.
func (e *exportCheck) faults(v *verification, l *pack.Ledger) bool {
	e.add(namedFaults(entryVerdicts(v.trust.vouched(l.Faults)))...)
	return len(l.Faults) > 0
}
