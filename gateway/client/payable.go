package client

import (
	"context"
	"io"
	"iter"
	"net/http"
)

// Payables are what payees are due.
type Payables struct{ c *Client }

// Payables are what payees are due.
func (c *Client) Payables() Payables { return Payables{c} }

// List iterates over the payables, newest first.
func (s Payables) List(ctx context.Context, f PayableFilter) iter.Seq2[Payable, error] {
	return list[Payable](ctx, s.c, "/v1/settlement/payables", "payables", values(f))
}

// Get returns a payable.
func (s Payables) Get(ctx context.Context, payableID string) (*Payable, error) {
	return record[Payable](ctx, s.c, http.MethodGet, at("/v1/settlement/payables", payableID), "payable", nil)
}

// Payouts iterates over what is to be paid, the longest due first.
func (s Payables) Payouts(ctx context.Context, f PayoutFilter) iter.Seq2[Payout, error] {
	f.BOM = false
	return list[Payout](ctx, s.c, "/v1/settlement/payouts", "payouts", values(f))
}

// PayoutFile streams all of them as a CSV file for a payment system. The caller closes it. Unless it ends with
// io.EOF it is not whole.
func (s Payables) PayoutFile(ctx context.Context, f PayoutFilter) (io.ReadCloser, error) {
	f.Limit = 0
	query := values(f)
	query.Set("format", "csv")
	return s.c.stream(ctx, "/v1/settlement/payouts", query)
}

// Issuer returns the organisation that issues statements; nil until it is set.
func (s Payables) Issuer(ctx context.Context) (*Issuer, error) {
	found, err := get[struct {
		Issuer *Issuer `json:"issuer"`
	}](ctx, s.c, "/v1/settlement/issuer", nil)
	if err != nil {
		return nil, err
	}
	return found.Issuer, nil
}

// SetIssuer sets the organisation that issues statements.
func (s Payables) SetIssuer(ctx context.Context, issuer NewIssuer) (*Issuer, error) {
	return record[Issuer](ctx, s.c, http.MethodPut, "/v1/settlement/issuer", "issuer", issuer)
}
