package payable

import (
	"bytes"
	"cmp"
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

	"muniment.example/control/rapidtest"
	"muniment.example/control/roomtest"
	"muniment.example/control/route"
	"muniment.example/control/settle"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/sealer"
	"muniment.example/sealer/rate"
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

func newFixture(t testing.TB) *fixture {
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

// reference is another one for each payment.
func (f *fixture) reference() string {
	f.made++
	return fmt.Sprint("transfer ", f.made)
}

func parts(id, exact string) []Part {
	m, err := rate.ParseAmount(exact)
	if err != nil {
		panic(err)
	}
	return []Part{{id, m}}
}

// pay records payments, of the day of the issue if they name no other.
func (f *fixture) pay(statementID string, of Payments) (b Balance, err error) {
	of.Date = cmp.Or(of.Date, "2026-12-31")
	err = f.db.Change(context.Background(), func(tx *store.Tx) (err error) {
		if b, _, err = Pay(context.Background(), tx, f.tenantID, statementID, "EUR", of, byKey); err == nil {
			read, wrong := BalanceOf(context.Background(), tx, f.tenantID, statementID, "EUR")
			require.NoError(f.t, wrong)
			require.Equal(f.t, read, b)
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
// and paid, payments are taken back, while their tax rates change. A net is the rounded sum of all so far less the
// nets before, exactly; a void takes back just what was payable; nobody has a credit and a debt at once.
func TestPayables(t *testing.T) {
	f := newFixture(t)
	rapidtest.Check(t, 40, 2_000, func(rt *rapid.T) {
		f.tenant(rt)
		type chain struct {
			id     string
			exact  rate.Money
			voided bool
			papers int64
		}
		type payee struct {
			id, currency string
			chains       []*chain
			exact, money *big.Rat // what it got, what was paid
			voided       int64    // payables that were taken back
		}
		var payees []*payee
		for _, currency := range []string{"EUR", "JPY", "KWD"} {
			payees = append(payees, &payee{f.payee(currency, settle.Terms{TaxBps: 1_900}), currency, nil, new(big.Rat), new(big.Rat), 0})
		}
		rational := func(text string) *big.Rat {
			n, ok := new(big.Rat).SetString(text)
			require.True(rt, ok, text)
			return n
		}
		pay := func(p *payee) {
			due, err := dueTo(context.Background(), f.db.Read(), f.tenantID, p.currency, []string{p.id}, false)
			require.NoError(rt, err)
			if len(due) == 0 {
				due, err = dueTo(context.Background(), f.db.Read(), f.tenantID, p.currency, []string{p.id}, true)
				require.NoError(rt, err)
			}
			if len(due) == 0 {
				return
			}
			open, err := due[0].open()
			require.NoError(rt, err)
			of := Payments{CounterpartyID: &p.id, Date: "2026-12-31", Reference: f.reference()}
			if half, err := (open / 2).Payable(p.currency); rapid.Bool().Draw(rt, "in part") && err == nil && half != 0 && half != open {
				open, of.Amount = half, new(half.Fixed(p.currency))
			}
			f.change(func(tx *store.Tx) error {
				_, _, err := Pay(context.Background(), tx, f.tenantID, due[0].StatementID, p.currency, of, byKey)
				return err
			})
			p.money.Add(p.money, rational(open.String()))
		}
		takeBack := func(p *payee) {
			var paid []Payable
			for _, one := range f.all() {
				if _, _, recorded, err := one.sums(); one.CounterpartyID == p.id && recorded != 0 {
					require.NoError(rt, err)
					paid = append(paid, one)
				}
			}
			if len(paid) == 0 {
				return
			}
			one := rapid.SampledFrom(paid).Draw(rt, "taken back")
			_, _, back, err := one.sums()
			require.NoError(rt, err)
			if half, err := (back / 2).Payable(p.currency); rapid.Bool().Draw(rt, "in part") && err == nil && half != 0 {
				back = half
			}
			f.change(func(tx *store.Tx) error {
				_, _, err := Pay(context.Background(), tx, f.tenantID, one.StatementID, p.currency, Payments{CounterpartyID: &p.id, Amount: new((-back).Fixed(p.currency)), Date: "2026-12-31", Reference: f.reference()}, byKey)
				return err
			})
			p.money.Sub(p.money, rational(back.String()))
		}
		for n := range rapid.IntRange(1, 25).Draw(rt, "moves") {
			p := payees[rapid.IntRange(0, len(payees)-1).Draw(rt, "payee")]
			move := rapid.SampledFrom([]string{"issue", "issue", "correct", "void", "pay", "take back", "tax"}).Draw(rt, "move")
			live := slices.DeleteFunc(slices.Clone(p.chains), func(c *chain) bool { return c.voided })
			of := Statement{ID: fmt.Sprintf("stm_%s_%d", f.tenantID, n), Currency: p.currency}
			exact := rate.Money(rapid.Int64Range(-30_000_000, 50_000_000).Draw(rt, "exact"))
			if rapid.Bool().Draw(rt, "halves") {
				exact = rate.Money(rapid.Int64Range(-3, 5).Draw(rt, "of a unit")) * halfUnits[p.currency]
			}
			switch {
			case move == "pay":
				pay(p)
				continue
			case move == "take back":
				takeBack(p)
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
				of.First, c.exact, c.papers = &c.id, c.exact+exact, c.papers+1
			case move == "void":
				c := rapid.SampledFrom(live).Draw(rt, "of")
				of.First, of.Voids, c.voided, exact, p.voided = &c.id, true, true, -c.exact, p.voided+c.papers
			default:
				p.chains = append(p.chains, &chain{id: of.ID, exact: exact, papers: 1})
			}
			of.Parts = []Part{{p.id, exact}}
			f.issue(of)
			p.exact.Add(p.exact, rational(exact.String()))
			net := new(big.Rat)
			for _, one := range f.all() {
				if one.CounterpartyID == p.id {
					net.Add(net, rational(one.Net))
				}
			}
			if move != "void" {
				require.Zero(rt, net.Cmp(halvesUp(p.exact, halfUnits[p.currency])), "%s payable of %s", net, p.exact)
			}
			off, most := new(big.Rat).Sub(net, p.exact), big.NewRat((1+2*p.voided)*int64(halfUnits[p.currency]), 1_000_000)
			require.LessOrEqual(rt, off.Abs(off).Cmp(most), 0, "%s payable of %s after %d were taken back", net, p.exact, p.voided)
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
				require.Equal(rt, rational(one.Net).Sign() < 0, one.Kind == CreditNote, "%+v", one)
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

// halfUnits are halves of minor units.
var halfUnits = map[string]rate.Money{"EUR": 5_000, "JPY": 500_000, "KWD": 500}

// halvesUp is the whole number of units that is nearest to an exact sum, the upper one of two.
func halvesUp(sum *big.Rat, half rate.Money) *big.Rat {
	unit := big.NewRat(2*int64(half), 1_000_000)
	n := new(big.Rat).Quo(sum, unit)
	n.Add(n, big.NewRat(1, 2))
	floor := new(big.Int).Div(n.Num(), n.Denom()) // of a positive divisor, Div rounds down
	return unit.Mul(unit, new(big.Rat).SetInt(floor))
}

// TestHalves: half a minor unit is payable once, and not taken back by a statement of nothing.
func TestHalves(t *testing.T) {
	f := newFixture(t)
	for currency, c := range map[string]struct {
		half       string
		nets, owed []string
	}{
		"EUR": {"0.005", []string{"0.01", "0.00", "0.00", "0.01"}, []string{"0.00", "0.00", "-0.01", "0.00"}},
		"JPY": {"0.5", []string{"1", "0", "0", "1"}, []string{"0", "0", "-1", "0"}},
		"KWD": {"0.0005", []string{"0.001", "0.000", "0.000", "0.001"}, []string{"0.000", "0.000", "-0.001", "0.000"}},
	} {
		due, owing := f.payee(currency, settle.Terms{}), f.payee(currency, settle.Terms{})
		for n, exact := range []string{c.half, "0", c.half, c.half} {
			made, _ := f.issue(Statement{Currency: currency, Parts: parts(due, exact)})
			require.Equal(t, c.nets[n], made[0].Net, "%s %d", currency, n)
			if exact != "0" {
				exact = "-" + exact
			}
			made, _ = f.issue(Statement{Currency: currency, Parts: parts(owing, exact)})
			require.Equal(t, c.owed[n], made[0].Net, "%s %d", currency, n)
		}
	}
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

// TestManyVoids: what rounding added to statements that are voided is carried, whole units too, until the next
// payable takes it up, whose kind is by the sign of its net.
func TestManyVoids(t *testing.T) {
	f := newFixture(t)
	id := f.payee("EUR", settle.Terms{})
	for n := range 10 {
		f.issue(Statement{ID: fmt.Sprint("stm_a", n), Currency: "EUR", Parts: parts(id, "0.006")})
		f.issue(Statement{ID: fmt.Sprint("stm_b", n), Currency: "EUR", Parts: parts(id, "0.004")})
	}
	for n := range 10 {
		back, _ := f.issue(Statement{First: new(fmt.Sprint("stm_a", n)), Voids: true, Currency: "EUR", Parts: parts(id, "-0.006")})
		require.Equal(t, []any{"-0.01", CreditNote}, []any{back[0].Net, back[0].Kind})
	}
	all := f.all()
	require.Equal(t, "0.04", all[len(all)-1].Carried)
	next, _ := f.issue(Statement{First: new("stm_b0"), Currency: "EUR", Parts: parts(id, "-0.01")})
	require.Equal(t, []any{"0.03", DebitNote, "0"}, []any{next[0].Net, next[0].Kind, next[0].Carried})
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
	require.Equal(t, Balance{"4.50", "2.50", false}, b)
	b, err = f.pay("stm_a", Payments{Amount: new("5.5"), Date: "2026-12-16", Reference: "transfer 3"})
	require.NoError(t, err)
	require.Equal(t, Balance{"10.00", "-3.00", false}, b)
	_, err = f.pay("stm_a", Payments{Reference: "transfer 3"})
	require.Equal(t, api.StateConflict, api.From(err).Code, "a credit that nobody names waits to be set off: %v", err)
	b, err = f.pay("stm_a", Payments{CounterpartyID: &two, Date: "2026-12-15", Reference: "transfer 2"})
	require.NoError(t, err)
	require.Equal(t, Balance{"7.00", "0.00", true}, b)
	require.Equal(t, []Payment{{"2026-12-14", "4.50", "transfer 1", false}, {"2026-12-16", "5.50", "transfer 3", false}}, f.all()[0].Payments)
	_, err = f.pay("stm_a", Payments{})
	require.Equal(t, api.StateConflict, api.From(err).Code)

	three, four := f.payee("EUR", settle.Terms{}), f.payee("EUR", settle.Terms{})
	f.issue(Statement{ID: "stm_two", Currency: "EUR", Parts: append(parts(three, "1"), parts(four, "2")...)})
	_, err = f.pay("stm_two", Payments{Amount: new("1")})
	require.Equal(t, "counterpartyId", api.From(err).Field, "of whom? %v", err)
	b, err = f.pay("stm_two", Payments{})
	require.NoError(t, err)
	require.Equal(t, Balance{"3.00", "0.00", true}, b)

	// The only payable of a statement is a credit: who settles what is open does not pay it back.
	five := f.payee("EUR", settle.Terms{})
	f.issue(Statement{ID: "stm_owed", Currency: "EUR", Parts: parts(five, "-3")})
	b, err = f.pay("stm_owed", Payments{Reference: "run 12"})
	require.ErrorIs(t, err, ErrNothingOpen)
	require.Equal(t, Balance{"0.00", "-3.00", false}, b)
	_, err = f.pay("stm_owed", Payments{Amount: new("3"), Reference: "run 12"})
	require.Equal(t, "amount", api.From(err).Field, "nothing is recorded that could be taken back: %v", err)
	b, err = f.pay("stm_owed", Payments{Amount: new("-1"), Reference: "from the payee"})
	require.NoError(t, err)
	require.Equal(t, Balance{"-1.00", "-2.00", false}, b)
	b, err = f.pay("stm_owed", Payments{Amount: new("0.4"), Reference: "a mistake"})
	require.NoError(t, err)
	require.Equal(t, Balance{"-0.60", "-2.40", false}, b)
	b, err = f.pay("stm_owed", Payments{CounterpartyID: &five, Reference: "from the payee"})
	require.NoError(t, err)
	require.Equal(t, Balance{"-3.00", "0.00", true}, b)

	zero, _ := f.issue(Statement{ID: "stm_zero", Currency: "EUR", Parts: parts(one, "0.001")})
	require.Equal(t, []any{Paid, "0.00", "0.001"}, []any{zero[0].State, zero[0].Gross, zero[0].Carried}, "of nothing nothing is due")

	f.issue(Statement{ID: "stm_many", Currency: "EUR", Parts: parts(one, "100")})
	for n := range maxPayments {
		_, err = f.pay("stm_many", Payments{Amount: new("0.5"), Reference: fmt.Sprint(n)})
		require.NoError(t, err)
	}
	_, err = f.pay("stm_many", Payments{Amount: new("0.5")})
	require.Equal(t, api.StateConflict, api.From(err).Code, "%v", err)
	b, err = f.pay("stm_many", Payments{})
	require.NoError(t, err)
	require.Equal(t, Balance{"100.00", "0.00", true}, b)
}

// TestRepeatedPayments: a part payment that is sent again is recorded once; of another amount, day or reference it
// is another one. The rest is paid with any reference.
func TestRepeatedPayments(t *testing.T) {
	f := newFixture(t)
	id := f.payee("EUR", settle.Terms{})
	made, _ := f.issue(Statement{ID: "stm_a", Currency: "EUR", Parts: parts(id, "300")})
	same := Payments{Amount: new("100"), Date: "2026-12-14", Reference: "T1"}
	repeated := func(of Payments) {
		t.Helper()
		_, err := f.pay("stm_a", of)
		require.Equal(t, api.StateConflict, api.From(err).Code, "%v", err)
		require.ErrorContains(t, err, `2026-12-14 with the reference "T1" is recorded of `+made[0].Number+" already")
	}
	_, err := f.pay("stm_a", same)
	require.NoError(t, err)
	repeated(same)
	repeated(Payments{CounterpartyID: &id, Amount: new("100.00"), Date: same.Date, Reference: same.Reference})
	for _, other := range []Payments{
		{Amount: same.Amount, Date: same.Date, Reference: "T2"}, {Amount: new("50"), Date: same.Date, Reference: same.Reference}, {Amount: new("20"), Date: "2026-12-15", Reference: same.Reference},
		{Amount: new("-100"), Date: same.Date, Reference: same.Reference},
	} {
		_, err = f.pay("stm_a", other)
		require.NoError(t, err)
	}
	repeated(Payments{Amount: new("-100"), Date: same.Date, Reference: same.Reference})
	require.Equal(t, "170.00", f.all()[0].PaidAmount)
	b, err := f.pay("stm_a", Payments{Date: same.Date, Reference: same.Reference})
	require.NoError(t, err)
	require.True(t, b.Settled)
}

// TestDatesOfPayments: a payment is of today, by the tenant's clocks, or before, and at most a year older than what it pays.
func TestDatesOfPayments(t *testing.T) {
	f := newFixture(t)
	f.issue(Statement{ID: "stm_a", Currency: "EUR", Parts: parts(f.payee("EUR", settle.Terms{}), "300")})
	f.now = f.now.Add(time.Hour) // it is January in Berlin
	for _, date := range []string{"2027-01-02", "9999-12-31", "2025-12-30", "0000-01-01"} {
		for _, amount := range []*string{new("1"), nil} {
			_, err := f.pay("stm_a", Payments{Amount: amount, Date: date, Reference: "T1"})
			require.Equal(t, []any{api.ValidationFailed, "date"}, []any{api.From(err).Code, api.From(err).Field}, "%s: %v", date, err)
		}
	}
	for _, date := range []string{"2027-01-01", "2025-12-31"} {
		_, err := f.pay("stm_a", Payments{Amount: new("1"), Date: date, Reference: "T1"})
		require.NoError(t, err)
	}
}

// TestTakenBack: at most what was recorded is taken back, of what has such payments. What is open again is due,
// or set off against credits that wait; what was set off before stays.
func TestTakenBack(t *testing.T) {
	f := newFixture(t)
	one, two, three := f.payee("EUR", settle.Terms{}), f.payee("EUR", settle.Terms{}), f.payee("EUR", settle.Terms{})
	f.issue(Statement{ID: "stm_credit", Currency: "EUR", Parts: parts(one, "-2")})
	f.issue(Statement{ID: "stm_a", Currency: "EUR", Parts: slices.Concat(parts(one, "10"), parts(two, "5"), parts(three, "-3"))})
	refused := func(of Payments, field, says string) {
		t.Helper()
		_, err := f.pay("stm_a", of)
		require.Equal(t, field, api.From(err).Field, "%v", err)
		require.ErrorContains(t, err, says)
	}
	refused(Payments{Amount: new("-1")}, "amount", "none of the statement is recorded")
	refused(Payments{CounterpartyID: &one, Amount: new("-2")}, "amount", "takes back more than the payments that are recorded: 0.00") // of two that were set off
	_, err := f.pay("stm_a", Payments{CounterpartyID: &one, Date: "2026-12-14", Reference: "transfer 1"})
	require.NoError(t, err)
	refused(Payments{CounterpartyID: &one, Amount: new("-8.01")}, "amount", "recorded: 8.00")
	refused(Payments{CounterpartyID: &two, Amount: new("-1")}, "amount", "recorded: 0.00")
	_, err = f.pay("stm_a", Payments{Amount: new("-8"), Date: "2026-12-15", Reference: "transfer 1 came back"})
	require.NoError(t, err, "one payee alone was paid")
	require.Equal(t, []any{Due, "2.00", []Payment{
		{"2026-12-31", "2.00", "2026-000001", true}, {"2026-12-14", "8.00", "transfer 1", false}, {"2026-12-15", "-8.00", "transfer 1 came back", false},
	}}, []any{f.all()[1].State, f.all()[1].PaidAmount, f.all()[1].Payments})
	b, err := f.pay("stm_a", Payments{Date: "2026-12-16", Reference: "transfer 2"})
	require.NoError(t, err)
	require.Equal(t, Balance{"15.00", "-3.00", false}, b, "the credit waits")
	refused(Payments{Amount: new("-1")}, "counterpartyId", "the statement pays several counterparties")

	// A credit that was paid back by mistake is open again.
	_, err = f.pay("stm_a", Payments{CounterpartyID: &three, Date: "2026-12-17", Reference: "from the payee"})
	require.NoError(t, err)
	refused(Payments{CounterpartyID: &three, Amount: new("3.01")}, "amount", "recorded: -3.00")
	_, err = f.pay("stm_a", Payments{CounterpartyID: &three, Amount: new("3"), Date: "2026-12-17", Reference: "not from the payee"})
	require.NoError(t, err)
	require.Equal(t, []any{Due, "0.00"}, []any{f.all()[3].State, f.all()[3].PaidAmount})

	// What waits as a credit is set off against what is open again.
	f.issue(Statement{ID: "stm_b", Currency: "EUR", Parts: parts(two, "-1")})
	f.change(func(tx *store.Tx) error {
		_, others, err := Pay(t.Context(), tx, f.tenantID, "stm_a", "EUR", Payments{CounterpartyID: &two, Amount: new("-4"), Date: "2026-12-18", Reference: "transfer 2 came back"}, byKey)
		require.Equal(t, []string{"stm_b"}, others)
		return err
	})
	all := f.all()
	require.Equal(t, []any{Due, "2.00", Payment{"2026-12-18", "1.00", all[4].Number, true}}, []any{all[2].State, all[2].PaidAmount, all[2].Payments[2]})
	require.Equal(t, []any{Paid, "-1.00"}, []any{all[4].State, all[4].PaidAmount})

	// As many can be taken back as were paid.
	f.issue(Statement{ID: "stm_many", Currency: "EUR", Parts: parts(f.payee("EUR", settle.Terms{}), "100")})
	for _, amount := range []string{"0.5", "-0.5"} {
		for n := range maxPayments {
			_, err = f.pay("stm_many", Payments{Amount: &amount, Reference: fmt.Sprint(n)})
			require.NoError(t, err)
		}
	}
	_, err = f.pay("stm_many", Payments{})
	require.NoError(t, err)
	_, err = f.pay("stm_many", Payments{Amount: new("-1")})
	require.Equal(t, api.StateConflict, api.From(err).Code, "%v", err)
}

// counted counts the statements that are made in it: database/sql looks at Done at the beginning of each.
type counted struct {
	context.Context
	n *int
}

func (c counted) Done() <-chan struct{} {
	*c.n++
	return c.Context.Done()
}

// crowd are payees of the tenant, whose parts are all the same.
func (f *fixture) crowd(t testing.TB, payees int, exact rate.Money) (parts []Part) {
	roomtest.Fill(t, f.db, payees, "counterparties", `counterparty_id, tenant_id, name, kind, currency, tax_bps, reverse_charge, state, created_at, updated_at, revision`,
		`'cp_' || CAST(i AS TEXT), '`+f.tenantID+`', 'x', 'OTHER', 'EUR', 1900, FALSE, 'ACTIVE', 0, 0, 0`)
	for i := range payees {
		parts = append(parts, Part{fmt.Sprint("cp_", i+1), exact})
	}
	return parts
}

// TestManyPayees: the statements that the database is asked are as many for a hundred payees as for one, and all
// is as if each payee were alone: numbers are unbroken, credits are set off.
func TestManyPayees(t *testing.T) {
	f := newFixture(t)
	all := f.crowd(t, 350, 0)
	for i := range all {
		all[i].Exact = rate.Money(10_004_000 + i)
	}
	first := Statement{TenantID: f.tenantID, ID: "stm_a", Currency: "EUR"}
	asked := func(parts []Part, fn func(ctx context.Context, tx *store.Tx) error) (n int) {
		f.change(func(tx *store.Tx) error { return fn(counted{t.Context(), &n}, tx) })
		return n
	}
	issue := func(s Statement, parts []Part, others ...string) int {
		return asked(parts, func(ctx context.Context, tx *store.Tx) error {
			s.Parts = parts
			made, set, err := Issue(ctx, tx, s, byKey)
			require.Len(t, made, len(parts))
			slices.Sort(set)
			require.Equal(t, others, slices.Compact(set))
			return err
		})
	}
	one := issue(first, all[:1])
	first.ID = "stm_b"
	require.Less(t, issue(first, all[1:50]), one+one/4)
	first.ID = "stm_c"
	require.Less(t, issue(first, all[50:350]), 3*one)
	credits := slices.Clone(all[50:350])
	for i := range credits {
		credits[i].Exact = -4_000_000
	}
	require.Less(t, issue(Statement{TenantID: f.tenantID, ID: "stm_d", First: &first.ID, Currency: "EUR"}, credits, "stm_c"), 6*one)
	require.Less(t, asked(nil, func(ctx context.Context, tx *store.Tx) error {
		b, _, err := Pay(ctx, tx, f.tenantID, "stm_c", "EUR", Payments{Date: "2026-12-31", Reference: "all"}, byKey)
		require.True(t, b.Settled)
		return err
	}), 3*one)
	page, err := Of(t.Context(), f.db.Read(), f.tenantID, "stm_d")
	require.NoError(t, err)
	for i, p := range page {
		require.Equal(t, []any{credits[i].CounterpartyID, fmt.Sprintf("2026-%06d", 351+i), int64(351 + i), "-4.76", Paid}, []any{p.CounterpartyID, p.Number, p.Sequence, p.Gross, p.State})
		require.Equal(t, []Payment{{"2026-12-31", "-4.76", fmt.Sprintf("2026-%06d", 51+i), true}}, p.Payments)
		carried, err := rate.ParseAmount(p.Carried)
		require.NoError(t, err)
		require.Equal(t, rate.Money(4_000+50+i), carried)
	}
	paid, err := Of(t.Context(), f.db.Read(), f.tenantID, "stm_c")
	require.NoError(t, err)
	require.Equal(t, []Payment{{"2026-12-31", "4.76", "2026-000351", true}, {"2026-12-31", "7.14", "all", false}}, paid[0].Payments)
	kinds := map[string]int{}
	for _, e := range roomtest.Events(t, f.db) {
		kinds[e.Type]++
	}
	require.Equal(t, map[string]int{"payable.issued": 650, "payable.paid": 600}, kinds)
}

// BenchmarkIssue issues a statement to as many payees as a tenant has, corrects it, so that credits are set off,
// and pays the rest.
func BenchmarkIssue(b *testing.B) {
	f := newFixture(b)
	const payees = 10_000
	all := f.crowd(b, payees, 12_345_678)
	some := slices.Clone(all)
	for i := range some {
		some[i].Exact = -1_000_000
	}
	do := func(name string, fn func(ctx context.Context, tx *store.Tx) error) {
		statements, begin := 0, time.Now()
		require.NoError(b, f.db.Change(b.Context(), func(tx *store.Tx) error { return fn(counted{b.Context(), &statements}, tx) }))
		b.ReportMetric(time.Since(begin).Seconds(), name+"-s")
		b.ReportMetric(float64(statements), name+"-statements")
	}
	for b.Loop() {
		f.made++
		first := fmt.Sprint("stm_", f.made)
		do("issue", func(ctx context.Context, tx *store.Tx) error {
			_, _, err := Issue(ctx, tx, Statement{TenantID: f.tenantID, ID: first, Currency: "EUR", Parts: all}, byKey)
			return err
		})
		do("correct", func(ctx context.Context, tx *store.Tx) error {
			_, _, err := Issue(ctx, tx, Statement{TenantID: f.tenantID, ID: first + "_more", First: &first, Currency: "EUR", Parts: some}, byKey)
			return err
		})
		do("pay", func(ctx context.Context, tx *store.Tx) error {
			_, _, err := Pay(ctx, tx, f.tenantID, first, "EUR", Payments{Date: "2026-12-31", Reference: "all"}, byKey)
			return err
		})
	}
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
		write, err := dueBy{f.tenantID, by, currency}.file(f.db.Read(), spreadsheet).Open(t.Context())
		require.NoError(t, err)
		var text bytes.Buffer
		write(&text)
		require.Equal(t, spreadsheet, strings.HasPrefix(text.String(), route.ByteOrderMark))
		list, err = csv.NewReader(strings.NewReader(strings.TrimPrefix(text.String(), route.ByteOrderMark))).ReadAll()
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

// TestPagesOfPayouts: pages have all payouts once, in their order, whatever is paid between them; credits are in
// none. A file has more than a page.
func TestPagesOfPayouts(t *testing.T) {
	f := newFixture(t)
	late, soon := f.payee("EUR", settle.Terms{}), f.payee("EUR", settle.Terms{PaymentDays: new(int64(0))})
	owing := f.payee("EUR", settle.Terms{PaymentDays: new(int64(0))})
	for n := range 7 {
		id := []string{late, soon}[n%2]
		f.issue(Statement{ID: fmt.Sprint("stm_", n), Currency: "EUR", Parts: append(parts(id, fmt.Sprint(n+1)), parts(owing, "-1")...)})
	}
	due := dueBy{f.tenantID, "2027-12-31", "EUR"}
	for _, limit := range []int{1, 2, 3, 7, 8} {
		var amounts []string
		for s := (store.Slice{Limit: limit}); ; {
			page, next, err := due.payouts(t.Context(), f.db.Read(), s)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page), limit)
			for _, p := range page {
				amounts = append(amounts, p.Amount)
			}
			if s.Behind = next; next == "" {
				break
			}
		}
		require.Equal(t, []string{"2.00", "4.00", "6.00", "1.00", "3.00", "5.00", "7.00"}, amounts, "%d a page", limit)
	}
	page, next, err := due.payouts(t.Context(), f.db.Read(), store.Slice{Limit: 2})
	require.NoError(t, err)
	for _, id := range []string{page[1].StatementID, "stm_5"} {
		_, err = f.pay(id, Payments{CounterpartyID: &soon})
		require.NoError(t, err)
	}
	page, _, err = due.payouts(t.Context(), f.db.Read(), store.Slice{Behind: next, Limit: 2})
	require.NoError(t, err)
	require.Equal(t, []string{"1.00", "3.00"}, []string{page[0].Amount, page[1].Amount})
	_, _, err = due.payouts(t.Context(), f.db.Read(), store.Slice{Behind: "2026-12-31 x", Limit: 2})
	require.Equal(t, "cursor", api.From(err).Field, "%v", err)

	roomtest.Fill(t, f.db, rowsAPage+50, "payables", filledColumns,
		`'pay_' || CAST(i AS TEXT), '`+f.tenantID+`', 'stm_many', 'stm_many', '`+late+`', CAST(i AS TEXT), 'STATEMENT', 'EUR', '1', '1.00', 0, FALSE, '0.00', '1.00', '2026-12-31', '2026-12-31', 'DUE', '0.00', '[]', '0', i + 100, '{}', '{}', 0, 0, 0`)
	write, err := due.file(f.db.Read(), false).Open(t.Context())
	require.NoError(t, err)
	var text bytes.Buffer
	write(&text)
	require.Equal(t, 1+5+rowsAPage+50, strings.Count(text.String(), "\n"))
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

// TestErasedParties: of a party whose legal name is the person's, all is erased, of the counterparty and on its
// papers; of one whose address names the person, the address alone.
func TestErasedParties(t *testing.T) {
	f := newFixture(t)
	payee := func(private settle.Private) (id string) {
		f.change(func(tx *store.Tx) error {
			made, err := settle.CreateCounterparty(t.Context(), tx, settle.Counterparty{TenantID: f.tenantID, Name: "Studio", Kind: settle.Publisher, Currency: "EUR", Private: private}, byKey)
			id = made.ID
			return err
		})
		return id
	}
	ada := payee(settle.Private{LegalName: new(" Ada Byron"), Address: new("A street"), TaxID: new("DE1"), Email: new("studio@example.org"), PayoutRef: new("account 7")})
	other := payee(settle.Private{LegalName: new("Studio GmbH"), Address: new("c/o Ada Byron\nA street"), TaxID: new("DE2"), PayoutRef: new("account 8")})
	f.change(func(tx *store.Tx) error {
		_, err := set(t.Context(), tx, Issuer{TenantID: f.tenantID, LegalName: "Ada Byron", TaxID: new("CHE-1"), Note: new("Self-billing")}, byKey)
		return err
	})
	made, _ := f.issue(Statement{Currency: "EUR", Parts: append(parts(ada, "1"), parts(other, "1")...)})
	person, tables := sealer.NewPerson("Ada Byron"), slices.Concat(settle.Tables, Tables)
	shown, err := tables.Find(t.Context(), f.db.Read(), f.tenantID, person, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"counterparty": 2, "issuer": 1, "payable": 2}, shown.Rows)
	f.change(func(tx *store.Tx) error {
		found, err := tables.Erase(t.Context(), tx, f.tenantID, person, "gone", nil, nil)
		require.Equal(t, shown, found)
		return err
	})
	all, err := settle.Counterparties(t.Context(), f.db.Read(), f.tenantID)
	require.NoError(t, err)
	slices.SortFunc(all, func(a, b settle.Counterparty) int { // ada's first: of one millisecond, ids have no order
		if a.ID == ada {
			return -1
		}
		return 1
	})
	gone := new("gone")
	require.Equal(t, settle.Private{}, all[0].Private)
	require.Equal(t, settle.Private{LegalName: new("Studio GmbH"), TaxID: new("DE2"), PayoutRef: new("account 8")}, all[1].Private)
	due, _, err := dueBy{f.tenantID, "2027-12-31", ""}.payouts(t.Context(), f.db.Read(), store.Slice{Limit: 2})
	require.NoError(t, err)
	require.Equal(t, []string{"Studio", "", "1.00", "EUR"}, due[0].row(false)[:4], "nothing is paid to what stands for the person")
	later, _ := f.issue(Statement{Currency: "EUR", Parts: parts(ada, "1")})
	require.Equal(t, []Party{{LegalName: gone, Note: new("Self-billing")}, {LegalName: new("Studio")}}, []Party{later[0].Issuer, later[0].Recipient}, "nor shown on later papers")
	issuer := Party{LegalName: gone, TaxID: gone, Note: new("Self-billing")}
	papers := f.all()
	require.Equal(t, []Party{issuer, {LegalName: gone, Address: gone, TaxID: gone, Email: gone}}, []Party{papers[0].Issuer, papers[0].Recipient})
	require.Equal(t, []Party{issuer, {LegalName: new("Studio GmbH"), Address: gone, TaxID: new("DE2")}}, []Party{papers[1].Issuer, papers[1].Recipient})
	require.ElementsMatch(t, []string{made[0].ID, made[1].ID}, shown.Records)
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

// filledColumns are all columns of payables but corrects.
const filledColumns = `payable_id, tenant_id, statement_id, first_id, counterparty_id, number, kind, currency, exact, net, tax_bps, reverse_charge, tax, gross, issued_on, due_on, state, paid_amount, payments, carried, sequence, issuer, recipient, created_at, updated_at, revision`

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

// TestListsByDays: both ends of days count, and they are the tenant's; a credit is never overdue, and what is paid neither.
func TestListsByDays(t *testing.T) {
	f := newFixture(t)
	s, err := New(f.db)
	require.NoError(t, err)
	ctx := auth.WithPrincipal(t.Context(), auth.Principal{Key: &api.Key{TenantID: f.tenantID}})
	get := func(in payablesInput) (numbers []string) {
		t.Helper()
		in.Limit = 50
		list, err := s.getPayables(ctx, &in)
		require.NoError(t, err)
		for _, p := range list.Payables {
			numbers = append(numbers, strings.TrimPrefix(p.Number, "20"))
		}
		slices.Sort(numbers) // those of one moment are in any order
		return numbers
	}
	terms := settle.Terms{PaymentDays: new(int64(14))}
	f.issue(Statement{Currency: "EUR", Parts: parts(f.payee("EUR", terms), "1")}) // 31 December
	f.issue(Statement{Currency: "EUR", Parts: parts(f.payee("EUR", terms), "-1")})
	f.now = f.now.Add(time.Hour) // it is January in Berlin
	f.issue(Statement{Currency: "EUR", Parts: parts(f.payee("EUR", terms), "1")})
	last, _ := f.issue(Statement{Currency: "EUR", Parts: parts(f.payee("EUR", terms), "1")})
	_, err = f.pay(last[0].StatementID, Payments{Reference: "transfer"})
	require.NoError(t, err)
	for _, c := range []struct {
		in   payablesInput
		want []string
	}{
		{payablesInput{IssuedSince: "2026-12-31", IssuedBy: "2026-12-31"}, []string{"26-000001", "26-000002"}},
		{payablesInput{IssuedSince: "2027-01-01"}, []string{"27-000001", "27-000002"}},
		{payablesInput{IssuedBy: "2027-01-01", State: "DUE"}, []string{"26-000001", "26-000002", "27-000001"}},
		{payablesInput{DueSince: "2027-01-15", DueBy: "2027-01-15"}, []string{"27-000001", "27-000002"}},
		{payablesInput{DueBy: "2027-01-13"}, nil},
		{payablesInput{Overdue: "true"}, nil},
	} {
		require.Equal(t, c.want, get(c.in), "%+v", c.in)
	}
	f.now = time.Date(2027, 1, 15, 22, 59, 0, 0, time.UTC) // the last minute of the 15th in Berlin
	require.Equal(t, []string{"26-000001"}, get(payablesInput{Overdue: "true"}))
	require.Equal(t, 4, len(get(payablesInput{Overdue: "false"})))
	f.now = f.now.Add(time.Minute)
	require.Equal(t, []string{"26-000001", "27-000001"}, get(payablesInput{Overdue: "true"}))
	require.Equal(t, []string{"27-000001"}, get(payablesInput{Overdue: "true", IssuedSince: "2027-01-01"}))
	for _, in := range []payablesInput{{IssuedSince: "2026-02-30"}, {IssuedBy: "yesterday"}, {DueSince: "2026-1-1"}, {DueBy: "2026-01-01T00:00:00Z"}} {
		in.Limit = 50
		_, err := s.getPayables(ctx, &in)
		require.Equal(t, api.ValidationFailed, api.From(err).Code, "%+v", in)
	}
}

// TestFiltersHaveIndexes is as that of rights.
func TestFiltersHaveIndexes(t *testing.T) {
	f := newFixture(t)
	roomtest.Fill(t, f.db, 5_000, "payables", filledColumns,
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
			_, _, err := dueBy{"tnt_a", "2027-01-01", ""}.payouts(t.Context(), q, store.Slice{Limit: 5})
			return err
		},
		"payables_by_payee": func(q store.Querier) error {
			_, err := carriedOf(t.Context(), q, "tnt_a", "EUR", parts("cp_7", "1"))
			return err
		},
		"payables_owed": func(q store.Querier) error {
			_, err := dueTo(t.Context(), q, "tnt_a", "EUR", []string{"cp_7", "cp_8"}, true)
			return err
		},
		"payables_by_sequence": func(q store.Querier) error { _, err := newest(t.Context(), q, "tnt_a"); return err },
	} {
		require.Contains(t, roomtest.Plans(t, f.db, query), index)
	}
	require.Regexp(t, `payables_by_(counterparty|payee)`, roomtest.Plans(t, f.db, of(filter{counterpartyID: "cp_7"})))
}
