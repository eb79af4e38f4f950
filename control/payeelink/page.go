package payeelink

import (
	"context"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"strings"
	"time"

	"muniment.example/control/paper"
	"muniment.example/control/payable"
	"muniment.example/control/statement"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/checkpoint"
	sealerstatement "muniment.example/sealer/statement"
)

// The files of a link, behind its token.
const (
	filePDF    = "pdf"
	fileCSV    = "csv"
	fileJSON   = "json"
	fileSigned = "signed"
	fileProof  = "proof"
)

// answer is what a request gets.
type answer struct {
	status int
	kind   string // the media type
	name   string // of a download; empty: it is shown
	body   []byte
}

// ServeHTTP serves what is under Path. Whatever is wrong with a token, the answer is the same.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, err := s.answer(r)
	if err != nil {
		if e := api.From(err); e.GetStatus() == http.StatusInternalServerError && r.Context().Err() == nil {
			s.cfg.Logger.Error("a page of a payee's link failed", "err", err)
		}
		a = refusal(err)
	}
	h := w.Header()
	if err != nil {
		e := api.From(err)
		s.backoff.Tell(h, e.RetryAfterSeconds(), e.Reason)
	}
	h.Set("Content-Type", a.kind)
	h.Set("Content-Security-Policy", "sandbox allow-downloads; "+paper.PagePolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Robots-Tag", "noindex, nofollow, noarchive")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if a.name != "" {
		h.Set("Content-Disposition", `attachment; filename="`+a.name+`"`)
	}
	if a.status == http.StatusMethodNotAllowed {
		h.Set("Allow", "GET, HEAD")
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // a browser that is gone reads nothing
}

// The errors of requests.
var (
	errNone      = &api.Error{Code: api.ResourceNotFound, Message: "this link is not complete, has ended or was revoked: ask who sent it for another one"}
	errMethod    = &api.Error{Code: api.BadRequest, HTTPStatus: http.StatusMethodNotAllowed, Message: "this page can only be read"}
	errBusy      = api.Unavailable(api.Overloaded, "too many papers are being made: open this page again in a moment", patience)
	errNoFile    = api.Conflict("this paper has no such file")
	errNotSealed = api.Conflict("the log is not signed up to this paper yet: try again in an hour")
)

func (s *Service) answer(r *http.Request) (answer, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return answer{}, errMethod
	}
	ctx := r.Context()
	token, file, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, Path), "/"), "/")
	l, err := s.inForce(ctx, token)
	if err == nil && l == nil {
		err = errNone
	}
	if err != nil {
		return answer{}, err
	}
	release, err := s.places.take(ctx, l)
	if err != nil {
		return answer{}, err
	}
	defer release()
	part, err := s.cfg.Statements.PartOf(ctx, l.TenantID, l.StatementID, l.CounterpartyID)
	if err != nil {
		return answer{}, err
	}
	if file == "" {
		zone, err := tenant.Zone(ctx, s.db.Read(), l.TenantID)
		if err != nil {
			return answer{}, err
		}
		page, err := part.Paper.Handed(handout(l, part, token, zone))
		return answer{status: http.StatusOK, kind: "text/html; charset=utf-8", body: page}, err
	}
	return s.file(ctx, part, file)
}

// handout is what the page shows besides the paper, with days of the tenant's time zone, as papers have them.
func handout(l *Link, part *statement.Part, token string, zone *time.Location) *paper.Handout {
	at := Path + "/" + token + "/"
	h := &paper.Handout{Until: l.ExpiresAt.Time, Alone: part.Signed != nil, Files: []paper.File{
		{Name: "PDF", Href: at + filePDF, About: "This paper to print or to keep"},
		{Name: "CSV", Href: at + fileCSV, About: map[paper.Table]string{paper.Lines: "The lines for a spreadsheet", paper.Changes: "What changes, for a spreadsheet: it adds up to this paper"}[part.Paper.Own()]},
		{Name: "JSON", Href: at + fileJSON, About: "The same for programs"},
	}}
	if id, _ := payableOf(part.Paper); id != "" {
		h.Verify = "/verify#payee=" + token
		h.Files = append(h.Files, paper.File{Name: "Proof", Href: at + fileProof, About: "The entry of the log, for muniment verify"})
	}
	if part.Signed != nil {
		h.Files = append(h.Files, paper.File{Name: "Signed statement", Href: at + fileSigned, About: "For muniment verify, with the packs"})
	}
	day := func(s *statement.Statement) string { return s.IssuedAt.In(zone).Format("2 January 2006") }
	switch {
	case part.Voids != nil:
		h.Notes = append(h.Notes, "This statement was voided on "+day(part.Voids)+": nothing of it is due any more.")
	case part.Corrected != nil:
		h.Notes = append(h.Notes, "This statement was corrected on "+day(part.Corrected)+". What is due more or less by the correction has a paper of its own: ask the issuer for its link.")
	}
	if part.Again != nil {
		h.Notes = append(h.Notes, "The period was stated again on "+day(part.Again)+": ask the issuer for the link to that statement.")
	}
	return h
}

// file makes a file of a payee's part.
func (s *Service) file(ctx context.Context, part *statement.Part, file string) (answer, error) {
	p := part.Paper
	id, number := payableOf(p)
	name := p.ID
	if number != "" {
		name = number
	}
	switch file {
	case filePDF:
		text, lacking, err := p.PDF()
		if errors.Is(err, paper.ErrLong) || err == nil && lacking != "" { // as for the tenant
			text, err = p.HTML("This page is shown in place of a PDF, which can't have all of it. Print it, or keep it.")
			return answer{status: http.StatusOK, kind: "text/html; charset=utf-8", body: text}, err
		}
		return answer{status: http.StatusOK, kind: "application/pdf", name: name + ".pdf", body: text}, err
	case fileCSV:
		own := p.Own()
		if own == paper.Changes && p.Document.Correction.Changes == nil && p.Previous == nil { // as the text before is lost
			return answer{}, errNoFile
		}
		text, err := p.CSV(own)
		return answer{status: http.StatusOK, kind: "text/csv; charset=utf-8", name: name + ".csv", body: append([]byte("\ufeff"), text...)}, err
	case fileJSON:
		text, err := json.MarshalIndent(dataOf(part), "", "  ")
		return answer{status: http.StatusOK, kind: "application/json", name: name + ".json", body: text}, err
	case fileSigned:
		if part.Signed != nil {
			return answer{status: http.StatusOK, kind: "application/x-ndjson", name: p.ID + ".json", body: part.Signed}, nil
		}
	case fileProof:
		if id != "" {
			text, err := s.proof(ctx, p.TenantID, id)
			return answer{status: http.StatusOK, kind: "application/json", name: "proof-" + name + ".json", body: text}, err
		}
	}
	return answer{}, errNoFile
}

// proof is the event by which a payable got its number, and the proof that the signed log has it: a file for muniment
// verify.
func (s *Service) proof(ctx context.Context, tenantID, payableID string) ([]byte, error) {
	rows, err := s.cfg.Log.Events(ctx, pipeline.EventQuery{TenantID: tenantID, Types: []string{payable.TypeIssued}, SubjectKind: "payable", SubjectID: payableID, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, errNotSealed
	}
	proof, found, err := s.cfg.Log.Inclusion(ctx, rows[0], false)
	if err == nil && !found {
		err = errNotSealed
	}
	if err != nil {
		return nil, err
	}
	return checkpoint.FormatProvenEvent(rows[0].Event, &proof)
}

// data is a payee's part for programs.
type data struct {
	StatementID    string                       `json:"statementId"`
	State          string                       `json:"state"`
	Period         *string                      `json:"period"`
	From           canonical.Moment             `json:"from"`
	To             canonical.Moment             `json:"to"`
	TimeZone       string                       `json:"timeZone"`
	Currency       string                       `json:"currency"`
	Total          string                       `json:"total"`
	IssuedAt       store.Instant                `json:"issuedAt"`
	SHA256         *string                      `json:"sha256"` // of the signed file
	CounterpartyID string                       `json:"counterpartyId"`
	Name           string                       `json:"name"`
	Payable        *payable.Payable             `json:"payable"`
	Lines          []sealerstatement.Line       `json:"lines"`
	Adjustments    []sealerstatement.Adjustment `json:"adjustments"`
	Correction     *sealerstatement.Correction  `json:"correction"`
	VoidedAt       store.Instant                `json:"voidedAt"`
	CorrectedAt    store.Instant                `json:"correctedAt"`
}

func dataOf(part *statement.Part) data {
	p, d := part.Paper, &part.Paper.Document
	all := data{
		StatementID: p.ID, State: p.State, Period: p.Period, From: d.From, To: d.To, TimeZone: d.TimeZone, Currency: d.Currency, Total: d.Total,
		IssuedAt: part.Statement.IssuedAt, SHA256: p.SHA256, CounterpartyID: *d.CounterpartyID, Name: p.Payee(), Payable: p.One(), Lines: d.Lines, Adjustments: d.Adjustments, Correction: d.Correction,
	}
	if part.Voids != nil {
		all.VoidedAt = part.Voids.IssuedAt
	}
	if part.Corrected != nil {
		all.CorrectedAt = part.Corrected.IssuedAt
	}
	return all
}

// refused is the page of an error. It names no token.
var refused = template.Must(template.New("refused").Parse(`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="robots" content="noindex, nofollow, noarchive"><title>{{.Title}}</title><style>{{.Style}}</style></head>
<body><main><h1>{{.Title}}</h1><p>{{.Message}}</p></main></body>
</html>
`))

// refusal is the answer to a request that failed. A fault of the service has a fixed text.
func refusal(err error) answer {
	e := api.From(err)
	shown := struct {
		Title, Message string
		Style          template.CSS
	}{"This can’t be shown", "The service is at fault: open the page again in a moment.", template.CSS(paper.Style())}
	if e.GetStatus() < http.StatusInternalServerError || e.GetStatus() == http.StatusServiceUnavailable {
		shown.Message = strings.ToUpper(e.Message[:1]) + e.Message[1:] + "."
	}
	if e.GetStatus() == http.StatusNotFound {
		shown.Title, shown.Message = "No statement is here", "This link is not complete, has ended or was revoked. Ask who sent it for another one."
	}
	var text strings.Builder
	if err := refused.Execute(&text, shown); err != nil {
		text.WriteString(shown.Message)
	}
	return answer{status: e.GetStatus(), kind: "text/html; charset=utf-8", body: []byte(text.String())}
}
