package proof

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// TestRulesAt: the rules at each size of a log are the newest ones before it, wherever packs end.
func TestRulesAt(t *testing.T) {
	for _, most := range []int{1, 2, 3, 100} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			h := build(t, Config{MaxEntries: most})
			want := [][]string{nil} // at each size
			var now []string
			for i, step := range []string{"a", "", "b", "a", "", "c", "b", ""} {
				if step == "" {
					h.Audit("right.noted")
				} else {
					now = append([]string{fmt.Sprintf(`%s %d`, step, i)}, now...)
					record := map[string]any{
						"cap": nil, "createdAt": "2026-11-01T00:00:00.000Z", "currency": "EUR", "effectiveFrom": "2026-11-01T00:00:00.000Z", "effectiveUntil": nil, "id": step, "match": map[string]any{"basisId": nil, "campaign": nil, "completion": nil, "label": nil, "meteringBasis": nil, "rightId": nil, "substrate": nil},
						"minimum": nil, "price": fmt.Sprint(i), "priority": 0, "revision": i, "shares": []any{map[string]any{"bps": 10_000, "counterpartyId": "cp_a"}}, "state": "ACTIVE", "tiers": []any{}, "tiersMode": nil, "timeZone": "UTC", "unit": "EVENT", "updatedAt": "2026-11-01T00:00:00.000Z",
					}
					require.NoError(t, h.DB.Change(t.Context(), func(tx *store.Tx) error {
						return tx.EmitRecord(t.Context(), &store.Kind{Type: "settlement_rule.changed"}, sealer.Event{TenantID: h.Tenant, Actor: operator, Subject: sealer.Ref{Kind: "settlement_rule", ID: step}}, record)
					}))
				}
				seen := map[string]bool{}
				var newest []string
				for _, one := range now {
					if !seen[one[:1]] {
						seen[one[:1]] = true
						newest = append([]string{one}, newest...)
					}
				}
				want = append(want, newest)
			}
			h.seal()
			for size, rules := range want {
				got, err := h.service.RulesAt(t.Context(), h.Tenant, uint64(size))
				require.NoError(t, err)
				var texts []string
				for _, r := range got {
					texts = append(texts, fmt.Sprintf("%s %d", r.ID(), r.Leaf))
					require.Contains(t, string(r.Record), fmt.Sprintf(`"price":"%d"`, r.Leaf))
				}
				require.Equal(t, rules, texts, "at %d", size)
			}
			_, err := h.service.RulesAt(t.Context(), h.Tenant, 1000)
			require.Equal(t, api.WarehouseBehind, api.From(err).Reason)
		})
	}
}
