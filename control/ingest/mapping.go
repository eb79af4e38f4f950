// Package ingest owns the mappings from vendors' ids to rights, and the rows that wait for a
// mapping.
//
// # Mappings
//
// A mapping says that plays of a vendor's id, within a window of time, are deliveries on a right, at
// an anchor. A vendor's id has at most one mapping at any moment: a mapping that would overlap
// another is refused, and the error names the other. So the moment of a play determines its meaning,
// whenever its row arrives. A mapping is never changed. Retiring it ends its window now; earlier
// plays still resolve by it. To remap a player that moves, retire its mapping and create another.
// Whether a delivery is allowed depends on its right alone: a mapping may name a right that is not
// ACTIVE.
//
// Nodes get all windows of a vendor's id as one record of the feed (api.Mappings), so a node reads
// an unknown id once. The record holds the windows that ended at most keepWindows ago, and its size
// is bounded; a mapping that would exceed the bound is refused.
//
// A vendor's id is in audit events, which are never erased. It identifies players and placements and
// must not name a person; the API says so.
//
// There may be ten million mappings. For each filter there is an index of the filter's column
// followed by the mapping's id (store.ListPage). total is a sum of counters that each change updates
// (mapping_totals), or counts the few rows of one vendor's id. One lookup in mappings_in_force, which
// sorts the windows of a vendor's id by time, finds an overlap: as windows don't overlap, only the
// last one that begins before the new one's end can overlap it. An import writes importChange rows in
// each change, and waits after each until the log has its events, so other tenants' events wait for
// at most that many.
//
// In a database restored from an older copy, ReplayMapping brings the mappings to the log's state:
// otherwise a remapped player would go on to deliver on its old right.
//
// # Held rows
//
// A row whose vendor's id has no mapping is held (HeldRow) until a mapping covers its play, or until
// it is too old to be delivered. It is durable before the caller gets a response. Each identity is
// held once. A tenant's quota, in rows and bytes, is checked in the transaction that writes the row.
// A change that creates a mapping for held rows also marks the vendor's id (held_mapped) and queues a
// job. The job reads the rows of marked ids only, and delivers them on a node like rows of a batch,
// under the identity of the fields as they were sent. So a row that is delivered twice, or that the
// caller also retries, is counted once. A row is delivered under the key that sent it, or under that
// key's successor in a rotation (tenant.KeyInForce); once the key is revoked or has expired, the row
// is refused. A refused row is no longer HELD: its caller may send it again.
//
// A held row may contain personal data: dataSubjectId, dataSubjectIds, and telemetry, which may show whether a person
// looked. They have their own columns, which are cleared when the row is no longer HELD, are returned
// by no route, and are listed in store.Table for erasure.
package ingest

import (
	"fmt"
	"time"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// Mapping is the record of a mapping.
type Mapping struct {
	ID       string `json:"id" db:"mapping_id"`
	TenantID string `json:"-" db:"tenant_id"`
	// VendorKey is api.VendorKey of tenant, vendor, idType and vendorId.
	VendorKey      string        `json:"-" db:"vendor_key"`
	Vendor         string        `json:"vendor" db:"vendor" doc:"The vendor that issued the id."`
	IDType         string        `json:"idType" db:"id_type" doc:"The vendor's type of id."`
	VendorID       string        `json:"vendorId" db:"vendor_id" doc:"The id."`
	Target         Target        `json:"target" db:"*"`
	EffectiveFrom  store.Instant `json:"effectiveFrom" db:"effective_from" doc:"Start of the window: plays at this moment or later resolve."`
	EffectiveUntil store.Instant `json:"effectiveUntil" db:"effective_until,moves" nullable:"true" doc:"End of the window, exclusive; null is open. Equal to effectiveFrom if the mapping was retired before it began."`
	State          State         `json:"state" db:"state,moves" enum:"ACTIVE,RETIRED" doc:"RETIRED once its window was ended; earlier plays still resolve."`
	CreatedAt      store.Instant `json:"createdAt" db:"created_at"`
	UpdatedAt      store.Instant `json:"updatedAt" db:"updated_at,moves"`
	Revision       int64         `json:"revision" db:"revision,moves"`
}

// Target is the right and the anchor of a vendor's id.
type Target struct {
	RightID            string  `json:"rightId" db:"right_id" doc:"The right that its plays are deliveries on."`
	SpatialAnchorID    string  `json:"spatialAnchorId" db:"spatial_anchor_id" doc:"The anchor where the content is shown."`
	SpatialPlacementID *string `json:"spatialPlacementId" db:"spatial_placement_id" doc:"The placement within the anchor, for rows that name none."`
}

// State is the state of a mapping.
type State string

// The states.
const (
	Active  State = "ACTIVE"
	Retired State = "RETIRED"
)

// Action moves a mapping.
type Action string

// Retire is the only one.
const Retire Action = "retire"

var transitions = store.Steps[Action, State]{
	// Retiring again changes nothing.
	Retire: {From: store.From(Active, Retired), To: Retired, Event: eventRetired},
}

const (
	// keepWindows is how long nodes keep a window after its end: longer than rows may be late.
	keepWindows = api.MaxRowAge + 15*24*time.Hour
	// maxSnapshot bounds what nodes get of one vendor's id, in bytes of JSON: some 150 windows.
	maxSnapshot = 32 << 10
	// maxText bounds texts in bytes. It equals the bound of rows, so that every row's id can be
	// mapped, and keeps index entries within PostgreSQL's limit.
	maxText = 512
)

// settle completes a requested mapping, or returns VALIDATION_FAILED.
func (m Mapping) settle(now store.Instant) (Mapping, error) {
	var faults []api.ValidationError
	for _, f := range []struct{ name, text string }{
		{"vendor", m.Vendor},
		{"idType", m.IDType},
		{"vendorId", m.VendorID},
		{"target.rightId", m.Target.RightID},
		{"target.spatialAnchorId", m.Target.SpatialAnchorID},
	} {
		if f.text == "" {
			faults = append(faults, api.MissingField(f.name))
		}
		faults = append(faults, tooLong(f.name, f.text)...)
	}
	if p := m.Target.SpatialPlacementID; p != nil {
		if *p == "" { // like an absent placement of a row
			m.Target.SpatialPlacementID = nil
		}
		faults = append(faults, tooLong("target.spatialPlacementId", *p)...)
	}
	if m.EffectiveFrom.IsZero() {
		faults = append(faults, api.MissingField("effectiveFrom"))
	} else if !m.EffectiveUntil.IsZero() && !m.EffectiveFrom.Before(m.EffectiveUntil.Time) {
		faults = append(faults, api.ValidationError{Field: "effectiveUntil", Message: "must be after effectiveFrom"})
	}
	if len(faults) > 0 {
		return m, api.Invalid(faults...)
	}
	m.ID = api.NewID(api.PrefixMapping, now.Time)
	m.VendorKey = api.VendorKey(m.TenantID, m.Vendor, m.IDType, m.VendorID)
	m.State, m.CreatedAt, m.UpdatedAt = Active, now, now
	return m, nil
}

func tooLong(field, text string) []api.ValidationError {
	if len(text) > maxText || !store.Storable(text) {
		return []api.ValidationError{{Field: field, Message: textRule(maxText)}}
	}
	if c, found := route.ControlCharacter(text); found && field != "vendorId" { // which is as its vendor sends it
		return []api.ValidationError{{Field: field, Message: fmt.Sprintf("must not contain control characters, except tabs and line breaks: it contains %U", c)}}
	}
	return nil
}

func textRule(most int) string {
	return fmt.Sprintf("must be UTF-8 without U+0000, at most %d bytes", most)
}

// retire ends the window now, unless it ended earlier.
func (m *Mapping) retire(now store.Instant) {
	end := now
	if end.Before(m.EffectiveFrom.Time) {
		end = m.EffectiveFrom // it was never in force
	}
	if m.EffectiveUntil.IsZero() || end.Before(m.EffectiveUntil.Time) {
		m.EffectiveUntil = end
	}
}

// same reports whether two mappings of a vendor's id are equal.
func (m *Mapping) same(other *Mapping) bool {
	return m.Target.same(other.Target) && m.EffectiveFrom.Equal(other.EffectiveFrom.Time) && m.EffectiveUntil.Equal(other.EffectiveUntil.Time)
}

func (t Target) same(other Target) bool {
	return t.RightID == other.RightID && t.SpatialAnchorID == other.SpatialAnchorID && text(t.SpatialPlacementID) == text(other.SpatialPlacementID)
}

func text(optional *string) string {
	if optional == nil {
		return ""
	}
	return *optional
}

// overlaps returns the error for a mapping that overlaps other.
func (m *Mapping) overlaps(other *Mapping) error {
	until := "without an end"
	if !other.EffectiveUntil.IsZero() {
		until = "until " + other.EffectiveUntil.String()
	}
	return api.Conflict("overlaps the mapping " + other.ID + " of this vendor id, which is in force from " + other.EffectiveFrom.String() + " " + until)
}

// window is what nodes receive of the mapping.
func (m *Mapping) window() api.MappingWindow {
	return api.MappingWindow{
		MappingID: m.ID, RightID: m.Target.RightID, SpatialAnchorID: m.Target.SpatialAnchorID, SpatialPlacementID: text(m.Target.SpatialPlacementID),
		From: m.EffectiveFrom.Time, Until: m.EffectiveUntil.Time,
	}
}
