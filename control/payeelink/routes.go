package payeelink

import (
	"context"
	"net/http"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// Routes adds the service's operations to the API.
func (s *Service) Routes(a route.API) {
	const path, tag = "/v1/settlement/payee-links", "Settlement"
	read, write := route.Scope(api.SettlementRead), route.Scope(api.SettlementWrite)
	route.Add(a, route.Operation{ID: "create-payee-link", Method: http.MethodPost, Path: path, Tag: tag, Access: write, Heavy: true, Errors: []int{http.StatusNotFound},
		Summary: "Make a link by which a payee reads its part of a statement",
		Description: "The page needs no account. It shows this payee's part and names no other payee, has it as PDF, CSV and JSON, and the proof that the log has what is due. " +
			"The link is returned once: only a hash of it is kept. It works until `expiresAt`, or until it is revoked or the payee's person is erased. At most 20 links to one payee's part work at a time. " +
			"The response is 409 for a draft."}, s.post)
	route.Add(a, route.Operation{ID: "list-payee-links", Method: http.MethodGet, Path: path, Tag: tag, Access: read,
		Summary: "List the links to payees' parts of statements, newest first", Description: "Without the links themselves, which nobody has but who got them."}, s.getAll)
	route.Add(a, route.Operation{ID: "revoke-payee-link", Method: http.MethodDelete, Path: path + "/{payeeLinkId}", Tag: tag, Access: write, Stops: true,
		Summary: "Permanently end a payee's link", Description: "The next request by it is refused. What was downloaded stays where it is."}, s.delete)
}

// SchemaName returns the schema name in the OpenAPI document; so do the methods below.
func (Link) SchemaName() string    { return "PayeeLink" }
func (NewLink) SchemaName() string { return "NewPayeeLink" }
func (Made) SchemaName() string    { return "CreatedPayeeLink" }
func (One) SchemaName() string     { return "PayeeLinkData" }
func (List) SchemaName() string    { return "PayeeLinkList" }

// NewLink is the body of a request for a link.
type NewLink struct {
	StatementID    string      `json:"statementId" minLength:"1" maxLength:"64" doc:"The statement, which has to be issued."`
	CounterpartyID string      `json:"counterpartyId" minLength:"1" maxLength:"64" doc:"The payee whose part it shows."`
	ExpiresAt      *route.Time `json:"expiresAt,omitempty" nullable:"true" doc:"When it stops to work: at most 400 days from now. Absent: in 30 days."`
}

// Made is the response about a new link.
type Made struct {
	Link Link   `json:"link"`
	URL  string `json:"url" doc:"What to send to the payee. It is returned this once: anyone who has it can read the page."`
}

// One is the response about a link.
type One struct {
	Link Link `json:"link"`
}

// List is one page of links.
type List struct {
	Links      []Link  `json:"links" doc:"The links of this page."`
	NextCursor *string `json:"nextCursor"`
}

func (s *Service) post(ctx context.Context, in *struct{ Body NewLink }) (m Made, err error) {
	caller := auth.PrincipalFrom(ctx)
	l := Link{TenantID: caller.TenantID, StatementID: in.Body.StatementID, CounterpartyID: in.Body.CounterpartyID}
	if in.Body.ExpiresAt != nil {
		if l.ExpiresAt, err = route.Given("expiresAt", in.Body.ExpiresAt); err != nil {
			return m, err
		}
	}
	made, token, err := s.create(ctx, l, store.ByKey(caller.ID))
	if err != nil {
		return m, err
	}
	return Made{made, s.cfg.PublicURL + Path + "/" + token}, nil
}

type listInput struct {
	route.Page
	StatementID    string `query:"statementId" maxLength:"64" doc:"Only those to parts of this statement."`
	CounterpartyID string `query:"counterpartyId" maxLength:"64" doc:"Only those of this payee."`
	State          string `query:"state" enum:"ACTIVE,REVOKED" doc:"Only those in this state."`
}

func (s *Service) getAll(ctx context.Context, in *listInput) (List, error) {
	slice, err := in.Slice()
	if err != nil {
		return List{}, err
	}
	var w store.Where
	w.Is("statement_id", in.StatementID)
	w.Is("counterparty_id", in.CounterpartyID)
	w.Is("state", in.State)
	page, next, err := links.Page(ctx, s.db.Read(), auth.PrincipalFrom(ctx).TenantID, w, slice)
	return List{page, in.Next(next)}, err
}

func (s *Service) delete(ctx context.Context, in *struct {
	PayeeLinkID string `path:"payeeLinkId"`
}) (One, error) {
	caller := auth.PrincipalFrom(ctx)
	ended, err := s.end(ctx, caller.TenantID, in.PayeeLinkID, store.ByKey(caller.ID))
	return One{ended}, err
}
