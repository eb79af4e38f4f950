package settle

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/rate"
)

const (
	tenantID = "tnt_a"
	rightID  = "rgh_01ARZ3NDEKTSV4RRFFQ69G5FAV"
)

// open is a database with the tenants tnt_a and tnt_b.
func open(t *testing.T) *store.DB { return openAt(t, nil) }

func openAt(t *testing.T, clock *roomtest.Clock) *store.DB {
	t.Helper()
	now := time.Now
	if clock != nil {
		now = clock.Now
	}
	db := roomtest.Open(t, t.TempDir(), now)
	require.NoError(t, db.Change(t.Context(), func(tx *store.Tx) error {
		for _, statement := range []string{
			`INSERT INTO tenants (tenant_id, org_id, created_at, updated_at, revision) VALUES ('tnt_b', 'org_b', 0, 0, 0)`,
			`INSERT INTO bases (basis_id, tenant_id, kind, title, holder_org_id, created_at, updated_at, revision)
				VALUES ('bas_b', 'tnt_b', 'CONTRACT', 'Frame agreement', 'org_b', 0, 0, 0)`,
		} {
			if _, err := tx.ExecContext(t.Context(), statement); err != nil {
				return err
			}
		}
		return nil
	}))
	return db
}

func createCounterparty(t *testing.T, db *store.DB, requested Counterparty) (c Counterparty, err error) {
	t.Helper()
	err = db.Change(t.Context(), func(tx *store.Tx) (err error) {
		c, err = CreateCounterparty(t.Context(), tx, requested, store.ByKey("key_a"))
		return err
	})
	return c, err
}

func createRule(t *testing.T, db *store.DB, requested Rule) (r Rule, err error) {
	t.Helper()
	err = db.Change(t.Context(), func(tx *store.Tx) (err error) {
		r, err = CreateRule(t.Context(), tx, requested, store.ByKey("key_a"))
		return err
	})
	return r, err
}

func payee(t *testing.T, db *store.DB, tenantID string) Counterparty {
	t.Helper()
	c, err := createCounterparty(t, db, Counterparty{
		TenantID: tenantID, Name: "Studio", Kind: RightsHolder, Currency: "EUR", Private: Private{PayoutRef: new("DE00 1234"), TaxID: new("tax 7")}, OrgID: new("org_x"),
	})
	require.NoError(t, err)
	return c
}

func ruleFor(c Counterparty) Rule {
	return Rule{TenantID: tenantID, Unit: rate.Second, Price: "0.50", Currency: "EUR", Shares: []Share{{c.ID, 10_000}}}
}

func TestCounterparty(t *testing.T) {
	db := open(t)
	c := payee(t, db, tenantID)
	require.True(t, api.IsID(api.PrefixCounterparty, c.ID))
	list, err := Counterparties(t.Context(), db.Read(), tenantID)
	require.NoError(t, err)
	require.Equal(t, []Counterparty{c}, list)
	list, err = Counterparties(t.Context(), db.Read(), "tnt_b")
	require.NoError(t, err)
	require.Empty(t, list)

	all := roomtest.Events(t, db)
	require.Len(t, all, 1)
	e := all[0]
	require.Equal(t, []any{"counterparty.created", tenantID, store.ByKey("key_a"), sealer.Ref{Kind: "counterparty", ID: c.ID}, c.CreatedAt.Time},
		[]any{e.Type, e.TenantID, e.Actor, e.Subject, e.At})
	require.Contains(t, string(e.Data), `"name":"Studio"`)
	require.Contains(t, string(e.Data), `"payoutRef":null`)
	require.Contains(t, string(e.Data), `"taxId":null`)

	for field, change := range map[string]func(*Counterparty){
		"name":      func(c *Counterparty) { c.Name = "" },
		"kind":      func(c *Counterparty) { c.Kind = "FRIEND" },
		"currency":  func(c *Counterparty) { c.Currency = "euro" },
		"orgId":     func(c *Counterparty) { c.OrgID = new("org_x ") },
		"taxId":     func(c *Counterparty) { c.TaxID = new("") },
		"payoutRef": func(c *Counterparty) { c.PayoutRef = new(strings.Repeat("1", 257)) },
	} {
		bad := c
		change(&bad)
		_, err := createCounterparty(t, db, bad)
		require.Equal(t, field, api.From(err).Field)
	}
	require.Len(t, roomtest.Events(t, db), 1, "a refused request emits no event")
}

func TestRule(t *testing.T) {
	db := open(t)
	roomtest.Right(t, db, rightID, "{}")
	c := payee(t, db, tenantID)
	requested := ruleFor(c)
	requested.Match = Match{RightID: new(rightID), BasisID: new("bas_a"), Substrate: new("ANY"), MeteringBasis: new("viewable"), Completion: new("complete")}
	requested.Minimum, requested.Cap = new("10.50"), new("0250")
	r, err := createRule(t, db, requested)
	require.NoError(t, err)
	require.True(t, api.IsID(api.PrefixRule, r.ID))
	require.Equal(t, "0.5", r.Price)
	require.Nil(t, r.Match.Substrate, "ANY is any")
	require.Equal(t, []string{"10.5", "250"}, []string{*r.Minimum, *r.Cap})
	require.Equal(t, r.CreatedAt, r.EffectiveFrom)

	all := roomtest.Events(t, db)
	e := all[len(all)-1]
	require.Equal(t, []any{"settlement_rule.created", tenantID, store.ByKey("key_a"), sealer.Ref{Kind: "settlement_rule", ID: r.ID}},
		[]any{e.Type, e.TenantID, e.Actor, e.Subject})
	said, err := rate.ParseRule(e.Data)
	require.NoError(t, err)
	require.Equal(t, rate.Rule{
		ID: r.ID, Match: rate.Match{RightID: rightID, BasisID: "bas_a", MeteringBasis: "viewable", Completion: "complete"}, Unit: rate.Second, TimeZone: "UTC", Price: 500_000_000, Currency: "EUR",
		Shares: []rate.Share{{CounterpartyID: c.ID, Bps: 10_000}}, EffectiveFrom: r.EffectiveFrom.Time,
		Minimum: new(rate.Money(10_500_000)), Cap: new(rate.Money(250_000_000)),
	}, said)

	list, err := Rules(t.Context(), db.Read(), tenantID, store.Instant{})
	require.NoError(t, err)
	require.Equal(t, []Rule{r}, list)
}

func TestRuleRefuses(t *testing.T) {
	db := open(t)
	c, foreign := payee(t, db, tenantID), payee(t, db, "tnt_b")
	dollars, err := createCounterparty(t, db, Counterparty{TenantID: tenantID, Name: "Studio", Kind: Publisher, Currency: "USD"})
	require.NoError(t, err)
	idle := payee(t, db, tenantID)
	require.NoError(t, db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE counterparties SET state = 'INACTIVE' WHERE counterparty_id = $1`, idle.ID)
		return err
	}))
	before := len(roomtest.Events(t, db))
	for name, k := range map[string]struct {
		field  string
		change func(*Rule)
	}{
		"no price":            {"price", func(r *Rule) { r.Price = "" }},
		"a negative price":    {"price", func(r *Rule) { r.Price = "-1" }},
		"a price too fine":    {"price", func(r *Rule) { r.Price = "0.0000000001" }},
		"an unknown unit":     {"unit", func(r *Rule) { r.Unit = "HOUR" }},
		"no currency":         {"currency", func(r *Rule) { r.Currency = "" }},
		"no shares":           {"shares", func(r *Rule) { r.Shares = nil }},
		"too little":          {"shares", func(r *Rule) { r.Shares = []Share{{c.ID, 9_999}} }},
		"a foreign payee":     {"shares[0].counterpartyId", func(r *Rule) { r.Shares[0].CounterpartyID = foreign.ID }},
		"an unknown payee":    {"shares[0].counterpartyId", func(r *Rule) { r.Shares[0].CounterpartyID = "cp_x" }},
		"a payee of dollars":  {"shares[1].counterpartyId", func(r *Rule) { r.Shares = []Share{{c.ID, 1}, {dollars.ID, 9_999}} }},
		"an inactive payee":   {"shares[0].counterpartyId", func(r *Rule) { r.Shares[0].CounterpartyID = idle.ID }},
		"a payee twice":       {"shares[1].counterpartyId", func(r *Rule) { r.Shares = []Share{{c.ID, 1}, {c.ID, 9_999}} }},
		"an unknown right":    {"match.rightId", func(r *Rule) { r.Match.RightID = new(rightID) }},
		"an unknown basis":    {"match.basisId", func(r *Rule) { r.Match.BasisID = new("") }},
		"a foreign basis":     {"match.basisId", func(r *Rule) { r.Match.BasisID = new("bas_b") }},
		"no substrate":        {"match.substrate", func(r *Rule) { r.Match.Substrate = new("TV") }},
		"a tier not billed":   {"match.meteringBasis", func(r *Rule) { r.Match.MeteringBasis = new("none") }},
		"no completion":       {"match.completion", func(r *Rule) { r.Match.Completion = new("none") }},
		"a fine minimum":      {"minimum", func(r *Rule) { r.Minimum = new("0.0000001") }},
		"an empty cap":        {"cap", func(r *Rule) { r.Cap = new("") }},
		"a large cap":         {"cap", func(r *Rule) { r.Cap = new("9223372036854.775808") }},
		"a cap too low":       {"cap", func(r *Rule) { r.Minimum, r.Cap = new("2"), new("1.999999") }},
		"a negative priority": {"priority", func(r *Rule) { r.Priority = -1 }},
		"over when it begins": {"effectiveUntil", func(r *Rule) { r.EffectiveFrom, r.EffectiveUntil = r.CreatedAt, r.CreatedAt }},
	} {
		requested := ruleFor(c)
		requested.CreatedAt = store.At(db.Now())
		k.change(&requested)
		_, err := createRule(t, db, requested)
		refused := api.From(err)
		require.Equal(t, []any{api.ValidationFailed, k.field}, []any{refused.Code, refused.Field}, "%s: %v", name, err)
	}
	require.Len(t, roomtest.Events(t, db), before, "a refused request emits no event")
	list, err := Rules(t.Context(), db.Read(), tenantID, store.Instant{})
	require.NoError(t, err)
	require.Empty(t, list)
}

func TestRulesOfAMoment(t *testing.T) {
	db := open(t)
	c := payee(t, db, tenantID)
	at := store.At(db.Now())
	ids := func(moment store.Instant) string {
		list, err := Rules(t.Context(), db.Read(), tenantID, moment)
		require.NoError(t, err)
		var names []string
		for _, r := range list {
			names = append(names, r.Price)
		}
		return strings.Join(names, " ")
	}
	later := store.At(at.Add(time.Hour))
	for price, window := range map[string][2]store.Instant{"1": {at, later}, "2": {later, {}}} {
		requested := ruleFor(c)
		requested.Price, requested.EffectiveFrom, requested.EffectiveUntil = price, window[0], window[1]
		_, err := createRule(t, db, requested)
		require.NoError(t, err)
	}
	require.Equal(t, "", ids(store.At(at.Add(-time.Millisecond))))
	require.Equal(t, "1", ids(at))
	require.Equal(t, "1", ids(store.At(later.Add(-time.Millisecond))))
	require.Equal(t, "2", ids(later))
	require.Len(t, strings.Fields(ids(store.Instant{})), 2)
}

func TestATenantHasSoManyRules(t *testing.T) {
	db := open(t)
	c := payee(t, db, tenantID)
	require.NoError(t, db.Change(t.Context(), func(tx *store.Tx) error {
		for range maxRules {
			if _, err := CreateRule(t.Context(), tx, ruleFor(c), store.ByKey("key_a")); err != nil {
				return err
			}
		}
		return nil
	}))
	_, err := createRule(t, db, ruleFor(c))
	require.Equal(t, api.StateConflict, api.From(err).Code)
}
