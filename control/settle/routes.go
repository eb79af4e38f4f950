package settle

import (
	"context"
	"net/http"
	"time"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/sealer/calendar"
	"muniment.example/sealer/rate"
)

// Routes adds the service's operations to the API.
func (r *Service) Routes(a route.API) {
	const (
		read, write = route.Scope(api.SettlementRead), route.Scope(api.SettlementWrite)
		parties     = "/v1/settlement/counterparties"
		prices      = "/v1/settlement/rules"
	)
	route.Add(a, route.Operation{ID: "create-counterparty", Method: http.MethodPost, Path: parties, Tag: "Settlement", Access: write,
		Summary: "Register a counterparty that may get a share of settled amounts", Faults: counterpartyFaults}, r.postCounterparty)
	route.Add(a, route.Operation{ID: "list-counterparties", Method: http.MethodGet, Path: parties, Tag: "Settlement", Access: read,
		Summary: "List the counterparties, newest first"}, r.getCounterparties)
	route.Add(a, route.Operation{ID: "get-counterparty", Method: http.MethodGet, Path: parties + "/{counterpartyId}", Tag: "Settlement", Access: read,
		Summary: "Get a counterparty"}, r.getCounterparty)
	route.Add(a, route.Operation{ID: "change-counterparty", Method: http.MethodPut, Path: parties + "/{counterpartyId}", Tag: "Settlement", Access: write,
		Summary: "Replace a counterparty's details", Faults: counterpartyFaults,
		Description: "Absent fields become empty. The currency can't change while an active rule gives the counterparty a share."}, r.putCounterparty)
	route.Add(a, route.Operation{ID: "deactivate-counterparty", Method: http.MethodDelete, Path: parties + "/{counterpartyId}", Tag: "Settlement", Access: write,
		Summary:     "Deactivate a counterparty",
		Description: "Refused with 409 while active rules give it a share; the message names them."}, r.deleteCounterparty)

	route.Add(a, route.Operation{ID: "create-settlement-rule", Method: http.MethodPost, Path: prices, Tag: "Settlement", Access: write,
		Summary: "Create a settlement rule: the price of receipts, and who gets a share", Faults: r.newRuleFaults,
		Description: "The rule rates receipts of its window: in packs those that are sealed from now on, in statements all that no issued statement states, whenever they were sealed. " +
			"If several rules fit a receipt, the one with the highest `priority` rates it. Among equal priorities, a rule whose `match` names the right precedes one that doesn't; " +
			"next come rules that name the basis, the campaign, the label, the substrate, the metering basis and the completion, in this order; the lowest id decides last."}, r.postRule)
	route.Add(a, route.Operation{ID: "list-settlement-rules", Method: http.MethodGet, Path: prices, Tag: "Settlement", Access: read,
		Summary: "List the settlement rules, newest first"}, r.getRules)
	route.Add(a, route.Operation{ID: "get-settlement-rule", Method: http.MethodGet, Path: prices + "/{ruleId}", Tag: "Settlement", Access: read,
		Summary: "Get a settlement rule"}, r.getRule)
	route.Add(a, route.Operation{ID: "change-settlement-rule", Method: http.MethodPut, Path: prices + "/{ruleId}", Tag: "Settlement", Access: write,
		Summary: "Replace an ACTIVE settlement rule", Faults: r.ruleChangeFaults,
		Description: "Absent fields get the defaults of a new rule, but for timeZone, which stays. With tiers, a minimum or a cap the rule keeps its time zone and currency. Sealed packs don't change, nor does the price of what an issued statement states; the changed rule rates all else."}, r.putRule)
	route.Add(a, route.Operation{ID: "retire-settlement-rule", Method: http.MethodDelete, Path: prices + "/{ruleId}", Tag: "Settlement", Access: write,
		Summary: "Retire a settlement rule",
		Description: "Its window ends now, unless it has already ended; one that has not begun becomes empty, so no minimum of it is due. " +
			"The rule still rates receipts that were rendered within the window, whenever they are sealed. A retired rule can't be changed."}, r.deleteRule)
}

// SchemaName returns the schema name in the OpenAPI document; so do the methods below.
func (Rule) SchemaName() string       { return "SettlementRule" }
func (Match) SchemaName() string      { return "SettlementMatch" }
func (Label) SchemaName() string      { return "SettlementLabel" }
func (Share) SchemaName() string      { return "SettlementShare" }
func (RuleData) SchemaName() string   { return "SettlementRuleData" }
func (RuleList) SchemaName() string   { return "SettlementRuleList" }
func (NewRule) SchemaName() string    { return "NewSettlementRule" }
func (RuleChange) SchemaName() string { return "SettlementRuleChange" }
func (NewMatch) SchemaName() string   { return "NewSettlementMatch" }
func (NewLabel) SchemaName() string   { return "NewSettlementLabel" }
func (NewShare) SchemaName() string   { return "NewSettlementShare" }

// The responses about counterparties and rules.
type (
	// CounterpartyData is the response about one counterparty.
	CounterpartyData struct {
		Counterparty Counterparty `json:"counterparty"`
	}
	// CounterpartyList is one page of counterparties.
	CounterpartyList struct {
		Counterparties []Counterparty `json:"counterparties" doc:"The counterparties of this page."`
		NextCursor     *string        `json:"nextCursor"`
	}
	// RuleData is the response about one rule.
	RuleData struct {
		Rule Rule `json:"rule"`
	}
	// RuleList is one page of rules.
	RuleList struct {
		Rules      []Rule  `json:"rules" doc:"The rules of this page."`
		NextCursor *string `json:"nextCursor"`
	}
)

// NewCounterparty is the body of a request to create or replace a counterparty.
type NewCounterparty struct {
	Name      string  `json:"name" minLength:"1" maxLength:"256" doc:"A business name or a pseudonym. Kept in the audit log permanently: no place for personal data." example:"Studio North"`
	OrgID     *string `json:"orgId,omitempty" nullable:"true" maxLength:"68" doc:"The counterparty's organisation in this service, if it has one." example:"org_studio_north"`
	Kind      Kind    `json:"kind" enum:"RIGHTS_HOLDER,PUBLISHER,PLATFORM,AGENCY,OTHER" doc:"Its role."`
	LegalName *string `json:"legalName,omitempty" nullable:"true" minLength:"1" maxLength:"256" doc:"Its name on papers; absent: name. Never written to events; removed when a person whom it names is erased." example:"Studio North GmbH"`
	Address   *string `json:"address,omitempty" nullable:"true" minLength:"1" maxLength:"1024" doc:"Its postal address on papers, in lines. Never written to events; removed when a person whom it names is erased." example:"Hafenstraße 1\n20457 Hamburg\nGermany"`
	TaxID     *string `json:"taxId,omitempty" nullable:"true" minLength:"1" maxLength:"256" doc:"Its tax number on papers. Never written to events; removed when a person whom it names is erased." example:"DE123456789"`
	Email     *string `json:"email,omitempty" nullable:"true" minLength:"1" maxLength:"256" doc:"Where it gets papers. Never written to events; removed when a person whom it names is erased." example:"accounts@studio-north.example"`
	PayoutRef *string `json:"payoutRef,omitempty" nullable:"true" minLength:"1" maxLength:"256" doc:"The payment destination, as your payment system names it. Never written to events; removed when a person whom it names is erased."`
	Currency  string  `json:"currency" maxLength:"3" pattern:"^[A-Z]{3}$" doc:"The currency of its payments: a code of ISO 4217." example:"EUR"`

	TaxBps        int64  `json:"taxBps,omitempty" minimum:"0" maximum:"10000" default:"0" doc:"The tax on what it gets, in hundredths of a per cent: 1900 is 19 %." example:"1900"`
	ReverseCharge bool   `json:"reverseCharge,omitempty" default:"false" doc:"Whether the recipient of its services owes the tax instead; papers say so. taxBps is 0 then." example:"false"`
	PaymentDays   *int64 `json:"paymentDays,omitempty" nullable:"true" minimum:"0" maximum:"365" doc:"How many days after the issue of a paper its amount is due; absent: as many as the issuer's." example:"30"`
}

// counterparty returns the requested counterparty, without a tenant.
func (n *NewCounterparty) counterparty() Counterparty {
	return Counterparty{
		Name: n.Name, OrgID: n.OrgID, Kind: n.Kind, Private: Private{n.LegalName, n.Address, n.TaxID, n.Email, n.PayoutRef}, Currency: n.Currency, Terms: Terms{n.TaxBps, n.ReverseCharge, n.PaymentDays},
	}
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
	caller, requested := auth.PrincipalFrom(ctx), in.Body.counterparty()
	requested.TenantID = caller.TenantID
	made, err := r.createCounterparty(ctx, requested, store.ByKey(caller.ID))
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
	return CounterpartyList{page, in.Next(next)}, err
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
	caller, requested := auth.PrincipalFrom(ctx), in.Body.counterparty()
	requested.TenantID = caller.TenantID
	changed, err := r.changeCounterparty(ctx, in.CounterpartyID, requested, store.ByKey(caller.ID))
	return CounterpartyData{changed}, err
}

func (r *Service) deleteCounterparty(ctx context.Context, in *counterpartyPath) (CounterpartyData, error) {
	caller := auth.PrincipalFrom(ctx)
	gone, err := r.deactivate(ctx, caller.TenantID, in.CounterpartyID, store.ByKey(caller.ID))
	return CounterpartyData{gone}, err
}

// RuleTerms are the fields that requests for a new rule and for a change have in common.
type RuleTerms struct {
	Match          *NewMatch   `json:"match,omitempty" doc:"Which receipts the rule is for; absent: all."`
	Unit           rate.Unit   `json:"unit" enum:"EVENT,MS,SECOND,IMPRESSION,CPM" doc:"What the price applies to: one metered receipt, millisecond, second or impression, or a thousand impressions."`
	Price          string      `json:"price" maxLength:"32" doc:"Decimal price of one unit, with at most nine fractional digits; with tiers, that of the first units of a month." example:"0.0125"`
	Tiers          []NewTier   `json:"tiers,omitempty" maxItems:"20" doc:"Prices for more units in a month, by rising volume; absent: there is one price. Not applied to packs."`
	TiersMode      *rate.Mode  `json:"tiersMode,omitempty" nullable:"true" enum:"GRADUATED,VOLUME" doc:"GRADUATED: each tier's price is for the units above its volume, up to the next tier. VOLUME: the price of the highest tier that is reached is for all units of the month. Absent: GRADUATED."`
	TimeZone       *string     `json:"timeZone,omitempty" nullable:"true" minLength:"1" maxLength:"64" doc:"IANA time zone of the calendar months to which tiers, minimum and cap belong, and of dates without a time; absent: the tenant's, or of a rule that is changed its own." example:"Europe/Berlin"`
	Currency       string      `json:"currency" maxLength:"3" pattern:"^[A-Z]{3}$" doc:"A code of ISO 4217." example:"EUR"`
	Minimum        *string     `json:"minimum,omitempty" nullable:"true" maxLength:"32" doc:"Decimal with at most six fractional digits: the least amount of a calendar month in which the rule is in force, whole. Not applied to packs."`
	Cap            *string     `json:"cap,omitempty" nullable:"true" maxLength:"32" doc:"Decimal with at most six fractional digits: the largest amount of a calendar month. Not applied to packs."`
	Shares         []NewShare  `json:"shares" minItems:"1" maxItems:"10" doc:"How the rule's amounts are divided: 10,000 basis points in total."`
	EffectiveUntil *route.Time `json:"effectiveUntil,omitempty" nullable:"true" doc:"Exclusive; absent: until it is retired."`
	Priority       int64       `json:"priority,omitempty" minimum:"0" maximum:"1000000" default:"0" doc:"If several rules fit a receipt, the one with the highest priority rates it."`
}

// NewMatch selects the receipts of a requested rule.
type NewMatch struct {
	RightID       *string   `json:"rightId,omitempty" nullable:"true" maxLength:"64" doc:"Receipts on this right; absent: on any."`
	BasisID       *string   `json:"basisId,omitempty" nullable:"true" maxLength:"64" doc:"Receipts on rights under this basis; absent: under any."`
	Campaign      *string   `json:"campaign,omitempty" nullable:"true" minLength:"1" maxLength:"256" doc:"Receipts on rights whose scope lists this campaign; absent: any." example:"cmp_autumn"`
	Label         *NewLabel `json:"label,omitempty" doc:"Receipts on rights whose scope has this label; absent: any."`
	Substrate     *string   `json:"substrate,omitempty" nullable:"true" maxLength:"32" doc:"Receipts on this substrate; absent or ANY: on any." example:"CTV"`
	MeteringBasis *string   `json:"meteringBasis,omitempty" nullable:"true" enum:"gross,viewable,audible,delivered" doc:"Receipts metered at this tier; absent: at any."`
	Completion    *string   `json:"completion,omitempty" nullable:"true" enum:"started,first_quartile,midpoint,third_quartile,complete" doc:"Receipts of videos that were played exactly this far; absent: however far."`
}

// NewLabel is a requested label in the scope of a right.
type NewLabel struct {
	Name  string `json:"name" minLength:"1" maxLength:"64" doc:"Its name." example:"team"`
	Value string `json:"value" maxLength:"256" doc:"Its value." example:"east"`
}

// NewTier is a requested price for units above a volume of a calendar month.
type NewTier struct {
	Above int64  `json:"above" minimum:"1" maximum:"9007199254740992" doc:"The price is for units above so many in the month." example:"100000"`
	Price string `json:"price" maxLength:"32" doc:"Decimal price of one unit, with at most nine fractional digits." example:"0.01"`
}

// NewShare is a counterparty's requested part.
type NewShare struct {
	CounterpartyID string `json:"counterpartyId" minLength:"1" maxLength:"64" doc:"An active counterparty that is paid in the rule's currency."`
	Bps            int64  `json:"bps" minimum:"1" maximum:"10000" doc:"Basis points: 10,000 are the whole."`
}

// NewRule is the body of a request for a rule.
type NewRule struct {
	RuleTerms
	EffectiveFrom *route.Time `json:"effectiveFrom,omitempty" nullable:"true" doc:"The rule rates receipts rendered at this moment or later; it may be in the past. Absent: now."`
}

// RuleChange is the body of a request to change a rule.
type RuleChange struct {
	RuleTerms
	EffectiveFrom route.Time `json:"effectiveFrom" doc:"The rule rates receipts rendered at this moment or later; it may be in the past."`
}

// rule returns the requested rule, and the faults of its times. of is the rule to change; nil for a new one.
func (t *RuleTerms) rule(ctx context.Context, q store.Querier, tenantID string, from *route.Time, of *Rule) (r Rule, faults []api.ValidationError, err error) {
	r = Rule{TenantID: tenantID, Unit: t.Unit, Price: t.Price, Currency: t.Currency, Minimum: t.Minimum, Cap: t.Cap, TiersMode: t.TiersMode, Priority: t.Priority}
	switch {
	case t.TimeZone != nil:
		r.TimeZone = *t.TimeZone
	case of != nil:
		r.TimeZone = of.TimeZone
	}
	if err := r.locate(ctx, q); err != nil {
		return r, nil, err
	}
	zone, err := calendar.Zone(r.TimeZone)
	if err != nil { // a fault of the rule
		zone = time.UTC
	}
	for _, tier := range t.Tiers {
		r.Tiers = append(r.Tiers, Tier(tier))
	}
	if t.Match != nil {
		m := t.Match
		r.Match = Match{RightID: m.RightID, BasisID: m.BasisID, Campaign: m.Campaign, Substrate: m.Substrate, MeteringBasis: m.MeteringBasis, Completion: m.Completion}
		if m.Label != nil {
			r.Match.Label = &Label{Name: m.Label.Name, Value: m.Label.Value}
		}
	}
	for _, s := range t.Shares {
		r.Shares = append(r.Shares, Share(s))
	}
	for _, given := range []struct {
		field string
		text  *route.Time
		at    *store.Instant
	}{{"effectiveFrom", from, &r.EffectiveFrom}, {"effectiveUntil", t.EffectiveUntil, &r.EffectiveUntil}} {
		var err error
		if *given.at, err = route.GivenIn(zone, given.field, given.text); err != nil {
			faults = append(faults, api.From(err).ValidationErrors...)
		}
	}
	return r, faults, nil
}

// ruleFaults adds a rule's faults to those given. If the database fails it returns those given:
// the request itself will meet the same failure.
func (r *Service) ruleFaults(ctx context.Context, requested Rule, faults []api.ValidationError) []api.ValidationError {
	now := store.At(r.db.Now())
	requested.settle(now)
	more, err := requested.faults(ctx, r.db.Read())
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
	requested, faults, err := body.rule(ctx, r.db.Read(), auth.PrincipalFrom(ctx).TenantID, body.EffectiveFrom, nil)
	if err != nil {
		return nil
	}
	return r.ruleFaults(ctx, requested, faults)
}

func (r *Service) ruleChangeFaults(ctx context.Context, read func(any) error) []api.ValidationError {
	var body RuleChange
	if read(&body) != nil {
		return nil
	}
	requested, faults, err := body.rule(ctx, r.db.Read(), auth.PrincipalFrom(ctx).TenantID, &body.EffectiveFrom, nil)
	if err != nil {
		return nil
	}
	return r.ruleFaults(ctx, requested, faults)
}

type newRuleInput struct{ Body NewRule }

func (r *Service) postRule(ctx context.Context, in *newRuleInput) (RuleData, error) {
	caller := auth.PrincipalFrom(ctx)
	requested, faults, err := in.Body.rule(ctx, r.db.Read(), caller.TenantID, in.Body.EffectiveFrom, nil)
	if err != nil {
		return RuleData{}, err
	}
	if len(faults) > 0 {
		return RuleData{}, api.Invalid(r.ruleFaults(ctx, requested, faults)...)
	}
	made, err := r.createRule(ctx, requested, store.ByKey(caller.ID))
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
	return RuleList{page, in.Next(next)}, err
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
	was, err := rules.Find(ctx, r.db.Read(), caller.TenantID, in.RuleID)
	if err != nil && !store.IsNone(err) {
		return RuleData{}, err
	}
	requested, faults, err := in.Body.rule(ctx, r.db.Read(), caller.TenantID, &in.Body.EffectiveFrom, was)
	if err != nil {
		return RuleData{}, err
	}
	if faults = r.ruleFaults(ctx, requested, faults); len(faults) > 0 { // before the rule is looked for
		return RuleData{}, api.Invalid(faults...)
	}
	changed, err := r.changeRule(ctx, in.RuleID, requested, store.ByKey(caller.ID))
	return RuleData{changed}, err
}

func (r *Service) deleteRule(ctx context.Context, in *rulePath) (RuleData, error) {
	caller := auth.PrincipalFrom(ctx)
	retired, err := r.retireRule(ctx, caller.TenantID, in.RuleID, store.ByKey(caller.ID))
	return RuleData{retired}, err
}
