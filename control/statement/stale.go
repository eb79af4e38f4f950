package statement

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"muniment.example/control/dispute"
	"muniment.example/control/store"
)

// Stale says what has overtaken a draft, so that it can't be issued any more. Nothing that it is overtaken by goes
// away, but for disputes: if one was opened since and is rejected, the draft is as it was.
type Stale string

// What overtakes drafts.
const (
	// Corrected: the statement that a draft corrects was corrected or voided.
	Corrected Stale = "CORRECTED"
	// StatedElsewhere: another statement that was issued pays the same counterparties for the same time in this currency. It is
	// corrected instead.
	StatedElsewhere Stale = "STATED"
	// Overlapped: another statement that overlaps with what the draft depends on was issued or voided.
	Overlapped Stale = "OVERLAPPED"
	// Disputed: a dispute of that time was opened or resolved.
	Disputed Stale = "DISPUTED"
)

// premises are what a draft rests on besides the log: the statements that were issued, and the disputes that exclude
// something. A column keeps hashes of both, so that a list tells without the texts of drafts what was overtaken. What decides is
// still the text, when it is issued (Service.sign).
type premises struct{ statements, disputes string }

func premisesOf(issued []Statement, holding dispute.Excluded) premises {
	var statements, disputes []string
	for _, o := range overlaps(issued) {
		statements = append(statements, o.StatementID+" "+o.SHA256)
	}
	for i := range holding {
		disputes = append(disputes, fmt.Sprint(holding[i].ID, " ", holding[i].Held()))
	}
	return premises{hashOf(statements), hashOf(disputes)}
}

// hashOf is the hash of lines in any order.
func hashOf(lines []string) string {
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// keepPremises writes what a draft rests on, since is from when on.
func keepPremises(ctx context.Context, tx *store.Tx, draft *Statement, since store.Instant, of premises) error {
	_, err := tx.ExecContext(ctx, `UPDATE statements SET since_at = $3, premises = $4 WHERE tenant_id = $1 AND statement_id = $2`, draft.TenantID, draft.ID, since, of.statements+" "+of.disputes)
	if err != nil {
		return fmt.Errorf("cannot write what the draft %s rests on: %w", draft.ID, err)
	}
	return nil
}

// mostMarked bounds the drafts of one response that are compared with what is there now.
const mostMarked = 100

// markStale sets Stale of the drafts among statements of a tenant. Drafts of the same time are compared with one answer. What was
// issued since it was read is no draft any more, and is not marked.
func markStale(ctx context.Context, q store.Querier, tenantID string, list []Statement) error {
	drafts, args := map[string]*Statement{}, []any{tenantID}
	for i := range list {
		if s := &list[i]; s.State == Draft && len(drafts) < mostMarked {
			drafts[s.ID], args = s, append(args, s.ID)
		}
	}
	if len(drafts) == 0 {
		return nil
	}
	type row struct {
		id       string
		since    store.Instant
		premises string
	}
	kept, err := store.List(ctx, q, "what drafts rest on", func(from store.Row) (r row, err error) { return r, from.Scan(&r.id, &r.since, &r.premises) },
		`SELECT statement_id, since_at, premises FROM statements WHERE tenant_id = $1 AND state = 'DRAFT' AND premises <> '' AND statement_id IN (`+store.Marks(1, len(drafts))+`)`, args...)
	if err != nil {
		return err
	}
	type answer struct {
		issued []Statement
		premises
	}
	known := map[[2]int64]answer{}
	for _, r := range kept {
		draft := drafts[r.id]
		reach := dispute.Window{From: r.since, To: draft.To}
		key := [2]int64{reach.From.UnixMilli(), reach.To.UnixMilli()}
		found, ok := known[key]
		if !ok {
			if found.issued, err = comparedIn(ctx, q, tenantID, reach); err != nil {
				return err
			}
			holding, err := dispute.Standing(ctx, q, tenantID, reach)
			if err != nil {
				return err
			}
			found.premises = premisesOf(found.issued, holding)
			known[key] = found
		}
		issued, now := found.issued, found.premises
		var then premises
		then.statements, then.disputes, _ = strings.Cut(r.premises, " ")
		switch {
		case then.statements != now.statements && slices.ContainsFunc(issued, func(s Statement) bool {
			return draft.Corrects != nil && s.first() == draft.first() && (s.Correction >= draft.Correction || s.VoidReason != nil)
		}):
			draft.Stale = new(Corrected)
		case then.statements != now.statements && draft.Corrects == nil && refuseOverlap(issued, draft) != nil:
			draft.Stale = new(StatedElsewhere)
		case then.statements != now.statements:
			draft.Stale = new(Overlapped)
		case then.disputes != now.disputes:
			draft.Stale = new(Disputed)
		}
	}
	return nil
}
