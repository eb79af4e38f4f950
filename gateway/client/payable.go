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

// PayableFilter selects payables; its zero value is all.
type PayableFilter struct {
	StatementID    string `json:"statementId"`
	CounterpartyID string `json:"counterpartyId"`
	Number         string `json:"number"`
	State          string `json:"state"`
	// Limit is how many a page has; 0 is the service's default.
	Limit int `json:"limit"`
}

// List iterates over the payables, newest first.
func (s Payables) List(ctx context.Context, f PayableFilter) iter.Seq2[Payable, error] {
	return list[Payable](ctx, s.c, "/v1/settlement/payables", "payables", values(f))
}

// Get returns a payable.
func (s Payables) Get(ctx context.Context, payableID string) (*Payable, error) {
	return record[Payable](ctx, s.c, http.MethodGet, at("/v1/settlement/payables", payableID), "payable", nil)
}

// PayoutFilter selects payouts; its zero value is what is due today.
type PayoutFilter struct {
	// As 2026-12-31; absent: today.
	DueBy    string `json:"dueBy"`
	Currency string `json:"currency"`
	// Of PayoutFile: for spreadsheets, with a byte order mark and without formulas.
	BOM bool `json:"bom"`
	// Limit is how many a page of Payouts has; 0 is the service's default.
	Limit int `json:"limit"`
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

// Payable is what a payee is due of a statement.
type Payable struct {
	Record
	// Decimal: what the exact amounts so far are more than their nets. The next payable takes it up.
	Carried string `json:"carried"`
	// The payee's first number of the chain, which it corrects; null if this is that.
	Corrects string `json:"corrects"`
	// The payee.
	CounterpartyID string `json:"counterpartyId"`
	// A code of ISO 4217.
	Currency string `json:"currency"`
	// The day on which it is due.
	DueOn string `json:"dueOn"`
	// Decimal: the payee's part of the statement, or of the difference that a correction makes.
	Exact string `json:"exact"`
	// The first statement of its chain: the same, or the one that is corrected or voided.
	FirstStatementID string `json:"firstStatementId"`
	// Decimal: net and tax, which is due. Below zero for a credit.
	Gross string `json:"gross"`
	// The day of its issue, in the tenant's time zone.
	IssuedOn string       `json:"issuedOn"`
	Issuer   PayableParty `json:"issuer"`
	// One of STATEMENT, DEBIT_NOTE, CREDIT_NOTE.
	Kind string `json:"kind"`
	// Decimal, in the currency's minor unit: what Exact adds to the rounded sum so far.
	Net string `json:"net"`
	// Unbroken a tenant and year.
	Number string `json:"number"`
	// Decimal: the sum of Payments.
	PaidAmount string `json:"paidAmount"`
	// What was paid or set off, in the order of its recording.
	Payments  []PayablePayment `json:"payments"`
	Recipient PayableParty     `json:"recipient"`
	// Whether the issuer, who receives the payee's services, owes the tax.
	ReverseCharge bool `json:"reverseCharge"`
	// Its place among the tenant's, from 1.
	Sequence int64 `json:"sequence"`
	// One of DUE, PAID.
	State string `json:"state"`
	// The statement that states it.
	StatementID string `json:"statementId"`
	// Decimal: the tax on Net.
	Tax string `json:"tax"`
	// The tax rate, in hundredths of a per cent.
	TaxBps int64 `json:"taxBps"`
}

// PayableParty is who issues or receives a payable. It is in no event.
type PayableParty struct {
	Address   string `json:"address"`
	Email     string `json:"email"`
	LegalName string `json:"legalName"`
	// What the issuer says on each paper.
	Note  string `json:"note"`
	TaxID string `json:"taxId"`
}

// PayablePayment is a payment of a payable, or what was set off against another.
type PayablePayment struct {
	// Decimal; below zero for what a payee paid back.
	Amount string `json:"amount"`
	// The day of the payment.
	Date string `json:"date"`
	// Of the payment, or the number of the payable that it was set off against.
	Reference string `json:"reference"`
	// Whether it was set off, so no money moved.
	SetOff bool `json:"setOff"`
}

// Payout is what is to be paid of a payable.
type Payout struct {
	// Decimal: what is open.
	Amount string `json:"amount"`
	// The payee.
	CounterpartyID string `json:"counterpartyId"`
	// A code of ISO 4217.
	Currency string `json:"currency"`
	// The day on which it is due.
	DueOn string `json:"dueOn"`
	// The payable's, for the payment.
	Number    string `json:"number"`
	PayableID string `json:"payableId"`
	// The payee's legal name, or its name.
	Payee string `json:"payee"`
	// Where the counterparty is paid now.
	PayoutRef string `json:"payoutRef"`
	// The statement that states it.
	StatementID string `json:"statementId"`
}

// Issuer is the organisation that issues statements. Its names and addresses are in no event.
type Issuer struct {
	Record
	// In lines.
	Address   string `json:"address"`
	Email     string `json:"email"`
	LegalName string `json:"legalName"`
	// What each paper says besides, in lines.
	Note string `json:"note"`
	// How many days after its issue a paper is due, unless the counterparty's terms say otherwise.
	PaymentDays int64  `json:"paymentDays"`
	TaxID       string `json:"taxId"`
}

// NewIssuer asks for what the issuer becomes.
type NewIssuer struct {
	// In lines.
	Address   string `json:"address,omitempty"`
	Email     string `json:"email,omitempty"`
	LegalName string `json:"legalName"`
	// What each paper says besides, in lines: for example that it is a self-billed invoice.
	Note string `json:"note,omitempty"`
	// How many days after its issue a paper is due, unless the counterparty's terms say otherwise; absent: 30.
	PaymentDays *int64 `json:"paymentDays,omitempty"`
	TaxID       string `json:"taxId,omitempty"`
}

// Payment is a payment of a statement.
type Payment struct {
	// Decimal: a part of what is open, or, of the other sign, what is taken back of recorded payments; absent: all
	// that is open.
	Amount string `json:"amount,omitempty"`
	// Who was paid; absent: all payees of the statement.
	CounterpartyID string `json:"counterpartyId,omitempty"`
	// The day, as 2026-12-14; absent: today.
	Date string `json:"date,omitempty"`
	// Kept in the audit log for good: no place for personal data.
	Reference string `json:"reference"`
}
