package client

import (
	"context"
	"io"
	"iter"
	"net/http"
)

// Statements are what is owed for periods.
type Statements struct{ c *Client }

// Statements are what is owed for periods.
func (c *Client) Statements() Statements { return Statements{c} }

// Draft drafts a statement.
func (s Statements) Draft(ctx context.Context, statement NewStatement) (*Statement, error) {
	return record[Statement](ctx, s.c, http.MethodPost, "/v1/settlement/statements", "statement", statement)
}

// List iterates over the statements, newest first.
func (s Statements) List(ctx context.Context, f StatementFilter) iter.Seq2[Statement, error] {
	return list[Statement](ctx, s.c, "/v1/settlement/statements", "statements", values(f))
}

// Get returns a statement and what is signed of it.
func (s Statements) Get(ctx context.Context, statementID string) (*StatementDocument, error) {
	return get[StatementDocument](ctx, s.c, at("/v1/settlement/statements", statementID), nil)
}

// File streams a statement as csv, html, pdf, or signed, which muniment verify takes. The caller closes it.
// Unless it ends with io.EOF it is not whole.
func (s Statements) File(ctx context.Context, statementID string, f StatementFile, format string) (io.ReadCloser, error) {
	query := values(f)
	query.Set("format", format)
	return s.c.stream(ctx, at("/v1/settlement/statements", statementID), query)
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

// Receipts iterates over the receipts behind the lines of a statement.
func (s Statements) Receipts(ctx context.Context, statementID string, f LineFilter) iter.Seq2[LineReceipt, error] {
	return list[LineReceipt](ctx, s.c, at("/v1/settlement/statements", statementID, "receipts"), "receipts", values(f))
}
