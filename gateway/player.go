package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/valyala/fasthttp"

	"muniment.example/gateway/adapter"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/gateway/issue"
	"muniment.example/pipeline/trace"
)

// A Broadsign player posts its plays by itself to POST /adapters/broadsign, as it is configured to: its
// address may have a query, with the parameters of the format, and its body an api_key, but the player sets no
// header. So the key is in the body: one with delivery:write and nothing else, as it is in the configuration of
// players. The body is read in steps until the key has come, at most maxUnopened of it, and only then counts as
// its tenant's, which may take longer to send the rest.
//
// A player forgets what was answered 200, and sends again what was not, for about 30 days
// (https://docs.broadsign.com/broadsign-control/latest/real-time-pop-api.html). So the answer is 200 once each play is
// delivered, held, or kept with the rejected ones that wait for somebody to look at them. It is an error if a play
// may do better later, and then the others are delivered all the same: sent again, they are duplicates.

const (
	// playerFormat is the name of the format, and playerKey the member of its document that holds the key.
	playerFormat = "broadsign"
	playerKey    = "api_key"
	// maxUnopened is how much of a body is read before its key is checked, in bytes.
	maxUnopened = 1 << 20
	// mostUnopened is how many bodies of which the key is not in the first bytes are read at a time, and a
	// sixteenth of it how many from one address.
	mostUnopened = 64
	// mostWrongKeys is how many requests without a right key an address may send in an hour.
	mostWrongKeys = 600
	// playerTime is how long the rest of a body may take to arrive once its key has come, and how long a
	// document may be worked on.
	playerTime = 2 * time.Minute
	// rejectedAtOnce is how many rejected plays are sent to control at once.
	rejectedAtOnce = 50
)

var (
	errNoPlayerKey = &api.Error{Code: api.AuthRequired, Message: "the body must be a JSON object with api_key, an API key of this service as a text, within its first MiB"}
	errPlayerScope = &api.Error{Code: api.ScopeMissing, Message: "a key in the configuration of players has the scope delivery:write, and no other"}
	errUnopened    = &api.Error{Code: api.RateLimited, Message: "too many bodies are being read from this address, or from all, in which api_key does not come first", RetryAfter: time.Second}
	errWrongKeys   = &api.Error{Code: api.RateLimited, Message: fmt.Sprintf("more than %d requests without a right key came from this address within an hour", mostWrongKeys), RetryAfter: time.Minute}
	errKeepAway    = api.Unavailable(api.ControlUnavailable, "some plays are rejected, and control can't keep them now", time.Second)
	errPlayerSlow  = api.Unavailable(api.Overloaded, "the document took too long: some of its plays are delivered; sent again, they are duplicates", time.Second)
	errOneObject   = &api.Error{Code: api.BadRequest, Message: "the body must be one JSON object"}
)

// sentBy is the key of a player's request that holds whose it is.
type sentBy struct{}

// receiveOfPlayer reads a body that holds its own key.
func (g *Gateway) receiveOfPlayer(ctx *fasthttp.RequestCtx, body *arrival) error {
	from, waits := g.addressOf(ctx), false
	release := func() {
		if waits {
			g.unopened.release(from)
			waits = false
		}
	}
	defer release()
	// opened says whether the key has come, and then what has arrived counts as its tenant's.
	opened := func(a *arrival) (bool, error) {
		principal, found, err := g.playerOf(ctx, a.body, from)
		if err != nil || !found {
			return false, err
		}
		release()
		ctx.SetUserValue(sentBy{}, principal)
		a.allowance = allowance{node: &g.batches, tenant: g.tenants.of(principal.TenantID)}
		return true, errors.Join(ctx.Conn().SetReadDeadline(time.Now().Add(playerTime)), a.take(a.room))
	}
	body.opened = func(a *arrival, more int) (done bool, err error) {
		if len(a.body) == 0 {
			return false, nil
		}
		if done, err := opened(a); done || err != nil {
			return true, err
		}
		if a.room+more > maxUnopened {
			return true, g.strange(from, errNoPlayerKey)
		}
		if !waits {
			if waits = g.unopened.take(from, true) == admitted; !waits {
				return true, errUnopened
			}
		}
		return false, nil
	}
	if err := body.receive(ctx, toPlayer.bodyLimit()); err != nil || body.opened == nil {
		return err
	}
	_, err := opened(body)
	return err
}

// playerOf returns whose key a document holds, of which the first bytes have arrived; found is false if
// it is not among them. The first key counts.
func (g *Gateway) playerOf(ctx *fasthttp.RequestCtx, text []byte, from string) (principal auth.Principal, found bool, err error) {
	key, found := firstMember(text, playerKey)
	if !found {
		return principal, false, nil
	}
	deadline, full := g.issuer.Deadline(time.Now()), g.wrongKeys.full(from, nil, mostWrongKeys, g.now())
	if full { // then control is not asked
		ended, end := context.WithCancel(deadline)
		end()
		deadline = ended
	}
	principal, err = auth.OfKey(deadline, key, g.rights, g.now())
	switch {
	case err != nil && (full || api.From(err).GetStatus() == fasthttp.StatusUnauthorized):
		return principal, false, g.strange(from, err)
	case err != nil:
		return principal, false, err
	}
	ctx.SetUserValue(shownBy{}, principal.Key)
	g.rights.Uses().Used(principal.Key, g.now())
	if principal.Scopes != api.Scopes(api.DeliveryWrite) {
		return principal, false, errPlayerScope
	}
	if g.logsRequests() {
		ctx.SetUserValue(tenantOf{}, principal.TenantID)
	}
	return principal, true, nil
}

// strange counts a request without a right key. It is refused as such, or for being one of too many.
func (g *Gateway) strange(from string, err error) error {
	if _, ok := g.wrongKeys.take(from, nil, mostWrongKeys, g.now()); !ok {
		return errWrongKeys
	}
	return err
}

// firstMember is a member of a JSON object that is a text, if it stands whole in the beginning that text is.
// What is in the members before it has no meaning here.
func firstMember(text []byte, name string) (value string, found bool) {
	d := lenient(text)
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

func lenient(text []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(bytes.TrimPrefix(text, byteOrderMark)), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// player answers POST /adapters/broadsign.
func (g *Gateway) player(ctx *fasthttp.RequestCtx, span *trace.Span) error {
	principal, found := ctx.UserValue(sentBy{}).(auth.Principal)
	if !found {
		return g.strange(g.addressOf(ctx), errNoPlayerKey)
	}
	if err := uncoded(ctx); err != nil {
		return err
	}
	if ctx.QueryArgs().Has("format") {
		return api.InvalidField("format", "is not taken here: the format is "+playerFormat)
	}
	text := ctx.PostBody()
	if d := lenient(text); d.SkipValue() == nil && !atEnd(d) {
		return errOneObject
	}
	format, _ := adapter.Lookup(playerFormat, "")
	header := g.headerOf(ctx)
	if err := mistaken(format.Rows(header, text)); err != nil {
		return err
	}
	p := playerPost{
		Gateway: g, by: issue.Caller{TenantID: principal.TenantID, KeyID: principal.ID, Sandbox: principal.Sandbox},
		until: time.Now().Add(playerTime), kept: map[[sha256.Size]byte]bool{}, span: span,
	}
	for row, err := range format.Rows(header, text) {
		if refused, ok := errors.AsType[*adapter.RowError](err); ok {
			all, excerpt := refused.Play()
			p.reject(all, api.RejectedPlay{Play: string(excerpt)}, api.InvalidField(refused.Field, refused.Message))
		} else if err != nil {
			return &api.Error{Code: api.BadRequest, Message: err.Error()}
		} else if p.rows = append(p.rows, issue.Row{JSON: row}); len(p.rows) == issue.MostRows {
			if err := p.deliver(); err != nil {
				return err
			}
		}
		if time.Now().After(p.until) {
			return errPlayerSlow
		}
	}
	if err := p.deliver(); err != nil {
		return err
	}
	if p.keep(); p.later != nil {
		return p.later
	}
	span.Set(tenantSpan, principal.TenantID)
	span.SetInt("muniment.batch.accepted", int64(p.counts.Accepted))
	return answer(ctx, map[string]api.RowCounts{"counts": p.counts})
}

// mistaken is the error of a document of which no play can be read, all for the same parameter: it is
// missing, or wrong, and the player is to keep its plays until that is mended.
func mistaken(rows iter.Seq2[[]byte, error]) error {
	var first *adapter.RowError
	for _, err := range rows {
		refused, ok := errors.AsType[*adapter.RowError](err)
		if !ok || refused.Parameter == "" {
			return nil
		}
		if first == nil {
			first = refused
		}
	}
	if first == nil {
		return nil
	}
	return api.InvalidField(first.Parameter, first.Error())
}

// playerPost is a player's document while it is delivered in pieces.
type playerPost struct {
	*Gateway
	by       issue.Caller
	until    time.Time
	rows     []issue.Row // of a piece
	rejected []api.RejectedPlay
	kept     map[[sha256.Size]byte]bool // the rejected plays so far
	span     *trace.Span

	counts api.RowCounts
	later  error // why some play is to be sent again
}

// deliver delivers a piece. On an error the rest of the document can't be, either.
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
	results, err := p.issueRows(p.by, &issue.Batch{Span: p.span, Rows: p.rows, Admit: func(rows int) (int, func()) { return p.tenants.grant(of, rows) }})
	if err != nil {
		return err
	}
	for n := range results {
		if results[n].Held != nil {
			results[n].Held.Format = playerFormat
		}
	}
	p.hold(p.by, results)
	for n := range results {
		p.judge(&results[n], p.rows[n].JSON)
	}
	p.rows = p.rows[:0]
	return nil
}

// judge counts a row, and says what becomes of a rejected one.
func (p *playerPost) judge(r *issue.RowResult, row []byte) {
	switch r.Status {
	case issue.Accepted:
		p.counts.Accepted++
	case issue.Duplicate:
		p.counts.Duplicate++
	case issue.Unmapped:
		p.counts.Unmapped++
	case issue.Held:
		p.counts.Held++
	case issue.Rejected:
		e := api.From(r.Err)
		if e.GetStatus() < fasthttp.StatusInternalServerError && e.Code != api.RateLimited {
			p.reject(row, api.RejectedPlay{Row: string(row)}, e)
			return
		}
		p.again(r.Err)
		p.counts.Rejected++
	}
	p.metrics.rows[r.Status].Inc()
}

// reject has a play kept, of which all is what was said of it.
func (p *playerPost) reject(all []byte, play api.RejectedPlay, e *api.Error) {
	p.counts.Rejected++
	p.metrics.rows[issue.Rejected].Inc()
	why, err := json.Marshal(e.OfRow())
	if err != nil {
		p.again(err)
		return
	}
	sum := sha256.Sum256(append([]byte(p.by.TenantID), all...))
	if p.kept[sum] {
		return
	}
	p.kept[sum] = true
	play.Format, play.Hash, play.Error = playerFormat, hex.EncodeToString(sum[:]), string(why)
	if p.rejected = append(p.rejected, play); len(p.rejected) == rejectedAtOnce {
		p.keep()
	}
}

// keep has control keep the rejected plays so far.
func (p *playerPost) keep() {
	if len(p.rejected) == 0 {
		return
	}
	err := error(errKeepAway)
	if p.cfg.Hold != nil {
		_, err = p.cfg.Hold(p.issuer.Deadline(time.Now()), api.HoldRequest{TenantID: p.by.TenantID, KeyID: p.by.KeyID, Rejected: p.rejected})
	}
	if err != nil {
		p.again(err)
	}
	p.rejected = nil
}

// again has the player send the document again, for the first reason that there is.
func (p *playerPost) again(why error) {
	if p.later == nil {
		p.later = why
	}
}
