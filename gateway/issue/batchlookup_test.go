package issue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/issuetest"
	"muniment.example/gateway/snapshot"
	"muniment.example/sealer"
)

// mapped is a row of a screen of acme's.
func mapped(screen string, played time.Duration, more string) Row {
	return Row{JSON: fmt.Appendf(nil, `{"idType":"screen","vendorId":%q,"playedAt":%q,"dwellMs":4200%s}`, screen, ago(played), more)}
}

// setMapping maps a screen of acme's: to each right since so long ago, until the next.
func (f *fixture) setMapping(screen string, windows ...api.MappingWindow) {
	for n := range windows {
		if n+1 < len(windows) {
			windows[n].Until = windows[n+1].From
		}
	}
	f.await(f.control.SetMapping(api.Mapping{TenantID: "tnt_a", Windows: windows}, "acme", "screen", screen))
}

func (f *fixture) acme(rows ...Row) []RowResult {
	f.t.Helper()
	results, err := f.IssueRows(f.t.Context(), f.tenant, &Batch{Vendor: "acme", Rows: rows})
	require.NoError(f.t, err)
	require.Zero(f.t, f.claims.Running())
	return results
}

// TestARemappedPlayer: a play goes to the right that the player stood for at its time, in
// whatever order the plays come.
func TestARemappedPlayer(t *testing.T) {
	f := rowsFixture(t, nil)
	second := f.longRight(22, gate.DOOH)
	moved := issuetest.Today.Add(-24 * time.Hour)
	f.setMapping("7",
		api.MappingWindow{MappingID: "map_1", RightID: f.right, SpatialAnchorID: "old", From: issuetest.Today.AddDate(0, 0, -10)},
		api.MappingWindow{MappingID: "map_2", RightID: second, SpatialAnchorID: "new", SpatialPlacementID: "slot", From: moved})
	plays := []time.Duration{time.Hour, 25 * time.Hour, 24 * time.Hour, 24*time.Hour + time.Millisecond, 9 * 24 * time.Hour, 11 * 24 * time.Hour}
	var rows []Row
	for _, played := range plays {
		rows = append(rows, mapped("7", played, ""))
	}
	rows = append(rows, mapped("7", time.Minute, `,"spatialPlacementId":"its own"`))
	results := f.acme(rows...)
	require.Equal(t, []string{"accepted", "accepted", "accepted", "accepted", "accepted", "unmapped", "accepted"}, statuses(results))
	for n, r := range results {
		if r.Status != Accepted {
			continue
		}
		d, err := sealer.ReadDelivery(r.Event)
		require.NoError(t, err)
		got := []string{d.RightID, d.Receipt.SpatialAnchorID}
		switch {
		case n == 6:
			require.Equal(t, []string{second, "new", "its own"}, append(got, *d.Receipt.SpatialPlacementID))
		case plays[n] <= 24*time.Hour:
			require.Equal(t, []string{second, "new", "slot"}, append(got, *d.Receipt.SpatialPlacementID))
		default:
			require.Equal(t, []string{f.right, "old"}, got)
			require.Nil(t, d.Receipt.SpatialPlacementID)
		}
	}
	// The identity is of what was sent: a mapping that changes later makes no other row of it.
	f.setMapping("7", api.MappingWindow{MappingID: "map_3", RightID: second, SpatialAnchorID: "corrected", From: issuetest.Today.AddDate(0, 0, -20)})
	require.Equal(t, []string{"duplicate", "accepted"}, statuses(f.acme(rows[4], rows[5])))
}

// TestUnmappedRows come back with all that control needs to deliver them later.
func TestUnmappedRows(t *testing.T) {
	f := rowsFixture(t, nil)
	f.setMapping("known", api.MappingWindow{RightID: f.right, SpatialAnchorID: "a", From: issuetest.Today.AddDate(0, 0, -1)})
	results := f.acme(mapped("unknown", time.Hour, ""), mapped("known", time.Hour, ""), mapped("unknown", time.Hour, `,"rowId":"1","vendor":"other"`))
	require.Equal(t, []string{"unmapped", "accepted", "unmapped"}, statuses(results))
	held := results[0].Held
	require.Equal(t, []any{"acme", "screen", "unknown", issuetest.Today.Add(-time.Hour)}, []any{held.Vendor, held.IDType, held.VendorID, held.PlayedAt.UTC()})
	require.Equal(t, string(mapped("unknown", time.Hour, "").JSON), held.Row)
	whole := Row{JSON: []byte(`{"vendor":"acme",` + held.Row[1:])} // as control delivers it
	require.Equal(t, api.RowIdentity{Hash: f.identity(whole), Day: issuetest.Today.Format(time.DateOnly)}, held.Identity)
	content := func(more string) string {
		row := mapped("unknown", time.Hour, more)
		row.JSON = []byte(strings.Replace(string(row.JSON), "1500", "1.5e3", 1))
		return f.acme(row)[0].Held.Content
	}
	require.Equal(t, held.Content, content(`,"multiplier":null`), "it says the same")
	require.NotEqual(t, held.Content, content(`,"multiplier":2`))
	require.Equal(t, []string{"other", string(mapped("unknown", time.Hour, `,"rowId":"1","vendor":"other"`).JSON), ""},
		[]string{results[2].Held.Vendor, results[2].Held.Row, results[2].Held.Identity.Day})

	// Delivered later it is what the caller's own row is.
	f.setMapping("unknown", api.MappingWindow{RightID: f.right, SpatialAnchorID: "b", From: issuetest.Today.AddDate(0, 0, -1)})
	require.Equal(t, []string{"accepted"}, statuses(f.mustRows(whole)))
	require.Equal(t, []string{"duplicate"}, statuses(f.acme(mapped("unknown", time.Hour, ""))))
}

// TestHeldRowKeepsItsIdentity: a held row that has lost its rowId and its placement to an erasure is the
// caller's own row all the same, which is not delivered again.
func TestHeldRowKeepsItsIdentity(t *testing.T) {
	f := rowsFixture(t, nil)
	for _, more := range []string{`,"rowId":"row of ada"`, `,"spatialPlacementId":"ada's"`} {
		f.setMapping("late")
		held := f.acme(mapped("late", time.Hour, more))[0].Held
		f.setMapping("late", api.MappingWindow{RightID: f.right, SpatialAnchorID: "b", From: issuetest.Today.AddDate(0, 0, -1)})
		erased := Row{JSON: []byte(strings.ReplaceAll(`{"vendor":"acme",`+held.Row[1:], "ada", "x")), Identity: &held.Identity}
		results := f.mustRows(erased, erased)
		require.Equal(t, []string{"accepted", "duplicate"}, statuses(results))
		d, err := sealer.ReadDelivery(results[0].Event)
		require.NoError(t, err)
		require.Equal(t, held.Identity, api.RowIdentity{Hash: d.Identity.Hash, Day: d.Identity.Day})
		again := f.acme(mapped("late", time.Hour, more))[0]
		require.Equal(t, Rejected, again.Status)
		require.Equal(t, errRowReused, again.Err)
	}
	require.Equal(t, []string{"rejected 422 identity"}, statuses(f.mustRows(Row{JSON: []byte(`{"vendor":"acme",` + string(mapped("late", time.Hour, "").JSON[1:])), Identity: &api.RowIdentity{Hash: "none"}})))
}

// TestEqualUnmappedRows: of equal rows that no mapping knows one is held, and the others are its
// duplicates.
func TestEqualUnmappedRows(t *testing.T) {
	f := rowsFixture(t, nil)
	more := `,"spatialPlacementId":"p"`
	results := f.acme(mapped("unknown", time.Hour, ""), mapped("unknown", time.Hour, more), mapped("unknown", time.Hour, ""), mapped("unknown", time.Hour, more),
		mapped("unknown", time.Hour, `,"correlationId":"other"`), mapped("unknown", 2*time.Hour, ""))
	require.Equal(t, []string{"unmapped", "unmapped", "duplicate", "duplicate", "unmapped", "unmapped"}, statuses(results))
	require.Equal(t, []int{0, 1}, []int{results[2].First, results[3].First})
	for _, n := range []int{2, 3} {
		require.Nil(t, results[n].Held)
		require.Nil(t, results[n].Event)
	}
}

// TestControlIsAskedOnceForABatch, for all vendors' ids that the node does not know. Without
// an answer these rows are rejected, and the others are not.
func TestControlIsAskedOnceForABatch(t *testing.T) {
	f := rowsFixture(t, nil)
	var rows []Row
	for n := range 300 {
		id := fmt.Sprint(n % 100)
		if n%100 == 0 {
			f.setMapping(id, api.MappingWindow{RightID: f.right, SpatialAnchorID: "a", From: issuetest.Today.AddDate(0, 0, -1)})
		}
		rows = append(rows, mapped(id, time.Duration(n)*time.Second, ""))
	}
	before := f.control.Requests()
	results := f.acme(rows...)
	require.Equal(t, before+1, f.control.Requests())
	for n, r := range results {
		if n%100 == 0 {
			require.Equal(t, Accepted, r.Status)
		} else {
			require.Equal(t, Unmapped, r.Status)
		}
	}
	waittest.Until(t, func() bool {
		_, known := f.view.KnownMapping("tnt_a", snapshot.VendorPlay{Vendor: "acme", IDType: "screen", VendorID: "0"})
		return known
	}, "the cache takes its time to store what it is given")
	f.control.Fail(errors.New("away"))
	results = f.acme(mapped("other", time.Hour, ""), mapped("0", time.Hour, ""), rowOn(f.right, time.Hour, ""))
	require.Equal(t, []string{"rejected 503", "accepted", "accepted"}, statuses(results))
	require.Equal(t, api.ControlUnavailable, api.From(results[0].Err).Reason)
}

// TestRightsAreAskedOnceForABatch, for all that the node does not know, with those that there
// are not; and while control does not answer, other batches are signed.
func TestRightsAreAskedOnceForABatch(t *testing.T) {
	f := rowsFixture(t, func(c *Config) { c.BatchSigners = 1 })
	f.mustRows(f.named("warm", ""))
	var rows []Row
	for n := range 900 {
		rows = append(rows, rowOn(issuetest.RightID(1000+n%300), time.Duration(n)*time.Second, ""))
	}
	rows[0] = rowOn(issuetest.RightID(10), time.Hour, "") // another tenant's
	release := f.control.Halt()
	defer release()
	before := f.control.Requests()
	results := make(chan []RowResult)
	go func() {
		all, err := f.IssueRows(context.Background(), f.tenant, &Batch{Rows: append(rows, f.named("good", ""))})
		if err != nil {
			all = nil
		}
		results <- all
	}()
	waittest.Until(t, func() bool { return f.control.Requests() > before })
	others, err := f.IssueRows(t.Context(), f.tenant, &Batch{Rows: []Row{f.named("of another batch", "")}})
	require.NoError(t, err)
	require.Equal(t, []string{"accepted"}, statuses(others))
	release()
	got := statuses(<-results)
	require.Len(t, got, 901)
	require.Equal(t, slices.Repeat([]string{"rejected 404 rightId"}, 900), got[:900])
	require.Equal(t, "accepted", got[900])
	require.Equal(t, before+1, f.control.Requests())

	f.control.Fail(errors.New("away"))
	before = f.control.Requests()
	away := f.mustRows(append(rows[:500:500], f.named("better", ""))...)
	require.Equal(t, append(slices.Repeat([]string{"rejected 503"}, 500), "accepted"), statuses(away))
	require.Equal(t, before+1, f.control.Requests())
}

// TestARightThatIsStoppedMeanwhile: what control has said of a right does not outlive what the
// feed says of it.
func TestARightThatIsStoppedMeanwhile(t *testing.T) {
	f := rowsFixture(t, nil)
	id := f.longRight(21, gate.DOOH)
	read := snapshot.RightsRead{}
	f.view.ReadRights(t.Context(), []string{id, id}, read)
	right, known, err := f.view.KnownRight("tnt_a", id, read)
	require.NoError(t, err)
	require.True(t, known)
	require.Equal(t, id, right.ID)
	f.await(f.control.SetRight(api.Right{ID: id, TenantID: "tnt_a", Substrate: "DOOH", State: api.RightRevoked}))
	_, known, err = f.view.KnownRight("tnt_a", id, read)
	require.True(t, known)
	require.Equal(t, 409, status(err))
}
