package statement

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/proof/prooftest"
	packsums "muniment.example/control/proof/sums"
	"muniment.example/control/rapidtest"
	"muniment.example/control/settle"
	"muniment.example/control/store"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/pipeline/sqlite"
	"muniment.example/sealer"
	"muniment.example/sealer/rate"
)

// TestLostRowsAreNotBilled: what a dispute excludes is subtracted by rows. A warehouse that has lost some of
// them can't make a statement that bills it, whether the dispute names receipts or a window that cuts an hour.
func TestLostRowsAreNotBilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "warehouse.db")
	warehouse, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, warehouse.Close()) })
	require.NoError(t, warehouse.Erase(t.Context(), pipeline.SubjectKey{}, nil))
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	change := func(statement string) {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err, statement)
	}
	rowsAreLost(t, warehouse, func(at time.Time) (reload func()) {
		where := fmt.Sprintf(" FROM events WHERE rendered_at = %d", at.UnixMilli())
		change("CREATE TABLE lost AS SELECT *" + where)
		change("DELETE" + where)
		return func() {
			change("INSERT INTO events SELECT * FROM lost")
			change("DROP TABLE lost")
		}
	})
}

// TestLostRowsAreNotBilledOnClickHouse is TestLostRowsAreNotBilled on the other warehouse.
func TestLostRowsAreNotBilledOnClickHouse(t *testing.T) {
	warehouse, change := onClickHouse(t, "lost")
	rowsAreLost(t, warehouse, func(at time.Time) (reload func()) {
		where := fmt.Sprintf("toUnixTimestamp64Milli(rendered_at) = %d", at.UnixMilli())
		change("CREATE TABLE lost AS events ENGINE = Memory")
		change("INSERT INTO lost SELECT * FROM events WHERE " + where)
		change("ALTER TABLE events DELETE WHERE " + where + " SETTINGS mutations_sync = 2")
		return func() {
			change("INSERT INTO events SELECT * FROM lost")
			change("DROP TABLE lost")
		}
	})
}

// rowsAreLost is a day with a receipt that a dispute names and a window of half an hour that another excludes.
// lose removes the row of a moment.
func rowsAreLost(t *testing.T, warehouse loadable, lose func(at time.Time) (reload func())) {
	h := newHistory(t, warehouse)
	rapidtest.Check(t, 1, 1, func(rt *rapid.T) {
		h.begin(rt)
		h.issueRights(historyRights)
		right, minute := historyRights[0], func(n int) time.Time { return nth(0).Add(time.Duration(n) * time.Minute) }
		r := settle.Rule{TenantID: h.tenant, Unit: rate.Event, Price: "1", Currency: "EUR", EffectiveFrom: nth(0), Shares: []settle.Share{{CounterpartyID: h.payees["EUR"][0], Bps: 10_000}}, TimeZone: "UTC"}
		h.makeRule(r)
		receipts := map[int]string{}
		for _, n := range []int{7*60 + 10, 7*60 + 50, 9*60 + 1, 11 * 60, 12 * 60} {
			record := h.stage.Event(prooftest.Delivery{Tenant: h.tenant, Right: right, Substrate: gate.DOOH, DwellMs: 1500, Rendered: h.stage.Now().Sub(minute(n))})
			d, err := sealer.ReadDelivery(record.Event)
			require.NoError(rt, err)
			receipts[n] = d.Receipt.ReceiptID
			h.load(record)
		}
		h.dispute(&modelDispute{id: api.NewID("dsp_", h.stage.Now()), right: right, from: minute(7 * 60), to: minute(7*60 + 30)})
		h.dispute(&modelDispute{id: api.NewID("dsp_", h.stage.Now().Add(time.Millisecond)), receipts: []string{receipts[9*60+1]}, from: minute(9*60 + 1), to: minute(9*60 + 2)})
		requested := Statement{TenantID: h.tenant, From: nth(0), To: nth(1), Currency: "EUR"}
		whole := func() {
			made, err := h.draft(rt.Context(), requested, byKey)
			require.NoError(rt, err)
			require.Equal(rt, []string{"3", "2"}, []string{made.Total, made.HeldAmount})
			_, err = h.discard(rt.Context(), h.tenant, made.ID, byKey)
			require.NoError(rt, err)
		}
		refused := func(says string) {
			_, err := h.draft(rt.Context(), requested, byKey)
			require.ErrorContains(rt, err, says)
			require.Equal(rt, api.StateConflict, api.From(err).Code)
		}
		whole()
		for n, says := range map[int]string{7*60 + 10: minute(7 * 60).Format(time.RFC3339)[:13], 7*60 + 50: "in the hour", 9*60 + 1: "disputes of the period name"} {
			reload := lose(minute(n))
			refused(says)
			reload()
			whole()
		}

		// No row of this one is subtracted: its hour is sealed as a whole.
		reload := lose(minute(11 * 60))
		whole()
		// Of a receipt that nobody has, it can't be told then that no pack has it, either.
		h.dispute(&modelDispute{id: api.NewID("dsp_", h.stage.Now().Add(2*time.Millisecond)), receipts: []string{api.NewID(api.PrefixReceipt, h.stage.Now())}, from: minute(8 * 60), to: minute(8*60 + 1)})
		refused("disputes of the period name")
		reload()
		whole()

		// A statement that was issued before is refused a correction as long as something is lost.
		made, err := h.draft(rt.Context(), requested, byKey)
		require.NoError(rt, err)
		_, err = h.issue(rt.Context(), h.tenant, made.ID, byKey)
		require.NoError(rt, err)
		late := minute(9*60 + 31)
		record := h.stage.Event(prooftest.Delivery{Tenant: h.tenant, Right: right, Substrate: gate.DOOH, DwellMs: 1500, Rendered: h.stage.Now().Sub(late)})
		d, err := sealer.ReadDelivery(record.Event)
		require.NoError(rt, err)
		h.load(record)
		h.dispute(&modelDispute{id: api.NewID("dsp_", h.stage.Now().Add(3*time.Millisecond)), receipts: []string{d.Receipt.ReceiptID}, from: late, to: late.Add(time.Millisecond)})
		_, err = h.SealToEnd(rt.Context(), h.tenant, byKey)
		require.NoError(rt, err)
		reload = lose(late)
		_, err = h.correct(rt.Context(), h.tenant, made.ID, byKey)
		require.ErrorContains(rt, err, "disputes of the period name")
		reload()
		made, err = h.correct(rt.Context(), h.tenant, made.ID, byKey)
		require.NoError(rt, err)
		require.Equal(rt, []string{"3", "3"}, []string{made.Total, made.HeldAmount})
	})
}

// TestWrongSumsAreFound: sums of a pack that were edited make a wrong statement, which its recomputation from rows
// finds: that of reconciliation and of the check for drift.
func TestWrongSumsAreFound(t *testing.T) {
	warehouse, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "warehouse.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, warehouse.Close()) })
	h := newHistory(t, warehouse)
	rapidtest.Check(t, 1, 1, func(rt *rapid.T) {
		h.begin(rt)
		h.issueRights(historyRights)
		h.makeRule(settle.Rule{TenantID: h.tenant, Unit: rate.Event, Price: "1", Currency: "EUR", EffectiveFrom: nth(0), Shares: []settle.Share{{CounterpartyID: h.payees["EUR"][0], Bps: 10_000}}, TimeZone: "UTC"})
		h.load(h.stage.Event(prooftest.Delivery{Tenant: h.tenant, Right: historyRights[0], Substrate: gate.DOOH, DwellMs: 1500, Rendered: h.stage.Now().Sub(nth(0).Add(7 * time.Hour))}))
		_, err := h.SealToEnd(rt.Context(), h.tenant, byKey)
		require.NoError(rt, err)
		codec, err := packsums.NewCodec()
		require.NoError(rt, err)
		var day int64
		var block []byte
		require.NoError(rt, h.db.Read().QueryRowContext(rt.Context(), `SELECT day, whole FROM proof_sums WHERE tenant_id = $1`, h.tenant).Scan(&day, &block))
		was, err := codec.Decode(day, block, true)
		require.NoError(rt, err)
		require.Len(rt, was.Lines, 1)
		line := packsums.Line{Start: was.Lines[0].Start, Kind: was.Kind(0), Sum: was.Lines[0].Sum}
		line.Receipts += 4
		h.change(func(tx *store.Tx) error {
			_, err := tx.ExecContext(rt.Context(), `UPDATE proof_sums SET whole = $2 WHERE tenant_id = $1`, h.tenant, codec.Encode([]packsums.Line{line}))
			return err
		})
		made, err := h.draft(rt.Context(), Statement{TenantID: h.tenant, From: nth(0), To: nth(1), Currency: "EUR"}, byKey)
		require.NoError(rt, err)
		require.Equal(rt, "5", made.Total)
		_, err = h.issue(rt.Context(), h.tenant, made.ID, byKey)
		require.NoError(rt, err)
		_, err = h.SealToEnd(rt.Context(), h.tenant, byKey)
		require.NoError(rt, err)
		apart, err := h.Restate(rt.Context(), h.tenant, made.ID)
		require.NoError(rt, err)
		require.Equal(rt, &Difference{-4, "-4", "0"}, apart)
	})
}
