package client

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// SettlementRules say what receipts are worth.
type SettlementRules struct{ c *Client }

// SettlementRules say what receipts are worth.
func (c *Client) SettlementRules() SettlementRules { return SettlementRules{c} }

// Create makes a rule.
func (s SettlementRules) Create(ctx context.Context, rule NewSettlementRule) (*SettlementRule, error) {
	return record[SettlementRule](ctx, s.c, http.MethodPost, "/v1/settlement/rules", "rule", rule)
}

// RuleFilter selects rules; its zero value is all.
type RuleFilter struct {
	State          string `json:"state"`
	RightID        string `json:"rightId"`
	CounterpartyID string `json:"counterpartyId"`
	// Limit is how many a page has; 0 is the service's default.
	Limit int `json:"limit"`
}

// List iterates over the rules, newest first.
func (s SettlementRules) List(ctx context.Context, f RuleFilter) iter.Seq2[SettlementRule, error] {
	return list[SettlementRule](ctx, s.c, "/v1/settlement/rules", "rules", values(f))
}

// Get returns a rule.
func (s SettlementRules) Get(ctx context.Context, ruleID string) (*SettlementRule, error) {
	return record[SettlementRule](ctx, s.c, http.MethodGet, at("/v1/settlement/rules", ruleID), "rule", nil)
}

// Change replaces a rule. EffectiveFrom must be given.
func (s SettlementRules) Change(ctx context.Context, ruleID string, rule NewSettlementRule) (*SettlementRule, error) {
	return record[SettlementRule](ctx, s.c, http.MethodPut, at("/v1/settlement/rules", ruleID), "rule", rule)
}

// Retire ends a rule.
func (s SettlementRules) Retire(ctx context.Context, ruleID string) (*SettlementRule, error) {
	return record[SettlementRule](ctx, s.c, http.MethodDelete, at("/v1/settlement/rules", ruleID), "rule", nil)
}

// DryRun says what a rule would have changed in a period. Nothing is kept.
func (s SettlementRules) DryRun(ctx context.Context, rule NewSettlementRule, period StatementPeriod) (*DryRunResult, error) {
	return post[DryRunResult](ctx, s.c, "/v1/settlement/rules/dry-run", struct {
		Rule NewSettlementRule `json:"rule"`
		StatementPeriod
	}{rule, period})
}

// Counterparties are paid.
type Counterparties struct{ c *Client }

// Counterparties are paid.
func (c *Client) Counterparties() Counterparties { return Counterparties{c} }

// Create makes a counterparty.
func (s Counterparties) Create(ctx context.Context, counterparty NewCounterparty) (*Counterparty, error) {
	return record[Counterparty](ctx, s.c, http.MethodPost, "/v1/settlement/counterparties", "counterparty", counterparty)
}

// List iterates over the counterparties in a state, or over all if that is empty, newest first.
func (s Counterparties) List(ctx context.Context, state string) iter.Seq2[Counterparty, error] {
	return list[Counterparty](ctx, s.c, "/v1/settlement/counterparties", "counterparties", inState(state))
}

// Get returns a counterparty.
func (s Counterparties) Get(ctx context.Context, counterpartyID string) (*Counterparty, error) {
	return record[Counterparty](ctx, s.c, http.MethodGet, at("/v1/settlement/counterparties", counterpartyID), "counterparty", nil)
}

// Change replaces a counterparty.
func (s Counterparties) Change(ctx context.Context, counterpartyID string, counterparty NewCounterparty) (*Counterparty, error) {
	return record[Counterparty](ctx, s.c, http.MethodPut, at("/v1/settlement/counterparties", counterpartyID), "counterparty", counterparty)
}

// Deactivate ends a counterparty: new rules can't name it.
func (s Counterparties) Deactivate(ctx context.Context, counterpartyID string) (*Counterparty, error) {
	return record[Counterparty](ctx, s.c, http.MethodDelete, at("/v1/settlement/counterparties", counterpartyID), "counterparty", nil)
}

// SettlementRule says what a receipt is worth, and who gets that.
type SettlementRule struct {
	Record
	// Decimal, of at most six digits behind the point: the most that a calendar month makes.
	Cap string `json:"cap"`
	// A code of ISO 4217.
	Currency string `json:"currency"`
	// A receipt is rated by the rules of the moment in which it was rendered.
	EffectiveFrom time.Time `json:"effectiveFrom"`
	// Exclusive; null is open.
	EffectiveUntil time.Time       `json:"effectiveUntil"`
	Match          SettlementMatch `json:"match"`
	// Decimal, of at most six digits behind the point: the least that a calendar month makes in which the
	// rule is in force.
	Minimum string `json:"minimum"`
	// Decimal, of one unit; at most nine digits behind the point.
	Price string `json:"price"`
	// Of several rules that fit a receipt the highest priority rates it, then the most specific one,
	// then the lowest id.
	Priority int64 `json:"priority"`
	// Of 10,000 basis points together.
	Shares []SettlementShare `json:"shares"`
	// One of ACTIVE, RETIRED.
	State string `json:"state"`
	// Prices for more units in a month, by rising volume; none: there is one price.
	Tiers []SettlementTier `json:"tiers"`
	// One of GRADUATED, VOLUME; null without tiers.
	TiersMode string `json:"tiersMode"`
	// The IANA time zone of the months to which tiers, minimum and cap belong.
	TimeZone string `json:"timeZone"`
	// One of EVENT, MS, SECOND, IMPRESSION, CPM.
	Unit string `json:"unit"`
}

// SettlementTier is a price for units above a volume of a calendar month.
type SettlementTier struct {
	// The price is for units above so many in the month.
	Above int64 `json:"above"`
	// Decimal, of one unit; at most nine digits behind the point.
	Price string `json:"price"`
}

// SettlementMatch says which receipts a rule rates. What is empty matches all.
type SettlementMatch struct {
	// Receipts on rights under this basis; absent: under any.
	BasisID string `json:"basisId,omitempty"`
	// Receipts on rights whose scope lists this campaign; absent: any.
	Campaign string `json:"campaign,omitempty"`
	// Receipts on rights whose scope has this label; nil: any.
	Label *SettlementLabel `json:"label,omitempty"`
	// Receipts of videos that were played so far, and no further; absent: however far. One of started,
	// first_quartile, midpoint, third_quartile, complete.
	Completion string `json:"completion,omitempty"`
	// Receipts metered at this tier; absent: at any. One of gross, viewable, audible, delivered.
	MeteringBasis string `json:"meteringBasis,omitempty"`
	// Receipts on this right; absent: on any.
	RightID string `json:"rightId,omitempty"`
	// Receipts on this substrate; absent or ANY: on any.
	Substrate string `json:"substrate,omitempty"`
}

// SettlementLabel is a label in the scope of a right.
type SettlementLabel struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// SettlementShare is what a counterparty gets of a line.
type SettlementShare struct {
	// Basis points: 10,000 are all.
	BPS int64 `json:"bps"`
	// An active counterparty, which is paid in the rule's currency.
	CounterpartyID string `json:"counterpartyId"`
}

// NewSettlementRule asks for a rule, or for what a rule becomes.
type NewSettlementRule struct {
	// Decimal, of at most six digits behind the point: the most that a calendar month makes.
	// Packs know none.
	Cap string `json:"cap,omitempty"`
	// A code of ISO 4217.
	Currency string `json:"currency"`
	// The first moment whose receipts it rates, by when they were rendered; it may have passed.
	// Absent: now.
	EffectiveFrom time.Time `json:"effectiveFrom,omitzero"`
	// Exclusive; absent: until it is retired.
	EffectiveUntil time.Time `json:"effectiveUntil,omitzero"`
	// What it is for; absent: all.
	Match *SettlementMatch `json:"match,omitempty"`
	// Decimal, of at most six digits behind the point: the least that a calendar month makes, whole.
	// Packs know none.
	Minimum string `json:"minimum,omitempty"`
	// Decimal, of one unit; at most nine digits behind the point.
	Price string `json:"price"`
	// Of several rules that fit a receipt the highest one rates it; absent: 0.
	Priority int64 `json:"priority,omitempty"`
	// Who gets what it makes: 10,000 basis points together.
	Shares []SettlementShare `json:"shares"`
	// Prices for more units in a month, by rising volume: at most 20. Packs know none.
	Tiers []SettlementTier `json:"tiers,omitempty"`
	// GRADUATED: each tier's price is for the units above its volume, up to the next tier. VOLUME: the
	// price of the highest tier that is reached is for all units of the month. Absent: GRADUATED.
	TiersMode string `json:"tiersMode,omitempty"`
	// The IANA time zone of the months to which tiers, minimum and cap belong; absent: the tenant's.
	TimeZone string `json:"timeZone,omitempty"`
	// What the price is of: a metered receipt, a metered millisecond or second, an impression or a
	// thousand of them. One of EVENT, MS, SECOND, IMPRESSION, CPM.
	Unit string `json:"unit"`
}

// DryRunResult is what a rule would change.
type DryRunResult struct {
	// What its tiers, minimum and cap would change in the months that end in the period.
	Adjustments []SettlementAdjustment `json:"adjustments"`
	// The same with it.
	After []SettlementTotal `json:"after"`
	// The log position that the answer holds for. Null while nothing is loaded.
	AsOf string `json:"asOf"`
	// What all rules pay without it, by currency, without tiers, minimums and caps.
	Before []SettlementTotal `json:"before"`
	// As asked for.
	From time.Time `json:"from"`
	// Those that the rule would make.
	Lines []SettlementLine `json:"lines"`
	// As asked for.
	To time.Time `json:"to"`
	// What it would pay: lines and adjustments.
	Total SettlementTotal `json:"total"`
}

// SettlementAdjustment is what a rule changes in a month.
type SettlementAdjustment struct {
	// Decimal; below zero if it takes off.
	Amount string `json:"amount"`
	// As 2026-11.
	Month string `json:"month"`
	// One of TIER, MINIMUM, CAP.
	Reason   string `json:"reason"`
	TimeZone string `json:"timeZone"`
}

// Counterparty is who is paid.
type Counterparty struct {
	Record
	// On papers, in lines. In no event.
	Address string `json:"address"`
	// Where it gets papers. In no event.
	Email string `json:"email"`
	// On papers; null: Name. In no event.
	LegalName string `json:"legalName"`
	// How many days after the issue of a paper its amount is due; null: as many as the issuer's.
	PaymentDays *int64 `json:"paymentDays"`
	// Whether the recipient of its services owes the tax instead.
	ReverseCharge bool `json:"reverseCharge"`
	// The tax on what it gets, in hundredths of a per cent.
	TaxBps int64 `json:"taxBps"`
	// That it is paid in: a code of ISO 4217.
	Currency string `json:"currency"`
	// What kind of basis it is. One of RIGHTS_HOLDER, PUBLISHER, PLATFORM, AGENCY, OTHER.
	Kind string `json:"kind"`
	// Kept in the audit log for good: no place for personal data.
	Name string `json:"name"`
	// The organisation that it is in this service, if it is one.
	OrgID string `json:"orgId"`
	// Where it is paid, as your payment system names it. In no event.
	PayoutRef string `json:"payoutRef"`
	// One of ACTIVE, INACTIVE.
	State string `json:"state"`
	// In no event.
	TaxID string `json:"taxId"`
}

// NewCounterparty asks for a counterparty, or for what one becomes.
type NewCounterparty struct {
	// On papers, in lines. In no event, and erased with a person whom it names.
	Address string `json:"address,omitempty"`
	// Where it gets papers. In no event, and erased with a person whom it names.
	Email string `json:"email,omitempty"`
	// On papers; absent: Name. In no event, and erased with a person whom it names.
	LegalName string `json:"legalName,omitempty"`
	// How many days after the issue of a paper its amount is due; absent: as many as the issuer's.
	PaymentDays *int64 `json:"paymentDays,omitempty"`
	// Whether the recipient of its services owes the tax instead.
	ReverseCharge bool `json:"reverseCharge,omitempty"`
	// The tax on what it gets, in hundredths of a per cent: 1900 is 19 %.
	TaxBps int64 `json:"taxBps,omitempty"`
	// That it is paid in: a code of ISO 4217.
	Currency string `json:"currency"`
	// What it is to you. One of RIGHTS_HOLDER, PUBLISHER, PLATFORM, AGENCY, OTHER.
	Kind string `json:"kind"`
	// That of a business, or a pseudonym. Kept in the audit log for good: no place for personal data.
	Name string `json:"name"`
	// The organisation that it is in this service, if it is one.
	OrgID string `json:"orgId,omitempty"`
	// Where it is paid, as your payment system names it. In no event, and erased with a person whom it
	// names.
	PayoutRef string `json:"payoutRef,omitempty"`
	// In no event, and erased with a person whom it names.
	TaxID string `json:"taxId,omitempty"`
}

// Settlement is a page of what receipts are worth.
type Settlement struct {
	// The log position that the answer holds for: what stands before it is counted. Null while nothing
	// is loaded.
	AsOf string `json:"asOf"`
	// The window as asked for; null is open.
	From time.Time `json:"from"`
	// Those of this page.
	Lines []SettlementLine `json:"lines"`
	// `cursor` of the next page; null ends the list.
	NextCursor string `json:"nextCursor"`
	// The end of the window as asked for; null is open.
	To time.Time `json:"to"`
	// By currency, over all lines and not over the page.
	Totals []SettlementTotal `json:"totals"`
	// On the first page.
	Unrated []SettlementUnrated `json:"unrated"`
}

// SettlementLine is what a rule makes of the receipts of a right.
type SettlementLine struct {
	// Decimal: the price times what it is of, rounded once to six digits behind the point, half to
	// even.
	Amount string `json:"amount"`
	// With by=campaign: one that the right's scope lists; null for a right in none.
	CampaignID string `json:"campaignId,omitempty"`
	// A code of ISO 4217.
	Currency string `json:"currency"`
	// Decimal: how many they stand for.
	Impressions string `json:"impressions"`
	// The tier at which they are metered.
	MeteringBasis string `json:"meteringBasis"`
	// Decimal, of one unit.
	Price string `json:"price"`
	// What is billed, in milliseconds.
	QuantityMs int64 `json:"quantityMs"`
	// How many receipts there are.
	Receipts int64 `json:"receipts"`
	// The right's id.
	RightID string `json:"rightId"`
	// The rule that rates them.
	RuleID string `json:"ruleId"`
	// Who gets it: together the amount.
	Shares []SettlementLineShare `json:"shares"`
	// What the price is of. One of EVENT, IMPRESSION, CPM, MS, SECOND.
	Unit string `json:"unit"`
}

// SettlementLineShare is what a counterparty gets of a line.
type SettlementLineShare struct {
	// Decimal.
	Amount string `json:"amount"`
	// Basis points: 10,000 are all.
	BPS int64 `json:"bps"`
	// Who gets it.
	CounterpartyID string `json:"counterpartyId"`
}

// SettlementTotal is the sum of a currency.
type SettlementTotal struct {
	// Decimal: the sum of the lines, each right once.
	Amount string `json:"amount"`
	// A code of ISO 4217.
	Currency string `json:"currency"`
	// Decimal: what receipts under open disputes would add.
	HeldAmount string `json:"heldAmount"`
	// Who gets it, by counterpartyId.
	Payees []SettlementPayee `json:"payees"`
}

// SettlementPayee is what a counterparty gets in all.
type SettlementPayee struct {
	// Decimal: the sum of its shares.
	Amount string `json:"amount"`
	// Who gets it.
	CounterpartyID string `json:"counterpartyId"`
	// As it is now.
	Name string `json:"name"`
}

// SettlementUnrated are metered receipts that no rule rates.
type SettlementUnrated struct {
	// Decimal: how many they stand for.
	Impressions string `json:"impressions"`
	// The tier at which they are metered.
	MeteringBasis string `json:"meteringBasis"`
	// What is billed, in milliseconds.
	QuantityMs int64 `json:"quantityMs"`
	// Why. One of NO_RULE, AMOUNT_TOO_LARGE.
	Reason string `json:"reason"`
	// How many receipts there are.
	Receipts int64 `json:"receipts"`
	// The right's id.
	RightID string `json:"rightId"`
}
