package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"mime"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/valyala/fasthttp"

	"muniment.example/gateway/adapter"
	"muniment.example/gateway/api"
	"muniment.example/gateway/issue"
	"muniment.example/pipeline/trace"
	"muniment.example/sealer"
)

// byteOrderMark begins what some editors and tools write.
var byteOrderMark = []byte("\ufeff")

var (
	errMediaType = &api.Error{
		Code: api.BadRequest, HTTPStatus: fasthttp.StatusUnsupportedMediaType,
		Message: "unsupported Content-Type: send application/json, application/x-ndjson, or name a format with ?format=",
	}
	errHoldAway = api.Unavailable(api.ControlUnavailable, "the row has to wait for a mapping, or for the end of a suspension of its right, and can't be held now", time.Second)
)

// ingest answers POST /v1/delivery/ingest-batch: it authenticates the caller, waits for a slot,
// reads the rows, and has package issue decide each. Rows that wait for a mapping, or for the end of a
// suspension, are held durably before they are answered so.
func (g *Gateway) ingest(ctx *fasthttp.RequestCtx, body *arrival, span *trace.Span) error {
	principal, err := g.deliverer(ctx, g.now(), g.issuer.Deadline(time.Now()))
	if err != nil {
		return err
	}
	of := g.tenants.of(principal.TenantID)
	leave, err := g.batches.acquire(g.draining, of, g.tenants.maxBatches())
	if err != nil {
		return err
	}
	defer leave()
	batch := issue.Batch{Span: span, Admit: func(rows int) (int, func()) { return g.tenants.grant(of, rows) }}
	batch.IdempotencyKey, batch.HasKey = idempotencyKey(ctx)
	if err := g.read(ctx, body, &batch); err != nil {
		return err
	}
	by := issue.Caller{TenantID: principal.TenantID, KeyID: principal.ID, Sandbox: principal.Sandbox}
	results, err := g.issueRows(by, &batch)
	if err != nil {
		return err
	}
	held := g.hold(by, results)
	traceRows(span, by.TenantID, results)
	warned, _ := ctx.UserValue(warning{}).(string)
	answer, err := g.appendResults(ctx.Response.SwapBody(nil)[:0], batch.Rows, results, held, warned)
	ctx.Response.SwapBody(answer)
	if err != nil {
		return err
	}
	markJSON(ctx)
	return nil
}

// read splits a body into rows. Its format is the one that ?format= or the media type names, or
// else our own.
func (g *Gateway) read(ctx *fasthttp.RequestCtx, body *arrival, b *issue.Batch) error {
	text, err := g.text(ctx, body)
	if err != nil {
		return err
	}
	text = bytes.TrimPrefix(text, byteOrderMark)
	query := ctx.QueryArgs()
	name, mediaType := string(query.Peek("format")), string(ctx.Request.Header.ContentType())
	if !query.Has("format") && len(ctx.Request.Header.Peek("ce-specversion")) > 0 { // an event in binary mode
		name = adapter.CloudEvents
	}
	if format, ok := adapter.Lookup(name, mediaType); ok {
		return g.readDocument(ctx, format, text, b)
	}
	if query.Has("format") {
		return api.InvalidField("format", "must be one of "+strings.Join(adapter.Names(), ", "))
	}
	for other := range query.All() {
		return api.InvalidField(strings.ToValidUTF8(string(other), "�"), "is an unknown parameter")
	}
	if mediaType != "" {
		if mediaType, _, err = mime.ParseMediaType(mediaType); err != nil {
			return errMediaType
		}
	}
	switch mediaType {
	case "", contentForm, contentJSON:
		return readJSON(text, b)
	case contentLines:
		return readLines(text, b)
	}
	return errMediaType
}

// warning is the key of what the sender of a document should know of its rows.
type warning struct{}

// readDocument splits a vendor's document into rows.
func (g *Gateway) readDocument(ctx *fasthttp.RequestCtx, format adapter.Format, text []byte, b *issue.Batch) error {
	for row, err := range format.Rows(g.headerOf(ctx), text) {
		var refused *adapter.RowError
		switch {
		case err == nil:
			b.Rows = append(b.Rows, issue.Row{JSON: row})
		case errors.As(err, &refused):
			b.Rows = append(b.Rows, issue.Row{Refused: api.InvalidField(refused.Field, refused.Message)})
		default:
			return &api.Error{Code: api.BadRequest, Message: err.Error()}
		}
		if len(b.Rows) > issue.MostRows {
			return errTooManyRows
		}
	}
	return nil
}

// headerOf is what a request says of its document.
func (g *Gateway) headerOf(ctx *fasthttp.RequestCtx) adapter.Header {
	h := adapter.Header{Field: func(name string) string { return string(ctx.Request.Header.Peek(name)) }, Query: url.Values{}, Now: g.now()}
	h.Warn = func(message string) { ctx.SetUserValue(warning{}, message) }
	for name, value := range ctx.QueryArgs().All() {
		h.Query.Add(string(name), string(value))
	}
	return h
}

// hold has control hold the rows that wait, and returns their ids by row number. A row
// that can't be held is rejected. A row that is equal to one of them gets its id, or its error.
func (g *Gateway) hold(by issue.Caller, results []issue.RowResult) (ids map[int]string) {
	req := api.HoldRequest{TenantID: by.TenantID, KeyID: by.KeyID}
	var of, equal []int
	for n := range results {
		switch r := &results[n]; {
		case r.Held != nil:
			req.Rows, of = append(req.Rows, *r.Held), append(of, n)
		case r.Status == issue.Duplicate && r.Event == nil:
			equal = append(equal, n)
		}
	}
	if len(of) == 0 {
		return nil
	}
	var held []api.HeldResult
	err := error(errHoldAway)
	if g.cfg.Hold != nil {
		held, err = g.cfg.Hold(g.issuer.Deadline(time.Now()), req)
	}
	ids = make(map[int]string, len(of))
	for k, n := range of {
		switch {
		case err != nil:
			results[n] = issue.RowResult{Status: issue.Rejected, Err: err}
		case held[k].Error != nil:
			results[n] = issue.RowResult{Status: issue.Rejected, Err: held[k].Err()}
		case held[k].Delivered:
			results[n] = issue.RowResult{Status: issue.Duplicate}
		default:
			ids[n] = held[k].HeldID
		}
	}
	for _, n := range equal {
		if first := results[n].First; ids[first] != "" {
			ids[n] = ids[first]
		} else {
			results[n] = results[first]
		}
	}
	return ids
}

// appendResults appends the success envelope of a batch, and counts its rows.
func (g *Gateway) appendResults(dst []byte, rows []issue.Row, results []issue.RowResult, held map[int]string, warned string) (_ []byte, err error) {
	var counts [issue.RowStatuses]int
	dst = append(dst, `{"ok":true,"data":{"results":[`...)
	for n := range results {
		r := &results[n]
		counts[r.Status]++
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"index":`...)
		dst = strconv.AppendInt(dst, int64(n), 10)
		dst = append(dst, `,"status":"`...)
		dst = append(append(dst, r.Status.String()...), '"')
		if r.Status == issue.Held {
			dst = append(append(append(dst, `,"reason":"`...), r.Held.Reason...), '"')
		}
		dst = appendRowID(dst, rows[n].JSON)
		switch {
		case r.Status == issue.Rejected:
			dst, err = g.appendRefusal(dst, r.Err)
		case r.Event != nil:
			dst, err = appendDelivered(dst, r.Event)
		case held[n] != "": // else it is a duplicate whose event another node has
			dst = append(append(append(dst, `,"heldId":"`...), held[n]...), '"')
		}
		if err != nil {
			return dst[:0], err
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `],"counts":{`...)
	for s := range issue.RowStatuses {
		if s > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), s.String()...), `":`...)
		dst = strconv.AppendInt(dst, int64(counts[s]), 10)
		g.metrics.rows[s].Add(float64(counts[s]))
	}
	dst = append(dst, '}')
	if warned != "" {
		dst = append(append(append(dst, `,"warnings":[`...), strconv.Quote(warned)...), ']')
	}
	return append(dst, `},"contractVersion":"`+api.ContractVersion+`"}`...), nil
}

// appendRowID appends the caller's id of a row that has one.
func appendRowID(dst, row []byte) []byte {
	if len(row) > maxDeliveryBody || !bytes.Contains(row, []byte(`"rowId"`)) {
		return dst
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(row))
	if _, err := d.ReadToken(); err != nil {
		return dst
	}
	for d.PeekKind() == jsontext.KindString {
		name, err := d.ReadToken()
		if err != nil {
			return dst
		}
		wanted := name.String() == "rowId"
		value, err := d.ReadValue()
		if err != nil {
			return dst
		}
		if wanted && value.Kind() == jsontext.KindString && len(value) > len(`""`) {
			return append(append(dst, `,"rowId":`...), value...)
		}
	}
	return dst
}

func appendDelivered(dst, event []byte) ([]byte, error) {
	p, err := sealer.SplitDelivery(event)
	if err != nil {
		return dst, err
	}
	dst = append(append(dst, `,"receipt":`...), p.Receipt...)
	dst = append(append(dst, `,"signature":`...), p.Signature...)
	dst = append(append(dst, `,"substrate":`...), p.Substrate...)
	return append(append(dst, `,"metering":`...), p.Metering...), nil
}

// appendRefusal appends why a row was rejected. An error that callers may not see is logged, at
// most as often as those of requests.
func (g *Gateway) appendRefusal(dst []byte, why error) ([]byte, error) {
	e := api.From(why)
	if e.Code == api.InternalError && e.Reason == "" {
		if suppressed, due := g.faults.due(time.Now()); due {
			g.logger.Error("cannot deliver a row", "err", why, "suppressed", suppressed)
		}
	}
	text := bytes.NewBuffer(append(dst, `,"error":`...))
	enc := json.NewEncoder(text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e.OfRow()); err != nil {
		return dst, err
	}
	return bytes.TrimSuffix(text.Bytes(), lineFeed), nil
}
