package dispute

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

const tenantID = "tnt_a"

// loaded is a warehouse of some deliveries of the tenant. It is safe for concurrent reads.
type loaded struct {
	events map[string]pipeline.Row
	fails  error
}

// Event implements Warehouse.
func (w *loaded) Event(ctx context.Context, of, eventID string) (pipeline.Row, error) {
	row, ok := w.events[eventID]
	switch {
	case w.fails != nil:
		return row, w.fails
	case !ok || of != tenantID:
		return row, pipeline.ErrNoEvent
	}
	return row, ctx.Err()
}

// receipts are the ids of n deliveries that are loaded, each rendered on the next day.
func (w *loaded) receipts(n int) (ids []string) {
	for i := range n {
		ulid := fmt.Sprintf("01M8%022d", i)
		w.events["evt_"+ulid] = pipeline.Row{Delivery: &pipeline.Delivery{ReceiptID: "rcp_" + ulid, RenderedAt: at(i).Time}}
		ids = append(ids, "rcp_"+ulid)
	}
	return ids
}

// newService is a service on the database of a folder, with one tenant. Made again on the
// same folder it is another process's.
func newService(t *testing.T, dir string) *Service {
	t.Helper()
	r, err := New(Config{DB: roomtest.Open(t, dir, nil), Warehouse: &loaded{events: map[string]pipeline.Row{}}, AwaitLoaded: func(context.Context, string) error { return nil },
		HeldAmount: func(context.Context, string, *Exclusion) ([]Amount, error) { return nil, nil },
		Worth: func(_ context.Context, _ string, of []pipeline.Row) ([][]Amount, error) {
			return make([][]Amount, len(of)), nil
		},
		Stated: func(context.Context, store.Querier, string, Window) ([]Window, error) { return nil, nil }})
	require.NoError(t, err)
	return r
}

func (r *Service) loaded() *loaded { return r.warehouse.(*loaded) }

var byKey = store.ByKey("key_a")

func ofReceipts(ids ...string) Dispute {
	return Dispute{DisputeSummary: DisputeSummary{TenantID: tenantID, ReceiptIDs: ids, RaisedByOrgID: "org_c", Reason: "never shown"}}
}

func ofRight(id string, window Window) Dispute {
	return Dispute{DisputeSummary: DisputeSummary{TenantID: tenantID, ReceiptIDs: []string{}, RightID: &id, Window: window, RaisedByOrgID: "org_c", Reason: "never shown"}}
}

func (r *Service) mustOpen(t *testing.T, requested Dispute, evidence ...NewEvidence) Dispute {
	t.Helper()
	d, err := r.open(t.Context(), requested, evidence, "org_a", byKey)
	require.NoError(t, err)
	return d
}

func (r *Service) do(ctx context.Context, id string, a Action) (Dispute, error) {
	how := move{tenantID: tenantID, id: id, action: a, byOrgID: "org_a", tenantOrgID: "org_a", by: byKey}
	switch a {
	case Respond:
		how.byOrgID, how.evidence = "org_b", []NewEvidence{{Text: "it was"}}
	case Resolve:
		how.outcome, how.resolution = new(Upheld), new("agreed")
	}
	return r.move(ctx, how)
}

func (r *Service) emitted(t *testing.T) (list []string) {
	t.Helper()
	for _, e := range roomtest.Events(t, r.db) {
		var data struct{ ActingOrgID, AssertedBy string }
		require.NoError(t, json.Unmarshal(e.Data, &data))
		require.Equal(t, "org_a", data.AssertedBy)
		require.Equal(t, "dispute", e.Subject.Kind)
		list = append(list, e.Type+" "+e.Subject.ID+" "+data.ActingOrgID)
	}
	return list
}

func conflict(t *testing.T, err error) {
	t.Helper()
	require.Equal(t, api.StateConflict, api.From(err).Code, "%v", err)
}

func TestDisputeTakesItsCourse(t *testing.T) {
	r := newService(t, t.TempDir())
	ids := r.loaded().receipts(3)
	d := r.mustOpen(t, ofReceipts(ids...), NewEvidence{Text: "the screen was dark", References: []string{"https://example.com/1"}})
	require.True(t, api.IsID(prefix, d.ID))
	require.Equal(t, []Evidence{{At: d.CreatedAt, ByOrgID: "org_c", Text: "the screen was dark", References: []string{"https://example.com/1"}}}, d.Evidence)
	investigated, err := r.do(t.Context(), d.ID, Investigate)
	require.NoError(t, err)
	require.Equal(t, d.Evidence, investigated.Evidence)
	responded, err := r.do(t.Context(), d.ID, Respond)
	require.NoError(t, err)
	require.Equal(t, append(slices.Clone(d.Evidence), Evidence{At: responded.UpdatedAt, ByOrgID: "org_b", Text: "it was", References: []string{}}), responded.Evidence)
	resolved, err := r.do(t.Context(), d.ID, Resolve)
	require.NoError(t, err)
	require.Equal(t, new(Upheld), resolved.Outcome)
	require.Equal(t, new("agreed"), resolved.Resolution)
	require.Equal(t, responded.Evidence, resolved.Evidence)
	found, err := disputes.Find(t.Context(), r.db.Read(), tenantID, d.ID)
	require.NoError(t, err)
	require.Equal(t, resolved, *found)
	require.Equal(t, []string{
		"dispute.opened " + d.ID + " org_c", "dispute.investigation_started " + d.ID + " org_a", "dispute.responded " + d.ID + " org_b", "dispute.resolved " + d.ID + " org_a",
	}, r.emitted(t))
	events := roomtest.Events(t, r.db)
	var said Dispute
	require.NoError(t, json.Unmarshal(events[3].Data, &said))
	said.TenantID = tenantID
	require.NoError(t, said.restoreRendered(&events[3]))
	require.Equal(t, resolved, said, "the event has the whole record")
	for _, a := range []Action{Investigate, Respond, Resolve} {
		_, err = r.do(t.Context(), d.ID, a)
		conflict(t, err)
		require.ErrorContains(t, err, "dispute is already RESOLVED")
	}
	_, err = r.do(t.Context(), "dsp_unknown", Resolve)
	require.True(t, store.IsNone(err))
}

// TestUnknownReceiptIsNamed: the first one that the warehouse lacks.
func TestUnknownReceiptIsNamed(t *testing.T) {
	r := newService(t, t.TempDir())
	ids := r.loaded().receipts(40)
	refused := func(named string, ids ...string) {
		t.Helper()
		_, err := r.open(t.Context(), ofReceipts(ids...), nil, "org_a", byKey)
		require.True(t, store.IsNone(err), "%v", err)
		require.ErrorContains(t, err, ": "+named)
	}
	none := "rcp_01M80000000000000000009999"
	refused(none, none)
	refused(none, append(slices.Clone(ids), none, "rcp_other")...)
	refused("rcp_x", "rcp_x", none)
	refused("evt_"+strings.TrimPrefix(ids[0], "rcp_"), "evt_"+strings.TrimPrefix(ids[0], "rcp_"))
	r.loaded().events["evt_"+strings.TrimPrefix(none, "rcp_")] = pipeline.Row{Type: "right.issued"}
	refused(none, ids[0], none)
	foreign := ofReceipts(ids[0])
	foreign.TenantID = "tnt_b"
	_, err := r.open(t.Context(), foreign, nil, "org_a", byKey)
	require.True(t, store.IsNone(err))
	r.loaded().fails = errors.New("away")
	_, err = r.open(t.Context(), ofReceipts(ids...), nil, "org_a", byKey)
	require.ErrorIs(t, err, r.loaded().fails, "it may be there")
	require.Equal(t, api.InternalError, api.From(err).Code)
	require.Empty(t, roomtest.Events(t, r.db))
	r.loaded().fails = nil
	require.Equal(t, ids, r.mustOpen(t, ofReceipts(ids...)).ReceiptIDs)

	_, err = r.open(t.Context(), ofRight("rgh_none", Window{From: at(0), To: at(1)}), nil, "org_a", byKey)
	require.True(t, store.IsNone(err))
	require.ErrorContains(t, err, "right")
}

// TestUnresolvedDisputesAreBounded: a resolved one makes space for another.
func TestUnresolvedDisputesAreBounded(t *testing.T) {
	r := newService(t, t.TempDir())
	roomtest.Right(t, r.db, "rgh_a", "{}")
	roomtest.Fill(t, r.db, maxUnresolved+1, "disputes", `tenant_id, raised_by_org_id, reason, evidence, created_at, updated_at, revision, first_rendered_at, last_rendered_at, receipt_ids, dispute_id, state, outcome`,
		`'tnt_a', 'org_b', 'why', '[]', 0, 0, 0, 0, 0, '', 'dsp_' || CAST(i AS TEXT),
		CASE WHEN i <= 2 THEN 'RESOLVED' WHEN i % 3 = 0 THEN 'OPEN' WHEN i % 3 = 1 THEN 'INVESTIGATING' ELSE 'RESPONDED' END, CASE WHEN i <= 2 THEN 'UPHELD' ELSE NULL END`)
	requested := ofRight("rgh_a", Window{From: at(0), To: at(1)})
	last := r.mustOpen(t, requested)
	_, err := r.open(t.Context(), requested, nil, "org_a", byKey)
	conflict(t, err)
	require.ErrorContains(t, err, "1000 unresolved disputes")
	_, err = r.do(t.Context(), last.ID, Resolve)
	require.NoError(t, err)
	r.mustOpen(t, requested)
}

// TestOneOfManyResolutionsWins has callers move one dispute at once, through two processes
// where a database has several.
func TestOneOfManyResolutionsWins(t *testing.T) {
	stacktest.Both(t)
	dir := t.TempDir()
	services := []*Service{newService(t, dir)}
	if services[0].db.Shared() {
		services = append(services, newService(t, dir))
	}
	roomtest.Right(t, services[0].db, "rgh_a", "{}")
	d := services[0].mustOpen(t, ofRight("rgh_a", Window{From: at(0), To: at(1)}))
	errs, actions := make([]error, 32), []Action{Resolve, Investigate, Respond}
	var callers sync.WaitGroup
	for i := range errs {
		callers.Go(func() { _, errs[i] = services[i%len(services)].do(t.Context(), d.ID, actions[i%len(actions)]) })
	}
	callers.Wait()
	won := map[Action]int{}
	for i, err := range errs {
		if err != nil {
			conflict(t, err)
			continue
		}
		won[actions[i%len(actions)]]++
	}
	require.Equal(t, 1, won[Resolve])
	require.LessOrEqual(t, won[Investigate], 1)
	require.LessOrEqual(t, won[Respond], won[Investigate])
	found, err := disputes.Find(t.Context(), services[0].db.Read(), tenantID, d.ID)
	require.NoError(t, err)
	require.Equal(t, Resolved, found.State)
	require.Len(t, found.Evidence, won[Respond])
	require.Len(t, services[0].emitted(t), 2+won[Investigate]+won[Respond])
}

// TestStaleRecordLoses is the race that changes which run one at a time hide.
func TestStaleRecordLoses(t *testing.T) {
	r := newService(t, t.TempDir())
	d := r.mustOpen(t, ofReceipts(r.loaded().receipts(1)...))
	older := d
	older.Revision--
	conflict(t, r.db.Change(t.Context(), func(tx *store.Tx) error { return disputes.Update(t.Context(), tx, &older, &d) }))
}

func TestLists(t *testing.T) {
	r := newService(t, t.TempDir())
	roomtest.Right(t, r.db, "rgh_a", "{}")
	ids := r.loaded().receipts(3)
	made := []string{
		r.mustOpen(t, ofReceipts(ids[0], ids[1])).ID, r.mustOpen(t, ofReceipts(ids[1], ids[2])).ID, r.mustOpen(t, ofRight("rgh_a", Window{From: at(0), To: at(1)})).ID,
	}
	_, err := r.do(t.Context(), made[1], Resolve)
	require.NoError(t, err)
	newest := slices.Sorted(slices.Values(made))
	slices.Reverse(newest)
	found := func(f filter, behind string, limit int) (ids []string) {
		page, next, err := list(t.Context(), r.db.Read(), tenantID, f, store.Slice{Behind: behind, Limit: limit})
		require.NoError(t, err)
		for _, d := range page {
			ids = append(ids, d.ID)
		}
		if next != "" {
			ids = append(ids, "and more")
		}
		return ids
	}
	require.Equal(t, []string{newest[0], "and more"}, found(filter{}, "", 1))
	require.Equal(t, newest[2:], found(filter{}, newest[1], 1))
	require.Equal(t, made[2:], found(filter{rightID: "rgh_a"}, "", 10))
	require.Equal(t, made[1:2], found(filter{state: "RESOLVED"}, "", 10))
	require.Equal(t, made[:1], found(filter{receiptID: ids[0]}, "", 10))
	require.ElementsMatch(t, made[:2], found(filter{receiptID: ids[1]}, "", 10))
	require.Equal(t, made[1:2], found(filter{receiptID: ids[1], state: "RESOLVED"}, "", 10))
	require.Empty(t, found(filter{receiptID: "rcp_none"}, "", 10))
	page, _, err := list(t.Context(), r.db.Read(), "tnt_b", filter{receiptID: ids[0]}, store.Slice{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, page)
}

// always is a period that holds everything.
var always = Window{From: at(-1000), To: at(1000)}

// TestHolding: a dispute excludes until it is rejected.
func TestHolding(t *testing.T) {
	r := newService(t, t.TempDir())
	roomtest.Right(t, r.db, "rgh_a", "{}")
	ids := r.loaded().receipts(3)
	window := Window{From: at(0), To: at(1)}
	one, upheld, rejected := r.mustOpen(t, ofReceipts(ids[0], ids[1])), r.mustOpen(t, ofReceipts(ids[1])), r.mustOpen(t, ofReceipts(ids[2]))
	ranged := r.mustOpen(t, ofRight("rgh_a", window))
	_, err := r.do(t.Context(), ranged.ID, Investigate)
	require.NoError(t, err)
	_, err = r.do(t.Context(), upheld.ID, Resolve)
	require.NoError(t, err)
	_, err = r.move(t.Context(), move{tenantID: tenantID, id: rejected.ID, action: Resolve, outcome: new(Rejected), by: byKey})
	require.NoError(t, err)
	got, err := Holding(t.Context(), r.db.Read(), tenantID, always)
	require.NoError(t, err)
	want := Excluded{
		{ID: one.ID, State: Open, ReceiptIDs: ids[:2]},
		{ID: upheld.ID, State: Resolved, Outcome: Upheld, ReceiptIDs: ids[1:2]},
		{ID: ranged.ID, State: Investigating, ReceiptIDs: []string{}, RightID: "rgh_a", Window: window},
	}
	slices.SortFunc(want, func(a, b Exclusion) int { return strings.Compare(a.ID, b.ID) })
	require.Equal(t, want, got)
	require.Equal(t, Parts{Windows: map[string][]Window{"rgh_a": {window}}, ReceiptIDs: ids[:2]}, got.Parts())
	none, err := Holding(t.Context(), r.db.Read(), "tnt_b", always)
	require.NoError(t, err)
	require.Empty(t, none)
}

// TestHoldingOfAPeriod: a dispute about deliveries of other times does not exist for a statement.
func TestHoldingOfAPeriod(t *testing.T) {
	r := newService(t, t.TempDir())
	roomtest.Right(t, r.db, "rgh_a", "{}")
	ids := r.loaded().receipts(9)
	some := r.mustOpen(t, ofReceipts(ids[5], ids[2], ids[3]))
	require.Equal(t, Rendered{at(2), at(5)}, some.Rendered)
	windowed := r.mustOpen(t, ofRight("rgh_a", Window{From: at(6), To: at(8)}))
	require.Equal(t, Rendered{at(6), store.At(at(8).Add(-time.Millisecond))}, windowed.Rendered)
	for period, want := range map[[2]int][]string{
		{0, 2}: nil, {0, 3}: {some.ID}, {5, 6}: {some.ID}, {5, 7}: {some.ID, windowed.ID}, {7, 8}: {windowed.ID}, {8, 9}: nil, {0, 9}: {some.ID, windowed.ID},
	} {
		all, err := Holding(t.Context(), r.db.Read(), tenantID, Window{From: at(period[0]), To: at(period[1])})
		require.NoError(t, err)
		var found []string
		for _, x := range all {
			found = append(found, x.ID)
		}
		require.ElementsMatch(t, want, found, "%v", period)
	}
	for _, e := range roomtest.Events(t, r.db) {
		require.Contains(t, string(e.Data), `"lastRenderedAt":`, "a restored database needs it")
	}
}

// TestUpheldDisputesAreBounded: what is UPHELD can't make a statement too large to be corrected.
func TestUpheldDisputesAreBounded(t *testing.T) {
	r := newService(t, t.TempDir())
	roomtest.Right(t, r.db, "rgh_a", "{}")
	fill := func(n int, name, rightID string, day int) {
		t.Helper()
		rendered := fmt.Sprint(at(day).UnixMilli())
		roomtest.Fill(t, r.db, n, "disputes", `tenant_id, raised_by_org_id, reason, evidence, created_at, updated_at, revision, first_rendered_at, last_rendered_at, receipt_ids, dispute_id, right_id, state, outcome`,
			`'tnt_a', 'org_b', 'why', '[]', 0, 0, 0, `+rendered+`, `+rendered+`, '', 'dsp_`+name+`' || CAST(i AS TEXT), `+rightID+`, 'RESOLVED', 'UPHELD'`)
	}
	fill(MaxUpheldWindows-1, "w", "'rgh_a'", 0)
	fill(10, "r", "NULL", 0)
	roomtest.Fill(t, r.db, MaxUpheldReceipts-2, "dispute_receipts", `tenant_id, dispute_id, receipt_id`, `'tnt_a', 'dsp_r' || CAST(1 + i % 10 AS TEXT), 'rcp_' || CAST(i AS TEXT)`)
	uphold := func(d Dispute) error {
		_, err := r.do(t.Context(), d.ID, Resolve)
		return err
	}
	refused := func(d Dispute, remedy string) {
		t.Helper()
		err := uphold(d)
		conflict(t, err)
		require.ErrorContains(t, err, remedy)
		_, err = r.move(t.Context(), move{tenantID: tenantID, id: d.ID, action: Resolve, outcome: new(Rejected), by: byKey})
		require.NoError(t, err, "what it may not become does not keep it open")
	}
	ids := r.loaded().receipts(5)
	require.NoError(t, uphold(r.mustOpen(t, ofReceipts(ids[0], ids[1]))), "the last ones that fit")
	refused(r.mustOpen(t, ofReceipts(ids[0])), "the maximum is 50000: reject this one, and dispute a right and a window instead")
	require.NoError(t, uphold(r.mustOpen(t, ofReceipts(ids[3]))), "of another time")
	day := func(n int) Window { return Window{From: at(n), To: at(n + 1)} }
	require.NoError(t, uphold(r.mustOpen(t, ofRight("rgh_a", day(0)))))
	refused(r.mustOpen(t, ofRight("rgh_a", day(0))), "the maximum of 1000 that name a right and a window: reject this one")
	require.NoError(t, uphold(r.mustOpen(t, ofRight("rgh_a", day(3)))))

	// A statement that is issued covers both times, and lists the disputes of both.
	r.stated = func(_ context.Context, _ store.Querier, of string, period Window) ([]Window, error) {
		require.Equal(t, []any{tenantID, at(4), at(4).Add(time.Millisecond)}, []any{of, period.From, period.To.Time})
		return []Window{{From: at(2), To: at(9)}, {From: at(0), To: at(5)}}, nil
	}
	refused(r.mustOpen(t, ofReceipts(ids[4])), "the statement of "+at(0).String()+" to "+at(5).String())
}

// TestReplay brings the disputes of an older database to the log's state.
func TestReplay(t *testing.T) {
	r := newService(t, t.TempDir())
	replay := func(e sealer.Event) (changed bool) {
		require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) (err error) {
			changed, err = Replay(t.Context(), tx, &e)
			return err
		}))
		return changed
	}
	ids := r.loaded().receipts(2)
	d, still := r.mustOpen(t, ofReceipts(ids[0])), r.mustOpen(t, ofReceipts(ids[1]))
	var resolved Dispute
	for _, a := range []Action{Investigate, Respond, Resolve} {
		var err error
		resolved, err = r.do(t.Context(), d.ID, a)
		require.NoError(t, err)
	}
	// The copy is older, or it was edited and claims to be newer.
	for steps, becomes := range map[int]func(context.Context, *store.Tx, *Dispute, *Dispute) error{3: disputes.Restore, 1: disputes.Update} {
		older := d // Update gives it a revision
		require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error { return becomes(t.Context(), tx, &resolved, &older) }))
		replayed := 0
		for _, e := range roomtest.Events(t, r.db) {
			if replay(e) {
				replayed++
				require.False(t, replay(e), "nothing new")
			}
		}
		require.Equal(t, steps, replayed)
	}
	for id, want := range map[string]Dispute{d.ID: resolved, still.ID: still} {
		found, err := disputes.Find(t.Context(), r.db.Read(), tenantID, id)
		require.NoError(t, err)
		require.Equal(t, want, *found)
	}
	of := func(tenantID, id string) sealer.Event {
		return sealer.Event{TenantID: tenantID, Type: "dispute.resolved", Subject: sealer.Ref{Kind: "dispute", ID: id}, Data: []byte(`{"state":"RESOLVED"}`)}
	}
	require.False(t, replay(of(tenantID, "dsp_unknown")), "it has no record")
	require.False(t, replay(of("tnt_other", still.ID)))

	// A copy that is older yet lacks them, and the right that another one is about.
	roomtest.Right(t, r.db, "rgh_a", "{}")
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	window := Window{From: store.At(noon), To: store.At(noon.Add(time.Hour))}
	windowed := r.mustOpen(t, ofRight("rgh_a", window))
	windowed.RightID = new("rgh_lost")
	require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `DELETE FROM dispute_receipts`)
		if err == nil {
			_, err = tx.ExecContext(t.Context(), `DELETE FROM disputes`)
		}
		return err
	}))
	newest := map[string]sealer.Event{}
	for _, e := range roomtest.Events(t, r.db) {
		if e.Subject.Kind == "dispute" {
			e.Data = []byte(strings.ReplaceAll(string(e.Data), `"rgh_a"`, `"rgh_lost"`))
			newest[e.Subject.ID] = e
		}
	}
	require.Len(t, newest, 3)
	for _, e := range newest {
		require.True(t, replay(e))
		require.False(t, replay(e), "nothing new")
		e.TenantID = "tnt_other"
		require.False(t, replay(e), "the database knows no such tenant")
	}
	for id, want := range map[string]Dispute{d.ID: resolved, still.ID: still, windowed.ID: windowed} {
		found, err := disputes.Find(t.Context(), r.db.Read(), tenantID, id)
		require.NoError(t, err)
		require.Equal(t, want, *found)
	}
	page, _, err := list(t.Context(), r.db.Read(), tenantID, filter{receiptID: ids[1]}, store.Slice{Limit: 2})
	require.NoError(t, err)
	require.Len(t, page, 1, "it is found by its receipts")
	holding, err := Holding(t.Context(), r.db.Read(), tenantID, always)
	require.NoError(t, err)
	require.Len(t, holding, 3)
}
