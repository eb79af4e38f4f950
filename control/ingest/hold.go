package ingest

import (
	"context"
	"database/sql"

	"muniment/control/store"
	"muniment/gateway/api"
)

var errFull = &api.Error{Code: api.RateLimited, Message: "this tenant has as many rows waiting for mappings as it may have: make the mappings, then send the row again"}

// Hold holds rows of one caller, and returns a result for each, in their order. They are on
// disk when it returns, in pieces: after an error some may be held. One that is held already
// stays as it is. If a mapping has come meanwhile, they are delivered at once.
func (r *Room) Hold(ctx context.Context, q api.HoldRequest) ([]api.HeldResult, error) {
	results := make([]api.HeldResult, 0, len(q.Rows))
	for left := q.Rows; len(left) > 0; {
		n := min(len(left), api.MostHeldRows)
		some, err := r.hold(ctx, q.TenantID, q.KeyID, left[:n])
		if err != nil {
			return nil, err
		}
		results, left = append(results, some...), left[n:]
	}
	return results, nil
}

// hold is Hold in one transaction.
func (r *Room) hold(ctx context.Context, tenantID, keyID string, rows []api.HeldRow) (results []api.HeldResult, err error) {
	if err := r.db.Reserved(); err != nil {
		return nil, err
	}
	now := store.At(r.db.Now())
	err = r.db.Aside(ctx, func(tx *sql.Tx) error {
		u, err := lockUsage(ctx, tx, tenantID)
		if err != nil {
			return err
		}
		results = make([]api.HeldResult, len(rows))
		replay := false
		for i := range rows {
			h, err := take(tenantID, keyID, &rows[i], now)
			if err == nil {
				err = r.holdOne(ctx, tx, &h, &u)
			}
			if refused := (*api.Error)(nil); err != nil {
				if refused = api.From(err); refused.GetStatus() >= 500 {
					return err
				}
				results[i].Error = &api.HeldError{Code: refused.Code, Message: refused.Message, Field: refused.Field}
				continue
			}
			results[i].HeldID = h.ID
			if !replay {
				if replay, err = h.mapped(ctx, tx); err != nil {
					return err
				}
			}
		}
		if err := setUsage(ctx, tx, tenantID, u); err != nil || !replay {
			return err
		}
		return r.db.EnqueueAside(ctx, tx, replayJob(tenantID))
	})
	return results, err
}

// holdOne holds a row within the quota. One of its identity that is there gives it its id.
func (r *Room) holdOne(ctx context.Context, tx *sql.Tx, h *HeldRow, u *usage) error {
	there, err := findHeld(ctx, tx, h.tenantID, h.identity)
	switch {
	case err != nil:
		return err
	case there != nil && there.State == Held && !there.sameContent(h):
		return api.Conflict("a row of this identity and other content is held: " + there.ID)
	case there != nil:
		h.ID = there.ID
		return nil
	case u.rows >= r.cfg.MaxHeldRows || u.bytes+h.size() > r.cfg.MaxHeldBytes:
		return errFull
	}
	if _, err := h.insert(ctx, tx); err != nil {
		return err
	}
	u.rows, u.bytes = u.rows+1, u.bytes+h.size()
	return nil
}
