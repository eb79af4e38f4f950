package client

import (
	"context"
	"iter"
	"net/http"
)

// Mappings say what ids of vendors stand for.
type Mappings struct{ c *Client }

// Mappings say what ids of vendors stand for.
func (c *Client) Mappings() Mappings { return Mappings{c} }

// Create makes a mapping.
func (m Mappings) Create(ctx context.Context, mapping NewMapping) (*Mapping, error) {
	return record[Mapping](ctx, m.c, http.MethodPost, "/v1/delivery/mappings", "mapping", mapping)
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
