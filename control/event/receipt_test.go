package event

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/proof"
	"muniment.example/control/route"
	"muniment.example/control/route/routetest"
	"muniment.example/gate"
	"muniment.example/pipeline"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
)

// TestReceiptsAreFound searches receipts by each filter, and by several; the last delivery belongs to
// another tenant and matches all filters.
func TestReceiptsAreFound(t *testing.T) {
	h := build(t)
	const query = "GET /v1/receipts?"
	h.script(t, []exchange{
		{tenant, "GET /v1/receipts", 200, `{"ok":true,"data":{"receipts":[],"asOf":null,"nextCursor":null},"contractVersion":"v1.0"}`},
	})
	const other = "rgh_01ARZ3NDEKTSV4RRFFQ69G5FAW"
	h.Deliver(
		delivery{Substrate: gate.DOOH, DwellMs: 1, Anchor: "screen/ä", Trace: "play 1"},
		delivery{Substrate: gate.CTV, DwellMs: 2, Anchor: "screen/ä", Rendered: 48 * time.Hour},
		delivery{Substrate: gate.CTV, DwellMs: 3, Anchor: "screen/b", Trace: "play 1", Right: other},
		delivery{Tenant: stranger, DwellMs: 4, Anchor: "screen/ä", Trace: "play 1", Right: other},
	)
	h.Audit("right.issued")
	h.seal()
	var at []sealer.Receipt
	var receipts, all []string
	for n, row := range h.sealed()[:3] {
		d, err := sealer.ReadDelivery(row)
		require.NoError(t, err)
		parts, err := sealer.SplitDelivery(row)
		require.NoError(t, err)
		at = append(at, d.Receipt)
		receipts = append(receipts, fmt.Sprintf(`{"receipt":%s,"signature":%s,"event":%s,"position":"1.0.%d"}`, parts.Receipt, parts.Signature, row, n))
		all = append([]string{receipts[n]}, all...)
	}
	page := func(next string, receipts ...string) string {
		return `{"ok":true,"data":{"receipts":[` + strings.Join(receipts, ",") + `],"asOf":"1.0.5","nextCursor":` + next + `},"contractVersion":"v1.0"}`
	}
	first := canonical.FormatTime(at[0].RenderedAt)
	ends := func(n int, from, to time.Duration) string {
		id := at[n].ReceiptID
		return "receiptIdEnd=" + strings.ToLower(id[len(id)-6:]) + "&from=" + canonical.FormatTime(at[n].RenderedAt.Add(from)) + "&to=" + canonical.FormatTime(at[n].RenderedAt.Add(to))
	}
	var script []exchange
	for filters, want := range map[string]string{
		"":                              page("null", all...),
		"correlationId=play%201":        page("null", receipts[2], receipts[0]),
		"spatialAnchorId=screen/%C3%A4": page("null", receipts[1], receipts[0]),
		"spatialAnchorId=screen":        page("null"),
		"rightId=" + other:              page("null", receipts[2]),
		"rightId=rgh_none":              page("null"),
		"correlationId=play%201&spatialAnchorId=screen/b":                       page("null", receipts[2]),
		"correlationId=play%201&spatialAnchorId=screen/%C3%A4&rightId=" + other: page("null"),
		"to=" + first: page("null", receipts[1]),
		"spatialAnchorId=screen/%C3%A4&from=" + first: page("null", receipts[0]),
		ends(1, 0, 24*time.Hour):                      page("null", receipts[1]),
		ends(0, -96*time.Hour, 72*time.Hour):          page("null", receipts[0]),
		ends(1, time.Hour, 24*time.Hour):              page("null"),
		"limit=2":                                     page(`"`+listed("1.0.1")+`"`, receipts[2], receipts[1]),
		"limit=2&cursor=" + listed("1.0.1"):           page("null", receipts[0]),
	} {
		script = append(script, exchange{tenant, query + "asOf=1.0.5&" + filters, 200, want}) // without the event of sealing
	}
	for filters, want := range map[string][2]string{
		"cursor=" + cursor("desc/1.0.1"):                    {"cursor", "is no cursor of this list"},
		"asOf=1.0.99":                                       {"asOf", "is no position that the service has named"},
		"receiptIdEnd=7Q2ZDK&from=2026-11-02":               {"receiptIdEnd", "requires from and to, at most 7 days apart: all receipts of that time are looked through"},
		"receiptIdEnd=7Q2ZDK&from=2026-11-02&to=2026-11-10": {"receiptIdEnd", "requires from and to, at most 7 days apart: all receipts of that time are looked through"},
		"receiptIdEnd=7Q2ZDU&from=2026-11-02&to=2026-11-03": {"receiptIdEnd", "must be the last letters and digits of a receipt's id, such as 7Q2ZDK"},
		"from=noon":                     {"from", "must be a date, such as 2026-11-01, or a time, such as 2026-11-01T12:00:00Z or 20261101T120000Z"},
		"from=2026-11-02&to=2026-11-01": {"to", "must be later than from"},
	} {
		script = append(script, exchange{tenant, query + filters, 422, routetest.Invalid(want[0] + ": " + want[1])})
	}
	h.script(t, script)
	require.Equal(t, 422, send(h.serve(), tenant, query+"correlationId="+strings.Repeat("x", 513)).Code)
	require.True(t, json.Valid([]byte(receipts[0])))
}

func TestReceiptFromDeliveryToProof(t *testing.T) {
	h := build(t)
	server := h.serve()
	record := h.Event(delivery{Substrate: gate.DOOH, DwellMs: 1500, Subject: "Ada Lovelace"})
	id := receiptOf(record)
	h.Append(record)

	// A caller who has the receipt finds it at once, however busy the loader is.
	answer, _ := get(t, server, "/v1/receipts/"+id)
	parts, err := sealer.SplitDelivery(record.Event)
	require.NoError(t, err)
	require.Equal(t, `{"ok":true,"data":{"receipt":`+string(parts.Receipt)+`,"signature":`+string(parts.Signature)+
		`,"event":`+string(record.Event)+`,"position":"1.0.0","sealed":null},"contractVersion":"v1.0"}`, strings.TrimSpace(string(answer)))
	h.Sound(answer)
	h.script(t, []exchange{
		{tenant, "GET /v1/receipts/" + id + "/proof", 409,
			`{"ok":false,"error":"STATE_CONFLICT","message":"no proof pack holds the receipt yet: seal one first","contractVersion":"v1.0"}`},
	})
	require.Equal(t, 422, send(server, tenant, "GET /v1/receipts/"+id+"/proof?checkpoint=oldest").Code)

	header := h.seal()[0]
	_, data := get(t, server, "/v1/receipts/"+id)
	require.JSONEq(t, `{"packId":"`+header.PackID+`","leafIndex":0}`, string(data["sealed"]))
	proven, data := get(t, server, "/v1/receipts/"+id+"/proof")
	require.Equal(t, string(record.Event), string(data["event"]))
	var text string
	require.NoError(t, json.Unmarshal(data["proof"], &text))
	require.Equal(t, "c2sp.org/tlog-proof@v1\nindex 0\n\n"+header.Checkpoint, text)
	h.Sound(proven)
	h.Sound(answer, proven)
	h.Sound([]byte(text), data["event"])
}

// TestEveryReceiptIsProven proves all receipts of many packs, under both checkpoints.
func TestEveryReceiptIsProven(t *testing.T) {
	h := build(t, proof.Config{MaxEntries: 3})
	server := h.serve()
	var ids []string
	packs := 0
	for n := range 4 {
		ids = append(ids, h.deliver(2+3*n)...)
		packs += len(h.seal())
	}
	events := h.sealed()
	require.Greater(t, packs, 7)
	var proofs [][]byte
	for _, id := range ids {
		own, _ := get(t, server, "/v1/receipts/"+id+"/proof")
		latest, data := get(t, server, "/v1/receipts/"+id+"/proof?checkpoint=latest")
		require.Contains(t, string(data["proof"]), fmt.Sprintf(`\n%d\n`, len(events)))
		_, receipt := get(t, server, "/v1/receipts/"+id)
		var where struct {
			PackID    string
			LeafIndex int
		}
		require.NoError(t, json.Unmarshal(receipt["sealed"], &where))
		require.Equal(t, string(events[where.LeafIndex]), string(data["event"]))
		proofs = append(proofs, own, latest)
	}
	h.Sound(proofs...)
}

// TestForeignReceiptIsNotThere compares every byte of the answers, headers included.
func TestForeignReceiptIsNotThere(t *testing.T) {
	h := build(t)
	id := h.deliver(2)[0]
	h.Audit("right.issued")
	h.seal()
	audit, err := sealer.ParseEvent(h.sealed()[2])
	require.NoError(t, err)
	require.Equal(t, "right.issued", audit.Type)
	server := h.serve()
	for _, end := range []string{"", "/proof", "/proof?checkpoint=latest"} {
		unknown := send(server, stranger, "GET /v1/receipts/rcp_01ARZ3NDEKTSV4RRFFQ69G5FAV"+end)
		require.Equal(t, 404, unknown.Code)
		require.JSONEq(t, `{"ok":false,"error":"RESOURCE_NOT_FOUND","message":"no such receipt in this tenant","contractVersion":"v1.0","field":"receiptId"}`, unknown.Body.String())
		require.Equal(t, unknown, send(server, stranger, "GET /v1/receipts/"+id+end), "foreign")
		for about, odd := range map[string]string{
			"lower case": strings.ToLower(id), "an event's id": "evt_" + id[4:], "of no receipt": "rcp_" + audit.EventID[4:],
			"no id": "x", "longer": id + "0", "a path": "rcp_..%2f" + id, "nothing": "rcp_",
		} {
			require.Equal(t, unknown, send(server, tenant, "GET /v1/receipts/"+odd+end), about)
		}
	}
}

// TestReceiptsBehindTheWarehouse: the response is not 404 while a receipt may not be loaded yet, or
// while the log's end is unknown.
func TestReceiptsBehindTheWarehouse(t *testing.T) {
	h := build(t, proof.Config{WaitFor: 50 * time.Millisecond})
	h.Loaders[0].Pause()
	record := h.Event(delivery{Substrate: gate.DOOH, DwellMs: 1500})
	h.Append(record)
	refused := []exchange{{tenant, "GET /v1/receipts/" + receiptOf(record), 503,
		`{"ok":false,"error":"INTERNAL_ERROR","reason":"WAREHOUSE_BEHIND","contractVersion":"v1.0","message":"the warehouse has not loaded all acknowledged events yet"}`}}
	h.script(t, refused)
	h.reopen(proof.Config{WaitFor: 50 * time.Millisecond, Log: endless{h.Log}})
	h.script(t, refused)
	h.Loaders[0].Resume()
}

// endless is a log whose Bounds fails.
type endless struct{ pipeline.Reader }

// Bounds implements pipeline.Reader.
func (endless) Bounds(ctx context.Context, _ int32) (first, end sealer.Position, err error) {
	<-ctx.Done()
	return first, end, fmt.Errorf("no answer: %w", ctx.Err())
}

// listed is a cursor of the list of receipts.
func listed(key string) string { return *route.PageOf("/v1/receipts", "").Next(key) }
