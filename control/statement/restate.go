package statement

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/sealer"
	"muniment.example/sealer/statement"
)

// Difference is the recomputed sums of an issued statement minus the stated ones; amounts are
// decimals. If all are 0, only the lines differ, or the record or text is not what was signed.
type Difference struct {
	Receipts          int64
	Total, HeldAmount string
}

// IssuedAfter returns the issued or voided statement with the lowest id above id, of any tenant; nil if
// there is none.
func (r *reconciler) IssuedAfter(ctx context.Context, id string) (*Statement, error) {
	return store.One(ctx, r.db.Read(), "the next issued statement", summaries.Scan,
		summaries.Select()+` WHERE statement_id > $1 AND sequence > 0 ORDER BY statement_id LIMIT 1`, id)
}

// Restate recomputes an issued statement from the warehouse as of its end, by its own rules and
// exclusions, and compares the database's record with the log. It returns nil if both agree.
func (r *reconciler) Restate(ctx context.Context, tenantID, id string) (*Difference, error) {
	again, err := r.restate(ctx, tenantID, id)
	if err != nil || again.differs == "" {
		return nil, err
	}
	return &again.by, nil
}

// restatement is an issued statement with its recomputed document.
type restatement struct {
	record *fullStatement
	// now is nil if it can't be computed: a restored database lacks the data, or the statement's
	// record or text was edited.
	now *statement.Statement
	// differs is a sentence that says what does not agree; empty if everything agrees.
	differs string
	by      Difference
}

// restate recomputes an issued statement and compares the result.
func (r *reconciler) restate(ctx context.Context, tenantID, id string) (again restatement, err error) {
	s, logged, err := r.find(ctx, tenantID, id)
	if err == nil && !logged { // its event may be on the way, or the record newer than what was read
		if err = r.cfg.Packs.AwaitRecorded(ctx, tenantID); err == nil {
			s, logged, err = r.find(ctx, tenantID, id)
		}
	}
	if err != nil {
		return again, err
	}
	again = restatement{record: s, by: Difference{0, "0", "0"}}
	switch {
	case !logged:
		again.differs = "the statement's record in the database differs from its event in the log: the signed file that was handed out is the proof"
		return again, nil
	case s.Document == "": // restored
		return again, nil
	case s.edited():
		again.differs = "the statement's text in the database is not the signed one: the signed file that was handed out is the proof"
		return again, nil
	}
	if s.VoidReason != nil { // it states nothing
		return again, nil
	}
	now, err := r.computed(ctx, s)
	if refused, ok := errors.AsType[*api.Error](err); ok && slices.Contains([]api.Code{api.ResourceNotFound, api.StateConflict, api.ValidationFailed}, refused.Code) {
		again.differs = "the statement can't be recomputed: " + refused.Message
		return again, nil
	} else if err != nil {
		return again, err
	}
	again.now = now
	text, err := now.Text()
	if err != nil {
		return again, err
	}
	if was, _, _ := strings.Cut(s.Document, "\n"); was != string(text) {
		again.by = Difference{receiptsOf(now) - s.Receipts, more(now.Total, s.Total), more(now.HeldAmount, s.HeldAmount)}
		again.differs = fmt.Sprintf("the statement has %d receipts, a total of %s %s and %s held; recomputed from the warehouse it has %d receipts, %s and %s, or other lines",
			s.Receipts, s.Total, s.Currency, s.HeldAmount, receiptsOf(now), now.Total, now.HeldAmount)
	}
	return again, nil
}

// find returns an issued statement, and whether its record is logged.
func (r *reconciler) find(ctx context.Context, tenantID, id string) (s *fullStatement, logged bool, err error) {
	if s, err = statements.Find(ctx, r.db.Read(), tenantID, id); err != nil {
		return nil, false, err
	}
	logged, err = r.isLogged(ctx, &s.Statement)
	return s, logged, err
}

// isLogged reports whether the record of an issued statement equals that in its newest event. The
// database can be edited, the log can't.
func (r *reconciler) isLogged(ctx context.Context, s *Statement) (bool, error) {
	rows, err := r.cfg.Warehouse.Events(ctx, pipeline.EventQuery{
		TenantID: s.TenantID, SubjectKind: statements.Noun, SubjectID: s.ID, Types: []string{transitions[Issue].Event.Type, transitions[Pay].Event.Type, transitions[Settle].Event.Type, transitions[Reopen].Event.Type, transitions[Void].Event.Type},
		NoDeliveries: true, Newest: true, Limit: 1,
	})
	if err != nil || len(rows) == 0 {
		return false, err
	}
	e, err := sealer.ParseEvent(rows[0].Event)
	if err != nil {
		return false, err
	}
	var logged Statement
	if err := json.Unmarshal(e.Data, &logged); err != nil {
		return false, err
	}
	one, err := json.Marshal(logged)
	if err != nil {
		return false, err
	}
	other, err := json.Marshal(s)
	return bytes.Equal(one, other), err
}

// edited reports whether the signed file of an issued statement doesn't have the hash in its record.
func (s *fullStatement) edited() bool {
	sum := sha256.Sum256([]byte(s.Document))
	return s.SHA256 == nil || *s.SHA256 != base64.RawURLEncoding.EncodeToString(sum[:])
}

// computed recomputes the document of an issued statement from the warehouse.
func (r *reconciler) computed(ctx context.Context, s *fullStatement) (*statement.Statement, error) {
	now, err := s.document()
	if err != nil {
		return nil, err
	}
	t, at, err := r.termsOf(ctx, &s.Statement, &now)
	if err != nil {
		return nil, err
	}
	excluded, err := excludedBy(now.Excluded)
	if err != nil {
		return nil, err
	}
	q := question{tenantID: s.TenantID, from: now.Since.Time, to: now.To.Time, edges: now.Edges(), asOf: &at, terms: []*terms{t}, excluded: excluded}
	return &now, compute(ctx, r.cfg.Sums, q, &now)
}

// receiptsOf counts the receipts behind the lines.
func receiptsOf(s *statement.Statement) (n int64) {
	for _, l := range s.Lines {
		n += l.Receipts
	}
	return n
}

// more returns the difference of two decimals.
func more(one, other string) string {
	a, _ := new(big.Rat).SetString(one)
	b, _ := new(big.Rat).SetString(other)
	if a == nil || b == nil { // the record was edited
		return one
	}
	return strings.TrimSuffix(strings.TrimRight(a.Sub(a, b).FloatString(6), "0"), ".")
}
