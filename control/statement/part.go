package statement

import (
	"context"
	"slices"

	"muniment.example/control/paper"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer/settlement"
	"muniment.example/sealer/statement"
)

// Part is what one payee may see of a statement that was issued: it names no other. The rest of a line that is
// shared is what all others get of it.
type Part struct {
	Statement Statement
	Paper     *paper.Paper
	// Signed is the signed file of a statement for this payee alone that shows no more than its lines; nil of others.
	Signed []byte
	// Voids took it back; Corrected is the newest correction since; Again states the period of one that was voided anew.
	// Each is nil if there is none.
	Voids, Corrected, Again *Statement
}

// errNoPart refuses the part of a statement that is no promise yet, or none any more.
var errNoPart = api.Conflict("only a statement that was issued has parts for its payees: issue it first")

// PartOf returns the part of a payee. The error is STATE_CONFLICT for a draft, and for one whose text is lost, and
// VALIDATION_FAILED for a counterparty that is no payee of it.
func (s *Service) PartOf(ctx context.Context, tenantID, statementID, counterpartyID string) (*Part, error) {
	found, err := statements.Find(ctx, s.db.Read(), tenantID, statementID)
	if err != nil {
		return nil, err
	}
	if found.State == Draft || found.State == Discarded {
		return nil, errNoPart
	}
	document, err := found.document()
	if err != nil {
		return nil, err
	}
	p := &Part{Statement: found.Statement}
	if p.Paper, err = s.paper(ctx, found, &document, counterpartyID); err != nil {
		if e := api.From(err); e.Code == api.ValidationFailed {
			err = api.InvalidField("counterpartyId", "is no payee of the statement")
		}
		return nil, err
	}
	// These are of all rights of the period, whoever is paid for them.
	p.Paper.Document.Unrated, p.Paper.Document.Excluded = nil, nil
	if found.CounterpartyID != nil && showsLinesAlone(&document) {
		p.Signed = []byte(found.Document)
	}
	return p, s.since(ctx, p, counterpartyID)
}

// showsLinesAlone says whether a statement for one payee shows nothing of rights that it has no lines of, of disputes,
// and of other statements. A signed text has all of these, of the whole tenant, whoever is paid.
func showsLinesAlone(d *statement.Statement) bool {
	if len(d.Unrated)+len(d.Excluded)+len(d.Overlaps) > 0 {
		return false
	}
	paid := map[string]bool{}
	for i := range d.Lines {
		paid[d.Lines[i].RightID] = true
	}
	return !slices.ContainsFunc(d.Rights, func(r settlement.Right) bool { return !paid[r.RightID] })
}

// since finds what became of a statement.
func (s *Service) since(ctx context.Context, p *Part, counterpartyID string) error {
	chain, err := store.List(ctx, s.db.Read(), "what corrects the statement", summaries.Scan,
		summaries.Select()+` WHERE tenant_id = $1 AND corrects = $2 AND sequence > $3 ORDER BY sequence`, p.Statement.TenantID, p.Statement.first(), p.Statement.Sequence)
	if err != nil {
		return err
	}
	for i := range chain {
		if chain[i].VoidReason != nil {
			p.Voids = &chain[i]
		} else {
			p.Corrected = &chain[i]
		}
	}
	taken := p.Voids
	if p.Statement.VoidReason != nil {
		taken = &p.Statement
	}
	if taken == nil {
		return nil
	}
	issued, err := issuedIn(ctx, s.db.Read(), &p.Statement)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(issued, func(other Statement) bool {
		return other.Sequence > taken.Sequence && other.Corrects == nil && other.State != Voided && other.Currency == p.Statement.Currency &&
			(other.CounterpartyID == nil || *other.CounterpartyID == counterpartyID)
	})
	if at >= 0 {
		p.Again = &issued[at]
	}
	return nil
}
