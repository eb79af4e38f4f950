package client

import (
	"context"
	"iter"
	"net/http"
)

// PayeeLinks are links by which payees read their parts of statements, without an account.
type PayeeLinks struct{ c *Client }

// PayeeLinks are links by which payees read their parts of statements, without an account.
func (c *Client) PayeeLinks() PayeeLinks { return PayeeLinks{c} }

// Create makes a link. Its URL is returned this once.
func (l PayeeLinks) Create(ctx context.Context, link NewPayeeLink) (*CreatedPayeeLink, error) {
	return post[CreatedPayeeLink](ctx, l.c, "/v1/settlement/payee-links", link)
}

// List iterates over the links, newest first.
func (l PayeeLinks) List(ctx context.Context, f PayeeLinkFilter) iter.Seq2[PayeeLink, error] {
	return list[PayeeLink](ctx, l.c, "/v1/settlement/payee-links", "links", values(f))
}

// Revoke ends a link for good.
func (l PayeeLinks) Revoke(ctx context.Context, payeeLinkID string) (*PayeeLink, error) {
	return record[PayeeLink](ctx, l.c, http.MethodDelete, at("/v1/settlement/payee-links", payeeLinkID), "link", nil)
}
