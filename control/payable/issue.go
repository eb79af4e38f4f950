package payable

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"muniment/control/settle"
	"muniment/control/settle/rate"
	"muniment/control/store"
	"muniment/control/tenant"
	"muniment/gateway/api"
	"muniment/sealer"
)

// Statement is what Issue needs to know of a statement that is issued or voided.
type Statement struct {
	TenantID, ID, Currency string
	// First is the first statement of its chain; nil: this one.
	First *string
	// Parts are what the payees get, or how a correction or a void changes that.
	Parts []Part
}

// Part is the part of a payee.
type Part struct {
	CounterpartyID string
	Exact          rate.Money
}

// Issue makes the payables of a statement, with the next numbers, and sets credits off. settled are the
// other statements of which something was set off. The error is VALIDATION_FAILED if an amount is too
// large.
func Issue(ctx context.Context, tx *store.Tx, s Statement, by sealer.Ref) (made []Payable, settled []string, err error) {
	if len(s.Parts) == 0 {
		return nil, nil, nil
	}
	zone, err := tenant.TimeZone(ctx, tx, s.TenantID)
	if err != nil {
		return nil, nil, err
	}
	in, err := time.LoadLocation(zone)
	if err != nil {
		return nil, nil, err
	}
	profile, err := issuerOf(ctx, tx, s.TenantID)
	if err != nil {
		return nil, nil, err
	}
	all, err := settle.Counterparties(ctx, tx, s.TenantID)
	if err != nil {
		return nil, nil, err
	}
	payees := make(map[string]*settle.Counterparty, len(all))
	for i := range all {
		payees[all[i].ID] = &all[i]
	}
	last, err := newest(ctx, tx, s.TenantID)
	if err != nil {
		return nil, nil, err
	}
	at := store.At(tx.Now())
	for _, part := range s.Parts {
		payee := payees[part.CounterpartyID]
		if payee == nil { // of a database that was edited
			payee = &settle.Counterparty{ID: part.CounterpartyID}
		}
		next, err := s.payable(ctx, tx, part, payee, profile, at, in, last)
		if err != nil {
			return nil, nil, err
		}
		others, err := next.setOff(ctx, tx, by)
		if err == nil {
			err = payables.Create(ctx, tx, eventIssued, next, by, nil)
		}
		if err != nil {
			return nil, nil, err
		}
		made, settled, last = append(made, *next), append(settled, others...), next
	}
	return made, settled, nil
}

// payable computes a payable. last is the tenant's newest before it.
func (s *Statement) payable(ctx context.Context, tx *store.Tx, part Part, payee *settle.Counterparty, profile *Issuer, at store.Instant, zone *time.Location, last *Payable) (*Payable, error) {
	today := at.In(zone)
	days := int64(defaultDays)
	if profile != nil {
		days = profile.PaymentDays
	}
	if payee.PaymentDays != nil {
		days = *payee.PaymentDays
	}
	name := payee.LegalName
	if name == nil && payee.Name != "" {
		name = &payee.Name
	}
	p := &Payable{
		ID: api.NewID(prefix, at.Time), TenantID: s.TenantID, StatementID: s.ID, CounterpartyID: part.CounterpartyID, Kind: OfStatement, Currency: s.Currency, Exact: part.Exact.String(),
		TaxBps: payee.TaxBps, ReverseCharge: payee.ReverseCharge, IssuedOn: today.Format(time.DateOnly), DueOn: today.AddDate(0, 0, int(days)).Format(time.DateOnly),
		State: Due, PaidAmount: rate.Money(0).Fixed(s.Currency), Payments: []Payment{}, Issuer: profile.party(), Recipient: Party{LegalName: name, Address: payee.Address, TaxID: payee.TaxID, Email: payee.Email}, CreatedAt: at, UpdatedAt: at,
	}
	if s.First != nil {
		p.Kind = DebitNote
		if part.Exact < 0 {
			p.Kind = CreditNote
		}
		var err error
		if p.Corrects, err = numberIn(ctx, tx, s.TenantID, *s.First, part.CounterpartyID); err != nil {
			return nil, err
		}
	}
	before, err := newestOf(ctx, tx, s.TenantID, part.CounterpartyID, s.Currency)
	if err != nil {
		return nil, err
	}
	if err := p.compute(before, part.Exact); err != nil {
		return nil, api.Conflict("what " + part.CounterpartyID + " gets is too large to be paid: " + err.Error())
	}
	p.Number, p.Sequence, err = after(last, today.Year())
	return p, err
}

// compute sets the amounts. before is the payee's newest payable in the currency.
func (p *Payable) compute(before *Payable, exact rate.Money) (err error) {
	var exactBefore, netBefore rate.Money
	if before != nil {
		if exactBefore, err = amount(before.ExactSoFar); err != nil {
			return err
		}
		if netBefore, err = amount(before.NetSoFar); err != nil {
			return err
		}
	}
	sum, err := exactBefore.Plus(exact)
	if err != nil {
		return err
	}
	rounded, err := sum.Payable(p.Currency)
	if err != nil {
		return err
	}
	net, err := rounded.Plus(-netBefore)
	if err != nil {
		return err
	}
	tax, err := net.Percent(p.TaxBps, p.Currency)
	if err != nil {
		return err
	}
	gross, err := net.Plus(tax)
	if err != nil {
		return err
	}
	p.Net, p.Tax, p.Gross = net.Fixed(p.Currency), tax.Fixed(p.Currency), gross.Fixed(p.Currency)
	p.ExactSoFar, p.NetSoFar = sum.String(), rounded.Fixed(p.Currency)
	return nil
}

// after returns the number behind last, and its place. A year never comes back, so a clock that is set
// back gives no number twice.
func after(last *Payable, year int) (number string, sequence int64, err error) {
	n := 0
	if last != nil {
		was, of, _ := strings.Cut(last.Number, "-")
		before, err := strconv.Atoi(was)
		if err == nil && before >= year {
			year = before
			n, err = strconv.Atoi(of)
		}
		if err != nil {
			return "", 0, fmt.Errorf("cannot count on from the number %q: %w", last.Number, err)
		}
		sequence = last.Sequence
	}
	return fmt.Sprintf("%04d-%06d", year, n+1), sequence + 1, nil
}

// setOff sets a payable that is not stored yet off against those of the other sign, the oldest first.
// It returns the statements of these.
func (p *Payable) setOff(ctx context.Context, tx *store.Tx, by sealer.Ref) (statements []string, err error) {
	left, err := p.open()
	if err != nil || left == 0 {
		return nil, err
	}
	due, err := dueTo(ctx, tx, p.TenantID, p.CounterpartyID, p.Currency)
	if err != nil {
		return nil, err
	}
	for i := range due {
		was, other := &due[i], due[i]
		open, err := other.open()
		if err != nil {
			return nil, err
		}
		if left == 0 || open == 0 || (open > 0) == (left > 0) {
			continue
		}
		part := max(left, -open) // of a credit
		if left > 0 {
			part = min(left, -open)
		}
		if err := p.add(part, Payment{Date: p.IssuedOn, Reference: other.Number, SetOff: true}); err != nil {
			return nil, err
		}
		if err := other.add(-part, Payment{Date: p.IssuedOn, Reference: p.Number, SetOff: true}); err != nil {
			return nil, err
		}
		if err := revise(ctx, tx, was, &other, by); err != nil {
			return nil, err
		}
		left, statements = left-part, append(statements, other.StatementID)
	}
	return statements, nil
}

// revise writes a payable with another payment, and emits its event.
func revise(ctx context.Context, tx *store.Tx, was, next *Payable, by sealer.Ref) error {
	next.UpdatedAt = store.At(tx.Now())
	if err := payables.Update(ctx, tx, was, next); err != nil {
		return err
	}
	return payables.Emit(ctx, tx, eventPaid, next, by, nil)
}
