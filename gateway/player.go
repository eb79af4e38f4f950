package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/valyala/fasthttp"

	"muniment/gateway/adapter"
	"muniment/gateway/api"
	"muniment/gateway/auth"
	"muniment/gateway/issue"
)

// A Broadsign player posts its plays by itself to POST /adapters/broadsign, as it is configured to: its
// address may have a query, with the parameters of the format, and its body an api_key, but the player sets no
// header. So the key is in the body: it is one with delivery:write and nothing else, as whoever configures players may
// read it. The body is read in steps until the key has come, at most maxUnopened of it, and only then
// counts as its tenant's.
//
// A player forgets what was answered 200, and sends again what was not, in the order of its plays, for
// about 30 days (https://docs.broadsign.com/broadsign-control/latest/real-time-pop-api.html). So the answer is 200 once each
// play is delivered, held, or kept with the rejected ones that wait for somebody to look at them; an error
// if a play may do better later. Of a document that is sent again, what was delivered is a duplicate.

const (
	// playerFormat is the name of the format, and playerKey the member of its document that holds the key.
	playerFormat = "broadsign"
	playerKey    = "api_key"
	// maxUnopened is how much of a body is read before its key is checked, in bytes.
	maxUnopened = 1 << 20
	// mostUnopened is how many bodies of which the key is not in the first bytes are read at a time, and a
	// sixteenth of it how many from one address.
	mostUnopened = 64
	// mostWrongKeys is how many wrong keys an address may send in an hour.
	mostWrongKeys = 600
)

var (
	errNoPlayerKey = &api.Error{Code: api.AuthRequired, Message: "api_key is missing: an API key of this service, as a text in the first MiB of the body"}
	errPlayerScope = &api.Error{Code: api.ScopeMissing, Message: "a key in the configuration of players may have the scope delivery:write, and no other"}
	errUnopened    = &api.Error{Code: api.RateLimited, Message: "too many bodies from this address, or from all, are read in which api_key does not come first", RetryAfter: time.Second}
	errWrongKeys   = &api.Error{Code: api.RateLimited, Message: fmt.Sprintf("more than %d wrong keys came from this address within an hour", mostWrongKeys), RetryAfter: time.Minute}
	errPlayerCoded = &api.Error{Code: api.BadRequest, HTTPStatus: fasthttp.StatusUnsupportedMediaType, Message: "the body must come without a Content-Encoding"}
	errKeepAway    = api.Unavailable(api.ControlUnavailable, "some plays are rejected, and they can't be kept now", time.Second)
)

// receiveOfPlayer reads a body that holds its own key.
func (g *Gateway) receiveOfPlayer(ctx *fasthttp.RequestCtx, body *arrival) error {
	if len(ctx.Request.Header.Peek(fasthttp.HeaderContentEncoding)) > 0 {
		return errPlayerCoded
	}
	from, waits := subnet(originOf(ctx, g.cfg.TrustedProxies)), false
	defer func() {
		if waits {
			g.unopened.release(from)
		}
	}()
	body.opened = func(a *arrival, more int) (done bool, err error) {
		if len(a.body) == 0 {
			return false, nil
		}
		principal, found, err := g.playerOf(ctx, a.body)
		switch {
		case err != nil:
			return true, err
		case found:
			if waits {
				g.unopened.release(from)
				waits = false
			}
			a.allowance = allowance{node: &g.batches, tenant: g.tenants.of(principal.TenantID)}
			return true, a.take(a.room)
		case a.room+more > maxUnopened:
			return true, errNoPlayerKey
		case !waits:
			if waits = g.unopened.take(from); !waits {
				return true, errUnopened
			}
		}
		return false, nil
	}
	return body.receive(ctx, toPlayer.bodyLimit())
}

// playerOf returns whose key a document holds, of which the first bytes have arrived; found is false if
// it is not among them. The first key counts.
func (g *Gateway) playerOf(ctx *fasthttp.RequestCtx, text []byte) (principal auth.Principal, found bool, err error) {
	key, found := firstMember(text, playerKey)
	if !found {
		return principal, false, nil
	}
	principal, err = auth.OfKey(g.issuer.Deadline(time.Now()), key, g.rights, g.now())
	switch e := api.From(err); {
	case err == nil && principal.Scopes != api.Scopes(api.DeliveryWrite):
		return principal, false, errPlayerScope
	case err == nil:
		if g.logsRequests() {
			ctx.SetUserValue(tenantOf{}, principal.TenantID)
		}
		return principal, true, nil
	case e.GetStatus() == fasthttp.StatusUnauthorized:
		if _, ok := g.wrongKeys.take(subnet(originOf(ctx, g.cfg.TrustedProxies)), nil, mostWrongKeys, g.now()); !ok {
			return principal, false, errWrongKeys
		}
	}
	return principal, false, err
}

// firstMember is a member of a JSON object that is a text, if it stands whole in the beginning that text is.
// What is in the members before it has no meaning here.
func firstMember(text []byte, name string) (value string, found bool) {
	d := jsontext.NewDecoder(bytes.NewBuffer(bytes.TrimPrefix(text, byteOrderMark)), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if token, err := d.ReadToken(); err != nil || token.Kind() != jsontext.KindBeginObject {
		return "", false
	}
	for d.PeekKind() == jsontext.KindString {
		token, err := d.ReadToken()
		if err != nil {
			return "", false
		}
		wanted := token.String() == name
		raw, err := d.ReadValue()
		if err != nil {
			return "", false
		}
		if wanted && raw.Kind() == jsontext.KindString {
			unquoted, err := jsontext.AppendUnquote(nil, raw)
			return string(unquoted), err == nil
		}
	}
	return "", false
}

// player answers POST /adapters/broadsign.
func (g *Gateway) player(ctx *fasthttp.RequestCtx) error {
	text := ctx.PostBody()
	principal, found, err := g.playerOf(ctx, text)
	switch {
	case err != nil:
		return err
	case !found:
		return errNoPlayerKey
	}
	if ctx.QueryArgs().Has("format") {
		return api.InvalidField("format", "is not taken here: the format is "+playerFormat)
	}
	format, _ := adapter.Lookup(playerFormat, "")
	p := playerPost{Gateway: g, by: issue.Caller{TenantID: principal.TenantID, KeyID: principal.ID, Sandbox: principal.Sandbox}}
	for row, err := range format.Rows(g.headerOf(ctx), bytes.TrimPrefix(text, byteOrderMark)) {
		refused, ok := errors.AsType[*adapter.RowError](err)
		switch {
		case err != nil && !ok:
			return &api.Error{Code: api.BadRequest, Message: err.Error()}
		case ok && refused.Parameter != "": // all plays would be rejected for it
			return api.InvalidField(refused.Parameter, refused.Error())
		case ok:
			p.rows, p.said = append(p.rows, issue.Row{Refused: api.InvalidField(refused.Field, refused.Message)}), append(p.said, refused.Play)
		default:
			p.rows, p.said = append(p.rows, issue.Row{JSON: row}), append(p.said, nil)
		}
		if len(p.rows) == issue.MostRows {
			if err := p.deliver(); err != nil {
				return err
			}
		}
	}
	if err := p.deliver(); err != nil {
		return err
	}
	if p.later != nil {
		return p.later
	}
	return answer(ctx, map[string]api.RowCounts{"counts": p.counts})
}

// playerPost is a player's document while it is delivered in pieces.
type playerPost struct {
	*Gateway
	by   issue.Caller
	rows []issue.Row // of a piece
	said [][]byte    // what the document says of those that are no rows

	counts api.RowCounts
	later  error // why some play is to be sent again
}

// deliver delivers a piece, and has the rejected ones of it kept. On an error the document is to be sent again.
func (p *playerPost) deliver() error {
	if len(p.rows) == 0 {
		return nil
	}
	of := p.tenants.of(p.by.TenantID)
	leave, err := p.batches.acquire(p.draining, of, p.tenants.maxBatches())
	if err != nil {
		return err
	}
	defer leave()
	results, err := p.issueRows(p.by, &issue.Batch{Rows: p.rows, Admit: func(rows int) (int, func()) { return p.tenants.grant(of, rows) }})
	if err != nil {
		return err
	}
	p.hold(p.by, results)
	rejected := p.judge(results)
	p.rows, p.said = p.rows[:0], p.said[:0]
	if len(rejected) == 0 {
		return nil
	}
	if p.cfg.Hold == nil {
		return errKeepAway
	}
	_, err = p.cfg.Hold(p.issuer.Deadline(time.Now()), api.HoldRequest{TenantID: p.by.TenantID, KeyID: p.by.KeyID, Rejected: rejected})
	return err
}

// judge counts the rows of a piece, and returns the rejected ones that will never do better.
func (p *playerPost) judge(results []issue.RowResult) (rejected []api.RejectedPlay) {
	for n := range results {
		r := &results[n]
		p.metrics.rows[r.Status].Inc()
		switch r.Status {
		case issue.Accepted:
			p.counts.Accepted++
		case issue.Duplicate:
			p.counts.Duplicate++
		case issue.Unmapped:
			p.counts.Unmapped++
		case issue.Rejected:
			p.counts.Rejected++
			e := api.From(r.Err)
			if e.GetStatus() >= fasthttp.StatusInternalServerError || e.Code == api.RateLimited {
				p.later = r.Err
				continue
			}
			rejected = append(rejected, api.RejectedPlay{Format: playerFormat, Row: string(p.rows[n].JSON), Play: string(p.said[n]), Error: e.OfRow()})
		}
	}
	return rejected
}
