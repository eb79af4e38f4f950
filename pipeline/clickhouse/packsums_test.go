package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/bench/waittest"
	"muniment.example/control/proof"
	"muniment.example/control/proof/prooftest"
	"muniment.example/control/rapidtest"
	"muniment.example/control/settle"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/pipeline/kafka"
	"muniment.example/sealer"
)

// hourly is what the view metering_hourly has of a tenant.
func hourly(tb prooftest.TB, w *Warehouse, tenantID string) map[string][3]int64 {
	tb.Helper()
	rows, err := w.conn.Query(tb.Context(), `SELECT hour, right_id, substrate, basis_id, metering_basis, reason, receipts, quantity_ms, toInt64(impressions * 10000)
		FROM metering_hourly WHERE tenant_id = ?`, tenantID)
	require.NoError(tb, err)
	defer rows.Close()
	found := map[string][3]int64{}
	for rows.Next() {
		var r pipeline.MeterRow
		require.NoError(tb, rows.Scan(&r.Bucket, &r.RightID, &r.Substrate, &r.BasisID, &r.MeteringBasis, &r.Reason, &r.Receipts, &r.QuantityMs, &r.Impressions))
		name := hourlyName(&r)
		require.NotContains(tb, found, name, "a line is there twice")
		found[name] = [3]int64{r.Receipts, r.QuantityMs, r.Impressions}
	}
	require.NoError(tb, rows.Err())
	return found
}

func hourlyName(r *pipeline.MeterRow) string {
	return fmt.Sprint(r.Bucket.UTC().Format(time.RFC3339), " ", []string{r.RightID, r.Substrate, r.BasisID, r.MeteringBasis, r.Reason})
}

// hourlyOfRows is what a tenant's rows add up to by hour.
func hourlyOfRows(tb prooftest.TB, w *Warehouse, tenantID string) map[string][3]int64 {
	tb.Helper()
	totals, err := w.MeterTotals(tb.Context(), pipeline.MeterQuery{TenantID: tenantID})
	require.NoError(tb, err)
	found := map[string][3]int64{}
	if totals.Receipts == 0 {
		return found
	}
	q := pipeline.MeterQuery{TenantID: tenantID}
	for hour := totals.First.Truncate(time.Hour); !hour.After(totals.Last); hour = hour.Add(time.Hour) {
		q.Buckets = append(q.Buckets, hour)
	}
	rows, err := w.Metering(tb.Context(), q)
	require.NoError(tb, err)
	for i := range rows {
		found[hourlyName(&rows[i])] = [3]int64{rows[i].Receipts, rows[i].QuantityMs, rows[i].Impressions}
	}
	return found
}

// packSums are the lines that a copy has of the deliveries at after < position ≤ upTo, as if a pack had these.
func packSums(tb testing.TB, w *Warehouse, tenantID string, number uint64, after, upTo int64) (lines []pipeline.PackSum) {
	tb.Helper()
	q := pipeline.MeterQuery{TenantID: tenantID, After: new(at(after)), AsOf: new(at(upTo + 1))}
	for hour := midnight.Add(-3 * time.Hour); hour.Before(midnight.Add(3 * time.Hour)); hour = hour.Add(time.Hour) {
		q.Buckets = append(q.Buckets, hour)
	}
	rows, err := w.Metering(tb.Context(), q)
	require.NoError(tb, err)
	for i, r := range rows {
		lines = append(lines, pipeline.PackSum{
			TenantID: tenantID, Copy: number, Position: at(upTo), Hour: r.Bucket, Line: uint32(i), RightID: r.RightID, Substrate: r.Substrate, BasisID: r.BasisID,
			MeteringBasis: r.MeteringBasis, Reason: r.Reason, Receipts: r.Receipts, QuantityMs: r.QuantityMs, Impressions: r.Impressions,
		})
	}
	return lines
}

// TestViewReadsNoRowsForIdleTenants: the copy of a tenant that is idle ends before all that others have delivered since,
// and reads none of that.
func TestViewReadsNoRowsForIdleTenants(t *testing.T) {
	w := mustOpen(t, fresh(t, stacktest.ClickHouse(t)))
	const others = 20_000
	rows := []pipeline.Row{delivery("tnt_a", 0, midnight, "")}
	for offset := int64(1); offset <= others; offset++ {
		rows = append(rows, delivery("tnt_b", offset, midnight.Add(time.Duration(offset)*time.Millisecond), ""))
	}
	require.NoError(t, w.Load(t.Context(), batch(rows)))
	want := hourlyOfRows(t, w, "tnt_a")
	read := func() (n uint64) {
		ctx := clickhouse.Context(t.Context(), clickhouse.WithProgress(func(p *clickhouse.Progress) { n += p.Rows }))
		found, err := w.conn.Query(ctx, `SELECT hour, receipts FROM metering_hourly WHERE tenant_id = ?`, "tnt_a")
		require.NoError(t, err)
		for found.Next() {
		}
		require.NoError(t, found.Close())
		return n
	}
	for tenant, upTo := range map[string]int64{"tnt_a": 0, "tnt_b": others} {
		require.NoError(t, w.AddPackSums(t.Context(), packSums(t, w, tenant, 1, -1, upTo)))
		require.NoError(t, w.SetPackSumsCopied(t.Context(), []pipeline.PackSumsCopied{{TenantID: tenant, Copy: 1, PackID: "ppk_" + tenant, Position: at(upTo)}}))
	}
	require.Equal(t, want, hourly(t, w, "tnt_a"))
	require.Less(t, read(), uint64(others/4))
	// Nor where it delivers again.
	require.NoError(t, w.Load(t.Context(), batch([]pipeline.Row{delivery("tnt_a", others+1, midnight, "")})))
	require.Equal(t, hourlyOfRows(t, w, "tnt_a"), hourly(t, w, "tnt_a"))
	require.Less(t, read(), uint64(others/4))
}

// TestCopyOfPackSums: the view for analysts counts lines up to where the newest copy of a tenant goes and rows behind
// it, whatever else is there of this and of other copies.
func TestCopyOfPackSums(t *testing.T) {
	w := mustOpen(t, fresh(t, stacktest.ClickHouse(t)))
	rows, _, _ := spread(0, 300)
	require.NoError(t, w.Load(t.Context(), batch(rows)))
	want := map[string]map[string][3]int64{"tnt_a": hourlyOfRows(t, w, "tnt_a"), "tnt_b": hourlyOfRows(t, w, "tnt_b")}
	same := func(t *testing.T) {
		t.Helper()
		for tenant, of := range want {
			require.Equal(t, of, hourly(t, w, tenant))
		}
	}
	same(t)
	first, second := pipeline.NewerCopy(0, 7), pipeline.NewerCopy(0, 9)
	add := func(number uint64, after, upTo int64) {
		require.NoError(t, w.AddPackSums(t.Context(), packSums(t, w, "tnt_a", number, after, upTo)))
	}
	set := func(number uint64, packID string, position int64) {
		c := pipeline.PackSumsCopied{TenantID: "tnt_a", Copy: number, PackID: packID}
		if packID != "" {
			c.Position = at(position)
		}
		require.NoError(t, w.SetPackSumsCopied(t.Context(), []pipeline.PackSumsCopied{c}))
	}
	for i, step := range []func(){
		func() { add(first, -1, 99) }, // and no more: a process was killed
		func() { add(first, -1, 99); add(first, 99, 150) },
		func() { set(first, "ppk_1", 99) },
		func() { set(first, "ppk_2", 150) },
		func() { set(first, "ppk_1", 99) }, // of a process that had stopped
		func() { add(second, -1, 40) },
		func() { set(second, "ppk_0", 40) },
		func() { add(first, 150, 250); set(first, "ppk_3", 250) },
	} {
		step()
		t.Run(fmt.Sprint("step ", i), same)
	}
	copied, err := w.PackSumsCopied(t.Context())
	require.NoError(t, err)
	require.Equal(t, []pipeline.PackSumsCopied{{TenantID: "tnt_a", Copy: second, PackID: "ppk_0", Position: sealer.Position{Generation: 1, Offset: 40}}}, copied)
	// What counts is counted from lines: the view has what one of them says.
	lines := packSums(t, w, "tnt_a", second, -1, 40)
	lines[0].Receipts += 1000
	require.NoError(t, w.AddPackSums(t.Context(), lines))
	require.NotEqual(t, want["tnt_a"], hourly(t, w, "tnt_a"))
	require.Equal(t, want["tnt_b"], hourly(t, w, "tnt_b"))
	lines[0].Receipts -= 1000
	require.NoError(t, w.AddPackSums(t.Context(), lines[:1])) // a cluster ignores a block that it had before
	same(t)

	// Rows behind the copy, one of which repeats what the copy counts.
	older := slices.IndexFunc(rows, func(r pipeline.Row) bool { return r.TenantID == "tnt_a" && r.Delivery.Idempotency != "" })
	again := delivery("tnt_a", 300, rows[older].At.Add(time.Hour), rows[older].Delivery.Idempotency)
	b := batch([]pipeline.Row{again, delivery("tnt_a", 301, midnight, "")})
	require.NoError(t, w.Load(t.Context(), b))
	want["tnt_a"] = hourlyOfRows(t, w, "tnt_a")
	same(t)

	count := func() (n uint64) {
		require.NoError(t, w.conn.QueryRow(t.Context(), `SELECT count(DISTINCT copy) FROM pack_sums`).Scan(&n))
		return n
	}
	require.EqualValues(t, 2, count())
	require.NoError(t, w.DeletePackSums(t.Context(), copied))
	require.EqualValues(t, 1, count())
	same(t)

	// Control was restored to before ppk_0, and released a row that it had sealed there.
	require.NoError(t, w.Load(t.Context(), retracting(rows[10])))
	retracted := hourlyOfRows(t, w, "tnt_a")
	require.NotEqual(t, want["tnt_a"], retracted)
	want["tnt_a"] = retracted
	same(t)
	set(second, "ppk_9", 250) // of a process that has not noticed
	same(t)
	copied, err = w.PackSumsCopied(t.Context())
	require.NoError(t, err)
	require.Empty(t, copied[0].PackID)
	require.Greater(t, copied[0].Copy, second)
	third := copied[0].Copy
	add(third, -1, 280)
	set(third, "ppk_3", 280)
	same(t)
	require.NoError(t, w.Load(t.Context(), retracting(rows[290])), "of the rows behind the copy")
	want["tnt_a"] = hourlyOfRows(t, w, "tnt_a")
	same(t)
	copied, err = w.PackSumsCopied(t.Context())
	require.NoError(t, err)
	require.Equal(t, "ppk_3", copied[0].PackID)
	require.NoError(t, w.DeletePackSums(t.Context(), copied))
	require.EqualValues(t, 1, count())
	same(t)
}

// TestCopyAdvancesWhileTheViewIsRead: no answer lacks anything, or has it twice, while copies go farther and are given up.
func TestCopyAdvancesWhileTheViewIsRead(t *testing.T) {
	w := mustOpen(t, fresh(t, stacktest.ClickHouse(t)))
	rows, _, _ := spread(0, 400)
	require.NoError(t, w.Load(t.Context(), batch(rows)))
	want := hourlyOfRows(t, w, "tnt_a")
	of := map[int64][]pipeline.PackSum{} // by the position before them
	for after := int64(-1); after < 399; after += 100 {
		of[after] = packSums(t, w, "tnt_a", 0, after, after+100)
	}
	ctx, stop := context.WithCancel(t.Context())
	var copying sync.WaitGroup
	copying.Go(func() {
		for round := uint64(1); ctx.Err() == nil; round++ {
			number := pipeline.NewerCopy(round<<32, 0)
			_ = w.SetPackSumsCopied(ctx, []pipeline.PackSumsCopied{{TenantID: "tnt_a", Copy: number}})
			for after := int64(-1); after < 399 && ctx.Err() == nil; after += 100 {
				lines := slices.Clone(of[after])
				for i := range lines {
					lines[i].Copy = number
				}
				_ = w.AddPackSums(ctx, lines)
				_ = w.SetPackSumsCopied(ctx, []pipeline.PackSumsCopied{{TenantID: "tnt_a", Copy: number, PackID: "ppk_1", Position: at(after + 100)}})
			}
		}
	})
	for range 40 {
		require.Equal(t, want, hourly(t, w, "tnt_a"))
	}
	stop()
	copying.Wait()
}

// errKilled is what a process gets whose connection ends.
var errKilled = errors.New("killed")

// killedKeeper fails at one of its calls: before the warehouse has it, or after.
type killedKeeper struct {
	pipeline.PackSumKeeper
	calls int // until it fails; negative: never
	after bool
}

func (k *killedKeeper) do(call func() error) error {
	k.calls--
	if k.calls == -1 && !k.after {
		return errKilled
	}
	err := call()
	if k.calls == -1 {
		return errKilled
	}
	return err
}

func (k *killedKeeper) AddPackSums(ctx context.Context, lines []pipeline.PackSum) error {
	return k.do(func() error { return k.PackSumKeeper.AddPackSums(ctx, lines) })
}

func (k *killedKeeper) SetPackSumsCopied(ctx context.Context, copied []pipeline.PackSumsCopied) error {
	return k.do(func() error { return k.PackSumKeeper.SetPackSumsCopied(ctx, copied) })
}

func (k *killedKeeper) DeletePackSums(ctx context.Context, newest []pipeline.PackSumsCopied) error {
	return k.do(func() error { return k.PackSumKeeper.DeletePackSums(ctx, newest) })
}

// copyWorld is a tenant whose packs are sealed over the warehouse, and copied to it.
type copyWorld struct {
	t *testing.T
	*prooftest.Stage
	warehouse *Warehouse
	service   *proof.Service
	copiers   []*proof.Copier // of two processes
	keepers   []*killedKeeper
	heads     []proofHead
	loading   sync.WaitGroup
	stop      func()
}

// proofHead is a head that a restored database has.
type proofHead struct {
	sequence, size                 int64
	packID, root, hashes, position string
}

// TestHourlyViewIsThatOfTheRows runs deliveries, of now and late, repeated and forged, seals, releases, erasures, copies
// of two processes that are killed between any two steps, and databases that are restored to an older pack. What the
// view for analysts says is what the rows add up to, at every moment.
func TestHourlyViewIsThatOfTheRows(t *testing.T) {
	server := stacktest.ClickHouse(t)
	rapidtest.Check(t, 3, 100, func(rt *rapid.T) {
		w := openCopyWorld(t, rt, mustOpen(t, fresh(t, server)), rapid.IntRange(1, 9).Draw(rt, "entries of a pack"))
		defer w.close()
		rt.Repeat(map[string]func(*rapid.T){
			"deliver":     w.deliver,
			"deliver two": func(rt *rapid.T) { w.deliver(rt); w.deliver(rt) },
			"time": func(rt *rapid.T) {
				w.Advance(time.Duration(rapid.IntRange(1, 40).Draw(rt, "hours")) * 37 * time.Minute)
			},
			"seal":       func(rt *rapid.T) { w.seal(rt) },
			"copy":       w.copy,
			"copy again": w.copy,
			"kill":       w.kill,
			"forge":      w.forge,
			"erase": func(rt *rapid.T) {
				key := pipeline.SubjectKey{}
				require.NoError(rt, w.warehouse.Erase(rt.Context(), key, []pipeline.Tombstone{{TenantID: w.Tenant, SubjectHash: key.Hash(w.Tenant, "ada"), Until: w.Now()}}))
			},
			"restore": w.restore,
			"":        func(rt *rapid.T) { w.compare(rt) },
		})
		w.seal(rt)
		w.copy(rt)
		w.compare(rt)
		copied, err := w.warehouse.PackSumsCopied(rt.Context())
		require.NoError(rt, err)
		if head, ok := w.head(rt); ok {
			require.Equal(rt, head.packID, copied[0].PackID, "all is copied")
		}
	})
}

// TestCopyAfterARestore: once control's database is restored, nothing of packs that it doesn't have counts beside those that
// it seals instead; what these packs' copies have is deleted when no query can be reading it.
func TestCopyAfterARestore(t *testing.T) {
	w := openCopyWorld(t, t, mustOpen(t, fresh(t, stacktest.ClickHouse(t))), 100)
	defer w.close()
	deliver := func(n int) { w.Deliver(prooftest.Deliveries(n)...) }
	copied := func() pipeline.PackSumsCopied {
		list, err := w.warehouse.PackSumsCopied(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 1)
		return list[0]
	}
	for range 2 {
		deliver(5)
		w.seal(t)
	}
	require.NoError(t, w.copiers[0].Copy(t.Context()))
	before := copied()
	require.Equal(t, w.heads[1].packID, before.PackID)
	w.compare(t)

	w.restoreTo(t, w.heads[0])
	w.compare(t)
	deliver(5)
	w.seal(t)
	w.compare(t)
	require.NoError(t, w.copiers[0].Copy(t.Context()))
	w.compare(t)
	after := copied()
	require.Greater(t, after.Copy, before.Copy)
	require.NotEqual(t, before.PackID, after.PackID)

	lines := func() (n uint64) {
		require.NoError(t, w.warehouse.conn.QueryRow(t.Context(), `SELECT count() FROM pack_sums WHERE copy = ?`, before.Copy).Scan(&n))
		return n
	}
	require.NoError(t, w.copiers[0].Copy(t.Context()))
	require.Positive(t, lines())
	w.Advance(time.Hour)
	require.NoError(t, w.copiers[0].Copy(t.Context()))
	require.Zero(t, lines())
	w.compare(t)
	require.Equal(t, after, copied())

	// A tenant that was dropped has no packs.
	require.NoError(t, w.DB.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `DELETE FROM proof_packs WHERE tenant_id = $1`, w.Tenant)
		return err
	}))
	require.NoError(t, w.copiers[1].Copy(t.Context()))
	require.Empty(t, copied().PackID)
	w.compare(t)
}

func openCopyWorld(t *testing.T, rt prooftest.TB, warehouse *Warehouse, entries int) *copyWorld {
	w := &copyWorld{t: t, Stage: prooftest.NewStage(rt, kafka.Config{}), warehouse: warehouse}
	w.Open()
	require.NoError(rt, warehouse.Erase(rt.Context(), pipeline.SubjectKey{}, nil))
	loader, err := pipeline.NewLoader(pipeline.LoaderConfig{Log: w.Log, Warehouse: warehouse})
	require.NoError(rt, err)
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	w.loading.Go(func() { _ = loader.Run(ctx) })
	w.service, err = proof.New(rt.Context(), proof.Config{
		DB: w.DB, Log: w.Log, Keys: w.Keys, Dir: filepath.Join(w.Dir, "packs"), Now: w.Now, Warehouse: warehouse,
		Logger: slog.New(slog.DiscardHandler), Rate: settle.Rating.Rate, MaxEntries: entries,
	})
	require.NoError(rt, err)
	for range 2 {
		k := &killedKeeper{PackSumKeeper: warehouse, calls: -1}
		w.keepers = append(w.keepers, k)
		w.copiers = append(w.copiers, w.service.Sums.Copier(k))
	}
	return w
}

func (w *copyWorld) close() {
	w.stop()
	w.loading.Wait()
	w.Close()
}

func (w *copyWorld) deliver(rt *rapid.T) {
	for range rapid.IntRange(1, 4).Draw(rt, "deliveries") {
		w.Deliver(prooftest.Delivery{
			Right:     rapid.SampledFrom([]string{"rgh_01ARZ3NDEKTSV4RRFFQ69G5FAV", "rgh_01ARZ3NDEKTSV4RRFFQ69G5FAW"}).Draw(rt, "right"),
			Substrate: rapid.SampledFrom([]gate.Substrate{gate.DOOH, gate.CTV}).Draw(rt, "substrate"),
			Telemetry: rapid.SampledFrom([]string{`{}`, `{"viewable":true,"completionState":"complete"}`, `{"visibilityState":"hidden"}`}).Draw(rt, "telemetry"),
			DwellMs:   float64(rapid.IntRange(0, 5000).Draw(rt, "dwell")),
			Key:       rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "key"),
			Rendered:  rapid.SampledFrom([]time.Duration{0, time.Millisecond, 10 * time.Minute, 29 * time.Hour}).Draw(rt, "late"),
			Subject:   rapid.SampledFrom([]string{"", "", "ada"}).Draw(rt, "person"),

			Multiplier: rapid.SampledFrom([]int64{0, 1, 25_000}).Draw(rt, "multiplier"),
		})
	}
}

// seal seals everything, and remembers the head.
func (w *copyWorld) seal(rt prooftest.TB) {
	sealed := proof.Sealed{More: true}
	var upTo *sealer.Position
	for sealed.More {
		var err error
		sealed, err = w.service.SealSome(rt.Context(), w.Tenant, upTo, prooftest.Operator)
		require.NoError(rt, err)
		at, err := sealer.ParsePosition(sealed.UpTo)
		require.NoError(rt, err)
		upTo = &at
	}
	if head, ok := w.head(rt); ok {
		w.heads = append(w.heads, head)
	}
}

func (w *copyWorld) head(rt prooftest.TB) (h proofHead, ok bool) {
	heads, err := store.List(rt.Context(), w.DB.Read(), "heads", func(row store.Row) (h proofHead, err error) {
		return h, row.Scan(&h.sequence, &h.size, &h.packID, &h.root, &h.hashes, &h.position)
	}, `SELECT sequence, tree_size, pack_id, root_hash, hashes, position FROM proof_heads WHERE tenant_id = $1`, w.Tenant)
	require.NoError(rt, err)
	if len(heads) == 0 {
		return h, false
	}
	return heads[0], true
}

// copy copies by one of the processes.
func (w *copyWorld) copy(rt *rapid.T) {
	i := rapid.IntRange(0, 1).Draw(rt, "process")
	w.keepers[i].calls = -1
	require.NoError(rt, w.copiers[i].Copy(rt.Context()))
}

// kill kills a process that copies, before or after one of its writes has come to the warehouse, and starts another.
func (w *copyWorld) kill(rt *rapid.T) {
	i := rapid.IntRange(0, 1).Draw(rt, "process")
	w.keepers[i].calls, w.keepers[i].after = rapid.IntRange(0, 3).Draw(rt, "writes before"), rapid.Bool().Draw(rt, "it is written")
	if err := w.copiers[i].Copy(rt.Context()); err != nil {
		require.ErrorIs(rt, err, errKilled)
	}
	w.keepers[i].calls = -1
	w.copiers[i] = w.service.Sums.Copier(w.keepers[i])
}

// forge has a record quarantined, and releases it.
func (w *copyWorld) forge(rt *rapid.T) {
	if rapid.Bool().Draw(rt, "rarely") {
		return
	}
	w.Append(w.Event(prooftest.Delivery{DwellMs: 5, Key: "a", Signer: prooftest.NewSigner(rt)}))
	_, err := w.service.SealSome(rt.Context(), w.Tenant, nil, prooftest.Operator)
	require.Equal(rt, api.Quarantined, api.From(err).Reason)
	w.compare(rt)
	held, err := w.service.ListQuarantined(rt.Context(), 10)
	require.NoError(rt, err)
	for _, one := range held.Records {
		at, err := sealer.ParsePosition(one.Position)
		require.NoError(rt, err)
		_, err = w.service.Release(rt.Context(), []sealer.Position{at}, "forged", prooftest.Operator)
		require.NoError(rt, err)
	}
}

// restore makes the database one in which an older pack was the newest.
func (w *copyWorld) restore(rt *rapid.T) {
	now, ok := w.head(rt)
	if !ok || len(w.heads) == 0 { // what was sealed up to a record that was quarantined is no head of w
		return
	}
	h := rapid.SampledFrom(w.heads).Draw(rt, "head")
	w.heads = slices.DeleteFunc(w.heads, func(other proofHead) bool { return other.sequence > h.sequence })
	if h.sequence > now.sequence {
		return
	}
	w.restoreTo(rt, h)
}

// restoreTo makes the database one in which a head was the tenant's, and starts other processes on it.
func (w *copyWorld) restoreTo(rt prooftest.TB, h proofHead) {
	require.NoError(rt, w.DB.Change(rt.Context(), func(tx *store.Tx) error {
		for _, table := range []string{"proof_packs", "proof_sums", "proof_merges", "proof_merged"} {
			if _, err := tx.ExecContext(rt.Context(), `DELETE FROM `+table+` WHERE tenant_id = $1 AND sequence > $2`, w.Tenant, h.sequence); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(rt.Context(), `UPDATE proof_heads SET sequence = $2, tree_size = $3, pack_id = $4, root_hash = $5, hashes = $6, position = $7 WHERE tenant_id = $1`,
			w.Tenant, h.sequence, h.size, h.packID, h.root, h.hashes, h.position)
		return err
	}))
	next := store.Epoch{Incarnation: w.DB.NewIncarnation(), Number: w.DB.Epoch().Number + 1}
	require.NoError(rt, w.DB.BeginEpoch(rt.Context(), next, func(*store.Tx) error { return nil }))
	for i := range w.copiers {
		w.copiers[i] = w.service.Sums.Copier(w.keepers[i])
	}
}

// compare compares the view with the rows, of all that is in the log.
func (w *copyWorld) compare(rt prooftest.TB) {
	end := w.End()
	waittest.Until(w.t, func() bool {
		if end.Offset == 0 {
			return true // nothing is loaded of an empty log, not even its beginning
		}
		next, _, err := w.warehouse.Resume(rt.Context(), 0)
		require.NoError(rt, err)
		return next.Compare(end) >= 0
	})
	require.Equal(rt, hourlyOfRows(rt, w.warehouse, w.Tenant), hourly(rt, w.warehouse, w.Tenant))
}
