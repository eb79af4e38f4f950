// Package statement computes what a tenant's receipts are worth, and issues signed statements.
//
// GET /v1/settlement rates the loaded receipts: those that are stated by the rules by which they were
// stated, all others by the current rules. It is a projection: it changes with receipts, rules and
// disputes. A dry run does the same with one more rule, which is not stored.
//
// A statement is lasting. It covers a period of renderedAt in one currency, for all counterparties
// or for one:
//
//   - POST creates a DRAFT. It first seals the tenant's log. The draft states what the packs hold,
//     up to the end of the newest one. So each of its receipts was verified, and anyone who holds the
//     packs computes the same amounts to the micro-unit (statement.Statement, muniment verify).
//   - A receipt is stated once, by the terms under which it was stated. A statement states the
//     receipts that it counts or holds. In every other statement, of whatever currency or counterparty,
//     they keep that rule, with the text by which it was stated. So a draft in another currency leaves
//     them out. All other receipts are rated by the rules at the draft's own end: a rule that is made
//     late rates what no statement states (statement.Terms).
//   - Issuing freezes it: its text is signed, it gets a number, and its hash is an event of the log.
//     Issuing is refused if the draft was made before its period ended, or if disputes about deliveries
//     of its period were opened or resolved since, or statements that overlap were issued or voided; a
//     new draft includes them. The text lists them all; those of a first statement are at most 400.
//   - Nothing is billed twice. A draft is refused if its period overlaps with that of a live statement
//     in the same currency, unless both are for single, different counterparties. The error says what
//     to do instead: correct or void that statement.
//   - Issuing also makes what each payee is due, with a number, in amounts that can be paid
//     (control/payable). Settling records payments of it; a statement that is paid in full, by payments
//     or by credits that are set off, becomes SETTLED. A payment that is taken back makes it ISSUED again.
//   - Voiding takes a statement and its corrections back, by a signed statement of 0 whose difference is
//     minus the newest total. All of them become VOIDED. The period can be stated again; what other
//     statements state of it stands, by the rules by which they state it.
//   - Discarding deletes the text of a draft and keeps its record. A tenant has at most 1,000
//     drafts, because the text of each may have several MiB.
//
// Receipts under an open dispute are held out of a statement; heldAmount is what they would add.
// Receipts of an upheld dispute stay out. Receipts that arrive late, or that a rejected dispute
// releases, don't change an issued statement: corrections are for them.
//
// A correction is a statement too; it is drafted, issued, settled, discarded and shown like any
// other. It restates the whole period of an issued statement, up to the current end of the log and
// with the current disputes. For each line it divides the difference to the previous statement into
// disputes, rules and late receipts. The difference is what remains to be paid, and settling a correction
// records the payment of it.
//
//   - What the chain states keeps its rule, so a rule that was changed or retired since rates nothing
//     of it again. What it did not state is rated by the rules at the correction's own end.
//   - Disputes act as on any statement. Opening a dispute about paid receipts takes the payment back
//     with the next correction; rejecting the dispute pays it again with the next one.
//   - Nothing else changes an amount. A sealed receipt counts as it was sealed, even if its node's
//     key or its right is revoked or its personal data is erased. To contest it, open a dispute.
//   - Withdrawing deliveries makes no correction: what is quarantined or retracted holds sealing up
//     until it is decided, so no pack, and no statement, rests on a decision that changes.
//   - An issued statement can always be corrected once disputes are resolved: its text, its exclusions
//     and its intervals leave space for what may become UPHELD later (dispute.MaxUpheldReceipts).
//   - The corrections of a first statement form a chain; each names its predecessor. The first total
//     plus the differences of the chain is the newest total.
//   - A correction is refused if the warehouse no longer yields the previous statement's amounts,
//     because old deliveries were removed from it.
//
// A rule's tiers, minimum and cap belong to a calendar month in its time zone. The statement that reaches
// the end of a month applies them, as the rule has them at the statement's own end, to the sum of all that
// the rule rates in that month, over all counterparties, whichever statements have the lines, or none: so
// a month that is divided into several statements has its minimum once. It is whole if the rule is in
// force at any time of the month. A statement that states less than a month's last day has none, and only a
// correction of the one that reached the end adjusts it again. So its receipts, disputes and overlaps are
// those since the first such month begins, which may be before the period (statement.Statement.Since). Where a
// cap takes more than the statement's lines give, its total is negative: a credit.
//
// A statement for one counterparty shows its shares of lines and adjustments only. taxId and payoutRef are
// in no statement.
//
// All sums come from the warehouse, by a query for each end of the log that statements of the period
// state, if receipts of it came before it and behind another one. They are grouped by what terms
// distinguish: the names in a rule's match, and the intervals between the moments at which rules, stated
// periods and disputed windows begin and end. Another query sums single disputed receipts, which are
// subtracted. So the work grows with rights, rules and statements, not with receipts.
//
// The cursor of GET /v1/settlement keeps asOf, but each page uses the rules, statements and disputes of
// its own moment. For pages that agree, draft a statement.
//
// GET /v1/settlement/reconciliation compares packs with their rows, and recomputes the statements of a
// period from the warehouse; muniment's check of drift does the same in the background for all tenants
// (Restate).
//
// If the database is restored from a copy that is older than the log, Replay writes the statements
// that were issued meanwhile from their events, so nothing is issued twice. No event has a
// statement's text: requests for these texts get 409, and the signed files that were handed out are
// the proof. Such a statement can be settled, its period stays stated, and its receipts keep their
// rules, which follow from the log. But its chain can be neither corrected nor voided any more: that
// needs the lost text. No operation takes the signed file back. The error says what remains: restore a
// copy from after the issue, or agree on the difference outside.
package statement

import (
	"muniment.example/control/dispute"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer/statement"
)

const prefix api.Prefix = "stm_"

// fullStatement is the record of a statement with its document. Lists omit the document, since their
// pages would be too long.
type fullStatement struct {
	Statement `db:"*"`
	// Document is the canonical text. Once the statement is issued, the line with its signature
	// follows.
	Document string `json:"-" db:"document,moves"`
}

// Statement is the record of a statement.
type Statement struct {
	ID             string        `json:"id" db:"statement_id"`
	TenantID       string        `json:"-" db:"tenant_id"`
	From           store.Instant `json:"from" db:"from_at" doc:"Start of the period: receipts rendered at or after it count."`
	To             store.Instant `json:"to" db:"to_at" doc:"End of the period: receipts rendered before it count."`
	Currency       string        `json:"currency" db:"currency" doc:"A code of ISO 4217."`
	Period         *string       `json:"period" db:"period" doc:"The month, week or day of timeZone that it states, such as 2026-11, 2026-W48 or 2026-11-28; null for any other period."`
	TimeZone       string        `json:"timeZone" db:"time_zone" doc:"The IANA time zone of its dates."`
	CounterpartyID *string       `json:"counterpartyId" db:"counterparty_id" doc:"The counterparty whose shares it states; null: all counterparties."`
	State          State         `json:"state" db:"state,moves" enum:"DRAFT,DISCARDED,ISSUED,SETTLED,VOIDED"`
	Total          string        `json:"total" decimal:"38,6" db:"total" doc:"Decimal: the sum of all stated shares."`
	HeldAmount     string        `json:"heldAmount" decimal:"38,6" db:"held_amount" doc:"Decimal: what receipts under open disputes would add to the total: the lines with them minus the lines without. As a line is rounded once, it may differ in the sixth fractional digit from what they are worth alone."`
	Receipts       int64         `json:"receipts" db:"receipts" doc:"How many receipts are behind its lines."`
	AsOf           string        `json:"asOf" db:"as_of" doc:"The log position up to which receipts are stated: the end of the pack."`
	PackID         string        `json:"packId" db:"pack_id" doc:"The newest pack that it states. This pack and all before it verify the statement."`
	SHA256         *string       `json:"sha256" db:"sha256,moves" doc:"SHA-256 of the signed file, base64url; null until it is ISSUED."`
	Reference      *string       `json:"reference" db:"reference,moves" doc:"The newest payment's reference; null until one is recorded."`
	IssuedAt       store.Instant `json:"issuedAt" db:"issued_at,moves" nullable:"true" doc:"When it was signed; null until it is ISSUED."`
	SettledAt      store.Instant `json:"settledAt" db:"settled_at,moves" nullable:"true" doc:"When it was paid in full; null until it is SETTLED."`
	Corrects       *string       `json:"corrects" db:"corrects" doc:"The first statement of the period, which this one corrects. Null for a first statement."`
	TreeSize       int64         `json:"treeSize" db:"tree_size" doc:"How many events the log has up to there."`
	RootHash       string        `json:"rootHash" db:"root_hash" doc:"The root hash of the log there."`
	Number         *string       `json:"number" db:"number,moves" doc:"The number of its payable, of a statement for one counterparty; null until it is ISSUED. In a statement for all, the payable of each payee has one."`
	PaidAmount     string        `json:"paidAmount" decimal:"38,6" db:"paid_amount,moves" doc:"Decimal: what was paid or set off of its payables."`
	DueAmount      *string       `json:"dueAmount" decimal:"38,6" db:"due_amount,moves" doc:"Decimal, in the currency's minor unit: what is open of its payables, credits subtracted, so below zero if they are more; null until it is ISSUED."`
	Sequence       int64         `json:"sequence" db:"sequence,moves" doc:"Its place among the statements and corrections that were issued, from 1, in the order of their issue; 0 until it is ISSUED."`
	// Correction is unique among the issued statements of a chain.
	Correction int64         `json:"correction" db:"correction" doc:"Its number among the corrections of the first statement, from 1; 0 for a first statement."`
	Difference *string       `json:"difference" decimal:"38,6" db:"difference" doc:"Decimal, of a correction: its total minus the total of the previous statement; null for a first statement."`
	VoidReason *string       `json:"voidReason" db:"void_reason" doc:"Why the period's statements were voided, on the statement that voids them; otherwise null."`
	CreatedAt  store.Instant `json:"createdAt" db:"created_at"`
	UpdatedAt  store.Instant `json:"updatedAt" db:"updated_at,moves"`
	Revision   int64         `json:"revision" db:"revision,moves"`
	// Stale is set where statements are read, in no event and in no export.
	Stale *Stale `json:"stale,omitempty" column:"-" enum:"CORRECTED,STATED,OVERLAPPED,DISPUTED" doc:"Where a statement is read or listed, of a DRAFT that was overtaken, so that it can't be issued any more. CORRECTED: what it corrects was corrected or voided since; OVERLAPPED: another statement of its time was issued or voided; DISPUTED: a dispute of its time was opened or resolved: draft it again. STATED: another statement of the same was issued: correct that. A list says it of its newest 100 drafts."`
}

// period returns the period in the form that disputes have.
func (s *Statement) period() dispute.Window { return dispute.Window{From: s.From, To: s.To} }

// end returns the end of the log that it states.
func (s *Statement) end() statement.PackRef {
	return statement.PackRef{PackID: s.PackID, RootHash: s.RootHash, TreeSize: uint64(s.TreeSize)}
}

// first returns the id of the chain's first statement.
func (s *Statement) first() string {
	if s.Corrects != nil {
		return *s.Corrects
	}
	return s.ID
}

// State is the state of a statement.
type State string

// The states.
const (
	Draft     State = "DRAFT"
	Discarded State = "DISCARDED"
	Issued    State = "ISSUED"
	Settled   State = "SETTLED"
	Voided    State = "VOIDED"
)

// Action moves a statement from state to state.
type Action string

// The actions.
const (
	Discard Action = "discard"
	Issue   Action = "issue"
	Pay     Action = "pay"
	Settle  Action = "settle"
	Reopen  Action = "reopen"
	Void    Action = "void"
)

// transitions lists every move. Any other is refused.
var transitions = store.Steps[Action, State]{
	Discard: {From: store.From(Draft), To: Discarded, Event: eventDiscarded},
	Issue:   {From: store.From(Draft), To: Issued, Event: eventIssued},
	Pay:     {From: store.From(Issued, Settled, Voided), Event: eventPaid},
	Settle:  {From: store.From(Issued), To: Settled, Event: eventSettled},
	Reopen:  {From: store.From(Settled), To: Issued, Event: eventReopened},
	Void:    {From: store.From(Issued, Settled), To: Voided, Event: eventVoided},
}
