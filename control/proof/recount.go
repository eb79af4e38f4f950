package proof

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"muniment.example/control/proof/sums"
	"muniment.example/control/store"
	"muniment.example/pipeline"
	"muniment.example/sealer"
	"muniment.example/sealer/pack"
)

// MendSums counts again what is stored of those of the tenant's packs of which it can't be read or isn't what
// the header of the pack says, from the entries in the pack's file; merged sums that can't be read, or were
// merged of others, are merged again. What is stored is only derived from packs, which are signed: nothing
// that is evidence changes. A pack that can't be counted prevents no other from being mended; for mendAgainAfter the
// error is returned then without another attempt, which reads all of the tenant's sums.
func (a *archive) MendSums(ctx context.Context, tenantID string) error {
	if err := a.unmended.of(tenantID, a.cfg.Now()); err != nil {
		return err
	}
	if err := a.mendMerged(ctx, tenantID); err != nil {
		return err
	}
	var failed error // the first
	failures := 0
	for after := int64(0); ; {
		packs, err := listPacks(ctx, a.db.Read(), tenantID, after, 1)
		if err != nil {
			return err
		}
		if len(packs) == 0 {
			break
		}
		p := &packs[0]
		after = p.Sequence
		sound, err := a.sumsAreSound(ctx, p)
		if err == nil && !sound {
			err = a.recount(ctx, p)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if failures++; failed == nil {
				failed = fmt.Errorf("cannot mend the sums of pack %s: %w", p.ID, err)
			}
		}
	}
	if failures > 1 {
		failed = fmt.Errorf("%w (and those of %d more packs)", failed, failures-1)
	}
	a.unmended.note(tenantID, a.cfg.Now(), failed)
	return failed
}

// mendAgainAfter is for how long sums are not mended again after this has failed.
const mendAgainAfter = 5 * time.Minute

// unmendedSums are the tenants whose sums could not be mended. Safe for concurrent use.
type unmendedSums struct {
	mu   sync.Mutex
	last map[string]mendFailure
}

type mendFailure struct {
	at  time.Time
	err error
}

// of returns why a tenant's sums could not be mended, unless that is long ago.
func (u *unmendedSums) of(tenantID string, now time.Time) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if last := u.last[tenantID]; now.Sub(last.at) < mendAgainAfter {
		return last.err
	}
	delete(u.last, tenantID)
	return nil
}

// note notes how mending a tenant's sums ended.
func (u *unmendedSums) note(tenantID string, now time.Time, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err == nil {
		delete(u.last, tenantID)
		return
	}
	u.last[tenantID] = mendFailure{now, err}
}

// mendMerged has the runs merged again whose sums can't be read.
func (a *archive) mendMerged(ctx context.Context, tenantID string) error {
	first := int64(0) // pack of the first of these runs
	type merged struct {
		stored
		packs, sequence int64
	}
	err := store.Each(ctx, a.db.Read(), "the merged sums of "+tenantID, func(row store.Row) (m merged, err error) {
		return m, row.Scan(&m.packs, &m.sequence, &m.day, &m.block)
	}, func(m merged) error {
		if _, err := a.codec.Decode(m.day, m.block, true); err != nil && (first == 0 || m.sequence-m.packs < first-1) {
			first = m.sequence - m.packs + 1
		}
		return nil
	}, `SELECT packs, sequence, day, whole FROM proof_merged WHERE tenant_id = $1`, tenantID)
	if err != nil || first == 0 {
		return err
	}
	return a.mergeAgain(ctx, tenantID, first, "merged sums of packs can't be read: they are merged again")
}

// mergeAgain has runs merged again from the one with a pack on, and logs why.
func (a *archive) mergeAgain(ctx context.Context, tenantID string, sequence int64, why string) error {
	err := a.db.Change(ctx, func(tx *store.Tx) error { return unmerge(ctx, tx, tenantID, sequence) })
	if err != nil {
		return err
	}
	a.cfg.Logger.ErrorContext(ctx, why, "tenantId", tenantID, "fromPack", sequence)
	a.metrics.mended.WithLabelValues(mendedMerged).Inc()
	return nil
}

// unmerge forgets what was merged of a pack and of those behind it. What is being merged meanwhile, or copied, is
// outdated by that.
func unmerge(ctx context.Context, tx *store.Tx, tenantID string, sequence int64) error {
	_, err := tx.ExecContext(ctx, `UPDATE proof_merges SET sequence = $3 / packs * packs WHERE tenant_id = $1 AND sequence >= $2`, tenantID, sequence, sequence-1)
	if err == nil {
		_, err = tx.ExecContext(ctx, `DELETE FROM proof_merged WHERE tenant_id = $1 AND sequence >= $2`, tenantID, sequence)
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, `UPDATE proof_heads SET mends = mends + 1 WHERE tenant_id = $1`, tenantID)
	}
	return err
}

// sumsAreSound reports whether what is stored of a pack can be read, and sums to its header, by hour and by day.
func (a *archive) sumsAreSound(ctx context.Context, p *Pack) (bool, error) {
	header, err := pack.ParseHeader(p.Header)
	if err != nil {
		return false, err
	}
	type blocks struct {
		day          int64
		hours, whole []byte
	}
	var hours, days sums.Table
	err = store.Each(ctx, a.db.Read(), "the sums of pack "+p.ID, func(row store.Row) (b blocks, err error) {
		return b, row.Scan(&b.day, &b.hours, &b.whole)
	}, func(b blocks) error {
		byHour, err := a.codec.Decode(b.day, b.hours, false)
		if err != nil {
			return err
		}
		byDay, err := a.codec.Decode(b.day, b.whole, true)
		if err != nil {
			return err
		}
		hours.AddBlock(&byHour)
		days.AddBlock(&byDay)
		return nil
	}, `SELECT day, hours, whole FROM proof_sums WHERE tenant_id = $1 AND sequence = $2`, p.TenantID, p.Sequence)
	if errors.Is(err, sums.ErrBlock) {
		return false, nil
	}
	_, apart := wholeDays(&hours).Apart(&days)
	return !apart && hours.Agree(header.Metering) == nil, err
}

// RecountSums replaces what is stored of a pack unless it is what the entries in the pack's file add up to. Merged
// runs that end with the pack are merged again if they are not what they were merged of.
func (s *Service) RecountSums(ctx context.Context, tenantID, packID string) error {
	p, found, err := readPack(ctx, s.db.Read(), tenantID, packID)
	if err != nil || !found {
		return err
	}
	table, err := s.count(ctx, &p)
	if err != nil {
		return fmt.Errorf("cannot count pack %s: %w", packID, err)
	}
	for column, counted := range map[string]*sums.Table{"hours": table, "whole": wholeDays(table)} {
		stored, err := storedOf(ctx, s.db.Read(), s.codec, &p, column)
		if err != nil {
			return err
		}
		if !slices.Equal(stored, counted.Lines()) {
			return s.replace(ctx, &p, table)
		}
	}
	apart, err := s.Sums.apart(ctx, &p)
	if err != nil || len(apart) == 0 {
		return err
	}
	return s.mergeAgain(ctx, tenantID, p.Sequence, "merged sums of packs are not those of the packs: they are merged again")
}

// recount replaces what is stored of a pack.
func (a *archive) recount(ctx context.Context, p *Pack) error {
	table, err := a.count(ctx, p)
	if err != nil {
		return err
	}
	return a.replace(ctx, p, table)
}

// replace stores other sums of a pack.
func (a *archive) replace(ctx context.Context, p *Pack, table *sums.Table) error {
	days := table.Days(a.codec)
	err := a.db.Change(ctx, func(tx *store.Tx) error {
		n, err := store.Count(ctx, tx, "packs", `SELECT COUNT(*) FROM proof_packs WHERE tenant_id = $1 AND pack_id = $2`, p.TenantID, p.ID)
		if err != nil || n == 0 { // the tenant was dropped meanwhile
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM proof_sums WHERE tenant_id = $1 AND sequence = $2`, p.TenantID, p.Sequence); err != nil {
			return err
		}
		if err := addSums(ctx, tx, p, days); err != nil {
			return err
		}
		return unmerge(ctx, tx, p.TenantID, p.Sequence)
	})
	if err != nil {
		return err
	}
	a.cfg.Logger.ErrorContext(ctx, "the stored sums of a pack were not those of its entries: they are counted again", "tenantId", p.TenantID, "packId", p.ID)
	a.metrics.mended.WithLabelValues(mendedPack).Inc()
	return nil
}

// count counts the deliveries in a pack's file by hour.
func (a *archive) count(ctx context.Context, p *Pack) (*sums.Table, error) {
	file, err := a.folder.open(ctx, *p)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	reader, err := pack.Read(file)
	if err != nil {
		return nil, err
	}
	header := reader.Header()
	duplicates := map[uint64]bool{}
	for _, d := range header.Duplicates {
		duplicates[d.Leaf] = true
	}
	table := new(sums.Table)
	for leaf := p.FirstIndex; ; leaf++ {
		text, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return table, table.Agree(header.Metering)
		}
		if err != nil {
			return nil, err
		}
		_, d, err := sealer.ReadEvent(text)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", leaf, err)
		}
		if d != nil {
			table.Count(d, duplicates[leaf])
		}
	}
}

// wholeDays are the sums of hours by day.
func wholeDays(hours *sums.Table) *sums.Table {
	days := new(sums.Table)
	for _, l := range hours.Lines() {
		days.Add(sums.StartOf(l.Start, sums.DayMs), days.Number(l.Kind), &l.Sum)
	}
	return days
}

// mended calls query, and once more after what is stored of the tenant was mended, if that can't be read. A
// query that fails all the same is answered by fromRows, unless it is nil.
func mended[T any](ctx context.Context, s *Sums, q *pipeline.MeterQuery, query, fromRows func() (T, error)) (T, error) {
	result, err := query()
	if s.mend == nil || !errors.Is(err, sums.ErrBlock) {
		return result, err
	}
	failed := s.mend(ctx, q.TenantID)
	if failed == nil {
		result, err = query()
	}
	if !errors.Is(err, sums.ErrBlock) || fromRows == nil {
		return result, errors.Join(err, failed)
	}
	s.unread(ctx, q.TenantID, errors.Join(err, failed))
	return fromRows()
}

// unreadSums notes that a query was answered from rows.
func (a *archive) unreadSums(ctx context.Context, tenantID string, err error) {
	a.cfg.Logger.ErrorContext(ctx, "sums of packs can't be read: rows are summed instead", "tenantId", tenantID, "err", err)
	a.metrics.unread.Inc()
}
