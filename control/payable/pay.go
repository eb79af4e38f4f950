package payable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/rate"
)

// Payments are what a request to settle a statement says.
type Payments struct {
	// CounterpartyID is whose payable is paid; nil: all that are above zero, or with an amount also the only one.
	CounterpartyID *string
	// Amount is nil for all that is open, of a credit only with CounterpartyID. It is of one payable: of its
	// sign, a part of what is open; of the other sign, what is taken back of the payments that were recorded.
	Amount    *string
	Date      string
	Reference string
}

// maxPayments bounds the payments that callers record of a payable; as many more may be taken back.
const maxPayments = 100

// Pay records a payment of payables of a statement, or takes payments back. A credit is paid back only if the
// request names its payee, or with an amount, if the statement has no other payable: otherwise it waits to be set
// off, and who settles whatever is open does not record that the payee sent money. What is
// open again is set off as if it were new; others are the statements of what it was set off against. b is where
// the statement stands then, also with ErrNothingOpen. The error is VALIDATION_FAILED if the date is later than today in the
// tenant's time zone or more than a year before the issue, if the statement pays the counterparty nothing, if the amount is no part of what is
// open, or takes back more than was paid, ErrNothingOpen if nothing is that could be paid, and STATE_CONFLICT if
// the same amount is recorded already with the same date and reference.
func Pay(ctx context.Context, tx *store.Tx, tenantID, statementID, currency string, of Payments, by sealer.Ref) (b Balance, others []string, err error) {
	all, err := Of(ctx, tx, tenantID, statementID)
	if err != nil {
		return b, nil, err
	}
	today, err := tenant.Today(ctx, tx, tenantID, tx.Now())
	if err == nil {
		err = of.dated(all, today)
	}
	if err != nil {
		return b, nil, err
	}
	payments, err := of.of(all, currency)
	if err != nil {
		b, wrong := NewBalance(all, currency)
		return b, nil, errors.Join(err, wrong)
	}
	changed := make([]Payable, len(payments))
	for i, paid := range payments {
		payment := Payment{Date: of.Date, Amount: paid.amount.Fixed(currency), Reference: of.Reference}
		if of.Amount != nil {
			if slices.Contains(paid.Payments, payment) {
				return b, nil, errRepeated(paid.Number, payment)
			}
			if err := paid.allows(paid.amount, paid.back); err != nil {
				return b, nil, err
			}
		}
		if err := paid.add(paid.amount, payment); err != nil {
			return b, nil, err
		}
		changed[i] = *paid.Payable
		if paid.back {
			if others, err = setOff(ctx, tx, tenantID, currency, changed[i:], of.Date, by); err != nil {
				return b, nil, err
			}
			*paid.Payable = changed[i]
		}
	}
	if err := revise(ctx, tx, changed, by); err != nil {
		return b, nil, err
	}
	b, err = NewBalance(all, currency)
	return b, others, err
}

// dated refuses a date that can't be the day of a payment that is known today: a later one, and one of more than
// a year before the issue, of which nothing was due then.
func (of *Payments) dated(all []Payable, today string) error {
	if of.Date > today {
		return api.InvalidField("date", "must not be later than today, "+today)
	}
	for i := range all {
		issued, err := time.Parse(time.DateOnly, all[i].IssuedOn)
		if err != nil {
			return err
		}
		if earliest := issued.AddDate(-1, 0, 0).Format(time.DateOnly); of.Date < earliest {
			return api.InvalidField("date", "must be "+earliest+" or later: a payment is at most a year older than the statement")
		}
	}
	return nil
}

// payment is a payment of one payable; back says that it takes some of the recorded ones back.
type payment struct {
	*Payable
	amount rate.Money
	back   bool
}

// of finds what is paid of the payables of a statement.
func (of *Payments) of(all []Payable, currency string) (payments []payment, err error) {
	amount := rate.Money(0)
	if of.Amount != nil {
		if amount, err = parseAmount(*of.Amount, currency); err != nil {
			return nil, err
		}
	}
	named, back := of.CounterpartyID == nil, false
	for i := range all {
		p := &all[i]
		if of.CounterpartyID != nil && *of.CounterpartyID != p.CounterpartyID {
			continue
		}
		named = true
		gross, left, recorded, err := p.sums()
		if err != nil {
			return nil, err
		}
		alone := of.CounterpartyID != nil || of.Amount != nil && len(all) == 1
		switch {
		case gross == 0 || gross < 0 && !alone:
		case opposite(amount, gross):
			if back = true; recorded != 0 || alone {
				payments = append(payments, payment{p, amount, true})
			}
		case left != 0 && of.Amount == nil:
			payments = append(payments, payment{p, left, false})
		case left != 0:
			payments = append(payments, payment{p, amount, false})
		}
	}
	switch {
	case !named:
		return nil, api.InvalidField("counterpartyId", "is no payee of the statement")
	case len(payments) == 0 && back:
		return nil, errNothingPaid
	case len(payments) == 0:
		return nil, ErrNothingOpen
	case of.Amount != nil && len(payments) > 1:
		return nil, api.InvalidField("counterpartyId", "is missing: the statement pays several counterparties, and the amount is of one")
	}
	return payments, nil
}

// ErrNothingOpen refuses a payment of what is paid, or waits to be set off.
var ErrNothingOpen = api.Conflict("nothing of the statement is open to be paid: credits are set off. If a payee paid one back, give its counterpartyId")

// errRepeated refuses a payment that is recorded already: a request that was sent again, because its response
// was lost.
func errRepeated(number string, p Payment) error {
	return api.Conflict(fmt.Sprintf("a payment of %s on %s with the reference %q is recorded of %s already. If this is another one, give it another reference", p.Amount, p.Date, p.Reference, number))
}

// errNothingPaid refuses to take back a payment of a statement that has none.
var errNothingPaid = api.InvalidField("amount", "takes a payment back, and none of the statement is recorded")

// opposite reports whether two amounts have different signs.
func opposite(a, b rate.Money) bool { return a > 0 && b < 0 || a < 0 && b > 0 }

// sums are what is due, what is left of it, and what callers have recorded as paid: what was set off is none
// of that.
func (p *Payable) sums() (gross, left, recorded rate.Money, err error) {
	gross, err = rate.ParseAmount(p.Gross)
	if err == nil {
		left, err = p.open()
	}
	for _, payment := range p.Payments {
		if payment.SetOff || err != nil {
			continue
		}
		var amount rate.Money
		if amount, err = rate.ParseAmount(payment.Amount); err == nil {
			recorded, err = recorded.Plus(amount)
		}
	}
	return gross, left, recorded, err
}

// parseAmount reads the amount of a payment.
func parseAmount(text, currency string) (rate.Money, error) {
	amount, err := rate.ParseAmount(text)
	if err != nil {
		return 0, api.InvalidField("amount", err.Error())
	}
	if rounded, err := amount.Payable(currency); err != nil || rounded != amount {
		return 0, api.InvalidField("amount", fmt.Sprintf("has more digits than amounts in %s, which have %d after the point", currency, rate.Minor(currency)))
	}
	return amount, nil
}

// allows refuses an amount that is no part of what is open, or takes back more than was paid.
func (p *Payable) allows(amount rate.Money, back bool) error {
	_, left, recorded, err := p.sums()
	if err != nil {
		return err
	}
	within := func(of rate.Money) bool {
		return amount != 0 && !opposite(amount, of) && max(amount, -amount) <= max(of, -of)
	}
	most := maxPayments
	switch {
	case back && !within(-recorded):
		return api.InvalidField("amount", "takes back more than the payments that are recorded: "+recorded.Fixed(p.Currency))
	case back:
		most = 2 * maxPayments
	case !within(left):
		return api.InvalidField("amount", "must be a part of what is open: "+left.Fixed(p.Currency))
	}
	n := 0
	for _, before := range p.Payments {
		if !before.SetOff {
			n++
		}
	}
	switch {
	case n < most:
		return nil
	case back:
		return api.Conflict(fmt.Sprintf("%d payments of %s are recorded, so no more can be taken back", n, p.Number))
	}
	return api.Conflict(fmt.Sprintf("%d payments of %s are recorded: record the rest as one", n, p.Number))
}

// Balance is where a statement stands.
type Balance struct {
	// Paid is the sum of all payments, Due what is open: decimals, in the currency's minor unit.
	Paid, Due string
	// Settled says that nothing is left to be paid.
	Settled bool
}

// BalanceOf returns where a statement stands.
func BalanceOf(ctx context.Context, q store.Querier, tenantID, statementID, currency string) (b Balance, err error) {
	scan := func(row store.Row) (p Payable, err error) { return p, row.Scan(&p.Gross, &p.PaidAmount, &p.State) }
	all, err := store.List(ctx, q, "what is paid of the statement", scan, `SELECT gross, paid_amount, state FROM payables WHERE tenant_id = $1 AND statement_id = $2`, tenantID, statementID)
	if err != nil {
		return b, err
	}
	return NewBalance(all, currency)
}

// NewBalance returns where a statement with these payables stands.
func NewBalance(all []Payable, currency string) (b Balance, err error) {
	paid, due := rate.Money(0), rate.Money(0)
	b.Settled = true
	for i := range all {
		part, err := rate.ParseAmount(all[i].PaidAmount)
		if err == nil {
			paid, err = paid.Plus(part)
		}
		var left rate.Money
		if err == nil {
			left, err = all[i].open()
		}
		if err == nil {
			due, err = due.Plus(left)
		}
		if err != nil {
			return b, err
		}
		b.Settled = b.Settled && all[i].State == Paid
	}
	b.Paid, b.Due = paid.Fixed(currency), due.Fixed(currency)
	return b, nil
}
