package payable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"muniment.example/control/settle"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/rate"
)

// Statement is what Issue needs to know of a statement that is issued or voided.
type Statement struct {
	TenantID, ID, Currency string
	// First is the first statement of its chain; nil: this one.
	First *string
	// Voids says that it takes its chain back.
	Voids bool
	// Parts are what the payees get, or how a correction or a void changes that: one for each payee.
	Parts []Part
}

// Part is the part of a payee.
type Part struct {
	CounterpartyID string
	Exact          rate.Money
}

// Issue makes the payables of a statement, with the next numbers, and sets credits off. others are the
// other statements of which something was set off. The error is STATE_CONFLICT if an amount is too large, or
// if the issuer is to be set again (ReplayIssuer).
func Issue(ctx context.Context, tx *store.Tx, s Statement, by sealer.Ref) (made []Payable, others []string, err error) {
	chain := []Payable{}
	if s.First != nil {
		if chain, err = ofChain(ctx, tx, s.TenantID, *s.First); err != nil {
			return nil, nil, err
		}
	}
	if s.Voids {
		s.Parts = withAll(s.Parts, chain)
	}
	if len(s.Parts) == 0 {
		return nil, nil, nil
	}
	zone, err := tenant.Zone(ctx, tx, s.TenantID)
	if err != nil {
		return nil, nil, err
	}
	profile, err := issuerOf(ctx, tx, s.TenantID)
	if err != nil {
		return nil, nil, err
	}
	if profile != nil && profile.LegalName == "" {
		return nil, nil, errIssuerLost
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
	carried, err := carriedOf(ctx, tx, s.TenantID, s.Currency, s.Parts)
	if err != nil {
		return nil, nil, err
	}
	before := map[string][]Payable{}
	for _, p := range chain {
		before[p.CounterpartyID] = append(before[p.CounterpartyID], p)
	}
	made = make([]Payable, len(s.Parts))
	for i, part := range s.Parts {
		payee := payees[part.CounterpartyID]
		if payee == nil { // of a database that was edited
			payee = &settle.Counterparty{ID: part.CounterpartyID}
		}
		next := &made[i]
		*next = s.payable(part, payee, profile, before[part.CounterpartyID], store.At(tx.Now()), zone, last)
		if next.Number, next.Sequence, err = after(last, next.IssuedOn); err != nil {
			return nil, nil, err
		}
		if s.Voids {
			err = next.takeBack(before[part.CounterpartyID], part.Exact, carried[part.CounterpartyID])
		} else {
			err = next.compute(part.Exact, carried[part.CounterpartyID])
		}
		if err != nil {
			return nil, nil, api.Conflict("what " + part.CounterpartyID + " gets is too large to be paid: " + err.Error())
		}
		last = next
	}
	if others, err = setOff(ctx, tx, s.TenantID, s.Currency, made, last.IssuedOn, by); err != nil {
		return nil, nil, err
	}
	return made, others, payables.CreateAll(ctx, tx, eventIssued, made, by)
}

// errIssuerLost refuses to issue papers with an issuer of whom the names and addresses are lost.
var errIssuerLost = api.Conflict("the issuer's name and address were lost when the database was restored from an older copy: set them again (set-issuer), then issue")

// withAll adds the payees of a chain that have no part in what it is voided by: what they got was nothing
// in all, and yet payable.
func withAll(parts []Part, chain []Payable) []Part {
	has := map[string]bool{}
	for _, of := range parts {
		has[of.CounterpartyID] = true
	}
	for _, p := range chain {
		if !has[p.CounterpartyID] {
			has[p.CounterpartyID], parts = true, append(parts, Part{CounterpartyID: p.CounterpartyID})
		}
	}
	return parts
}

// payable returns a payable without a number and amounts. before are those of the payee in the chain, last
// is the tenant's newest.
func (s *Statement) payable(part Part, payee *settle.Counterparty, profile *Issuer, before []Payable, at store.Instant, zone *time.Location, last *Payable) Payable {
	today := at.In(zone)
	if last != nil {
		if day, err := time.ParseInLocation(time.DateOnly, last.IssuedOn, zone); err == nil && day.After(today) {
			today = day // numbers are in the order of their days
		}
	}
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
	p := Payable{
		ID: api.NewID(prefix, at.Time), TenantID: s.TenantID, StatementID: s.ID, FirstID: s.ID, CounterpartyID: part.CounterpartyID, Kind: OfStatement, Currency: s.Currency, Exact: part.Exact.String(),
		TaxBps: payee.TaxBps, ReverseCharge: payee.ReverseCharge, IssuedOn: today.Format(time.DateOnly), DueOn: today.AddDate(0, 0, int(days)).Format(time.DateOnly),
		State: Due, PaidAmount: rate.Money(0).Fixed(s.Currency), Payments: []Payment{}, Issuer: profile.party(), Recipient: Party{LegalName: name, Address: payee.Address, TaxID: payee.TaxID, Email: payee.Email}, CreatedAt: at, UpdatedAt: at,
	}
	if s.First != nil {
		p.FirstID, p.Kind = *s.First, DebitNote
	}
	if len(before) > 0 {
		p.Corrects, p.TaxBps, p.ReverseCharge = &before[0].Number, before[0].TaxBps, before[0].ReverseCharge
	}
	return p
}

// compute sets the amounts. carried is what the payee's payables so far have left.
func (p *Payable) compute(exact, carried rate.Money) error {
	left, err := carried.Plus(exact)
	if err != nil {
		return err
	}
	net, err := left.Payable(p.Currency)
	if err != nil {
		return err
	}
	tax, err := net.Percent(p.TaxBps, p.Currency)
	if err != nil {
		return err
	}
	return p.amounts(net, tax, left)
}

// takeBack sets the amounts of a void: those of all before, taken back.
func (p *Payable) takeBack(before []Payable, exact, carried rate.Money) error {
	left, err := carried.Plus(exact)
	net, tax := rate.Money(0), rate.Money(0)
	for _, of := range before {
		for _, one := range []struct {
			sum  *rate.Money
			text string
		}{{&net, of.Net}, {&tax, of.Tax}} {
			n, wrong := rate.ParseAmount(one.text)
			if wrong == nil {
				*one.sum, wrong = one.sum.Plus(-n)
			}
			err = errors.Join(err, wrong)
		}
	}
	if err != nil {
		return err
	}
	return p.amounts(net, tax, left)
}

// amounts sets net, tax and gross, and carries on what net leaves of left. What is below zero is a credit: after
// a void, net may have another sign than exact.
func (p *Payable) amounts(net, tax, left rate.Money) error {
	gross, err := net.Plus(tax)
	if err != nil {
		return err
	}
	carried, err := left.Plus(-net)
	if err != nil {
		return err
	}
	if gross == 0 {
		p.State = Paid
	}
	if net < 0 {
		p.Kind = CreditNote
	}
	p.Net, p.Tax, p.Gross, p.Carried = net.Fixed(p.Currency), tax.Fixed(p.Currency), gross.Fixed(p.Currency), carried.String()
	return nil
}

// after returns the number behind last, and its place. A year never comes back, so a clock that is set
// back gives no number twice.
func after(last *Payable, issuedOn string) (number string, sequence int64, err error) {
	n := 0
	year, err := strconv.Atoi(issuedOn[:4])
	if err != nil {
		return "", 0, err
	}
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

// setOff sets what is open of payables of different payees, which it does not write, off against those of the other
// sign: first those of their chains, then the oldest. It returns the statements of these.
func setOff(ctx context.Context, tx *store.Tx, tenantID, currency string, all []Payable, day string, by sealer.Ref) (statements []string, err error) {
	due := map[string][]Payable{}
	for _, credits := range []bool{true, false} {
		var payees []string
		for i := range all {
			left, err := all[i].open()
			if err != nil {
				return nil, err
			}
			if left > 0 && credits || left < 0 && !credits {
				payees = append(payees, all[i].CounterpartyID)
			}
		}
		found, err := dueTo(ctx, tx, tenantID, currency, payees, credits)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			due[p.CounterpartyID] = append(due[p.CounterpartyID], p)
		}
	}
	var changed []Payable
	for i := range all {
		some, err := all[i].setOff(due[all[i].CounterpartyID], day)
		if err != nil {
			return nil, err
		}
		for _, other := range some {
			changed, statements = append(changed, other), append(statements, other.StatementID)
		}
	}
	return statements, revise(ctx, tx, changed, by)
}

// setOff sets a payable off against others of the other sign, the oldest first. It returns these as they are then.
func (p *Payable) setOff(due []Payable, day string) (changed []Payable, err error) {
	left, err := p.open()
	if err != nil || left == 0 {
		return nil, err
	}
	slices.SortStableFunc(due, func(a, b Payable) int {
		foreign := func(of Payable) int {
			if of.FirstID == p.FirstID {
				return 0
			}
			return 1
		}
		return cmp.Compare(foreign(a), foreign(b))
	})
	for _, other := range due {
		open, err := other.open()
		if err != nil {
			return nil, err
		}
		if left == 0 {
			break
		}
		part := max(left, -open) // of a credit
		if left > 0 {
			part = min(left, -open)
		}
		if err := p.add(part, Payment{Date: day, Reference: other.Number, SetOff: true}); err != nil {
			return nil, err
		}
		if err := other.add(-part, Payment{Date: day, Reference: p.Number, SetOff: true}); err != nil {
			return nil, err
		}
		left, changed = left-part, append(changed, other)
	}
	return changed, nil
}

// revise writes payables with other payments, and emits their events.
func revise(ctx context.Context, tx *store.Tx, changed []Payable, by sealer.Ref) error {
	for i := range changed {
		changed[i].UpdatedAt = store.At(tx.Now())
	}
	if err := payables.UpdateAll(ctx, tx, changed); err != nil {
		return err
	}
	return emit(ctx, tx, changed, by)
}
