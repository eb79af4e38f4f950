package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

var mappings = store.Machine[Mapping, Action, State]{
	Records: store.Records[Mapping]{Noun: "mapping", Table: "mappings"}, // nodes get vendors' ids: publish
	Steps:   transitions,
}

// inForce is the condition of the index mappings_in_force: all but the mappings that were
// retired before they began.
const inForce = `(effective_until IS NULL OR effective_until > effective_from)`

// publish has nodes get all windows of the mapping's vendor id that they may need, with the
// revision of the mapping.
func publish(ctx context.Context, tx *store.Tx, m *Mapping) error {
	windows, err := listWindows(ctx, tx, m.VendorKey, horizon(tx))
	if err != nil {
		return err
	}
	return store.Publish(ctx, tx, api.Mappings, snapshot(m, windows))
}

// horizon is until when windows have ended that nodes need no more.
func horizon(tx *store.Tx) store.Instant { return store.At(tx.Now().Add(-keepWindows)) }

func snapshot(m *Mapping, windows []Mapping) *api.Mapping {
	s := &api.Mapping{ID: m.VendorKey, TenantID: m.TenantID, Revision: m.Revision, Windows: make([]api.MappingWindow, 0, len(windows))}
	for i := range windows {
		s.Windows = append(s.Windows, windows[i].window())
	}
	return s
}

// fits refuses a mapping with which nodes would get more of one vendor id than they take.
func fits(ctx context.Context, tx *store.Tx, m *Mapping) error {
	windows, err := listWindows(ctx, tx, m.VendorKey, horizon(tx))
	if err != nil {
		return err
	}
	c, err := api.Mappings.Change(snapshot(m, append(windows, *m)))
	if err == nil && len(c.Snapshot) > maxSnapshot {
		err = api.Conflict(fmt.Sprintf("this vendor id has %d mappings that will be in force, are, or were within the last %d days: that is all that a node takes", len(windows), keepWindows/(24*time.Hour)))
	}
	return err
}

// listWindows lists the windows of a vendor's id that end after a moment. None overlap, so all
// of them begin after it but one at most.
func listWindows(ctx context.Context, q store.Querier, vendorKey string, after store.Instant) ([]Mapping, error) {
	return store.List(ctx, q, "the windows of "+vendorKey, mappings.Scan, mappings.Select()+` WHERE vendor_key = $1 AND `+inForce+`
		AND effective_from >= COALESCE((SELECT MAX(effective_from) FROM mappings WHERE vendor_key = $1 AND `+inForce+` AND effective_from <= $2), 0)
		AND (effective_until IS NULL OR effective_until > $2) ORDER BY effective_from`, vendorKey, after)
}

// lastBefore finds the window of a vendor's id that is the last to begin before a moment, or
// of all for none; nil if there is none. As windows don't overlap, it is the one that a new
// window which ends then would overlap if it overlaps any.
func lastBefore(ctx context.Context, q store.Querier, vendorKey string, end store.Instant) (*Mapping, error) {
	query, args := mappings.Select()+` WHERE vendor_key = $1 AND `+inForce, []any{vendorKey}
	if !end.IsZero() {
		query, args = query+` AND effective_from < $2`, append(args, end)
	}
	return store.One(ctx, q, "the windows of "+vendorKey, mappings.Scan, query+` ORDER BY effective_from DESC LIMIT 1`, args...)
}

// overlapped finds a mapping that one which is not there yet would overlap; nil if there is
// none.
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

// filter keeps the mappings that have each given value.
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

// total counts the tenant's mappings that a filter keeps. Those of one vendor id are few; of
// all others there are counters.
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

// count keeps the counters: by is 1 for a mapping that has come into its state, -1 for one that
// has left it.
func count(ctx context.Context, tx *store.Tx, m *Mapping, state State, by int) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO mapping_totals (tenant_id, vendor, id_type, right_id, state, row_count) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (tenant_id, vendor, id_type, right_id, state) DO UPDATE SET row_count = mapping_totals.row_count + excluded.row_count`,
		m.TenantID, m.Vendor, m.IDType, m.Target.RightID, state, by)
	if err != nil {
		return fmt.Errorf("cannot count the mapping %s: %w", m.ID, err)
	}
	return nil
}

// errThere says that a mapping which is to be made is there already, word for word.
var errThere = errors.New("the mapping is there")

// create writes a mapping that is settled, unless it overlaps another. other is that one, or
// the one that is there.
func create(ctx context.Context, tx *store.Tx, m *Mapping, by sealer.Ref) (other *Mapping, err error) {
	other, err = overlapped(ctx, tx, m)
	switch {
	case err != nil:
		return nil, err
	case other != nil && other.State == Active && m.same(other):
		return other, errThere
	case other != nil:
		return other, m.overlaps(other)
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

// retire ends the validity of a mapping of the tenant.
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
var Sections = []store.Section{mappings.Section("mappings")}
