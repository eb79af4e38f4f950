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

	"muniment/gateway/api"
	"muniment/gateway/auth"
	"muniment/gateway/issue"
	"muniment/sealer"
)

// Beacons are for players that can only call a URL. The answer is always an image of one pixel:
// a player can do nothing with an error, and a viewer must not see one. The outcome is counted
// in muniment_gateway_beacons_total.

// pixel is a transparent GIF of 1×1.
var pixel = []byte("GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\x00\x00\x00!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;")

// beaconOutcome is the outcome of a beacon's call: a bounded label.
type beaconOutcome uint8

const (
	beaconRecorded  beaconOutcome = iota // a receipt was issued
	beaconDuplicate                      // one was, with this eid
	beaconNotGet                         // HEAD or another method: nothing was shown
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
	return [beaconOutcomes]string{"recorded", "duplicate", "not_get", "malformed", "invalid", "expired", "key", "limited", "refused", "unavailable"}[o]
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
	h.Set(fasthttp.HeaderXContentTypeOptions, "nosniff")
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
	eid, dwell, ok := readPlay(ctx.QueryArgs())
	if !ok {
		return beaconMalformed
	}
	arrived := g.now()
	if !arrived.Before(b.ExpiresAt) {
		return beaconExpired
	}
	if key := g.rights.BeaconKey(b.SigningKeyID); key == nil || !b.SignedBy(key) {
		return beaconInvalid
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
		return g.record(deadline, b, eid, dwell, arrived, key.Sandbox)
	}
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

// readPlay reads what a beacon's query says of the play; without dwellMs its dwell is 0.
func readPlay(query *fasthttp.Args) (eid string, dwell float64, ok bool) {
	given := map[string]int{}
	for name, value := range query.All() {
		switch string(name) {
		case "eid":
			eid = string(value)
		case "dwellMs":
			if dwell, ok = readDwell(string(value)); !ok {
				return "", 0, false
			}
		default:
			continue
		}
		if given[string(name)]++; given[string(name)] > 1 {
			return "", 0, false
		}
	}
	return eid, dwell, eid != "" && len(eid) <= maxEID && utf8.ValidString(eid) && !strings.ContainsFunc(eid, unicode.IsControl)
}

// readDwell reads a decimal number of milliseconds.
func readDwell(text string) (dwell float64, ok bool) {
	if strings.Trim(text, "0123456789.") != "" {
		return 0, false
	}
	dwell, err := strconv.ParseFloat(text, 64)
	return dwell, err == nil && dwell <= sealer.MaxDwellMs
}
