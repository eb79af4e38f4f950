package statement

import (
	"context"
	"fmt"
	"slices"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

var (
	statements = store.Machine[documented, Action, State]{
		Records: store.Records[documented]{Noun: "statement", Table: "statements"}, Steps: transitions,
	}
	summaries = store.Records[Statement]{Noun: "statement", Table: "statements"}
)

// filter keeps the statements that have each given value.
type filter struct{ state, currency, counterpartyID, corrects string }

// list lists the tenant's statements, newest first.
func list(ctx context.Context, q store.Querier, tenantID string, f filter, s store.Slice) (page []Statement, next string, err error) {
	var w store.Where
	w.Is("state", f.state)
	w.Is("currency", f.currency)
	w.Is("counterparty_id", f.counterpartyID)
	w.Is("corrects", f.corrects)
	return summaries.Page(ctx, q, tenantID, w, s)
}

// overlapping are the first statements that were issued and whose period meets that of one.
func overlapping(ctx context.Context, q store.Querier, s *Statement) ([]Statement, error) {
	list, err := issuedIn(ctx, q, s)
	return slices.DeleteFunc(list, func(other Statement) bool { return other.Corrects != nil }), err
}

// issuedIn are the issued statements, and their corrections, whose period meets that of one.
func issuedIn(ctx context.Context, q store.Querier, s *Statement) ([]Statement, error) {
	return store.List(ctx, q, "the statements that were issued", summaries.Scan,
		summaries.Select()+` WHERE tenant_id = $1 AND state <> 'DRAFT' AND state <> 'DISCARDED' AND from_at < $2 AND to_at > $3 ORDER BY to_at`, s.TenantID, s.To, s.From)
}

// mostDrafts is how many drafts a tenant may have.
const mostDrafts = 1000

// hasSpace is STATE_CONFLICT if the tenant has as many drafts as it may.
func hasSpace(ctx context.Context, q store.Querier, tenantID string) error {
	n, err := store.Count(ctx, q, "drafts of statements", `SELECT COUNT(*) FROM statements WHERE tenant_id = $1 AND state = 'DRAFT'`, tenantID)
	if err == nil && n >= mostDrafts {
		err = api.Conflict(fmt.Sprintf("the tenant has %d drafts of statements, which is all that it may have: issue or discard one", n))
	}
	return err
}

// refuseOverlap is STATE_CONFLICT if an issued statement bills something of the same, or may do so
// as it states another log, by other rules.
func refuseOverlap(ctx context.Context, q store.Querier, s *Statement) error {
	list, err := overlapping(ctx, q, s)
	if err != nil {
		return err
	}
	for _, other := range list {
		named := fmt.Sprintf("the period overlaps with that of %s, which was issued: %s to %s", other.ID, other.From, other.To)
		switch {
		case s.Currency == other.Currency && (s.CounterpartyID == nil || other.CounterpartyID == nil || *s.CounterpartyID == *other.CounterpartyID):
			return api.Conflict(named)
		case s.PackID != other.PackID:
			return api.Conflict(named + ", and states the log up to another pack: draft the statement again")
		}
	}
	return nil
}

// statedUpTo is the pack up to which the issued statements state whose period meets that of one;
// empty if there are none.
func statedUpTo(ctx context.Context, q store.Querier, s *Statement) (packID string, err error) {
	list, err := overlapping(ctx, q, s)
	for _, other := range list {
		if packID != "" && packID != other.PackID {
			return "", api.Conflict(fmt.Sprintf("the period overlaps with those of several issued statements, of which %s states the log up to another pack: draft a statement for each", other.ID))
		}
		packID = other.PackID
	}
	return packID, err
}

// newest is the last correction of a first statement that was issued, or else that itself.
func newest(ctx context.Context, q store.Querier, tenantID, first string) (id string, err error) {
	last, err := store.One(ctx, q, "the corrections of "+first, store.Text,
		`SELECT statement_id FROM statements WHERE tenant_id = $1 AND corrects = $2 AND state <> 'DRAFT' AND state <> 'DISCARDED' ORDER BY correction DESC LIMIT 1`, tenantID, first)
	if err != nil || last == nil {
		return first, err
	}
	return *last, nil
}

// refuseStale is STATE_CONFLICT if another correction was issued since one was drafted.
func refuseStale(ctx context.Context, q store.Querier, s *Statement, c *sealer.StatementCorrection) error {
	id, err := newest(ctx, q, s.TenantID, *s.Corrects)
	if err == nil && id != c.Previous.StatementID {
		err = api.Conflict(fmt.Sprintf("the correction %s was issued since this one was drafted: draft it again", id))
	}
	return err
}

// Sections are what an export of the tenant has of this package.
var Sections = []store.Section{summaries.Section("statements")}
