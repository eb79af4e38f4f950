package payable

import (
	"bufio"
	"cmp"
	"context"
	"encoding/csv"
	"io"
	"net/http"
	"strconv"
	"strings"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/sealer/rate"
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

	sequence int64
}

// place is where the payout is in a list of them.
func (p Payout) place() string { return p.DueOn + " " + strconv.FormatInt(p.sequence, 10) }

const typeCSV = "text/csv"

type payoutsInput struct {
	route.Page
	DueBy    string `query:"dueBy" maxLength:"10" doc:"Only what is due on this day or before; absent: today, in the tenant's time zone." example:"2026-12-31"`
	Currency string `query:"currency" maxLength:"3" doc:"Only those in this currency."`
	Format   string `query:"format" enum:"json,csv" default:"json" doc:"The format of the response. A file has all payouts: limit and cursor require json."`
	BOM      string `query:"bom" enum:"true,false" doc:"Requires format csv: the file is for spreadsheets. It begins with a byte order mark, and an apostrophe precedes text that would be a formula."`
}

func (s *Service) getPayouts(ctx context.Context, in *payoutsInput) (d PayoutList, f *route.File, err error) {
	if in.BOM == "true" && in.Format != "csv" {
		return d, nil, api.InvalidField("bom", "requires format csv")
	}
	if in.Format == "csv" && in.PageGiven() {
		return d, nil, api.InvalidField("format", "is a file of all payouts: limit and cursor are for json")
	}
	if in.Currency != "" && !rate.IsCurrency(in.Currency) {
		return d, nil, api.InvalidField("currency", rate.NoCurrency)
	}
	due := dueBy{auth.PrincipalFrom(ctx).TenantID, in.DueBy, in.Currency}
	if err := checkDay("dueBy", due.day); err != nil {
		return d, nil, err
	}
	if due.day == "" {
		if due.day, err = tenant.Today(ctx, s.db.Read(), due.tenantID, s.db.Now()); err != nil {
			return d, nil, err
		}
	}
	if in.Format == "csv" {
		return d, due.file(s.db.Read(), in.BOM == "true"), nil
	}
	slice, err := in.Slice()
	if err != nil {
		return d, nil, err
	}
	page, next, err := due.payouts(ctx, s.db.Read(), slice)
	return PayoutList{page, in.Next(next)}, nil, err
}

// dueBy is what is due by a day, in one currency or in all.
type dueBy struct{ tenantID, day, currency string }

// payouts lists a slice of what is open, the longest due first. A credit is no payout.
func (d dueBy) payouts(ctx context.Context, q store.Querier, s store.Slice) (page []Payout, next string, err error) {
	day, number, _ := strings.Cut(s.Behind, " ")
	sequence, err := strconv.ParseInt(cmp.Or(number, "0"), 10, 64)
	if err != nil {
		return nil, "", route.BadCursor()
	}
	scan := func(row store.Row) (p Payout, err error) {
		var gross, paid string
		if err := row.Scan(&p.PayableID, &p.StatementID, &p.CounterpartyID, &p.Number, &p.sequence, &p.Currency, &p.DueOn, &gross, &paid, &p.Payee, &p.PayoutRef); err != nil {
			return p, err
		}
		p.Amount, err = (&Payable{Gross: gross, PaidAmount: paid, Currency: p.Currency}).Open()
		return p, err
	}
	list, err := store.List(ctx, q, "what is due", scan, `SELECT p.payable_id, p.statement_id, p.counterparty_id, p.number, p.sequence, p.currency, p.due_on, p.gross, p.paid_amount, COALESCE(c.legal_name, c.name), c.payout_ref
		FROM payables p JOIN counterparties c ON c.tenant_id = p.tenant_id AND c.counterparty_id = p.counterparty_id
		WHERE p.tenant_id = $1 AND p.state = 'DUE' AND p.due_on <= $2 AND ($3 = '' OR p.currency = $3) AND (p.due_on, p.sequence) > ($4, $5) AND substr(p.gross, 1, 1) <> '-'
		ORDER BY p.due_on, p.sequence LIMIT $6`, d.tenantID, d.day, d.currency, day, sequence, s.Limit+1)
	page, next = store.Cut(list, s.Limit, Payout.place)
	return page, next, err
}

// rowsAPage is how many rows of a file are held in memory.
const rowsAPage = 1_000

// file is a row for each payout, in pages, the first of which is read before the response begins. Its texts are
// as they are, for a payment system; for spreadsheets they are inert.
func (d dueBy) file(q store.Querier, forSpreadsheets bool) *route.File {
	f := &route.File{Name: "payouts-" + d.day + ".csv", Type: typeCSV + "; charset=utf-8", Size: route.UnknownSize}
	f.Open = func(ctx context.Context) (func(io.Writer), error) {
		page, next, err := d.payouts(ctx, q, store.Slice{Limit: rowsAPage})
		return func(to io.Writer) {
			buffer := bufio.NewWriter(to)
			if forSpreadsheets {
				_, _ = buffer.WriteString(route.ByteOrderMark) // Flush has its error
			}
			w := csv.NewWriter(buffer)
			_ = w.Write([]string{"payee", "reference", "amount", "currency", "number", "dueOn", "counterpartyId", "statementId"})
			for {
				for _, p := range page {
					_ = w.Write(p.row(forSpreadsheets))
				}
				if next == "" {
					break
				}
				if page, next, err = d.payouts(ctx, q, store.Slice{Behind: next, Limit: rowsAPage}); err != nil {
					panic(http.ErrAbortHandler)
				}
			}
			if w.Flush(); buffer.Flush() != nil {
				panic(http.ErrAbortHandler)
			}
		}, err
	}
	return f
}

func (p Payout) row(inert bool) []string {
	reference := ""
	if p.PayoutRef != nil {
		reference = *p.PayoutRef
	}
	if inert {
		p.Payee, reference = route.Inert(p.Payee), route.Inert(reference)
	}
	return []string{p.Payee, reference, p.Amount, p.Currency, p.Number, p.DueOn, p.CounterpartyID, p.StatementID}
}
