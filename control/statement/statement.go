// Package statement computes what a tenant's receipts are worth, in money, and states it.
//
// GET /v1/settlement rates what is loaded by the rules as they are now. It is a projection: it
// moves as receipts, rules and disputes do. A dry run does the same with one rule more, which is
// kept nowhere.
//
// A statement is for keeps. It covers a period of renderedAt in one currency, of all
// counterparties or of one:
//
//   - POST makes a DRAFT. The tenant's log is sealed first, and the draft states what the packs
//     hold, up to the end of the newest one, by the rules that the log holds there. So each
//     receipt in it was verified, and a holder of the packs computes the same amounts to the last
//     micro-unit (sealer.Statement, muniment verify).
//   - Issuing freezes it: its text is signed, and its hash is an event of the log. A draft is
//     refused once disputes were opened or resolved that change it; another draft sees them.
//   - Nothing is billed twice. A draft is refused if its period meets that of an issued statement
//     in the same currency, unless both are of single counterparties that differ. Statements in
//     other currencies, and of other counterparties, state the same end of the log: a draft takes
//     that of the issued statements whose period meets its own, and a draft with another end is
//     refused. Else a rule that is newer than the first statement could rate its receipts again.
//   - Settling notes the reference of the payment.
//   - A draft that is not wanted is discarded: its text goes, its record stays. A tenant has at
//     most 1,000 drafts, as each keeps a text of up to some MiB.
//
// Receipts under an open dispute are held out of a statement, and the amount that they would add is
// its heldAmount. Those of an upheld dispute stay out. What is late, or released, after a
// statement was issued changes nothing of it: that is what corrections are for.
//
// A correction is itself a statement, drafted, issued, settled, discarded and shown as any other. It
// restates the period of an issued one in full, up to the end of the log and with the disputes of
// its own moment. It is for what came late and for disputes that were opened or resolved, and says of
// each line which of both made how much of the difference to the statement before it. That is what
// remains to be paid, and what settling a correction notes the payment of.
//
//   - Its rules are those of the end of the log that the first statement of the period states, so a
//     rule that was made, changed or retired since rates nothing again. Receipts that no rule rates
//     there stay unrated, for good: a rule that is made for them later is for later periods.
//   - Disputes act as on any statement: what is under an open one is held out, so opening one about
//     what was paid, and a correction, takes the payment back; rejecting it, and a correction, pays it.
//   - Nothing else is a reason. What was decided about a receipt that is sealed stays so, when the key
//     of its node is revoked, its right is, or its personal data is erased: to contest it, open a
//     dispute.
//   - The corrections of a first statement are a chain, each of which names the one before it. Issuing
//     a draft is refused once another one of its chain was issued. The first total and the differences of
//     the chain make the newest total.
//   - If the warehouse no longer gives the amounts of the statement before, because old deliveries were
//     removed from it, there is no correction.
//   - Corrections have no part in what periods may overlap: that is between first statements.
//
// A rule's minimum and cap are for its lines in one statement, of all counterparties together;
// the minimum counts if the rule is in force at any time of the period. A counterparty's statement
// shows its own shares alone, of lines and adjustments. taxId and payoutRef are in no statement.
//
// All sums come from the warehouse by one question for each statement, three for a correction,
// grouped by what rules distinguish: by the names in a rule's match, and by the stretches of time
// between which rules and disputed windows begin and end. Single disputed receipts are summed by a
// second question and taken off. So the work grows with rights and rules, and not with receipts.
//
// A page of GET /v1/settlement is of the asOf that its cursor names, but of the rules and disputes of
// its own moment: if pages have to agree, make a statement.
//
// The receipts behind a line are looked up when they are asked for, by the rules and exclusions of
// the statement: none is kept with it.
//
// GET /v1/settlement/reconciliation says whether all adds up: what the headers of packs count, which
// are entries that nodes have signed, with the rows of the same part of the log, and each issued
// statement with what the warehouse gives for it now. The check for drift does the same in the background for all
// tenants (Restate).
//
// Where a database is restored that is older than its log, the statements that were issued meanwhile
// are written from their events (Replay), so nothing is issued twice. Their texts are
// in no event: they are answered with 409, and the signed files that were handed out are the proof.
package statement

import (
	"muniment/control/store"
	"muniment/gateway/api"
)

const prefix api.Prefix = "stm_"

// documented is the record of a statement with its document. Lists leave the document out, as a page
// would be too long.
type documented struct {
	Statement `db:"*"`
	// Document is the canonical text: of a draft as it would be issued, then as it was signed, with
	// the line of its signature.
	Document string `json:"-" db:"document,moves"`
}

// Statement is the record of a statement.
type Statement struct {
	ID             string        `json:"id" db:"statement_id"`
	TenantID       string        `json:"-" db:"tenant_id"`
	From           store.Instant `json:"from" db:"from_at" doc:"Receipts count that were rendered at or after it."`
	To             store.Instant `json:"to" db:"to_at" doc:"Receipts count that were rendered before it."`
	Currency       string        `json:"currency" db:"currency" doc:"Three capital letters."`
	CounterpartyID *string       `json:"counterpartyId" db:"counterparty_id" doc:"Whose shares it states; null: those of all."`
	State          State         `json:"state" db:"state,moves" enum:"DRAFT,DISCARDED,ISSUED,SETTLED"`
	Total          string        `json:"total" db:"total" doc:"Decimal: the sum of all shares that it states."`
	HeldAmount     string        `json:"heldAmount" db:"held_amount" doc:"Decimal: what receipts under open disputes would add to the total."`
	Receipts       int64         `json:"receipts" db:"receipts" doc:"How many receipts are behind its lines."`
	AsOf           string        `json:"asOf" db:"as_of" doc:"The log position up to which it states: the end of the pack."`
	PackID         string        `json:"packId" db:"pack_id" doc:"The pack up to whose end it states. With all packs before, it can be verified."`
	SHA256         *string       `json:"sha256" db:"sha256,moves" doc:"Of the text that was signed, base64url; null until it is ISSUED."`
	Reference      *string       `json:"reference" db:"reference,moves" doc:"Of the payment; null until it is SETTLED."`
	IssuedAt       store.Instant `json:"issuedAt" db:"issued_at,moves" nullable:"true" doc:"When it was signed; null until it is ISSUED."`
	SettledAt      store.Instant `json:"settledAt" db:"settled_at,moves" nullable:"true" doc:"When its payment was noted; null until it is SETTLED."`
	Corrects       *string       `json:"corrects" db:"corrects" doc:"The statement that it corrects: the first one of its period. Null for a first one."`
	// Correction is another number for each one of a chain that is issued.
	Correction int64         `json:"correction" db:"correction" doc:"Its place among the corrections of the first statement, from 1; 0 for a first one."`
	Difference *string       `json:"difference" db:"difference" doc:"Decimal: of a correction, the total less that of the statement before it; null for a first one."`
	CreatedAt  store.Instant `json:"createdAt" db:"created_at"`
	UpdatedAt  store.Instant `json:"updatedAt" db:"updated_at,moves"`
	Revision   int64         `json:"revision" db:"revision,moves"`
}

// first is the first statement of the chain.
func (s *Statement) first() string {
	if s.Corrects != nil {
		return *s.Corrects
	}
	return s.ID
}

// State is how far a statement is.
type State string

// The states.
const (
	Draft     State = "DRAFT"
	Discarded State = "DISCARDED"
	Issued    State = "ISSUED"
	Settled   State = "SETTLED"
)

// Action moves a statement on.
type Action string

// The actions.
const (
	Discard Action = "discard"
	Issue   Action = "issue"
	Settle  Action = "settle"
)

// transitions are all that become of a statement.
var transitions = store.Steps[Action, State]{
	Discard: {From: store.From(Draft), To: Discarded, Event: "statement.discarded"},
	Issue:   {From: store.From(Draft), To: Issued, Event: "statement.issued"},
	Settle:  {From: store.From(Issued), To: Settled, Event: "statement.settled"},
}
