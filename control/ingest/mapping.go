// Package ingest owns the mappings that turn vendors' rows into deliveries, and the rows that wait
// for one.
//
// # Mappings
//
// A mapping says that plays of one id of a vendor, from a moment on and until another one, are
// deliveries on a right, at an anchor. A vendor's id has at most one at any moment: one that would
// overlap another is refused, and names it. So a play has one meaning, that of the moment at which
// it was played, whenever its row arrives. A mapping is never changed. Retiring it ends its
// validity now: plays before that still resolve. A player that moves is remapped by retiring its
// mapping and creating another. Whether a delivery is allowed depends on its right alone: a mapping
// may name a right that is not ACTIVE.
//
// Nodes get all windows of a vendor's id as one record of the feed (api.Mappings), so a node reads
// an unknown id once. The record holds what has not ended longer than keepWindows ago, and has a
// bound in bytes; a mapping that would not fit any more is refused.
//
// A vendor's id is in audit events, which are never erased: it is for players and placements and
// must not name a person. The API says so.
//
// There may be ten million mappings. The list of each filter reads an index that has the mapping's
// id behind the filter's column (store.ListPage); total is a sum of counters that each change keeps
// (mapping_totals), or of one vendor id's few rows. An overlap is found by one lookup in
// mappings_in_force, which has the windows of each vendor's id in the order of time: as none
// overlap, only the last that begins before the new one's end can. An import writes its rows in
// changes of importChange each, and waits behind each until the log has its events: it never puts
// more than that between another tenant's event and the log.
//
// After a restore of an older database that an operator has accepted, a mapping may be in force
// again that was retired since: unlike a right that is ACTIVE again it permits nothing, so the
// log's events are not replayed.
//
// # Held rows
//
// A row whose vendor's id no mapping knows is held (HeldRow) until a mapping covers its play, or
// until it is too old to be delivered. It is durable before the caller is answered. One identity is
// held once. A tenant has a quota, of rows and bytes, which is checked in the transaction that
// writes the row. When a mapping is made that covers held rows, the same change marks its vendor's
// id (held_mapped) and queues a job. That looks at the rows of marked ids and at no others, and
// delivers them on a node like rows of a batch, under the identity of the fields as they were sent;
// so a row that is delivered twice, or that the caller also retries, is counted once. A row is
// delivered under the key that sent it, or under its successor in a rotation (tenant.KeyInForce);
// once that key is revoked or has expired, the row is refused. A refused row no longer waits: its
// caller may send it again.
//
// A held row may hold personal data: dataSubjectId, and telemetry, which may show whether a person
// looked. They are in columns of their own, which are emptied when the row's wait ends, are
// returned by no route, and are listed in store.Table for erasure.
package ingest

import (
	"fmt"
	"time"

	"muniment/control/store"
	"muniment/gateway/api"
)

// Mapping is the record of a mapping.
type Mapping struct {
	ID       string `json:"id" db:"mapping_id"`
	TenantID string `json:"-" db:"tenant_id"`
	// VendorKey is api.VendorKey of the four.
	VendorKey      string        `json:"-" db:"vendor_key"`
	Vendor         string        `json:"vendor" db:"vendor" doc:"Whose id it is."`
	IDType         string        `json:"idType" db:"id_type" doc:"Which of the vendor's kinds of ids it is."`
	VendorID       string        `json:"vendorId" db:"vendor_id" doc:"The id."`
	Target         Target        `json:"target" db:"*"`
	EffectiveFrom  store.Instant `json:"effectiveFrom" db:"effective_from" doc:"Plays from this moment on."`
	EffectiveUntil store.Instant `json:"effectiveUntil" db:"effective_until,moves" nullable:"true" doc:"Exclusive; null is open. Of a mapping that was retired before it began, its beginning."`
	State          State         `json:"state" db:"state,moves" enum:"ACTIVE,RETIRED" doc:"RETIRED once it was ended; earlier plays still resolve."`
	CreatedAt      store.Instant `json:"createdAt" db:"created_at"`
	UpdatedAt      store.Instant `json:"updatedAt" db:"updated_at,moves"`
	Revision       int64         `json:"revision" db:"revision,moves"`
}

// Target is what a vendor's id is mapped to.
type Target struct {
	RightID            string  `json:"rightId" db:"right_id" doc:"The right that its plays are deliveries on."`
	SpatialAnchorID    string  `json:"spatialAnchorId" db:"spatial_anchor_id" doc:"Where it shows them."`
	SpatialPlacementID *string `json:"spatialPlacementId" db:"spatial_placement_id" doc:"Placement within the anchor, of rows that name none."`
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

const eventCreated = "mapping.created"

var transitions = store.Steps[Action, State]{
	// Retiring again changes nothing.
	Retire: {From: store.From(Active, Retired), To: Retired, Event: "mapping.retired"},
}

const (
	// keepWindows is how long a window stays known to nodes after its end: longer than rows may
	// be late.
	keepWindows = api.MaxRowAge + 15*24*time.Hour
	// maxSnapshot bounds what nodes get of one vendor's id, in bytes of JSON: some 150 windows.
	maxSnapshot = 32 << 10
	// maxText bounds texts in bytes, as those of rows are, so that every row's id can be mapped;
	// all of a mapping that an index holds together fits into one of PostgreSQL's.
	maxText = 512
)

// settle makes a mapping of a request, or returns what is wrong with it.
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
		if *p == "" { // as in a row
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
	if len(text) <= maxText && store.Storable(text) {
		return nil
	}
	return []api.ValidationError{{Field: field, Message: textRule(maxText)}}
}

func textRule(most int) string {
	return fmt.Sprintf("must be UTF-8 without U+0000, of at most %d bytes", most)
}

// retire ends the validity at a moment, unless it has ended sooner.
func (m *Mapping) retire(now store.Instant) {
	end := now
	if end.Before(m.EffectiveFrom.Time) {
		end = m.EffectiveFrom // it never was in force
	}
	if m.EffectiveUntil.IsZero() || end.Before(m.EffectiveUntil.Time) {
		m.EffectiveUntil = end
	}
}

// same says whether two mappings of a vendor's id say the same.
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

// overlaps refuses a mapping beside one that it would overlap.
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
