package warehouse

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"muniment.example/bench/measure"
	"muniment.example/control/proof"
	"muniment.example/control/proof/sums"
	"muniment.example/control/store"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// How long answers from the sums of packs may take, and how many bytes of them a receipt may.
const (
	mostFromSums  = 1.0 // times the bare sum, of a month
	mostByRight   = 100 * time.Millisecond
	mostByHour    = 300 * time.Millisecond
	mostTail      = 150 * time.Millisecond
	mostSumsBytes = 10
)

// packEntries is how many of a tenant's receipts a pack has.
const packEntries = 100_000

// seal writes what of packs metering reads, as sealing does, into a database of control: of the tenant's
// rows, but for the newest of them, which are as many as fill a pack. The sums are of the rows: nothing is
// signed, and the first and last receipt of an hour are not known.
func (s *Settlement) seal(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "muniment-bench-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.unseal(), os.RemoveAll(dir))
		}
	}()
	s.sealedIn = dir
	if s.control, err = store.Open(ctx, store.Config{Path: filepath.Join(dir, "control.db")}); err != nil {
		return err
	}
	if s.sums, err = proof.NewSums(s.control, s.warehouse); err != nil {
		return err
	}
	codec, err := sums.NewCodec()
	if err != nil {
		return err
	}
	var hours []time.Time
	for h := month(-1); h.Before(month(months)); h = h.Add(time.Hour) { // some came a month late
		hours = append(hours, h)
	}
	const positions = packEntries * 10 / 4 // of four in ten rows
	for first := 0; first+2*positions <= s.Rows; first += positions {
		var lines []pipeline.MeterRow
		lines, err = s.warehouse.Metering(ctx, pipeline.MeterQuery{
			TenantID: tenantOf(0), After: new(at(first - 1)), AsOf: new(at(first + positions)), Buckets: hours, By: pipeline.MeterBy{Completion: true},
		})
		if err != nil {
			return err
		}
		var table sums.Table
		for i := range lines {
			l, start := &lines[i], lines[i].Bucket.UnixMilli()
			k := sums.Kind{RightID: l.RightID, Substrate: l.Substrate, BasisID: l.BasisID, MeteringBasis: l.MeteringBasis, Reason: l.Reason, Completion: l.Completion}
			table.Add(start, table.Number(k), &sums.Sum{Receipts: l.Receipts, QuantityMs: l.QuantityMs, Impressions: l.Impressions, First: start, Last: start})
			s.sealedReceipts += l.Receipts
		}
		s.sealedLines += len(lines)
		s.packs++
		if err = s.keep(ctx, first, first+positions-1, table.Days(codec)); err != nil {
			return err
		}
	}
	err = s.control.Change(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO proof_heads (tenant_id, sequence, pack_id, tree_size, root_hash, hashes, position) VALUES ($1, $2, '', 0, '', '', '')`, tenantOf(0), s.packs)
		return err
	})
	for n := 0; err == nil && n <= s.packs; n += 16 { // one run of 16 packs each time
		err = s.sums.MergeSums(ctx)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "%s packs with %s receipts: %s lines by hour, %s bytes of sums\n",
		measure.Count(s.packs), measure.Count(s.sealedReceipts), measure.Count(s.sealedLines), measure.Count(s.sumsBytes))
	return nil
}

// at is the position of a row.
func at(n int) sealer.Position { return sealer.Position{Generation: 1, Offset: int64(n)} }

// keep writes a pack and its sums.
func (s *Settlement) keep(ctx context.Context, first, last int, days []sums.Day) error {
	return s.control.Change(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO proof_packs (pack_id, tenant_id, sequence, revision, first_index, entries, root_hash, first_position, last_generation, last_offset,
				sealed_at, signing_key_id, bytes, sha256, file_bytes, file_sha256, duplicates, rated, unrated, header)
			VALUES ($1, $2, $3, 0, $4, $5, '', $6, 1, $7, 0, '', 0, '', 0, '', 0, 0, 0, '')`,
			"pck_"+numbered(s.packs), tenantOf(0), s.packs, first, packEntries, at(first).String(), last)
		for _, d := range days {
			if err == nil {
				s.sumsBytes += int64(len(d.Hours) + len(d.Whole))
				_, err = tx.ExecContext(ctx, `INSERT INTO proof_sums (tenant_id, day, sequence, hours, whole) VALUES ($1, $2, $3, $4, $5)`, tenantOf(0), d.Day, s.packs, d.Hours, d.Whole)
			}
		}
		return err
	})
}

// unseal removes what seal wrote.
func (s *Settlement) unseal() error {
	var err error
	if s.control != nil {
		err = s.control.Close()
	}
	return errors.Join(err, os.RemoveAll(s.sealedIn))
}

// fromSums measures what control answers from the sums of packs: a month settled beside the bare sum of its
// rows, alternating, and pages of metering, with and without rows behind the packs.
func (s *Settlement) fromSums(ctx context.Context) (err error) {
	if err := s.seal(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.unseal()) }()
	if s.packs == 0 { // a quick run
		return nil
	}
	from, to := month(settledMonth), month(settledMonth+1)
	sealed := at(s.packs * packEntries * 10 / 4) // where a statement ends
	rows, err := s.settle(ctx, s.warehouse, sealed, from, to)
	if err != nil {
		return err
	}
	want, err := rows.statement.Text()
	if err != nil {
		return err
	}
	var took, sums, ratios []float64
	for range s.Rounds {
		d, err := s.settle(ctx, s.sums, sealed, from, to)
		if err != nil {
			return err
		}
		if got, err := d.statement.Text(); err != nil || string(got) != string(want) {
			return errors.Join(err, errors.New("the statement from sums is not that from rows"))
		}
		m, _, err := s.bare(ctx, "", from, to)
		if err != nil {
			return err
		}
		took, sums = append(took, measure.Milliseconds(d.took())), append(sums, measure.Milliseconds(m.took))
		ratios = append(ratios, measure.Milliseconds(d.took())/measure.Milliseconds(m.took))
	}
	middle, least, most := measure.Spread(ratios)
	s.verdicts = append(s.verdicts, measure.AtMost(s.Out, "a tenant's month settled from sums of packs, to the bare sum", " ×", middle, mostFromSums,
		fmt.Sprintf("%.2f to %.2f in %d; %.0f to %.0f ms", least, most, s.Rounds, measure.Median(sums), measure.Median(took))))
	var hours []time.Time
	for h := from; h.Before(from.AddDate(0, 0, 10)); h = h.Add(time.Hour) {
		hours = append(hours, h)
	}
	for _, q := range []struct {
		what  string
		bound time.Duration
		pipeline.MeterQuery
	}{
		{"a month metered by right, from sums", mostByRight, pipeline.MeterQuery{From: from, To: to, AsOf: &sealed}},
		{"all metered by right, from sums", mostByRight, pipeline.MeterQuery{AsOf: &sealed}},
		{"ten days metered by hour, from sums", mostByHour, pipeline.MeterQuery{From: from, To: from.AddDate(0, 0, 10), Buckets: hours, AsOf: &sealed}},
		{"a tail of 100,000 rows", mostTail, pipeline.MeterQuery{After: new(at(int(sealed.Offset) - 1)), AsOf: new(s.rows.end())}},
	} {
		q.TenantID, q.Limit = tenantOf(0), 51
		took, err := measure.FiveTimes(func() error {
			_, err := s.sums.Metering(ctx, q.MeterQuery)
			return err
		})
		if err != nil {
			return err
		}
		s.verdicts = append(s.verdicts, measure.AtMost(s.Out, q.what, " ms", measure.Median(took), measure.Milliseconds(q.bound), measure.Spans(took)))
	}
	s.verdicts = append(s.verdicts, measure.AtMost(s.Out, "bytes of sums a receipt", "", float64(s.sumsBytes)/float64(s.sealedReceipts), mostSumsBytes,
		fmt.Sprintf("%.2f lines by hour a receipt", float64(s.sealedLines)/float64(s.sealedReceipts))))
	return nil
}
