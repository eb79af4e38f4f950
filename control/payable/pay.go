package payable

import (
	"context"
	"fmt"

	"muniment/control/settle/rate"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// Payments are what a request to settle a statement says.
type Payments struct {
	// CounterpartyID is whose payable is paid; nil: all of the statement.
	CounterpartyID *string
	// Amount is nil for all that is open. It is of one payable, and below zero for what comes back.
	Amount    *string
	Date      string
	Reference string
}

// maxPayments bounds the payments that callers record of a payable.
const maxPayments = 100

// Balance is where a statement stands.
type Balance struct {
	// Paid is the sum of all payments.
	Paid string
	// Settled says that nothing is left to be paid.
	Settled bool
}

// Pay records a payment of payables of a statement. The error is VALIDATION_FAILED if the statement pays
// the counterparty nothing, or the amount is more than what is open, and STATE_CONFLICT if nothing is.
func Pay(ctx context.Context, tx *store.Tx, tenantID, statementID, currency string, of Payments, by sealer.Ref) (b Balance, err error) {
	all, err := Of(ctx, tx, tenantID, statementID)
	if err != nil {
		return b, err
	}
	var open []*Payable
	named := of.CounterpartyID == nil
	for i := range all {
		p := &all[i]
		if of.CounterpartyID != nil && *of.CounterpartyID != p.CounterpartyID {
			continue
		}
		named = true
		if p.State == Due {
			open = append(open, p)
		}
	}
	switch {
	case !named:
		return b, api.InvalidField("counterpartyId", "is no payee of the statement")
	case len(open) == 0 && len(all) > 0:
		return b, api.Conflict("nothing of the statement is open")
	case of.Amount != nil && len(open) > 1:
		return b, api.InvalidField("counterpartyId", "is missing: the statement pays several counterparties, and the amount is of one")
	case of.Amount != nil && len(open) == 0:
		return b, api.InvalidField("amount", "is not 0, and the statement pays nobody")
	}
	for _, p := range open {
		was := *p
		paid, err := p.open()
		if err != nil {
			return b, err
		}
		if of.Amount != nil {
			if paid, err = part(*of.Amount, paid, currency); err != nil {
				return b, err
			}
		}
		if len(p.Payments) >= maxPayments && (of.Amount != nil) {
			return b, api.Conflict(fmt.Sprintf("%d payments of %s are recorded: record the rest as one", maxPayments, p.Number))
		}
		if err := p.add(paid, Payment{Date: of.Date, Reference: of.Reference}); err != nil {
			return b, err
		}
		if err := revise(ctx, tx, &was, p, by); err != nil {
			return b, err
		}
	}
	return balance(all, currency)
}

// part reads the amount of a part payment.
func part(text string, open rate.Money, currency string) (rate.Money, error) {
	paid, err := amount(text)
	if err != nil {
		return 0, api.InvalidField("amount", err.Error())
	}
	switch rounded, err := paid.Payable(currency); {
	case err != nil || rounded != paid:
		return 0, api.InvalidField("amount", fmt.Sprintf("has more digits than amounts in %s, which have %d after the point", currency, rate.Minor(currency)))
	case paid == 0 || (paid > 0) != (open > 0) || paid > 0 && paid > open || paid < 0 && paid < open:
		return 0, api.InvalidField("amount", "must be a part of what is open: "+open.Fixed(currency))
	}
	return paid, nil
}

// BalanceOf returns where a statement stands.
func BalanceOf(ctx context.Context, q store.Querier, tenantID, statementID, currency string) (Balance, error) {
	all, err := Of(ctx, q, tenantID, statementID)
	if err != nil {
		return Balance{}, err
	}
	return balance(all, currency)
}

func balance(all []Payable, currency string) (b Balance, err error) {
	sum := rate.Money(0)
	b.Settled = true
	for i := range all {
		paid, err := amount(all[i].PaidAmount)
		if err != nil {
			return b, err
		}
		if sum, err = sum.Plus(paid); err != nil {
			return b, err
		}
		b.Settled = b.Settled && all[i].State == Paid
	}
	b.Paid = sum.Fixed(currency)
	return b, nil
}
