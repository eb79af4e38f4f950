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
		b, err = Pay(context.Background(), tx, f.tenantID, statementID, "EUR", of, byKey)
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
	require.Equal(t, []string{"18.666648", "18.67"}, []string{all[55].ExactSoFar, all[55].NetSoFar})
}

// TestPayables: random parts of payees in currencies with 0, 2 and 3 digits, with and without a tax, are
// issued, taken back and paid. What is payable never differs from the exact sum by a minor unit, and
// nobody has a credit and a debt at once.
func TestPayables(t *testing.T) {
	f := newFixture(t)
	rapidtest.Check(t, 40, 2_000, func(rt *rapid.T) {
		f.tenant(rt)
		type payee struct {
			id, currency string
			bps          int64
			exact, money *big.Rat // what it got, what was paid
		}
		var payees []*payee
		for _, currency := range []string{"EUR", "JPY", "KWD"} {
			for _, bps := range []int64{0, 1_900} {
				payees = append(payees, &payee{f.payee(currency, settle.Terms{TaxBps: bps}), currency, bps, new(big.Rat), new(big.Rat)})
			}
		}
		rational := func(text string) *big.Rat {
			n, ok := new(big.Rat).SetString(text)
			require.True(rt, ok, text)
			return n
		}
		for range rapid.IntRange(1, 20).Draw(rt, "moves") {
			p := payees[rapid.IntRange(0, len(payees)-1).Draw(rt, "payee")]
			if rapid.IntRange(0, 3).Draw(rt, "pays") == 0 {
				due, err := dueTo(context.Background(), f.db.Read(), f.tenantID, p.id, p.currency)
				require.NoError(rt, err)
				if len(due) == 0 {
					continue
				}
				open, err := due[0].open()
				require.NoError(rt, err)
				of := Payments{CounterpartyID: &p.id, Date: "2026-12-31", Reference: "transfer"}
				if half, err := (open / 2).Payable(p.currency); rapid.Bool().Draw(rt, "in part") && err == nil && half != 0 && half != open {
					open, of.Amount = half, new(half.Fixed(p.currency))
				}
				f.change(func(tx *store.Tx) error {
					_, err := Pay(context.Background(), tx, f.tenantID, due[0].StatementID, p.currency, of, byKey)
					return err
				})
				p.money.Add(p.money, rational(open.String()))
				continue
			}
			exact := rate.Money(rapid.Int64Range(-30_000_000, 50_000_000).Draw(rt, "exact"))
			f.issue(Statement{Currency: p.currency, Parts: []Part{{p.id, exact}}})
			p.exact.Add(p.exact, rational(exact.String()))
		}
		all := f.all()
		for i, p := range all {
			require.Equal(rt, int64(i+1), p.Sequence)
		}
		for _, p := range payees {
			net, gross, paid, setOff := new(big.Rat), new(big.Rat), new(big.Rat), new(big.Rat)
			signs := map[int]bool{}
			for _, one := range all {
				if one.CounterpartyID != p.id {
					continue
				}
				net, gross, paid = net.Add(net, rational(one.Net)), gross.Add(gross, rational(one.Gross)), paid.Add(paid, rational(one.PaidAmount))
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
				require.Equal(rt, open == 0 && (len(one.Payments) > 0), one.State == Paid, "%+v", one)
				if open != 0 {
					require.Equal(rt, open > 0, rational(one.Gross).Sign() > 0, "more than all of it is paid: %+v", one)
					signs[map[bool]int{true: 1, false: -1}[open > 0]] = true
				}
				tax := new(big.Rat).Mul(rational(one.Net), big.NewRat(p.bps, 10_000))
				require.Negative(rt, tax.Sub(tax, rational(one.Tax)).Abs(tax).Cmp(minor(p.currency)), "%+v", one)
			}
			require.Zero(rt, setOff.Sign(), "what is set off is set off twice, or not")
			require.Zero(rt, new(big.Rat).Add(p.money, setOff).Cmp(paid))
			off := new(big.Rat).Sub(net, p.exact)
			require.LessOrEqual(rt, off.Abs(off).Cmp(new(big.Rat).Quo(minor(p.currency), big.NewRat(2, 1))), 0, "%s payable of %s", net, p.exact)
			require.Less(rt, len(signs), 2, "a payee is due something and owes something")
		}
	})
}

// minor is the minor unit.
func minor(currency string) *big.Rat {
	return new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(rate.Minor(currency))), nil))
}

// TestNotes: a correction and a void are notes with numbers of their own, that name the first one.
func TestNotes(t *testing.T) {
	f := newFixture(t)
	id := f.payee("EUR", settle.Terms{TaxBps: 1_900})
	one, _ := f.issue(Statement{ID: "stm_a", Currency: "EUR", Parts: parts(id, "100.004")})
	require.Equal(t, []string{"100.00", "19.00", "119.00"}, []string{one[0].Net, one[0].Tax, one[0].Gross})
	more, _ := f.issue(Statement{ID: "stm_b", First: new("stm_a"), Currency: "EUR", Parts: parts(id, "0.004")})
	require.Equal(t, []any{DebitNote, one[0].Number, "0.01", "0.00"}, []any{more[0].Kind, *more[0].Corrects, more[0].Net, more[0].Tax})
	back, others := f.issue(Statement{ID: "stm_c", First: new("stm_a"), Currency: "EUR", Parts: parts(id, "-100.008")})
	require.Equal(t, []any{CreditNote, "-100.01", "-119.01", Paid}, []any{back[0].Kind, back[0].Net, back[0].Gross, back[0].State})
	require.Equal(t, []string{"stm_a", "stm_b"}, others)
	for _, p := range f.all() {
		require.Equal(t, Paid, p.State, "the credit is set off against both")
	}
	require.Equal(t, []Payment{{"2026-12-31", "-119.00", one[0].Number, true}, {"2026-12-31", "-0.01", more[0].Number, true}}, back[0].Payments)
	f.issue(Statement{ID: "stm_two", Currency: "EUR", Parts: parts(f.payee("EUR", settle.Terms{}), "3")})
	two := f.all()[3].CounterpartyID
	f.issue(Statement{ID: "stm_three", Currency: "EUR", Parts: parts(two, "3")})
	f.issue(Statement{ID: "stm_four", Currency: "EUR", Parts: parts(two, "-4")})
	require.Equal(t, []string{"3.00", "1.00", "-4.00"}, []string{f.all()[3].PaidAmount, f.all()[4].PaidAmount, f.all()[5].PaidAmount}, "the oldest first")
	again, others := f.issue(Statement{ID: "stm_d", Currency: "EUR", Parts: parts(id, "100.008")})
	require.Equal(t, []any{"100.01", "119.01", Due}, []any{again[0].Net, again[0].Gross, again[0].State})
	require.Empty(t, others)
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
		{Payments{Amount: new("5")}, "counterpartyId"}, {Payments{CounterpartyID: new("cp_x")}, "counterpartyId"},
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
	b, err = f.pay("stm_a", Payments{CounterpartyID: &two, Date: "2026-12-15", Reference: "transfer 2"})
	require.NoError(t, err)
	require.Equal(t, Balance{"1.50", false}, b)
	b, err = f.pay("stm_a", Payments{Amount: new("5.5"), Date: "2026-12-16", Reference: "transfer 3"})
	require.NoError(t, err)
	require.Equal(t, Balance{"7.00", true}, b)
	require.Equal(t, []Payment{{"2026-12-14", "4.50", "transfer 1", false}, {"2026-12-16", "5.50", "transfer 3", false}}, f.all()[0].Payments)
	_, err = f.pay("stm_a", Payments{})
	require.Equal(t, api.StateConflict, api.From(err).Code)

	f.issue(Statement{ID: "stm_none", Currency: "EUR"})
	b, err = f.pay("stm_none", Payments{})
	require.NoError(t, err)
	require.Equal(t, Balance{"0.00", true}, b)
	f.issue(Statement{ID: "stm_zero", Currency: "EUR", Parts: parts(one, "0")})
	b, err = f.pay("stm_zero", Payments{})
	require.NoError(t, err)
	require.Equal(t, Balance{"0.00", true}, b)

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
	_, err := f.pay("stm_a", Payments{CounterpartyID: &soon, Amount: new("4")})
	require.NoError(t, err)
	due := func(by, currency string) (list [][]string) {
		all, err := payouts(t.Context(), f.db.Read(), f.tenantID, by, currency)
		require.NoError(t, err)
		text, err := asCSV(all)
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
	next, _ := f.issue(Statement{ID: "stm_c", Currency: "EUR", Parts: parts(id, "1.004")})
	require.Equal(t, []string{"2026-000003", "1.00", "3.01"}, []string{next[0].Number, next[0].Net, next[0].NetSoFar})
}

// TestFiltersHaveIndexes is as that of rights.
func TestFiltersHaveIndexes(t *testing.T) {
	f := newFixture(t)
	roomtest.Fill(t, f.db, 5_000, "payables", `payable_id, tenant_id, statement_id, counterparty_id, number, kind, currency, exact, net, tax_bps, reverse_charge, tax, gross, issued_on, due_on, state, paid_amount, payments, exact_so_far, net_so_far, sequence, issuer, recipient, created_at, updated_at, revision`,
		`'pay_' || CAST(i AS TEXT), CASE WHEN i % 2 = 1 THEN 'tnt_a' ELSE '`+f.tenantID+`' END, 'stm_' || CAST(i % 900 AS TEXT), 'cp_' || CAST(i % 700 AS TEXT), CAST(i AS TEXT), 'STATEMENT', 'EUR', '1', '1.00', 0, FALSE, '0.00', '1.00', '2026-12-31', CASE WHEN i % 400 = 3 THEN '2026-01-01' ELSE '2027-12-31' END,
		CASE WHEN i % 300 = 3 OR i % 400 = 3 THEN 'DUE' ELSE 'PAID' END, '0.00', '[]', '1', '1.00', i, '{}', '{}', 0, 0, 0`)
	roomtest.Fill(t, f.db, 5_000, "counterparties", `counterparty_id, tenant_id, name, kind, currency, tax_bps, reverse_charge, state, created_at, updated_at, revision`, `'cp_' || CAST(i AS TEXT), 'tnt_a', 'x', 'OTHER', 'EUR', 0, FALSE, 'ACTIVE', 0, 0, 0`)
	of := func(f filter) func(q store.Querier) error {
		return func(q store.Querier) error {
			_, _, err := list(t.Context(), q, "tnt_a", f, store.Slice{Limit: 5})
			return err
		}
	}
	for index, query := range map[string]func(q store.Querier) error{
		"payables_by_tenant": of(filter{}), "payables_by_statement": of(filter{statementID: "stm_7"}), "payables_by_state": of(filter{state: "DUE"}),
		"payables_by_": of(filter{counterpartyID: "cp_7"}), // one of two
		"payables_that_are_due": func(q store.Querier) error {
			_, err := payouts(t.Context(), q, "tnt_a", "2027-01-01", "")
			return err
		},
		"payables_by_payee":    func(q store.Querier) error { _, err := newestOf(t.Context(), q, "tnt_a", "cp_7", "EUR"); return err },
		"payables_by_sequence": func(q store.Querier) error { _, err := newest(t.Context(), q, "tnt_a"); return err },
	} {
		require.Contains(t, roomtest.Plans(t, f.db, query), index)
	}
}
