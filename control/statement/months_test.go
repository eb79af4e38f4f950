package statement

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/route"
	"muniment.example/control/settle"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/settlement"
)

// monthly makes a rule of a price of 1 for everything, with a minimum of 1,000 a month, for both payees.
func (h *fixture) monthly(zone string, change func(r *settle.Rule)) {
	h.t.Helper()
	r := settle.Rule{
		TenantID: tenantID, Unit: rate.Event, Price: "1", Priority: 9, Currency: "EUR", EffectiveFrom: store.At(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)), TimeZone: zone, Minimum: new("1000"),
		Shares: []settle.Share{{CounterpartyID: h.studio, Bps: 7_500}, {CounterpartyID: h.agency, Bps: 2_500}},
	}
	change(&r)
	require.NoError(h.t, h.db.Change(h.t.Context(), func(tx *store.Tx) error {
		_, err := settle.CreateRule(h.t.Context(), tx, r, byKey)
		return err
	}))
}

func (h *fixture) named(period, zone string) Statement {
	h.t.Helper()
	s, err := h.period(h.t.Context(), tenantID, &NewPeriod{Period: &period, TimeZone: &zone})
	require.NoError(h.t, err)
	s.Currency = "EUR"
	return s
}

// TestMinimumOnce: a month that is divided has its minimum once, whole, whoever is paid by which statement.
func TestMinimumOnce(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.clock.Set(on(40).Time)
	h.monthly("UTC", func(*settle.Rule) {})
	h.play("rgh_a", on(1))
	h.play("rgh_a", on(20))
	first := h.mustIssue(statementFor(0, 15))
	second := h.mustIssue(statementFor(15, 30))
	require.Equal(t, []string{"1", "999"}, []string{first.Total, second.Total})
	document := h.document(second.ID)
	require.Equal(t, []settlement.Month{{From: canonical.Moment(on(0)), Month: "2026-11", TimeZone: "UTC", To: canonical.Moment(on(30))}}, document.Months)
	require.Equal(t, on(0).String(), store.Instant(document.Since).String())
	require.Equal(t, first.ID, document.Overlaps[0].StatementID, "its bound rests on what that one states")
	require.Empty(t, h.document(first.ID).Months)
	require.Equal(t, "0", h.mustDraft(statementFor(30, 35)).Total, "another month has not ended")

	// What comes late changes the sum, not the month's: the correction of the first part adds it, that of the
	// second takes it off its minimum.
	h.play("rgh_a", on(2))
	late := h.issued(h.mustCorrect(first.ID).ID)
	require.Equal(t, "1", *late.Difference)
	reconciled := h.reconcile(0, 30)
	require.Empty(t, reconciled.Differences)
	last := reconciled.Statements[len(reconciled.Statements)-1]
	require.Equal(t, second.ID, last.StatementID)
	require.Equal(t, []MonthDue{{"2026-11", "UTC", document.Adjustments[0].RuleID, rate.ByMinimum, "998", "997"}}, last.Months, "the month is to be adjusted again")
	again := h.issued(h.mustCorrect(second.ID).ID)
	require.Equal(t, "-1", *again.Difference)
	for _, s := range h.reconcile(0, 30).Statements {
		require.Empty(t, s.Months)
	}
	_, err := h.correct(t.Context(), tenantID, second.ID, byKey)
	conflict(t, err, "nothing has changed")

	// Each payee gets its share by the statement that reaches the end for it.
	h = newFixture(t, t.TempDir())
	h.clock.Set(on(40).Time)
	h.monthly("UTC", func(*settle.Rule) {})
	h.play("rgh_a", on(1))
	studio, agency := statementFor(0, 30), statementFor(0, 15)
	studio.CounterpartyID, agency.CounterpartyID = &h.studio, &h.agency
	require.Equal(t, "750", h.mustIssue(studio).Total)
	require.Equal(t, "0.25", h.mustIssue(agency).Total)
	agency.From, agency.To = on(15), on(30)
	require.Equal(t, "249.75", h.mustIssue(agency).Total)
}

// TestCapIsOfTheMonth: where earlier statements have more than the cap, the last one takes it back.
func TestCapIsOfTheMonth(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.clock.Set(on(40).Time)
	h.monthly("UTC", func(r *settle.Rule) { r.Minimum, r.Cap = nil, new("2") })
	for range 4 {
		h.play("rgh_a", on(1))
	}
	h.play("rgh_a", on(20))
	require.Equal(t, "4", h.mustIssue(statementFor(0, 15)).Total)
	second := h.mustIssue(statementFor(15, 30))
	require.Equal(t, "-2", second.Total, "1, less 3 above the cap")
	require.NoError(t, h.voids(second.ID))
	require.Equal(t, "-2", h.mustIssue(statementFor(15, 30)).Total)
}

func (h *fixture) voids(id string) error {
	_, err := h.void(h.t.Context(), tenantID, id, "a test", byKey)
	return err
}

// TestTiersOfTheMonth: prices follow the volume of the month, over all statements of it, before minimum and cap.
func TestTiersOfTheMonth(t *testing.T) {
	for mode, want := range map[rate.Mode]string{rate.Graduated: "-4.25", rate.Volume: "-5.25"} {
		h := newFixture(t, t.TempDir())
		h.clock.Set(on(40).Time)
		h.monthly("UTC", func(r *settle.Rule) {
			r.Price, r.TiersMode, r.Minimum = "2", &mode, nil
			r.Tiers = []settle.Tier{{Above: 2, Price: "1"}, {Above: 4, Price: "1.25"}, {Above: 100, Price: "0"}}
		})
		for n := range 5 {
			h.play("rgh_a", on(float64(3*n)+1))
		}
		for range 2 {
			h.play("rgh_b", on(20))
		}
		require.Equal(t, "10", h.mustIssue(statementFor(0, 15)).Total)
		second := h.mustIssue(statementFor(15, 30))
		adjustments := h.document(second.ID).Adjustments
		require.Len(t, adjustments, 1)
		require.Equal(t, []string{rate.ByTier, want, "2026-11"}, []string{adjustments[0].Reason, adjustments[0].Amount, adjustments[0].Month}, "%s", mode)
		require.Contains(t, h.shown(second.ID, getInput{Format: "html"}), "<td>2026-11 (UTC)</td><td>prices of the rule&#39;s tiers</td>")
	}
}

// TestPriceWithinAMonth: units that an earlier price has rated count for the volume, and keep that price.
func TestPriceWithinAMonth(t *testing.T) {
	for mode, want := range map[rate.Mode]string{rate.Graduated: "-16", rate.Volume: "-24"} {
		h := newFixture(t, t.TempDir())
		h.clock.Set(on(40).Time)
		h.monthly("UTC", func(r *settle.Rule) { r.Minimum = nil })
		for range 5 {
			h.play("rgh_a", on(1))
		}
		require.Equal(t, "5", h.mustIssue(statementFor(0, 15)).Total)
		h.change(`UPDATE settlement_rules SET price = '10', tiers = '[{"above":6,"price":"2"}]', tiers_mode = $1, revision = revision + 100 WHERE priority = 9`, mode)
		for range 3 {
			h.play("rgh_a", on(20))
		}
		second := h.mustIssue(statementFor(15, 30))
		adjustments := h.document(second.ID).Adjustments
		require.Equal(t, []string{rate.ByTier, want}, []string{adjustments[0].Reason, adjustments[0].Amount}, "%s: of 8, 5 are of the price of 1", mode)
	}
}

// TestYear: the twelve months of a zone are the year of that zone, through both changes of the clock, receipt by
// receipt and bound by bound.
func TestYear(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "America/New_York"} {
		h := newFixture(t, t.TempDir())
		h.clock.Set(time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC))
		graduated := rate.Graduated
		h.monthly(zone, func(r *settle.Rule) {
			r.Price, r.Minimum, r.Cap, r.TiersMode, r.Tiers = "2", new("30"), new("130"), &graduated, []settle.Tier{{Above: 31, Price: "1"}}
		})
		year := h.named("2026-01", zone)
		year.To = h.named("2026-12", zone).To
		location, err := time.LoadLocation(zone)
		require.NoError(t, err)
		receipts := map[string]int64{}
		for at := year.From.Add(-2 * time.Hour); at.Before(year.To.Add(2 * time.Hour)); at = at.Add(17*time.Hour + 29*time.Minute) {
			h.play("rgh_a", store.At(at))
			receipts[at.In(location).Format("2006-01")]++
		}
		for m := range 12 { // the last and the first millisecond of each month
			first := time.Date(2026, time.Month(m+1), 1, 0, 0, 0, 0, location)
			for _, at := range []time.Time{first, first.Add(-time.Millisecond)} {
				h.play("rgh_a", store.At(at))
				receipts[at.Format("2006-01")]++
			}
		}
		whole := h.mustDraft(year)
		var sum, stated int64
		for m := range 12 {
			name := fmt.Sprintf("2026-%02d", m+1)
			s := h.mustIssue(h.named(name, zone))
			document := h.document(s.ID)
			require.Equal(t, receipts[name], s.Receipts, "%s %s", zone, name)
			require.Equal(t, []any{name, name, zone, 1}, []any{*s.Period, document.Months[0].Month, document.Months[0].TimeZone, len(document.Months)})
			require.True(t, document.Since.Equal(document.From.Time), "a month of its own zone depends on no other")
			want := min(130, max(30, 2*min(31, s.Receipts)+max(0, s.Receipts-31)))
			require.Equal(t, fmt.Sprint(want), s.Total, "%s %s", zone, name)
			sum, stated = sum+want, stated+s.Receipts
		}
		require.Equal(t, []any{fmt.Sprint(sum), stated}, []any{whole.Total, whole.Receipts}, zone)
		require.Len(t, h.document(whole.ID).Months, 12)
	}
}

// TestMonthOfAnotherZone: a draft in another zone than its rule says which month it reaches, and counts since
// that began.
func TestMonthOfAnotherZone(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.clock.Set(on(40).Time)
	h.monthly("Europe/Berlin", func(r *settle.Rule) { r.Minimum = new("10") })
	h.play("rgh_a", on(-0.02)) // in November there
	h.play("rgh_a", on(29.97)) // in December there
	s := h.mustDraft(h.named("2026-11", "UTC"))
	document := h.document(s.ID)
	require.Equal(t, []settlement.Month{{From: canonical.Moment(store.At(on(0).Add(-time.Hour))), Month: "2026-11", TimeZone: "Europe/Berlin", To: canonical.Moment(store.At(on(30).Add(-time.Hour)))}}, document.Months)
	require.Equal(t, document.Months[0].From, document.Since)
	require.Equal(t, []any{"10", int64(1)}, []any{s.Total, s.Receipts}, "the line of December's 1, and the 9 that November lacks")
	require.Contains(t, h.shown(s.ID, getInput{Format: "csv"}), ","+s.ID+",2026-11,2026-11-01T00:00:00.000Z,2026-12-01T00:00:00.000Z,UTC,EUR,,,MINIMUM,,,,,2026-11,Europe/Berlin,")

	berlin := h.mustDraft(h.named("2026-11", "Europe/Berlin"))
	local := h.document(berlin.ID)
	require.Equal(t, []string{"2026-11-01T00:00:00.000+01:00", "2026-12-01T00:00:00.000+01:00"}, []string{local.LocalFrom, local.LocalTo})
	require.Contains(t, h.shown(berlin.ID, getInput{Format: "html"}), "1 November 2026 up to, but not including, 1 December 2026 (Europe/Berlin)")

	// A dispute, or a statement, of the time that is counted concerns the draft.
	h.clock.Advance(time.Second)
	requested := h.mustDraft(h.named("2026-11", "UTC"))
	other := statementFor(-1, 0)
	other.Currency = "USD"
	h.mustIssue(other)
	_, err := h.issue(t.Context(), tenantID, requested.ID, byKey)
	conflict(t, err, "statements that overlap")
	requested = h.mustDraft(h.named("2026-11", "UTC"))
	h.dispute("dsp_1", "rgh_a", -0.5)
	_, err = h.issue(t.Context(), tenantID, requested.ID, byKey)
	conflict(t, err, "disputes were opened")
}

// TestPeriodsOfRequests: a period is given by its name or by its ends, in the tenant's zone or in another.
func TestPeriodsOfRequests(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.change(`UPDATE tenants SET time_zone = 'America/New_York' WHERE tenant_id = $1`, tenantID)
	text := func(s string) *string { return &s }
	at := func(s string) *route.Time { return new(route.Time(s)) }
	for _, c := range []struct {
		asked      NewPeriod
		from, to   string
		zone, name string
	}{
		{NewPeriod{Period: text("2026-11")}, "2026-11-01T04:00:00.000Z", "2026-12-01T05:00:00.000Z", "America/New_York", "2026-11"},
		{NewPeriod{Period: text("2026-W48"), TimeZone: text("Europe/Berlin")}, "2026-11-22T23:00:00.000Z", "2026-11-29T23:00:00.000Z", "Europe/Berlin", "2026-W48"},
		{NewPeriod{From: at("2026-11-01"), To: at("20261201"), TimeZone: text("Europe/Berlin")}, "2026-10-31T23:00:00.000Z", "2026-11-30T23:00:00.000Z", "Europe/Berlin", "2026-11"},
		{NewPeriod{From: at("2026-11-01"), To: at("2026-11-03"), TimeZone: text("UTC")}, "2026-11-01T00:00:00.000Z", "2026-11-03T00:00:00.000Z", "UTC", ""},
		{NewPeriod{From: at("2026-11-01T00:00:00Z"), To: at("2026-11-02")}, "2026-11-01T00:00:00.000Z", "2026-11-02T05:00:00.000Z", "America/New_York", ""},
	} {
		s, err := h.period(t.Context(), tenantID, &c.asked)
		require.NoError(t, err)
		name := ""
		if s.Period != nil {
			name = *s.Period
		}
		require.Equal(t, []string{c.from, c.to, c.zone, c.name}, []string{s.From.String(), s.To.String(), s.TimeZone, name})
	}
	for field, asked := range map[string]NewPeriod{
		"period":   {Period: text("2026-13")},
		"timeZone": {Period: text("2026-11"), TimeZone: text("Local")},
		"from":     {From: at("yesterday"), To: at("2026-11-01")},
		"to":       {From: at("2026-11-01"), To: at("2026-11-01")},
	} {
		_, err := h.period(t.Context(), tenantID, &asked)
		require.Equal(t, field, api.From(err).Field)
	}
	for _, asked := range []NewPeriod{{}, {From: at("2026-11-01")}, {To: at("2026-11-01")}, {Period: text("2026-11"), From: at("2026-11-01")}} {
		_, err := h.period(t.Context(), tenantID, &asked)
		require.Equal(t, "period", api.From(err).Field)
	}

	// Clocks there were 44 minutes and 30 seconds off, which no local time of RFC 3339 can say.
	h.play("rgh_a", on(1))
	s, err := h.period(t.Context(), tenantID, &NewPeriod{From: at("1970-01-01"), To: at("2026-11-02"), TimeZone: text("Africa/Monrovia")})
	require.NoError(t, err)
	s.Currency = "EUR"
	_, err = h.draft(t.Context(), s, byKey)
	require.Equal(t, "timeZone", api.From(err).Field, "%v", err)
	for _, period := range [][2]string{{"1970-01-01T00:00:00Z", "2026-11-02"}, {"2026-11-01", "9999-12-31"}} {
		s, err := h.period(t.Context(), tenantID, &NewPeriod{From: at(period[0]), To: at(period[1]), TimeZone: text("UTC")})
		require.NoError(t, err)
		s.Currency = "EUR"
		h.monthly("UTC", func(r *settle.Rule) { r.EffectiveFrom = store.At(time.UnixMilli(0)) })
		_, err = h.draft(t.Context(), s, byKey)
		require.Equal(t, "from", api.From(err).Field, "%v", err)
		require.ErrorContains(t, err, "400 months")
	}
}
