package statement

import (
	"context"
	"fmt"
	"slices"

	"muniment/control/dispute"
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

// filter selects the statements that have each given value.
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

// overlapping lists the issued first statements whose period overlaps with that of s.
func overlapping(ctx context.Context, q store.Querier, s *Statement) ([]Statement, error) {
	list, err := issuedIn(ctx, q, s)
	return slices.DeleteFunc(list, func(other Statement) bool { return other.Corrects != nil }), err
}

// issuedIn lists the issued statements and corrections whose period overlaps with that of s.
func issuedIn(ctx context.Context, q store.Querier, s *Statement) ([]Statement, error) {
	return store.List(ctx, q, "the statements that were issued", summaries.Scan,
		summaries.Select()+` WHERE tenant_id = $1 AND state <> 'DRAFT' AND state <> 'DISCARDED' AND from_at < $2 AND to_at > $3 ORDER BY to_at`, s.TenantID, s.To, s.From)
}

// mostDrafts bounds the drafts of a tenant.
const mostDrafts = 1000

// refuseOverlap returns STATE_CONFLICT if an issued statement bills some of the same receipts, or
// may do so because it states the log up to another end, by other rules.
func refuseOverlap(ctx context.Context, q store.Querier, s *Statement) error {
	list, err := overlapping(ctx, q, s)
	if err != nil {
		return err
	}
	for _, other := range list {
		named := fmt.Sprintf("the period overlaps with that of %s, which is issued: %s to %s", other.ID, other.From, other.To)
		switch {
		case s.Currency == other.Currency && (s.CounterpartyID == nil || other.CounterpartyID == nil || *s.CounterpartyID == *other.CounterpartyID):
			return api.Conflict(named)
		case s.PackID != other.PackID:
			return api.Conflict(named + ", and states the log up to another pack: draft the statement again")
		}
	}
	return nil
}

// statedUpTo returns the newest pack that the issued statements with overlapping periods state;
// empty if there are none. It returns STATE_CONFLICT if s covers more than they can: if its period
// goes on after the moment at which the draft of the first of them sealed that pack.
func statedUpTo(ctx context.Context, q store.Querier, s *Statement) (packID string, err error) {
	list, err := overlapping(ctx, q, s)
	for _, other := range list {
		if packID != "" && packID != other.PackID {
			return "", api.Conflict(fmt.Sprintf("the period overlaps with those of several issued statements, and %s states the log up to another pack: draft a statement for each period", other.ID))
		}
		packID = other.PackID
	}
	if err != nil || packID == "" {
		return "", err
	}
	// The draft that sealed the pack is the oldest of those that state it: the others reuse it.
	sealing, err := store.One(ctx, q, "the statements up to "+packID, summaries.Scan,
		summaries.Select()+` WHERE tenant_id = $1 AND state <> 'DRAFT' AND state <> 'DISCARDED' AND pack_id = $2 AND corrects IS NULL ORDER BY created_at LIMIT 1`, s.TenantID, packID)
	if err != nil {
		return "", err
	}
	if at := sealing.CreatedAt; s.To.After(at.Time) {
		return "", api.Conflict(fmt.Sprintf("the period overlaps with that of %s, which is issued, so it is stated up to the same end of the log, of %s, and would lack what came later: draft one statement up to %s, and another one from %s on",
			list[0].ID, at, at, at))
	}
	return packID, nil
}

// StatedPeriods returns the periods of the tenant's issued statements that overlap with a period, each once.
func StatedPeriods(ctx context.Context, q store.Querier, tenantID string, period dispute.Window) ([]dispute.Window, error) {
	return store.List(ctx, q, "the periods that are stated", func(row store.Row) (w dispute.Window, err error) { return w, row.Scan(&w.From, &w.To) },
		`SELECT DISTINCT from_at, to_at FROM statements WHERE tenant_id = $1 AND state <> 'DRAFT' AND state <> 'DISCARDED' AND from_at < $2 AND to_at > $3`, tenantID, period.To, period.From)
}

// newest returns the last issued correction of a first statement, or the first statement itself.
func newest(ctx context.Context, q store.Querier, tenantID, first string) (id string, err error) {
	last, err := store.One(ctx, q, "the corrections of "+first, store.Text,
		`SELECT statement_id FROM statements WHERE tenant_id = $1 AND corrects = $2 AND state <> 'DRAFT' AND state <> 'DISCARDED' ORDER BY correction DESC LIMIT 1`, tenantID, first)
	if err != nil || last == nil {
		return first, err
	}
	return *last, nil
}

// refuseStale returns STATE_CONFLICT if another correction was issued since s was drafted.
func refuseStale(ctx context.Context, q store.Querier, s *Statement, c *sealer.StatementCorrection) error {
	id, err := newest(ctx, q, s.TenantID, *s.Corrects)
	if err == nil && id != c.Previous.StatementID {
		err = api.Conflict(fmt.Sprintf("the correction %s was issued since this one was drafted: draft it again", id))
	}
	return err
}

// Sections are this package's data in an export of the tenant.
var Sections = []store.Section{summaries.Section("statements")}
