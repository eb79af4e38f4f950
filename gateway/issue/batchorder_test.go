package issue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/issuetest"
	"muniment.example/sealer"
)

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
	require.Equal(t, []string{"rejected 404 rightId", "rejected 404 rightId", "accepted", "rejected 409"}, statuses(f.mustRows(bad, bad, f.named("again", ""), bad)))
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
		require.Equal(t, []string{"duplicate"}, statuses(f.mustRows(f.named("1", ""))))
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
	var admitted []int
	f := rowsFixture(t, func(c *Config) {
		c.Admit = func(_ context.Context, deliveries int) { admitted = append(admitted, deliveries) }
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
	admitted = nil
	for n := range rows {
		rows[n] = f.named(fmt.Sprint("small", n), "")
	}
	f.mustRows(rows...)
	require.Equal(t, steps+4, f.log.Steps())
	require.Equal(t, []int{64, 64, 64, 8}, admitted)

	// A caller who is granted little at a time takes more steps.
	granted, left := 0, 0
	results, err := f.IssueRows(t.Context(), f.tenant, &Batch{Rows: []Row{f.named("a", ""), f.named("b", ""), f.named("c", "")}, Admit: func(rows int) (int, func()) {
		granted++
		require.Equal(t, granted-1, left)
		return 1, func() { left++ }
	}})
	require.NoError(t, err)
	require.Equal(t, []string{"accepted", "accepted", "accepted"}, statuses(results))
	require.Equal(t, []int{3, 3}, []int{granted, left})
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
		require.Zero(t, f.claims.Running())
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
	require.Zero(t, f.claims.Running())
	require.Equal(t, 1, released)
	f.log.Refuse(nil)
	require.Equal(t, []string{"accepted", "accepted"}, statuses(f.mustRows(rows...)))
	require.Empty(t, f.batchLimits.reserved)

	for range cap(f.batchLimits.signers) + 1 {
		require.PanicsWithValue(t, "another", func() { _ = f.batchLimits.sign(t.Context(), func() error { panic("another") }) })
	}
	f.mustRows(f.named("3", ""))
}

// TestRowsAfterARestart: identities are read back from the log, and from checkpoints of it.
func TestRowsAfterARestart(t *testing.T) {
	for name, dir := range map[string]string{"log": "", "checkpoints": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			f := rowsFixture(t, func(c *Config) { c.CheckpointDir = dir })
			require.NoError(t, f.Rebuild(t.Context()))
			rows := []Row{f.named("1", ""), rowOn(f.right, time.Hour, ""), f.named("2", `,"multiplier":3`)}
			first := f.mustRows(rows...)
			f.claims.CheckpointAll(t.Context())
			f.Issuer = f.reborn()
			require.NoError(t, f.Rebuild(t.Context()))
			again := f.mustRows(rows...)
			require.Equal(t, []string{"duplicate", "duplicate", "duplicate"}, statuses(again))
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
