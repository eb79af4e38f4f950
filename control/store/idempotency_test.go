package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store/storetest"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
)

// keyed is a database that keeps few keys, with a clock that the test sets.
func keyed(t *testing.T) (db *DB, at *time.Time) {
	t.Helper()
	clock := now
	stacktest.Both(t)
	path, url := storetest.Place(t, t.TempDir())
	db, err := Open(t.Context(), Config{Path: path, URL: url, Now: func() time.Time { return clock }, maxKeys: 3})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db, &clock
}

// usage is what is counted of a tenant, and what there is.
func (db *DB) usage(t *testing.T, tenantID string) (keys, bytes int64) {
	t.Helper()
	var rows, length int64
	require.NoError(t, db.Read().QueryRowContext(t.Context(),
		`SELECT COUNT(*), COALESCE(SUM(LENGTH(answer)), 0) FROM idempotency WHERE tenant_id = $1`, tenantID).Scan(&rows, &length))
	require.NoError(t, db.Read().QueryRowContext(t.Context(), `SELECT row_count, bytes FROM idempotency_usage WHERE tenant_id = $1`, tenantID).Scan(&keys, &bytes))
	require.Equal(t, []int64{rows, length}, []int64{keys, bytes})
	return keys, bytes
}

// TestIdempotencyKeysAreBounded: a tenant that has used too many gets no more, others do.
func TestIdempotencyKeysAreBounded(t *testing.T) {
	db, clock := keyed(t)
	attempt := func(tenantID, key string) (*Attempt, error) {
		a, answer, err := db.Attempts.Begin(t.Context(), KeyedRequest{tenantID, key, "request"})
		require.Nil(t, answer)
		return a, err
	}
	var attempts []*Attempt
	for i := range 3 {
		a, err := attempt("tnt_a", fmt.Sprint(i))
		require.NoError(t, err)
		attempts = append(attempts, a)
	}
	_, err := attempt("tnt_a", "one more")
	require.Equal(t, api.RateLimited, api.From(err).Code)
	require.Positive(t, api.From(err).RetryAfterSeconds())
	_, err = attempt("tnt_b", "0")
	require.NoError(t, err)

	// A refusal frees its key, an answer does not, and a key that is taken over counts once.
	require.NoError(t, db.Attempts.Release(t.Context(), attempts[0]))
	require.NoError(t, db.Attempts.Keep(t.Context(), attempts[1], "answer"))
	keys, bytes := db.usage(t, "tnt_a")
	require.Equal(t, []int64{2, 6}, []int64{keys, bytes})
	*clock = clock.Add(attemptLease)
	_, err = attempt("tnt_a", "2")
	require.NoError(t, err)
	require.NoError(t, db.Attempts.Release(t.Context(), attempts[2]), "which has lost its key")
	require.ErrorIs(t, db.Attempts.Keep(t.Context(), attempts[2], "too late"), api.ErrKeyBusy)
	_, err = attempt("tnt_a", "one more")
	require.NoError(t, err)
	_, err = attempt("tnt_a", "and another")
	require.Equal(t, api.RateLimited, api.From(err).Code)
	keys, _ = db.usage(t, "tnt_a")
	require.EqualValues(t, 3, keys)

	*clock = clock.Add(keepKeys)
	require.NoError(t, db.Attempts.Forget(t.Context()))
	for _, tenantID := range []string{"tnt_a", "tnt_b"} {
		keys, bytes := db.usage(t, tenantID)
		require.Equal(t, []int64{0, 0}, []int64{keys, bytes})
	}

	_, err = attempt("tnt_a", "1")
	require.NoError(t, err)
	require.NoError(t, db.Change(t.Context(), func(tx *Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE idempotency_usage SET bytes = $1 WHERE tenant_id = 'tnt_a'`, maxAnswers)
		return err
	}))
	_, err = attempt("tnt_a", "long answers")
	require.Equal(t, api.RateLimited, api.From(err).Code)
}

// TestChangeOfALostAttempt takes no effect, and a change that fails leaves the key as it was.
func TestChangeOfALostAttempt(t *testing.T) {
	db, clock := keyed(t)
	request := KeyedRequest{"tnt_a", "key", "request"}
	first, _, err := db.Attempts.Begin(t.Context(), request)
	require.NoError(t, err)
	emit := func(a *Attempt, then error) error {
		ctx := WithAttempt(t.Context(), a)
		return db.Change(ctx, func(tx *Tx) error {
			if err := tx.Emit(ctx, suspended, event("tnt_a", "rgh_a")); err != nil {
				return err
			}
			return then
		})
	}
	refused := api.Conflict("no")
	require.ErrorIs(t, emit(first, refused), refused)
	*clock = clock.Add(attemptLease)
	second, _, err := db.Attempts.Begin(t.Context(), request)
	require.NoError(t, err, "nothing was changed yet")
	require.ErrorIs(t, emit(first, nil), api.ErrKeyBusy)
	require.NoError(t, emit(second, nil))
	require.NoError(t, emit(second, nil), "an attempt may make several changes")
	require.NoError(t, db.Attempts.Release(t.Context(), second))
	_, _, err = db.Attempts.Begin(t.Context(), request)
	require.ErrorIs(t, err, errAnswerLost)
	n, err := Count(t.Context(), db.Read(), "events", `SELECT COUNT(*) FROM outbox WHERE tenant_id = $1`, "tnt_a")
	require.NoError(t, err)
	require.EqualValues(t, 2, n)
}

// TestForgottenAnswers: a retry whose answer was deleted is refused at once, and not told to
// wait.
func TestForgottenAnswers(t *testing.T) {
	db, _ := keyed(t)
	request := KeyedRequest{"tnt_a", "key", "request"}
	first, _, err := db.Attempts.Begin(t.Context(), request)
	require.NoError(t, err)
	require.NoError(t, db.Attempts.Keep(t.Context(), first, "answer"))
	running, _, err := db.Attempts.Begin(t.Context(), KeyedRequest{"tnt_a", "another key", "request"})
	require.NoError(t, err)
	require.NoError(t, db.Change(t.Context(), func(tx *Tx) error { return tx.ForgetAnswers(t.Context(), "tnt_a") }))
	_, _, err = db.Attempts.Begin(t.Context(), request)
	require.ErrorIs(t, err, errAnswerLost)
	_, _, err = db.Attempts.Begin(t.Context(), running.KeyedRequest)
	require.ErrorIs(t, err, api.ErrKeyBusy)
	require.NoError(t, db.Attempts.Keep(t.Context(), running, "answer"))
	_, answer, err := db.Attempts.Begin(t.Context(), running.KeyedRequest)
	require.NoError(t, err)
	require.Equal(t, "answer", *answer, "its change is later")
}

// TestForgottenAnswerOfARunningRequest: a request that took effect before the answers were forgotten keeps
// none; the request that forgets them keeps its own.
func TestForgottenAnswerOfARunningRequest(t *testing.T) {
	db, _ := keyed(t)
	begin := func(key string, do func(ctx context.Context, tx *Tx) error) *Attempt {
		a, _, err := db.Attempts.Begin(t.Context(), KeyedRequest{"tnt_a", key, "request"})
		require.NoError(t, err)
		ctx := WithAttempt(t.Context(), a)
		require.NoError(t, db.Change(ctx, func(tx *Tx) error { return do(ctx, tx) }))
		return a
	}
	emit := func(ctx context.Context, tx *Tx) error { return tx.Emit(ctx, suspended, event("tnt_a", "rgh_a")) }
	running := begin("running", emit)
	erasing := begin("erasing", func(ctx context.Context, tx *Tx) error {
		return errors.Join(emit(ctx, tx), tx.ForgetAnswers(ctx, "tnt_a"))
	})
	require.NoError(t, db.Attempts.Keep(t.Context(), running, "of ada"))
	require.NoError(t, db.Attempts.Keep(t.Context(), erasing, "of nobody"))
	_, _, err := db.Attempts.Begin(t.Context(), running.KeyedRequest)
	require.ErrorIs(t, err, errAnswerLost)
	_, answer, err := db.Attempts.Begin(t.Context(), erasing.KeyedRequest)
	require.NoError(t, err)
	require.Equal(t, "of nobody", *answer)
	_, bytes := db.usage(t, "tnt_a")
	require.EqualValues(t, len("of nobody"), bytes)
}
