package ingest

import (
	"context"
	"database/sql"
	"slices"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

var errFull = &api.Error{Code: api.RateLimited, Message: "this tenant has the maximum of rows that wait: create the mappings or resume the rights that they wait for, then send the row again"}

// Hold holds rows of one caller and returns a result for each, in their order; and it keeps rejected plays.
// All are durable when it returns nil. It writes them in several transactions, so after an error some may be held; the
// caller retries. Rows that are already held or delivered are not changed. If their mapping was
// created meanwhile, they are queued for delivery at once; rows whose right was resumed meanwhile, by
// the next Wake.
func (s *Service) Hold(ctx context.Context, q api.HoldRequest) ([]api.HeldResult, error) {
	ctx = store.QueueAs(ctx, q.TenantID, false)
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
		search, err := s.searchErased(ctx, tx, tenantID)
		if err != nil {
			return err
		}
		results = make([]api.HeldResult, len(rows))
		marked := map[string]bool{}
		for i := range rows {
			h, err := s.take(tenantID, keyID, &rows[i], now)
			if err == nil {
				err = h.forget(search)
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
		return s.db.Jobs.EnqueueIn(ctx, tx, replayJob(tenantID))
	})
	return results, err
}

// erasedSearch looks for the persons of a tenant whom an erasure covers, in rows that arrive. nil: there are
// none.
type erasedSearch struct {
	hashOf func(reference string) string // of Config.Erased
	left   int                           // references in texts
}

// mostReferences bounds the work of one transaction: rows that are made to have very many references must
// not delay everybody's.
const mostReferences = 500_000

func (s *Service) searchErased(ctx context.Context, q store.Querier, tenantID string) (*erasedSearch, error) {
	hashOf, err := s.cfg.Erased(ctx, q, tenantID)
	if err != nil || hashOf == nil {
		return nil, err
	}
	return &erasedSearch{hashOf, mostReferences}, nil
}

var errUnsearchable = &api.Error{Code: api.RateLimited, Message: "a person is being erased, and the texts are too long to be searched for the person: send this again in a minute", RetryAfter: api.ClockSlack}

// forget removes from a row the persons whom an erasure covers: nothing else would find the row, which is
// held after the erasure has begun.
func (h *HeldRow) forget(search *erasedSearch) error {
	if search == nil {
		return nil
	}
	all, err := store.ReadPersons(h.personal.dataSubjects)
	if err != nil {
		return err
	}
	was := *h
	left := slices.DeleteFunc(slices.Clone(all), func(person string) bool { return search.hashOf(person) != "" })
	if h.personal.dataSubjects, err = store.WritePersons(left); err != nil {
		return err
	}
	if len(left) == 0 && len(all) > 0 {
		h.personal.telemetry = ""
	}
	if h.writtenRow, err = search.without(h.writtenRow, rowTexts); err != nil {
		return err
	}
	if h.personal.telemetry, err = search.without(h.personal.telemetry, []string{"*"}); err != nil {
		return err
	}
	if h.personal != was.personal || h.writtenRow != was.writtenRow {
		h.content = ""
	}
	return nil
}

// without replaces the texts that name an erased person, in some members of a JSON text.
func (s *erasedSearch) without(text string, members []string) (string, error) {
	searched := true
	left, err := store.ReplaceTexts(text, members, func(_, text string) (hash string, named bool) {
		all := sealer.References(text, func(reference string) bool {
			s.left--
			hash = s.hashOf(reference)
			return hash == "" && s.left > 0
		})
		searched = searched && (hash != "" || all && s.left > 0)
		return hash, hash != ""
	})
	if err == nil && !searched {
		err = errUnsearchable
	}
	return left, err
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
