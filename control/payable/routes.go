package payable

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"net/http"
	"time"

	"muniment/control/route"
	"muniment/control/settle/rate"
	"muniment/control/store"
	"muniment/control/tenant"
	"muniment/gateway/api"
	"muniment/gateway/auth"
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
		Description: "All payables of which something is open and due, the longest due first; credits are set off already. `csv` is a file for a payment system. Record what was paid by settle-statement.",
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
		Payouts []Payout `json:"payouts" doc:"The longest due first."`
	}
)

// Payout is what is to be paid of a payable.
type Payout struct {
	Number         string  `json:"number" doc:"The payable's number, for the payment."`
	PayableID      string  `json:"payableId" doc:"The payable."`
	StatementID    string  `json:"statementId" doc:"The statement that states it."`
	CounterpartyID string  `json:"counterpartyId" doc:"The payee."`
	Payee          string  `json:"payee" doc:"The payee's legal name, or its name."`
	PayoutRef      *string `json:"payoutRef" doc:"The payment destination that the counterparty has now."`
	Amount         string  `json:"amount" doc:"Decimal: what is open."`
	Currency       string  `json:"currency" doc:"A code of ISO 4217."`
	DueOn          string  `json:"dueOn" format:"date" doc:"The day on which it is due."`
}

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
}

func (s *Service) getPayables(ctx context.Context, in *payablesInput) (PayableList, error) {
	slice, err := in.Slice()
	if err != nil {
		return PayableList{}, err
	}
	page, next, err := list(ctx, s.db.Read(), auth.PrincipalFrom(ctx).TenantID, filter{in.StatementID, in.CounterpartyID, in.Number, in.State}, slice)
	return PayableList{page, in.Next(next)}, err
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

const typeCSV = "text/csv"

type payoutsInput struct {
	DueBy    string `query:"dueBy" maxLength:"10" doc:"Only what is due on this day or before; absent: today, in the tenant's time zone." example:"2026-12-31"`
	Currency string `query:"currency" maxLength:"3" doc:"Only those in this currency."`
	Format   string `query:"format" enum:"json,csv" default:"json" doc:"The format of the response."`
	BOM      string `query:"bom" enum:"true,false" doc:"Requires format csv: the file is for spreadsheets. It begins with a byte order mark, and an apostrophe precedes text that would be a formula."`
}

func (s *Service) getPayouts(ctx context.Context, in *payoutsInput) (d PayoutList, f *route.File, err error) {
	if in.BOM == "true" && in.Format != "csv" {
		return d, nil, api.InvalidField("bom", "requires format csv")
	}
	if in.Currency != "" && !rate.IsCurrency(in.Currency) {
		return d, nil, api.InvalidField("currency", rate.NoCurrency)
	}
	caller := auth.PrincipalFrom(ctx)
	by := in.DueBy
	if _, err := time.Parse(time.DateOnly, by); by != "" && err != nil {
		return d, nil, api.InvalidField("dueBy", "must be a date, as 2026-12-31")
	}
	if by == "" {
		if by, err = tenant.Today(ctx, s.db.Read(), caller.TenantID, s.db.Now()); err != nil {
			return d, nil, err
		}
	}
	if d.Payouts, err = payouts(ctx, s.db.Read(), caller.TenantID, by, in.Currency); err != nil || in.Format == "json" {
		return d, nil, err
	}
	text, err := asCSV(d.Payouts, in.BOM == "true")
	if in.BOM == "true" {
		text = append([]byte(route.ByteOrderMark), text...)
	}
	return d, (&route.File{Name: "payouts-" + by + ".csv", Type: typeCSV + "; charset=utf-8"}).Holding(text), err
}

// payouts lists what is open and due by a day.
func payouts(ctx context.Context, q store.Querier, tenantID, by, currency string) ([]Payout, error) {
	list := []Payout{}
	scan := func(row store.Row) (p Payout, err error) {
		var gross, paid string
		if err := row.Scan(&p.PayableID, &p.StatementID, &p.CounterpartyID, &p.Number, &p.Currency, &p.DueOn, &gross, &paid, &p.Payee, &p.PayoutRef); err != nil {
			return p, err
		}
		p.Amount, err = (&Payable{Gross: gross, PaidAmount: paid, Currency: p.Currency}).Open()
		return p, err
	}
	err := store.Each(ctx, q, "what is due", scan, func(p Payout) error {
		if left, err := rate.ParseAmount(p.Amount); err != nil || left <= 0 {
			return err
		}
		list = append(list, p)
		return nil
	}, `SELECT p.payable_id, p.statement_id, p.counterparty_id, p.number, p.currency, p.due_on, p.gross, p.paid_amount, COALESCE(c.legal_name, c.name), c.payout_ref
		FROM payables p JOIN counterparties c ON c.tenant_id = p.tenant_id AND c.counterparty_id = p.counterparty_id
		WHERE p.tenant_id = $1 AND p.state = 'DUE' AND p.due_on <= $2 AND ($3 = '' OR p.currency = $3) ORDER BY p.due_on, p.sequence`, tenantID, by, currency)
	return list, err
}

// asCSV writes a row for each payout. Its texts are as they are, for a payment system; for spreadsheets they
// are inert.
func asCSV(list []Payout, inert bool) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write([]string{"payee", "reference", "amount", "currency", "number", "dueOn", "counterpartyId", "statementId"})
	for _, p := range list {
		reference := ""
		if p.PayoutRef != nil {
			reference = *p.PayoutRef
		}
		if inert {
			p.Payee, reference = route.Inert(p.Payee), route.Inert(reference)
		}
		_ = w.Write([]string{p.Payee, reference, p.Amount, p.Currency, p.Number, p.DueOn, p.CounterpartyID, p.StatementID})
	}
	w.Flush()
	return b.Bytes(), w.Error()
}
