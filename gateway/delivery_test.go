package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/issuetest"
	"muniment.example/sealer"
)

func TestReceipt(t *testing.T) {
	w := newWorld(t, nil)
	r := w.post(fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"anchor \u0031","dwellMs":4200.5,"correlationId":"c-1","spatialPlacementId":null,`+
		`"dataSubjectId":"somebody","telemetry":{"viewable":true,"speedMph":3,"eyeTrackingConsent":true,"dwellInViewMs":900,"unknown":[1]}}`, w.right))
	require.Equal(t, 200, r.status, r.body)
	require.Equal(t, "application/json", r.header.Get("Content-Type"))
	require.Equal(t, "req-1", r.header.Get(api.HeaderRequestID))

	entries := w.log.All()
	require.Len(t, entries, 1)
	e := entries[0]
	d, err := sealer.ReadDelivery(e.Event)
	require.NoError(t, err)
	require.Equal(t, "anchor 1", d.Receipt.SpatialAnchorID)
	require.Equal(t, 4200.5, d.Receipt.DwellMs)
	require.Nil(t, d.Receipt.SpatialPlacementID)
	require.Equal(t, "c-1", *d.Receipt.CorrelationID)
	require.Equal(t, today, d.Receipt.IssuedAt)
	require.Equal(t, today, d.Receipt.RenderedAt)
	require.Equal(t, sealer.Ref{Kind: "key", ID: "key_01KAJ000000000000000000001"}, d.Event.Actor)
	require.Equal(t, "bas_1", d.BasisID)
	require.Equal(t, int64(4200), d.QuantityMs)
	require.Equal(t, "nod_1", e.Node)
	require.Equal(t, uint64(1), e.Seq)

	p, err := sealer.ParsePrivate(e.Private)
	require.NoError(t, err)
	require.Equal(t, "somebody", p.DataSubjects[0].Reference)
	require.Equal(t, int64(900), p.AttentionMs)
	require.Equal(t, `{"dwellInViewMs":900,"eyeTrackingConsent":true,"viewable":true}`, string(p.Telemetry))
	require.NotContains(t, string(e.Event), "somebody")

	require.Equal(t, fmt.Sprintf(`{"ok":true,"data":{"receipt":%s,"substrate":"DOOH","signature":{"algorithm":"ed25519","keyId":%q,"value":%q},`+
		`"metering":{"basis":"viewable","completion":"none","impressions":"1","metered":true,"quantityMs":4200,"reason":"METERED","reasons":[]}},"contractVersion":"v1.0"}`,
		d.ReceiptText, d.KeyID, sealedValue(t, r.body)), r.body)
}

func sealedValue(t *testing.T, body string) string {
	var a struct {
		Data struct {
			Signature struct{ Value string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(body), &a))
	return a.Data.Signature.Value
}

// TestGolden holds the exact bytes of one answer: with the clock, the random bits
// and the key fixed, they must never change.
func TestGolden(t *testing.T) {
	w := newWorld(t, func(c *settings) { c.Issue.Random = issuetest.Zeros{} })
	const want = `{"ok":true,"data":{"receipt":{"correlationId":null,"dwellMs":4200,"issuedAt":"2026-11-21T04:00:00.123Z","nonce":"AAAAAAAAAAAAAAAAAAAAAA",` +
		`"receiptId":"rcp_01M7Y45MKV0000000000000000","renderedAt":"2026-11-21T04:00:00.123Z","spatialAnchorId":"anchor-1","spatialPlacementId":null,"version":"1",`
	r := w.post(w.body())
	require.Equal(t, 200, r.status)
	require.Equal(t, want, r.body[:len(want)])
}

// TestEveryRefusal reaches each answer of POST /v1/delivery over a socket.
func TestEveryRefusal(t *testing.T) {
	w := newWorld(t, nil)
	car := w.putRight(4, "tnt_a", gate.Automotive, "", api.RightActive)
	early, late := rightID(5), rightID(6)
	w.control.SetRight(api.Right{ID: early, TenantID: "tnt_a", Substrate: "DOOH", BasisID: "bas_1", State: api.RightActive, EffectiveFrom: today.Add(time.Millisecond)})
	w.control.SetRight(api.Right{ID: late, TenantID: "tnt_a", Substrate: "DOOH", BasisID: "bas_1", State: api.RightActive, EffectiveFrom: today.Add(-time.Hour), EffectiveUntil: today})

	on := func(right string) string {
		return fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":1}`, right)
	}
	const tail = `,"requestId":"req-1"}` + "\n"
	for _, c := range []struct {
		name, request string
		status        int
		want          string
	}{
		{"not JSON", request(w.token, `{"rightId":`), 400,
			`{"ok":false,"error":"BAD_REQUEST","message":"the body is not one JSON value in UTF-8","contractVersion":"v1.0"` + tail},
		{"no key", request("", w.body()), 401,
			`{"ok":false,"error":"AUTH_REQUIRED","message":"the header Authorization: Bearer <API_KEY> is missing or malformed","contractVersion":"v1.0"` + tail},
		{"wrong key", request(w.token[:len(w.token)-1]+"x", w.body()), 401,
			`{"ok":false,"error":"AUTH_INVALID","message":"the API key is not valid","contractVersion":"v1.0"` + tail},
		{"key without the scope", request(w.readToken, w.body()), 403,
			`{"ok":false,"error":"SCOPE_MISSING","message":"the key lacks the scope delivery:write","contractVersion":"v1.0",` +
				`"requiredScopes":["delivery:write"],"keyScopes":["rights:read","audit:read"]` + tail},
		{"unknown right", request(w.token, on(rightID(99))), 404,
			`{"ok":false,"error":"RESOURCE_NOT_FOUND","message":"no such right in this tenant","contractVersion":"v1.0","field":"rightId"` + tail},
		{"another tenant's right", request(w.token, on(w.foreign)), 404,
			`{"ok":false,"error":"RESOURCE_NOT_FOUND","message":"no such right in this tenant","contractVersion":"v1.0","field":"rightId"` + tail},
		{"another tenant's stopped right", request(w.otherToken, on(w.suspended)), 404,
			`{"ok":false,"error":"RESOURCE_NOT_FOUND","message":"no such right in this tenant","contractVersion":"v1.0","field":"rightId"` + tail},
		{"what is no right id", request(w.token, on("x")), 404,
			`{"ok":false,"error":"RESOURCE_NOT_FOUND","message":"no such right in this tenant","contractVersion":"v1.0","field":"rightId"` + tail},
		{"stopped right", request(w.token, on(w.suspended)), 409,
			`{"ok":false,"error":"STATE_CONFLICT","message":"the right is not ACTIVE: it is SUSPENDED","contractVersion":"v1.0"` + tail},
		{"before the window", request(w.token, on(early)), 409,
			`{"ok":false,"error":"STATE_CONFLICT","message":"the right is not in effect yet","contractVersion":"v1.0"` + tail},
		{"at the end of the window", request(w.token, on(late)), 409,
			`{"ok":false,"error":"STATE_CONFLICT","message":"the right is no longer in effect","contractVersion":"v1.0"` + tail},
		{"refused by the gate", request(w.token, fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":1,"telemetry":{"speedMph":65}}`, car)), 412,
			`{"ok":false,"error":"PRECONDITION_FAILED","message":"delivery refused by the AUTOMOTIVE constraint gate: 1 violation","contractVersion":"v1.0",` +
				`"substrate":"AUTOMOTIVE","gate":"gate.v1","violations":[{"code":"AUTOMOTIVE_SPEED_EXCEEDED","rule":"automotive-speed","substrate":"AUTOMOTIVE",` +
				`"field":"telemetry.speedMph","fields":["telemetry.speedMph"],"observed":65,"required":"< 5","message":"vehicle speed 65 mph; visual renders need < 5 mph",` +
				`"reference":"NHTSA 78 FR 24817, AAOS UX restrictions, ESoP","unit":"mph","limit":5}]` + tail},
		{"body too large", request(w.token, strings.Repeat(" ", maxDeliveryBody+1)), 413,
			`{"ok":false,"error":"BAD_REQUEST","message":"the body is larger than this route takes","contractVersion":"v1.0"` + tail},
		{"one field", request(w.token, `{"rightId":"x","spatialAnchorId":"a","dwellMs":"1"}`), 422,
			`{"ok":false,"error":"VALIDATION_FAILED","message":"dwellMs: must be a number","contractVersion":"v1.0","field":"dwellMs",` +
				`"validationErrors":[{"field":"dwellMs","message":"must be a number"}]` + tail},
		{"several fields", request(w.token, `{"spatialAnchorId":"","dwellMs":-1,"telemetry":{"speedMph":"65"}}`), 422,
			`{"ok":false,"error":"VALIDATION_FAILED","message":"several fields are not valid","contractVersion":"v1.0","field":"spatialAnchorId",` +
				`"validationErrors":[{"field":"spatialAnchorId","message":"must not be empty"},{"field":"dwellMs","message":"must be from 0 to 68719476736"},` +
				`{"field":"telemetry.speedMph","message":"must be a number from 0 to 9007199254740992"},{"field":"rightId","message":"is missing"}]` + tail},
		{"malformed idempotency key", request(w.token, w.body(), "Idempotency-Key: a b"), 400,
			`{"ok":false,"error":"BAD_REQUEST","message":"the header Idempotency-Key must be 1 to 255 visible ASCII characters","contractVersion":"v1.0"` + tail},
		{"a query", strings.Replace(request(w.token, "{}"), "delivery", "delivery?dryRun=true", 1), 422,
			`{"ok":false,"error":"VALIDATION_FAILED","message":"dryRun: is an unknown parameter: this operation takes none","contractVersion":"v1.0","field":"dryRun",` +
				`"validationErrors":[{"field":"dryRun","message":"is an unknown parameter: this operation takes none"}]` + tail},
		{"a query and no key", strings.Replace(request("", "{}"), "delivery", "delivery?dryRun=true", 1), 401,
			`{"ok":false,"error":"AUTH_REQUIRED","message":"the header Authorization: Bearer <API_KEY> is missing or malformed","contractVersion":"v1.0"` + tail},
		{"two keys", request(w.token, w.body(), "authorization: Bearer "+w.token), 401,
			`{"ok":false,"error":"AUTH_REQUIRED","message":"the header Authorization: Bearer <API_KEY> is missing or malformed","contractVersion":"v1.0"` + tail},
		{"compressed", request(w.token, w.body(), "Content-Encoding: gzip"), 415,
			`{"ok":false,"error":"BAD_REQUEST","message":"the Content-Encoding gzip is not accepted: send a delivery uncompressed, or a batch","contractVersion":"v1.0"` + tail},
		{"compressed by somebody", request("", w.body(), "Content-Encoding: gzip"), 401,
			`{"ok":false,"error":"AUTH_REQUIRED","message":"the header Authorization: Bearer <API_KEY> is missing or malformed","contractVersion":"v1.0"` + tail},
		{"wrong method", "GET /v1/delivery HTTP/1.1\r\nHost: m\r\nX-Request-Id: req-1\r\n\r\n", 405,
			`{"ok":false,"error":"BAD_REQUEST","message":"this path takes POST only","contractVersion":"v1.0"` + tail},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.t = t
			r := w.raw(c.request)
			require.Equal(t, c.status, r.status, r.body)
			require.Equal(t, c.want, r.body)
			require.Equal(t, "application/json", r.header.Get("Content-Type"))
		})
	}
	require.Empty(t, w.log.All(), "nothing refused may reach the log")
}

func TestLogAway(t *testing.T) {
	w := newWorld(t, nil)
	w.log.SetFail(errors.New("disk on fire"))
	r := w.post(w.body(), "Idempotency-Key: k")
	require.Equal(t, 503, r.status)
	require.Contains(t, []string{"1", "2"}, r.header.Get("Retry-After"))
	require.Equal(t, `{"ok":false,"error":"INTERNAL_ERROR","message":"the delivery could not be made durable; nothing was promised","contractVersion":"v1.0",`+
		`"reason":"LOG_UNAVAILABLE","requestId":"req-1"}`+"\n", r.body)

	w.log.SetFail(nil)
	r = w.post(w.body(), "Idempotency-Key: k")
	require.Equal(t, 200, r.status, "a failed write must free the key")
	require.Empty(t, r.header.Get(api.HeaderReplayed))
}

func TestSlowLog(t *testing.T) {
	w := newWorld(t, func(c *settings) { c.Issue.Timeout = 30 * time.Millisecond })
	release := w.log.Halt()
	defer release()
	r := w.post(w.body())
	require.Equal(t, 503, r.status)
	require.Contains(t, r.body, `"reason":"LOG_UNAVAILABLE"`)
	release()
	require.Equal(t, 200, w.post(w.body()).status, "a deadline that has passed must not haunt the next request")
}

func TestTenantAndNodeBounds(t *testing.T) {
	w := newWorld(t, func(c *settings) { c.MaxTenantInFlight, c.MaxInFlight = 1, 2 })
	own := fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":1}`, w.foreign)
	release := w.log.Halt()
	defer release()
	first := make(chan reply, 2)
	go func() { first <- w.post(w.body()) }()
	waittest.Until(t, func() bool { return w.log.Appending() == 1 })

	r := w.post(w.body())
	require.Equal(t, 429, r.status)
	require.Contains(t, []string{"1", "2"}, r.header.Get("Retry-After"))
	require.Equal(t, `{"ok":false,"error":"RATE_LIMITED","message":"this tenant has too many deliveries in hand on this node","contractVersion":"v1.0","requestId":"req-1"}`+"\n", r.body)

	// Another tenant still has its share; with it the node is full.
	go func() { first <- w.raw(request(w.otherToken, own)) }()
	waittest.Until(t, func() bool { return w.log.Appending() == 2 })
	r = w.raw(request(w.otherToken, own))
	require.Equal(t, 503, r.status)
	require.Equal(t, `{"ok":false,"error":"INTERNAL_ERROR","message":"this node has too many requests in hand","contractVersion":"v1.0","reason":"OVERLOADED","requestId":"req-1"}`+"\n", r.body)

	release()
	require.Equal(t, 200, (<-first).status)
	require.Equal(t, 200, (<-first).status)
	require.Equal(t, 200, w.post(w.body()).status)
}

// TestRefusalsAboveABoundAreHeldBack has a tenant press against its cap. What waits
// to be refused takes no place from others, and doesn't outlive the gateway.
func TestRefusalsAboveABoundAreHeldBack(t *testing.T) {
	w := newWorld(t, func(c *settings) { c.MaxTenantInFlight, c.MaxInFlight, c.BusyPause = 1, 2, time.Hour })
	release := w.log.Halt()
	defer release()
	const pressing = 10
	replies := make(chan reply, 1+pressing)
	for range 1 + pressing {
		go func() { replies <- w.post(w.body()) }()
	}
	waittest.Until(t, func() bool { return w.gateway.heldBack.Load() == pressing })
	require.Equal(t, int64(1), w.gateway.inFlight.Load())

	other := make(chan reply, 1)
	go func() {
		other <- w.raw(request(w.otherToken, fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":1}`, w.foreign)))
	}()
	waittest.Until(t, func() bool { return w.log.Appending() == 2 })
	release()
	require.Equal(t, 200, (<-other).status)
	require.Equal(t, 200, (<-replies).status)
	require.Empty(t, replies)

	w.stop()
	for range pressing {
		r := <-replies
		require.Contains(t, []int{429, 503}, r.status, "refused for its tenant, or for arriving in one moment with others")
		require.True(t, r.closes)
	}
}

// TestTheRefusedComeBackApart: of many that are refused together, each tenth of the
// time in which they may come back gets some.
func TestTheRefusedComeBackApart(t *testing.T) {
	tenths := map[time.Duration]int{}
	for range 10_000 {
		pause := spread(time.Second)
		require.GreaterOrEqual(t, pause, time.Second/2)
		require.Less(t, pause, 3*time.Second/2)
		tenths[(pause-time.Second/2)/(time.Second/10)]++
	}
	require.Len(t, tenths, 10)
	for tenth, n := range tenths {
		require.Greater(t, n, 500, "tenth %d", tenth)
	}
}

func TestRevocationIsEffectiveOnceApplied(t *testing.T) {
	w := newWorld(t, nil)
	require.Equal(t, 200, w.post(w.body()).status)
	revision := w.control.SetRight(api.Right{ID: w.right, TenantID: "tnt_a", Substrate: "DOOH", BasisID: "bas_1", State: api.RightRevoked})
	waittest.Until(t, func() bool { return w.view.Applied() >= revision })
	r := w.post(w.body())
	require.Equal(t, 409, r.status)
	require.Contains(t, r.body, "REVOKED")
}

func TestClockThatStepsBack(t *testing.T) {
	var calls atomic.Int64
	w := newWorld(t, func(c *settings) {
		c.Now = func() time.Time { // every call is a second before the last
			return today.Add(-time.Duration(calls.Add(1)) * time.Second)
		}
	})
	require.Equal(t, 200, w.post(w.body()).status)
	d, err := sealer.ReadDelivery(w.log.All()[0].Event)
	require.NoError(t, err)
	require.Equal(t, d.Receipt.RenderedAt, d.Receipt.IssuedAt)
}

// vectors are the cases of the constraint gate, here through the whole server.
func TestGateVectors(t *testing.T) {
	text, err := os.ReadFile("../gate/testdata/gate-vectors.json")
	require.NoError(t, err)
	var file struct {
		Vectors []struct {
			ID           string
			Substrate    gate.Substrate
			DwellMs      json.Number
			RightScope   json.RawMessage
			Telemetry    json.RawMessage
			TelemetryRaw string
			Expect       struct {
				Status             int
				Error, Field       string
				Violations         []string
				Metered            bool
				Reason, Basis      string
				SuppressReasons    []string
				EffectiveSubstrate string
				MeteringKeeps      []string
				MeteringDrops      []string
			}
		}
		Matrix []struct {
			Code      string
			Telemetry json.RawMessage
			DwellMs   json.Number
			FiresOn   []gate.Substrate
		}
	}
	require.NoError(t, json.Unmarshal(text, &file))
	require.NotEmpty(t, file.Vectors)
	w := newWorld(t, nil)

	type seen struct {
		Data struct {
			Substrate string
			Metering  struct {
				Metered bool
				Reason  string
				Reasons []string
				Basis   string
			}
		}
		Error, Field string
		Violations   []struct{ Code string }
	}
	observe := func(right string, dwell json.Number, telemetry string) (reply, seen) {
		body := fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":%s`, right, dwell)
		if telemetry != "" {
			body += `,"telemetry":` + telemetry
		}
		r := w.post(body + "}")
		var s seen
		require.NoError(t, json.Unmarshal([]byte(r.body), &s))
		return r, s
	}
	n := 1000
	for _, v := range file.Vectors {
		n++
		right := w.putRight(n, "tnt_a", v.Substrate, string(v.RightScope), api.RightActive)
		telemetry := string(v.Telemetry)
		if v.TelemetryRaw != "" {
			telemetry = v.TelemetryRaw
		}
		before := len(w.log.All())
		r, s := observe(right, v.DwellMs, telemetry)
		require.Equal(t, v.Expect.Status, r.status, "%s: %s", v.ID, r.body)
		require.Equal(t, v.Expect.Error, s.Error, v.ID)
		var codes []string
		for _, x := range s.Violations {
			codes = append(codes, x.Code)
		}
		require.ElementsMatch(t, v.Expect.Violations, codes, v.ID)
		if v.Expect.Field != "" {
			require.Equal(t, v.Expect.Field, s.Field, v.ID)
		}
		if r.status != 200 {
			require.Len(t, w.log.All(), before, v.ID)
			continue
		}
		require.Equal(t, v.Expect.Metered, s.Data.Metering.Metered, v.ID)
		require.Equal(t, v.Expect.Reason, s.Data.Metering.Reason, v.ID)
		require.Equal(t, v.Expect.SuppressReasons, s.Data.Metering.Reasons, v.ID)
		if v.Expect.Basis != "" {
			require.Equal(t, v.Expect.Basis, s.Data.Metering.Basis, v.ID)
		}
		if v.Expect.EffectiveSubstrate != "" {
			require.Equal(t, v.Expect.EffectiveSubstrate, s.Data.Substrate, v.ID)
		}
		p, err := sealer.ParsePrivate(w.log.All()[before].Private)
		require.NoError(t, err)
		kept := map[string]any{}
		if p.Telemetry != nil {
			require.NoError(t, json.Unmarshal(p.Telemetry, &kept))
		}
		for _, k := range v.Expect.MeteringKeeps {
			require.Contains(t, kept, k, v.ID)
		}
		for _, k := range v.Expect.MeteringDrops {
			require.NotContains(t, kept, k, v.ID)
		}
	}

	rights := map[gate.Substrate]string{}
	for s := range gate.Substrate(gate.Substrates) {
		rights[s] = w.putRight(2000+int(s), "tnt_a", s, "", api.RightActive)
	}
	for _, row := range file.Matrix {
		fires := map[gate.Substrate]bool{}
		for _, s := range row.FiresOn {
			fires[s] = true
		}
		for s, right := range rights {
			r, got := observe(right, row.DwellMs, string(row.Telemetry))
			fired := false
			for _, x := range got.Violations {
				fired = fired || x.Code == row.Code
			}
			for _, x := range got.Data.Metering.Reasons {
				fired = fired || x == row.Code
			}
			if r.status == 412 && !fired && fires[s] {
				continue // a suppression can't show behind a refusal of another rule
			}
			require.Equal(t, fires[s], fired, "%s on %s: %s", row.Code, s, r.body)
		}
	}
}

func TestKeyOrderAndUnknownFieldsChangeNothing(t *testing.T) {
	w := newWorld(t, func(c *settings) { c.Issue.Random = issuetest.Zeros{} })
	want := w.post(w.body())
	require.Equal(t, 200, want.status)
	for _, body := range []string{
		fmt.Sprintf(`{"dwellMs":4200,"spatialAnchorId":"anchor-1","rightId":%q}`, w.right),
		fmt.Sprintf(` { "x" : {"a":[1,{}]}, "rightId" : %q , "right":1, "spatialAnchorId":"anchor-1", "dwellMs": 4.2e3, "y":null } `, w.right),
		fmt.Sprintf(`{"\u0072ightId":%q,"spatialAnchorId":"\u0061nchor-1","dwellMs":4200,"telemetry":{"xtra":{"speedMph":65}}}`, w.right),
	} {
		got := w.post(body)
		require.Equal(t, 200, got.status, got.body)
		require.Equal(t, receiptOf(t, want.body), receiptOf(t, got.body))
	}
}

// receiptOf is the receipt without its witness, which covers the private part too.
func receiptOf(t *testing.T, body string) map[string]any {
	var a struct {
		Data struct{ Receipt map[string]any }
	}
	require.NoError(t, json.Unmarshal([]byte(body), &a))
	delete(a.Data.Receipt, "witness")
	return a.Data.Receipt
}
