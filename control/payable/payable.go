// Package payable owns what is due to payees: the part of an issued statement that one counterparty
// gets, with a number, in an amount that can be paid, and what was paid of it.
//
// Issuing a statement makes a payable for each of its payees, in the same transaction; so does a
// correction for each payee whose part it changes, and a void for each whose part it takes back. Those
// are debit or credit notes with numbers of their own. A statement for one counterparty always makes
// one, even of nothing.
//
// Numbers are unbroken a tenant and year, such as 2026-000001, in the order of their issue; the year is
// that of the tenant's time zone. An invoice needs such a number (Directive 2006/112/EC, article 226).
// They are in the event payable.issued, so a database that is restored from an older copy gets them back.
//
// A statement is exact to the millionth; what is paid are whole minor units of the currency (ISO 4217).
// Exact is the payee's part, and Net what it adds to the rounded sum of all parts so far in that
// currency: the sum of all so far, rounded, halves up, less the nets before. Carried is what is left of the
// exact amounts, which the next payable takes up. So no remainder is lost, and however many statements
// there are, what is payable differs from the exact sum by at most half a minor unit. A void is the
// exception: it takes back just what was payable, net, tax and gross. What rounding had added to or taken
// from each payable that it takes back is carried until the payee's next payable takes it up.
//
// The tax is on the rounded net, by the counterparty's rate at the moment of issue, and Gross is due. A
// note has the rate of what it corrects.
//
// A credit is set off against what the same payee is due in the currency: first of the statement that it
// corrects, then the oldest; what is left of it is set off against what comes later. So a payout never
// pays what a credit note takes back.
//
// A payment that was recorded by mistake is taken back: by one of the other sign, of at most what was
// recorded. What is open again is due again, or set off.
//
// Who issues and who receives is shown as it was at the moment of issue. It may be personal data: it is
// in the database and in the private part of the event, both of which an erasure clears, the one party
// without the other. The event has a commitment to both. Restored from the log, a payable has a number and
// amounts, and no parties; an issuer has payment days alone, and nothing is issued until it is set again.
package payable

import (
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/rate"
)

const prefix, issuerPrefix api.Prefix = "pay_", "isr_"

// Payable is the record of what a payee is due.
type Payable struct {
	ID             string  `json:"id" db:"payable_id"`
	TenantID       string  `json:"-" db:"tenant_id"`
	StatementID    string  `json:"statementId" db:"statement_id" doc:"The statement that states it."`
	FirstID        string  `json:"firstStatementId" db:"first_id" doc:"The first statement of its chain: the same, or the one that is corrected or voided."`
	CounterpartyID string  `json:"counterpartyId" db:"counterparty_id" doc:"The payee."`
	Number         string  `json:"number" db:"number" doc:"Its number: unbroken a tenant and year."`
	Kind           Kind    `json:"kind" db:"kind" enum:"STATEMENT,DEBIT_NOTE,CREDIT_NOTE" doc:"A credit note is one whose net is below zero; a debit note is any other of a correction or a void."`
	Corrects       *string `json:"corrects" db:"corrects" doc:"The payee's first number of the chain, which it corrects; null if this is that."`
	Currency       string  `json:"currency" db:"currency" doc:"A code of ISO 4217."`
	Exact          string  `json:"exact" decimal:"38,6" db:"exact" doc:"Decimal: the payee's part of the statement, or of the difference that a correction makes."`
	Net            string  `json:"net" decimal:"38,6" db:"net" doc:"Decimal, in the currency's minor unit: what exact adds to the rounded sum so far."`
	TaxBps         int64   `json:"taxBps" db:"tax_bps" doc:"The tax rate, in hundredths of a per cent."`
	ReverseCharge  bool    `json:"reverseCharge" db:"reverse_charge" doc:"Whether the issuer, who receives the payee's services, owes the tax."`
	Tax            string  `json:"tax" decimal:"38,6" db:"tax" doc:"Decimal: the tax on net."`
	Gross          string  `json:"gross" decimal:"38,6" db:"gross" doc:"Decimal: net and tax, which is due. Below zero for a credit."`
	IssuedOn       string  `json:"issuedOn" db:"issued_on" format:"date" doc:"The day of its issue, in the tenant's time zone."`
	DueOn          string  `json:"dueOn" db:"due_on" format:"date" doc:"The day on which it is due."`
	State          State   `json:"state" db:"state,moves" enum:"DUE,PAID"`
	PaidAmount     string  `json:"paidAmount" decimal:"38,6" db:"paid_amount,moves" doc:"Decimal: the sum of payments."`
	// Payments are those that were recorded, in their order.
	Payments []Payment `json:"payments" db:"payments,moves" doc:"What was paid or set off, in the order of its recording."`
	Carried  string    `json:"carried" decimal:"38,6" db:"carried" doc:"Decimal: what the exact amounts of all that the payee got so far in the currency are more than their nets. The next payable takes it up."`
	Sequence int64     `json:"sequence" db:"sequence" doc:"Its place among the tenant's, from 1."`
	// Issuer and Recipient are as at the moment of issue.
	Issuer    Party         `json:"issuer" db:"issuer,moves"`
	Recipient Party         `json:"recipient" db:"recipient,moves"`
	CreatedAt store.Instant `json:"createdAt" db:"created_at"`
	UpdatedAt store.Instant `json:"updatedAt" db:"updated_at,moves"`
	Revision  int64         `json:"revision" db:"revision,moves"`
}

// Kind is what a payable is among papers.
type Kind string

// The kinds.
const (
	OfStatement Kind = "STATEMENT"
	DebitNote   Kind = "DEBIT_NOTE"
	CreditNote  Kind = "CREDIT_NOTE"
)

// State says whether something is left to be paid.
type State string

// The states.
const (
	Due  State = "DUE"
	Paid State = "PAID"
)

// Payment is a payment of a payable, or what was set off against another.
type Payment struct {
	Date      string `json:"date" format:"date" doc:"The day of the payment."`
	Amount    string `json:"amount" doc:"Decimal; below zero for what was taken back, of a credit for what the payee paid."`
	Reference string `json:"reference" doc:"The payment's reference, or the number of the payable that it was set off against."`
	SetOff    bool   `json:"setOff" doc:"Whether it was set off, so no money moved."`
}

// Party is who issues or receives a payable.
type Party struct {
	LegalName *string `json:"legalName" doc:"Never written to events."`
	Address   *string `json:"address" doc:"Never written to events."`
	TaxID     *string `json:"taxId" doc:"Never written to events."`
	Email     *string `json:"email" doc:"Never written to events."`
	Note      *string `json:"note" doc:"What the issuer says on each paper. Never written to events."`
}

// hide implements store.Records.Hide: the parties are private, each as a note of its own, so that one can be
// erased and shown without the other.
func hide(p *Payable) (any, sealer.Private, error) {
	public, private := *p, sealer.Private{AttentionMs: -1}
	public.Issuer, public.Recipient = Party{}, Party{}
	var err error
	private.Notes, err = sealer.NotesOf(struct {
		Issuer    Party `json:"issuer"`
		Recipient Party `json:"recipient"`
	}{p.Issuer, p.Recipient})
	return &public, private, err
}

// open is what is left to be paid.
func (p *Payable) open() (rate.Money, error) {
	gross, err := rate.ParseAmount(p.Gross)
	if err != nil {
		return 0, err
	}
	paid, err := rate.ParseAmount(p.PaidAmount)
	if err != nil {
		return 0, err
	}
	return gross.Plus(-paid)
}

// Open is what is left to be paid, as a decimal.
func (p *Payable) Open() (string, error) {
	left, err := p.open()
	return left.Fixed(p.Currency), err
}

// add adds a payment, or takes one back.
func (p *Payable) add(paid rate.Money, payment Payment) error {
	before, err := rate.ParseAmount(p.PaidAmount)
	if err != nil {
		return err
	}
	after, err := before.Plus(paid)
	if err != nil {
		return err
	}
	payment.Amount, p.PaidAmount = paid.Fixed(p.Currency), after.Fixed(p.Currency)
	p.Payments = append(p.Payments[:len(p.Payments):len(p.Payments)], payment)
	left, err := p.open()
	if p.State = Due; left == 0 {
		p.State = Paid
	}
	return err
}
