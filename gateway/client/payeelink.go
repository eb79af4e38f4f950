package client

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// PayeeLinks are links by which payees read their parts of statements, without an account.
type PayeeLinks struct{ c *Client }

// PayeeLinks are links by which payees read their parts of statements, without an account.
func (c *Client) PayeeLinks() PayeeLinks { return PayeeLinks{c} }

// Create makes a link. Its URL is returned this once.
func (l PayeeLinks) Create(ctx context.Context, link NewPayeeLink) (*CreatedPayeeLink, error) {
	return post[CreatedPayeeLink](ctx, l.c, "/v1/settlement/payee-links", link)
}

// PayeeLinkFilter selects links; its zero value is all.
type PayeeLinkFilter struct {
	StatementID    string `json:"statementId"`
	CounterpartyID string `json:"counterpartyId"`
	State          string `json:"state"`
	// Limit is how many a page has; 0 is the service's default.
	Limit int `json:"limit"`
}

// List iterates over the links, newest first.
func (l PayeeLinks) List(ctx context.Context, f PayeeLinkFilter) iter.Seq2[PayeeLink, error] {
	return list[PayeeLink](ctx, l.c, "/v1/settlement/payee-links", "links", values(f))
}

// Revoke ends a link for good.
func (l PayeeLinks) Revoke(ctx context.Context, payeeLinkID string) (*PayeeLink, error) {
	return record[PayeeLink](ctx, l.c, http.MethodDelete, at("/v1/settlement/payee-links", payeeLinkID), "link", nil)
}

// PayeeLink is a link, without what opens it.
type PayeeLink struct {
	Record
	// The payee whose part it shows.
	CounterpartyID string `json:"counterpartyId"`
	// The API key or the member that made it.
	CreatedBy string `json:"createdBy"`
	// When it stops to work.
	ExpiresAt time.Time `json:"expiresAt"`
	// When it was revoked; null until then.
	RevokedAt time.Time `json:"revokedAt"`
	// ACTIVE or REVOKED. ACTIVE links work until ExpiresAt.
	State string `json:"state"`
	// The statement that it shows a part of.
	StatementID string `json:"statementId"`
}

// NewPayeeLink is a new link.
type NewPayeeLink struct {
	// The payee whose part it shows.
	CounterpartyID string `json:"counterpartyId"`
	// When it stops to work: at most 400 days from now; zero: in 30 days.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// The statement, which has to be issued.
	StatementID string `json:"statementId"`
}

// CreatedPayeeLink is a link that was just made.
type CreatedPayeeLink struct {
	Link PayeeLink `json:"link"`
	// What to send to the payee: anyone who has it can read the page.
	URL string `json:"url"`
}
