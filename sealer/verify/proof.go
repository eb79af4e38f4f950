package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/checkpoint"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
)

// proofFiles are the files that hold neither packs nor receipts nor keys, read but
// not judged yet: all directories have to be known first.
type proofFiles struct {
	checkpoints   []*headFile
	consistencies []*consistencyFile
	inclusions    []*inclusionFile
	events        []*eventFile
	exports       []*exportCheck
}

func (p *proofFiles) empty() bool {
	return len(p.checkpoints)+len(p.consistencies)+len(p.inclusions)+len(p.events)+len(p.exports) == 0
}

// headFile is a file with one signed checkpoint.
type headFile struct {
	*FileReport
	note string
	head head
	good bool // the signature holds, but for a revocation
}

// inclusionFile is an inclusion proof. A bare tlog-proof gets its event from
// another file.
type inclusionFile struct {
	headFile
	proof checkpoint.InclusionProof
	event []byte
}

// eventFile is the text of an event that some proof is about.
type eventFile struct {
	*FileReport
	text []byte
	leaf merkle.Hash
	// place says where the leaf was found, in proof or pack by; empty until it was.
	place string
	by    *FileReport
}

// consistencyFile is a consistency proof; the embedded head is the later one.
type consistencyFile struct {
	headFile
	proof checkpoint.ConsistencyProof
	from  headFile
}

// open reads a file, whose kind is known by its beginning.
func (p *proofFiles) open(v *verification, f *FileReport, text []byte) {
	var err error
	switch f.Kind {
	case kindCheckpoint:
		c := &headFile{FileReport: f}
		if c.note, err = readNote(string(text)); err == nil {
			p.checkpoints = append(p.checkpoints, c)
		}
	case kindConsistency:
		c := &consistencyFile{headFile: headFile{FileReport: f}}
		if c.proof, err = checkpoint.ParseConsistencyProof([]byte(unwrap(string(text)))); err == nil {
			c.note, c.from = c.proof.To, headFile{FileReport: f, note: c.proof.From}
			p.consistencies = append(p.consistencies, c)
		}
	case kindProof:
		i := &inclusionFile{headFile: headFile{FileReport: f}}
		if i.event, i.proof, err = readInclusion(string(text)); err == nil {
			i.note = i.proof.Checkpoint
			p.inclusions = append(p.inclusions, i)
		}
	case kindEvent:
		event := []byte(unwrap(string(text)))
		p.events = append(p.events, &eventFile{FileReport: f, text: event, leaf: merkle.LeafHash(event)})
	case kindExport:
		e := &exportCheck{FileReport: f}
		if err = e.open(v); err == nil {
			p.exports = append(p.exports, e)
		}
	}
	if err != nil && f.ok() {
		f.say(FormatInvalid, "%v", err)
	}
}

// readInclusion reads an inclusion proof of either form; event is nil for a bare
// tlog-proof.
func readInclusion(text string) (event []byte, p checkpoint.InclusionProof, err error) {
	if text[0] == '{' {
		return checkpoint.ParseProvenEvent(unwrap(text))
	}
	p, err = checkpoint.ParseInclusionProof(text)
	return nil, p, err
}

// verify judges all of them, first those that prove others.
func (p *proofFiles) verify(ctx context.Context, v *verification) {
	for _, e := range p.exports {
		e.add(v.trust.directory(e.header.Directory, e.signers(v.trust.newer)...))
	}
	d := v.trust.newer
	if d == nil {
		p.noDirectory(v.trust)
		return
	}
	for _, c := range p.checkpoints {
		c.sign(v, d)
	}
	for _, i := range p.inclusions {
		i.sign(v, d)
	}
	for _, c := range p.consistencies {
		c.sign(v, d)
		c.from.sign(v, d)
	}
	for _, e := range p.exports {
		e.sign(v, d)
	}
	// From the newest back: what proves the later checkpoint proves the earlier.
	slices.SortStableFunc(p.consistencies, func(a, b *consistencyFile) int { return cmp.Compare(b.head.Size, a.head.Size) })
	for _, c := range p.consistencies {
		c.verify(v)
	}
	for _, e := range p.exports {
		e.verify(ctx, v)
	}
	for _, c := range p.checkpoints {
		if c.good {
			by, _ := v.checkpoint(c.FileReport, &c.head)
			c.about = fmt.Sprintf("The log %s had %s by %s.", c.head.Origin, count(int(c.head.Size), "entry"), moment(by))
		}
	}
	for _, i := range p.inclusions {
		i.verify(v, p.events)
	}
	for _, e := range p.events {
		e.verify(v)
	}
}

// noDirectory notes for all files that there are no keys.
func (p *proofFiles) noDirectory(t *trust) {
	for _, f := range p.checkpoints {
		f.noDirectory(t)
	}
	for _, f := range p.consistencies {
		f.noDirectory(t)
	}
	for _, f := range p.inclusions {
		f.noDirectory(t)
	}
	for _, e := range p.events {
		if e.read() != nil {
			e.noDirectory(t)
		}
	}
	for _, f := range p.exports {
		f.noDirectory(t)
	}
}

// sign verifies the signatures of the checkpoint and who made them. A checkpoint
// that needs nothing else is learned.
func (c *headFile) sign(v *verification, d *keydir.Directory) {
	h, code, err := openHead(d, c.note)
	switch {
	case err != nil:
		c.say(code, "%v", err)
		return
	case code != "" && !h.revoked:
		c.say(KeyFault(d, h.key.KeyID, h.SealedAt, code), "the checkpoint of %s is signed by key %s at %s", h.Origin, h.key.KeyID, canonical.FormatTime(h.SealedAt))
		return
	}
	c.head, c.good = h, true
	if h.ofSandbox() {
		c.noteSandbox(h.key.KeyID)
	}
	if !h.revoked {
		v.known(h.Origin).learn(c.FileReport, h.Size, h.Root, h.latest())
	}
}

// verify judges a consistency proof, and learns the earlier root from it.
func (c *consistencyFile) verify(v *verification) {
	if !c.good || !c.from.good {
		return
	}
	to, from := &c.head, &c.from.head
	if to.Origin != from.Origin {
		c.say(sealer.TenantMismatch, "checkpoints of %s and %s are of two logs", from.Origin, to.Origin)
		return
	}
	by, ok := v.checkpoint(c.FileReport, to)
	if err := merkle.VerifyConsistency(from.Size, to.Size, from.Root, to.Root, c.proof.Hashes); err != nil {
		c.say(ConsistencyMismatch, "the tree of %d leaves does not extend that of %d: %v", to.Size, from.Size, err)
		return
	}
	if ok {
		v.known(from.Origin).learn(c.FileReport, from.Size, from.Root, by)
		v.checkpoint(c.FileReport, from)
	}
	c.say(ConsistencyOK, "the tree of %d leaves extends that of %d", to.Size, from.Size)
	c.about = fmt.Sprintf("The log %s only grew from %s to %s.", to.Origin, count(int(from.Size), "entry"), count(int(to.Size), "entry"))
}

// verify judges an inclusion proof and the event that it is about.
func (i *inclusionFile) verify(v *verification, events []*eventFile) {
	if !i.good {
		return
	}
	by, ok := v.checkpoint(i.FileReport, &i.head)
	if i.event == nil {
		if i.event = i.choose(events); i.event == nil {
			i.say(EventMissing, "the event of leaf %d was not given", i.proof.Index)
			return
		}
	}
	if err := i.leads(merkle.LeafHash(i.event)); err != nil {
		i.say(InclusionMismatch, "the event is not leaf %d of %d under root %s: it, or its proof, was changed", i.proof.Index, i.head.Size, i.head.Root)
	} else {
		i.say(InclusionOK, "leaf %d under root %s", i.proof.Index, i.head.Root)
	}
	if !ok {
		return // nothing says when the event stood there
	}
	in := &pack.Inspector{Directory: v.trust.newer, Purpose: i.head.receipts(), SealedAt: by}
	f := in.Inspect(i.event)[0]
	f.Code = entryFault(in.Directory, &f)
	i.conduct = newConduct(f.Event.TenantID, i.proof.Index, &v.names)
	i.conduct.single = true
	i.conduct.note(&f)
	i.recording = &recording{tenantID: f.Event.TenantID, first: i.proof.Index, end: i.proof.Index + 1, by: by}
	if f.Delivery != nil {
		i.recording.note(f.Delivery)
	}
	i.recording.stated = statedDue(&f.Event)
	switch {
	case f.Code != "":
		i.say(f.Code, "%v", f.Err)
	case checkpoint.Origin(f.Event.TenantID) != i.head.Origin:
		i.say(sealer.TenantMismatch, "event %s is of %s", f.Event.EventID, f.Event.TenantID)
	case f.Delivery != nil:
		i.say(WitnessOK, "the receipt stands in the event that it was signed for")
		i.say(SignatureOK, "receipt %s, signed by key %s at %s", f.Delivery.Receipt.ReceiptID, f.Delivery.KeyID, canonical.FormatTime(f.Delivery.Receipt.IssuedAt))
		v.sight(i.FileReport, f.Delivery, by, "leaf %d of %s, as %s proves", i.proof.Index, i.head.Origin, i.File)
	default:
		i.say(WitnessOK, "event %s, %s, carries no receipt", f.Event.EventID, f.Event.Type)
	}
}

// leads is nil if the proof leads from a leaf to the checkpoint.
func (i *inclusionFile) leads(leaf merkle.Hash) error {
	return merkle.VerifyInclusion(i.proof.Index, i.head.Size, leaf, i.head.Root, i.proof.Hashes)
}

// choose picks the event that a bare proof is about: the one that it leads from, or
// the only one.
func (i *inclusionFile) choose(events []*eventFile) []byte {
	for _, e := range events {
		if i.leads(e.leaf) == nil {
			e.place, e.by = fmt.Sprintf("leaf %d of %s, as %s proves", i.proof.Index, i.head.Origin, i.File), i.FileReport
			return e.text
		}
	}
	if len(events) == 1 {
		return events[0].text
	}
	return nil
}

// read reads the event; nil if it contradicts itself.
func (e *eventFile) read() *sealer.Event {
	event, _, err := sealer.ReadEvent(e.text)
	switch {
	case errors.Is(err, sealer.ErrWitness):
		e.say(sealer.WitnessMismatch, "%v", err)
	case err != nil:
		e.say(sealer.EntryAltered, "%v", err)
	default:
		return &event
	}
	return nil
}

// verify judges an event by the proof, pack or export that holds it.
func (e *eventFile) verify(v *verification) {
	event := e.read()
	if event == nil {
		return
	}
	origin := checkpoint.Origin(event.TenantID)
	for _, s := range v.known(origin).spans {
		if at := slices.Index(s.leaves, e.leaf); at >= 0 && e.place == "" {
			e.place, e.by = fmt.Sprintf("leaf %d of %s, as %s holds it", s.before.Size()+uint64(at), origin, s.file.File), s.file
		}
	}
	if e.place == "" {
		e.say(InclusionUnproven, "nothing that was given proves event %s", event.EventID)
		return
	}
	e.say(InclusionOK, "%s", e.place)
	e.about = fmt.Sprintf("The event %s of %s is in the log, as %s shows.", event.EventID, moment(event.At), e.by.File)
	if i := slices.IndexFunc(e.by.Verdicts, func(v Verdict) bool { return v.Code == KeySandbox }); i >= 0 {
		e.add(e.by.Verdicts[i])
	}
}
