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

// keyed is a database that keeps few keys, three of an API key, with a clock that the test sets.
func keyed(t *testing.T) (db *DB, at *time.Time) {
	t.Helper()
	clock := now
	stacktest.Both(t)
	path, url := storetest.Place(t, t.TempDir())
	db, err := Open(t.Context(), Config{Path: path, URL: url, Now: func() time.Time { return clock }, maxKeys: 3 * callerShare})
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
	require.NoError(t, db.Read().QueryRowContext(t.Context(), `SELECT COALESCE(SUM(row_count), 0), COALESCE(SUM(bytes), 0) FROM idempotency_usage WHERE tenant_id = $1`, tenantID).Scan(&keys, &bytes))
	require.Equal(t, []int64{rows, length}, []int64{keys, bytes})
	return keys, bytes
}

// TestIdempotencyKeysAreBounded: an API key that has used too many gets no more until the first of them ends, others of
// its tenant do until all have used as many, and other tenants do.
func TestIdempotencyKeysAreBounded(t *testing.T) {
	db, clock := keyed(t)
	caller := "key_a"
	attempt := func(tenantID, key string) (*Attempt, error) {
		a, answer, err := db.Attempts.Begin(t.Context(), KeyedRequest{tenantID, caller, key, "request"})
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
	require.Contains(t, err.Error(), "this API key")
	require.Equal(t, int(keepKeys/time.Second), api.From(err).RetryAfterSeconds())
	_, err = attempt("tnt_b", "0")
	require.NoError(t, err)
	caller = "key_b"
	b, err := attempt("tnt_a", "one more")
	require.NoError(t, err)
	require.NoError(t, db.Attempts.Release(t.Context(), b))
	caller = "key_a"

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

	*clock = clock.Add(keepKeys)
	for n := range 3 * callerShare {
		caller = fmt.Sprint("key_", n/3)
		_, err = attempt("tnt_a", fmt.Sprint(n))
		require.NoError(t, err)
	}
	*clock = clock.Add(time.Hour)
	caller = "key_new"
	_, err = attempt("tnt_a", "new")
	require.ErrorContains(t, err, "this tenant")
	require.Equal(t, int((keepKeys-time.Hour)/time.Second), api.From(err).RetryAfterSeconds())
	*clock = clock.Add(keepKeys)
	require.NoError(t, db.Attempts.Forget(t.Context()))

	caller = "key_a"
	_, err = attempt("tnt_a", "1")
	require.NoError(t, err)
	require.NoError(t, db.Change(t.Context(), func(tx *Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE idempotency_usage SET bytes = $1 WHERE tenant_id = 'tnt_a'`, maxAnswers/callerShare)
		return err
	}))
	_, err = attempt("tnt_a", "long answers")
	require.Equal(t, api.RateLimited, api.From(err).Code)
	caller = "key_b"
	_, err = attempt("tnt_a", "long answers")
	require.NoError(t, err)
}

// TestChangeOfALostAttempt takes no effect, and a change that fails leaves the key as it was.
func TestChangeOfALostAttempt(t *testing.T) {
	db, clock := keyed(t)
	request := KeyedRequest{"tnt_a", "key_a", "key", "request"}
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
	request := KeyedRequest{"tnt_a", "key_a", "key", "request"}
	first, _, err := db.Attempts.Begin(t.Context(), request)
	require.NoError(t, err)
	require.NoError(t, db.Attempts.Keep(t.Context(), first, "answer"))
	running, _, err := db.Attempts.Begin(t.Context(), KeyedRequest{"tnt_a", "key_a", "another key", "request"})
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
		a, _, err := db.Attempts.Begin(t.Context(), KeyedRequest{"tnt_a", "key_a", key, "request"})
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
