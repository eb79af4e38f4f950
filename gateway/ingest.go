package gateway

import (
	"context"
	"errors"
	"mime"
	"net/url"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"muniment/gateway/adapter"
	"muniment/gateway/api"
	"muniment/gateway/issue"
)

var (
	errMediaType = &api.Error{
		Code: api.BadRequest, HTTPStatus: fasthttp.StatusUnsupportedMediaType,
		Message: "the Content-Type is none in which batches are taken: send application/json, application/x-ndjson, or name the ?format=",
	}
	errHoldAway = api.Unavailable(api.ControlUnavailable, "no mapping knows the vendor's id at the time of the play, and the row can't be held now", time.Second)
)

// ingest answers POST /v1/delivery/ingest-batch: who is calling, the turn of the tenant's batch,
// its rows, and then what package issue makes of each. Rows of vendors' ids that no mapping
// knows are held before the answer tells so.
func (g *Gateway) ingest(ctx *fasthttp.RequestCtx, body *arrival) error {
	principal, err := g.deliverer(ctx, g.now(), g.issuer.Deadline(time.Now()))
	if err != nil {
		return err
	}
	of := g.shares.of(principal.TenantID)
	leave, err := g.batches.await(g.draining, of, g.shares.mostBatches())
	if err != nil {
		return err
	}
	defer leave()
	batch := issue.Batch{
		Admit: func(_ context.Context, rows int) (int, func(), error) {
			granted, leave := g.shares.grant(of, rows)
			return granted, leave, nil
		},
	}
	batch.IdempotencyKey, batch.HasKey = idempotencyKey(ctx)
	if err := g.read(ctx, body, &batch); err != nil {
		return err
	}
	by := issue.Caller{TenantID: principal.TenantID, KeyID: principal.ID, Sandbox: principal.Sandbox}
	results, err := g.issuer.IssueRows(context.Background(), by, &batch)
	if err != nil {
		return err
	}
	held := g.hold(by, results)
	answer, err := g.appendResults(ctx.Response.SwapBody(nil)[:0], results, held)
	ctx.Response.SwapBody(answer)
	if err != nil {
		return err
	}
	ctx.SetContentType(contentJSON)
	return nil
}

// read takes a body apart into rows: a document of the format that ?format= or its media type
// names, else our own.
func (g *Gateway) read(ctx *fasthttp.RequestCtx, body *arrival, b *issue.Batch) error {
	text, err := g.text(ctx, body)
	if err != nil {
		return err
	}
	query := ctx.QueryArgs()
	name, mediaType := string(query.Peek("format")), string(ctx.Request.Header.ContentType())
	if format, ok := adapter.Lookup(name, mediaType); ok {
		return readDocument(ctx, format, text, b)
	}
	if query.Has("format") {
		return api.InvalidField("format", "is none of "+strings.Join(adapter.Names(), ", "))
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
	case "", contentJSON:
		return readJSON(text, b)
	case contentLines:
		return readLines(text, b)
	}
	return errMediaType
}

// readDocument takes a vendor's document apart.
func readDocument(ctx *fasthttp.RequestCtx, format adapter.Format, text []byte, b *issue.Batch) error {
	header := adapter.Header{Field: func(name string) string { return string(ctx.Request.Header.Peek(name)) }, Query: url.Values{}}
	for name, value := range ctx.QueryArgs().All() {
		header.Query.Add(string(name), string(value))
	}
	for row, err := range format.Rows(header, text) {
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

// hold has control hold what is unmapped, and returns the ids by the rows' numbers. What can't
// be held is rejected.
func (g *Gateway) hold(by issue.Caller, results []issue.RowResult) (ids map[int]string) {
	req := api.HoldRequest{TenantID: by.TenantID, KeyID: by.KeyID}
	var of []int
	for n := range results {
		if results[n].Held != nil {
			req.Rows, of = append(req.Rows, *results[n].Held), append(of, n)
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
		default:
			ids[n] = held[k].HeldID
		}
	}
	return ids
}
