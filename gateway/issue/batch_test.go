package issue

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/issuetest"
	"muniment.example/sealer"
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
	require.Zero(f.t, f.claims.Running(), "nothing is claimed any more")
	return results
}

// statuses returns the status of each result, with that of its error.
func statuses(results []RowResult) []string {
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
		rowOn(f.right, -5*time.Minute+4200*time.Millisecond, ""),
		rowOn(f.right, -5*time.Minute+4199*time.Millisecond, ""),
		rowOn(car, time.Hour, `,"telemetry":{"speedMph":80}`),
		good,
		rowOn(f.right, time.Hour, `,"rowId":"1","multiplier":"2.6","correlationId":"c"`),
		rowOn(f.right, time.Hour, `,"rowId":"3"`),
	}
	results := f.mustRows(rows...)
	require.Equal(t, []string{
		"accepted", "rejected 400", "rejected 422 playedAt", "rejected 422 plays[3].duration", "rejected 404 rightId", "rejected 404 rightId", "held", "rejected 409",
		"rejected 422 playedAt", "accepted", "rejected 422 playedAt", "accepted", "rejected 422 dwellMs", "rejected 412", "duplicate", "rejected 409", "accepted",
	}, statuses(results))
	require.Len(t, f.log.All(), 4)
	require.Equal(t, string(results[0].Event), string(results[14].Event))
	require.Contains(t, string(api.From(results[13].Err).Violations), "automotive-speed")

	first, oldest, ahead := f.read(0), f.read(1), f.read(2)
	require.Equal(t, string(f.log.All()[0].Event), string(results[0].Event))
	require.Equal(t, []any{issuetest.Today.Add(-time.Hour), issuetest.Today, "c", int64(25_000), ""},
		[]any{first.Receipt.RenderedAt, first.Receipt.IssuedAt, *first.Receipt.CorrelationID, first.Impressions, first.Identity.Day})
	require.Equal(t, []any{issuetest.Today.AddDate(0, 0, -30), int64(sealer.Impression), issuetest.Today.AddDate(0, 0, -30).Format(time.DateOnly)},
		[]any{oldest.Receipt.RenderedAt, oldest.Impressions, oldest.Identity.Day})
	require.Equal(t, issuetest.Today, ahead.Receipt.RenderedAt, "a play ahead is rendered when it is issued")
	require.Empty(t, first.Idempotency)
	require.Equal(t, sealer.Ref{Kind: "key", ID: f.tenant.KeyID}, first.Event.Actor)

	// Sent again, each is judged anew: what was accepted is a duplicate with its first receipt.
	again := f.mustRows(rows...)
	require.Equal(t, []string{
		"duplicate", "rejected 400", "rejected 422 playedAt", "rejected 422 plays[3].duration", "rejected 404 rightId", "rejected 404 rightId", "held", "rejected 409",
		"rejected 422 playedAt", "duplicate", "rejected 422 playedAt", "duplicate", "rejected 422 dwellMs", "rejected 412", "duplicate", "rejected 409", "duplicate",
	}, statuses(again))
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
	require.Equal(t, []string{"accepted"}, statuses(f.mustRows(first)))
	same := row(`{ "multiplier":"2.50", "dwellMs":1e3, "playedAt":"` + ago(time.Hour) + `", "new":[1], "telemetry" : {"viewable":true}, "spatialAnchorId":"\u0061","rightId":"RIGHT","rowId":"1","correlationId":null}`)
	results, err := f.IssueRows(t.Context(), f.tenant, &Batch{Vendor: "acme", Rows: []Row{same}})
	require.NoError(t, err)
	require.Equal(t, []string{"duplicate"}, statuses(results))
	for _, change := range [][2]string{
		{`"dwellMs":1000`, `"dwellMs":1001`}, {`"multiplier":2.5,`, ``}, {`"viewable":true`, `"viewable":false`}, {`,"telemetry":{"viewable":true}`, ``},
		{`"spatialAnchorId":"a"`, `"spatialAnchorId":"b"`}, {`"rowId":"1"`, `"rowId":"1","correlationId":""`}, {ago(time.Hour), ago(2 * time.Hour)},
		{`"rowId":"1"`, `"rowId":"1","dataSubjectId":"s"`}, {`"rowId":"1"`, `"rowId":"1","spatialPlacementId":""`}, {f.right, issuetest.RightID(21)},
	} {
		other := Row{JSON: []byte(strings.Replace(string(first.JSON), change[0], change[1], 1))}
		require.Equal(t, []string{"rejected 409"}, statuses(f.mustRows(other)), change[1])
	}
	require.Equal(t, []string{"accepted", "accepted"}, statuses(f.mustRows(
		Row{JSON: []byte(strings.Replace(string(first.JSON), `"acme"`, `"other"`, 1))}, Row{JSON: []byte(strings.Replace(string(first.JSON), `"rowId":"1"`, `"rowId":"2"`, 1))})))
}

// TestARowIsNoIdempotencyKey: neither takes the other's place, whatever their names are.
func TestARowIsNoIdempotencyKey(t *testing.T) {
	f := rowsFixture(t, nil)
	results, err := f.IssueRows(t.Context(), f.tenant, &Batch{Rows: []Row{f.named("k", "")}, HasKey: true, IdempotencyKey: []byte("k")})
	require.NoError(t, err)
	require.Equal(t, []string{"accepted"}, statuses(results))
	d := Delivery{Body: f.body(), Rendered: issuetest.Today, HasKey: true, IdempotencyKey: []byte("k")}
	_, replayed, err := f.Issue(f.Deadline(time.Now()), nil, f.tenant, &d)
	require.NoError(t, err)
	require.False(t, replayed)
	require.Empty(t, f.read(1).Identity)
	require.NotEmpty(t, f.read(1).Idempotency)
	require.Equal(t, []string{"duplicate"}, statuses(f.mustRows(f.named("k", ""))))
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
	require.Zero(t, f.claims.Running())
	durable := len(f.log.All())
	require.Greater(t, durable, 150)
	require.Less(t, durable, 3*pieceRows, "pieces behind it are not begun")

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
	hash, err := w.identify(&of)
	require.NoError(f.t, err)
	return base64.RawURLEncoding.EncodeToString(hash[:])
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
	require.Equal(t, []string{"duplicate", "rejected 400"}, statuses(f.mustRows(known, Row{JSON: []byte("{")})))
	_, err := f.rows(known, f.named("new", ""))
	require.Equal(t, api.NoSigningKey, api.From(err).Reason)
	noKey = nil
	revision := f.control.EditKey(t, 1, func(k *api.Key) { k.RevokedAt = issuetest.Today })
	f.await(revision)
	_, err = f.rows(f.named("new", ""))
	require.Equal(t, 401, status(err))
	_, err = f.IssueRows(t.Context(), Caller{TenantID: "tnt_a", KeyID: f.visitor.KeyID}, &Batch{Rows: []Row{known, f.named("new", "")}})
	require.Equal(t, 401, status(err))
	require.Zero(t, f.claims.Running())
	require.Len(t, f.log.All(), 1)
}

// TestARightRevokedBetweenPlayAndUpload: it must be ACTIVE when the receipt is issued.
func TestARightRevokedBetweenPlayAndUpload(t *testing.T) {
	f := rowsFixture(t, nil)
	require.Equal(t, []string{"accepted"}, statuses(f.mustRows(rowOn(f.right, 48*time.Hour, ""))))
	revision := f.control.SetRight(api.Right{
		ID: f.right, TenantID: "tnt_a", BasisID: "bas_1", Substrate: "DOOH", State: api.RightRevoked, EffectiveFrom: issuetest.Today.AddDate(-1, 0, 0),
	})
	f.await(revision)
	require.Equal(t, []string{"rejected 409", "duplicate"}, statuses(f.mustRows(rowOn(f.right, 47*time.Hour, ""), rowOn(f.right, 48*time.Hour, ""))))
}
