package settle

import (
	"context"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/settlement"
)

// Rating computes packs and statements.
var Rating = rate.Rating

// Records returns rules in the form that their events have.
func Records(rules []Rule) (records []settlement.Rule, err error) {
	for i := range rules {
		text, err := canonical.JSON(&rules[i])
		if err != nil {
			return nil, err
		}
		records = append(records, settlement.Rule{Leaf: uint64(i), Record: text})
	}
	return records, nil
}

// Propose returns the rule that the request would create at now, and writes nothing. An invalid
// request is VALIDATION_FAILED, with field names below the given member.
func Propose(ctx context.Context, q store.Querier, tenantID, member string, requested *NewRule, now time.Time) (Rule, error) {
	r, faults, err := requested.rule(ctx, q, tenantID, requested.EffectiveFrom, nil)
	if err != nil {
		return r, err
	}
	r.settle(store.At(now))
	more, err := r.faults(ctx, q)
	faults = append(faults, more...)
	if err == nil && len(faults) > 0 {
		for i := range faults {
			faults[i].Field = member + "." + faults[i].Field
		}
		err = api.Invalid(faults...)
	}
	return r, err
}
