package payable

import (
	"context"
	"errors"
	"net/http"
	"time"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// Service is safe for concurrent use.
type Service struct{ db *store.DB }

// New returns the service.
func New(db *store.DB) (*Service, error) {
	if db == nil {
		return nil, errors.New("cannot open the payables: the database is missing")
	}
	return &Service{db}, nil
}

// Routes adds the service's operations to the API.
func (s *Service) Routes(a route.API) {
	const read, write = route.Scope(api.SettlementRead), route.Scope(api.SettlementWrite)
	const tag = "Settlement"
	route.Add(a, route.Operation{ID: "get-issuer", Method: http.MethodGet, Path: "/v1/settlement/issuer", Tag: tag, Access: read,
		Summary: "Get the organisation that issues statements"}, s.getIssuer)
	route.Add(a, route.Operation{ID: "set-issuer", Method: http.MethodPut, Path: "/v1/settlement/issuer", Tag: tag, Access: write,
		Summary:     "Set the organisation that issues statements",
		Description: "Absent fields become empty. What was issued keeps the issuer that it shows.", Faults: issuerFaults}, s.putIssuer)
	route.Add(a, route.Operation{ID: "list-payables", Method: http.MethodGet, Path: "/v1/settlement/payables", Tag: tag, Access: read,
		Summary: "List what payees are due, newest first",
		Description: "Issuing a statement makes a payable for each payee; a correction and a void make debit and credit notes. Its number is unbroken a tenant and year. " +
			"`net` is in the currency's minor unit: the rounded sum of all that the payee got so far, less the nets before, so nothing is lost to rounding."}, s.getPayables)
	route.Add(a, route.Operation{ID: "get-payable", Method: http.MethodGet, Path: "/v1/settlement/payables/{payableId}", Tag: tag, Access: read,
		Summary: "Get what a payee is due of a statement"}, s.getPayable)
	route.AddDataOrFile(a, route.Operation{ID: "list-payouts", Method: http.MethodGet, Path: "/v1/settlement/payouts", Tag: tag, Access: read,
		Summary:     "List what is to be paid by a day",
		Description: "All payables of which something is open and due, the longest due first; credits are set off already. `csv` is a file of all of them for a payment system. Record what was paid by settle-statement.",
		Files:       []string{typeCSV}}, s.getPayouts)
}

// SchemaName returns the schema name in the OpenAPI document; so do the methods below.
func (Kind) SchemaName() string    { return "PayableKind" }
func (State) SchemaName() string   { return "PayableState" }
func (Payment) SchemaName() string { return "PayablePayment" }
func (Party) SchemaName() string   { return "PayableParty" }

// The responses.
type (
	// IssuerData is the response about the issuer.
	IssuerData struct {
		Issuer *Issuer `json:"issuer,omitempty" doc:"Absent until it is set."`
	}
	// PayableData is the response about one payable.
	PayableData struct {
		Payable Payable `json:"payable"`
	}
	// PayableList is one page of payables.
	PayableList struct {
		Payables   []Payable `json:"payables" doc:"The payables of this page."`
		NextCursor *string   `json:"nextCursor"`
	}
	// PayoutList is what is to be paid.
	PayoutList struct {
		Payouts    []Payout `json:"payouts" doc:"The longest due first."`
		NextCursor *string  `json:"nextCursor"`
	}
)

// NewIssuer is the body of a request to set the issuer.
type NewIssuer struct {
	LegalName   string  `json:"legalName" minLength:"1" maxLength:"256" doc:"Its name on papers. Never written to events." example:"Transit Screens AG"`
	Address     *string `json:"address,omitempty" nullable:"true" minLength:"1" maxLength:"1024" doc:"Its postal address on papers, in lines. Never written to events." example:"Bahnhofplatz 3\n8001 Zürich\nSwitzerland"`
	TaxID       *string `json:"taxId,omitempty" nullable:"true" minLength:"1" maxLength:"256" doc:"Its tax number on papers. Never written to events." example:"CHE-123.456.789 MWST"`
	Email       *string `json:"email,omitempty" nullable:"true" minLength:"1" maxLength:"256" doc:"Where it is asked about papers. Never written to events." example:"accounts@transit-screens.example"`
	Note        *string `json:"note,omitempty" nullable:"true" minLength:"1" maxLength:"1024" doc:"What each paper says besides, in lines: for example that it is a self-billed invoice. Never written to events." example:"Self-billing"`
	PaymentDays *int64  `json:"paymentDays,omitempty" nullable:"true" minimum:"0" maximum:"365" default:"30" doc:"How many days after its issue a paper is due, unless the counterparty's terms say otherwise." example:"30"`
}

func (n *NewIssuer) issuer() Issuer {
	i := Issuer{LegalName: n.LegalName, Address: n.Address, TaxID: n.TaxID, Email: n.Email, Note: n.Note, PaymentDays: defaultDays}
	if n.PaymentDays != nil {
		i.PaymentDays = *n.PaymentDays
	}
	return i
}

func issuerFaults(_ context.Context, read func(any) error) []api.ValidationError {
	var body NewIssuer
	if read(&body) != nil {
		return nil
	}
	i := body.issuer()
	return i.faults()
}

func (s *Service) getIssuer(ctx context.Context, _ *struct{}) (IssuerData, error) {
	found, err := issuerOf(ctx, s.db.Read(), auth.PrincipalFrom(ctx).TenantID)
	return IssuerData{found}, err
}

type issuerInput struct{ Body NewIssuer }

func (s *Service) putIssuer(ctx context.Context, in *issuerInput) (IssuerData, error) {
	caller, requested := auth.PrincipalFrom(ctx), in.Body.issuer()
	requested.TenantID = caller.TenantID
	var made Issuer
	err := s.db.Change(ctx, func(tx *store.Tx) (err error) {
		made, err = set(ctx, tx, requested, store.ByKey(caller.ID))
		return err
	})
	return IssuerData{&made}, err
}

type payablesInput struct {
	route.Page
	StatementID    string `query:"statementId" maxLength:"64" doc:"Only those of this statement."`
	CounterpartyID string `query:"counterpartyId" maxLength:"64" doc:"Only those of this payee."`
	Number         string `query:"number" maxLength:"32" doc:"Only the one with this number."`
	State          string `query:"state" enum:"DUE,PAID" doc:"Only those in this state."`
	IssuedSince    string `query:"issuedSince" maxLength:"10" doc:"Only what was issued on this day or later, in the tenant's time zone." example:"2026-12-01"`
	IssuedBy       string `query:"issuedBy" maxLength:"10" doc:"Only what was issued on this day or before." example:"2026-12-31"`
	DueSince       string `query:"dueSince" maxLength:"10" doc:"Only what is due on this day or later, in the tenant's time zone." example:"2026-12-01"`
	DueBy          string `query:"dueBy" maxLength:"10" doc:"Only what is due on this day or before." example:"2026-12-31"`
	Overdue        string `query:"overdue" enum:"true,false" doc:"true: only what is still open although it was due before today, in the tenant's time zone; no credits, which nobody pays."`
}

func (s *Service) getPayables(ctx context.Context, in *payablesInput) (PayableList, error) {
	slice, err := in.Slice()
	if err != nil {
		return PayableList{}, err
	}
	f := filter{
		statementID: in.StatementID, counterpartyID: in.CounterpartyID, number: in.Number, state: in.State,
		issuedSince: in.IssuedSince, issuedBy: in.IssuedBy, dueSince: in.DueSince, dueBy: in.DueBy,
	}
	for _, of := range []struct{ field, day string }{{"issuedSince", f.issuedSince}, {"issuedBy", f.issuedBy}, {"dueSince", f.dueSince}, {"dueBy", f.dueBy}} {
		if err := checkDay(of.field, of.day); err != nil {
			return PayableList{}, err
		}
	}
	tenantID := auth.PrincipalFrom(ctx).TenantID
	if in.Overdue == "true" {
		if f.overdueOn, err = tenant.Today(ctx, s.db.Read(), tenantID, s.db.Now()); err != nil {
			return PayableList{}, err
		}
	}
	page, next, err := list(ctx, s.db.Read(), tenantID, f, slice)
	return PayableList{page, in.Next(next)}, err
}

// checkDay refuses a text of a parameter that is no day; an empty one is none.
func checkDay(field, day string) error {
	if _, err := time.Parse(time.DateOnly, day); day != "" && err != nil {
		return api.InvalidField(field, "must be a date, as 2026-12-31")
	}
	return nil
}

type payableInput struct {
	PayableID string `path:"payableId"`
}

func (s *Service) getPayable(ctx context.Context, in *payableInput) (PayableData, error) {
	found, err := payables.Find(ctx, s.db.Read(), auth.PrincipalFrom(ctx).TenantID, in.PayableID)
	if err != nil {
		return PayableData{}, err
	}
	return PayableData{*found}, nil
}
