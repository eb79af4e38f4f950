package sandbox

import (
	"context"
	"encoding/json"
	"net/http"

	"muniment.example/control/right"
	"muniment.example/control/settle"
	"muniment.example/control/store"
	"muniment.example/gateway/auth"
	"muniment.example/sealer/rate"
)

type object = map[string]any

// seedRight is a right of the standard seed, under one of its bases.
type seedRight struct {
	basis     int
	substrate string
	scope     object
}

var (
	seedBases = []object{
		{"kind": "LICENSE", "title": "Out-of-home network licence", "jurisdiction": "US", "reference": "licence OOH-2026-014"},
		{"kind": "CONTRACT", "title": "Screens and apps distribution agreement", "jurisdiction": "US", "reference": "agreement SA-2026-031"},
		{"kind": "CONSENT", "title": "Opt-in to messages", "jurisdiction": "US", "reference": "consent record OPT-IN-7"},
	}
	seedRights = []seedRight{
		{0, "DOOH", object{"campaigns": []string{"sandbox"}, "description": "Roadside and transit screens"}},
		{1, "CTV", object{"campaigns": []string{"sandbox"}, "description": "Pre-roll and mid-roll on connected TV"}},
		{1, "MOBILE", object{"campaigns": []string{"sandbox"}, "description": "Placements in mobile apps"}},
		{2, "MESSAGING", object{"campaigns": []string{"sandbox"}, "channels": []string{"sms", "push"}, "description": "Messages to those who opted in"}},
	}
)

// seedPrice is the price of a billed second in the seed's settlement rule.
const seedPrice, seedCurrency = "0.0005", "USD"

// seed fills a new tenant through /v1: bases without a beginning or an end, and rights from a year
// ago until a year from now. It also adds a settlement rule.
func (s *Service) seed(ctx context.Context) error {
	now := s.db.Now()
	since, until := now.AddDate(-1, 0, 0), now.AddDate(1, 0, 0)
	var bases []string
	for _, b := range seedBases {
		text, err := s.call(ctx, http.MethodPost, "/v1/bases", b)
		if err != nil {
			return err
		}
		var made right.BasisData
		if err := json.Unmarshal(text, &made); err != nil {
			return err
		}
		bases = append(bases, made.Basis.ID)
	}
	for _, wanted := range seedRights {
		_, err := s.call(ctx, http.MethodPost, "/v1/rights", object{
			"basisId": bases[wanted.basis], "substrate": wanted.substrate, "scope": wanted.scope, "effectiveFrom": since, "effectiveUntil": until,
		})
		if err != nil {
			return err
		}
	}
	return s.db.Change(ctx, func(tx *store.Tx) error { return seedSettlement(ctx, tx, visitorOf(ctx).caller, store.At(since)) })
}

// seedSettlement adds a counterparty and the rule that pays it for every delivery.
func seedSettlement(ctx context.Context, tx *store.Tx, of auth.Principal, since store.Instant) error {
	by := store.ByKey(of.ID)
	payee, err := settle.CreateCounterparty(ctx, tx, settle.Counterparty{
		TenantID: of.TenantID, Name: "Sandbox rights holder", OrgID: &of.OrgID, Kind: settle.RightsHolder, Currency: seedCurrency,
	}, by)
	if err != nil {
		return err
	}
	_, err = settle.CreateRule(ctx, tx, settle.Rule{
		TenantID: of.TenantID, Unit: rate.Second, Price: seedPrice, Currency: seedCurrency, EffectiveFrom: since,
		Shares: []settle.Share{{CounterpartyID: payee.ID, Bps: 10_000}},
	}, by)
	return err
}
