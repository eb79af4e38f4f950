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

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/pipeline"
	"muniment/sealer"
)

// Difference is by how much the sums of an issued statement's rows exceed what it says; amounts are
// decimals. If all are 0, the lines differ, or the record or text is not the one that was signed.
type Difference struct {
	Receipts          int64
	Total, HeldAmount string
}

// IssuedAfter is the issued statement with the lowest id above one, of any tenant; nil behind the
// last.
func (r *reconciler) IssuedAfter(ctx context.Context, id string) (*Statement, error) {
	return store.One(ctx, r.db.Read(), "the next issued statement", summaries.Scan,
		summaries.Select()+` WHERE statement_id > $1 AND state IN ('ISSUED', 'SETTLED') ORDER BY statement_id LIMIT 1`, id)
}

// Restate computes an issued statement anew, from the warehouse as of its end, by the rules and the
// exclusions that it was made by; nil if that is what it says, and if the database says of it what the
// log does.
func (r *reconciler) Restate(ctx context.Context, tenantID, id string) (*Difference, error) {
	again, err := r.restate(ctx, tenantID, id)
	if err != nil || again.differs == "" {
		return nil, err
	}
	return &again.by, nil
}

// restated is an issued statement, and its document computed now.
type restated struct {
	*documented
	// now is nil where it can't be computed: a restored database lacks what that needs, or what the
	// statement says can't be believed.
	now *sealer.Statement
	// differs says what does not agree, as a sentence; empty if all does.
	differs string
	by      Difference
}

// restate computes an issued statement anew.
func (r *reconciler) restate(ctx context.Context, tenantID, id string) (again restated, err error) {
	s, logged, err := r.find(ctx, tenantID, id)
	if err == nil && !logged { // its event may be on the way, or the record newer than what was read
		if err = r.cfg.Packs.AwaitRecorded(ctx, tenantID); err == nil {
			s, logged, err = r.find(ctx, tenantID, id)
		}
	}
	if err != nil {
		return again, err
	}
	again = restated{documented: s, by: Difference{0, "0", "0"}}
	switch {
	case !logged:
		again.differs = "the database has another record of the statement than the log: the signed file that was handed out is the proof"
		return again, nil
	case s.Document == "": // restored
		return again, nil
	case s.edited():
		again.differs = "the database has another text of the statement than the one that was signed: the signed file that was handed out is the proof"
		return again, nil
	}
	now, err := r.computed(ctx, s)
	if refused, ok := errors.AsType[*api.Error](err); ok && slices.Contains([]api.Code{api.ResourceNotFound, api.StateConflict, api.ValidationFailed}, refused.Code) {
		again.differs = "the statement can't be computed any more: " + refused.Message
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
		again.differs = fmt.Sprintf("the statement says %d receipts, %s %s in all and %s held; computed again from the warehouse it has %d receipts, %s and %s, or other lines",
			s.Receipts, s.Total, s.Currency, s.HeldAmount, receiptsOf(now), now.Total, now.HeldAmount)
	}
	return again, nil
}

// find returns an issued statement, and whether its record is logged.
func (r *reconciler) find(ctx context.Context, tenantID, id string) (s *documented, logged bool, err error) {
	if s, err = statements.Find(ctx, r.db.Read(), tenantID, id); err != nil {
		return nil, false, err
	}
	logged, err = r.isLogged(ctx, &s.Statement)
	return s, logged, err
}

// isLogged says whether the record of an issued statement is the one in its newest event: the database
// can be edited, the log can't.
func (r *reconciler) isLogged(ctx context.Context, s *Statement) (bool, error) {
	rows, err := r.cfg.Warehouse.Events(ctx, pipeline.EventQuery{
		TenantID: s.TenantID, SubjectKind: statements.Noun, SubjectID: s.ID, Types: []string{transitions[Issue].Event, transitions[Settle].Event},
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

// edited says whether the text of an issued statement is not the one whose hash is in its record.
func (s *documented) edited() bool {
	text, _, _ := strings.Cut(s.Document, "\n")
	sum := sha256.Sum256([]byte(text))
	return s.SHA256 == nil || *s.SHA256 != base64.RawURLEncoding.EncodeToString(sum[:])
}

// computed is the document of an issued statement as the warehouse gives it now.
func (r *reconciler) computed(ctx context.Context, s *documented) (*sealer.Statement, error) {
	now, err := s.document()
	if err != nil {
		return nil, err
	}
	end, err := r.cfg.Packs.EndOf(ctx, s.TenantID, s.PackID)
	if err != nil {
		return nil, err
	}
	priced, err := r.pricedAt(ctx, s.TenantID, &now, end)
	if err != nil {
		return nil, err
	}
	excluded, err := excludedBy(now.Excluded)
	if err != nil {
		return nil, err
	}
	return &now, Compute(ctx, r.cfg.Warehouse, end.Position, priced.Rules, excluded, &now)
}

// receiptsOf counts the receipts behind the lines.
func receiptsOf(s *sealer.Statement) (n int64) {
	for _, l := range s.Lines {
		n += l.Receipts
	}
	return n
}

// more is by how much one decimal is more than another.
func more(one, other string) string {
	a, _ := new(big.Rat).SetString(one)
	b, _ := new(big.Rat).SetString(other)
	if a == nil || b == nil { // the record was edited
		return one
	}
	return strings.TrimSuffix(strings.TrimRight(a.Sub(a, b).FloatString(6), "0"), ".")
}
