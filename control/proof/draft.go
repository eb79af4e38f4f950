package proof

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"muniment.example/control/proof/sums"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/sealer"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/settlement"
)

// pageRows is how many rows are read at once; the next ones are read beside the work on
// these.
const pageRows = 4000

// firstRows is how many unsealed rows are read to find one that is new.
const firstRows = 16

// draft is a pack that is being built: the head before it, and the head after it.
type draft struct {
	*session
	old, next head
	packID    string
	began     time.Time
	sealedAt  time.Time       // began, or the time of the newest entry if that is later
	first     sealer.Position // position of the first entry
	newest    time.Time       // latest time of an entry
	nodes     []byte          // hashes of the nodes that the entries complete
	scratch   scratch         // the entries, in their order
	counted   *sums.Table     // the deliveries, by hour
	days      []sums.Day      // the same, encoded

	// promised is set once all entries were verified and the new root was promised. The key must
	// not sign before.
	promised bool
	pack     *pack.Pack
	lines    Sum
	file     Sum
}

func newDraft(s *session, old head) *draft {
	began := s.now()
	// If the clock was set back, sealedAt must still not precede the keys.
	if began.Before(s.directory.IssuedAt) {
		began = s.directory.IssuedAt
	}
	next := head{sequence: old.sequence + 1, packID: api.NewID(api.PrefixPack, began), tree: old.tree.Clone(), position: old.position}
	return &draft{session: s, old: old, next: next, packID: next.packID, began: began, scratch: scratch{make: func() (*os.File, error) { return s.folder.unnamed(s.tenantID) }}}
}

// build reads, verifies and signs the slice; news is false if there is nothing to seal.
func (d *draft) build(ctx context.Context) (news bool, err error) {
	roots, err := promised(ctx, d.db.Read(), d.tenantID, d.old.tree.Size())
	if err != nil {
		return false, err
	}
	config := pack.Config{
		PackID:    d.packID,
		TenantID:  d.tenantID,
		Before:    d.old.tree,
		Directory: d.directoryText,
		Key:       promisedKey{d.signer.Key, func() error { return d.promise(ctx) }},
		Rate:      d.cfg.Rate,
		Rights: func(names *settlement.ScopeNames, ids []string) ([]settlement.Right, error) {
			return d.Scopes(ctx, d.tenantID, names, ids)
		},
		Workers: d.cfg.Workers(),
	}
	if d.old.sequence > 0 {
		previous, err := d.previous(ctx)
		if err != nil {
			return false, err
		}
		config.Previous, config.Rules = new(previous.Ref()), previous.Rules()
	}
	builder, news, err := d.fill(ctx, config, roots, d.began)
	if err != nil {
		return false, err
	}
	defer builder.Abort()
	if !news { // unless the slice is full of other events, and news may follow
		if _, news, err = d.firstNews(ctx, d.tenantID, d.next.position, &d.end); err == nil && !news {
			news, err = d.doubtful(ctx)
		}
	}
	if err != nil || !news || d.ragged() {
		return false, err
	}
	if d.pack, err = builder.Seal(); err == nil && d.pack.Header.RootHash != d.next.tree.Root() {
		err = fmt.Errorf("%w: the root %s was promised, the pack has %s", errForked, d.next.tree.Root(), d.pack.Header.RootHash)
	}
	if err != nil && !d.promised {
		err = d.blame(ctx, err)
	}
	if err == nil {
		err = d.counted.Agree(d.pack.Header.Metering)
	}
	return true, err
}

// raggedFor is the largest age of the newest entry of a pack that ends where the warehouse happens to
// be. A verifier concludes that a pack that is not full contains everything that control committed an
// hour before it was sealed. After an entry younger than raggedFor the log has no such event, as long
// as no event takes half an hour to reach the log.
const raggedFor = 30 * time.Minute

// ragged reports whether the slice ends where no pack may end.
func (d *draft) ragged() bool {
	return d.short && d.next.tree.Size()-d.old.tree.Size() < uint64(d.cfg.MaxEntries) && d.sealedAt.Sub(d.newest) > raggedFor
}

// previous reads the header of the previous pack from the database.
func (d *draft) previous(ctx context.Context) (h pack.Header, err error) {
	p, found, err := readPack(ctx, d.db.Read(), d.tenantID, d.old.packID)
	if err == nil && !found {
		err = fmt.Errorf("the head names pack %s, which does not exist", d.old.packID)
	}
	if err != nil {
		return h, err
	}
	return pack.ParseHeader(p.Header)
}

// fill passes the slice to the builder of a pack sealed at a moment. If a node's clock is ahead, the
// pack has to be sealed at the moment of its newest entry, since no entry may be younger: fill then
// passes the slice once more.
func (d *draft) fill(ctx context.Context, config pack.Config, roots map[uint64]string, at time.Time) (b *pack.Builder, news bool, err error) {
	d.sealedAt, config.SealedAt = at, at
	d.counted = new(sums.Table)
	config.Counted = d.counted.Count
	if b, err = pack.NewBuilder(config); err != nil {
		return nil, false, err
	}
	d.next.tree, d.next.position = d.old.tree.Clone(), d.old.position
	d.nodes, d.newest = nil, time.Time{}
	if err = d.scratch.reset(); err == nil {
		news, err = d.add(ctx, b, roots)
	}
	if err != nil || d.newest.After(at) {
		b.Abort()
	}
	if err == nil && d.newest.After(at) {
		return d.fill(ctx, config, roots, d.newest)
	}
	return b, news, err
}

// add adds the slice, page by page.
func (d *draft) add(ctx context.Context, b *pack.Builder, roots map[uint64]string) (news bool, err error) {
	for p := range d.pages(ctx, d.old.position, d.end, d.cfg.MaxEntries) {
		if p.err == nil {
			p.err = d.unmoved(ctx, d.db.Read())
		}
		if p.err == nil {
			p.err = d.addRepeats(ctx, b, p.repeats)
		}
		if p.err != nil {
			return false, p.err
		}
		for i := range p.rows {
			row := &p.rows[i]
			b.Add(row.Event)
			if err := d.grow(row, roots); err != nil {
				return false, err
			}
			if row.At.After(d.newest) {
				d.newest = row.At
			}
			news = news || isNews(row)
		}
	}
	return news, nil
}

// unmoved returns errMoved if another process has sealed since the head was read: then the rest of the work is in vain.
func (d *draft) unmoved(ctx context.Context, q store.Querier) error {
	sequence, err := store.Count(ctx, q, "the packs", `SELECT COALESCE(MAX(sequence), 0) FROM proof_heads WHERE tenant_id = $1`, d.tenantID)
	if err == nil && sequence != d.old.sequence {
		err = errMoved
	}
	return err
}

// grow adds a row to the next head. It fails with errForked if the tree then has another root than
// one that an unfinished seal has promised for its size.
func (d *draft) grow(row *pipeline.Row, roots map[uint64]string) error {
	if d.next.tree.Size() == d.old.tree.Size() {
		d.first = row.Position
	}
	d.next.position = row.Position
	d.nodes = d.next.tree.AppendNodes(d.nodes, merkle.LeafHash(row.Event))
	size := d.next.tree.Size()
	if promised, ok := roots[size]; ok && promised != d.next.tree.Root().String() {
		return fmt.Errorf("%w: at size %d the root %s was promised, now it is %s", errForked, size, promised, d.next.tree.Root())
	}
	return d.scratch.add(row.Event)
}

// isNews reports whether an event is a reason to seal.
func isNews(row *pipeline.Row) bool {
	switch row.Type {
	case typeSealed, typeDownloaded, TypeExported, sealer.TypeRefusals:
		return false
	}
	return true
}

// firstNews returns the time of the first loaded event after a position, and before another unless
// that is nil, that is a reason to seal; found is false if there is none.
func (s *packer) firstNews(ctx context.Context, tenantID string, after sealer.Position, before *sealer.Position) (at time.Time, found bool, err error) {
	for size := firstRows; ; size = pageRows {
		rows, err := s.warehouse.Events(ctx, pipeline.EventQuery{TenantID: tenantID, After: &after, Before: before, Limit: size})
		if err != nil {
			return at, false, err
		}
		for i := range rows {
			if isNews(&rows[i]) {
				return rows[i].At, true, nil
			}
		}
		if len(rows) < size {
			return at, false, nil
		}
		after = rows[size-1].Position
	}
}

// doubtful reports whether the last pack's key is revoked or about to be, so that another pack has to
// vouch for it. There is always an entry for that pack: the event of the last sealing.
func (d *draft) doubtful(ctx context.Context) (bool, error) {
	if d.old.sequence == 0 || d.next.tree.Size() == d.old.tree.Size() {
		return false, nil
	}
	last, _, err := readPack(ctx, d.db.Read(), d.tenantID, d.old.packID)
	return err == nil && last.SigningKeyID != d.signer.KeyID &&
		(last.SigningKeyID == d.leaving || slices.Contains(revoked(d.directory), last.SigningKeyID)), err
}

// promisedKey is the signer of a pack. It promises the pack's root before it signs anything.
type promisedKey struct {
	crypto.Signer
	promise func() error
}

func (k promisedKey) Sign(random io.Reader, message []byte, opts crypto.SignerOpts) ([]byte, error) {
	if err := k.promise(); err != nil {
		return nil, err
	}
	return k.Signer.Sign(random, message, opts)
}

// promise writes the new root to the database. The builder requests a
// signature from its key only after it has verified every entry.
func (d *draft) promise(ctx context.Context) error {
	if d.promised {
		return nil
	}
	if err := d.step("promise root"); err != nil {
		return err
	}
	d.promised = true
	err := d.db.Change(ctx, func(tx *store.Tx) error {
		if err := d.unmoved(ctx, tx); err != nil {
			return err // and no root is promised that nobody needs
		}
		return promise(ctx, tx, d.tenantID, d.next.tree.Size(), d.next.tree.Root(), d.began)
	})
	if err == nil {
		err = d.step("sign")
	}
	return err
}

// blame finds the rows that the builder could not verify and quarantines them. It returns cause if
// there are none.
func (d *draft) blame(ctx context.Context, cause error) error {
	in := &pack.Inspector{Directory: d.directory, Purpose: d.receipts, SealedAt: d.sealedAt}
	var quarantined []pipeline.Quarantined
	for p := range d.pages(ctx, d.old.position, d.next.position.Next(), d.cfg.MaxEntries) {
		if p.err != nil {
			return p.err
		}
		for i := range p.rows {
			if fault := verify(&p.rows[i], in); fault != nil {
				quarantined = append(quarantined, quarantinedOf(&p.rows[i], fault))
			}
		}
	}
	if len(quarantined) == 0 {
		return cause
	}
	if err := d.quarantineRows(ctx, quarantined); err != nil {
		return err
	}
	if err := d.refuseHeld(ctx, d.tenantID); err != nil {
		return err
	}
	// All of them were released before the log was loaded again, so they are no longer rows.
	for _, a := range quarantined {
		if _, err := d.warehouse.Event(ctx, d.tenantID, a.EventID); !errors.Is(err, pipeline.ErrNoEvent) {
			return errors.Join(cause, err)
		}
	}
	return errMoved
}

// write writes the pack's file and the file of its nodes.
func (d *draft) write(ctx context.Context) (err error) {
	if err = d.unmoved(ctx, d.db.Read()); err != nil {
		return err
	}
	d.lines, d.file, err = d.folder.write(ctx, d.tenantID, d.packID, func(w io.Writer) error {
		bundle := pack.NewBundleWriter(w, d.pack)
		if err := d.scratch.each(bundle.Add); err != nil {
			return err
		}
		return bundle.Close()
	})
	if err == nil {
		d.saveNodes(d.tenantID, d.packID, d.nodes)
		d.days = d.counted.Days(d.codec)
	}
	return err
}

// commit moves the head, which seals the pack. If the pack was certainly not sealed, its file is
// deleted. If the commit's result is unknown, the file stays for sweep to decide.
func (d *draft) commit(ctx context.Context) error {
	undecided := false
	err := d.step("commit")
	if err == nil {
		err = d.db.Change(ctx, func(tx *store.Tx) error {
			err := d.move(ctx, tx)
			undecided = err == nil
			return err
		})
	}
	if err != nil && !undecided {
		return errors.Join(err, d.folder.remove(ctx, d.tenantID, d.packID))
	}
	if err == nil {
		err = d.step("answer")
	}
	return err
}

// errLeft refuses a pack whose key is about to be revoked.
var errLeft = api.Unavailable(api.NoSigningKey, "the key of packs was revoked while the pack was sealed", time.Second)

// move writes the head, the pack and the audit event.
func (d *draft) move(ctx context.Context, tx *store.Tx) error {
	if vouches, err := d.keys.Vouches(ctx, tx, d.pack.Header.SigningKeyID); err != nil {
		return err
	} else if !vouches {
		return errLeft
	}
	if _, err := d.cfg.Purpose(ctx, tx, d.tenantID); err != nil {
		return err // the tenant was dropped meanwhile, and nothing would ever delete its pack
	}
	revision, err := tx.Revision(ctx)
	if err != nil {
		return err
	}
	p := d.record(revision)
	if err := advance(ctx, tx, d.next, p); err != nil {
		return err
	}
	if err := addSums(ctx, tx, &p, d.days); err != nil {
		return err
	}
	h := &d.pack.Header
	return tx.EmitRecord(ctx, eventSealed, sealer.Event{
		TenantID: d.tenantID, At: d.began, Actor: d.by, Subject: sealer.Ref{Kind: "pack", ID: d.packID},
	}, PackSealed{h.Count, h.FirstIndex, h.TreeSize, h.RootHash.String(), h.SigningKeyID})
}

// record returns the database record of the sealed pack.
func (d *draft) record(revision int64) Pack {
	h := &d.pack.Header
	return Pack{
		ID: d.packID, TenantID: d.tenantID, Sequence: d.next.sequence, Revision: revision,
		FirstIndex: h.FirstIndex, Count: h.Count, RootHash: h.RootHash.String(),
		First: d.first, Last: d.next.position,
		SealedAt: store.At(h.SealedAt), SigningKeyID: h.SigningKeyID,
		Bytes: d.lines.Bytes, SHA256: d.lines.SHA256, File: d.file, Header: d.pack.HeaderText, counts: countsOf(h),
	}
}
