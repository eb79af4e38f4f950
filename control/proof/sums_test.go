package proof

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/objects"
	"muniment.example/control/proof/prooftest"
	"muniment.example/control/proof/sums"
	"muniment.example/control/rapidtest"
	"muniment.example/control/store"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/pipeline/drift"
	"muniment.example/sealer"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
)

// ledger is a world whose sums are held against its rows.
type ledger struct {
	*world
	heads []string // JSON of heads that a restored database may have
}

// TestSumsAreThoseOfTheRows runs deliveries, of now and late, repeated and forged, seals of one process and
// of two at once, crashes at each step, releases, merges, erasures, and databases that are restored to an older
// pack. What the sums of packs and the rows behind them answer is what the rows answer alone, for every
// position and in any window.
func TestSumsAreThoseOfTheRows(t *testing.T) {
	rapidtest.Check(t, 5, 1_000, func(rt *rapid.T) {
		w := &world{rt: rt, cfg: Config{MaxEntries: rapid.IntRange(1, 9).Draw(rt, "entries of a pack")}}
		w.fixture = build(rt, w.cfg)
		l := &ledger{world: w}
		rt.Repeat(map[string]func(*rapid.T){
			"deliver":     l.deliver,
			"deliver two": func(rt *rapid.T) { l.deliver(rt); l.deliver(rt) },
			"time": func(rt *rapid.T) {
				l.Advance(time.Duration(rapid.IntRange(1, 40).Draw(rt, "hours")) * 37 * time.Minute)
			},
			"seal":        func(*rapid.T) { l.whole(rt); l.heads = append(l.heads, l.head()) },
			"crash":       l.crash,
			"two at once": l.twoAtOnce,
			"forge": func(rt *rapid.T) {
				if rapid.Bool().Draw(rt, "rarely") {
					return
				}
				l.Append(l.Event(delivery{DwellMs: 5, Key: "a", Signer: prooftest.NewSigner(rt)}))
				require.Equal(rt, api.Quarantined, l.sealErr().Reason)
				for _, held := range l.heldRecords() {
					l.release(held)
				}
			},
			"merge": func(rt *rapid.T) {
				l.service.Sums.runs = []int64{2, 6}
				for range 3 {
					require.NoError(rt, l.service.Sums.MergeSums(rt.Context()))
				}
				if rapid.Bool().Draw(rt, "it is killed") { // before it noted what it has merged
					require.NoError(rt, l.DB.Change(rt.Context(), func(tx *store.Tx) error {
						_, err := tx.ExecContext(rt.Context(), `DELETE FROM proof_merges WHERE packs >= $1`, rapid.SampledFrom(l.service.Sums.runs).Draw(rt, "merging"))
						return err
					}))
				}
			},
			"erase": func(rt *rapid.T) {
				key := pipeline.SubjectKey{}
				require.NoError(rt, l.Warehouse.Erase(rt.Context(), key, []pipeline.Tombstone{{TenantID: tenant, SubjectHash: key.Hash(tenant, "ada"), Until: l.Now()}}))
			},
			"restore": func(rt *rapid.T) {
				if len(l.heads) > 0 {
					l.restore(rapid.SampledFrom(l.heads).Draw(rt, "head"))
				}
			},
			"": func(rt *rapid.T) { l.compare(rt, l.asOf(rt)) },
		})
		l.whole(rt)
		l.compare(rt, nil)
		end := l.End()
		for at := (sealer.Position{Generation: end.Generation}); at.Offset <= end.Offset; at.Offset++ {
			l.compare(rt, &at)
		}
	})
}

func (l *ledger) deliver(rt *rapid.T) {
	for range rapid.IntRange(1, 4).Draw(rt, "deliveries") {
		d := delivery{
			Right:     rapid.SampledFrom([]string{"rgh_01ARZ3NDEKTSV4RRFFQ69G5FAV", "rgh_01ARZ3NDEKTSV4RRFFQ69G5FAW"}).Draw(rt, "right"),
			Substrate: rapid.SampledFrom([]gate.Substrate{gate.DOOH, gate.CTV}).Draw(rt, "substrate"),
			Telemetry: rapid.SampledFrom([]string{`{}`, `{"viewable":true,"completionState":"complete"}`, `{"visibilityState":"hidden"}`}).Draw(rt, "telemetry"),
			DwellMs:   float64(rapid.IntRange(0, 5000).Draw(rt, "dwell")),
			Key:       rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(rt, "key"),
			Rendered:  rapid.SampledFrom([]time.Duration{0, time.Millisecond, 10 * time.Minute, time.Hour, 29 * time.Hour, 700 * time.Hour}).Draw(rt, "late"),
			Subject:   rapid.SampledFrom([]string{"", "", "ada"}).Draw(rt, "person"),

			Multiplier: rapid.SampledFrom([]int64{0, 1, 25_000}).Draw(rt, "multiplier"),
		}
		if d.Key == "c" {
			d.Row, d.Key = "row", ""
		}
		l.Deliver(d)
	}
}

// asOf draws a position of the log, or none.
func (l *ledger) asOf(rt *rapid.T) *sealer.Position {
	at := l.End()
	if at.Offset = rapid.Int64Range(-1, at.Offset).Draw(rt, "as of"); at.Offset < 0 {
		return nil
	}
	return &at
}

// compare compares answers as of a position, in several windows.
func (l *ledger) compare(rt *rapid.T, asOf *sealer.Position) {
	require.NoError(rt, l.service.AwaitLoaded(rt.Context(), l.Tenant))
	day := l.Now().Truncate(24 * time.Hour)
	each := func(from time.Time, n int, length time.Duration) (starts []time.Time) {
		for i := range n {
			starts = append(starts, from.Add(time.Duration(i)*length))
		}
		return starts
	}
	for i, q := range []pipeline.MeterQuery{
		{},
		{By: pipeline.MeterBy{Completion: true}, RightID: "rgh_01ARZ3NDEKTSV4RRFFQ69G5FAW"},
		{From: day.Add(-24 * time.Hour), To: day.Add(24 * time.Hour)},
		{From: day.Add(-20*time.Hour - 30*time.Minute), To: day.Add(time.Hour + time.Nanosecond)},
		{To: l.Now().Add(time.Millisecond), Buckets: each(day.Add(-72*time.Hour), 96, time.Hour)},
		{By: pipeline.MeterBy{Completion: true}, From: day.Add(-1000 * time.Hour), Buckets: each(day.Add(-35*24*time.Hour), 37, 24*time.Hour)},
		{Buckets: each(day.Add(-72*time.Hour-330*time.Minute), 5, 24*time.Hour), RightID: "rgh_01ARZ3NDEKTSV4RRFFQ69G5FAV"},
		{Buckets: each(day.Add(-5*time.Minute), 7, time.Minute)},
		{From: day.Add(3 * time.Hour), To: day.Add(3 * time.Hour)},
		{By: pipeline.MeterBy{Anchor: true}},
	} {
		q.TenantID, q.AsOf = l.Tenant, asOf
		want, err := l.Warehouse.Metering(rt.Context(), q)
		require.NoError(rt, err)
		got, err := l.service.Sums.Metering(rt.Context(), q)
		require.NoError(rt, err)
		require.Equal(rt, append([]pipeline.MeterRow{}, want...), append([]pipeline.MeterRow{}, got...), "query %d as of %v", i, asOf)
		checked, err := l.service.Sums.Checked().Metering(rt.Context(), q)
		require.NoError(rt, err)
		require.Equal(rt, got, checked, "query %d as of %v", i, asOf)
		totals, err := l.Warehouse.MeterTotals(rt.Context(), q)
		require.NoError(rt, err)
		sum, err := l.service.Sums.MeterTotals(rt.Context(), q)
		require.NoError(rt, err)
		require.Equal(rt, totals, sum, "query %d as of %v", i, asOf)
		q.Skip, q.Limit = 1, 2
		got, err = l.service.Sums.Metering(rt.Context(), q)
		require.NoError(rt, err)
		want = want[min(1, len(want)):]
		require.Equal(rt, append([]pipeline.MeterRow{}, want[:min(2, len(want))]...), append([]pipeline.MeterRow{}, got...), "page of query %d as of %v", i, asOf)
	}
}

// A page of the first buckets costs what these have, however many come behind them: sums of later days are not
// read, so that they may even be unreadable. Pages that reach them find that.
func TestAPageReadsNoLaterDays(t *testing.T) {
	h := build(t)
	h.Deliver(delivery{Rendered: 72 * time.Hour}, delivery{Rendered: 71 * time.Hour}, delivery{Rendered: 48 * time.Hour}, delivery{})
	h.seal()
	today := sums.StartOf(h.Now().UnixMilli(), sums.DayMs)
	require.NoError(t, h.DB.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE proof_sums SET hours = $1, whole = $1 WHERE day = $2`, []byte("unreadable"), today/sums.DayMs)
		return err
	}))
	s := newSums(h.DB, h.Warehouse, h.service.codec)
	for length, skipped := range map[time.Duration]int{time.Hour: 1, 24 * time.Hour: 0} {
		q := pipeline.MeterQuery{TenantID: h.Tenant, To: h.Now().Add(time.Hour)}
		for start := h.Now().Truncate(24 * time.Hour).Add(-96 * time.Hour); start.Before(q.To); start = start.Add(length) {
			q.Buckets = append(q.Buckets, start)
		}
		want, err := h.Warehouse.Metering(t.Context(), q)
		require.NoError(t, err)
		q.Skip, q.Limit = skipped, 2
		got, err := s.Metering(t.Context(), q)
		require.NoError(t, err)
		require.Equal(t, want[skipped:][:2], got)
		q.Limit = len(want) - skipped
		_, err = s.Metering(t.Context(), q)
		require.ErrorIs(t, err, sums.ErrBlock)
	}
}

// head is the tenant's, in a form that restore takes.
func (l *ledger) head() string {
	h, err := readHead(l.T.Context(), l.DB.Read(), l.Tenant)
	require.NoError(l.T, err)
	return h.packID
}

// restore makes the database one in which a pack was the newest.
func (l *ledger) restore(packID string) {
	p, found, err := readPack(l.T.Context(), l.DB.Read(), l.Tenant, packID)
	require.NoError(l.T, err)
	if !found {
		return // restored to an older one already
	}
	tree := merkle.NewTree()
	for _, entry := range l.entries()[:p.end()] {
		tree.Append(merkle.LeafHash(entry))
	}
	next := head{p.Sequence, p.ID, tree, p.Last}
	require.NoError(l.T, l.DB.Change(l.T.Context(), func(tx *store.Tx) error {
		for _, statement := range []string{
			`DELETE FROM proof_packs WHERE tenant_id = $1 AND sequence >= $2`, `DELETE FROM proof_sums WHERE tenant_id = $1 AND sequence > $2`,
			`DELETE FROM proof_heads WHERE tenant_id = $1 AND sequence >= $2`,
			`DELETE FROM proof_merges WHERE tenant_id = $1 AND sequence > $2`, `DELETE FROM proof_merged WHERE tenant_id = $1 AND sequence > $2`,
		} {
			if _, err := tx.ExecContext(l.T.Context(), statement, l.Tenant, p.Sequence); err != nil {
				return err
			}
		}
		return advance(l.T.Context(), tx, next, p)
	}))
}

// TestStoredSumsOfMergedRuns: what is stored of a pack by day is its deliveries as long as runs that end with it
// were merged of their packs, and other sums once a merged one was edited.
func TestStoredSumsOfMergedRuns(t *testing.T) {
	h := build(t)
	h.service.Sums.runs = []int64{2, 4}
	for range 4 {
		h.Deliver(deliveries(3)...)
		h.seal()
	}
	for range 2 {
		require.NoError(t, h.service.Sums.MergeSums(t.Context()))
	}
	receipts := func(p Pack) (hours, days int64) {
		of, err := h.service.Sums.Stored(t.Context(), p)
		require.NoError(t, err)
		for _, r := range of.Hours {
			hours += r.Receipts
		}
		for _, r := range of.Days {
			days += r.Receipts
		}
		return hours, days
	}
	packs := h.packs()
	for _, p := range packs {
		hours, days := receipts(p)
		require.EqualValues(t, 3, hours)
		require.EqualValues(t, 3, days)
	}
	totals, err := h.service.Sums.MeterTotals(t.Context(), pipeline.MeterQuery{TenantID: h.Tenant})
	require.NoError(t, err)
	require.EqualValues(t, 12, totals.Receipts)
	require.NoError(t, h.DB.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `DELETE FROM proof_merged WHERE packs = 4`)
		return err
	}))
	totals, err = h.service.Sums.MeterTotals(t.Context(), pipeline.MeterQuery{TenantID: h.Tenant})
	require.NoError(t, err)
	require.Zero(t, totals.Receipts, "answers read the longest run")
	_, days := receipts(packs[3])
	require.EqualValues(t, 3-12, days)
	_, days = receipts(packs[1])
	require.EqualValues(t, 3, days)
}

// TestSumsAreOfOneState: sums that are unmerged while a query reads them are in its answer.
func TestSumsAreOfOneState(t *testing.T) {
	h := build(t)
	h.service.Sums.runs = []int64{2}
	for range 2 {
		h.Deliver(deliveries(3)...)
		h.seal()
	}
	require.NoError(t, h.service.Sums.MergeSums(t.Context()))
	unmerged := 0
	h.service.Sums.step = func(name string) error {
		if name != "read sums" {
			return nil
		}
		unmerged++
		return h.DB.Change(t.Context(), func(tx *store.Tx) error { return unmerge(t.Context(), tx, h.Tenant, 1) })
	}
	totals, err := h.service.Sums.MeterTotals(t.Context(), pipeline.MeterQuery{TenantID: h.Tenant})
	require.NoError(t, err)
	require.Equal(t, 1, unmerged)
	require.EqualValues(t, 6, totals.Receipts)
}

// TestMergeOfMendedSums: sums that are mended while they are merged are merged by a later call, and all of them.
func TestMergeOfMendedSums(t *testing.T) {
	for _, step := range []string{"store merged day", "store merged run"} {
		t.Run(step, func(t *testing.T) {
			h := build(t)
			h.service.Sums.runs = []int64{2}
			for range 2 {
				h.Deliver(delivery{DwellMs: 5}, delivery{DwellMs: 5, Rendered: 30 * time.Hour})
				h.seal()
			}
			times := 0
			h.service.Sums.step = func(name string) error {
				if name != step || times > 1 {
					return nil
				}
				if times++; times == 1 && step == "store merged day" {
					return nil // it is the first of two
				}
				times = 2
				return h.DB.Change(t.Context(), func(tx *store.Tx) error { return unmerge(t.Context(), tx, h.Tenant, 1) })
			}
			merged := func() int64 {
				require.NoError(t, h.service.Sums.MergeSums(t.Context()))
				totals, err := h.service.Sums.MeterTotals(t.Context(), pipeline.MeterQuery{TenantID: h.Tenant})
				require.NoError(t, err)
				require.EqualValues(t, 4, totals.Receipts)
				n, err := store.Count(t.Context(), h.DB.Read(), "merges", `SELECT COUNT(*) FROM proof_merges WHERE tenant_id = $1`, h.Tenant)
				require.NoError(t, err)
				return n
			}
			require.Zero(t, merged())
			require.Equal(t, 2, times)
			require.EqualValues(t, 1, merged())
		})
	}
}

// TestSealFailsWithOtherSums: a pack whose sums are not the metering in its header is not sealed.
func TestSealFailsWithOtherSums(t *testing.T) {
	h := build(t)
	h.Deliver(deliveries(3)...)
	require.NoError(t, h.service.AwaitLoaded(t.Context(), h.Tenant))
	s := &session{packer: h.service.packer, tenantID: h.Tenant, by: operator, end: h.End()}
	require.NoError(t, s.prepare(t.Context()))
	d := newDraft(s, newHead())
	defer d.scratch.close()
	h.service.step = func(name string) error {
		if name == "sign" {
			d.counted.Add(0, d.counted.Number(sums.Kind{RightID: "rgh_a"}), &sums.Sum{Receipts: 1})
		}
		return nil
	}
	_, err := d.build(t.Context())
	require.ErrorContains(t, err, "the sums by hour are not the metering in the header: of rgh_a")
}

// TestSumsThatCannotBeRead: sums that can't be read are counted again from their pack. Where this fails, rows answer;
// what has to be checked is refused, a run that can't be merged delays no other tenant's, and what is stored of
// the pack is less than the pack's, so that the check for drift finds it.
func TestSumsThatCannotBeRead(t *testing.T) {
	h := build(t)
	h.service.Sums.runs = []int64{2}
	for range 2 {
		for _, of := range []string{tenant, stranger} {
			h.Deliver(delivery{Tenant: of, DwellMs: 5})
			_, err := h.service.sealWhole(t.Context(), of, operator)
			require.NoError(t, err)
		}
	}
	require.Less(t, tenant, stranger, "the order in which they are merged")
	tear := func() {
		require.NoError(t, h.DB.Change(t.Context(), func(tx *store.Tx) error {
			_, err := tx.ExecContext(t.Context(), `UPDATE proof_sums SET hours = $2, whole = $2 WHERE tenant_id = $1 AND sequence = 1`, tenant, []byte("torn"))
			return err
		}))
	}
	all := pipeline.MeterQuery{TenantID: tenant}
	want, err := h.Warehouse.Metering(t.Context(), all)
	require.NoError(t, err)
	totals, err := h.Warehouse.MeterTotals(t.Context(), all)
	require.NoError(t, err)

	tear()
	file := h.path(h.packs()[0].ID)
	require.NoError(t, os.Rename(file, file+".away"))
	require.ErrorIs(t, h.service.Sums.MergeSums(t.Context()), sums.ErrBlock)
	merged, err := store.List(t.Context(), h.DB.Read(), "merges", store.Text, `SELECT tenant_id FROM proof_merges`)
	require.NoError(t, err)
	require.Equal(t, []string{stranger}, merged)
	packs := h.packs()
	of, err := h.service.Sums.Stored(t.Context(), packs[0])
	require.NoError(t, err)
	require.Empty(t, of.Hours)
	require.Empty(t, of.Days)
	got, err := h.service.Sums.Metering(t.Context(), all)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.EqualValues(t, 1, testutil.ToFloat64(h.service.metrics.unread))
	_, err = h.service.Sums.Checked().Metering(t.Context(), all)
	require.ErrorIs(t, err, sums.ErrBlock)
	require.ErrorIs(t, err, objects.ErrNone)

	require.NoError(t, os.Rename(file+".away", file))
	require.ErrorIs(t, h.service.MendSums(t.Context(), tenant), objects.ErrNone, "it is not tried again at once")
	h.Advance(mendAgainAfter)
	for _, query := range []func() error{
		func() error {
			got, err := h.service.Sums.Checked().Metering(t.Context(), all)
			require.Equal(t, want, got)
			return err
		},
		func() error {
			got, err := h.service.Sums.MeterTotals(t.Context(), all)
			require.Equal(t, totals, got)
			return err
		},
		func() error { return h.service.Sums.MergeSums(t.Context()) },
	} {
		tear()
		require.NoError(t, query())
		of, err := h.service.Sums.Stored(t.Context(), packs[0])
		require.NoError(t, err)
		require.Len(t, of.Hours, 1)
		require.Len(t, of.Days, 1)
	}
	require.EqualValues(t, 3, testutil.ToFloat64(h.service.metrics.mended.WithLabelValues(mendedPack)))
	require.EqualValues(t, 1, testutil.ToFloat64(h.service.metrics.unread))
}

// TestMendGoesOn: a pack whose sums can't be counted again prevents no other from being mended.
func TestMendGoesOn(t *testing.T) {
	h := build(t)
	for range 3 {
		h.Deliver(deliveries(2)...)
		h.seal()
	}
	require.NoError(t, h.DB.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE proof_sums SET hours = $1`, []byte("torn"))
		return err
	}))
	packs := h.packs()
	for _, p := range packs[:2] {
		require.NoError(t, os.Remove(h.path(p.ID)))
	}
	err := h.service.MendSums(t.Context(), h.Tenant)
	require.ErrorIs(t, err, objects.ErrNone)
	require.ErrorContains(t, err, packs[0].ID)
	require.ErrorContains(t, err, "1 more pack")
	of, err := h.service.Sums.Stored(t.Context(), packs[2])
	require.NoError(t, err)
	require.Len(t, of.Hours, 1)
	require.EqualValues(t, 2, of.Hours[0].Receipts)
}

// TestSumsThatAreMissing: of a pack whose sums are not those of its entries, by hour, by day or at all, and of runs that
// were merged of these, the right ones are stored again.
func TestSumsThatAreMissing(t *testing.T) {
	h := build(t)
	h.service.Sums.runs = []int64{2, 4}
	for range 5 {
		h.Deliver(deliveries(3)...)
		h.Deliver(delivery{DwellMs: 7, Key: "again", Rendered: 30 * time.Hour})
		h.seal()
	}
	all := pipeline.MeterQuery{TenantID: h.Tenant, By: pipeline.MeterBy{Completion: true}}
	want, err := h.Warehouse.Metering(t.Context(), all)
	require.NoError(t, err)
	dump := func() (all []string) {
		for _, table := range []string{"SELECT sequence, day, hours, whole FROM proof_sums ORDER BY sequence, day", "SELECT packs * 100 + sequence, day, whole, whole FROM proof_merged ORDER BY packs, sequence, day"} {
			rows, err := store.List(t.Context(), h.DB.Read(), "sums", func(row store.Row) (string, error) {
				var sequence, day int64
				var hours, whole []byte
				err := row.Scan(&sequence, &day, &hours, &whole)
				return fmt.Sprint(sequence, day, hours, whole), err
			}, table)
			require.NoError(t, err)
			all = append(all, rows...)
		}
		return all
	}
	merge := func() {
		for range 3 {
			require.NoError(t, h.service.Sums.MergeSums(t.Context()))
		}
	}
	merge()
	sound := dump()
	unmerged := `DELETE FROM proof_merges; DELETE FROM proof_merged`
	var said bytes.Buffer
	checker, err := drift.New(drift.Config{
		Log: h.Log, Loaded: h.Warehouse.Resume, Auditor: h.Warehouse, Metering: h.Warehouse.Metering, MeterTotals: h.Warehouse.MeterTotals, Recount: h.service.RecountSums, Logger: slog.New(slog.NewTextHandler(&said, nil)),
		NextPack: func(ctx context.Context, after string) (*drift.Pack, error) {
			p, found, err := h.service.PackAfter(ctx, after)
			if err != nil || !found {
				return nil, err
			}
			header, err := pack.ParseHeader(p.Header)
			require.NoError(t, err)
			audited := &drift.Pack{ID: p.ID, TenantID: p.TenantID, First: p.First, Last: p.Last, Count: int64(p.Count), Metering: header.Metering}
			of, err := h.service.Sums.Stored(ctx, p)
			audited.Hours, audited.Days = of.Hours, of.Days
			audited.RenderedByHour, audited.RenderedByDay = drift.Rendered{First: of.FirstByHour, Last: of.LastByHour}, drift.Rendered{First: of.FirstByDay, Last: of.LastByDay}
			return audited, err
		},
	})
	require.NoError(t, err)
	// Sums that differ in when their last delivery was rendered alone.
	var day int64
	var wrong []byte
	require.NoError(t, h.DB.Read().QueryRowContext(t.Context(), `SELECT day, whole FROM proof_sums WHERE sequence = 2 ORDER BY day DESC LIMIT 1`).Scan(&day, &wrong))
	block, err := h.service.codec.Decode(day, wrong, true)
	require.NoError(t, err)
	var later []sums.Line
	for _, l := range block.Lines {
		l.Last++
		later = append(later, sums.Line{Start: l.Start, Kind: block.Kind(l.Kind), Sum: l.Sum})
	}
	for i, damage := range [][]string{
		{fmt.Sprintf(`UPDATE proof_sums SET whole = %s WHERE sequence = 2 AND day = %d`, h.bytes(h.service.codec.Encode(later)), day), unmerged},
		{`DELETE FROM proof_sums WHERE sequence = 2`},
		{`DELETE FROM proof_sums WHERE sequence = 2 AND day = (SELECT MIN(day) FROM proof_sums)`, unmerged},
		{`UPDATE proof_sums SET whole = (SELECT whole FROM proof_sums AS other WHERE other.day = proof_sums.day AND other.sequence = 1) WHERE sequence = 2`, unmerged},
	} {
		require.NoError(t, h.DB.Change(t.Context(), func(tx *store.Tx) error {
			for _, statement := range damage {
				for one := range strings.SplitSeq(statement, ";") {
					if _, err := tx.ExecContext(t.Context(), one); err != nil {
						return err
					}
				}
			}
			return nil
		}))
		merge() // of what is left
		require.NoError(t, checker.Whole(t.Context()))
		require.EqualValues(t, i+1, testutil.ToFloat64(h.service.metrics.mended.WithLabelValues(mendedPack)))
		require.Equal(t, i+1, strings.Count(said.String(), "packs and statements disagree"), "it is reported first")
		got, err := h.service.Sums.Metering(t.Context(), all)
		require.NoError(t, err)
		require.Equal(t, want, got)
		merge()
		require.Equal(t, sound, dump())
	}
	require.NoError(t, h.DB.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE proof_merged SET whole = $1 WHERE packs = 4`, []byte("torn"))
		return err
	}))
	got, err := h.service.Sums.Metering(t.Context(), all)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.EqualValues(t, 1, testutil.ToFloat64(h.service.metrics.mended.WithLabelValues(mendedMerged)))
	merge()
	require.Equal(t, sound, dump())

	// Merged sums that can be read, and are not those of their packs.
	require.NoError(t, h.DB.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `DELETE FROM proof_merged WHERE packs = 4`)
		return err
	}))
	require.NoError(t, checker.Whole(t.Context()))
	require.EqualValues(t, 2, testutil.ToFloat64(h.service.metrics.mended.WithLabelValues(mendedMerged)))
	require.Equal(t, 5, strings.Count(said.String(), "packs and statements disagree"), "it is reported first")
	merge()
	require.Equal(t, sound, dump())
}

// bytes are some in SQL.
func (h *fixture) bytes(b []byte) string {
	if os.Getenv("MUNIMENT_TEST_POSTGRES") != "" {
		return fmt.Sprintf(`'\x%x'::bytea`, b)
	}
	return fmt.Sprintf(`x'%x'`, b)
}

// fewerRows are the rows of a warehouse that lacks one delivery of each sum of more than one.
type fewerRows struct{ Rows }

// Metering implements Rows.
func (f fewerRows) Metering(ctx context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error) {
	rows, err := f.Rows.Metering(ctx, q)
	for i := range rows {
		if rows[i].Receipts > 1 {
			rows[i].Receipts--
		}
	}
	return rows, err
}

// TestCheckedSums: rows that are counted of sealed hours and packs have to be all of them; whole hours of whole
// packs need none.
func TestCheckedSums(t *testing.T) {
	h := build(t)
	hour := h.Now().Truncate(time.Hour)
	var ends []sealer.Position
	for range 2 {
		h.Deliver(deliveries(4)...)
		h.seal()
		ends = append(ends, h.packs()[len(ends)].Last)
	}
	whole, within, before := ends[1].Next(), h.packs()[1].First.Next(), h.packs()[0].First.Next()
	checked := h.service.Sums.Checked()
	checked.rows = fewerRows{h.Warehouse}
	for says, q := range map[string]pipeline.MeterQuery{
		"":                           {AsOf: &whole},
		"in the hour from ":          {AsOf: &whole, From: hour.Add(time.Millisecond)},
		"in the hour from 2":         {AsOf: &whole, To: hour.Add(59 * time.Minute)},
		"of pack " + h.packs()[1].ID: {AsOf: &within},
		"of pack " + h.packs()[0].ID: {AsOf: &before},
	} {
		q.TenantID = h.Tenant
		_, err := checked.Metering(t.Context(), q)
		if says == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, says)
		require.Equal(t, api.StateConflict, api.From(err).Code)
		_, err = h.service.Sums.Checked().Metering(t.Context(), q)
		require.NoError(t, err)
	}
}
