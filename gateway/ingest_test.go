package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/gateway/issue"
	"muniment.example/gateway/issue/issuetest"
	"muniment.example/sealer"
)

// batchRequest is a request with a body of some type.
func batchRequest(token, mediaType, body string, headers ...string) string {
	return targeted(pathBatch, token, mediaType, body, headers...)
}

func targeted(target, token, mediaType, body string, headers ...string) string {
	if mediaType != "" {
		headers = append(headers, "Content-Type: "+mediaType)
	}
	text := request(token, body, headers...)
	return strings.Replace(text, pathDelivery+" ", target+" ", 1)
}

// halfPast is when the plays of tests were.
var halfPast = today.Add(-30 * time.Minute).Truncate(time.Second)

// row is a row of the fixture's right; more is further fields.
func (w *world) row(id, more string) string {
	return fmt.Sprintf(`{"rowId":%q,"rightId":%q,"spatialAnchorId":"a","playedAt":%q,"dwellMs":4200%s}`, id, w.right, halfPast.Format(time.RFC3339), more)
}

// rows are some of them.
func (w *world) rows(n int, name string) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = w.row(fmt.Sprint(name, i), "")
	}
	return all
}

func inJSON(rows ...string) string { return `{"rows":[` + strings.Join(rows, ",") + `]}` }

// send posts a batch.
func (w *world) send(mediaType, body string, headers ...string) reply {
	w.t.Helper()
	return w.raw(batchRequest(w.token, mediaType, body, headers...))
}

// ingested is the answer to a batch that was taken.
func (w *world) ingested(r reply) api.Ingested {
	w.t.Helper()
	require.Equal(w.t, 200, r.status, r.body)
	var answer api.Body[api.Ingested]
	decoder := json.NewDecoder(strings.NewReader(r.body))
	decoder.DisallowUnknownFields()
	require.NoError(w.t, decoder.Decode(&answer), r.body)
	require.True(w.t, answer.OK)
	require.Equal(w.t, api.ContractVersion, answer.ContractVersion)
	require.Equal(w.t, "application/json", r.header.Get("Content-Type"))
	counts := map[string]int{}
	for n, result := range answer.Data.Results {
		require.Equal(w.t, n, result.Index)
		counts[result.Status]++
	}
	require.Equal(w.t, api.RowCounts{Accepted: counts["accepted"], Duplicate: counts["duplicate"], Rejected: counts["rejected"], Unmapped: counts["unmapped"], Held: counts["held"]}, answer.Data.Counts)
	return answer.Data
}

func statuses(of api.Ingested) (all []string) {
	for _, r := range of.Results {
		all = append(all, r.Status)
	}
	return all
}

func packed(t testing.TB, coding, text string) string {
	var out bytes.Buffer
	var to io.WriteCloser = gzip.NewWriter(&out)
	if coding == "zstd" {
		var err error
		to, err = zstd.NewWriter(&out)
		require.NoError(t, err)
	}
	_, err := io.WriteString(to, text)
	require.NoError(t, err)
	require.NoError(t, to.Close())
	return out.String()
}

// TestBatch: every row has its result, and a receipt is that of the event in the log.
func TestBatch(t *testing.T) {
	w := newWorld(t, nil)
	car := w.putRight(30, "tnt_a", gate.Automotive, "", api.RightActive)
	moving := fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","playedAt":%q,"dwellMs":1,"telemetry":{"speedMph":80}}`, car, today.Format(time.RFC3339))
	r := w.send("application/json", inJSON(w.row("1", `,"multiplier":2.5`), `{"rowId":7,"playedAt":1}`, w.row("1", `,"multiplier":2.5`), moving, `{"rowId":"<2>","dwellMs":-1}`))
	got := w.ingested(r)
	require.Equal(t, []string{"accepted", "rejected", "duplicate", "rejected", "rejected"}, statuses(got))
	d, err := sealer.ReadDelivery(w.log.All()[0].Event)
	require.NoError(t, err)
	require.Len(t, w.log.All(), 1)
	require.Equal(t, int64(25_000), d.Impressions)
	first := got.Results[0]
	require.Equal(t, []any{d.Receipt.ReceiptID, halfPast, d.KeyID, "DOOH", true},
		[]any{first.Receipt.ReceiptID, first.Receipt.RenderedAt, first.Signature.KeyID, first.Substrate, first.Metering.Metered})
	require.Contains(t, r.body, `"receipt":`+string(d.ReceiptText)+`,"signature":`)
	require.Equal(t, first.Receipt, got.Results[2].Receipt)
	require.Nil(t, got.Results[1].Receipt)
	require.Equal(t, []any{api.ValidationFailed, "rowId", 4}, []any{got.Results[1].Error.Code, got.Results[1].Error.Field, len(got.Results[1].Error.ValidationErrors)})
	refused := got.Results[3].Error
	require.Equal(t, []any{api.PreconditionFailed, "AUTOMOTIVE", gate.Version}, []any{refused.Code, refused.Substrate, refused.Gate})
	require.Contains(t, string(refused.Violations), "automotive-speed")
	for status, n := range map[string]float64{"accepted": 1, "duplicate": 1, "rejected": 3, "unmapped": 0} {
		require.Equal(t, n, w.metric("muniment_gateway_rows_total", status), status)
	}
	require.Zero(t, w.metric("muniment_gateway_batch_bytes", ""))
	require.Zero(t, w.metric("muniment_gateway_batches_in_hand", ""))
}

// TestBatchForms: a batch is the same in each form that it may come in.
func TestBatchForms(t *testing.T) {
	w := newWorld(t, nil)
	rows := w.rows(1000, "r")
	object, lines := inJSON(rows...), strings.Join(rows, "\n")
	want := w.ingested(w.send("application/json", object))
	require.Equal(t, 1000, want.Counts.Accepted)
	for _, form := range []struct{ mediaType, body, coding string }{
		{"", object, ""}, {"application/json; charset=utf-8", object, ""}, {"Application/JSON", " \n" + object + "\n", ""}, {"application/json", object, "identity"},
		{"application/x-ndjson", lines, ""}, {"application/x-ndjson", lines + "\n", ""}, {"application/x-ndjson", strings.ReplaceAll(lines, "\n", "\r\n\n \t\r\n"), ""},
		{"application/json", object, "gzip"}, {"application/json", object, "zstd"}, {"application/x-ndjson", lines, "gzip"}, {"application/x-ndjson", lines, "ZSTD"},
		{"application/json", object, "X-GZip"}, {"application/x-www-form-urlencoded", object, ""}, // by curl without a header
	} {
		body, headers := form.body, []string{}
		if form.coding != "" {
			headers = append(headers, "Content-Encoding: "+form.coding)
			if coding := strings.ToLower(form.coding); coding != "identity" {
				body = packed(t, coding, body)
			}
		}
		got := w.ingested(w.send(form.mediaType, body, headers...))
		require.Equal(t, 1000, got.Counts.Duplicate, form.mediaType+form.coding)
		for n := range got.Results {
			require.Equal(t, want.Results[n].Receipt, got.Results[n].Receipt)
		}
	}
	require.Len(t, w.log.All(), 1000)
	require.Equal(t, `{"ok":true,"data":{"results":[],"counts":{"accepted":0,"duplicate":0,"rejected":0,"unmapped":0,"held":0}},"contractVersion":"v1.0"}`, w.send("application/json", `{"rows":[]}`).body)
	require.Empty(t, w.ingested(w.send("application/x-ndjson", "")).Results)
	got := w.ingested(w.send("application/json", `{"rows":[`+w.row("of acme", "")+`],"other":{"rows":1},"vendor":"acme"}`))
	require.Equal(t, []string{"accepted"}, statuses(got))
	require.Equal(t, []string{"duplicate"}, statuses(w.ingested(w.send("application/x-ndjson", w.row("of acme", `,"vendor":"acme"`)))))
}

// TestBatchesThatAreNotTaken: of a body that can't be read, or is no batch, no row is.
func TestBatchesThatAreNotTaken(t *testing.T) {
	w := newWorld(t, nil)
	good := w.row("1", "")
	many := strings.Repeat(good+",", 1000) + good
	long := strings.Repeat(" ", maxBatchBody)
	gzipped, zstandard := packed(t, "gzip", inJSON(good)), packed(t, "zstd", inJSON(good))
	for _, c := range []struct {
		name, mediaType, body string
		status                int
		field                 string
		headers               []string
	}{
		{"no JSON", "application/json", `{"rows":[` + good + `]`, 400, "", nil},
		{"empty", "application/json", ``, 400, "", nil},
		{"a row that is no JSON", "application/json", `{"rows":[` + good + `,{"a"}]}`, 400, "", nil},
		{"behind the batch", "application/json", inJSON(good) + `x`, 400, "", nil},
		{"two batches", "application/json", inJSON(good) + inJSON(good), 400, "", nil},
		{"invalid UTF-8", "application/json", inJSON(good, "{\"x\":\"\xff\"}"), 400, "", nil},
		{"too many, then no JSON", "application/json", `{"rows":[` + many + `,`, 400, "", nil},
		{"a list", "application/json", `[` + good + `]`, 422, "body", nil},
		{"null", "application/json", `null`, 422, "body", nil},
		{"no rows", "application/json", `{"vendor":"acme"}`, 422, "rows", nil},
		{"rows of another kind", "application/json", `{"rows":` + good + `}`, 422, "rows", nil},
		{"rows null", "application/json", `{"rows":null}`, 422, "rows", nil},
		{"rows twice", "application/json", `{"rows":[` + good + `],"rows":[]}`, 422, "rows", nil},
		{"rows twice, one escaped", "application/json", `{"rows":[` + good + `],"\u0072ows":[]}`, 422, "rows", nil},
		{"another name twice", "application/json", `{"x":1,"rows":[` + good + `],"x":2}`, 422, "x", nil},
		{"a name twice inside of another", "application/json", `{"rows":[` + good + `],"x":[{"y":1,"y":2}]}`, 422, "x", nil},
		{"another that is deep", "application/json", `{"rows":[` + good + `],"x":` + strings.Repeat("[", 33) + strings.Repeat("]", 33) + `}`, 400, "", nil},
		{"vendor a number", "application/json", `{"rows":[` + good + `],"vendor":1}`, 422, "vendor", nil},
		{"vendor empty", "application/json", `{"rows":[` + good + `],"vendor":""}`, 422, "vendor", nil},
		{"vendor too long", "application/json", `{"rows":[` + good + `],"vendor":"` + strings.Repeat("x", 513) + `"}`, 422, "vendor", nil},
		{"too many", "application/json", `{"rows":[` + many + `]}`, 422, "rows", nil},
		{"too many lines", "application/x-ndjson", strings.ReplaceAll(many, "},{", "}\n{"), 422, "rows", nil},
		{"a line that is no JSON", "application/x-ndjson", good + "\n\n{", 400, "rows", nil},
		{"two values in a line", "application/x-ndjson", good + " " + good, 400, "rows", nil},
		{"too long when unpacked", "application/json", packed(t, "gzip", inJSON(good)+long), 413, "", []string{"Content-Encoding: gzip"}},
		{"too long, zstd", "application/json", packed(t, "zstd", inJSON(good)+long), 413, "", []string{"Content-Encoding: zstd"}},
		{"a bomb", "application/json", packed(t, "gzip", strings.Repeat(long, 3)), 413, "", []string{"Content-Encoding: gzip"}},
		{"a bomb of zstd", "application/json", packed(t, "zstd", strings.Repeat(long, 3)), 413, "", []string{"Content-Encoding: zstd"}},
		{"not packed", "application/json", inJSON(good), 400, "", []string{"Content-Encoding: gzip"}},
		{"not packed, zstd", "application/json", inJSON(good), 400, "", []string{"Content-Encoding: zstd"}},
		{"cut off", "application/json", gzipped[:len(gzipped)-5], 400, "", []string{"Content-Encoding: gzip"}},
		{"cut off, zstd", "application/json", zstandard[:len(zstandard)-2], 400, "", []string{"Content-Encoding: zstd"}},
		{"altered", "application/json", strings.Replace(gzipped, gzipped[len(gzipped)-8:len(gzipped)-4], "abcd", 1), 400, "", []string{"Content-Encoding: gzip"}},
		{"more behind it", "application/json", gzipped + "x", 400, "", []string{"Content-Encoding: gzip"}},
		{"another coding", "application/json", inJSON(good), 415, "", []string{"Content-Encoding: br"}},
		{"two codings", "application/json", gzipped, 415, "", []string{"Content-Encoding: gzip, gzip"}},
		{"two headers", "application/json", gzipped, 415, "", []string{"Content-Encoding: gzip", "Content-Encoding: identity"}},
		{"another type", "text/plain", inJSON(good), 415, "", nil},
		{"no type", "/", inJSON(good), 415, "", nil},
		{"an empty key", "application/json", inJSON(good), 400, "", []string{"Idempotency-Key: "}},
		{"two keys", "application/json", inJSON(good), 400, "", []string{"Idempotency-Key: a", "Idempotency-Key: b"}},
	} {
		got := w.send(c.mediaType, c.body, c.headers...)
		require.Equal(t, c.status, got.status, "%s: %s", c.name, got.body)
		requireEnvelope(t, got)
		require.Equal(t, c.field, field(t, got), c.name)
		if c.status == 415 || c.status == 413 {
			require.Contains(t, got.body, `"error":"BAD_REQUEST"`)
		}
	}
	tooLong := batchRequest(w.token, "application/json", inJSON(good)+long)
	got := w.raw(tooLong[:maxBody]) // its end is not waited for
	require.Equal(t, 413, got.status)
	requireEnvelope(t, got)
	got = w.raw(targeted(pathBatch+"?fromat=x", w.token, "application/json", inJSON(good)))
	require.Equal(t, []any{422, "fromat"}, []any{got.status, field(t, got)})
	got = w.raw(targeted(pathBatch+"?format=x", w.token, "application/json", inJSON(good)))
	require.Equal(t, []any{422, "format"}, []any{got.status, field(t, got)})
	got = w.raw(strings.Replace(batchRequest(w.token, "", ""), "POST ", "GET ", 1))
	require.Equal(t, []any{405, "POST"}, []any{got.status, got.header.Get("Allow")})
	require.Empty(t, w.log.All())
	require.Zero(t, w.metric("muniment_gateway_batch_bytes", ""))
	require.Zero(t, w.metric("muniment_gateway_batches_in_hand", ""))
	require.Equal(t, []string{"accepted"}, statuses(w.ingested(w.send("application/json", inJSON(good)))))
}

func field(t *testing.T, r reply) string {
	var e api.ErrorBody
	require.NoError(t, json.Unmarshal([]byte(r.body), &e))
	return e.Field
}

// TestWhoMaySendABatch is found out before any of it is read.
func TestWhoMaySendABatch(t *testing.T) { everyTransport(t, whoMaySendABatch) }

func whoMaySendABatch(t *testing.T, transport func(*settings)) {
	w := newWorld(t, transport)
	for token, status := range map[string]int{"": 401, "nonsense": 401, w.readToken: 403} {
		text := batchRequest(token, "application/json", "")
		begun := strings.Replace(text, "Content-Length: 0", "Content-Length: 8000000", 1) + strings.Repeat(" ", 16<<10)
		got := w.raw(begun)
		require.Equal(t, status, got.status)
		require.True(t, got.closes)
		requireEnvelope(t, got)
		require.Equal(t, status, w.raw(text).status)
	}
	got := w.raw(strings.Replace(batchRequest(w.token, "application/json", ""), "Content-Length: 0", fmt.Sprint("Content-Length: ", maxBatchBody+1), 1))
	require.Equal(t, 413, got.status)
	require.Equal(t, 400, w.raw(strings.Replace(batchRequest(w.token, "application/json", ""), "Content-Length: 0", "Transfer-Encoding: gzip", 1)).status)
}

// TestABatchThatIsNotDurable is answered 503, and its retry finds what was.
func TestABatchThatIsNotDurable(t *testing.T) {
	w := newWorld(t, nil)
	body := inJSON(w.rows(5, "r")...)
	w.log.Refuse(func(r *sealer.Record) error {
		if r.Seq == 4 {
			return errors.New("its partition is away")
		}
		return nil
	})
	got := w.send("application/json", body)
	require.Equal(t, 503, got.status)
	require.Contains(t, []string{"1", "2"}, got.header.Get("Retry-After"))
	require.Contains(t, got.body, `"reason":"LOG_UNAVAILABLE"`)
	w.log.Refuse(nil)
	require.Equal(t, []string{"duplicate", "duplicate", "duplicate", "accepted", "duplicate"}, statuses(w.ingested(w.send("application/json", body))))
}

// TestHeldRows: what no mapping knows is held before the answer says so.
func TestHeldRows(t *testing.T) {
	var holds []api.HoldRequest
	answer := func(n int, row api.HeldRow) api.HeldResult { return api.HeldResult{HeldID: fmt.Sprint("hld_", n)} }
	var away error
	w := newWorld(t, func(c *settings) {
		c.Hold = func(_ context.Context, req api.HoldRequest) (results []api.HeldResult, err error) {
			holds = append(holds, req)
			for n, row := range req.Rows {
				results = append(results, answer(n, row))
			}
			return results, away
		}
	})
	row := func(id string) string {
		return fmt.Sprintf(`{"vendor":"acme","idType":"screen","vendorId":%q,"playedAt":%q,"dwellMs":1}`, id, today.Format(time.RFC3339))
	}
	body := inJSON(row("a"), w.row("1", ""), row("b"), `{}`)
	got := w.ingested(w.send("application/json", body))
	require.Equal(t, []string{"unmapped", "accepted", "unmapped", "rejected"}, statuses(got))
	require.Equal(t, []string{"hld_0", "hld_1"}, []string{got.Results[0].HeldID, got.Results[2].HeldID})
	require.Len(t, holds, 1)
	require.Equal(t, []string{"tnt_a", issuetest.KeyID(1), "a", "b"}, []string{holds[0].TenantID, holds[0].KeyID, holds[0].Rows[0].VendorID, holds[0].Rows[1].VendorID})

	twice := inJSON(row("a"), row("a"), w.row("1", ""), row("a"))
	got = w.ingested(w.send("application/json", twice))
	require.Equal(t, []string{"unmapped", "duplicate", "duplicate", "duplicate"}, statuses(got))
	require.Equal(t, []string{"hld_0", "hld_0", "", "hld_0"}, []string{got.Results[0].HeldID, got.Results[1].HeldID, got.Results[2].HeldID, got.Results[3].HeldID})
	require.Len(t, holds[1].Rows, 1)

	answer = func(n int, row api.HeldRow) api.HeldResult {
		if row.VendorID == "a" {
			return api.HeldResult{Error: &api.RowError{Code: api.RateLimited, Message: "too many"}}
		}
		return api.HeldResult{HeldID: "hld_1"}
	}
	got = w.ingested(w.send("application/json", body))
	require.Equal(t, []string{"rejected", "duplicate", "unmapped", "rejected"}, statuses(got))
	require.Equal(t, api.RateLimited, got.Results[0].Error.Code)
	got = w.ingested(w.send("application/json", twice))
	require.Equal(t, []string{"rejected", "rejected", "duplicate", "rejected"}, statuses(got))
	require.Equal(t, api.RateLimited, got.Results[3].Error.Code)

	answer = func(int, api.HeldRow) api.HeldResult { return api.HeldResult{HeldID: "hld_1", Delivered: true} }
	got = w.ingested(w.send("application/json", body))
	require.Equal(t, []string{"duplicate", "duplicate", "duplicate", "rejected"}, statuses(got))
	require.Nil(t, got.Results[0].Receipt, "another node has it")
	require.Equal(t, 3, got.Counts.Duplicate)
	got = w.ingested(w.send("application/json", twice))
	require.Equal(t, []string{"duplicate", "duplicate", "duplicate", "duplicate"}, statuses(got))
	require.Empty(t, got.Results[0].HeldID+got.Results[3].HeldID)

	away = api.Unavailable(api.ControlUnavailable, "away", time.Second)
	got = w.ingested(w.send("application/json", body))
	require.Equal(t, []string{"rejected", "duplicate", "rejected", "rejected"}, statuses(got))
	require.Equal(t, []any{api.InternalError, api.ControlUnavailable}, []any{got.Results[0].Error.Code, got.Results[0].Error.Reason})

	w.restart(nil)
	got = w.ingested(w.send("application/json", body))
	require.Equal(t, api.ControlUnavailable, got.Results[0].Error.Reason, "no control can hold it")
}

// TestBatchesLeaveSingleDeliveriesAlone: a tenant whose batches hang has them wait for each
// other, and a single delivery of its own for none of them.
func TestBatchesLeaveSingleDeliveriesAlone(t *testing.T) {
	w := newWorld(t, func(c *settings) { c.Processors, c.MaxTenantInFlight = 1, 64 })
	require.Equal(t, 2, w.gateway.tenants.slots)
	release := w.log.Halt()
	defer release()
	replies := make(chan reply, 10)
	send := func(n int) {
		go func() { replies <- w.send("application/json", inJSON(w.rows(40, fmt.Sprint(n, "-"))...)) }()
	}
	for n := range 4 {
		send(n)
	}
	of := w.gateway.tenants.of("tnt_a")
	waittest.Until(t, func() bool { return of.batches.Load() == 4 && w.log.Appending() == 2 })
	require.Equal(t, int64(2*16), of.inHand.Load(), "half of its cap, in rows")
	require.Equal(t, 4., w.metric("muniment_gateway_batches_in_hand", ""))
	require.NotZero(t, w.metric("muniment_gateway_batch_bytes", ""))

	refused := w.send("application/json", inJSON(w.row("x", "")))
	require.Equal(t, 429, refused.status, "a sixteenth of its cap wait or are served")
	require.NotEmpty(t, refused.header.Get("Retry-After"))
	require.Empty(t, replies)
	single := make(chan reply, 1)
	go func() { single <- w.post(w.body()) }()
	waittest.Until(t, func() bool { return w.log.Appending() == 3 })
	other := make(chan reply, 1)
	row := strings.Replace(w.row("1", ""), w.right, w.foreign, 1)
	go func() { other <- w.raw(batchRequest(w.otherToken, "application/json", inJSON(row))) }()
	waittest.Until(t, func() bool { return w.log.Appending() == 4 }, "nor does another tenant's batch")
	release()
	require.Equal(t, 200, (<-single).status)
	require.Equal(t, []string{"accepted"}, statuses(w.ingested(<-other)))
	for range 4 {
		require.Equal(t, 40, w.ingested(<-replies).Counts.Accepted)
	}
	require.Zero(t, of.inHand.Load())
	require.Zero(t, of.bytes.Load())
}

// TestBatchMemory: bodies beyond the bound are refused, a tenant's at half of it, and nothing is
// kept of them.
func TestBatchMemory(t *testing.T) {
	w := newWorld(t, func(c *settings) { c.MaxBatchBytes = 1 << 20 })
	release := w.log.Halt()
	defer release()
	padded := func(n int) string { return inJSON(w.row(fmt.Sprint(n), "")) + strings.Repeat(" ", 300<<10) }
	replies := make(chan reply, 1)
	go func() { replies <- w.send("application/json", padded(0)) }()
	waittest.Until(t, func() bool { return w.log.Appending() == 1 })
	got := w.send("application/json", padded(1))
	require.Equal(t, 429, got.status)
	requireEnvelope(t, got)
	unpacks := func(token string) int {
		return w.raw(batchRequest(token, "application/json", packed(t, "gzip", strings.Repeat(" ", 480<<10)), "Content-Encoding: gzip")).status
	}
	require.Equal(t, 400, unpacks(w.otherToken))
	w.gateway.batches.bytes.Add(600 << 10)
	require.Equal(t, 503, unpacks(w.otherToken))
	w.gateway.batches.bytes.Add(-600 << 10)
	release()
	require.Equal(t, []string{"accepted"}, statuses(w.ingested(<-replies)))
	require.Equal(t, []string{"accepted"}, statuses(w.ingested(w.send("application/json", padded(1)))))
	require.Zero(t, w.metric("muniment_gateway_batch_bytes", ""))
}

// TestBatchesWaitForASlot, but not for ever.
func TestBatchesWaitForASlot(t *testing.T) {
	b := newBatches(&Config{MaxBatchBytes: 1, MaxInFlight: 100, Processors: 1}, newLimited(time.Now))
	of := []*tenantLimit{{slots: make(chan struct{}, 2)}, {slots: make(chan struct{}, 2)}, {slots: make(chan struct{}, 2)}}
	ctx, cancel := context.WithCancel(t.Context())
	var leaves []func()
	for n := range 4 {
		leave, err := b.acquire(ctx, of[n/2], 3)
		require.NoError(t, err)
		leaves = append(leaves, leave)
	}
	waiting := make(chan error, 2)
	for n := range 2 {
		go func() { _, err := b.acquire(ctx, of[2*n], 3); waiting <- err }()
	}
	waittest.Until(t, func() bool { return b.inHand.Load() == 6 && len(of[2].slots) == 1 })
	_, err := b.acquire(ctx, of[0], 3)
	require.ErrorIs(t, err, errTenantBatches)
	cancel()
	refusals := []error{<-waiting, <-waiting}
	require.True(t, slices.Contains(refusals, error(errTenantBatches)) && slices.Contains(refusals, error(errBatchesFull)), refusals)
	for _, leave := range leaves {
		leave()
	}
	for _, s := range of {
		require.Zero(t, s.batches.Load())
		require.Empty(t, s.slots)
	}
	require.Zero(t, b.inHand.Load())
	require.Empty(t, b.slots)
}

// TestHostileRows are refused one by one, over a connection that is kept.
func TestHostileRows(t *testing.T) {
	w := newWorld(t, nil)
	s := w.session()
	var rows []string
	for _, bad := range []string{
		`null`, `1`, `"x"`, `[]`, strings.Repeat("[", 9000) + strings.Repeat("]", 9000), w.row("2", `,"rowId":"3"`), w.row("2", `,"x":"`+strings.Repeat("x", 64<<10)+`"`),
		w.row("2", `,"x":`+strings.Repeat(`{"a":`, 40)+`1`+strings.Repeat(`}`, 40)), w.row("2", `,"multiplier":1e400`), w.row("2", `,"telemetry":{"speedMph":1e400}`),
		`{"` + strings.Repeat("a", 10_000) + `":1}`, w.row("2", `,"vendorId":"x"`), w.row("2", `,"\u0064wellMs":1`),
	} {
		rows = append(rows, bad, w.row(fmt.Sprint(len(rows)), ""))
	}
	got := w.ingested(s.do(batchRequest(w.token, "application/json", inJSON(rows...))))
	for n, r := range got.Results {
		require.Equal(t, n%2 == 1, r.Status == "accepted", "%d: %v", n, r.Error)
		require.Equal(t, n%2 == 0, r.Error != nil)
	}
	require.Len(t, w.log.All(), len(rows)/2)
	require.Equal(t, 200, s.do(request(w.token, w.body())).status)
	require.Equal(t, []string{"rejected"}, statuses(w.ingested(s.do(batchRequest(w.token, "application/json", inJSON(`{}`))))))
}

// TestAFaultOfARowIsItsOwn: it is logged, and its text is not shown.
func TestAFaultOfARowIsItsOwn(t *testing.T) {
	w := newWorld(t, nil)
	w.ingested(w.send("application/json", inJSON(w.row("1", ""))))
	w.log.Edit(func(all []sealer.Entry) []sealer.Entry {
		all[0].TenantID = "tnt_b"
		return all
	})
	got := w.ingested(w.send("application/json", inJSON(w.row("1", ""), w.row("2", ""))))
	require.Equal(t, []string{"rejected", "accepted"}, statuses(got))
	require.Equal(t, api.RowError{Code: api.InternalError, Message: "internal error"}, *got.Results[0].Error)
}

// TestABatchIsDrained: one in progress is answered, later ones get 503 and a closed connection.
func TestABatchIsDrained(t *testing.T) {
	w := newWorld(t, nil)
	release := w.log.Halt()
	replies := make(chan reply, 1)
	go func() { replies <- w.send("application/json", inJSON(w.rows(300, "r")...)) }()
	waittest.Until(t, func() bool { return w.log.Appending() == 1 })
	w.stop()
	waittest.Until(t, func() bool { return w.gateway.phase.Load() >= refusing })
	release()
	require.Equal(t, 300, w.ingested(<-replies).Counts.Accepted)
	require.NoError(t, w.end())
	require.Equal(t, 300., testutil.ToFloat64(w.gateway.metrics.rows[issue.Accepted]))
}
