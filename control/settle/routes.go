package settle

import (
	"context"
	"net/http"

	"muniment/control/route"
	"muniment/control/settle/rate"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/gateway/auth"
)

// Routes adds the service's operations to the API.
func (r *Service) Routes(a route.API) {
	const (
		read, write = route.Scope(api.SettlementRead), route.Scope(api.SettlementWrite)
		parties     = "/v1/settlement/counterparties"
		prices      = "/v1/settlement/rules"
	)
	route.Add(a, route.Operation{ID: "create-counterparty", Method: http.MethodPost, Path: parties, Tag: "Settlement", Access: write,
		Summary: "Register who may get a share of what is settled", Faults: counterpartyFaults}, r.postCounterparty)
	route.Add(a, route.Operation{ID: "list-counterparties", Method: http.MethodGet, Path: parties, Tag: "Settlement", Access: read,
		Summary: "List the counterparties, newest first"}, r.getCounterparties)
	route.Add(a, route.Operation{ID: "get-counterparty", Method: http.MethodGet, Path: parties + "/{counterpartyId}", Tag: "Settlement", Access: read,
		Summary: "Get a counterparty"}, r.getCounterparty)
	route.Add(a, route.Operation{ID: "change-counterparty", Method: http.MethodPut, Path: parties + "/{counterpartyId}", Tag: "Settlement", Access: write,
		Summary: "Replace what is known of a counterparty", Faults: counterpartyFaults,
		Description: "What is absent is empty afterwards. The currency can't change while an active rule gives the counterparty a share."}, r.putCounterparty)
	route.Add(a, route.Operation{ID: "deactivate-counterparty", Method: http.MethodDelete, Path: parties + "/{counterpartyId}", Tag: "Settlement", Access: write,
		Summary:     "Take a counterparty out of use",
		Description: "Refused with 409 while active rules give it a share; the message names them."}, r.deleteCounterparty)

	route.Add(a, route.Operation{ID: "create-settlement-rule", Method: http.MethodPost, Path: prices, Tag: "Settlement", Access: write,
		Summary: "Say what receipts are worth, and who gets that", Faults: r.newRuleFaults,
		Description: "The rule rates receipts that are sealed from now on, late ones of its window too, and none that is in a pack already. " +
			"Of several rules that fit a receipt the one of the highest `priority` rates it; of those, one whose `match` names the right before one that doesn't, " +
			"then the basis, the substrate, the metering basis, the completion; then the one with the lowest id."}, r.postRule)
	route.Add(a, route.Operation{ID: "list-settlement-rules", Method: http.MethodGet, Path: prices, Tag: "Settlement", Access: read,
		Summary: "List the settlement rules, newest first"}, r.getRules)
	route.Add(a, route.Operation{ID: "get-settlement-rule", Method: http.MethodGet, Path: prices + "/{ruleId}", Tag: "Settlement", Access: read,
		Summary: "Get a settlement rule"}, r.getRule)
	route.Add(a, route.Operation{ID: "change-settlement-rule", Method: http.MethodPut, Path: prices + "/{ruleId}", Tag: "Settlement", Access: write,
		Summary: "Replace an ACTIVE settlement rule", Faults: r.ruleChangeFaults,
		Description: "What is absent is as in a new rule. The rule rates as changed what is sealed from now on; what was sealed, or stated, stays as it is."}, r.putRule)
	route.Add(a, route.Operation{ID: "retire-settlement-rule", Method: http.MethodDelete, Path: prices + "/{ruleId}", Tag: "Settlement", Access: write,
		Summary: "End a settlement rule for good",
		Description: "Its window ends now, unless it was over already; of a window that has not begun the first millisecond is left. " +
			"What was rendered within it is rated by the rule all the same, whenever it is sealed."}, r.deleteRule)
}

// SchemaName is for the document, as are those below.
func (Rule) SchemaName() string       { return "SettlementRule" }
func (Match) SchemaName() string      { return "SettlementMatch" }
func (Share) SchemaName() string      { return "SettlementShare" }
func (RuleData) SchemaName() string   { return "SettlementRuleData" }
func (RuleList) SchemaName() string   { return "SettlementRuleList" }
func (NewRule) SchemaName() string    { return "NewSettlementRule" }
func (RuleChange) SchemaName() string { return "SettlementRuleChange" }
func (NewMatch) SchemaName() string   { return "NewSettlementMatch" }
func (NewShare) SchemaName() string   { return "NewSettlementShare" }

// The answers about counterparties and rules.
type (
	// CounterpartyData is the answer about one counterparty.
	CounterpartyData struct {
		Counterparty Counterparty `json:"counterparty"`
	}
	// CounterpartyList is one page of counterparties.
	CounterpartyList struct {
		Counterparties []Counterparty `json:"counterparties" doc:"The counterparties of this page."`
		NextCursor     *string        `json:"nextCursor"`
	}
	// RuleData is the answer about one rule.
	RuleData struct {
		Rule Rule `json:"rule"`
	}
	// RuleList is one page of rules.
	RuleList struct {
		Rules      []Rule  `json:"rules" doc:"The rules of this page."`
		NextCursor *string `json:"nextCursor"`
	}
)

// NewCounterparty asks for a counterparty, or for what one is to be.
type NewCounterparty struct {
	Name      string  `json:"name" minLength:"1" maxLength:"256" doc:"That of a business, or a pseudonym. Kept in the audit log for good: no place for personal data." example:"Studio North"`
	OrgID     *string `json:"orgId,omitempty" nullable:"true" maxLength:"68" doc:"The organisation that it is in this service, if it is one." example:"org_studio_north"`
	Kind      Kind    `json:"kind" enum:"RIGHTS_HOLDER,PUBLISHER,PLATFORM,AGENCY,OTHER" doc:"What it is to you."`
	PayoutRef *string `json:"payoutRef,omitempty" nullable:"true" minLength:"1" maxLength:"256" doc:"Where it is paid, as your payment system names it. In no event, and erased with a person whom it names."`
	Currency  string  `json:"currency" maxLength:"3" pattern:"^[A-Z]{3}$" doc:"That it is paid in: three capital letters, as in ISO 4217." example:"EUR"`
	TaxID     *string `json:"taxId,omitempty" nullable:"true" minLength:"1" maxLength:"256" doc:"In no event, and erased with a person whom it names."`
}

// counterparty is what is asked for, of no tenant yet.
func (n *NewCounterparty) counterparty() Counterparty {
	return Counterparty{Name: n.Name, OrgID: n.OrgID, Kind: n.Kind, PayoutRef: n.PayoutRef, Currency: n.Currency, TaxID: n.TaxID}
}

func counterpartyFaults(_ context.Context, read func(any) error) []api.ValidationError {
	var body NewCounterparty
	if read(&body) != nil {
		return nil
	}
	c := body.counterparty()
	return c.faults()
}

type newCounterpartyInput struct{ Body NewCounterparty }

func (r *Service) postCounterparty(ctx context.Context, in *newCounterpartyInput) (CounterpartyData, error) {
	caller, asked := auth.PrincipalFrom(ctx), in.Body.counterparty()
	asked.TenantID = caller.TenantID
	made, err := r.createCounterparty(ctx, asked, store.ByKey(caller.ID))
	return CounterpartyData{made}, err
}

type counterpartiesInput struct {
	route.Page
	State string `query:"state" enum:"ACTIVE,INACTIVE" doc:"Only counterparties in this state."`
}

func (r *Service) getCounterparties(ctx context.Context, in *counterpartiesInput) (CounterpartyList, error) {
	slice, err := in.Slice()
	if err != nil {
		return CounterpartyList{}, err
	}
	page, next, err := listCounterparties(ctx, r.db.Read(), auth.PrincipalFrom(ctx).TenantID, in.State, slice)
	return CounterpartyList{page, route.Cursor(next)}, err
}

type counterpartyPath struct {
	CounterpartyID string `path:"counterpartyId"`
}

func (r *Service) getCounterparty(ctx context.Context, in *counterpartyPath) (CounterpartyData, error) {
	c, err := counterparties.Find(ctx, r.db.Read(), auth.PrincipalFrom(ctx).TenantID, in.CounterpartyID)
	if err != nil {
		return CounterpartyData{}, err
	}
	return CounterpartyData{*c}, nil
}

type counterpartyChange struct {
	CounterpartyID string `path:"counterpartyId"`
	Body           NewCounterparty
}

func (r *Service) putCounterparty(ctx context.Context, in *counterpartyChange) (CounterpartyData, error) {
	caller, asked := auth.PrincipalFrom(ctx), in.Body.counterparty()
	asked.TenantID = caller.TenantID
	changed, err := r.changeCounterparty(ctx, in.CounterpartyID, asked, store.ByKey(caller.ID))
	return CounterpartyData{changed}, err
}

func (r *Service) deleteCounterparty(ctx context.Context, in *counterpartyPath) (CounterpartyData, error) {
	caller := auth.PrincipalFrom(ctx)
	gone, err := r.deactivate(ctx, caller.TenantID, in.CounterpartyID, store.ByKey(caller.ID))
	return CounterpartyData{gone}, err
}

// RuleTerms are what a new rule and a changed one say alike.
type RuleTerms struct {
	Match          *NewMatch   `json:"match,omitempty" doc:"What it is for; absent: all."`
	Unit           rate.Unit   `json:"unit" enum:"EVENT,MS,SECOND,IMPRESSION,CPM" doc:"What the price is of: a metered receipt, a metered millisecond or second, an impression or a thousand of them."`
	Price          string      `json:"price" maxLength:"32" doc:"Decimal, of one unit; at most nine digits behind the point." example:"0.0125"`
	Currency       string      `json:"currency" maxLength:"3" pattern:"^[A-Z]{3}$" doc:"Three capital letters, as in ISO 4217." example:"EUR"`
	Minimum        *string     `json:"minimum,omitempty" nullable:"true" maxLength:"32" doc:"Decimal, of at most six digits behind the point: the least that a statement has for the rule. Packs know none."`
	Cap            *string     `json:"cap,omitempty" nullable:"true" maxLength:"32" doc:"Decimal, of at most six digits behind the point: the most that a statement has for the rule. Packs know none."`
	Shares         []NewShare  `json:"shares" minItems:"1" maxItems:"10" doc:"Who gets what it makes: 10,000 basis points together."`
	EffectiveUntil *route.Time `json:"effectiveUntil,omitempty" nullable:"true" doc:"Exclusive; absent: until it is retired."`
	Priority       *int64      `json:"priority,omitempty" nullable:"true" minimum:"0" maximum:"1000000" doc:"Of several rules that fit a receipt the highest one rates it; absent: 0."`
}

// NewMatch names what a rule shall be for.
type NewMatch struct {
	RightID       *string `json:"rightId,omitempty" nullable:"true" maxLength:"64" doc:"Receipts on this right; absent: on any."`
	BasisID       *string `json:"basisId,omitempty" nullable:"true" maxLength:"64" doc:"Receipts on rights under this basis; absent: under any."`
	Substrate     *string `json:"substrate,omitempty" nullable:"true" maxLength:"32" doc:"Receipts on this substrate; absent or ANY: on any." example:"CTV"`
	MeteringBasis *string `json:"meteringBasis,omitempty" nullable:"true" enum:"gross,viewable,audible,delivered" doc:"Receipts metered at this tier; absent: at any."`
	Completion    *string `json:"completion,omitempty" nullable:"true" enum:"started,first_quartile,midpoint,third_quartile,complete" doc:"Receipts of videos that were played so far, and no further; absent: however far."`
}

// NewShare is what a counterparty shall get.
type NewShare struct {
	CounterpartyID string `json:"counterpartyId" minLength:"1" maxLength:"64" doc:"An active counterparty, which is paid in the rule's currency."`
	Bps            int64  `json:"bps" minimum:"1" maximum:"10000" doc:"Basis points: 10,000 are all."`
}

// NewRule asks for a rule.
type NewRule struct {
	RuleTerms
	EffectiveFrom *route.Time `json:"effectiveFrom,omitempty" nullable:"true" doc:"The first moment whose receipts it rates, by when they were rendered; it may have passed. Absent: now."`
}

// RuleChange asks for what a rule is to be.
type RuleChange struct {
	RuleTerms
	EffectiveFrom route.Time `json:"effectiveFrom" doc:"The first moment whose receipts it rates, by when they were rendered; it may have passed."`
}

// rule is what is asked for, with what is wrong with its times.
func (t *RuleTerms) rule(tenantID string, from *route.Time) (r Rule, faults []api.ValidationError) {
	r = Rule{TenantID: tenantID, Unit: t.Unit, Price: t.Price, Currency: t.Currency, Minimum: t.Minimum, Cap: t.Cap}
	if t.Match != nil {
		r.Match = Match(*t.Match)
	}
	for _, s := range t.Shares {
		r.Shares = append(r.Shares, Share(s))
	}
	if t.Priority != nil {
		r.Priority = *t.Priority
	}
	for _, given := range []struct {
		field string
		text  *route.Time
		at    *store.Instant
	}{{"effectiveFrom", from, &r.EffectiveFrom}, {"effectiveUntil", t.EffectiveUntil, &r.EffectiveUntil}} {
		var err error
		if *given.at, err = route.Given(given.field, given.text); err != nil {
			faults = append(faults, api.From(err).ValidationErrors...)
		}
	}
	return r, faults
}

// ruleFaults are all that is wrong with a rule. Where the database does not answer they are
// those that need none: whatever follows will meet it, too.
func (r *Service) ruleFaults(ctx context.Context, asked Rule, faults []api.ValidationError) []api.ValidationError {
	now := store.At(r.db.Now())
	asked.settle(now)
	more, err := asked.faults(ctx, r.db.Read())
	if err != nil {
		return faults
	}
	return append(faults, more...)
}

func (r *Service) newRuleFaults(ctx context.Context, read func(any) error) []api.ValidationError {
	var body NewRule
	if read(&body) != nil {
		return nil
	}
	asked, faults := body.rule(auth.PrincipalFrom(ctx).TenantID, body.EffectiveFrom)
	return r.ruleFaults(ctx, asked, faults)
}

func (r *Service) ruleChangeFaults(ctx context.Context, read func(any) error) []api.ValidationError {
	var body RuleChange
	if read(&body) != nil {
		return nil
	}
	asked, faults := body.rule(auth.PrincipalFrom(ctx).TenantID, &body.EffectiveFrom)
	return r.ruleFaults(ctx, asked, faults)
}

type newRuleInput struct{ Body NewRule }

func (r *Service) postRule(ctx context.Context, in *newRuleInput) (RuleData, error) {
	caller := auth.PrincipalFrom(ctx)
	asked, faults := in.Body.rule(caller.TenantID, in.Body.EffectiveFrom)
	if len(faults) > 0 {
		return RuleData{}, api.Invalid(r.ruleFaults(ctx, asked, faults)...)
	}
	made, err := r.createRule(ctx, asked, store.ByKey(caller.ID))
	return RuleData{made}, err
}

type rulesInput struct {
	route.Page
	State          string `query:"state" enum:"ACTIVE,RETIRED" doc:"Only rules in this state."`
	RightID        string `query:"rightId" maxLength:"64" doc:"Only rules whose match names this right."`
	CounterpartyID string `query:"counterpartyId" maxLength:"64" doc:"Only rules that give this counterparty a share."`
}

func (r *Service) getRules(ctx context.Context, in *rulesInput) (RuleList, error) {
	slice, err := in.Slice()
	if err != nil {
		return RuleList{}, err
	}
	page, next, err := listRules(ctx, r.db.Read(), auth.PrincipalFrom(ctx).TenantID, filter{in.State, in.RightID, in.CounterpartyID}, slice)
	return RuleList{page, route.Cursor(next)}, err
}

type rulePath struct {
	RuleID string `path:"ruleId"`
}

func (r *Service) getRule(ctx context.Context, in *rulePath) (RuleData, error) {
	found, err := rules.Find(ctx, r.db.Read(), auth.PrincipalFrom(ctx).TenantID, in.RuleID)
	if err != nil {
		return RuleData{}, err
	}
	return RuleData{*found}, nil
}

type ruleChange struct {
	RuleID string `path:"ruleId"`
	Body   RuleChange
}

func (r *Service) putRule(ctx context.Context, in *ruleChange) (RuleData, error) {
	caller := auth.PrincipalFrom(ctx)
	asked, faults := in.Body.rule(caller.TenantID, &in.Body.EffectiveFrom)
	if len(faults) > 0 {
		return RuleData{}, api.Invalid(r.ruleFaults(ctx, asked, faults)...)
	}
	changed, err := r.changeRule(ctx, in.RuleID, asked, store.ByKey(caller.ID))
	return RuleData{changed}, err
}

func (r *Service) deleteRule(ctx context.Context, in *rulePath) (RuleData, error) {
	caller := auth.PrincipalFrom(ctx)
	retired, err := r.retireRule(ctx, caller.TenantID, in.RuleID, store.ByKey(caller.ID))
	return RuleData{retired}, err
}
