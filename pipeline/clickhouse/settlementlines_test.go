package clickhouse

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/settle"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/pipeline"
	"muniment.example/sealer"
	"muniment.example/sealer/settlement"
)

// ruleRow is the row of an event of a rule.
func ruleRow(t *testing.T, tenant string, offset int64, event string, record []byte) pipeline.Row {
	t.Helper()
	r := delivery(tenant, offset, midnight, "")
	r.Type, r.Delivery = event, nil
	var err error
	r.Event, err = json.Marshal(map[string]any{"data": json.RawMessage(record), "type": event})
	require.NoError(t, err)
	return r
}

// record is that of a rule, as events have it, with some members changed.
func record(t *testing.T, id string, change map[string]any) []byte {
	t.Helper()
	members := map[string]any{
		"cap": nil, "createdAt": "2026-11-01T00:00:00.000Z", "currency": "USD", "effectiveFrom": "2026-11-01T00:00:00.000Z", "effectiveUntil": nil, "id": id,
		"match":   map[string]any{"basisId": nil, "campaign": nil, "completion": nil, "label": nil, "meteringBasis": nil, "rightId": nil, "substrate": nil},
		"minimum": nil, "price": "0.5", "priority": 0, "revision": 1, "shares": []any{map[string]any{"bps": 10_000, "counterpartyId": "cpy_a"}}, "tiers": []any{}, "tiersMode": nil, "timeZone": "UTC",
		"state": "ACTIVE", "unit": "EVENT", "updatedAt": "2026-11-01T00:00:00.000Z",
	}
	for name, value := range change {
		members[name] = value
	}
	text, err := json.Marshal(members)
	require.NoError(t, err)
	return text
}

// drawRule draws the record of a rule that begins and ends around midnight.
func drawRule(t *testing.T, random *rand.Rand, id string) []byte {
	some := func(values ...any) any { return values[random.IntN(len(values))] }
	moment := func(from int) string {
		return midnight.Add(time.Duration(from+random.IntN(10)) * time.Minute).Format("2006-01-02T15:04:05.000Z")
	}
	shares, left := []any{}, 10_000
	for i := range random.IntN(4) {
		bps := 1 + random.IntN(left/2)
		shares = append(shares, map[string]any{"bps": bps, "counterpartyId": fmt.Sprint("cpy_", (i+random.IntN(2)*5)*7%10)})
		left -= bps
	}
	shares = append(shares, map[string]any{"bps": left, "counterpartyId": "cpy_last"})
	return record(t, id, map[string]any{
		"match": map[string]any{
			"rightId": some(nil, nil, "rgh_0", "rgh_1"), "basisId": some(nil, nil, "bas_1", "bas_2"), "substrate": some(nil, nil, "CTV", "DOOH"),
			"meteringBasis": some(nil, nil, "viewable", "gross"), "completion": some(nil, nil, "none", "complete"), "campaign": some(nil, nil, "spring", "winter"),
			"label": some(nil, nil, map[string]any{"name": "venue", "value": "north"}, map[string]any{"name": "team", "value": ""}),
		},
		"unit":     some("EVENT", "MS", "SECOND", "IMPRESSION", "CPM"),
		"price":    some("0", "0.000000001", "0.0000015", "0.5", "12.345678901", "9223372036.854775807"),
		"priority": random.IntN(3), "shares": shares,
		"effectiveFrom": some("2026-01-01T00:00:00.000Z", moment(-10)), "effectiveUntil": some(nil, "9999-12-31T00:00:00.000Z", moment(0)),
	})
}

// scopes are those of rights; the others have none.
var scopes = map[string]string{
	"rgh_0": `{"campaigns":["winter","spring"],"description":"all","labels":{"team":"","venue":"south"}}`,
	"rgh_1": `{"labels":{"venue":"north"}}`,
}

// oddScopes are some of which nothing counts, or all that is of its type.
var oddScopes = []string{
	`null`, `"spring"`, `{"campaigns":"spring","labels":{"team":""}}`, `{"campaigns":["spring",null]}`, `{"campaigns":["spring"],"labels":{"team":null}}`, `{"campaigns":null,"labels":{"venue":"north"}}`,
	`{"campaigns":["winter"],"labels":["team"]}`, `{"campaigns":["spring"],"regions":5}`, `{"labels":{"team":""},"x-a":[null]}`,
}

// rightRow is the event of a right with a scope. subject is its kind.
func rightRow(tenant string, offset int64, rightID, scope, subject string) pipeline.Row {
	r := delivery(tenant, offset, midnight, "")
	r.Type, r.Delivery, r.SubjectKind, r.SubjectID = sealer.TypeRightIssued, nil, subject, rightID
	r.Event = fmt.Appendf(nil, `{"data":{"scope":%s},"subject":{"id":"%s","kind":"%s"},"type":"right.issued"}`, scope, rightID, subject)
	return r
}

// drawDelivery draws a delivery around midnight, of one day or the next.
func drawDelivery(random *rand.Rand, tenant string, offset int64) pipeline.Row {
	r := delivery(tenant, offset, midnight.Add(time.Duration(random.IntN(25)-12)*time.Minute), []string{"", "", "key 1"}[random.IntN(3)])
	d := r.Delivery
	d.RenderedAt = r.At
	d.RightID, d.BasisID, d.Substrate = fmt.Sprint("rgh_", random.IntN(3)), fmt.Sprint("bas_", 1+random.IntN(3)), []string{"CTV", "DOOH"}[random.IntN(2)]
	d.MeteringBasis, d.Completion = []string{"viewable", "gross"}[random.IntN(2)], []string{"none", "complete", "midpoint"}[random.IntN(3)]
	d.QuantityMs, d.Impressions = []int64{random.Int64N(20_000), random.Int64N(1 << 36)}[random.IntN(2)], 1+random.Int64N(1_000_000)
	if random.IntN(8) == 0 {
		d.Metered, d.Reason, d.MeteringBasis, d.QuantityMs, d.Impressions, d.Completion = false, "BELOW_DWELL", "none", 0, 0, "none"
	}
	return r
}

// linesOf is what the view says of a tenant, as texts.
func linesOf(t *testing.T, w *Warehouse, tenant string) (lines []string) {
	t.Helper()
	// Rating counts what is unrated for one reason together, whichever rules would have rated it.
	rows, err := w.conn.Query(t.Context(), `SELECT toString(day), right_id, metering_basis, if(unrated = '', rule_id, unrated) AS by,
			sum(receipts), sum(quantity_ms), toInt64(sum(impressions) * 10000), toString(amount), arrayMap(s -> toString(s), shares)
		FROM settlement_lines WHERE tenant_id = ? GROUP BY day, right_id, metering_basis, by, amount, shares`, tenant)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var day, right, basis, rule, amount string
		var receipts, ms, impressions int64
		var shares []string
		require.NoError(t, rows.Scan(&day, &right, &basis, &rule, &receipts, &ms, &impressions, &amount, &shares))
		lines = append(lines, lineText(day, right, basis, rule, receipts, ms, impressions, amount, shares))
	}
	require.NoError(t, rows.Err())
	return lines
}

func lineText(day, right, basis, rule string, receipts, ms, impressions int64, amount string, shares []string) string {
	return fmt.Sprintln(day, right, basis, rule, receipts, ms, impressions, amount, shares)
}

// The view rates each day as the sealing of packs does, to the last millionth.
func TestSettlementLinesAreRated(t *testing.T) {
	w := mustOpen(t, fresh(t, stacktest.ClickHouse(t)))
	random := rand.New(rand.NewPCG(7, 1))
	const worlds = 80
	var rows []pipeline.Row
	want := map[string][]string{}
	seen := map[string]int{}
	for world := range worlds {
		tenant, offset := fmt.Sprintf("tnt_%02d", world), int64(len(rows))
		records := map[string][]byte{}
		for n := range random.IntN(12) { // some are events of one rule: the last one counts
			id, event := fmt.Sprint("rul_", random.IntN(8)), "settlement_rule.created"
			if records[id] != nil {
				event = "settlement_rule.changed"
			}
			records[id] = drawRule(t, random, id)
			rows = append(rows, ruleRow(t, tenant, offset+int64(n), event, records[id]))
		}
		var rules []settlement.Rule
		for _, record := range records {
			rules = append(rules, settlement.Rule{Record: record})
		}
		rights := map[string]*settlement.Right{}
		for n := range random.IntN(4) { // no right is known that has no event
			id := fmt.Sprint("rgh_", n)
			scope := cmp.Or(scopes[id], "{}")
			if random.IntN(3) > 0 {
				scope = oddScopes[random.IntN(len(oddScopes))]
			}
			rows = append(rows, rightRow(tenant, int64(len(rows)), id, `{"campaigns":["winter","spring"]}`, "offer"))
			rows = append(rows, rightRow(tenant, int64(len(rows)), id, scope, "right"))
			rights[id] = settlement.RightIn(&sealer.Event{Type: sealer.TypeRightIssued, Subject: sealer.Ref{Kind: sealer.SubjectRight, ID: id}, Data: []byte(`{"scope":` + scope + `}`)})
			if random.IntN(2) == 0 { // no honest service does this
				rows = append(rows, rightRow(tenant, int64(len(rows)), id, `{"labels":{"team":"","venue":"north"}}`, "right"))
			}
		}
		days, repeated := map[string][]settlement.Metered{}, false
		for range random.IntN(40) {
			r := drawDelivery(random, tenant, int64(len(rows)))
			rows = append(rows, r)
			d := r.Delivery
			duplicate := d.Idempotency != "" && repeated
			repeated = repeated || d.Idempotency != ""
			if d.Metered && !duplicate {
				day := d.RenderedAt.Format(time.DateOnly)
				days[day] = append(days[day], settlement.Metered{
					RightID: d.RightID, BasisID: d.BasisID, Substrate: d.Substrate, MeteringBasis: d.MeteringBasis, Completion: d.Completion, Right: rights[d.RightID],
					RenderedAt: d.RenderedAt, Receipts: 1, QuantityMs: d.QuantityMs, Impressions: d.Impressions,
				})
			}
		}
		for day, metered := range days {
			lines, unrated, err := settle.Rating.Rate(rules, slices.Values(metered))
			require.NoError(t, err)
			for _, l := range lines {
				seen["line"]++
				want[tenant] = append(want[tenant], lineText(day, l.RightID, l.MeteringBasis, l.RuleID, l.Receipts, l.QuantityMs, l.Impressions, l.Amount, l.Shares))
			}
			for _, u := range unrated {
				seen[u.Reason]++
				want[tenant] = append(want[tenant], lineText(day, u.RightID, u.MeteringBasis, u.Reason, u.Receipts, u.QuantityMs, u.Impressions, "0", nil))
			}
		}
	}
	require.NoError(t, w.Load(t.Context(), batch(rows)))
	for tenant, lines := range want {
		require.ElementsMatch(t, lines, linesOf(t, w, tenant), tenant)
	}
	for _, what := range []string{"line", "NO_RULE", "AMOUNT_TOO_LARGE"} {
		require.Positive(t, seen[what], what)
	}
}
