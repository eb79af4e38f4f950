package gateway

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"muniment.example/gateway/adapter"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/gateway/issue"
	"muniment.example/sealer"
)

// Beacons are for players that can only call a URL. The answer is always an image of one pixel:
// a player can do nothing with an error, and a viewer must not see one. The outcome is counted
// in muniment_gateway_beacons_total; refusals also count in the tenant's metering,
// beside those of the gate, as the rule beacon-<outcome>.

// pixel is a transparent GIF of 1×1.
var pixel = []byte("GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\x00\x00\x00!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;")

// beaconOutcome is the outcome of a beacon's call: a bounded label.
type beaconOutcome uint8

const (
	beaconRecorded  beaconOutcome = iota // a receipt was issued
	beaconDuplicate                      // one was, with this eid
	beaconNotGet                         // HEAD or another method: nothing was shown
	beaconPrefetch                       // fetched ahead of a play that may never be
	beaconMacro                          // eid or dwellMs is a macro that the player did not replace
	beaconMalformed                      // eid is missing, or it or dwellMs can't be read
	beaconInvalid                        // not a token of this service, or signed by a revoked key
	beaconExpired
	beaconKeyDead     // the API key that made it may no longer deliver
	beaconLimited     // above its maxReceiptsPerHour, or its tenant above its cap
	beaconRefused     // by the right's state or the gate
	beaconUnavailable // the node could not issue
	beaconOutcomes
)

func (o beaconOutcome) String() string {
	return [beaconOutcomes]string{"recorded", "duplicate", "not_get", "prefetch", "macro", "malformed", "invalid", "expired", "key", "limited", "refused", "unavailable"}[o]
}

// beacon answers GET /beacon/{token}.
func (g *Gateway) beacon(ctx *fasthttp.RequestCtx, began time.Time) {
	g.metrics.beacons[g.report(ctx, began)].Inc()
	answerPixel(ctx)
}

// answerPixel answers every call of a beacon's path.
func answerPixel(ctx *fasthttp.RequestCtx) {
	h := &ctx.Response.Header
	h.Set(fasthttp.HeaderCacheControl, "no-store")
	h.Set(fasthttp.HeaderAccessControlAllowOrigin, "*")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.SetCanonical(headerSniffing, noSniffing)
	ctx.SetStatusCode(fasthttp.StatusOK)
	ctx.SetContentType("image/gif")
	ctx.SetBody(pixel)
}

// report issues the receipt of the play that a call reports, if it may.
func (g *Gateway) report(ctx *fasthttp.RequestCtx, began time.Time) beaconOutcome {
	if string(ctx.Method()) != fasthttp.MethodGet {
		return beaconNotGet
	}
	b, err := api.ReadBeacon(string(bytes.TrimPrefix(ctx.Path(), []byte(api.PathBeacon))))
	if err != nil {
		return beaconInvalid
	}
	if key := g.rights.BeaconKey(b.SigningKeyID); key == nil || !b.SignedBy(key) {
		return beaconInvalid
	}
	outcome := g.reportOf(ctx, began, b)
	switch outcome {
	case beaconPrefetch, beaconMacro, beaconMalformed, beaconExpired, beaconKeyDead, beaconLimited:
		g.issuer.Refused(b.TenantID, b.RightID, "beacon-"+outcome.String())
	}
	return outcome
}

// reportOf is report of a token that is one of ours.
func (g *Gateway) reportOf(ctx *fasthttp.RequestCtx, began time.Time, b *api.SignedBeacon) beaconOutcome {
	if prefetched(&ctx.Request.Header) {
		return beaconPrefetch
	}
	eid, dwell, fault := readPlay(ctx.URI().QueryString())
	if fault != beaconRecorded {
		return fault
	}
	arrived := g.now()
	if !arrived.Before(b.ExpiresAt) {
		return beaconExpired
	}
	deadline := g.issuer.Deadline(began)
	switch key, err := g.rights.Key(deadline, b.KeyID); {
	case err != nil:
		return beaconUnavailable
	case key == nil || key.TenantID != b.TenantID || !auth.Live(key, arrived) || !key.Scopes.Allows(api.DeliveryWrite):
		return beaconKeyDead
	default:
		if g.logsRequests() {
			ctx.SetUserValue(tenantOf{}, b.TenantID)
		}
		g.rights.Uses().Used(key, arrived)
		return g.record(deadline, b, eid, dwell, arrived, key.Sandbox)
	}
}

// prefetched reports whether a browser or a proxy fetches something ahead, by the headers that say so:
// Sec-Purpose (Fetch Standard), and those of before it.
func prefetched(h *fasthttp.RequestHeader) bool {
	for _, name := range [...]string{"Sec-Purpose", "Purpose", "X-Purpose", "X-Moz"} {
		value := bytes.ToLower(h.Peek(name))
		for _, purpose := range [...]string{"prefetch", "prerender", "preview"} {
			if bytes.Contains(value, []byte(purpose)) {
				return true
			}
		}
	}
	return false
}

// record issues the receipt of a beacon's play. Two calls with the same eid are one play.
func (g *Gateway) record(deadline context.Context, b *api.SignedBeacon, eid string, dwell float64, arrived time.Time, sandbox bool) beaconOutcome {
	limit, ok := g.admit(b.TenantID, arrived)
	defer limit.leave()
	if !ok {
		return beaconLimited
	}
	taken, ok := g.beaconRates.take(b.TenantID, b.Text, b.MaxReceiptsPerHour, arrived)
	if !ok {
		return beaconLimited
	}
	_, again, err := g.issuer.Issue(deadline, nil, issue.Caller{TenantID: b.TenantID, KeyID: b.KeyID, Sandbox: sandbox}, &issue.Delivery{
		Observation: &issue.Observation{RightID: b.RightID, SpatialAnchorID: b.SpatialAnchorID, CorrelationID: &eid, DwellMs: dwell},
		Rendered:    arrived, Identity: []string{view(b.Text), eid},
	})
	if err == nil && !again {
		return beaconRecorded
	}
	g.beaconRates.giveBack(taken)
	if err == nil {
		return beaconDuplicate
	}
	switch e := api.From(err); {
	case e.Code == api.AuthInvalid:
		return beaconKeyDead
	case e.GetStatus() < fasthttp.StatusInternalServerError:
		return beaconRefused
	case e.Code == api.InternalError && e.Reason == "":
		if suppressed, due := g.faults.due(time.Now()); due {
			g.logger.Error("cannot record a beacon's play", "err", err, "suppressed", suppressed)
		}
	}
	return beaconUnavailable
}

// maxEID bounds eid, in bytes.
const maxEID = 255

// readPlay reads what a beacon's query says of the play; without dwellMs its dwell is 0. The fault is
// beaconRecorded if there is none. A macro is looked for in the text as it came, too: %%CACHEBUSTER%%
// unescapes to something else.
func readPlay(query []byte) (eid string, dwell float64, fault beaconOutcome) {
	given := map[string]int{}
	for parameter := range bytes.SplitSeq(query, []byte{'&'}) {
		name, raw, _ := bytes.Cut(parameter, []byte{'='})
		if string(name) != "eid" && string(name) != "dwellMs" {
			continue
		}
		value := string(fasthttp.AppendUnquotedArg(nil, raw))
		if adapter.Unreplaced(string(raw)) || adapter.Unreplaced(value) {
			return "", 0, beaconMacro
		}
		ok := true
		if string(name) == "eid" {
			eid = value
		} else {
			dwell, ok = readDwell(value)
		}
		if given[string(name)]++; !ok || given[string(name)] > 1 {
			return "", 0, beaconMalformed
		}
	}
	if eid == "" || len(eid) > maxEID || !utf8.ValidString(eid) || strings.ContainsFunc(eid, unicode.IsControl) {
		return "", 0, beaconMalformed
	}
	return eid, dwell, beaconRecorded
}

// readDwell reads a decimal number of milliseconds.
func readDwell(text string) (dwell float64, ok bool) {
	if strings.Trim(text, "0123456789.") != "" {
		return 0, false
	}
	dwell, err := strconv.ParseFloat(text, 64)
	return dwell, err == nil && dwell <= sealer.MaxDwellMs
}
