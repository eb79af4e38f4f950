package right

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// A right's suspensions and resumptions are kept for good, because rows arrive up to 30 days after
// their plays: a play needs its right, and the rights above it, in force when it was played. Nodes
// get the newest suspensions with the right, and ask for others.

// move is a suspension or a resumption.
type move struct {
	state    api.RightState // that it led to
	revision int64
	at       store.Instant
}

// recordMove records that a right was suspended or resumed, as its record says now. It does nothing
// if that is recorded already. A revocation is not recorded: nothing is delivered after it.
func recordMove(ctx context.Context, tx *store.Tx, r *Right, revision int64) (recorded bool, err error) {
	if r.State == api.RightRevoked {
		return false, nil
	}
	done, err := tx.ExecContext(ctx, `INSERT INTO right_moves (right_id, tenant_id, revision, state, moved_at) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
		r.ID, r.TenantID, revision, r.State, r.UpdatedAt)
	if err != nil {
		return false, fmt.Errorf("cannot record that the right %s is %s: %w", r.ID, r.State, err)
	}
	n, err := done.RowsAffected()
	return n > 0, err
}

// knownMoves is more moves than the suspensions that nodes get take, and one.
const knownMoves = 2 * (api.MostSuspensions + 1)

// publish publishes a right, with its newest suspensions.
func publish(ctx context.Context, tx *store.Tx, r *Right) error {
	moves, err := store.List(ctx, tx, "the suspensions of the right "+r.ID, func(row store.Row) (m move, err error) { return m, row.Scan(&m.state, &m.revision, &m.at) },
		`SELECT state, revision, moved_at FROM right_moves WHERE right_id = $1 ORDER BY revision DESC LIMIT $2`, r.ID, knownMoves)
	if err != nil {
		return err
	}
	n := r.snapshot()
	n.Suspensions, n.SuspensionsSince = suspensions(moves, tx.Now())
	return store.Publish(ctx, tx, api.Rights, n)
}

// suspensions returns what nodes get of a right's moves, of which these are the newest, newest
// first.
func suspensions(moves []move, now time.Time) (known []api.Suspension, since time.Time) {
	var until time.Time
	for _, m := range moves {
		if m.state != api.RightSuspended {
			until = m.at.Time
			continue
		}
		if len(known) == api.MostSuspensions || !until.IsZero() && now.Sub(until) >= api.KnownSuspensionAge {
			since = until
			break
		}
		known = append(known, api.Suspension{From: m.at.Time, Until: until})
	}
	slices.Reverse(known)
	return known, since
}

// Suspended reports for each moment whether the right itself was suspended then.
func Suspended(ctx context.Context, db *store.DB, moments []api.RightMoment) (suspended []bool, err error) {
	suspended = make([]bool, len(moments))
	return suspended, db.View(ctx, func(q store.Querier) (err error) {
		for i, m := range moments {
			if suspended[i], err = suspendedAt(ctx, q, m); err != nil {
				return err
			}
		}
		return nil
	})
}

func suspendedAt(ctx context.Context, q store.Querier, m api.RightMoment) (bool, error) {
	state, err := store.One(ctx, q, "whether the right "+m.RightID+" was suspended", store.Text,
		`SELECT state FROM right_moves WHERE right_id = $1 AND moved_at <= $2 ORDER BY moved_at DESC, revision DESC LIMIT 1`, m.RightID, store.At(m.At))
	return state != nil && *state == string(api.RightSuspended), err
}

// Waits reports whether rows of a right have to wait: it, or a right above it, is suspended, and none of
// them is revoked. Rows of a right that the tenant doesn't have need not wait to be refused.
func Waits(ctx context.Context, q store.Querier, tenantID, id string) (bool, error) {
	r, err := rights.Find(ctx, q, tenantID, id)
	if store.IsNone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	above, err := readAncestors(ctx, q, r, map[string]standing{})
	waits := false
	for _, s := range append(above, r.standing()) {
		if s.state == api.RightRevoked {
			return false, err
		}
		waits = waits || s.state == api.RightSuspended
	}
	return waits, err
}

// ReplayMove restores a suspension or a resumption that an older database lacks, from its event.
// changed is for suspensions alone: a resumption is no stop.
func ReplayMove(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	if e.Type != eventSuspended.Type && e.Type != eventResumed.Type {
		return false, nil
	}
	var said Right
	if err := json.Unmarshal(e.Data, &said); err != nil {
		return false, fmt.Errorf("cannot read the right's record: %w", err)
	}
	r, err := rights.Find(ctx, tx, e.TenantID, e.Subject.ID)
	if store.IsNone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	said.ID, said.TenantID = r.ID, r.TenantID
	recorded, err := recordMove(ctx, tx, &said, said.Revision)
	if err != nil || !recorded {
		return false, err
	}
	next := *r
	return e.Type == eventSuspended.Type, rights.Update(ctx, tx, r, &next)
}
