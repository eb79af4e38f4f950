package settle

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer/rate"
)

var (
	noon  = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	byKey = store.ByKey("key_a")
)

func newService(t *testing.T) (*Service, *roomtest.Clock) {
	t.Helper()
	clock := roomtest.NewClock(noon)
	r, err := New(Config{DB: openAt(t, clock)})
	require.NoError(t, err)
	roomtest.Right(t, r.db, rightID, "{}")
	return r, clock
}

// emitted are the events from the nth on, as "<type> <subject>".
func (r *Service) emitted(t *testing.T, n int) (list []string) {
	for _, e := range roomtest.Events(t, r.db)[n:] {
		list = append(list, e.Type+" "+e.Subject.ID)
	}
	return list
}

func requireCode(t *testing.T, code api.Code, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, code, api.From(err).Code, err)
}

// TestChangeOfWhatMonthsDependOn: a rule that may have adjusted a month keeps its zone and its currency, so that
// no month is adjusted in two. What a change does not name stays.
func TestChangeOfWhatMonthsDependOn(t *testing.T) {
	r, _ := newService(t)
	requested := ruleFor(payee(t, r.db, tenantID))
	requested.TimeZone, requested.Cap = "Europe/Berlin", new("7")
	made, err := createRule(t, r.db, requested)
	require.NoError(t, err)
	for field, change := range map[string]func(n *Rule){
		"timeZone": func(n *Rule) { n.TimeZone = "UTC" },
		"currency": func(n *Rule) { n.Currency = "USD" },
	} {
		next := requested
		next.EffectiveFrom = made.EffectiveFrom
		change(&next)
		_, err := r.changeRule(t.Context(), made.ID, next, byKey)
		require.Equal(t, field, api.From(err).Field, "%v", err)
		require.ErrorContains(t, err, "from the next month on")
	}
	next := requested
	next.EffectiveFrom, next.TimeZone, next.Cap = made.EffectiveFrom, "", nil
	changed, err := r.changeRule(t.Context(), made.ID, next, byKey)
	require.NoError(t, err)
	require.Equal(t, "Europe/Berlin", changed.TimeZone)
	next.TimeZone = "UTC"
	changed, err = r.changeRule(t.Context(), made.ID, next, byKey)
	require.NoError(t, err, "it adjusts nothing")
	require.Equal(t, "UTC", changed.TimeZone)
}

func TestChangeOfARule(t *testing.T) {
	r, clock := newService(t)
	c := payee(t, r.db, tenantID)
	made, err := createRule(t, r.db, ruleFor(c))
	require.NoError(t, err)
	clock.Advance(time.Hour)

	same := ruleFor(c)
	same.Price, same.EffectiveFrom = "0.500", made.EffectiveFrom
	got, err := r.changeRule(t.Context(), made.ID, same, byKey)
	require.NoError(t, err)
	require.Equal(t, made, got, "it says the same")
	require.Empty(t, r.emitted(t, 2))

	requested := ruleFor(c)
	requested.Match, requested.Unit, requested.Price, requested.Priority = Match{RightID: new(rightID), Substrate: new("ANY")}, rate.Event, "2.00", 7
	requested.EffectiveFrom, requested.EffectiveUntil = store.At(noon.Add(-time.Hour)), store.At(noon.Add(24*time.Hour))
	next, err := r.changeRule(t.Context(), made.ID, requested, byKey)
	require.NoError(t, err)
	want := made
	want.Match, want.Unit, want.Price, want.Priority, want.EffectiveFrom, want.EffectiveUntil = Match{RightID: new(rightID)}, rate.Event, "2", 7, requested.EffectiveFrom, requested.EffectiveUntil
	want.UpdatedAt, want.Revision = store.At(clock.Now()), next.Revision
	require.Equal(t, want, next)
	require.Greater(t, next.Revision, made.Revision)
	found, err := rules.Find(t.Context(), r.db.Read(), tenantID, made.ID)
	require.NoError(t, err)
	require.Equal(t, next, *found)
	require.Equal(t, []string{"settlement_rule.changed " + made.ID}, r.emitted(t, 2))
	events := roomtest.Events(t, r.db)
	said, err := rate.ParseRule(events[len(events)-1].Data)
	require.NoError(t, err, "the event has the whole record")
	require.Equal(t, "2", said.Price.String())

	bad := requested
	bad.TenantID = "tnt_b"
	_, err = r.changeRule(t.Context(), made.ID, bad, byKey)
	requireCode(t, api.ResourceNotFound, err)
	bad = requested
	bad.Price = "x"
	_, err = r.changeRule(t.Context(), made.ID, bad, byKey)
	requireCode(t, api.ValidationFailed, err)
	_, err = r.retireRule(t.Context(), tenantID, made.ID, byKey)
	require.NoError(t, err)
	for _, again := range []Rule{requested, bad} {
		_, err = r.changeRule(t.Context(), made.ID, again, byKey)
		requireCode(t, api.StateConflict, err)
	}
	require.Equal(t, []string{"settlement_rule.changed " + made.ID, "settlement_rule.retired " + made.ID}, r.emitted(t, 2))
}

func TestRetirement(t *testing.T) {
	r, clock := newService(t)
	c := payee(t, r.db, tenantID)
	hour := func(n int) store.Instant { return store.At(noon.Add(time.Duration(n) * time.Hour)) }
	soon := store.At(hour(2).Add(time.Millisecond))
	last := time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC) // the latest moment that a record can hold
	long := store.At(last)
	for name, k := range map[string]struct{ from, until, ends store.Instant }{
		"open":                    {hour(-1), store.Instant{}, hour(1)},
		"ends later":              {hour(-1), hour(9), hour(1)},
		"is over":                 {hour(-1), hour(0), hour(0)},
		"begins now":              {hour(1), store.Instant{}, hour(1)},
		"begins later":            {hour(2), store.Instant{}, hour(2)},
		"begins later, with ends": {hour(2), hour(9), hour(2)},
		"as short as can be":      {hour(2), soon, hour(2)},
		"begins at the last":      {long, store.Instant{}, long},
	} {
		clock.Set(noon)
		requested := ruleFor(c)
		requested.EffectiveFrom, requested.EffectiveUntil, requested.Minimum = k.from, k.until, new("500")
		made, err := createRule(t, r.db, requested)
		require.NoError(t, err)
		n := len(roomtest.Events(t, r.db))

		clock.Set(hour(1).Time)
		retired, err := r.retireRule(t.Context(), tenantID, made.ID, byKey)
		require.NoError(t, err, name)
		require.Equal(t, []any{Retired, k.from, k.ends, hour(1)}, []any{retired.State, retired.EffectiveFrom, retired.EffectiveUntil, retired.UpdatedAt}, name)
		events := roomtest.Events(t, r.db)
		said, err := rate.ParseRule(events[len(events)-1].Data)
		require.NoError(t, err, name)
		require.Equal(t, k.ends.Time, said.EffectiveUntil, name)
		records, err := Records([]Rule{retired})
		require.NoError(t, err)
		billed, err := Rating.Adjust(records[0], nil, nil, hour(-9).Time, last)
		require.NoError(t, err)
		require.Equal(t, k.from.Before(k.ends.Time), len(billed) == 1, "%s: a rule that never was in force bills no minimum", name)

		clock.Advance(time.Hour)
		again, err := r.retireRule(t.Context(), tenantID, made.ID, byKey)
		require.NoError(t, err, name)
		require.Equal(t, retired, again, name)
		require.Equal(t, []string{"settlement_rule.retired " + made.ID}, r.emitted(t, n), name)
	}
	_, err := r.retireRule(t.Context(), "tnt_b", "rule_x", byKey)
	requireCode(t, api.ResourceNotFound, err)

	requested := ruleFor(c)
	requested.EffectiveFrom, requested.EffectiveUntil = hour(2), hour(2)
	_, err = createRule(t, r.db, requested)
	require.Equal(t, "effectiveUntil", api.From(err).Field, "only retiring makes a window empty")
}

func TestAllFaultsOfARule(t *testing.T) {
	r, _ := newService(t)
	c := payee(t, r.db, tenantID)
	requested := ruleFor(c)
	requested.Match = Match{RightID: new("rgh_x"), BasisID: new("bas_b"), Substrate: new("TV"), MeteringBasis: new("none"), Completion: new("all")}
	requested.Unit, requested.Price, requested.Minimum, requested.Cap, requested.Shares = "HOUR", "-1", new("1"), new("0.5"), []Share{{"cp_x", 10_000}, {c.ID, 1}}
	_, err := createRule(t, r.db, requested)
	var fields []string
	for _, f := range api.From(err).ValidationErrors {
		fields = append(fields, f.Field)
	}
	require.Equal(t, []string{"match.rightId", "match.basisId", "match.substrate", "match.meteringBasis", "match.completion", "price", "unit", "cap", "shares", "shares[0].counterpartyId"}, fields)
	require.Len(t, r.emitted(t, 0), 1)
}

func TestChangeOfACounterparty(t *testing.T) {
	r, clock := newService(t)
	c := payee(t, r.db, tenantID)
	clock.Advance(time.Hour)
	requested := c
	got, err := r.changeCounterparty(t.Context(), c.ID, requested, byKey)
	require.NoError(t, err)
	require.Equal(t, c, got)
	require.Len(t, r.emitted(t, 0), 1, "it says the same")

	requested.Name, requested.Currency, requested.TaxID, requested.PayoutRef = "Studio South", "USD", nil, new("DE00 9999")
	next, err := r.changeCounterparty(t.Context(), c.ID, requested, byKey)
	require.NoError(t, err)
	want := requested
	want.UpdatedAt, want.Revision = store.At(clock.Now()), next.Revision
	require.Equal(t, want, next)
	found, err := counterparties.Find(t.Context(), r.db.Read(), tenantID, c.ID)
	require.NoError(t, err)
	require.Equal(t, next, *found)

	requested.TenantID = "tnt_b"
	_, err = r.changeCounterparty(t.Context(), c.ID, requested, byKey)
	requireCode(t, api.ResourceNotFound, err)
	requested.TenantID, requested.Currency, requested.Name = tenantID, "", ""
	_, err = r.changeCounterparty(t.Context(), c.ID, requested, byKey)
	require.Len(t, api.From(err).ValidationErrors, 2)

	// Earlier debts are paid to the current account, so it may still be corrected.
	gone, err := r.deactivate(t.Context(), tenantID, c.ID, byKey)
	require.NoError(t, err)
	require.Equal(t, Inactive, gone.State)
	again, err := r.deactivate(t.Context(), tenantID, c.ID, byKey)
	require.NoError(t, err)
	require.Equal(t, gone, again)
	moved := gone
	moved.PayoutRef = new("FR00 7777")
	next, err = r.changeCounterparty(t.Context(), c.ID, moved, byKey)
	require.NoError(t, err)
	require.Equal(t, []any{Inactive, "FR00 7777"}, []any{next.State, *next.PayoutRef})
	require.Equal(t, []string{"counterparty.created " + c.ID, "counterparty.changed " + c.ID, "counterparty.deactivated " + c.ID, "counterparty.changed " + c.ID}, r.emitted(t, 0))
	for _, e := range roomtest.Events(t, r.db) {
		for _, hidden := range []string{"DE00", "FR00", "tax 7"} {
			require.NotContains(t, string(e.Data), hidden, e.Type)
		}
	}
}

// TestCounterpartyOfActiveRules keeps its currency, and stays.
func TestCounterpartyOfActiveRules(t *testing.T) {
	r, clock := newService(t)
	c, other := payee(t, r.db, tenantID), payee(t, r.db, tenantID)
	var ids []string
	for range maxListed + 1 {
		clock.Advance(time.Millisecond) // so that ids rise
		made, err := createRule(t, r.db, ruleFor(c))
		require.NoError(t, err)
		ids = append(ids, made.ID)
	}
	n := len(r.emitted(t, 0))
	dollars := c
	dollars.Currency = "USD"
	refused := func() {
		t.Helper()
		_, err := r.deactivate(t.Context(), tenantID, c.ID, byKey)
		requireCode(t, api.StateConflict, err)
		require.Contains(t, api.From(err).Message, ids[len(ids)-1])
		_, err = r.changeCounterparty(t.Context(), c.ID, dollars, byKey)
		requireCode(t, api.StateConflict, err)
		require.Contains(t, api.From(err).Message, ids[len(ids)-1])
	}
	refused()
	_, err := r.deactivate(t.Context(), tenantID, c.ID, byKey)
	require.Contains(t, api.From(err).Message, " and more")
	require.Len(t, r.emitted(t, 0), n)

	named := c
	named.Name = "Studio South"
	_, err = r.changeCounterparty(t.Context(), c.ID, named, byKey)
	require.NoError(t, err, "all but the currency")
	requested := ruleFor(other)
	requested.EffectiveFrom = store.At(noon)
	_, err = r.changeRule(t.Context(), ids[0], requested, byKey)
	require.NoError(t, err)
	for len(ids) > 1 {
		refused()
		_, err := r.retireRule(t.Context(), tenantID, ids[len(ids)-1], byKey)
		require.NoError(t, err)
		ids = ids[:len(ids)-1]
	}
	_, err = r.changeCounterparty(t.Context(), c.ID, dollars, byKey)
	require.NoError(t, err)
	_, err = r.deactivate(t.Context(), tenantID, c.ID, byKey)
	require.NoError(t, err)
	_, err = r.deactivate(t.Context(), tenantID, other.ID, byKey)
	requireCode(t, api.StateConflict, err)
}

// TestListsOfManyHaveIndexes: every query on many records finds the newest without scanning those of
// other tenants.
func TestListsOfManyHaveIndexes(t *testing.T) {
	r, _ := newService(t)
	const rows = 5_000
	roomtest.Fill(t, r.db, rows, "counterparties", `counterparty_id, tenant_id, name, kind, currency, tax_bps, reverse_charge, state, created_at, updated_at, revision`,
		`'cp_' || CAST(i AS TEXT), CASE WHEN i % 10 = 3 THEN 'tnt_a' ELSE 'tnt_b' END, 'x', 'OTHER', 'EUR', 0, FALSE, CASE WHEN i % 500 = 3 THEN 'INACTIVE' ELSE 'ACTIVE' END, 0, 0, 0`)
	roomtest.Fill(t, r.db, rows, "settlement_rules", `rule_id, tenant_id, matches, unit, price, tiers, time_zone, currency, shares, effective_from, priority, state, created_at, updated_at, revision`,
		`'rule_' || CAST(i AS TEXT), CASE WHEN i % 10 = 3 THEN 'tnt_a' ELSE 'tnt_b' END, '{"basisId":null,"meteringBasis":null,"rightId":"rgh_' || CAST(i % 200 AS TEXT) || '","substrate":null}', 'MS', '1', '[]', 'UTC', 'EUR',
		'[{"bps":10000,"counterpartyId":"cp_' || CAST(i % 100 AS TEXT) || '"}]', 0, 0, CASE WHEN i % 500 = 3 THEN 'RETIRED' ELSE 'ACTIVE' END, 0, 0, 0`)
	page := store.Slice{Behind: "rule_9", Limit: 50}
	for state, index := range map[string]string{"": "counterparties_by_tenant", "INACTIVE": "counterparties_by_state"} {
		require.Contains(t, roomtest.Plans(t, r.db, func(q store.Querier) error {
			_, _, err := listCounterparties(t.Context(), q, tenantID, state, store.Slice{Behind: "cp_9", Limit: 50})
			return err
		}), index)
	}
	for f, index := range map[filter]string{{}: "settlement_rules_by_tenant", {state: "RETIRED"}: "settlement_rules_by_state", {rightID: "rgh_3", counterpartyID: "cp_3"}: "settlement_rules_by_tenant"} {
		require.Contains(t, roomtest.Plans(t, r.db, func(q store.Querier) error {
			_, _, err := listRules(t.Context(), q, tenantID, f, page)
			return err
		}), index)
	}
	for f, want := range map[filter]int{
		{}: 500, {state: "RETIRED"}: 10, {rightID: "rgh_3"}: 25, {rightID: "rgh_"}: 0, {counterpartyID: "cp_3"}: 50, {rightID: "rgh_3", counterpartyID: "cp_13"}: 0,
		{counterpartyID: "CP_3"}: 0, {counterpartyID: `cp_3"`}: 0, {rightID: "%"}: 0,
	} {
		found, next, err := listRules(context.Background(), r.db.Read(), tenantID, f, store.Slice{Limit: 500})
		require.NoError(t, err)
		require.Empty(t, next)
		require.Len(t, found, want, fmt.Sprintf("%+v", f))
	}
}
