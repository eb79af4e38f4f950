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
	// CounterpartyID is whose payable is paid; nil: all that are above zero, or the only one.
	CounterpartyID *string
	// Amount is nil for all that is open. It is of one payable, and below zero for what comes back.
	Amount    *string
	Date      string
	Reference string
}

// maxPayments bounds the payments that callers record of a payable.
const maxPayments = 100

// Pay records a payment of payables of a statement. A credit is paid back only if the request names its
// payee, or if the statement has no other payable: otherwise it waits to be set off. The error is
// VALIDATION_FAILED if the statement pays the counterparty nothing, or the amount is no part of what is
// open, and STATE_CONFLICT if nothing is that could be paid.
func Pay(ctx context.Context, tx *store.Tx, tenantID, statementID, currency string, of Payments, by sealer.Ref) error {
	all, err := Of(ctx, tx, tenantID, statementID)
	if err != nil {
		return err
	}
	var open []*Payable
	named := of.CounterpartyID == nil
	for i := range all {
		p := &all[i]
		if of.CounterpartyID != nil && *of.CounterpartyID != p.CounterpartyID {
			continue
		}
		named = true
		left, err := p.open()
		if err != nil {
			return err
		}
		if left > 0 || left < 0 && (of.CounterpartyID != nil || len(all) == 1) {
			open = append(open, p)
		}
	}
	switch {
	case !named:
		return api.InvalidField("counterpartyId", "is no payee of the statement")
	case len(open) == 0:
		return errNothingOpen
	case of.Amount != nil && len(open) > 1:
		return api.InvalidField("counterpartyId", "is missing: the statement pays several counterparties, and the amount is of one")
	}
	for _, p := range open {
		was := *p
		paid, err := p.open()
		if err != nil {
			return err
		}
		if of.Amount != nil {
			if paid, err = part(*of.Amount, paid, currency); err != nil {
				return err
			}
			recorded := 0
			for _, before := range p.Payments {
				if !before.SetOff {
					recorded++
				}
			}
			if recorded >= maxPayments {
				return api.Conflict(fmt.Sprintf("%d payments of %s are recorded: record the rest as one", maxPayments, p.Number))
			}
		}
		if err := p.add(paid, Payment{Date: of.Date, Reference: of.Reference}); err != nil {
			return err
		}
		if err := revise(ctx, tx, &was, p, by); err != nil {
			return err
		}
	}
	return nil
}

// errNothingOpen refuses a payment of what is paid, or waits to be set off.
var errNothingOpen = api.Conflict("nothing of the statement is open to be paid: credits are set off, unless the request names their payee")

// part reads the amount of a part payment.
func part(text string, open rate.Money, currency string) (rate.Money, error) {
	paid, err := rate.ParseAmount(text)
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

// Balance is where a statement stands.
type Balance struct {
	// Paid is the sum of all payments.
	Paid string
	// Settled says that nothing is left to be paid.
	Settled bool
}

// BalanceOf returns where a statement stands.
func BalanceOf(ctx context.Context, q store.Querier, tenantID, statementID, currency string) (b Balance, err error) {
	all, err := Of(ctx, q, tenantID, statementID)
	if err != nil {
		return b, err
	}
	sum := rate.Money(0)
	b.Settled = true
	for i := range all {
		paid, err := rate.ParseAmount(all[i].PaidAmount)
		if err == nil {
			sum, err = sum.Plus(paid)
		}
		if err != nil {
			return b, err
		}
		b.Settled = b.Settled && all[i].State == Paid
	}
	b.Paid = sum.Fixed(currency)
	return b, nil
}
