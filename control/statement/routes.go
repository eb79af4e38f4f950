package statement

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"muniment.example/control/paper"
	"muniment.example/control/payable"
	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/sealer/calendar"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/statement"
)

// Routes adds the service's operations to the API.
func (s *Service) Routes(a route.API) {
	const read, write = route.Scope(api.SettlementRead), route.Scope(api.SettlementWrite)
	const tag = "Settlement"
	route.Add(a, route.Operation{ID: "get-settlement", Method: http.MethodGet, Path: "/v1/settlement", Tag: tag, Access: read, Heavy: true,
		Summary: "Rate receipts: what is stated as it is stated, the rest by the current rules",
		Description: "Rates the loaded receipts. The result changes as receipts arrive and rules and disputes change; a statement doesn't. " +
			"Tiers, minimums and caps apply to statements and dry runs only."}, s.getSettlement)
	route.Add(a, route.Operation{ID: "reconcile-settlement", Method: http.MethodGet, Path: "/v1/settlement/reconciliation", Tag: tag, Access: read, Heavy: true,
		Summary: "Check that packs, warehouse and statements of a period agree",
		Description: "Compares the counts in the headers of packs with the rows of the same entries, recomputes each issued statement, and lists what came to stated times since. " +
			"`muniment verify` proves the same offline, from the packs alone. The response is 503 `WAREHOUSE_BEHIND` while the warehouse lacks sealed events."}, s.getReconciliation)
	route.Add(a, route.Operation{ID: "dry-run-settlement-rule", Method: http.MethodPost, Path: "/v1/settlement/rules/dry-run", Tag: tag, Access: read, Heavy: true,
		Summary:     "Compute what a rule would have paid",
		Description: "Rates a period by the current rules and the given one, as if it had just been created. Nothing is stored."}, s.postDryRun)
	route.Add(a, route.Operation{ID: "draft-statement", Method: http.MethodPost, Path: "/v1/settlement/statements", Tag: tag, Access: write, Heavy: true,
		Summary: "Draft a statement",
		Description: "Seals the log, and states the receipts of the period that the packs hold, by the rules that the log holds. A receipt that an issued statement states keeps the rule by which it was stated. " +
			"The response is 409 if the period overlaps with that of an issued statement in the same currency, unless both are for single, different counterparties. " +
			"503 `WAREHOUSE_BEHIND` means that not all events are sealed yet: send the request again."}, s.post)
	route.Add(a, route.Operation{ID: "list-statements", Method: http.MethodGet, Path: "/v1/settlement/statements", Tag: tag, Access: read,
		Summary: "List the statements, newest first"}, s.getAll)
	route.AddDataOrFile(a, route.Operation{ID: "get-statement", Method: http.MethodGet, Path: "/v1/settlement/statements/{statementId}", Tag: tag, Access: read, Heavy: true,
		Summary: "Get a statement", Errors: []int{http.StatusConflict},
		Description: "`json` is in the envelope: `data.statement` is the record, `data.document` the signed text. `csv` is a table for spreadsheets. `html` is a page for people, and `pdf` the same to print or send; " +
			"if its fonts, Go Regular, Bold and Mono, lack a character of a name, the response is the page instead, and says so. With `payee` they show the part of one payee, with its number, parties, tax and due date. " +
			"`signed` is the file of two lines that `muniment verify` accepts, whose SHA-256 is the statement's; it is available once the statement is ISSUED.",
		Files: []string{typeCSV, typeHTML, typePDF, typeSigned}}, s.get)
	route.Add(a, route.Operation{ID: "list-statement-receipts", Method: http.MethodGet, Path: "/v1/settlement/statements/{statementId}/receipts", Tag: tag, Access: read, Heavy: true,
		Summary: "List the receipts behind the lines of a statement"}, s.getReceipts)
	route.Add(a, route.Operation{ID: "issue-statement", Method: http.MethodPost, Path: "/v1/settlement/statements/{statementId}/issue", Tag: tag, Access: write,
		Summary:     "Issue a DRAFT: sign and freeze it",
		Description: "The response is 409 if the draft was made before its period ended, or if statements or disputes that concern its period were issued, voided, opened or resolved since: draft it again."}, s.postIssue)
	route.Add(a, route.Operation{ID: "discard-statement", Method: http.MethodDelete, Path: "/v1/settlement/statements/{statementId}", Tag: tag, Access: write,
		Summary: "Discard a DRAFT", Description: "Deletes its document and keeps its record as DISCARDED."}, s.deleteStatement)
	route.Add(a, route.Operation{ID: "correct-statement", Method: http.MethodPost, Path: "/v1/settlement/statements/{statementId}/correct", Tag: tag, Access: write, Heavy: true,
		Summary: "Draft a correction of a statement that is ISSUED or SETTLED",
		Description: "Seals the log, and restates the whole period with late receipts, the current rules and the current disputes. Receipts that are stated keep the rule by which they were stated. The draft is issued, settled, " +
			"discarded and shown like any other; once it is ISSUED, its difference is what remains to be paid. The correction of a correction corrects the same first statement. The response is 409 if nothing has changed. " +
			"503 `WAREHOUSE_BEHIND` means that not all events are sealed yet: send the request again."}, s.postCorrect)
	route.Add(a, route.Operation{ID: "void-statement", Method: http.MethodPost, Path: "/v1/settlement/statements/{statementId}/void", Tag: tag, Access: write,
		Summary: "Void a statement that is ISSUED or SETTLED, with its corrections",
		Description: "Issues a statement of the same period with a total of 0, whose difference takes back all that was stated. It and all statements of the period that it ends become VOIDED, and the period can be stated again. " +
			"What other statements state stands, by the rules by which they state it."}, s.postVoid)
	route.Add(a, route.Operation{ID: "settle-statement", Method: http.MethodPost, Path: "/v1/settlement/statements/{statementId}/settle", Tag: tag, Access: write,
		Summary: "Record a payment of a statement, or take one back",
		Description: "In whole or in part, for all its payees or for one. The statement stays ISSUED, with its `paidAmount` and `dueAmount`, until nothing is open; then it is SETTLED. " +
			"An amount below zero takes back payments that were recorded by mistake, at most what was recorded; if something is open again, a SETTLED statement is ISSUED again. " +
			"Credits need no payment: they are set off against what the payee is due in the currency, the oldest first."}, s.postSettle)
}

// The responses about statements.
type (
	// StatementData is the response about one statement.
	StatementData struct {
		Statement Statement `json:"statement"`
	}
	// StatementList is one page of statements.
	StatementList struct {
		Statements []Statement `json:"statements"`
		NextCursor *string     `json:"nextCursor"`
	}
)

// NewStatement is the body of a request for a draft.
type NewStatement struct {
	NewPeriod
	Currency       string  `json:"currency" minLength:"3" maxLength:"3" doc:"A code of ISO 4217." example:"EUR"`
	CounterpartyID *string `json:"counterpartyId,omitempty" nullable:"true" maxLength:"64" doc:"The counterparty whose shares to state; absent: all counterparties."`
}

type draftInput struct{ Body NewStatement }

func (d *drafter) post(ctx context.Context, in *draftInput) (StatementData, error) {
	caller, requested := auth.PrincipalFrom(ctx), in.Body
	asked, err := d.period(ctx, caller.TenantID, &requested.NewPeriod)
	if err != nil {
		return StatementData{}, err
	}
	if !rate.IsCurrency(requested.Currency) {
		return StatementData{}, errCurrency
	}
	asked.Currency, asked.CounterpartyID = requested.Currency, requested.CounterpartyID
	made, err := d.draft(ctx, asked, store.ByKey(caller.ID))
	return StatementData{made}, err
}

// errCurrency refuses a currency that no rule can have.
var errCurrency = api.InvalidField("currency", rate.NoCurrency)

// NewPeriod is the period of a request: by its name, or by its ends.
type NewPeriod struct {
	Period   *string     `json:"period,omitempty" nullable:"true" maxLength:"10" doc:"A month, a week of ISO 8601 or a day of timeZone; absent: from and to." example:"2026-11"`
	TimeZone *string     `json:"timeZone,omitempty" nullable:"true" minLength:"1" maxLength:"64" doc:"IANA time zone of the period, and of dates without a time; absent: the tenant's." example:"Europe/Berlin"`
	From     *route.Time `json:"from,omitempty" nullable:"true" doc:"Start of the period, by renderedAt; without period."`
	To       *route.Time `json:"to,omitempty" nullable:"true" doc:"End of the period, exclusive; without period. A draft can be issued if it was made after the end."`
}

// period reads a period, and returns a statement with nothing else.
func (c *core) period(ctx context.Context, tenantID string, p *NewPeriod) (s Statement, err error) {
	s = Statement{TenantID: tenantID}
	if p.TimeZone != nil {
		s.TimeZone = *p.TimeZone
	} else if s.TimeZone, err = tenant.TimeZone(ctx, c.db.Read(), tenantID); err != nil {
		return s, err
	}
	zone, err := route.Zone(s.TimeZone)
	if err != nil {
		return s, err
	}
	s.TimeZone = zone.String()
	switch {
	case p.Period != nil && (p.From != nil || p.To != nil):
		return s, api.InvalidField("period", "can't be combined with from or to")
	case p.Period != nil:
		from, to, err := calendar.Period(*p.Period, zone)
		if err != nil {
			return s, api.InvalidField("period", err.Error())
		}
		s.From, s.To = store.At(from), store.At(to)
	case p.From == nil || p.To == nil:
		return s, api.InvalidField("period", "is missing: give it, or from and to")
	default:
		if s.From, err = route.GivenIn(zone, "from", p.From); err != nil {
			return s, err
		}
		if s.To, err = route.GivenIn(zone, "to", p.To); err != nil {
			return s, err
		}
		if !s.From.Before(s.To.Time) {
			return s, api.InvalidField("to", "must be later than from")
		}
	}
	if name := calendar.Name(s.From.Time, s.To.Time, zone); name != "" {
		s.Period = &name
	}
	return s, nil
}

type listInput struct {
	route.Page
	State          string `query:"state" enum:"DRAFT,DISCARDED,ISSUED,SETTLED,VOIDED" doc:"Only statements in this state."`
	Currency       string `query:"currency" maxLength:"3" doc:"Only statements in this currency."`
	CounterpartyID string `query:"counterpartyId" maxLength:"64" doc:"Only statements of this counterparty."`
	Corrects       string `query:"corrects" maxLength:"64" doc:"Only corrections of this statement, which is the first one of its period."`
}

func (s *Service) getAll(ctx context.Context, in *listInput) (StatementList, error) {
	slice, err := in.Slice()
	if err == nil && in.Currency != "" && !rate.IsCurrency(in.Currency) {
		err = errCurrency
	}
	if err != nil {
		return StatementList{}, err
	}
	tenantID := auth.PrincipalFrom(ctx).TenantID
	var page []Statement
	var next string
	err = s.db.View(ctx, func(q store.Querier) (err error) {
		if page, next, err = list(ctx, q, tenantID, filter{in.State, in.Currency, in.CounterpartyID, in.Corrects}, slice); err != nil {
			return err
		}
		return markStale(ctx, q, tenantID, page)
	})
	return StatementList{page, in.Next(next)}, err
}

type getInput struct {
	StatementID string `path:"statementId"`
	Format      string `query:"format" enum:"json,csv,html,pdf,signed" default:"json" doc:"The format of the response."`
	Table       string `query:"table" enum:"lines,shares,changes" doc:"Requires format csv: which table. lines, the default, has a row for each line and adjustment, whose amounts sum to the total; shares one for each share of them; changes one for each change of a correction, which sum to its difference, and with payee to what that one gets more or less: then a row may have several reasons, separated by spaces."`
	Payee       string `query:"payee" maxLength:"64" doc:"Requires format csv, html or pdf: only the part of this counterparty."`
	BOM         string `query:"bom" enum:"true,false" doc:"Requires format csv: the file begins with a byte order mark, as spreadsheets need it to read UTF-8."`
}

// StatementDocument is a statement with its document.
type StatementDocument struct {
	Statement Statement       `json:"statement"`
	Document  json.RawMessage `json:"document" doc:"The signed text, or, of a DRAFT, the text to be signed: RFC 8785 JSON. Null once it is DISCARDED, or if a restored database lacks it."`
}

// The media types of files.
const (
	typeCSV    = "text/csv"
	typeHTML   = "text/html"
	typePDF    = "application/pdf"
	typeSigned = "application/x-ndjson"

	charset = "; charset=utf-8" // of csv and html
)

// paper is what people see of a statement, of all payees or of one.
func (s *Service) paper(ctx context.Context, found *fullStatement, document *statement.Statement, counterpartyID string) (*paper.Paper, error) {
	all, err := payable.Of(ctx, s.db.Read(), found.TenantID, found.ID)
	if err != nil {
		return nil, err
	}
	organisation, err := tenant.Organisation(ctx, s.db.Read(), found.TenantID)
	if err != nil {
		return nil, err
	}
	rights := map[string]bool{}
	for _, l := range document.Lines {
		rights[l.RightID] = true
	}
	for _, u := range document.Unrated {
		rights[u.RightID] = true
	}
	if c := document.Correction; c != nil {
		for _, change := range c.Changes {
			rights[change.RightID] = true
		}
	}
	titles, err := s.cfg.Titles(ctx, found.TenantID, slices.Sorted(maps.Keys(rights)))
	if err != nil {
		return nil, err
	}
	p := &paper.Paper{
		ID: found.ID, TenantID: found.TenantID, Organisation: organisation, State: string(found.State), Period: found.Period, IssuedAt: found.IssuedAt.Time, SettledAt: found.SettledAt.Time,
		SHA256: found.SHA256, PackID: found.PackID, Reference: found.Reference, Document: *document, Payables: all, Rights: titles,
	}
	if counterpartyID == "" && found.CounterpartyID == nil {
		return p, nil
	}
	if counterpartyID == "" {
		counterpartyID = *found.CounterpartyID
	}
	if _, named := p.Names()[counterpartyID]; !named && (found.CounterpartyID == nil || *found.CounterpartyID != counterpartyID) {
		return nil, api.InvalidField("payee", "is none of the statement")
	}
	if c := document.Correction; c != nil {
		if p.Previous, err = s.signed(ctx, found.TenantID, c.Previous); err != nil {
			return nil, err
		}
	}
	return p.For(counterpartyID)
}

// signed returns the document that a correction corrects, nil if its text is not there any more, or is not
// the signed one.
func (s *Service) signed(ctx context.Context, tenantID string, previous statement.Predecessor) (*statement.Statement, error) {
	found, err := statements.Find(ctx, s.db.Read(), tenantID, previous.StatementID)
	if err != nil {
		return nil, err
	}
	if found.edited() || *found.SHA256 != previous.SHA256 {
		return nil, nil
	}
	document, err := found.document()
	return &document, err
}

// errNoChanges refuses the changes of one payee of several, which only the text before shows.
func errNoChanges(id string) error {
	return api.Conflict("the changes of one payee are computed from the text of " + id + " too, which the database lacks, because it was restored from an older copy or edited: the table without payee has the changes of all together")
}

// shown is a paper as a file.
func (in *getInput) shown(p *paper.Paper) (text []byte, f *route.File, err error) {
	called := p.ID
	if one := p.One(); one != nil && in.Payee != "" {
		called = one.Number // the paper of all payees has another name
	}
	page := &route.File{Type: typeHTML + charset, Header: map[string]string{"Content-Security-Policy": paper.PagePolicy}}
	switch in.Format {
	case "csv":
		if c := p.Document.Correction; c != nil && c.Changes == nil && in.Table == string(paper.Changes) {
			return nil, nil, errNoChanges(c.Previous.StatementID)
		}
		name := called + ".csv"
		if in.Table != "" {
			name = called + "-" + in.Table + ".csv"
		}
		text, err = p.CSV(paper.Table(cmp.Or(in.Table, string(paper.Lines))))
		if in.BOM == "true" {
			text = append([]byte(route.ByteOrderMark), text...)
		}
		return text, &route.File{Name: name, Type: typeCSV + charset}, err
	case "pdf":
		text, lacking, err := p.PDF()
		switch {
		case errors.Is(err, paper.ErrLong):
			text, err = p.HTML("This page is shown in place of a PDF: the statement " + err.Error() + ".")
			return text, page, err
		case err != nil || lacking == "":
			return text, &route.File{Name: called + ".pdf", Type: typePDF}, err
		}
		text, err = p.HTML("This page is shown in place of a PDF, whose fonts lack: " + lacking)
		return text, page, err
	}
	text, err = p.HTML("")
	return text, page, err
}

func (s *Service) get(ctx context.Context, in *getInput) (d StatementDocument, f *route.File, err error) {
	if in.BOM == "true" && in.Format != "csv" {
		return d, nil, api.InvalidField("bom", "requires format csv")
	}
	if in.Table != "" && in.Format != "csv" {
		return d, nil, api.InvalidField("table", "requires format csv")
	}
	if in.Payee != "" && !slices.Contains([]string{"csv", "html", "pdf"}, in.Format) {
		return d, nil, api.InvalidField("payee", "requires format csv, html or pdf")
	}
	found, err := statements.Find(ctx, s.db.Read(), auth.PrincipalFrom(ctx).TenantID, in.StatementID)
	if err != nil {
		return d, nil, err
	}
	if found.Document == "" && in.Format == "json" {
		return StatementDocument{found.Statement, nil}, nil, nil
	}
	document, err := found.document()
	if err != nil {
		return d, nil, err
	}
	var text []byte
	switch in.Format {
	case "csv", "html", "pdf":
		shown, err := s.paper(ctx, found, &document, in.Payee)
		if err != nil {
			return d, nil, err
		}
		if text, f, err = in.shown(shown); err != nil {
			return d, nil, err
		}
	case "signed":
		if found.State == Draft {
			return d, nil, api.Conflict("statement is DRAFT: it is signed when it is issued")
		}
		f = &route.File{Name: found.ID + ".json", Type: typeSigned}
		text = []byte(found.Document)
	default:
		signed, _, _ := strings.Cut(found.Document, "\n")
		read := []Statement{found.Statement}
		err := s.db.View(ctx, func(q store.Querier) error { return markStale(ctx, q, found.TenantID, read) })
		return StatementDocument{read[0], json.RawMessage(signed)}, nil, err
	}
	return d, f.Holding(text), nil
}

type statementInput struct {
	StatementID string `path:"statementId"`
}

func (s *Service) postIssue(ctx context.Context, in *statementInput) (StatementData, error) {
	caller := auth.PrincipalFrom(ctx)
	issued, err := s.issue(ctx, caller.TenantID, in.StatementID, store.ByKey(caller.ID))
	return StatementData{issued}, err
}

func (d *drafter) postCorrect(ctx context.Context, in *statementInput) (StatementData, error) {
	caller := auth.PrincipalFrom(ctx)
	made, err := d.correct(ctx, caller.TenantID, in.StatementID, store.ByKey(caller.ID))
	return StatementData{made}, err
}

func (s *Service) deleteStatement(ctx context.Context, in *statementInput) (StatementData, error) {
	caller := auth.PrincipalFrom(ctx)
	discarded, err := s.discard(ctx, caller.TenantID, in.StatementID, store.ByKey(caller.ID))
	return StatementData{discarded}, err
}

// Payment is the body of a request to settle a statement.
type Payment struct {
	Reference      string  `json:"reference" minLength:"1" maxLength:"256" doc:"The payment's reference. Kept in the audit log permanently: no place for personal data."`
	Date           *string `json:"date,omitempty" nullable:"true" format:"date" maxLength:"10" doc:"The day of the payment, today or before, at most a year before the statement was issued; absent: today, in the tenant's time zone." example:"2026-12-14"`
	Amount         *string `json:"amount,omitempty" nullable:"true" maxLength:"32" pattern:"^-?[0-9]+([.][0-9]{1,6})?$" doc:"Decimal: a part of what is open, of a credit below zero; of the other sign, what is taken back of the payments that were recorded. Absent: all that is open." example:"100.00"`
	CounterpartyID *string `json:"counterpartyId,omitempty" nullable:"true" maxLength:"64" doc:"The payee who was paid. Absent: all of the statement, which with an amount can be only one."`
}

// Voiding is the body of a request to void a statement.
type Voiding struct {
	Reason string `json:"reason" minLength:"1" maxLength:"1024" doc:"Why. It is signed, and kept in the audit log permanently: no place for personal data."`
}

type voidInput struct {
	StatementID string `path:"statementId"`
	Body        Voiding
}

func (s *Service) postVoid(ctx context.Context, in *voidInput) (StatementData, error) {
	caller := auth.PrincipalFrom(ctx)
	voided, err := s.void(ctx, caller.TenantID, in.StatementID, in.Body.Reason, store.ByKey(caller.ID))
	return StatementData{voided}, err
}

type settleInput struct {
	StatementID string `path:"statementId"`
	Body        Payment
}

func (s *Service) postSettle(ctx context.Context, in *settleInput) (d StatementData, err error) {
	caller := auth.PrincipalFrom(ctx)
	of := payable.Payments{CounterpartyID: in.Body.CounterpartyID, Amount: in.Body.Amount, Reference: in.Body.Reference}
	if in.Body.Date != nil {
		of.Date = *in.Body.Date
	} else if of.Date, err = tenant.Today(ctx, s.db.Read(), caller.TenantID, s.db.Now()); err != nil {
		return d, err
	}
	d.Statement, err = s.settle(ctx, caller.TenantID, in.StatementID, of, store.ByKey(caller.ID))
	return d, err
}
