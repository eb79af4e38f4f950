package statement

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"muniment.example/control/dispute"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/statement"
)

var (
	statements = store.Machine[fullStatement, Action, State]{
		Records: store.Records[fullStatement]{Noun: "statement", Table: "statements"}, Steps: transitions,
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

// issuedIn lists the statements that were issued, voided ones too, and whose period overlaps with that
// of s, in the order of their issue.
func issuedIn(ctx context.Context, q store.Querier, s *Statement) ([]Statement, error) {
	list, err := store.List(ctx, q, "the statements that were issued", summaries.Scan,
		summaries.Select()+` WHERE tenant_id = $1 AND sequence > 0 AND from_at < $2 AND to_at > $3`, s.TenantID, s.To, s.From)
	slices.SortFunc(list, func(a, b Statement) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return list, err
}

// comparedIn lists those of issuedIn, in any order, with what a draft is compared by alone.
func comparedIn(ctx context.Context, q store.Querier, tenantID string, period dispute.Window) ([]Statement, error) {
	return store.List(ctx, q, "the statements that were issued", func(row store.Row) (s Statement, err error) {
		return s, row.Scan(&s.ID, &s.SHA256, &s.State, &s.From, &s.To, &s.Currency, &s.CounterpartyID, &s.Corrects, &s.Correction, &s.VoidReason)
	}, `SELECT statement_id, sha256, state, from_at, to_at, currency, counterparty_id, corrects, correction, void_reason
		FROM statements WHERE tenant_id = $1 AND sequence > 0 AND from_at < $2 AND to_at > $3`, tenantID, period.To, period.From)
}

// issuedAround lists those of issuedIn, and those on which a statement of the period may depend besides: of
// the time since the beginning of the month, wherever that is.
func issuedAround(ctx context.Context, q store.Querier, s *Statement) ([]Statement, error) {
	around := *s
	around.From = store.At(s.From.AddDate(0, 0, -33))
	return issuedIn(ctx, q, &around)
}

// nextSequence returns the place of the next statement that is issued.
func nextSequence(ctx context.Context, q store.Querier, tenantID string) (int64, error) {
	last, err := store.Count(ctx, q, "the last statement that was issued", `SELECT COALESCE(MAX(sequence), 0) FROM statements WHERE tenant_id = $1 AND sequence > 0`, tenantID)
	return last + 1, err
}

// mostNaming bounds the statements that Naming lists.
const mostNaming = 1000

// Naming lists the issued statements in which the name of a payee names a person, the newest first.
func Naming(ctx context.Context, q store.Querier, tenantID string, person sealer.Person) ([]string, error) {
	ids := []string{}
	if person == (sealer.Person{}) {
		return ids, nil
	}
	type found struct{ id, document string }
	scan := func(row store.Row) (f found, err error) { return f, row.Scan(&f.id, &f.document) }
	err := store.Each(ctx, q, "the statements that name a person", scan, func(f found) error {
		var said struct {
			Payees     []statement.Payee
			Correction *struct{ Payees []statement.Payee }
		}
		text, _, _ := strings.Cut(f.document, "\n")
		if err := json.Unmarshal([]byte(text), &said); err != nil {
			return fmt.Errorf("%s: %w", f.id, err)
		}
		if said.Correction != nil {
			said.Payees = append(said.Payees, said.Correction.Payees...)
		}
		named := slices.ContainsFunc(said.Payees, func(p statement.Payee) bool { return person.In(p.Name) })
		if named && len(ids) < mostNaming {
			ids = append(ids, f.id)
		}
		return nil
	}, `SELECT statement_id, document FROM statements WHERE tenant_id = $1 AND sequence > 0 AND document <> '' AND ($2 = '' OR replace(document, $2, '') <> document OR replace(document, $3, '') <> document) ORDER BY sequence DESC`,
		tenantID, person.Fragment(), `\`)
	return ids, err
}

// mostDrafts bounds the drafts of a tenant.
const mostDrafts = 1000

// StatedPeriods returns the periods of the tenant's live statements that overlap with a period, each once.
func StatedPeriods(ctx context.Context, q store.Querier, tenantID string, period dispute.Window) ([]dispute.Window, error) {
	return store.List(ctx, q, "the periods that are stated", func(row store.Row) (w dispute.Window, err error) { return w, row.Scan(&w.From, &w.To) },
		`SELECT DISTINCT from_at, to_at FROM statements WHERE tenant_id = $1 AND state IN ('ISSUED', 'SETTLED') AND from_at < $2 AND to_at > $3`, tenantID, period.To, period.From)
}

// Sections are this package's data in an export of the tenant.
var Sections = []store.Section{summaries.Section("statements", api.SettlementRead)}
