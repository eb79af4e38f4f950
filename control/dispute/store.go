package dispute

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

var (
	disputes = store.Machine[Dispute, Action, State]{
		Records: store.Records[Dispute]{Noun: "dispute", Table: "disputes"}, Steps: transitions,
	}
	summaries = store.Records[DisputeSummary]{Noun: "dispute", Table: "disputes"}
)

// filter selects the disputes that have each given value.
type filter struct{ rightID, receiptID, state string }

// list lists the tenant's disputes, newest first.
func list(ctx context.Context, q store.Querier, tenantID string, f filter, s store.Slice) (page []DisputeSummary, next string, err error) {
	var w store.Where
	w.Is("right_id", f.rightID)
	w.Is("state", f.state)
	if f.receiptID != "" {
		w.And("dispute_id IN (SELECT r.dispute_id FROM dispute_receipts r WHERE r.receipt_id = $)", f.receiptID)
	}
	return summaries.Page(ctx, q, tenantID, w, s)
}

// insertReceipts writes the rows by which a dispute is found for a receipt.
func insertReceipts(ctx context.Context, tx *store.Tx, d *Dispute) error {
	if len(d.ReceiptIDs) == 0 {
		return nil
	}
	args, rows := []any{d.TenantID, d.ID}, make([]string, len(d.ReceiptIDs))
	for i, id := range d.ReceiptIDs {
		args = append(args, id)
		rows[i] = fmt.Sprintf("($1, $2, $%d)", len(args))
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO dispute_receipts (tenant_id, dispute_id, receipt_id) VALUES `+strings.Join(rows, ", "), args...); err != nil {
		return fmt.Errorf("cannot write the receipts of the dispute %s: %w", d.ID, err)
	}
	return nil
}

// inPeriod selects the disputes of a tenant $1 about deliveries that may have been rendered from $2 to
// before $3.
const inPeriod = ` WHERE tenant_id = $1 AND last_rendered_at >= $2 AND first_rendered_at < $3`

// Holding lists the exclusions of the tenant's unresolved and UPHELD disputes about deliveries of a
// period, oldest first.
func Holding(ctx context.Context, q store.Querier, tenantID string, period Window) (Excluded, error) {
	all, err := store.List(ctx, q, "the disputes of "+tenantID+" that exclude deliveries", func(row store.Row) (x Exclusion, err error) {
		d, err := summaries.Scan(row)
		return d.exclusion(), err
	}, summaries.Select()+inPeriod+` AND (state <> 'RESOLVED' OR outcome = 'UPHELD')`, tenantID, period.From, period.To)
	slices.SortFunc(all, func(a, b Exclusion) int { return strings.Compare(a.ID, b.ID) })
	return all, err
}

// Standing lists the same exclusions without what each excludes, in any order.
func Standing(ctx context.Context, q store.Querier, tenantID string, period Window) (Excluded, error) {
	return store.List(ctx, q, "the disputes of "+tenantID+" that stand", func(row store.Row) (x Exclusion, err error) {
		var outcome *Outcome
		if err = row.Scan(&x.ID, &x.State, &outcome); outcome != nil {
			x.Outcome = *outcome
		}
		return x, err
	}, `SELECT dispute_id, state, outcome FROM disputes`+inPeriod+` AND (state <> 'RESOLVED' OR outcome = 'UPHELD')`, tenantID, period.From, period.To)
}

// upheldDispute is what counts of an UPHELD dispute.
type upheldDispute struct {
	Rendered
	receipts int // 0: it has a window
}

// listUpheld lists the tenant's UPHELD disputes about deliveries of a period.
func listUpheld(ctx context.Context, q store.Querier, tenantID string, period Window) ([]upheldDispute, error) {
	return store.List(ctx, q, "the UPHELD disputes of "+tenantID, func(row store.Row) (u upheldDispute, err error) {
		return u, row.Scan(&u.First, &u.Last, &u.receipts)
	}, `SELECT first_rendered_at, last_rendered_at, (SELECT COUNT(*) FROM dispute_receipts r WHERE r.dispute_id = disputes.dispute_id) FROM disputes`+
		inPeriod+` AND outcome = 'UPHELD' AND (state <> 'RESOLVED' OR outcome = 'UPHELD')`, tenantID, period.From, period.To)
}

// Replay applies the newest event of a dispute for rollback.Replay. It also writes a dispute that the
// database lacks: otherwise a statement would bill the disputed deliveries.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	was, said, err := disputes.InEvent(ctx, tx, e)
	if err != nil || said == nil {
		return false, err
	}
	if was != nil && (said.State == Resolved || said.Revision <= was.Revision) {
		return disputes.ReplayClosed(ctx, tx, e)
	}
	if err := said.restoreRendered(e); err != nil {
		return false, err
	}
	if err := disputes.Restore(ctx, tx, was, said); err != nil || was != nil {
		return err == nil, err
	}
	return true, insertReceipts(ctx, tx, said)
}

// restoreRendered reads Rendered from an event of the dispute, whose record lacks it.
func (d *Dispute) restoreRendered(e *sealer.Event) error {
	if err := json.Unmarshal(e.Data, &d.Rendered); err != nil {
		return fmt.Errorf("cannot read when the deliveries of a dispute were rendered: %w", err)
	}
	return nil
}

// Sections are this package's data in an export of the tenant.
var Sections = []store.Section{disputes.Section("disputes", api.DisputesRead)}
