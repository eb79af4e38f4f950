package payable

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment/control/rapidtest"
	"muniment/control/roomtest"
	"muniment/control/settle"
	"muniment/control/settle/rate"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

var byKey = store.ByKey("key_1")

// fixture is a tenant in Berlin, at a time that tests set.
type fixture struct {
	t   require.TestingT
	db  *store.DB
	now time.Time
	// tenantID is another one for each case.
	tenantID string
	made     int
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, now: time.Date(2026, 12, 31, 22, 30, 0, 0, time.UTC)}
	f.db = roomtest.Open(t, t.TempDir(), func() time.Time { return f.now })
	f.tenant(t)
	return f
}

func (f *fixture) tenant(t require.TestingT) {
	f.t, f.tenantID = t, api.NewID(api.PrefixTenant, f.now)
	f.change(func(tx *store.Tx) error {
		_, err := tx.ExecContext(context.Background(), `INSERT INTO tenants (tenant_id, org_id, time_zone, created_at, updated_at, revision) VALUES ($1, 'org_a', 'Europe/Berlin', 0, 0, 0)`, f.tenantID)
		return err
	})
}

func (f *fixture) change(fn func(tx *store.Tx) error) {
	require.NoError(f.t, f.db.Change(context.Background(), fn))
}

// payee makes a counterparty.
func (f *fixture) payee(currency string, terms settle.Terms) (id string) {
	f.change(func(tx *store.Tx) error {
		made, err := settle.CreateCounterparty(context.Background(), tx, settle.Counterparty{
			TenantID: f.tenantID, Name: "=Studio", Kind: settle.Publisher, Currency: currency, Terms: terms, Private: settle.Private{LegalName: new("Studio GmbH"), PayoutRef: new("DE00 1234")},
		}, byKey)
		id = made.ID
		return err
	})
	return id
}

// issue makes the payables of another statement.
func (f *fixture) issue(s Statement) (made []Payable, others []string) {
	f.made++
	s.TenantID = f.tenantID
	if s.ID == "" {
		s.ID = fmt.Sprintf("stm_%06d", f.made)
	}
	f.change(func(tx *store.Tx) (err error) {
		made, others, err = Issue(context.Background(), tx, s, byKey)
		return err
	})
	return made, others
}

func parts(id, exact string) []Part {
	m, err := rate.ParseAmount(exact)
	if err != nil {
		panic(err)
	}
	return []Part{{id, m}}
}

func (f *fixture) pay(statementID string, of Payments) (b Balance, err error) {
	err = f.db.Change(context.Background(), func(tx *store.Tx) (err error) {
		if err = Pay(context.Background(), tx, f.tenantID, statementID, "EUR", of, byKey); err == nil {
			b, err = BalanceOf(context.Background(), tx, f.tenantID, statementID, "EUR")
		}
		return err
	})
	return b, err
}

func (f *fixture) all() []Payable {
	list, _, err := list(context.Background(), f.db.Read(), f.tenantID, filter{}, store.Slice{Limit: 500})
	require.NoError(f.t, err)
	slices.SortFunc(list, func(a, b Payable) int { return int(a.Sequence - b.Sequence) })
	return list
}

// TestNumbers are unbroken a year, that of the tenant's clocks; one that is set back begins no other.
func TestNumbers(t *testing.T) {
	f := newFixture(t)
	id := f.payee("EUR", settle.Terms{PaymentDays: new(int64(14))})
	one, _ := f.issue(Statement{Currency: "EUR", Parts: parts(id, "1")})
	require.Equal(t, []string{"2026-000001", "2026-12-31", "2027-01-14"}, []string{one[0].Number, one[0].IssuedOn, one[0].DueOn})
	two, _ := f.issue(Statement{Currency: "EUR", Parts: parts(id, "1")})
	f.now = f.now.Add(time.Hour) // it is January in Berlin
	three, _ := f.issue(Statement{Currency: "EUR", Parts: parts(id, "1")})
	f.now = f.now.Add(-time.Hour)
	four, _ := f.issue(Statement{Currency: "EUR", Parts: parts(id, "1")})
	require.Equal(t, []string{"2026-000002", "2027-000001", "2027-000002"}, []string{two[0].Number, three[0].Number, four[0].Number})
	require.Equal(t, []int64{2, 3, 4}, []int64{two[0].Sequence, three[0].Sequence, four[0].Sequence})
	require.Equal(t, []string{"2027-01-01", "2027-01-01"}, []string{three[0].IssuedOn, four[0].IssuedOn}, "days are in the order of numbers")
}

// TestConcurrentNumbers: eight issue at once, and some fail: no number is missing or there twice.
func TestConcurrentNumbers(t *testing.T) {
	f := newFixture(t)
	id := f.payee("EUR", settle.Terms{})
	refused := errors.New("refused")
	var wait sync.WaitGroup
	for worker := range 8 {
		wait.Go(func() {
			for n := range 10 {
				err := f.db.Change(context.Background(), func(tx *store.Tx) error {
					_, _, err := Issue(context.Background(), tx, Statement{TenantID: f.tenantID, ID: fmt.Sprintf("stm_%d_%d", worker, n), Currency: "EUR", Parts: parts(id, "0.333333")}, byKey)
					if err == nil && n%3 == 1 {
						err = refused
					}
					return err
				})
				if err != nil && !errors.Is(err, refused) {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	all := f.all()
	require.Len(t, all, 8*7)
	for i, p := range all {
		require.Equal(t, fmt.Sprintf("2026-%06d", i+1), p.Number)
	}
	require.Equal(t, "-0.003352", all[55].Carried, "18.67 were payable of 18.666648")
}

// TestPayables: random parts of payees in currencies with 0, 2 and 3 digits are issued, corrected, voided
// and paid, while their tax rates change. What is payable never differs from the exact sum by a minor unit;
// a void takes back just what was payable; nobody has a credit and a debt at once.
func TestPayables(t *testing.T) {
	f := newFixture(t)
	rapidtest.Check(t, 40, 2_000, func(rt *rapid.T) {
		f.tenant(rt)
		type chain struct {
			id     string
			exact  rate.Money
			voided bool
		}
		type payee struct {
			id, currency string
			chains       []*chain
			exact, money *big.Rat // what it got, what was paid
		}
		var payees []*payee
		for _, currency := range []string{"EUR", "JPY", "KWD"} {
			payees = append(payees, &payee{f.payee(currency, settle.Terms{TaxBps: 1_900}), currency, nil, new(big.Rat), new(big.Rat)})
		}
		rational := func(text string) *big.Rat {
			n, ok := new(big.Rat).SetString(text)
			require.True(rt, ok, text)
			return n
		}
		pay := func(p *payee) {
			due, err := dueTo(context.Background(), f.db.Read(), f.tenantID, p.id, p.currency)
			require.NoError(rt, err)
			if len(due) == 0 {
				return
			}
			open, err := due[0].open()
			require.NoError(rt, err)
			of := Payments{CounterpartyID: &p.id, Date: "2026-12-31", Reference: "transfer"}
			if half, err := (open / 2).Payable(p.currency); rapid.Bool().Draw(rt, "in part") && err == nil && half != 0 && half != open {
				open, of.Amount = half, new(half.Fixed(p.currency))
			}
			f.change(func(tx *store.Tx) error {
				return Pay(context.Background(), tx, f.tenantID, due[0].StatementID, p.currency, of, byKey)
			})
			p.money.Add(p.money, rational(open.String()))
		}
		for n := range rapid.IntRange(1, 25).Draw(rt, "moves") {
			p := payees[rapid.IntRange(0, len(payees)-1).Draw(rt, "payee")]
			move := rapid.SampledFrom([]string{"issue", "issue", "correct", "void", "pay", "tax"}).Draw(rt, "move")
			live := slices.DeleteFunc(slices.Clone(p.chains), func(c *chain) bool { return c.voided })
			of := Statement{ID: fmt.Sprintf("stm_%s_%d", f.tenantID, n), Currency: p.currency}
			exact := rate.Money(rapid.Int64Range(-30_000_000, 50_000_000).Draw(rt, "exact"))
			switch {
			case move == "pay":
				pay(p)
				continue
			case move == "tax":
				f.change(func(tx *store.Tx) error {
					_, err := tx.ExecContext(context.Background(), `UPDATE counterparties SET tax_bps = $1 WHERE counterparty_id = $2`, rapid.SampledFrom([]int64{0, 700, 1_900}).Draw(rt, "rate"), p.id)
					return err
				})
				continue
			case move != "issue" && len(live) == 0:
				continue
			case move == "correct":
				c := rapid.SampledFrom(live).Draw(rt, "of")
				of.First, c.exact = &c.id, c.exact+exact
			case move == "void":
				c := rapid.SampledFrom(live).Draw(rt, "of")
				of.First, of.Voids, c.voided, exact = &c.id, true, true, -c.exact
			default:
				p.chains = append(p.chains, &chain{id: of.ID, exact: exact})
			}
			of.Parts = []Part{{p.id, exact}}
			f.issue(of)
			p.exact.Add(p.exact, rational(exact.String()))
			if move == "void" {
				continue
			}
			net := new(big.Rat)
			for _, one := range f.all() {
				if one.CounterpartyID == p.id {
					net.Add(net, rational(one.Net))
				}
			}
			off := new(big.Rat).Sub(net, p.exact)
			require.LessOrEqual(rt, off.Abs(off).Cmp(new(big.Rat).Quo(minor(p.currency), big.NewRat(2, 1))), 0, "%s payable of %s", net, p.exact)
		}
		all := f.all()
		for i, p := range all {
			require.Equal(rt, int64(i+1), p.Sequence)
		}
		for _, p := range payees {
			net, paid, setOff := new(big.Rat), new(big.Rat), new(big.Rat)
			signs := map[int]bool{}
			carried := "0"
			rates, left := map[string]int64{}, map[string]*big.Rat{}
			for _, one := range all {
				if one.CounterpartyID != p.id {
					continue
				}
				net, paid, carried = net.Add(net, rational(one.Net)), paid.Add(paid, rational(one.PaidAmount)), one.Carried
				if left[one.FirstID] == nil {
					left[one.FirstID], rates[one.FirstID] = new(big.Rat), one.TaxBps
				}
				left[one.FirstID].Add(left[one.FirstID], rational(one.Gross))
				require.Equal(rt, rates[one.FirstID], one.TaxBps, "a note has the rate of what it corrects")
				sum := new(big.Rat)
				for _, payment := range one.Payments {
					sum.Add(sum, rational(payment.Amount))
					if payment.SetOff {
						setOff.Add(setOff, rational(payment.Amount))
					}
				}
				require.Zero(rt, sum.Cmp(rational(one.PaidAmount)))
				open, err := one.open()
				require.NoError(rt, err)
				require.Equal(rt, open == 0, one.State == Paid, "%+v", one)
				if open != 0 {
					require.Equal(rt, open > 0, rational(one.Gross).Sign() > 0, "more than all of it is paid: %+v", one)
					signs[map[bool]int{true: 1, false: -1}[open > 0]] = true
				}
			}
			for _, c := range p.chains {
				require.True(rt, !c.voided || left[c.id].Sign() == 0, "a void takes back just what was payable")
			}
			require.Zero(rt, setOff.Sign(), "what is set off is set off twice, or not")
			require.Zero(rt, new(big.Rat).Add(p.money, setOff).Cmp(paid))
			require.Zero(rt, new(big.Rat).Sub(p.exact, net).Cmp(rational(carried)))
			require.Less(rt, len(signs), 2, "a payee is due something and owes something")
		}
	})
}

// minor is the minor unit.
func minor(currency string) *big.Rat {
	return new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(rate.Minor(currency))), nil))
}

// TestNotes: a correction and a void are notes with numbers of their own, that name the first one. A void
// takes back what was payable, whatever the tax rate is by now.
func TestNotes(t *testing.T) {
	f := newFixture(t)
	id := f.payee("EUR", settle.Terms{TaxBps: 1_900})
	other, _ := f.issue(Statement{ID: "stm_other", Currency: "EUR", Parts: parts(id, "50")})
	one, _ := f.issue(Statement{ID: "stm_a", Currency: "EUR", Parts: parts(id, "100.004")})
	require.Equal(t, []string{"100.00", "19.00", "119.00", "0.004"}, []string{one[0].Net, one[0].Tax, one[0].Gross, one[0].Carried})
	f.change(func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE counterparties SET tax_bps = 700`)
		return err
	})
	more, _ := f.issue(Statement{ID: "stm_b", First: new("stm_a"), Currency: "EUR", Parts: parts(id, "0.004")})
	require.Equal(t, []any{DebitNote, one[0].Number, "0.01", int64(1_900)}, []any{more[0].Kind, *more[0].Corrects, more[0].Net, more[0].TaxBps})
	back, others := f.issue(Statement{ID: "stm_c", First: new("stm_a"), Voids: true, Currency: "EUR", Parts: parts(id, "-100.008")})
	require.Equal(t, []any{CreditNote, one[0].Number, "-100.01", "-119.01", Paid, "0"}, []any{back[0].Kind, *back[0].Corrects, back[0].Net, back[0].Gross, back[0].State, back[0].Carried})
	require.Equal(t, []string{"stm_a", "stm_b"}, others)
	require.Equal(t, []any{Due, "0.00"}, []any{f.all()[0].State, f.all()[0].PaidAmount}, "%s is older, and no part of it is taken back", other[0].Number)
	require.Equal(t, []Payment{{"2026-12-31", "-119.00", one[0].Number, true}, {"2026-12-31", "-0.01", more[0].Number, true}}, back[0].Payments)
	again, others := f.issue(Statement{ID: "stm_d", Currency: "EUR", Parts: parts(id, "100.008")})
	require.Equal(t, []any{"100.01", int64(700), "107.01", Due}, []any{again[0].Net, again[0].TaxBps, again[0].Gross, again[0].State})
	require.Empty(t, others)

	// The remainder of one that is taken back, of which nothing was payable, is another's.
	two := f.payee("EUR", settle.Terms{})
	f.issue(Statement{ID: "stm_e", Currency: "EUR", Parts: parts(two, "0.006")})
	f.issue(Statement{ID: "stm_f", First: new("stm_e"), Currency: "EUR", Parts: parts(two, "-0.006")})
	back, _ = f.issue(Statement{ID: "stm_g", First: new("stm_e"), Voids: true, Currency: "EUR"})
	require.Equal(t, []string{"0.00", "0"}, []string{back[0].Net, back[0].Carried})

	// The oldest first, where nothing is of the same chain.
	three := f.payee("EUR", settle.Terms{})
	for _, exact := range []string{"3", "3", "-4"} {
		f.issue(Statement{Currency: "EUR", Parts: parts(three, exact)})
	}
	all := f.all()[len(f.all())-3:]
	require.Equal(t, []string{"3.00", "1.00", "-4.00"}, []string{all[0].PaidAmount, all[1].PaidAmount, all[2].PaidAmount})
	require.Equal(t, CreditNote, all[2].Kind)
}

// TestPayments: parts, until nothing is open; what is no part of it is refused, and changes nothing.
func TestPayments(t *testing.T) {
	f := newFixture(t)
	one, two := f.payee("EUR", settle.Terms{}), f.payee("EUR", settle.Terms{})
	f.issue(Statement{ID: "stm_a", Currency: "EUR", Parts: append(parts(one, "10"), parts(two, "-3")...)})
	for _, c := range []struct {
		of    Payments
		field string
	}{
		{Payments{CounterpartyID: new("cp_x")}, "counterpartyId"},
		{Payments{CounterpartyID: &one, Amount: new("10.01")}, "amount"}, {Payments{CounterpartyID: &one, Amount: new("-1")}, "amount"}, {Payments{CounterpartyID: &one, Amount: new("0")}, "amount"},
		{Payments{CounterpartyID: &one, Amount: new("1.005")}, "amount"}, {Payments{CounterpartyID: &one, Amount: new("1e3")}, "amount"}, {Payments{CounterpartyID: &two, Amount: new("-3.01")}, "amount"},
		{Payments{CounterpartyID: &two, Amount: new("3")}, "amount"},
	} {
		_, err := f.pay("stm_a", c.of)
		require.Equal(t, c.field, api.From(err).Field, "%+v: %v", c.of, err)
	}
	b, err := f.pay("stm_a", Payments{CounterpartyID: &one, Amount: new("4.50"), Date: "2026-12-14", Reference: "transfer 1"})
	require.NoError(t, err)
	require.Equal(t, Balance{"4.50", false}, b)
	b, err = f.pay("stm_a", Payments{Amount: new("5.5"), Date: "2026-12-16", Reference: "transfer 3"})
	require.NoError(t, err)
	require.Equal(t, Balance{"10.00", false}, b)
	_, err = f.pay("stm_a", Payments{Reference: "transfer 3"})
	require.Equal(t, api.StateConflict, api.From(err).Code, "a credit that nobody names waits to be set off: %v", err)
	b, err = f.pay("stm_a", Payments{CounterpartyID: &two, Date: "2026-12-15", Reference: "transfer 2"})
	require.NoError(t, err)
	require.Equal(t, Balance{"7.00", true}, b)
	require.Equal(t, []Payment{{"2026-12-14", "4.50", "transfer 1", false}, {"2026-12-16", "5.50", "transfer 3", false}}, f.all()[0].Payments)
	_, err = f.pay("stm_a", Payments{})
	require.Equal(t, api.StateConflict, api.From(err).Code)

	three, four := f.payee("EUR", settle.Terms{}), f.payee("EUR", settle.Terms{})
	f.issue(Statement{ID: "stm_two", Currency: "EUR", Parts: append(parts(three, "1"), parts(four, "2")...)})
	_, err = f.pay("stm_two", Payments{Amount: new("1")})
	require.Equal(t, "counterpartyId", api.From(err).Field, "of whom? %v", err)
	b, err = f.pay("stm_two", Payments{})
	require.NoError(t, err)
	require.Equal(t, Balance{"3.00", true}, b)
	zero, _ := f.issue(Statement{ID: "stm_zero", Currency: "EUR", Parts: parts(one, "0.001")})
	require.Equal(t, []any{Paid, "0.00", "0.001"}, []any{zero[0].State, zero[0].Gross, zero[0].Carried}, "of nothing nothing is due")

	f.issue(Statement{ID: "stm_many", Currency: "EUR", Parts: parts(one, "100")})
	for range maxPayments {
		_, err = f.pay("stm_many", Payments{Amount: new("0.5")})
		require.NoError(t, err)
	}
	_, err = f.pay("stm_many", Payments{Amount: new("0.5")})
	require.Equal(t, api.StateConflict, api.From(err).Code, "%v", err)
	b, err = f.pay("stm_many", Payments{})
	require.NoError(t, err)
	require.Equal(t, Balance{"100.00", true}, b)
}

// TestPayouts: what is due by a day, in a file that no spreadsheet takes for formulas.
func TestPayouts(t *testing.T) {
	f := newFixture(t)
	soon, late, dollars := f.payee("EUR", settle.Terms{PaymentDays: new(int64(0))}), f.payee("EUR", settle.Terms{}), f.payee("USD", settle.Terms{PaymentDays: new(int64(0))})
	f.issue(Statement{ID: "stm_a", Currency: "EUR", Parts: append(parts(soon, "10"), parts(late, "3")...)})
	f.issue(Statement{ID: "stm_b", Currency: "USD", Parts: parts(dollars, "-4")})
	spreadsheet := false
	_, err := f.pay("stm_a", Payments{CounterpartyID: &soon, Amount: new("4")})
	require.NoError(t, err)
	due := func(by, currency string) (list [][]string) {
		all, err := payouts(t.Context(), f.db.Read(), f.tenantID, by, currency)
		require.NoError(t, err)
		text, err := asCSV(all, spreadsheet)
		require.NoError(t, err)
		list, err = csv.NewReader(strings.NewReader(string(text))).ReadAll()
		require.NoError(t, err)
		return list[1:]
	}
	require.Equal(t, [][]string{{"Studio GmbH", "DE00 1234", "6.00", "EUR", "2026-000001", "2026-12-31", soon, "stm_a"}}, due("2027-01-29", ""))
	require.Len(t, due("2027-01-30", ""), 2)
	require.Empty(t, due("2027-01-30", "USD"), "a credit is not paid out")
	f.change(func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE counterparties SET legal_name = NULL, payout_ref = '=1+1' WHERE counterparty_id = $1`, soon)
		return err
	})
	require.Equal(t, []string{"=Studio", "=1+1"}, due("2026-12-31", "EUR")[0][:2], "a payment system gets what is there")
	spreadsheet = true
	require.Equal(t, []string{"'=Studio", "'=1+1"}, due("2026-12-31", "EUR")[0][:2])
}

// TestParties: papers keep the parties as they were; no event shows them, each commits to them.
func TestParties(t *testing.T) {
	f := newFixture(t)
	id := f.payee("EUR", settle.Terms{})
	before, _ := f.issue(Statement{Currency: "EUR", Parts: parts(id, "1")})
	require.Equal(t, Party{}, before[0].Issuer)
	require.Equal(t, "2027-01-30", before[0].DueOn, "30 days")
	var profile Issuer
	write := func(i Issuer) {
		i.TenantID = f.tenantID
		f.change(func(tx *store.Tx) (err error) {
			profile, err = set(t.Context(), tx, i, byKey)
			return err
		})
	}
	screens := Issuer{LegalName: "Transit Screens AG", Address: new("Bahnhofplatz 3\nZürich"), TaxID: new("CHE-1"), PaymentDays: 10}
	write(screens)
	revision := profile.Revision
	write(screens)
	require.Equal(t, revision, profile.Revision, "nothing changes")
	made, _ := f.issue(Statement{Currency: "EUR", Parts: parts(id, "1")})
	require.Equal(t, []any{Party{LegalName: &screens.LegalName, Address: screens.Address, TaxID: screens.TaxID}, "Studio GmbH", "2027-01-10"}, []any{made[0].Issuer, *made[0].Recipient.LegalName, made[0].DueOn})
	screens.LegalName = "Another AG"
	write(screens)
	for _, p := range f.all() {
		require.NotEqual(t, "Another AG", fmt.Sprint(p.Issuer.LegalName))
	}
	kinds := map[string]int{}
	for _, e := range roomtest.Events(t, f.db) {
		for _, private := range []string{"Screens", "Zürich", "CHE-1", "GmbH", "Another"} {
			require.NotContains(t, string(e.Data), private)
		}
		if kinds[e.Type]++; e.Type == eventIssued.Type {
			require.NotEmpty(t, e.PrivateCommitment)
		}
	}
	require.Equal(t, map[string]int{"counterparty.created": 1, "issuer.changed": 2, "payable.issued": 2}, kinds)

	err := f.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := set(t.Context(), tx, Issuer{TenantID: f.tenantID, Address: new("a\x00"), TaxID: new("two\nlines"), Email: new(""), Note: new(strings.Repeat("x", 1025)), PaymentDays: 366}, byKey)
		return err
	})
	fields := []string{}
	for _, fault := range api.From(err).ValidationErrors {
		fields = append(fields, fault.Field)
	}
	require.Equal(t, []string{"legalName", "taxId", "email", "address", "note", "paymentDays"}, fields)
}

// TestReplay: an older database gets numbers, amounts and payments back, and goes on behind them.
func TestReplay(t *testing.T) {
	f := newFixture(t)
	id := f.payee("EUR", settle.Terms{})
	f.issue(Statement{ID: "stm_a", Currency: "EUR", Parts: parts(id, "1.004")})
	f.issue(Statement{ID: "stm_b", Currency: "EUR", Parts: parts(id, "1.004")})
	_, err := f.pay("stm_a", Payments{Date: "2026-12-31", Reference: "transfer 1"})
	require.NoError(t, err)
	want := f.all()
	events := map[string]sealer.Event{}
	for _, e := range roomtest.Events(t, f.db) {
		if e.Subject.Kind == payables.Noun {
			events[e.Subject.ID] = e // the newest
		}
	}
	f.change(func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `DELETE FROM payables WHERE statement_id = 'stm_b'`)
		if err == nil {
			_, err = tx.ExecContext(t.Context(), `UPDATE payables SET state = 'DUE', paid_amount = '0.00', payments = '[]', revision = 1`)
		}
		return err
	})
	for i := range want {
		e := events[want[i].ID]
		for _, changed := range []bool{true, false} {
			f.change(func(tx *store.Tx) error {
				did, err := Replay(t.Context(), tx, &e)
				require.Equal(t, changed, did)
				return err
			})
		}
	}
	want[1].Issuer, want[1].Recipient = Party{}, Party{}
	require.Equal(t, want, f.all())
	found, err := Tables.Find(t.Context(), f.db.Read(), f.tenantID, sealer.NewPerson("jane@example.org"), nil)
	require.NoError(t, err)
	require.Equal(t, []string{payables.Noun}, found.Nouns, "its private part may name anybody")
	next, _ := f.issue(Statement{ID: "stm_c", Currency: "EUR", Parts: parts(id, "1.004")})
	require.Equal(t, []string{"2026-000003", "1.00", "0.002"}, []string{next[0].Number, next[0].Net, next[0].Carried})
}

// TestReplayIssuer: an older database has not the names and addresses that were set since, which no event
// shows. It forgets its own, and issues nothing until they are set again.
func TestReplayIssuer(t *testing.T) {
	for _, known := range []bool{true, false} {
		f := newFixture(t)
		id := f.payee("EUR", settle.Terms{})
		write := func(name string, days int64) {
			f.change(func(tx *store.Tx) error {
				_, err := set(t.Context(), tx, Issuer{TenantID: f.tenantID, LegalName: name, Address: new("at " + name), PaymentDays: days}, byKey)
				return err
			})
		}
		profile := func() *Issuer {
			found, err := issuerOf(t.Context(), f.db.Read(), f.tenantID)
			require.NoError(t, err)
			return found
		}
		write("Old AG", 10)
		old := profile()
		write("New AG", 20)
		want := *profile()
		events := roomtest.Events(t, f.db)
		newest := events[len(events)-1]
		f.change(func(tx *store.Tx) error {
			_, err := tx.ExecContext(t.Context(), `DELETE FROM issuers`)
			if err == nil && known {
				err = issuers.Restore(t.Context(), tx, nil, old)
			}
			return err
		})
		for _, changed := range []bool{true, false} {
			f.change(func(tx *store.Tx) error {
				did, err := ReplayIssuer(t.Context(), tx, &newest)
				require.Equal(t, changed, did)
				return err
			})
		}
		want.LegalName, want.Address = "", nil
		require.Equal(t, want, *profile())
		issue := func() error {
			return f.db.Change(t.Context(), func(tx *store.Tx) error {
				_, _, err := Issue(t.Context(), tx, Statement{TenantID: f.tenantID, ID: "stm_a", Currency: "EUR", Parts: parts(id, "1")}, byKey)
				return err
			})
		}
		refused := api.From(issue())
		require.Equal(t, api.StateConflict, refused.Code)
		require.Contains(t, refused.Message, "set-issuer")
		require.Empty(t, f.all())
		write("New AG", 20)
		require.NoError(t, issue())
		require.Equal(t, "New AG", *f.all()[0].Issuer.LegalName)
	}
	// One that was set since the database was restored is no older.
	f := newFixture(t)
	f.change(func(tx *store.Tx) error {
		lost := sealer.Event{TenantID: f.tenantID, Subject: sealer.Ref{Kind: issuers.Noun, ID: "isr_lost"}, Data: []byte(`{"id":"isr_lost","revision":7}`)}
		if _, err := set(t.Context(), tx, Issuer{TenantID: f.tenantID, LegalName: "New AG"}, byKey); err != nil {
			return err
		}
		did, err := ReplayIssuer(t.Context(), tx, &lost)
		require.False(t, did)
		return err
	})
}

// TestFiltersHaveIndexes is as that of rights.
func TestFiltersHaveIndexes(t *testing.T) {
	f := newFixture(t)
	roomtest.Fill(t, f.db, 5_000, "payables", `payable_id, tenant_id, statement_id, first_id, counterparty_id, number, kind, currency, exact, net, tax_bps, reverse_charge, tax, gross, issued_on, due_on, state, paid_amount, payments, carried, sequence, issuer, recipient, created_at, updated_at, revision`,
		`'pay_' || CAST(i AS TEXT), CASE WHEN i % 2 = 1 THEN 'tnt_a' ELSE '`+f.tenantID+`' END, 'stm_' || CAST(i % 900 AS TEXT), 'stm_' || CAST(i % 800 AS TEXT), 'cp_' || CAST(i % 700 AS TEXT), CAST(i AS TEXT), 'STATEMENT', 'EUR', '1', '1.00', 0, FALSE, '0.00', '1.00', '2026-12-31', CASE WHEN i % 400 = 3 THEN '2026-01-01' ELSE '2027-12-31' END,
		CASE WHEN i % 300 = 3 OR i % 400 = 3 THEN 'DUE' ELSE 'PAID' END, '0.00', '[]', '0', i, '{}', '{}', 0, 0, 0`)
	roomtest.Fill(t, f.db, 5_000, "counterparties", `counterparty_id, tenant_id, name, kind, currency, tax_bps, reverse_charge, state, created_at, updated_at, revision`, `'cp_' || CAST(i AS TEXT), 'tnt_a', 'x', 'OTHER', 'EUR', 0, FALSE, 'ACTIVE', 0, 0, 0`)
	of := func(f filter) func(q store.Querier) error {
		return func(q store.Querier) error {
			_, _, err := list(t.Context(), q, "tnt_a", f, store.Slice{Limit: 5})
			return err
		}
	}
	for index, query := range map[string]func(q store.Querier) error{
		"payables_by_tenant": of(filter{}), "payables_by_statement": of(filter{statementID: "stm_7"}), "payables_by_state": of(filter{state: "DUE"}),
		"payables_by_number": of(filter{number: "7"}),
		"payables_by_chain":  func(q store.Querier) error { _, err := ofChain(t.Context(), q, "tnt_a", "stm_7"); return err },
		"payables_that_are_due": func(q store.Querier) error {
			_, err := payouts(t.Context(), q, "tnt_a", "2027-01-01", "")
			return err
		},
		"payables_by_payee":    func(q store.Querier) error { _, err := newestOf(t.Context(), q, "tnt_a", "cp_7", "EUR"); return err },
		"payables_by_sequence": func(q store.Querier) error { _, err := newest(t.Context(), q, "tnt_a"); return err },
	} {
		require.Contains(t, roomtest.Plans(t, f.db, query), index)
	}
	require.Regexp(t, `payables_by_(counterparty|payee)`, roomtest.Plans(t, f.db, of(filter{counterpartyID: "cp_7"})))
}
