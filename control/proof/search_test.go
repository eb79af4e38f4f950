package proof

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/gate"
	"muniment/sealer"
)

// TestReceiptsAreFound asks for receipts by each filter, and by several; the last delivery
// is another tenant's, and meets each of them.
func TestReceiptsAreFound(t *testing.T) {
	h := build(t)
	const query = "GET /v1/receipts?"
	h.script(t, strings.NewReplacer(), []exchange{
		{tenant, "GET /v1/receipts", 200, `{"ok":true,"data":{"receipts":[],"asOf":null,"nextCursor":null},"contractVersion":"v1.0"}`},
	})
	const other = "rgh_01ARZ3NDEKTSV4RRFFQ69G5FAW"
	h.deliver(
		delivery{substrate: gate.DOOH, dwellMs: 1, anchor: "screen/ä", trace: "play 1"},
		delivery{substrate: gate.CTV, dwellMs: 2, anchor: "screen/ä", rendered: 48 * time.Hour},
		delivery{substrate: gate.CTV, dwellMs: 3, anchor: "screen/b", trace: "play 1", right: other},
		delivery{tenant: stranger, dwellMs: 4, anchor: "screen/ä", trace: "play 1", right: other},
	)
	h.audit("right.issued")
	h.seal()
	var at []sealer.Receipt
	var receipts, all []string
	for n, row := range h.check()[:3] {
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
	first := sealer.FormatTime(at[0].RenderedAt)
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
		"limit=2":                           page(`"`+cursor("1.0.1")+`"`, receipts[2], receipts[1]),
		"limit=2&cursor=" + cursor("1.0.1"): page("null", receipts[0]),
	} {
		script = append(script, exchange{tenant, query + "asOf=1.0.5&" + filters, 200, want}) // without the event of sealing
	}
	for filters, want := range map[string][2]string{
		"cursor=" + cursor("desc/1.0.1"): {"cursor", "is no cursor of this list"},
		"asOf=1.0.99":                    {"asOf", "is no position that the service has named"},
		"from=noon":                      {"from", "must be a date, such as 2026-11-01, or a time, such as 2026-11-01T12:00:00Z or 20261101T120000Z"},
		"from=2026-11-02&to=2026-11-01":  {"to", "must be later than from"},
	} {
		script = append(script, exchange{tenant, query + filters, 422, fmt.Sprintf(
			`{"ok":false,"error":"VALIDATION_FAILED","message":"%s: %s","field":"%[1]s","contractVersion":"v1.0"}`, want[0], want[1])})
	}
	h.script(t, strings.NewReplacer(), script)
	require.Equal(t, 422, ask(h.serve(), tenant, query+"correlationId="+strings.Repeat("x", 513)).Code)
	require.True(t, json.Valid([]byte(receipts[0])))
}
