package client

import (
	"context"
	"io"
	"iter"
	"net/url"
	"time"
)

// MeteringAPI sums what the gate decided about deliveries.
type MeteringAPI struct{ c *Client }

// Metering sums what the gate decided about deliveries.
func (c *Client) Metering() MeteringAPI { return MeteringAPI{c} }

// Get returns a page of sums of what was rendered between From and To. Its totals are over all rows.
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
func (m MeteringAPI) Refusals(ctx context.Context, q RefusalQuery) (*Refusals, error) {
	return get[Refusals](ctx, m.c, "/v1/metering/refusals", values(q))
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
