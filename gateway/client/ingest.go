package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"time"

	"muniment.example/gateway/api"
)

// Mappings say what ids of vendors stand for.
type Mappings struct{ c *Client }

// Mappings say what ids of vendors stand for.
func (c *Client) Mappings() Mappings { return Mappings{c} }

// Create makes a mapping.
func (m Mappings) Create(ctx context.Context, mapping NewMapping) (*Mapping, error) {
	return record[Mapping](ctx, m.c, http.MethodPost, "/v1/delivery/mappings", "mapping", mapping)
}

// MappingFilter selects mappings; its zero value is all.
type MappingFilter struct {
	Vendor   string `json:"vendor"`
	IDType   string `json:"idType"`
	VendorID string `json:"vendorId"`
	RightID  string `json:"rightId"`
	State    string `json:"state"`
	// Limit is how many a page has; 0 is the service's default.
	Limit int `json:"limit"`
}

// List iterates over the mappings, newest first.
func (m Mappings) List(ctx context.Context, f MappingFilter) iter.Seq2[Mapping, error] {
	return list[Mapping](ctx, m.c, "/v1/delivery/mappings", "mappings", values(f))
}

// Retire ends a mapping.
func (m Mappings) Retire(ctx context.Context, mappingID string) (*RetiredMapping, error) {
	return do[RetiredMapping](ctx, m.c, http.MethodDelete, at("/v1/delivery/mappings", mappingID), nil, nil)
}

// Import makes many mappings, of CSV with a header line or of JSON lines: at most 5000 lines and
// 1 MiB. Each line is judged by itself.
func (m Mappings) Import(ctx context.Context, text []byte) (*Import, error) {
	r, err := m.c.newRequest(http.MethodPost, "/v1/delivery/mappings/import", nil, nil)
	if err != nil {
		return nil, err
	}
	r.body = text
	r.header.Set("Content-Type", "text/csv")
	if len(text) > 0 && text[0] == '{' {
		r.header.Set("Content-Type", "application/x-ndjson")
	}
	data, err := m.c.call(ctx, r)
	if err != nil {
		return nil, err
	}
	return decode[Import](r, data)
}

// HeldFilter selects held rows; its zero value is all.
type HeldFilter struct {
	VendorID string `json:"vendorId"`
	RightID  string `json:"rightId"`
	Reason   string `json:"reason"`
	State    string `json:"state"`
	// Limit is how many a page has; 0 is the service's default.
	Limit int `json:"limit"`
}

// Held iterates over rows that wait for a mapping or for a suspended right, or have waited, newest first.
func (c *Client) Held(ctx context.Context, f HeldFilter) iter.Seq2[HeldRow, error] {
	return list[HeldRow](ctx, c, "/v1/delivery/held", "held", values(f))
}

// Rejected iterates over the rejected plays of players that post by themselves, newest first.
func (c *Client) Rejected(ctx context.Context) iter.Seq2[RejectedPlay, error] {
	return list[RejectedPlay](ctx, c, "/v1/delivery/rejected", "rejected", nil)
}

// DismissRejected deletes rejected plays that were looked at, at most 5,000 at once.
func (c *Client) DismissRejected(ctx context.Context, ids ...string) (*Dismissed, error) {
	return post[Dismissed](ctx, c, "/v1/delivery/rejected/dismiss", map[string][]string{"rejectedIds": ids})
}

// NewBeacon makes a URL for a player that can only call one: each call of it with a new eid is a
// play.
func (c *Client) NewBeacon(ctx context.Context, beacon NewBeacon) (*Beacon, error) {
	return post[Beacon](ctx, c, "/v1/delivery/beacons", beacon)
}

// Mapping says what an id of a vendor's stands for, and when.
type Mapping struct {
	Record
	// Plays from this moment on.
	EffectiveFrom time.Time `json:"effectiveFrom"`
	// Exclusive; null is open. Of a mapping that was retired before it began, its beginning.
	EffectiveUntil time.Time `json:"effectiveUntil"`
	// Which of the vendor's kinds of ids it is.
	IdType string `json:"idType"`
	// RETIRED once it was ended; earlier plays still resolve. One of ACTIVE, RETIRED.
	State  string        `json:"state"`
	Target MappingTarget `json:"target"`
	// Whose id it is.
	Vendor string `json:"vendor"`
	// The id.
	VendorID string `json:"vendorId"`
}

// MappingTarget is what a vendor's id stands for.
type MappingTarget struct {
	// The right that its plays are deliveries on.
	RightID string `json:"rightId"`
	// Where it shows them.
	SpatialAnchorID string `json:"spatialAnchorId"`
	// Placement within the anchor, for rows that name none.
	SpatialPlacementID string `json:"spatialPlacementId,omitempty"`
}

// NewMapping asks for a mapping.
type NewMapping struct {
	// The first moment whose plays it is for; it may have passed.
	EffectiveFrom time.Time `json:"effectiveFrom"`
	// Exclusive; absent: until it is retired.
	EffectiveUntil time.Time `json:"effectiveUntil,omitzero"`
	// Which of the vendor's kinds of ids it is.
	IdType string `json:"idType"`
	// The right and anchor that it is mapped to.
	Target MappingTarget `json:"target"`
	// Whose id it is, as rows of batches name the vendor.
	Vendor string `json:"vendor"`
	// The id. Kept in the audit log for good: it is for players and placements, and no place for what
	// names a person.
	VendorID string `json:"vendorId"`
}

// RetiredMapping is a mapping that has ended.
type RetiredMapping struct {
	Mapping     Mapping     `json:"mapping"`
	Propagation Propagation `json:"propagation"`
}

// Import is what became of the lines of an import.
type Import struct {
	// How many lines there are of each status.
	Counts ImportCounts `json:"counts"`
	// What became of each line, in their order; empty ones are left out.
	Rows []ImportedRow `json:"rows"`
}

// ImportCounts are the numbers of lines by status.
type ImportCounts struct {
	// Mappings that were made.
	Created int64 `json:"created"`
	// Lines that were refused.
	Refused int64 `json:"refused"`
	// Mappings that were there before.
	Unchanged int64 `json:"unchanged"`
}

// ImportedRow is what became of one line.
type ImportedRow struct {
	// Why the line is refused.
	Error *api.RowError `json:"error,omitempty"`
	// The line of the body, from 1; in CSV the header is line 1.
	Line int64 `json:"line"`
	// The mapping; of a line that is refused the one that it would overlap.
	MappingID string `json:"mappingId,omitempty"`
	// unchanged: it was there before, word for word. One of created, unchanged, refused.
	Status string `json:"status"`
}

// HeldRow is a row that waits for a mapping, or for the end of a suspension of its right.
type HeldRow struct {
	CreatedAt time.Time `json:"createdAt"`
	// Why it was refused when it was to be delivered. It may be sent again.
	Error *api.RowError `json:"error,omitempty"`
	// When it is given up, as its play is too long ago to be delivered: 30 days after it, or as the
	// operator has set. Of one that waits no more, when it is forgotten.
	ExpiresAt time.Time `json:"expiresAt"`
	ID        string    `json:"id"`
	// Which of the vendor's kinds of ids it is, of a row with a vendor's id.
	IdType string `json:"idType,omitempty"`
	// When it was shown.
	PlayedAt time.Time `json:"playedAt"`
	// What the row waits for, or waited for last: a mapping of its vendor's id, or the end of a
	// suspension of its right or of a right above it. One of UNMAPPED, RIGHT_SUSPENDED.
	Reason api.HeldReason `json:"reason"`
	// The receipt that it got.
	ReceiptID string `json:"receiptId"`
	// The right of a row that waits for it; empty of one that waits for a mapping.
	RightID string `json:"rightId"`
	// The row as it was sent, without dataSubjectId, dataSubjectIds and telemetry; null once it waits no more.
	Row json.RawMessage `json:"row"`
	// REPLAYED once it was delivered, with its receiptId, or refused, with the error. One of HELD,
	// REPLAYED, EXPIRED.
	State     string    `json:"state"`
	UpdatedAt time.Time `json:"updatedAt"`
	// The row's vendor, if it has one.
	Vendor string `json:"vendor,omitempty"`
	// The vendor's id, of a row that has one.
	VendorID string `json:"vendorId,omitempty"`
}

// RejectedPlay is a play that came to POST /adapters/broadsign and can't be delivered.
type RejectedPlay struct {
	CreatedAt time.Time `json:"createdAt"`
	// Why it was rejected when it came first.
	Error api.RowError `json:"error"`
	// The format of the player's document.
	Format string `json:"format"`
	ID     string `json:"id"`
	// The API key with which it was sent.
	KeyID string `json:"keyId"`
	// Where Row is null: what the player said of it; null if that could not be read.
	Play json.RawMessage `json:"play"`
	// The play as a row of a batch; null if it could not be read as one.
	Row json.RawMessage `json:"row"`
}

// Dismissed is the response to a dismissal of rejected plays.
type Dismissed struct {
	// How many of them were there.
	Dismissed int64 `json:"dismissed"`
}

// NewBeacon asks for a beacon.
type NewBeacon struct {
	// Its end, at most 90 days ahead. It ends with the calling API key as well.
	ExpiresAt time.Time `json:"expiresAt"`
	// How many receipts each node issues within any hour; more calls are passed over.
	MaxReceiptsPerHour int64 `json:"maxReceiptsPerHour"`
	// The right, ACTIVE now and at each call.
	RightID string `json:"rightId"`
	// Where it is shown.
	SpatialAnchorID string `json:"spatialAnchorId"`
}

// Beacon is a URL each call of which is a play.
type Beacon struct {
	// When it ends by itself; null or absent is never.
	ExpiresAt time.Time `json:"expiresAt"`
	// What the player calls, with ?eid= and an id of the play's own, and dwellMs=. Anyone who has it
	// can report plays.
	URL string `json:"url"`
}
