package proof

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"muniment.example/control/proof/sums"
	"muniment.example/control/store"
	"muniment.example/pipeline"
)

// MergeEvery is how often MergeSums should be called.
const MergeEvery = time.Minute

// mergesAtOnce is how many runs one call merges of each length.
const mergesAtOnce = 100

// run is consecutive packs of a tenant whose sums are to be merged.
type run struct {
	tenantID    string
	packs, last int64 // how many, and the sequence number of the last
	mends       int64 // of the tenant, when the run was found
}

// MergeSums merges the sums by day of complete runs of packs. Merged sums are a cache: a crash leaves fewer of
// them, and any number of processes may merge at once, as a run always has the same. A run that can't be merged
// delays those of no other tenant. One whose sums are mended meanwhile is left to a later call.
func (s *Sums) MergeSums(ctx context.Context) (failed error) {
	within := int64(1)
	for _, packs := range s.runs {
		merged, args := "", []any{packs, mergesAtOnce}
		if within > 1 { // the shorter runs have to be there
			merged, args = `JOIN proof_merges w ON w.tenant_id = h.tenant_id AND w.packs = $3 AND w.sequence >= p.sequence `, append(args, within)
		}
		due, err := store.List(ctx, s.db.Read(), "the packs to merge", func(row store.Row) (r run, err error) {
			r.packs = packs
			return r, row.Scan(&r.tenantID, &r.last, &r.mends)
		}, `SELECT h.tenant_id, p.sequence, h.mends FROM proof_heads h LEFT JOIN proof_merges m ON m.tenant_id = h.tenant_id AND m.packs = $1
			JOIN proof_packs p ON p.tenant_id = h.tenant_id AND p.sequence = COALESCE(m.sequence, 0) + $1 `+merged+`ORDER BY h.tenant_id LIMIT $2`, args...)
		if err != nil {
			return errors.Join(failed, err)
		}
		for _, r := range due {
			_, err := mended(ctx, s, &pipeline.MeterQuery{TenantID: r.tenantID}, func() (struct{}, error) { return struct{}{}, s.merge(ctx, r, within) }, nil)
			if err != nil && !errors.Is(err, errOutdated) {
				failed = errors.Join(failed, fmt.Errorf("cannot merge the sums of packs %d to %d of %s: %w", r.last-r.packs+1, r.last, r.tenantID, err))
			}
		}
		within = packs
	}
	return failed
}

// merge merges a run of shorter runs, or of packs. Each day is written by a change of its own, so that no stop
// waits for all of them.
func (s *Sums) merge(ctx context.Context, r run, within int64) error {
	days, err := s.daysOf(ctx, s.db.Read(), r, within)
	if err != nil {
		return err
	}
	for _, day := range days {
		table, err := s.dayOf(ctx, s.db.Read(), r, within, day)
		if err != nil {
			return err
		}
		block := s.codec.Encode(table.Lines())
		if err := s.step("store merged day"); err != nil {
			return err
		}
		err = s.changeRun(ctx, r, func(tx *store.Tx) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO proof_merged (tenant_id, packs, day, sequence, whole) VALUES ($1, $2, $3, $4, $5)
				ON CONFLICT (tenant_id, packs, day, sequence) DO UPDATE SET whole = excluded.whole`, r.tenantID, r.packs, day, r.last, block)
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := s.step("store merged run"); err != nil {
		return err
	}
	return s.changeRun(ctx, r, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO proof_merges (tenant_id, packs, sequence) VALUES ($1, $2, $3)
			ON CONFLICT (tenant_id, packs) DO UPDATE SET sequence = excluded.sequence WHERE proof_merges.sequence = $4`, r.tenantID, r.packs, r.last, r.last-r.packs)
		return err
	})
}

// daysOf lists the days of a run of packs that are stored by runs of within packs.
func (s *Sums) daysOf(ctx context.Context, db store.Querier, r run, within int64) ([]int64, error) {
	return store.List(ctx, db, "the days of a run of packs of "+r.tenantID, func(row store.Row) (day int64, err error) {
		return day, row.Scan(&day)
	}, `SELECT DISTINCT day FROM `+merged(within)+` WHERE tenant_id = $1 AND sequence > $2 AND sequence <= $3 ORDER BY day`, r.tenantID, r.last-r.packs, r.last)
}

// dayOf adds up the sums of one of these days: a run may be of a month, and all of it at once much.
func (s *Sums) dayOf(ctx context.Context, db store.Querier, r run, within, day int64) (*sums.Table, error) {
	table := new(sums.Table)
	return table, store.Each(ctx, db, "the sums of a run of packs of "+r.tenantID, scanStored, func(of stored) error {
		block, err := s.codec.Decode(of.day, of.block, true)
		table.AddBlock(&block)
		return err
	}, `SELECT day, whole FROM `+merged(within)+` WHERE tenant_id = $1 AND day = $2 AND sequence > $3 AND sequence <= $4`, r.tenantID, day, r.last-r.packs, r.last)
}

// apart returns what runs that are merged, and end with a pack, have more than what they are merged of, by day,
// of the days that differ. What can't be decoded is not there.
func (s *Sums) apart(ctx context.Context, p *Pack) (rows []pipeline.MeterRow, err error) {
	err = s.db.View(ctx, func(db store.Querier) (err error) {
		rows, err = s.apartIn(ctx, db, p)
		return err
	})
	return rows, err
}

func (s *Sums) apartIn(ctx context.Context, db store.Querier, p *Pack) (rows []pipeline.MeterRow, err error) {
	within := int64(1)
	for _, packs := range s.runs {
		if p.Sequence%packs != 0 {
			break
		}
		r := run{tenantID: p.TenantID, packs: packs, last: p.Sequence}
		n, err := store.Count(ctx, db, "merges", `SELECT COUNT(*) FROM proof_merges WHERE tenant_id = $1 AND packs = $2 AND sequence >= $3`, r.tenantID, r.packs, r.last)
		if err != nil || n == 0 {
			return rows, err
		}
		days, err := s.daysOf(ctx, db, r, packs)
		if err != nil {
			return nil, err
		}
		more, err := s.daysOf(ctx, db, r, within)
		if err != nil {
			return nil, err
		}
		days = append(days, more...)
		slices.Sort(days)
		for _, day := range slices.Compact(days) {
			whole, err := s.dayOf(ctx, db, r, packs, day)
			if err != nil && !errors.Is(err, sums.ErrBlock) {
				return nil, err
			}
			parts, err := s.dayOf(ctx, db, r, within, day)
			if err != nil && !errors.Is(err, sums.ErrBlock) {
				return nil, err
			}
			if _, apart := whole.Apart(parts); apart {
				rows = append(append(rows, signed(whole, 1)...), signed(parts, -1)...)
			}
		}
		within = packs
	}
	return rows, nil
}

// signed are the lines of a table as rows by day, times a sign.
func signed(table *sums.Table, sign int64) (rows []pipeline.MeterRow) {
	for _, l := range table.Lines() {
		row := rowOf(&l.Kind, &l.Sum)
		row.Bucket = time.UnixMilli(l.Start).UTC()
		row.Receipts, row.QuantityMs, row.Impressions = sign*row.Receipts, sign*row.QuantityMs, sign*row.Impressions
		rows = append(rows, row)
	}
	return rows
}

// errOutdated: the tenant of a run was dropped since the run was found, or its sums were mended.
var errOutdated = errors.New("the run of packs is outdated")

// changeRun runs fn in a change, or returns errOutdated.
func (s *Sums) changeRun(ctx context.Context, r run, fn func(tx *store.Tx) error) error {
	return s.db.Change(ctx, func(tx *store.Tx) error {
		n, err := store.Count(ctx, tx, "packs", `SELECT COUNT(*) FROM proof_packs p JOIN proof_heads h ON h.tenant_id = p.tenant_id
			WHERE p.tenant_id = $1 AND p.sequence = $2 AND h.mends = $3`, r.tenantID, r.last, r.mends)
		if err == nil && n == 0 {
			err = errOutdated
		}
		if err != nil {
			return err
		}
		return fn(tx)
	})
}

// merged is the sums by day of runs of so many packs, in SQL.
func merged(packs int64) string {
	if packs == 1 {
		return "proof_sums"
	}
	return fmt.Sprintf("(SELECT tenant_id, day, sequence, whole FROM proof_merged WHERE packs = %d) AS merged", packs)
}

// byDay is the sums by day of the packs up to a sequence number, as few rows as there are, in SQL: of $1, the
// tenant, from day $2 to day $3, exclusive.
func (s *Sums) byDay(ctx context.Context, db store.Querier, tenantID string, upTo int64) (string, error) {
	type progress struct{ packs, sequence int64 }
	list, err := store.List(ctx, db, "merges of "+tenantID, func(row store.Row) (p progress, err error) {
		return p, row.Scan(&p.packs, &p.sequence)
	}, `SELECT packs, sequence FROM proof_merges WHERE tenant_id = $1 ORDER BY packs DESC`, tenantID)
	if err != nil {
		return "", err
	}
	var parts []string
	after := int64(0)
	for _, p := range append(list, progress{1, upTo}) {
		last := min(p.sequence, upTo/p.packs*p.packs)
		if last <= after {
			continue
		}
		parts = append(parts, fmt.Sprintf(`SELECT day, whole FROM %s WHERE tenant_id = $1 AND day >= $2 AND day < $3 AND sequence > %d AND sequence <= %d`, merged(p.packs), after, last))
		after = last
	}
	return strings.Join(parts, " UNION ALL "), nil
}
