package payable

import (
	"cmp"
	"context"
	"slices"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer/rate"
)

var (
	payables = store.Records[Payable]{Noun: "payable", Table: "payables", Hide: hide}
	issuers  = store.Records[Issuer]{Noun: "issuer", Table: "issuers"}
)

// noParty is the column of a party of whom nothing is known: a payable that came back from the log.
const noParty = `{"address":null,"email":null,"legalName":null,"note":null,"taxId":null}`

// Tables lists this package's tables.
var Tables = store.Tables{
	{Name: "payables", Public: []string{"payments.reference"}, Personal: &store.Personal{
		Kind: "payable", Key: []string{"payable_id"}, Record: "payable_id", Noun: payables.Noun, Unseen: `recipient = '` + noParty + `'`,
		JSON: []string{
			"issuer.legalName", "issuer.address", "issuer.taxId", "issuer.email", "issuer.note",
			"recipient.legalName", "recipient.address", "recipient.taxId", "recipient.email",
		},
		Parties: [][]string{
			{"issuer.legalName", "issuer.address", "issuer.taxId", "issuer.email"},
			{"recipient.legalName", "recipient.address", "recipient.taxId", "recipient.email"},
		},
	}},
	{Name: "issuers", Personal: &store.Personal{Kind: "issuer", Key: []string{"issuer_id"}, Text: []string{"legal_name", "address", "tax_id", "email", "note"}, Emptied: []string{"address", "tax_id", "email", "note"},
		Parties: [][]string{{"legal_name", "address", "tax_id", "email"}}}},
}

// Sections are this package's data in an export of the tenant.
var Sections = []store.Section{payables.Section("payables", api.SettlementRead), issuers.Section("issuers", api.SettlementRead)}

// filter selects the payables that have each given value, and whose days are within the given ones, each of which counts.
type filter struct {
	statementID, counterpartyID, number, state string
	issuedSince, issuedBy, dueSince, dueBy     string
	// overdueOn keeps what is still open on that day although it was due before; no credits.
	overdueOn string
}

// list lists the tenant's payables, newest first.
func list(ctx context.Context, q store.Querier, tenantID string, f filter, s store.Slice) (page []Payable, next string, err error) {
	var w store.Where
	w.Is("statement_id", f.statementID)
	w.Is("counterparty_id", f.counterpartyID)
	w.Is("number", f.number)
	w.Is("state", f.state)
	for _, bound := range []struct{ condition, day string }{
		{"issued_on >= $", f.issuedSince}, {"issued_on <= $", f.issuedBy}, {"due_on >= $", f.dueSince}, {"due_on <= $", f.dueBy},
		{"state = 'DUE' AND substr(gross, 1, 1) <> '-' AND due_on < $", f.overdueOn},
	} {
		if bound.day != "" {
			w.And(bound.condition, bound.day)
		}
	}
	return payables.Page(ctx, q, tenantID, w, s)
}

// Of lists those of a statement, in the order of their numbers.
func Of(ctx context.Context, q store.Querier, tenantID, statementID string) ([]Payable, error) {
	return inOrder(store.List(ctx, q, "what the statement pays", payables.Scan, payables.Select()+` WHERE tenant_id = $1 AND statement_id = $2`, tenantID, statementID))
}

// newest returns the tenant's newest payable, nil if there is none.
func newest(ctx context.Context, q store.Querier, tenantID string) (*Payable, error) {
	return store.One(ctx, q, "the newest payable", payables.Scan, payables.Select()+` WHERE tenant_id = $1 ORDER BY sequence DESC LIMIT 1`, tenantID)
}

// payeesAtOnce is how many payees one query is about.
const payeesAtOnce = 500

// carriedOf returns what the payees' newest payables in a currency carry on.
func carriedOf(ctx context.Context, q store.Querier, tenantID, currency string, parts []Part) (map[string]rate.Money, error) {
	type newest struct {
		payee   string
		carried *string
	}
	scan := func(row store.Row) (n newest, err error) { return n, row.Scan(&n.payee, &n.carried) }
	all := map[string]rate.Money{}
	for piece := range slices.Chunk(parts, payeesAtOnce) {
		args := []any{tenantID, currency}
		for _, part := range piece {
			args = append(args, part.CounterpartyID)
		}
		err := store.Each(ctx, q, "the payees' newest payables", scan, func(n newest) (err error) {
			if n.carried != nil {
				all[n.payee], err = rate.ParseAmount(*n.carried)
			}
			return err
		}, `SELECT c.counterparty_id, (SELECT p.carried FROM payables p WHERE p.tenant_id = $1 AND p.counterparty_id = c.counterparty_id AND p.currency = $2 ORDER BY p.sequence DESC LIMIT 1)
			FROM counterparties c WHERE c.tenant_id = $1 AND c.counterparty_id IN (`+store.Marks(2, len(piece))+`)`, args...)
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// dueTo lists what payees are due in a currency, or, of credits, what they owe, the oldest first.
func dueTo(ctx context.Context, q store.Querier, tenantID, currency string, payees []string, credits bool) (all []Payable, err error) {
	sign := `<>`
	if credits {
		sign = `=`
	}
	for piece := range slices.Chunk(payees, payeesAtOnce) {
		args := []any{tenantID, currency}
		for _, id := range piece {
			args = append(args, id)
		}
		err := store.Each(ctx, q, "what payees are due", payables.Scan, func(p Payable) error {
			all = append(all, p)
			return nil
		}, payables.Select()+` WHERE tenant_id = $1 AND state = 'DUE' AND currency = $2 AND substr(gross, 1, 1) `+sign+` '-' AND counterparty_id IN (`+store.Marks(2, len(piece))+`)`, args...)
		if err != nil {
			return nil, err
		}
	}
	return inOrder(all, nil)
}

func inOrder(list []Payable, err error) ([]Payable, error) {
	slices.SortFunc(list, func(a, b Payable) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return list, err
}

// ofChain lists what a chain of statements, which firstID begins, pays, in the order of its issue.
func ofChain(ctx context.Context, q store.Querier, tenantID, firstID string) ([]Payable, error) {
	return inOrder(store.List(ctx, q, "what the statement and its corrections pay", payables.Scan, payables.Select()+` WHERE tenant_id = $1 AND first_id = $2`, tenantID, firstID))
}
