package ingest

import (
	"context"
	"database/sql"
	"slices"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

var errFull = &api.Error{Code: api.RateLimited, Message: "this tenant has the maximum of rows that wait: create the mappings or resume the rights that they wait for, then send the row again"}

// Hold holds rows of one caller and returns a result for each, in their order; and it keeps rejected plays.
// All are durable when it returns nil. It writes them in several transactions, so after an error some may be held; the
// caller retries. Rows that are already held or delivered are not changed. If their mapping was
// created meanwhile, they are queued for delivery at once; rows whose right was resumed meanwhile, by
// the next Wake.
func (s *Service) Hold(ctx context.Context, q api.HoldRequest) ([]api.HeldResult, error) {
	results := make([]api.HeldResult, 0, len(q.Rows))
	for left := q.Rows; len(left) > 0; {
		n := min(len(left), api.MostHeldRows)
		some, err := s.hold(ctx, q.TenantID, q.KeyID, left[:n])
		if err != nil {
			return nil, err
		}
		results, left = append(results, some...), left[n:]
	}
	if len(q.Rejected) > 0 {
		return results, s.keep(ctx, &q)
	}
	return results, nil
}

// hold holds rows in one transaction.
func (s *Service) hold(ctx context.Context, tenantID, keyID string, rows []api.HeldRow) (results []api.HeldResult, err error) {
	if err := s.db.Reserved(); err != nil {
		return nil, err
	}
	now := store.At(s.db.Now())
	err = s.db.Transact(ctx, func(tx *sql.Tx) error {
		u, err := lockUsage(ctx, tx, tenantID)
		if err != nil {
			return err
		}
		hashOf, err := s.cfg.Erased(ctx, tx, tenantID)
		if err != nil {
			return err
		}
		results = make([]api.HeldResult, len(rows))
		marked := map[string]bool{}
		for i := range rows {
			h, err := s.take(tenantID, keyID, &rows[i], now)
			if err == nil {
				err = h.forget(hashOf)
			}
			if err == nil {
				results[i].Delivered, err = s.holdOne(ctx, tx, &h, &u)
			}
			if err != nil {
				if api.From(err).GetStatus() >= 500 {
					return err
				}
				results[i].Error = rowError(err)
				continue
			}
			results[i].HeldID = h.ID
			if results[i].Delivered || h.Reason != api.HeldUnmapped || marked[h.vendorKey] {
				continue
			}
			if mapped, err := h.mapped(ctx, tx); err != nil {
				return err
			} else if mapped {
				marked[h.vendorKey] = true
				if err := mark(ctx, tx, tenantID, h.vendorKey); err != nil {
					return err
				}
			}
		}
		if err := setUsage(ctx, tx, tenantID, u); err != nil || len(marked) == 0 {
			return err
		}
		return s.db.EnqueueIn(ctx, tx, replayJob(tenantID))
	})
	return results, err
}

// forget removes from a row the persons whom an erasure covers: nothing else would find the row, which is
// held after the erasure has begun. hashOf is of Config.Erased.
func (h *HeldRow) forget(hashOf func(reference string) string) error {
	all, err := store.ReadPersons(h.personal.dataSubjects)
	if hashOf == nil || err != nil {
		return err
	}
	was := *h
	left := slices.DeleteFunc(slices.Clone(all), func(person string) bool { return hashOf(person) != "" })
	if h.personal.dataSubjects, err = store.WritePersons(left); err != nil {
		return err
	}
	if len(left) == 0 && len(all) > 0 {
		h.personal.telemetry = ""
	}
	if h.writtenRow, err = without(h.writtenRow, rowTexts, hashOf); err != nil {
		return err
	}
	if h.personal.telemetry, err = without(h.personal.telemetry, []string{"*"}, hashOf); err != nil {
		return err
	}
	if h.personal != was.personal || h.writtenRow != was.writtenRow {
		h.content = ""
	}
	return nil
}

// without replaces the texts that name an erased person, in some members of a JSON text.
func without(text string, members []string, hashOf func(reference string) string) (string, error) {
	return store.ReplaceTexts(text, members, func(_, text string) (hash string, named bool) {
		sealer.References(text, func(reference string) bool {
			hash = hashOf(reference)
			return hash == ""
		})
		return hash, hash != ""
	})
}

// holdOne holds a row within the quota. An existing row of the same identity determines its id; it
// is replaced if it is no longer HELD and has no receipt.
func (s *Service) holdOne(ctx context.Context, tx *sql.Tx, h *HeldRow, u *usage) (delivered bool, err error) {
	there, err := findHeld(ctx, tx, h.tenantID, h.identity)
	switch {
	case err != nil:
		return false, err
	case there != nil && there.State == Held && !h.sameContent(there):
		return false, api.Conflict("a row with the same identity but other content is held: " + there.ID)
	case there != nil && (there.State == Held || there.ReceiptID != nil):
		h.ID = there.ID
		return there.ReceiptID != nil, nil
	case u.rows >= s.cfg.MaxHeldRows || u.bytes+h.size() > s.cfg.MaxHeldBytes:
		return false, errFull
	}
	if there != nil {
		h.ID = there.ID
		if err := forget(ctx, tx, h.tenantID, h.ID); err != nil {
			return false, err
		}
	}
	u.rows, u.bytes = u.rows+1, u.bytes+h.size()
	return false, h.insert(ctx, tx)
}
