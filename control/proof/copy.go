package proof

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"muniment.example/control/proof/sums"
	"muniment.example/control/store"
	"muniment.example/pipeline"
	"muniment.example/sealer"
	"muniment.example/sealer/pack"
)

// CopyEvery is how often Copier.Copy should be called.
const CopyEvery = time.Minute

// Sizes of what a Copier has in memory.
const (
	copiesAtOnce = 16
	linesAtOnce  = 100_000 // the lines of one pack may be more
	namesAtOnce  = 500
)

// Copier copies the sums of packs by hour to a warehouse that keeps such a copy. How far a tenant's copy goes
// is written after its lines, so a crash leaves less copied; lines that nothing says are copied count nowhere.
//
// A copy is of one epoch of the database, and of the packs' sums as they were last mended. One of another epoch may
// have lines of packs that this database has lost and will seal otherwise, whether it says so or not; one from before
// a mend may have lines that were wrong. Such a copy, and one whose last pack this database doesn't have, as the tenant
// was dropped, is given up: a newer one begins with the first pack, and the lines of the older are deleted once no
// query reads them.
//
// Any number of processes may copy at once: they write the same lines into one copy, or different ones, of
// which the newest counts. A pack whose sums are not those of its entries is copied once these are mended. One goroutine
// may use a Copier at a time.
type Copier struct {
	sums *Sums
	to   pipeline.PackSumKeeper
	now  func() time.Time
	// newest is since when each tenant's newest copy has been that, as far as this process knows.
	newest map[string]newestCopy
}

type newestCopy struct {
	copy  uint64
	since time.Time
	alone bool // no older copy has lines
}

// deleteAfter is for how long a copy is not the newest before its lines are deleted: a query reads how far copies
// go when it begins, and then their lines.
const deleteAfter = 15 * time.Minute

// Copier returns what copies the sums to a warehouse. The clock is that of the database.
func (s *Sums) Copier(to pipeline.PackSumKeeper) *Copier {
	return &Copier{sums: s, to: to, now: s.db.Now, newest: map[string]newestCopy{}}
}

// copied is how far a tenant's copy goes.
type copied struct {
	pipeline.PackSumsCopied
	sequence int64 // of its last pack; 0: it has none
}

// Copy copies the sums of all packs that are not copied. A tenant whose sums can't be copied delays no other.
func (c *Copier) Copy(ctx context.Context) error {
	list, err := c.to.PackSumsCopied(ctx)
	if err != nil {
		return err
	}
	type head struct {
		tenantID        string
		sequence, mends int64
	}
	heads, err := store.List(ctx, c.sums.db.Read(), "the heads of logs", func(row store.Row) (h head, err error) {
		return h, row.Scan(&h.tenantID, &h.sequence, &h.mends)
	}, `SELECT tenant_id, sequence, mends FROM proof_heads ORDER BY tenant_id`)
	if err != nil {
		return err
	}
	mends := make(map[string]int64, len(heads))
	for _, h := range heads {
		mends[h.tenantID] = h.mends
	}
	epoch := c.sums.db.Epoch()
	state := func(tenantID string) string {
		return fmt.Sprintf("%s/%d/%d", epoch.Incarnation, epoch.Number, mends[tenantID])
	}
	copies, err := c.copies(ctx, list, state)
	if err != nil {
		return err
	}
	var failed error
	var batch copyBatch
	for _, h := range heads {
		at, known := copies[h.tenantID]
		if !known {
			at.PackSumsCopied = pipeline.PackSumsCopied{TenantID: h.tenantID, Copy: pipeline.NewerCopy(0, rand.Uint32()), State: state(h.tenantID)}
		}
		if at.sequence >= h.sequence {
			continue
		}
		if err := c.tenant(ctx, at, &batch); err != nil {
			failed = errors.Join(failed, fmt.Errorf("cannot copy the sums of packs of %s: %w", h.tenantID, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed, c.write(ctx, &batch))
}

// copies returns how far the copies of tenants go, after it has given up those that are not of the tenants' states.
func (c *Copier) copies(ctx context.Context, list []pipeline.PackSumsCopied, state func(tenantID string) string) (map[string]copied, error) {
	copies := make(map[string]copied, len(list))
	var givenUp []pipeline.PackSumsCopied
	for some := range slices.Chunk(list, namesAtOnce) {
		sequences, err := c.sequences(ctx, some)
		if err != nil {
			return nil, err
		}
		for _, at := range some {
			sequence, known := sequences[at.PackID]
			if of := state(at.TenantID); at.State != of || at.PackID != "" && !known {
				at = pipeline.PackSumsCopied{TenantID: at.TenantID, Copy: pipeline.NewerCopy(at.Copy, rand.Uint32()), State: of}
				givenUp, sequence = append(givenUp, at), 0
			}
			copies[at.TenantID] = copied{at, sequence}
		}
	}
	if err := c.to.SetPackSumsCopied(ctx, givenUp); err != nil {
		return nil, err
	}
	return copies, c.clean(ctx, copies)
}

// clean deletes the lines of copies that have not been the newest for long.
func (c *Copier) clean(ctx context.Context, copies map[string]copied) error {
	now := c.now()
	var due []pipeline.PackSumsCopied
	for tenantID, at := range copies {
		was, known := c.newest[tenantID]
		switch {
		case !known || was.copy != at.Copy:
			c.newest[tenantID] = newestCopy{copy: at.Copy, since: now}
		case !was.alone && now.Sub(was.since) >= deleteAfter:
			due = append(due, at.PackSumsCopied)
		}
	}
	if len(due) == 0 {
		return nil
	}
	if err := c.to.DeletePackSums(ctx, due); err != nil {
		return err
	}
	for _, at := range due {
		of := c.newest[at.TenantID]
		of.alone = true
		c.newest[at.TenantID] = of
	}
	return nil
}

// sequences returns the sequence numbers of the packs that copies end with, of those that are the tenants'.
func (c *Copier) sequences(ctx context.Context, of []pipeline.PackSumsCopied) (map[string]int64, error) {
	ends := map[string]pipeline.PackSumsCopied{}
	var args []any
	for _, at := range of {
		if at.PackID != "" {
			ends[at.PackID] = at
			args = append(args, at.PackID)
		}
	}
	sequences := map[string]int64{}
	if len(args) == 0 {
		return sequences, nil
	}
	type pack struct {
		packID, tenantID string
		sequence         int64
		last             sealer.Position
	}
	err := store.Each(ctx, c.sums.db.Read(), "copied packs", func(row store.Row) (p pack, err error) {
		return p, row.Scan(&p.packID, &p.tenantID, &p.sequence, &p.last.Generation, &p.last.Offset)
	}, func(p pack) error {
		if at := ends[p.packID]; at.TenantID == p.tenantID && at.Position.Compare(p.last) == 0 {
			sequences[p.packID] = p.sequence
		}
		return nil
	}, `SELECT pack_id, tenant_id, sequence, last_generation, last_offset FROM proof_packs WHERE pack_id IN (`+store.Marks(0, len(args))+`)`, args...)
	return sequences, err
}

// copyBatch is what is written at once.
type copyBatch struct {
	lines []pipeline.PackSum
	ends  map[string]pipeline.PackSumsCopied
}

// write writes a batch: its lines, and then that they are copied.
func (c *Copier) write(ctx context.Context, b *copyBatch) error {
	if len(b.ends) == 0 {
		return nil
	}
	err := c.to.AddPackSums(ctx, b.lines)
	if err == nil {
		err = c.to.SetPackSumsCopied(ctx, slices.Collect(maps.Values(b.ends)))
	}
	*b = copyBatch{}
	return err
}

// tenant adds the sums of a tenant's packs behind its copy to a batch, and writes it each time it is full.
func (c *Copier) tenant(ctx context.Context, at copied, b *copyBatch) error {
	for {
		packs, err := listPacks(ctx, c.sums.db.Read(), at.TenantID, at.sequence, copiesAtOnce)
		if err != nil || len(packs) == 0 {
			return err
		}
		tables, err := c.sums.hoursOf(ctx, packs)
		if errors.Is(err, sums.ErrBlock) && c.sums.mend != nil {
			if err = c.sums.mend(ctx, at.TenantID); err == nil {
				tables, err = c.sums.hoursOf(ctx, packs)
			}
		}
		if err != nil {
			return err
		}
		for i := range packs {
			at.sequence, at.PackID, at.Position = packs[i].Sequence, packs[i].ID, packs[i].Last
			b.lines = appendPackSums(b.lines, &at.PackSumsCopied, tables[i])
			if b.ends == nil {
				b.ends = map[string]pipeline.PackSumsCopied{}
			}
			b.ends[at.TenantID] = at.PackSumsCopied
			if len(b.lines) < linesAtOnce {
				continue
			}
			if err := c.write(ctx, b); err != nil {
				return err
			}
		}
	}
}

// appendPackSums appends the lines of the pack that a copy ends with.
func appendPackSums(to []pipeline.PackSum, at *pipeline.PackSumsCopied, table *sums.Table) []pipeline.PackSum {
	number, hour := uint32(0), int64(0)
	for _, l := range table.Lines() {
		if number++; l.Start != hour {
			number, hour = 0, l.Start
		}
		to = append(to, pipeline.PackSum{
			TenantID: at.TenantID, Copy: at.Copy, Position: at.Position, Hour: time.UnixMilli(l.Start).UTC(), Line: number,
			RightID: l.RightID, Substrate: l.Substrate, BasisID: l.BasisID, MeteringBasis: l.MeteringBasis, Reason: l.Reason,
			Receipts: l.Receipts, QuantityMs: l.QuantityMs, Impressions: l.Impressions,
		})
	}
	return to
}

// hoursOf returns what is stored of consecutive packs by hour, without completion. It fails with
// sums.ErrBlock if that can't be read, or isn't the metering in a pack's header.
func (s *Sums) hoursOf(ctx context.Context, packs []Pack) ([]*sums.Table, error) {
	tables := make([]*sums.Table, len(packs))
	for i := range tables {
		tables[i] = new(sums.Table)
	}
	first, last := packs[0].Sequence, packs[len(packs)-1].Sequence
	type day struct {
		sequence int64
		stored
	}
	err := store.Each(ctx, s.db.Read(), "the sums of packs of "+packs[0].TenantID, func(row store.Row) (d day, err error) {
		return d, row.Scan(&d.sequence, &d.day, &d.block)
	}, func(d day) error {
		block, err := s.codec.Decode(d.day, d.block, false)
		table := tables[d.sequence-first]
		numbers := table.Numbers(&block, "", false)
		for i := range block.Lines {
			l := &block.Lines[i]
			table.Add(l.Start, uint32(numbers[l.Kind]), &l.Sum)
		}
		return err
	}, `SELECT sequence, day, hours FROM proof_sums WHERE tenant_id = $1 AND sequence >= $2 AND sequence <= $3`, packs[0].TenantID, first, last)
	if err != nil {
		return nil, err
	}
	for i := range packs {
		header, err := pack.ParseHeader(packs[i].Header)
		if err == nil {
			if err = tables[i].Agree(header.Metering); err != nil {
				err = fmt.Errorf("%w: %w", sums.ErrBlock, err)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", packs[i].ID, err)
		}
	}
	return tables, nil
}
