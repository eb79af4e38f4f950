package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

var mappings = store.Machine[Mapping, Action, State]{
	Records: store.Records[Mapping]{Noun: "mapping", Table: "mappings"}, // nodes get vendors' ids: publish
	Steps:   transitions,
}

// inForce is the condition of the index mappings_in_force: all but the mappings that were
// retired before they began.
const inForce = `(effective_until IS NULL OR effective_until > effective_from)`

// publish writes to the feed, under the mapping's revision, all windows of its vendor's id that
// nodes may need.
func publish(ctx context.Context, tx *store.Tx, m *Mapping) error {
	windows, err := listWindows(ctx, tx, m.VendorKey, horizon(tx))
	if err != nil {
		return err
	}
	return store.Publish(ctx, tx, api.Mappings, snapshot(m, windows))
}

// horizon is the moment before which a window must have ended so that nodes no longer need it.
func horizon(tx *store.Tx) store.Instant { return store.At(tx.Now().Add(-keepWindows)) }

func snapshot(m *Mapping, windows []Mapping) *api.Mapping {
	s := &api.Mapping{ID: m.VendorKey, TenantID: m.TenantID, Revision: m.Revision, Windows: make([]api.MappingWindow, 0, len(windows))}
	for i := range windows {
		s.Windows = append(s.Windows, windows[i].window())
	}
	return s
}

// fits returns STATE_CONFLICT if the record of a vendor's id would exceed maxSnapshot.
func fits(ctx context.Context, tx *store.Tx, m *Mapping) error {
	windows, err := listWindows(ctx, tx, m.VendorKey, horizon(tx))
	if err != nil {
		return err
	}
	c, err := api.Mappings.Change(snapshot(m, append(windows, *m)))
	if err == nil && len(c.Snapshot) > maxSnapshot {
		err = api.Conflict(fmt.Sprintf("this vendor id has %d mappings that are or will be in force, or were within the last %d days: a node can't hold more", len(windows), keepWindows/(24*time.Hour)))
	}
	return err
}

// listWindows lists the windows of a vendor's id that end after a moment. As windows don't overlap,
// at most one of them begins before it.
func listWindows(ctx context.Context, q store.Querier, vendorKey string, after store.Instant) ([]Mapping, error) {
	return store.List(ctx, q, "the windows of "+vendorKey, mappings.Scan, mappings.Select()+` WHERE vendor_key = $1 AND `+inForce+`
		AND effective_from >= COALESCE((SELECT MAX(effective_from) FROM mappings WHERE vendor_key = $1 AND `+inForce+` AND effective_from <= $2), 0)
		AND (effective_until IS NULL OR effective_until > $2) ORDER BY effective_from`, vendorKey, after)
}

// lastBefore finds the last window of a vendor's id that begins before end; nil if there is none. A
// zero end has no bound. As windows don't overlap, this is the only one that a new window with this
// end can overlap.
func lastBefore(ctx context.Context, q store.Querier, vendorKey string, end store.Instant) (*Mapping, error) {
	query, args := mappings.Select()+` WHERE vendor_key = $1 AND `+inForce, []any{vendorKey}
	if !end.IsZero() {
		query, args = query+` AND effective_from < $2`, append(args, end)
	}
	return store.One(ctx, q, "the windows of "+vendorKey, mappings.Scan, query+` ORDER BY effective_from DESC LIMIT 1`, args...)
}

// overlapped finds the existing mapping that a new one would overlap; nil if there is none.
func overlapped(ctx context.Context, q store.Querier, m *Mapping) (*Mapping, error) {
	other, err := lastBefore(ctx, q, m.VendorKey, m.EffectiveUntil)
	if err != nil || other == nil {
		return nil, err
	}
	if !other.EffectiveUntil.IsZero() && !m.EffectiveFrom.Before(other.EffectiveUntil.Time) {
		return nil, nil
	}
	return other, nil
}

// filter selects the mappings that have each given value.
type filter struct{ vendor, idType, vendorID, rightID, state string }

func (f filter) where(w *store.Where) {
	w.Is("vendor", f.vendor)
	w.Is("id_type", f.idType)
	w.Is("vendor_id", f.vendorID)
	w.Is("right_id", f.rightID)
	w.Is("state", f.state)
}

// list lists the tenant's mappings, newest first.
func list(ctx context.Context, q store.Querier, tenantID string, f filter, s store.Slice) (page []Mapping, next string, err error) {
	var w store.Where
	f.where(&w)
	return mappings.Page(ctx, q, tenantID, w, s)
}

// total counts the tenant's mappings that a filter selects. It counts the few rows of one vendor's
// id; for other filters there are counters.
func total(ctx context.Context, q store.Querier, tenantID string, f filter) (n int64, err error) {
	query := `SELECT CAST(COALESCE(SUM(row_count), 0) AS BIGINT) FROM mapping_totals`
	if f.vendorID != "" {
		query = `SELECT COUNT(*) FROM mappings`
	}
	var w store.Where
	w.Is("tenant_id", tenantID)
	f.where(&w)
	return w.Count(ctx, q, "the mappings of "+tenantID, query)
}

// count updates the counters: by is 1 for a mapping that has entered the state, -1 for one that has
// left it.
func count(ctx context.Context, tx *store.Tx, m *Mapping, state State, by int) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO mapping_totals (tenant_id, vendor, id_type, right_id, state, row_count) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (tenant_id, vendor, id_type, right_id, state) DO UPDATE SET row_count = mapping_totals.row_count + excluded.row_count`,
		m.TenantID, m.Vendor, m.IDType, m.Target.RightID, state, by)
	if err != nil {
		return fmt.Errorf("cannot count the mapping %s: %w", m.ID, err)
	}
	return nil
}

// errThere means that an identical mapping exists already.
var errThere = errors.New("the mapping exists already")

// create writes a settled mapping, unless it overlaps another or room returns an error. other is the overlapped mapping, or
// the identical one.
func create(ctx context.Context, tx *store.Tx, m *Mapping, room func() error, by sealer.Ref) (other *Mapping, err error) {
	other, err = overlapped(ctx, tx, m)
	switch {
	case err != nil:
		return nil, err
	case other != nil && other.State == Active && m.same(other):
		return other, errThere
	case other != nil:
		return other, m.overlaps(other)
	}
	if err := room(); err != nil {
		return nil, err
	}
	if err := fits(ctx, tx, m); err != nil {
		return nil, err
	}
	if err := mappings.Create(ctx, tx, eventCreated, m, by, nil); err != nil {
		return nil, err
	}
	if err := publish(ctx, tx, m); err != nil {
		return nil, err
	}
	return nil, count(ctx, tx, m, Active, 1)
}

// retire retires a mapping of the tenant.
func retire(ctx context.Context, tx *store.Tx, tenantID, id string, by sealer.Ref) (Mapping, error) {
	changed := false
	next, err := mappings.Move(ctx, tx, store.Move[Mapping, Action]{TenantID: tenantID, ID: id, Action: Retire, By: by, Edit: func(next *Mapping) error {
		changed = true
		next.retire(next.UpdatedAt)
		return nil
	}})
	if err != nil || !changed {
		return next, err
	}
	if err := publish(ctx, tx, &next); err != nil {
		return next, err
	}
	if err := count(ctx, tx, &next, Active, -1); err != nil {
		return next, err
	}
	return next, count(ctx, tx, &next, Retired, 1)
}

// Sections are the data of this package in an export of the tenant, but for held rows.
var Sections = []store.Section{mappings.Section("mappings", api.DeliveryWrite)}
