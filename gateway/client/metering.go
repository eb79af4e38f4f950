package client

import (
	"context"
	"io"
	"iter"
	"net/url"
	"time"
)

// MeteringQuery says what is summed; its zero value is all of a tenant's receipts, or refusals.
type MeteringQuery struct {
	// From and To bound renderedAt; To is exclusive. Zero is open.
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	RightID string    `json:"rightId"`
	// Bucket also sums by minute, hour, day, week or month, cut by the clocks of TimeZone, an IANA
	// name; UTC when empty.
	Bucket   string `json:"bucket"`
	TimeZone string `json:"timeZone"`
	// By also sums by anchor, placement or campaign. Rows of a right with several campaigns are
	// repeated, so don't add them up. Not of refusals.
	By []string `json:"by"`
	// BOM begins a csv file with a byte order mark, for spreadsheets. Only of File.
	BOM bool `json:"bom"`
	// Rule selects refusals of one rule. Not of metering.
	Rule string `json:"rule"`
	// AsOf is a position that an earlier answer named: nothing from there on counts.
	AsOf string `json:"asOf"`
	// Limit is how many a page has; 0 is the service's default.
	Limit  int    `json:"limit"`
	Cursor string `json:"cursor"`
}

// MeteringAPI sums what the gate decided about deliveries.
type MeteringAPI struct{ c *Client }

// Metering sums what the gate decided about deliveries.
func (c *Client) Metering() MeteringAPI { return MeteringAPI{c} }

// Get returns a page of sums. Its totals are over all rows.
func (m MeteringAPI) Get(ctx context.Context, q MeteringQuery) (*Metering, error) {
	return get[Metering](ctx, m.c, "/v1/metering", values(q))
}

// Rows iterates over the sums of all pages.
func (m MeteringAPI) Rows(ctx context.Context, q MeteringQuery) iter.Seq2[MeteringRow, error] {
	return list[MeteringRow](ctx, m.c, "/v1/metering", "rows", values(q))
}

// File streams all sums, as csv or ndjson. The caller closes it. Unless it ends with io.EOF it is
// not whole.
func (m MeteringAPI) File(ctx context.Context, q MeteringQuery, format string) (io.ReadCloser, error) {
	query := values(q)
	query.Set("format", format)
	return m.c.stream(ctx, "/v1/metering", query)
}

// Refusals returns a page of how often rules have refused.
func (m MeteringAPI) Refusals(ctx context.Context, q MeteringQuery) (*Refusals, error) {
	return get[Refusals](ctx, m.c, "/v1/metering/refusals", values(q))
}

// SettlementQuery says what is rated; its zero value is all.
type SettlementQuery struct {
	// From and To bound renderedAt; To is exclusive. Zero is open.
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Currency string    `json:"currency"`
	// RightID selects the receipts of these rights, at most 500; none is all.
	RightID []string `json:"rightId"`
	// By makes a line for each right, or for each campaign: right or campaign.
	By string `json:"by"`
	// AsOf is a position that an earlier answer named: nothing from there on counts.
	AsOf string `json:"asOf"`
	// Limit is how many a page has; 0 is the service's default.
	Limit  int    `json:"limit"`
	Cursor string `json:"cursor"`
}

// Settlement returns a page of what receipts are worth, by the rules as they are now. Its totals
// are over all lines.
func (c *Client) Settlement(ctx context.Context, q SettlementQuery) (*Settlement, error) {
	return get[Settlement](ctx, c, "/v1/settlement", values(q))
}

// Reconciliation says whether packs, warehouse and statements agree about what was rendered
// between from and to, which is exclusive; zero is open.
func (c *Client) Reconciliation(ctx context.Context, from, to time.Time) (*Reconciliation, error) {
	return get[Reconciliation](ctx, c, "/v1/settlement/reconciliation", window(from, to))
}

func window(from, to time.Time) url.Values {
	return values(struct {
		From time.Time `json:"from"`
		To   time.Time `json:"to"`
	}{from, to})
}

// Metering is a page of sums.
type Metering struct {
	// The log position that the answer holds for: everything before it is counted. Null while nothing
	// is loaded.
	AsOf string `json:"asOf"`
	// What time is cut into; null when it is not.
	Bucket string `json:"bucket"`
	// The window as asked for; null is open.
	From time.Time `json:"from"`
	// `cursor` of the next page; null ends the list.
	NextCursor string `json:"nextCursor"`
	// The sums of this page.
	Rows []MeteringRow `json:"rows"`
	// The IANA time zone of the buckets; null without any.
	TimeZone string `json:"timeZone"`
	// The end of the window as asked for; null is open.
	To     time.Time      `json:"to"`
	Totals MeteringTotals `json:"totals"`
}

// MeteringRow is a sum.
type MeteringRow struct {
	// The legal basis that it rests on.
	BasisID string `json:"basisId"`
	// Start of the bucket, with the zone's offset; absent when time is not cut.
	Bucket time.Time `json:"bucket,omitzero"`
	// With by=campaign alone: one of those that the right's scope lists; null if it lists none.
	CampaignID string `json:"campaignId,omitempty"`
	// A decimal: the multipliers of what is metered, 1 where none was given.
	Impressions string `json:"impressions"`
	// What the quantity is of. One of viewable, gross, audible, delivered, none.
	MeteringBasis string `json:"meteringBasis"`
	// What is billed, in milliseconds.
	QuantityMs int64 `json:"quantityMs"`
	// METERED, why it was suppressed, or DUPLICATE.
	Reason string `json:"reason"`
	// How many receipts there are.
	Receipts int64 `json:"receipts"`
	// The right's id.
	RightID string `json:"rightId"`
	// With by=anchor alone.
	SpatialAnchorID string `json:"spatialAnchorId,omitempty"`
	// With by=placement alone; null for receipts without one.
	SpatialPlacementID string `json:"spatialPlacementId,omitempty"`
	// The medium, whose rules apply.
	Substrate string `json:"substrate"`
}

// MeteringTotals are the sums of all rows.
type MeteringTotals struct {
	// Deliveries that repeat an earlier one; they are not billed.
	Duplicates int64 `json:"duplicates"`
	// A decimal: the sum over all rows.
	Impressions string `json:"impressions"`
	// What is billed.
	Metered int64 `json:"metered"`
	// What is billed, in milliseconds.
	QuantityMs int64 `json:"quantityMs"`
	// How many receipts there are.
	Receipts int64 `json:"receipts"`
	// What is not billed, for one reason or another.
	Suppressed int64 `json:"suppressed"`
}

// Refusals is a page of numbers of deliveries that the gate refused.
type Refusals struct {
	// The log position that the answer holds for: everything before it is counted. Null while nothing
	// is loaded.
	AsOf string `json:"asOf"`
	// What time is cut into; null when it is not.
	Bucket string `json:"bucket"`
	// The window as asked for; null is open.
	From time.Time `json:"from"`
	// `cursor` of the next page; null ends the list.
	NextCursor string `json:"nextCursor"`
	// The sums of this page.
	Rows []RefusalRow `json:"rows"`
	// The IANA time zone of the buckets; null without any.
	TimeZone string `json:"timeZone"`
	// The end of the window as asked for; null is open.
	To     time.Time     `json:"to"`
	Totals RefusalTotals `json:"totals"`
	// Misspelt fields of telemetry: the gate did not see their values.
	// The newest 1000, on the first page, and none if a right or a rule is asked for.
	Unrecognised []UnrecognisedName `json:"unrecognised"`
}

// UnrecognisedName is how many deliveries had such a name, in one bucket.
type UnrecognisedName struct {
	// Start of the bucket, with the zone's offset.
	Bucket time.Time `json:"bucket"`
	// How often it was sent, in deliveries that were refused as well.
	Deliveries int64 `json:"deliveries"`
	// The field of telemetry that it stands for: the same but for case, _ and -, or one edit.
	Meant string `json:"meant"`
	// As it was sent. Null where a node had too many names to separate them.
	Name string `json:"name"`
}

// RefusalRow is how often a rule has refused.
type RefusalRow struct {
	// Start of the bucket, with the zone's offset.
	Bucket time.Time `json:"bucket"`
	// How many deliveries were refused.
	Refusals int64 `json:"refusals"`
	// Null where a node had too many counts to separate them by right.
	RightID string `json:"rightId"`
	// The rule's name.
	Rule string `json:"rule"`
}

// RefusalTotals is the sum of all rows.
type RefusalTotals struct {
	// How many deliveries were refused.
	Refusals int64 `json:"refusals"`
}
