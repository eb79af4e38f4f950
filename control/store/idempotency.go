package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"muniment.example/gateway/api"
)

// # Requests with an Idempotency-Key
//
// A request with a key begins as an attempt, which claims the key for attemptLease and ends with
// Keep or Release. The first change in the attempt's context (WithAttempt) marks the key in its own
// transaction. From then on no other attempt begins with the key until keepKeys is over, whatever
// happens to this one. An attempt that stalls for longer than its lease loses the key to the next
// one, and can change nothing any more. So a request takes effect at most once, wherever it is
// killed or stalled.
//
// An attempt that ended between its change and its answer leaves a key without an answer. A retry
// is refused, and its error says that the first request took effect.

const (
	// keepKeys is how long a key is kept.
	keepKeys = 24 * time.Hour
	// attemptLease is how long an attempt holds its key.
	attemptLease = time.Minute
	// maxKeys and maxAnswers, in bytes, limit what is kept for a tenant. One of its API keys may have a share of it, so
	// that a player's leaves some to all others.
	maxKeys     = 100_000
	maxAnswers  = 256 << 20
	callerShare = 4
	// forgetAtOnce is how many keys one change deletes.
	forgetAtOnce = 1000
)

const (
	attemptRunning = "RUNNING"
	attemptDone    = "DONE"
)

var errAnswerLost = api.Conflict("the first request with this Idempotency-Key took effect, but its answer was lost: read what it changed")

// errTooManyKeys refuses a key until others end.
func errTooManyKeys(of string, retryAfter time.Duration) error {
	return &api.Error{
		Code: api.RateLimited, Message: of + " has used too many Idempotency-Keys in the last 24 hours, or had too long answers to them: send the request without one, or later",
		RetryAfter: max(retryAfter, time.Second),
	}
}

// KeyedRequest is a request with an Idempotency-Key. KeyHash covers the key, the caller and the
// route, RequestHash the rest of the request. CallerID is the id of the API key.
type KeyedRequest struct {
	TenantID, CallerID, KeyHash, RequestHash string
}

// Attempt is a run of a request that has an Idempotency-Key.
type Attempt struct {
	KeyedRequest
	token string
}

// Attempts keeps requests with an Idempotency-Key.
type Attempts struct{ db *DB }

// Begin begins an attempt. If there was an earlier request with the key, attempt is nil and
// answer is the one that was kept. An error may be shown to the caller. A tenant, or an API key of it, that has used
// too many keys is refused with RATE_LIMITED.
func (attempts *Attempts) Begin(ctx context.Context, r KeyedRequest) (attempt *Attempt, answer *string, err error) {
	if answer, err = r.earlier(ctx, attempts.db.read, attempts.db.Now()); answer != nil || err != nil {
		return nil, answer, attempts.confirmLost(ctx, err)
	}
	if err = attempts.db.Reserved(); err != nil { // the disk space that is left is for stops, not for keys
		return nil, nil, err
	}
	attempt = &Attempt{r, rand.Text()}
	err = attempts.db.Change(ctx, func(tx *Tx) error {
		if answer, err = r.earlier(ctx, tx, tx.Now()); answer != nil || err != nil {
			return err
		}
		return tx.claim(ctx, attempt)
	})
	if answer != nil || err != nil {
		attempt = nil
	}
	return attempt, answer, attempts.confirmLost(ctx, err)
}

// confirmLost confirms the change of which the answer was lost: of a stop, it may be that it was not
// confirmed.
func (attempts *Attempts) confirmLost(ctx context.Context, err error) error {
	if errors.Is(err, errAnswerLost) {
		return cmp.Or(attempts.db.Confirm(ctx), err)
	}
	return err
}

// earlier returns the answer that was kept for an earlier request with the key; nil if no request
// took effect or may still do so.
func (r KeyedRequest) earlier(ctx context.Context, q Querier, now time.Time) (answer *string, err error) {
	type kept struct {
		requestHash, state string
		leaseUntil         int64
		answer             *string
	}
	k, err := One(ctx, q, "an Idempotency-Key", func(row Row) (k kept, err error) {
		return k, row.Scan(&k.requestHash, &k.state, &k.leaseUntil, &k.answer)
	}, `SELECT request_hash, state, lease_until, answer FROM idempotency WHERE tenant_id = $1 AND key_hash = $2 AND expires_at > $3`,
		r.TenantID, r.KeyHash, Millis(now))
	if err != nil || k == nil {
		return nil, err
	}
	leased := k.leaseUntil > Millis(now)
	switch {
	case k.state == attemptRunning && !leased:
		return nil, nil
	case k.requestHash != r.RequestHash:
		return nil, api.ErrKeyReused
	case k.answer != nil:
		return k.answer, nil
	case leased:
		return nil, api.ErrKeyBusy
	}
	return nil, errAnswerLost
}

// claim gives the attempt its key. An earlier attempt with the key has ended.
func (tx *Tx) claim(ctx context.Context, a *Attempt) error {
	if _, err := tx.forget(ctx, `tenant_id = $1 AND key_hash = $2`, a.TenantID, a.KeyHash); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO idempotency_usage (tenant_id, caller_id, row_count, bytes) VALUES ($1, $2, 1, 0)
		ON CONFLICT (tenant_id, caller_id) DO UPDATE SET row_count = idempotency_usage.row_count + 1`, a.TenantID, a.CallerID)
	if err == nil {
		err = tx.withinShare(ctx, a)
	}
	if err != nil {
		return fmt.Errorf("cannot count an Idempotency-Key: %w", err)
	}
	now := tx.Now()
	_, err = tx.ExecContext(ctx, `INSERT INTO idempotency (tenant_id, caller_id, key_hash, request_hash, token, state, lease_until, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		a.TenantID, a.CallerID, a.KeyHash, a.RequestHash, a.token, attemptRunning, Millis(now.Add(attemptLease)), Millis(now.Add(keepKeys)))
	if err != nil {
		return fmt.Errorf("cannot claim an Idempotency-Key: %w", err)
	}
	return nil
}

// withinShare refuses the attempt if its tenant or its caller has too many keys or too long answers. Retry-After tells
// when the oldest of them ends.
func (tx *Tx) withinShare(ctx context.Context, a *Attempt) error {
	var tenantKeys, tenantBytes, keys, bytes int64
	err := tx.QueryRowContext(ctx, `SELECT SUM(row_count), SUM(bytes), SUM(CASE WHEN caller_id = $2 THEN row_count ELSE 0 END), SUM(CASE WHEN caller_id = $2 THEN bytes ELSE 0 END)
		FROM idempotency_usage WHERE tenant_id = $1`, a.TenantID, a.CallerID).Scan(&tenantKeys, &tenantBytes, &keys, &bytes)
	most := tx.db.cfg.maxKeys
	who, where, args := "", `u.tenant_id = $1`, []any{a.TenantID}
	switch {
	case err != nil:
		return err
	case tenantKeys > most || tenantBytes >= maxAnswers:
		who = "this tenant"
	case keys > most/callerShare || bytes >= maxAnswers/callerShare:
		who, where, args = "this API key", where+` AND u.caller_id = $2`, append(args, a.CallerID)
	default:
		return nil
	}
	var ends int64
	if err := tx.QueryRowContext(ctx, `SELECT COALESCE(MIN((SELECT MIN(expires_at) FROM idempotency i WHERE i.tenant_id = u.tenant_id AND i.caller_id = u.caller_id)), 0)
		FROM idempotency_usage u WHERE `+where, args...).Scan(&ends); err != nil {
		return err
	}
	return errTooManyKeys(who, time.UnixMilli(ends).Sub(tx.Now()))
}

type attemptKey struct{}

// WithAttempt returns a context whose changes belong to the attempt: each is made only
// while the attempt still has its key, and marks it.
func WithAttempt(ctx context.Context, a *Attempt) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}

// takeEffect marks the key of the attempt that the change belongs to, if any. Once another attempt
// has the key, the error is ErrKeyBusy.
func (tx *Tx) takeEffect(ctx context.Context) error {
	a, ok := ctx.Value(attemptKey{}).(*Attempt)
	if !ok {
		return nil
	}
	has, err := tx.update(ctx, a, `state = $4`, attemptDone)
	if err == nil && !has {
		err = api.ErrKeyBusy
	}
	return err
}

// update sets columns of the attempt's row; has is false if another attempt has the key.
func (tx *Tx) update(ctx context.Context, a *Attempt, set string, args ...any) (has bool, err error) {
	result, err := tx.ExecContext(ctx, `UPDATE idempotency SET `+set+` WHERE tenant_id = $1 AND key_hash = $2 AND token = $3`,
		append([]any{a.TenantID, a.KeyHash, a.token}, args...)...)
	var n int64
	if err == nil {
		n, err = result.RowsAffected()
	}
	if err != nil {
		return false, fmt.Errorf("cannot mark an Idempotency-Key: %w", err)
	}
	return n == 1, nil
}

// Keep ends an attempt with its answer, which every retry gets, unless ForgetAnswers has forgotten it. The
// text is kept unchanged.
func (attempts *Attempts) Keep(ctx context.Context, a *Attempt, answer string) error {
	if err := attempts.db.Reserved(); err != nil {
		return err
	}
	return attempts.db.Change(ctx, func(tx *Tx) error {
		has, err := tx.update(ctx, a, `state = $4, answer = CASE WHEN lease_until > 0 THEN $5 ELSE answer END`, attemptDone, answer)
		if err == nil && !has {
			err = api.ErrKeyBusy
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, `UPDATE idempotency_usage SET bytes = bytes + COALESCE((SELECT LENGTH(answer) FROM idempotency WHERE tenant_id = $1 AND key_hash = $2), 0) WHERE tenant_id = $1 AND caller_id = $3`, a.TenantID, a.KeyHash, a.CallerID)
		}
		return err
	})
}

// Release ends an attempt without an answer. If it made no change the key is free; otherwise a
// retry gets the error that the answer was lost.
func (attempts *Attempts) Release(ctx context.Context, a *Attempt) error {
	return attempts.db.Change(ctx, func(tx *Tx) error {
		n, err := tx.forget(ctx, `tenant_id = $1 AND key_hash = $2 AND token = $3 AND state = $4`, a.TenantID, a.KeyHash, a.token, attemptRunning)
		if err == nil && n == 0 {
			_, err = tx.update(ctx, a, `lease_until = $4`, 0)
		}
		return err
	})
}

// ForgetAnswers deletes all answers that are kept for a tenant, and those that other requests which took
// effect would still keep. They are encrypted under keys that only callers have, so we can't know which of
// them name a person who is erased. A retry gets the error that the answer was lost.
func (tx *Tx) ForgetAnswers(ctx context.Context, tenantID string) error {
	own := "" // whose answer comes after the change
	if a, ok := ctx.Value(attemptKey{}).(*Attempt); ok {
		own = a.token
	}
	_, err := tx.ExecContext(ctx, `UPDATE idempotency SET answer = NULL, lease_until = 0 WHERE tenant_id = $1 AND state = $2 AND token <> $3`, tenantID, attemptDone, own)
	if err == nil {
		_, err = tx.ExecContext(ctx, `UPDATE idempotency_usage SET bytes = 0 WHERE tenant_id = $1`, tenantID)
	}
	if err != nil {
		return fmt.Errorf("cannot forget the answers of %s: %w", tenantID, err)
	}
	return nil
}

// Forget deletes the Idempotency-Keys whose time is over.
func (attempts *Attempts) Forget(ctx context.Context) error {
	for {
		now := Millis(attempts.db.Now())
		ended, err := One(ctx, attempts.db.read, "an ended Idempotency-Key", Text, `SELECT key_hash FROM idempotency WHERE expires_at <= $1 LIMIT 1`, now)
		if err != nil || ended == nil {
			return err
		}
		err = attempts.db.Change(ctx, func(tx *Tx) error {
			_, err := tx.forget(ctx, `(tenant_id, key_hash) IN (SELECT tenant_id, key_hash FROM idempotency WHERE expires_at <= $1 LIMIT $2)`, now, forgetAtOnce)
			return err
		})
		if err != nil {
			return err
		}
	}
}

// forget deletes the keys that meet a condition, and subtracts them from the usage.
func (tx *Tx) forget(ctx context.Context, where string, args ...any) (n int, err error) {
	type caller struct{ tenantID, id string }
	type usage struct {
		of          caller
		keys, bytes int64
	}
	gone, err := List(ctx, tx, "the Idempotency-Keys to forget", func(row Row) (u usage, err error) {
		u.keys = 1
		return u, row.Scan(&u.of.tenantID, &u.of.id, &u.bytes)
	}, `DELETE FROM idempotency WHERE `+where+` RETURNING tenant_id, caller_id, COALESCE(LENGTH(answer), 0)`, args...)
	if err != nil {
		return 0, err
	}
	byCaller := map[caller]usage{}
	for _, g := range gone {
		u := byCaller[g.of]
		byCaller[g.of] = usage{g.of, u.keys + g.keys, u.bytes + g.bytes}
	}
	for _, u := range byCaller {
		_, err := tx.ExecContext(ctx, `UPDATE idempotency_usage SET row_count = row_count - $3, bytes = bytes - $4 WHERE tenant_id = $1 AND caller_id = $2`, u.of.tenantID, u.of.id, u.keys, u.bytes)
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM idempotency_usage WHERE tenant_id = $1 AND caller_id = $2 AND row_count = 0`, u.of.tenantID, u.of.id)
		}
		if err != nil {
			return 0, fmt.Errorf("cannot subtract Idempotency-Keys from the usage: %w", err)
		}
	}
	return len(gone), nil
}
