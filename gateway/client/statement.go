package client

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"time"
)

// Statements are what is owed for periods.
type Statements struct{ c *Client }

// Statements are what is owed for periods.
func (c *Client) Statements() Statements { return Statements{c} }

// Draft drafts a statement.
func (s Statements) Draft(ctx context.Context, statement NewStatement) (*Statement, error) {
	return record[Statement](ctx, s.c, http.MethodPost, "/v1/settlement/statements", "statement", statement)
}

// StatementFilter selects statements; its zero value is all.
type StatementFilter struct {
	State          string `json:"state"`
	Currency       string `json:"currency"`
	CounterpartyID string `json:"counterpartyId"`
	Corrects       string `json:"corrects"`
	// Limit is how many a page has; 0 is the service's default.
	Limit int `json:"limit"`
}

// List iterates over the statements, newest first.
func (s Statements) List(ctx context.Context, f StatementFilter) iter.Seq2[Statement, error] {
	return list[Statement](ctx, s.c, "/v1/settlement/statements", "statements", values(f))
}

// Get returns a statement and what is signed of it.
func (s Statements) Get(ctx context.Context, statementID string) (*StatementDocument, error) {
	return get[StatementDocument](ctx, s.c, at("/v1/settlement/statements", statementID), nil)
}

// StatementFile is a form of a statement as a file.
type StatementFile struct {
	// csv, html, pdf, or signed, which muniment verify takes.
	Format string `json:"format"`
	// Of csv: lines, shares or changes.
	Table string `json:"table"`
	// Of csv, html and pdf: the part of one payee.
	Payee string `json:"payee"`
	// Of csv: begin with a byte order mark, for spreadsheets.
	BOM bool `json:"bom"`
}

// File streams a statement. The caller closes it. Unless it ends with io.EOF it is not whole.
func (s Statements) File(ctx context.Context, statementID string, f StatementFile) (io.ReadCloser, error) {
	return s.c.stream(ctx, at("/v1/settlement/statements", statementID), values(f))
}

// Discard throws a draft away.
func (s Statements) Discard(ctx context.Context, statementID string) (*Statement, error) {
	return record[Statement](ctx, s.c, http.MethodDelete, at("/v1/settlement/statements", statementID), "statement", nil)
}

// Issue signs a draft. It is frozen from then on.
func (s Statements) Issue(ctx context.Context, statementID string) (*Statement, error) {
	return s.move(ctx, statementID, "issue", nil)
}

// Correct drafts a correction of an issued statement.
func (s Statements) Correct(ctx context.Context, statementID string) (*Statement, error) {
	return s.move(ctx, statementID, "correct", nil)
}

// Void takes an issued statement back, with its corrections: its period can be stated again.
func (s Statements) Void(ctx context.Context, statementID, reason string) (*Statement, error) {
	return s.move(ctx, statementID, "void", struct {
		Reason string `json:"reason"`
	}{reason})
}

// Settle notes a payment of a statement, or takes payments back. It is SETTLED once nothing is open, and ISSUED
// again once something is.
func (s Statements) Settle(ctx context.Context, statementID string, payment Payment) (*Statement, error) {
	return s.move(ctx, statementID, "settle", payment)
}

func (s Statements) move(ctx context.Context, statementID, move string, body any) (*Statement, error) {
	return record[Statement](ctx, s.c, http.MethodPost, at("/v1/settlement/statements", statementID, move), "statement", body)
}

// LineFilter selects receipts behind lines; its zero value is all.
type LineFilter struct {
	RightID       string `json:"rightId"`
	RuleID        string `json:"ruleId"`
	MeteringBasis string `json:"meteringBasis"`
	// Limit is how many a page has; 0 is the service's default.
	Limit int `json:"limit"`
}

// Receipts iterates over the receipts behind the lines of a statement.
func (s Statements) Receipts(ctx context.Context, statementID string, f LineFilter) iter.Seq2[LineReceipt, error] {
	return list[LineReceipt](ctx, s.c, at("/v1/settlement/statements", statementID, "receipts"), "receipts", values(f))
}

// Statement is what is owed for a period.
type Statement struct {
	Record
	// The log position up to which it states: the end of the pack.
	AsOf string `json:"asOf"`
	// Its place among the corrections of the first statement, from 1; 0 for a first one.
	Correction int64 `json:"correction"`
	// The statement that it corrects: the first one of its period. Null for a first one.
	Corrects string `json:"corrects"`
	// Whose shares it states; null: those of all.
	CounterpartyID string `json:"counterpartyId"`
	// A code of ISO 4217.
	Currency string `json:"currency"`
	// Decimal: of a correction, the total less that of the statement before it; null for a first one.
	Difference string `json:"difference"`
	// Receipts count that were rendered at or after it.
	From time.Time `json:"from"`
	// Decimal: what receipts under open disputes would add to the total.
	HeldAmount string `json:"heldAmount"`
	// When it was signed; null until it is ISSUED.
	IssuedAt time.Time `json:"issuedAt"`
	// That of its payable, of a statement for one counterparty; null until it is ISSUED. In one for all, the
	// payable of each payee has a number.
	Number string `json:"number"`
	// Decimal: what was paid or set off of its payables.
	PaidAmount string `json:"paidAmount"`
	// The month, week or day of TimeZone that it states; null for any other period.
	Period string `json:"period"`
	// The pack up to whose end it states. With all packs before, it can be verified.
	PackID string `json:"packId"`
	// How many receipts are behind its lines.
	Receipts int64 `json:"receipts"`
	// Of the newest payment; null until one is noted.
	Reference string `json:"reference"`
	// Of the log, at the end that it states.
	RootHash string `json:"rootHash"`
	// Its place among all that were issued, from 1, in the order of their issue; 0 until it is ISSUED.
	Sequence int64 `json:"sequence"`
	// Decimal, in the currency's minor unit: what is open of its payables, credits subtracted; null until it is
	// ISSUED.
	DueAmount string `json:"dueAmount"`
	// When it was paid in full; null until it is SETTLED.
	SettledAt time.Time `json:"settledAt"`
	// Of the signed file, base64url; null until it is ISSUED.
	SHA256 string `json:"sha256"`
	// One of DRAFT, DISCARDED, ISSUED, SETTLED, VOIDED.
	State string `json:"state"`
	// The IANA time zone of its dates.
	TimeZone string `json:"timeZone"`
	// Receipts count that were rendered before it.
	To time.Time `json:"to"`
	// Decimal: the sum of all shares that it states.
	Total string `json:"total"`
	// How many events the log has up to the end that it states.
	TreeSize int64 `json:"treeSize"`
	// Why the statements of the period were voided, on the one that voids them; otherwise null.
	VoidReason string `json:"voidReason"`
}

// NewStatement asks for a statement.
type NewStatement struct {
	// Whose shares to state; absent: those of all.
	CounterpartyID string `json:"counterpartyId,omitempty"`
	// A code of ISO 4217.
	Currency string `json:"currency"`
	StatementPeriod
}

// StatementPeriod is a period by its name, or by its ends.
type StatementPeriod struct {
	// A month (2026-11), a week of ISO 8601 (2026-W48) or a day (2026-11-28) of TimeZone; absent: From and To.
	Period string `json:"period,omitempty"`
	// An IANA name; absent: the tenant's.
	TimeZone string `json:"timeZone,omitempty"`
	// Of renderedAt, at or after it.
	From time.Time `json:"from,omitzero"`
	// Of renderedAt, before it. A draft can be issued if it was made after it.
	To time.Time `json:"to,omitzero"`
}

// StatementDocument is a statement with the text that is signed.
type StatementDocument struct {
	// What is signed, or of a DRAFT would be: RFC 8785 text. Null once it is DISCARDED, or where a
	// restored database lacks it.
	Document  json.RawMessage `json:"document"`
	Statement Statement       `json:"statement"`
}

// LineReceipt is a receipt behind a line of a statement.
type LineReceipt struct {
	// Decimal: how many impressions it made.
	Impressions string `json:"impressions"`
	// The line's.
	MeteringBasis string `json:"meteringBasis"`
	// The metered milliseconds.
	QuantityMs int64 `json:"quantityMs"`
	// GET /v1/receipts/{receiptId} has all of it, and its proof.
	ReceiptID string `json:"receiptId"`
	// When it was shown.
	RenderedAt time.Time `json:"renderedAt"`
	// The line's.
	RightID string `json:"rightId"`
	// The line's.
	RuleID string `json:"ruleId"`
	// The leaf of the log with the rule's text by which the line is rated.
	RuleLeaf int64 `json:"ruleLeaf"`
}

// Reconciliation compares statements with the packs that they state.
type Reconciliation struct {
	// What does not agree; empty if all does. Of packs the first 20 are named.
	Differences []ReconciledDifference `json:"differences"`
	// The period as asked for; null is open.
	From time.Time `json:"from"`
	// The packs that were sealed in the period, an hour before it, and up to the last one that its
	// statements state: whatever is stated is in them.
	Packs ReconciledPacks `json:"packs"`
	// The issued statements whose period meets this one, by their ends, each with its corrections.
	Statements []ReconciledStatement `json:"statements"`
	// The end of the window as asked for; null is open.
	To time.Time `json:"to"`
	// What no statement states, of times that an issued statement covers.
	Unstated []SettlementLine `json:"unstated"`
}

// MonthDue is an adjustment that is not as it would be now.
type MonthDue struct {
	// As 2026-11.
	Month string `json:"month"`
	// Decimal: the amount that a correction would have; 0 for none.
	Now string `json:"now"`
	// One of TIER, MINIMUM, CAP.
	Reason string `json:"reason"`
	RuleID string `json:"ruleId"`
	// Decimal: the amount that the statement has; 0 for none.
	Stated string `json:"stated"`
	// The rule's IANA time zone.
	TimeZone string `json:"timeZone"`
}

// ReconciledPacks are the packs of a window, as they were sealed and as the warehouse has them.
type ReconciledPacks struct {
	// How many packs.
	Count int64 `json:"count"`
	// Null without a pack.
	FirstPackID string `json:"firstPackId"`
	// Null without a pack.
	LastPackID string `json:"lastPackId"`
	// What the warehouse counts of the same part of the log now.
	Loaded Counted `json:"loaded"`
	// What the headers of the packs count, which is what nodes have signed.
	Sealed Counted `json:"sealed"`
}

// Counted are sums over entries.
type Counted struct {
	// Events of all types.
	Entries int64 `json:"entries"`
	// Decimal: how many they stand for.
	Impressions string `json:"impressions"`
	// Receipts that are neither suppressed nor duplicates.
	Metered int64 `json:"metered"`
	// The metered milliseconds.
	QuantityMs int64 `json:"quantityMs"`
	// How many receipts there are.
	Receipts int64 `json:"receipts"`
}

// ReconciledStatement is a statement beside what its packs make now.
type ReconciledStatement struct {
	// The statement that it corrects; null for a first one.
	Corrects string `json:"corrects"`
	// Whose shares it states; null: those of all.
	CounterpartyID string `json:"counterpartyId"`
	// A code of ISO 4217.
	Currency string `json:"currency"`
	// Of the statement.
	From time.Time `json:"from"`
	// Metered receipts of its period that stand behind its asOf: they are in no line of it. A
	// correction states those that concern it.
	Late int64 `json:"late"`
	// What a correction of it would change of the months that end in its period; none for a statement that
	// was corrected since.
	Months []MonthDue `json:"months"`
	// What the warehouse gives for it now, by the rules and disputes that it was made by; null where
	// the database lacks what that needs, or has another record or text than the one that was signed.
	Recomputed *Recomputed `json:"recomputed"`
	// One of ISSUED, SETTLED.
	State string `json:"state"`
	// What it says.
	Stated Stated `json:"stated"`
	// The statement.
	StatementID string `json:"statementId"`
	// Of the statement.
	To time.Time `json:"to"`
}

// Stated is what a statement says.
type Stated struct {
	// Decimal.
	HeldAmount string `json:"heldAmount"`
	// How many are behind its lines.
	Receipts int64 `json:"receipts"`
	// Decimal.
	Total string `json:"total"`
}

// Recomputed is what the packs make.
type Recomputed struct {
	// Decimal.
	HeldAmount string `json:"heldAmount"`
	// How many are behind its lines.
	Receipts int64 `json:"receipts"`
	// Decimal.
	Total string `json:"total"`
}

// ReconciledDifference is what does not agree.
type ReconciledDifference struct {
	// Names what is wrong; it doesn't change within a version of the rules. One of PACK_DIFFERS,
	// STATEMENT_DIFFERS.
	Code string `json:"code"`
	// Of the pack or the statement.
	ID string `json:"id"`
	// What does not agree, as a sentence.
	Message string `json:"message"`
}
