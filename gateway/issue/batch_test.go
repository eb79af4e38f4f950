package issue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/gate"
	"muniment/gateway/api"
	"muniment/gateway/issue/issuetest"
	"muniment/gateway/snapshot"
	"muniment/sealer"
)

// rowsFixture is a fixture whose right 20 of tnt_a has been in effect for long.
func rowsFixture(t *testing.T, change func(*Config)) *fixture {
	f := newFixture(t, change)
	f.right = f.longRight(20, gate.DOOH)
	return f
}

// longRight puts a right of tnt_a that has been in effect for long.
func (f *fixture) longRight(n int, s gate.Substrate) string {
	id := issuetest.RightID(n)
	revision := f.control.SetRight(api.Right{
		ID: id, TenantID: "tnt_a", BasisID: "bas_1", Substrate: s.String(), State: api.RightActive, EffectiveFrom: issuetest.Today.AddDate(-1, 0, 0),
	})
	f.await(revision)
	return id
}

// await waits until the view knows a revision.
func (f *fixture) await(revision int64) {
	for f.view.Applied() < revision {
		runtime.Gosched()
	}
}

// ago is a play time.
func ago(d time.Duration) string { return issuetest.Today.Add(-d).Format(time.RFC3339Nano) }

// rowOn is a row of a right, of a play as long ago; more is further fields.
func rowOn(right string, played time.Duration, more string) Row {
	return Row{JSON: fmt.Appendf(nil, `{"rightId":%q,"spatialAnchorId":"a","playedAt":%q,"dwellMs":4200%s}`, right, ago(played), more)}
}

// named is a row with an id of its own.
func (f *fixture) named(id, more string) Row {
	return rowOn(f.right, time.Hour, fmt.Sprintf(`,"rowId":%q%s`, id, more))
}

func (f *fixture) rows(rows ...Row) ([]RowResult, error) {
	return f.IssueRows(f.t.Context(), f.tenant, &Batch{Rows: rows})
}

// mustRows is rows for a batch that is taken.
func (f *fixture) mustRows(rows ...Row) []RowResult {
	f.t.Helper()
	results, err := f.rows(rows...)
	require.NoError(f.t, err)
	require.Len(f.t, results, len(rows))
	require.Zero(f.t, heldKeys(f.Issuer), "nothing is claimed any more")
	return results
}

// heldKeys is how many keys are held.
func heldKeys(i *Issuer) (n int) {
	for s := range i.claims.shards {
		n += len(i.claims.shards[s].running)
	}
	return n
}

// told is what results say, in short: the status, with that of the error.
func told(results []RowResult) []string {
	all := []string{}
	for _, r := range results {
		text := r.Status.String()
		if r.Err != nil {
			e := api.From(r.Err)
			text += fmt.Sprintf(" %d %s", e.GetStatus(), e.Field)
		}
		all = append(all, strings.TrimSpace(text))
	}
	return all
}

// TestRowsStandByThemselves: one bad row of any kind never blocks another.
func TestRowsStandByThemselves(t *testing.T) {
	f := rowsFixture(t, nil)
	car := f.longRight(21, gate.Automotive)
	good := rowOn(f.right, time.Hour, `,"rowId":"1","multiplier":"2.5","correlationId":"c"`)
	rows := []Row{
		good,
		{JSON: []byte(`{`)},
		{JSON: []byte(`{"rowId":"2"}`)},
		{Refused: api.InvalidField("plays[3].duration", "must be a number")},
		rowOn(issuetest.RightID(99), time.Hour, ""),
		rowOn(issuetest.RightID(10), time.Hour, ""),
		rowOn(issuetest.RightID(2), time.Hour, ""),
		rowOn(issuetest.RightID(1), 2*time.Hour, ""),
		rowOn(f.right, 30*24*time.Hour+time.Millisecond, ""),
		rowOn(f.right, 30*24*time.Hour, ""),
		rowOn(f.right, -5*time.Minute-time.Millisecond, ""),
		rowOn(f.right, -5*time.Minute, ""),
		rowOn(car, time.Hour, `,"telemetry":{"speedMph":80}`),
		good,
		rowOn(f.right, time.Hour, `,"rowId":"1","multiplier":"2.6","correlationId":"c"`),
		rowOn(f.right, time.Hour, `,"rowId":"3"`),
	}
	results := f.mustRows(rows...)
	require.Equal(t, []string{
		"accepted", "rejected 400", "rejected 422 playedAt", "rejected 422 plays[3].duration", "rejected 404", "rejected 404", "rejected 409", "rejected 409",
		"rejected 422 playedAt", "accepted", "rejected 422 playedAt", "accepted", "rejected 412", "duplicate", "rejected 409", "accepted",
	}, told(results))
	require.Len(t, f.log.All(), 4)
	require.Equal(t, string(results[0].Event), string(results[13].Event))
	require.Contains(t, string(api.From(results[12].Err).Violations), "automotive-speed")

	first, oldest, ahead := f.read(0), f.read(1), f.read(2)
	require.Equal(t, string(f.log.All()[0].Event), string(results[0].Event))
	require.Equal(t, []any{issuetest.Today.Add(-time.Hour), issuetest.Today, "c", int64(25_000), ""},
		[]any{first.Receipt.RenderedAt, first.Receipt.IssuedAt, *first.Receipt.CorrelationID, first.Multiplier, first.Identity.Day})
	require.Equal(t, []any{issuetest.Today.AddDate(0, 0, -30), int64(0), issuetest.Today.AddDate(0, 0, -30).Format(time.DateOnly)},
		[]any{oldest.Receipt.RenderedAt, oldest.Multiplier, oldest.Identity.Day})
	require.Equal(t, issuetest.Today, ahead.Receipt.RenderedAt, "a play ahead is rendered when it is issued")
	require.Empty(t, first.Idempotency)
	require.Equal(t, sealer.Ref{Kind: "key", ID: f.tenant.KeyID}, first.Event.Actor)

	// Sent again, each is judged anew: what was accepted is a duplicate with its first receipt.
	again := f.mustRows(rows...)
	require.Equal(t, []string{
		"duplicate", "rejected 400", "rejected 422 playedAt", "rejected 422 plays[3].duration", "rejected 404", "rejected 404", "rejected 409", "rejected 409",
		"rejected 422 playedAt", "duplicate", "rejected 422 playedAt", "duplicate", "rejected 412", "duplicate", "rejected 409", "duplicate",
	}, told(again))
	for n, r := range results {
		require.Equal(t, string(r.Event), string(again[n].Event))
	}
	require.Len(t, f.log.All(), 4)
}

// TestContentOfARow: of one identity, order and spelling of the fields make no difference, and
// any other content is refused.
func TestContentOfARow(t *testing.T) {
	f := rowsFixture(t, nil)
	row := func(text string) Row { return Row{JSON: []byte(strings.ReplaceAll(text, "RIGHT", f.right))} }
	first := row(`{"rowId":"1","vendor":"acme","rightId":"RIGHT","spatialAnchorId":"a","playedAt":"` + ago(time.Hour) + `","dwellMs":1000,"multiplier":2.5,"telemetry":{"viewable":true}}`)
	require.Equal(t, []string{"accepted"}, told(f.mustRows(first)))
	same := row(`{ "multiplier":"2.50", "dwellMs":1e3, "playedAt":"` + ago(time.Hour) + `", "new":[1], "telemetry" : {"viewable":true}, "spatialAnchorId":"\u0061","rightId":"RIGHT","rowId":"1","correlationId":null}`)
	results, err := f.IssueRows(t.Context(), f.tenant, &Batch{Vendor: "acme", Rows: []Row{same}})
	require.NoError(t, err)
	require.Equal(t, []string{"duplicate"}, told(results))
	for _, change := range [][2]string{
		{`"dwellMs":1000`, `"dwellMs":1001`}, {`"multiplier":2.5,`, ``}, {`"viewable":true`, `"viewable":false`}, {`,"telemetry":{"viewable":true}`, ``},
		{`"spatialAnchorId":"a"`, `"spatialAnchorId":"b"`}, {`"rowId":"1"`, `"rowId":"1","correlationId":""`}, {ago(time.Hour), ago(2 * time.Hour)},
		{`"rowId":"1"`, `"rowId":"1","dataSubjectId":"s"`}, {`"rowId":"1"`, `"rowId":"1","spatialPlacementId":""`}, {f.right, issuetest.RightID(21)},
	} {
		other := Row{JSON: []byte(strings.Replace(string(first.JSON), change[0], change[1], 1))}
		require.Equal(t, []string{"rejected 409"}, told(f.mustRows(other)), change[1])
	}
	require.Equal(t, []string{"accepted", "accepted"}, told(f.mustRows(
		Row{JSON: []byte(strings.Replace(string(first.JSON), `"acme"`, `"other"`, 1))}, Row{JSON: []byte(strings.Replace(string(first.JSON), `"rowId":"1"`, `"rowId":"2"`, 1))})))
}

// TestARowIsNoIdempotencyKey: neither takes the other's place, whatever their names are.
func TestARowIsNoIdempotencyKey(t *testing.T) {
	f := rowsFixture(t, nil)
	results, err := f.IssueRows(t.Context(), f.tenant, &Batch{Rows: []Row{f.named("k", "")}, HasKey: true, IdempotencyKey: []byte("k")})
	require.NoError(t, err)
	require.Equal(t, []string{"accepted"}, told(results))
	d := Delivery{Body: f.body(), Rendered: issuetest.Today, HasKey: true, IdempotencyKey: []byte("k")}
	_, replayed, err := f.Issue(f.Deadline(time.Now()), nil, f.tenant, &d)
	require.NoError(t, err)
	require.False(t, replayed)
	require.Empty(t, f.read(1).Identity)
	require.NotEmpty(t, f.read(1).Idempotency)
	require.Equal(t, []string{"duplicate"}, told(f.mustRows(f.named("k", ""))))
	_, err = f.IssueRows(t.Context(), f.tenant, &Batch{HasKey: true})
	require.ErrorIs(t, err, api.ErrIdempotencyKey)
}

// TestRowsThatAreNotDurable refuse the batch, and those that are keep what they claimed.
func TestRowsThatAreNotDurable(t *testing.T) {
	f := rowsFixture(t, nil)
	rows := make([]Row, 300)
	for n := range rows {
		rows[n] = f.named(fmt.Sprint(n), "")
	}
	f.log.Refuse(func(r *sealer.Record) error {
		if r.Seq%3 == 0 && r.Seq > 150 {
			return errors.New("its partition is away")
		}
		return nil
	})
	_, err := f.rows(rows...)
	require.Equal(t, []any{503, api.LogUnavailable, time.Second}, []any{status(err), api.From(err).Reason, api.From(err).RetryAfter})
	require.Zero(t, heldKeys(f.Issuer))
	durable := len(f.log.All())
	require.Greater(t, durable, 150)
	require.Less(t, durable, 2*pieceRows, "pieces behind it are not begun")

	f.log.Refuse(nil)
	results := f.mustRows(rows...)
	duplicates := 0
	for n, r := range results {
		require.NoError(t, r.Err)
		if r.Status == Duplicate {
			duplicates++
		}
		d, err := sealer.ReadDelivery(r.Event)
		require.NoError(t, err)
		require.Equal(t, f.identity(rows[n]), d.Identity.Hash)
	}
	require.Equal(t, durable, duplicates)
	require.Len(t, f.log.All(), len(rows))
}

// identity is that of a row.
func (f *fixture) identity(of Row) string {
	w := f.begin(f.tenant)
	defer f.end(w)
	f.enter(w)
	require.NoError(f.t, w.readRow(of.JSON, ""))
	w.claim = claimed{shard: new(claimShard), hash: w.identify()}
	return strings.Clone(w.claim.text())
}

// TestRowsWithoutWhatTheNodeNeeds: a node that can't decide or sign refuses the batch, unless
// all of its rows have an answer already.
func TestRowsWithoutWhatTheNodeNeeds(t *testing.T) {
	var noKey error
	f := rowsFixture(t, func(c *Config) {
		acquire := c.Signer
		c.Signer = func(ctx context.Context, at time.Time) (*sealer.Signer, func(), error) {
			if noKey != nil {
				return nil, nil, noKey
			}
			return acquire(ctx, at)
		}
	})
	known := f.named("known", "")
	f.mustRows(known)
	noKey = errors.New("none")
	require.Equal(t, []string{"duplicate", "rejected 400"}, told(f.mustRows(known, Row{JSON: []byte("{")})))
	_, err := f.rows(known, f.named("new", ""))
	require.Equal(t, api.NoSigningKey, api.From(err).Reason)
	noKey = nil
	revision := f.control.EditKey(t, 1, func(k *api.Key) { k.RevokedAt = issuetest.Today })
	f.await(revision)
	_, err = f.rows(f.named("new", ""))
	require.Equal(t, 401, status(err))
	_, err = f.IssueRows(t.Context(), Caller{TenantID: "tnt_a", KeyID: f.visitor.KeyID}, &Batch{Rows: []Row{known, f.named("new", "")}})
	require.Equal(t, 401, status(err))
	require.Zero(t, heldKeys(f.Issuer))
	require.Len(t, f.log.All(), 1)
}

// TestARightRevokedBetweenPlayAndUpload: it must be ACTIVE when the receipt is issued.
func TestARightRevokedBetweenPlayAndUpload(t *testing.T) {
	f := rowsFixture(t, nil)
	require.Equal(t, []string{"accepted"}, told(f.mustRows(rowOn(f.right, 48*time.Hour, ""))))
	revision := f.control.SetRight(api.Right{
		ID: f.right, TenantID: "tnt_a", BasisID: "bas_1", Substrate: "DOOH", State: api.RightRevoked, EffectiveFrom: issuetest.Today.AddDate(-1, 0, 0),
	})
	f.await(revision)
	require.Equal(t, []string{"rejected 409", "duplicate"}, told(f.mustRows(rowOn(f.right, 47*time.Hour, ""), rowOn(f.right, 48*time.Hour, ""))))
}

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
	require.Zero(f.t, heldKeys(f.Issuer))
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
	require.Equal(t, []string{"accepted", "accepted", "accepted", "accepted", "accepted", "unmapped", "accepted"}, told(results))
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
	require.Equal(t, []string{"duplicate", "accepted"}, told(f.acme(rows[4], rows[5])))
}

// TestUnmappedRows come back with all that control needs to deliver them later.
func TestUnmappedRows(t *testing.T) {
	f := rowsFixture(t, nil)
	f.setMapping("known", api.MappingWindow{RightID: f.right, SpatialAnchorID: "a", From: issuetest.Today.AddDate(0, 0, -1)})
	results := f.acme(mapped("unknown", time.Hour, ""), mapped("known", time.Hour, ""), mapped("unknown", time.Hour, `,"rowId":"1","vendor":"other"`))
	require.Equal(t, []string{"unmapped", "accepted", "unmapped"}, told(results))
	held := results[0].Held
	require.Equal(t, []any{"acme", "screen", "unknown", issuetest.Today.Add(-time.Hour)}, []any{held.Vendor, held.IDType, held.VendorID, held.PlayedAt.UTC()})
	require.Equal(t, `{"vendor":"acme",`+string(mapped("unknown", time.Hour, "").JSON[1:]), held.Row)
	require.Equal(t, api.RowIdentity{Hash: f.identity(Row{JSON: []byte(held.Row)}), Day: issuetest.Today.Format(time.DateOnly)}, held.Identity)
	require.Equal(t, []string{"other", string(mapped("unknown", time.Hour, `,"rowId":"1","vendor":"other"`).JSON), ""},
		[]string{results[2].Held.Vendor, results[2].Held.Row, results[2].Held.Identity.Day})

	// Delivered later, as control does it, it is what the caller's own row is.
	f.setMapping("unknown", api.MappingWindow{RightID: f.right, SpatialAnchorID: "b", From: issuetest.Today.AddDate(0, 0, -1)})
	require.Equal(t, []string{"accepted"}, told(f.mustRows(Row{JSON: []byte(held.Row)})))
	require.Equal(t, []string{"duplicate"}, told(f.acme(mapped("unknown", time.Hour, ""))))
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
	before := f.control.Asked()
	results := f.acme(rows...)
	require.Equal(t, before+1, f.control.Asked())
	for n, r := range results {
		if n%100 == 0 {
			require.Equal(t, Accepted, r.Status)
		} else {
			require.Equal(t, Unmapped, r.Status)
		}
	}
	require.Eventually(t, func() bool {
		_, known := f.view.KnownMapping("tnt_a", snapshot.VendorPlay{Vendor: "acme", IDType: "screen", VendorID: "0"})
		return known
	}, time.Minute, time.Millisecond, "the cache takes its time to store what it is given")
	f.control.Fail(errors.New("away"))
	results = f.acme(mapped("other", time.Hour, ""), mapped("0", time.Hour, ""), rowOn(f.right, time.Hour, ""))
	require.Equal(t, []string{"rejected 503", "accepted", "accepted"}, told(results))
	require.Equal(t, api.ControlUnavailable, api.From(results[0].Err).Reason)
}

// TestEqualRowsOfOneBody are one play, also where the log can't be read back.
func TestEqualRowsOfOneBody(t *testing.T) {
	f := rowsFixture(t, nil)
	f.log.Lose(0, true)
	rows := make([]Row, 400)
	for n := range rows {
		rows[n] = f.named(fmt.Sprint(n%7), "")
	}
	rows[398] = f.named("5", `,"correlationId":"other"`)
	results := f.mustRows(rows...)
	for n, r := range results {
		switch {
		case n < 7:
			require.Equal(t, Accepted, r.Status)
		case n == 398:
			require.Equal(t, 409, status(r.Err))
		default:
			require.Equal(t, Duplicate, r.Status)
			require.Equal(t, string(results[n%7].Event), string(r.Event))
		}
	}
	require.Len(t, f.log.All(), 7)

	// What is refused is no play: the next one of its identity is judged for itself.
	f.log.Lose(0, false)
	bad := rowOn(issuetest.RightID(99), time.Hour, `,"rowId":"again"`)
	require.Equal(t, []string{"rejected 404", "rejected 404", "accepted", "rejected 409"}, told(f.mustRows(bad, bad, f.named("again", ""), bad)))
}

// TestBatchesWithTheSameRows wait for each other's, in whatever order they have them, and
// none is delivered twice.
func TestBatchesWithTheSameRows(t *testing.T) {
	f := rowsFixture(t, func(c *Config) { c.BatchSigners = 4 })
	const batches, many = 8, 260
	rows := make([]Row, many)
	for n := range rows {
		rows[n] = f.named(fmt.Sprint(n), "")
	}
	type outcome struct {
		results []RowResult
		err     error
	}
	outcomes := make(chan outcome, batches)
	for b := range batches {
		go func() {
			own := make([]Row, many)
			for n := range own {
				own[n] = rows[(n*(2*b+1)+b*31)%many]
			}
			results, err := f.IssueRows(context.Background(), f.tenant, &Batch{Rows: own})
			outcomes <- outcome{results, err}
		}()
	}
	accepted := 0
	for range batches {
		o := <-outcomes
		require.NoError(t, o.err)
		for _, r := range o.results {
			require.NoError(t, r.Err)
			if r.Status == Accepted {
				accepted++
			}
		}
	}
	require.Equal(t, many, accepted)
	require.Len(t, f.log.All(), many)
}

// TestARowThatIsBusyForTooLong refuses the batch: it may be delivered, or not.
func TestARowThatIsBusyForTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rowsFixture(t, func(c *Config) { c.IdempotencyWait = time.Second })
		release := f.log.Halt()
		first := make(chan error, 1)
		go func() { _, err := f.rows(f.named("1", "")); first <- err }()
		synctest.Wait()
		_, err := f.rows(f.named("1", ""))
		require.Equal(t, []any{503, api.Overloaded}, []any{status(err), api.From(err).Reason})
		release()
		require.NoError(t, <-first)
		require.Equal(t, []string{"duplicate"}, told(f.mustRows(f.named("1", ""))))
	})
}

// TestBatchesOfOneKeyComeOneAfterTheOther.
func TestBatchesOfOneKeyComeOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rowsFixture(t, nil)
		send := func(row string, key string) chan error {
			done := make(chan error, 1)
			go func() {
				_, err := f.IssueRows(context.Background(), f.tenant, &Batch{Rows: []Row{f.named(row, "")}, HasKey: true, IdempotencyKey: []byte(key)})
				done <- err
			}()
			synctest.Wait()
			return done
		}
		release := f.log.Halt()
		first, second, other := send("1", "k"), send("2", "k"), send("3", "l")
		require.Equal(t, 2, f.log.Appending(), "the second waits")
		release()
		require.NoError(t, errors.Join(<-first, <-second, <-other))
		require.Len(t, f.log.All(), 3)

		defer f.log.Halt()()
		send("4", "k")
		late := send("5", "k")
		require.ErrorIs(t, <-late, api.ErrKeyBusy)
	})
}

// TestPieces: a batch is admitted, signed and appended a little at a time, whatever its rows are.
func TestPieces(t *testing.T) {
	var asked []int
	f := rowsFixture(t, func(c *Config) {
		c.Admit = func(_ context.Context, deliveries int) { asked = append(asked, deliveries) }
	})
	bytes, most := 0, 0
	f.log.Refuse(func(r *sealer.Record) error {
		size := len(r.Event) + len(r.Private)
		bytes, most = bytes+size, max(most, size)
		return nil
	})
	wide := strings.Repeat(`\u0001`, 512)
	telemetry := fmt.Sprintf(`{"beamId":"%[1]s","coverageCellId":"%[1]s","groundStationId":"%[1]s","footprintRegion":"%[1]s","bvlosWaiverId":"%[1]s","eyeTrackingConsent":true}`, wide[:6*256])
	largest := fmt.Sprintf(`,"spatialPlacementId":"%[1]s","correlationId":"%[1]s","dataSubjectId":"%[2]s","telemetry":%[3]s`, wide, wide[:6*256], telemetry)
	rows := make([]Row, 200)
	for n := range rows {
		rows[n] = Row{JSON: fmt.Appendf(nil, `{"rowId":"%d","rightId":%q,"spatialAnchorId":"%s","playedAt":%q,"dwellMs":1%s}`, n, f.right, wide, ago(time.Hour), largest)}
	}
	for _, r := range f.mustRows(rows...) {
		require.NoError(t, r.Err)
	}
	require.Less(t, most, mostRecord)
	require.Greater(t, most, mostRecord/4, "the largest row is nearly as large as that")
	require.Greater(t, f.log.Steps(), bytes/pieceBytes)
	require.Less(t, f.log.Steps(), 3*bytes/pieceBytes)

	steps := f.log.Steps()
	asked = nil
	for n := range rows {
		rows[n] = f.named(fmt.Sprint("small", n), "")
	}
	f.mustRows(rows...)
	require.Equal(t, steps+2, f.log.Steps())
	require.Equal(t, []int{128, 72}, asked)

	// A caller who is granted little at a time takes more steps.
	granted, left := 0, 0
	results, err := f.IssueRows(t.Context(), f.tenant, &Batch{Rows: []Row{f.named("a", ""), f.named("b", ""), f.named("c", "")}, Admit: func(_ context.Context, rows int) (int, func(), error) {
		granted++
		require.Equal(t, granted-1, left)
		return 1, func() { left++ }, nil
	}})
	require.NoError(t, err)
	require.Equal(t, []string{"accepted", "accepted", "accepted"}, told(results))
	require.Equal(t, []int{3, 3}, []int{granted, left})
	no := errors.New("no")
	_, err = f.IssueRows(t.Context(), f.tenant, &Batch{Rows: rows, Admit: func(context.Context, int) (int, func(), error) { return 0, nil, no }})
	require.ErrorIs(t, err, no)
}

// TestBatchesLeaveRoom: however many come, what waits for the log is bounded, and a single
// delivery waits for none of them.
func TestBatchesLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rowsFixture(t, func(c *Config) { c.BatchBytes, c.BatchSigners, c.Timeout = 3*pieceBytes, 2, time.Hour })
		release := f.log.Halt()
		done := make(chan error, 50)
		for b := range 50 {
			go func() {
				_, err := f.IssueRows(context.Background(), f.tenant, &Batch{Rows: []Row{f.named(fmt.Sprint(b), "")}})
				done <- err
			}()
		}
		synctest.Wait()
		require.Equal(t, 3, f.log.Appending())
		go func() { _, _, err := f.issue(f.body()); done <- err }()
		synctest.Wait()
		require.Equal(t, 4, f.log.Appending())
		release()
		for range 51 {
			require.NoError(t, <-done)
		}

		defer f.log.Halt()()
		f.cfg.Timeout = time.Second
		for b := range 4 {
			go func() {
				_, err := f.IssueRows(context.Background(), f.tenant, &Batch{Rows: []Row{f.named(fmt.Sprint("late", b), "")}})
				done <- err
			}()
		}
		for range 4 {
			require.Equal(t, 503, status(<-done))
		}
		require.Zero(t, heldKeys(f.Issuer))
	})
}

// TestPanicOfABatchFreesItsRows, of those that wait for the log as of those that don't yet.
func TestPanicOfABatchFreesItsRows(t *testing.T) {
	released := 0
	f := rowsFixture(t, func(c *Config) {
		acquire := c.Signer
		c.Signer = func(ctx context.Context, at time.Time) (*sealer.Signer, func(), error) {
			s, _, err := acquire(ctx, at)
			return s, func() { released++ }, err
		}
	})
	f.log.Refuse(func(*sealer.Record) error { panic("a fault of ours") })
	rows := []Row{f.named("1", ""), f.named("2", "")}
	require.Panics(t, func() { _, _ = f.rows(rows...) })
	require.Zero(t, heldKeys(f.Issuer))
	require.Equal(t, 1, released)
	f.log.Refuse(nil)
	require.Equal(t, []string{"accepted", "accepted"}, told(f.mustRows(rows...)))
	require.Empty(t, f.room.reserved)
	require.Empty(t, f.room.signing)
}

// TestRowsAfterARestart: identities are read back from the log, and from checkpoints of it.
func TestRowsAfterARestart(t *testing.T) {
	for name, dir := range map[string]string{"log": "", "checkpoints": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			f := rowsFixture(t, func(c *Config) { c.CheckpointDir = dir })
			require.NoError(t, f.Rebuild(t.Context()))
			rows := []Row{f.named("1", ""), rowOn(f.right, time.Hour, ""), f.named("2", `,"multiplier":3`)}
			first := f.mustRows(rows...)
			f.checkpoint(t.Context(), 1)
			f.Issuer = f.reborn()
			require.NoError(t, f.Rebuild(t.Context()))
			again := f.mustRows(rows...)
			require.Equal(t, []string{"duplicate", "duplicate", "duplicate"}, told(again))
			for n := range first {
				require.Equal(t, string(first[n].Event), string(again[n].Event))
			}
		})
	}
}

// reborn is the issuer of the node's next start.
func (f *fixture) reborn() *Issuer {
	cfg := f.cfg
	cfg.Registerer, cfg.Epoch = nil, cfg.Epoch+1
	next, err := New(cfg)
	require.NoError(f.t, err)
	return next
}
