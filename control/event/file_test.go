package event

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/analyst"
	"muniment.example/control/route/routetest"
	"muniment.example/gate"
	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
)

// TestReceiptFiles: a file has a row for each receipt, in each format with the columns that analysts read; a duplicate
// counts for nothing. It stays what it is as of its position, and continues by asOf where it was cut off.
func TestReceiptFiles(t *testing.T) {
	h := build(t)
	server := h.serve()
	for format, want := range map[string]string{"csv": "tenant_id,receipt_id,", "ndjson": "", "parquet": "PAR1"} {
		empty := send(server, tenant, "GET /v1/receipts?format="+format)
		require.Equal(t, 200, empty.Code)
		require.True(t, strings.HasPrefix(empty.Body.String(), want), format)
		require.NotContains(t, empty.Header(), "Muniment-As-Of", "nothing is loaded")
	}
	h.Deliver(
		delivery{Substrate: gate.DOOH, DwellMs: 1500, Anchor: "=1+1", Trace: "a", Key: "same"},
		delivery{Substrate: gate.DOOH, DwellMs: 1500, Anchor: "screen,\"b\"", Trace: "b", Key: "same"},
		delivery{Tenant: stranger, DwellMs: 4},
		delivery{Substrate: gate.CTV, DwellMs: 3000, Anchor: "screen c", Trace: "a"},
	)
	h.Audit("right.issued")
	h.seal()
	got := send(server, tenant, "GET /v1/receipts?format=ndjson")
	require.Equal(t, "application/x-ndjson", got.Header().Get("Content-Type"))
	require.NotContains(t, got.Header(), "Content-Length")
	asOf := got.Header().Get("Muniment-As-Of")
	require.Equal(t, `attachment; filename="receipts-`+asOf+`.ndjson"`, got.Header().Get("Content-Disposition"))
	lines := strings.SplitAfter(got.Body.String(), "\n")
	require.Len(t, lines, 4)
	var rows []map[string]any
	for _, line := range lines[:3] {
		var row map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		require.Len(t, row, len(analyst.Receipts.Columns))
		rows = append(rows, row)
	}
	for i, want := range []map[string]any{
		{"spatial_anchor_id": "screen c", "duplicate": false, "position": 3., "substrate": "CTV"},
		{"spatial_anchor_id": "screen,\"b\"", "duplicate": true, "metered": false, "reason": "DUPLICATE", "recorded_reason": "METERED", "metering_basis": "none", "recorded_basis": "gross", "quantity_ms": 0., "impressions": "0", "position": 1.},
		{"spatial_anchor_id": "=1+1", "duplicate": false, "metered": true, "reason": "METERED", "metering_basis": "gross", "quantity_ms": 1500., "impressions": "1", "position": 0.,
			"tenant_id": tenant, "completion": "none", "spatial_placement_id": "", "generation": 1., "log_partition": 0.},
	} {
		for name, value := range want {
			require.Equal(t, value, rows[i][name], name)
		}
		event, err := h.Warehouse.Event(t.Context(), tenant, rows[i]["event_id"].(string))
		require.NoError(t, err)
		d := event.Delivery
		require.Equal(t, []any{event.Node, d.ReceiptID, canonical.FormatTime(d.RenderedAt), canonical.FormatTime(d.IssuedAt), d.SigningKeyID, d.RightID, d.BasisID, float64(d.RightRevision)},
			[]any{rows[i]["node"], rows[i]["receipt_id"], rows[i]["rendered_at"], rows[i]["issued_at"], rows[i]["signing_key_id"], rows[i]["right_id"], rows[i]["basis_id"], rows[i]["right_revision"]})
	}
	// As of its position it stays what it is, and from a row on it goes on.
	h.deliver(1)
	h.seal()
	for query, want := range map[string]string{
		"asOf=" + asOf: got.Body.String(), "asOf=1.0.3": lines[1] + lines[2], "asOf=1.0.0": "", "correlationId=a&asOf=" + asOf: lines[0] + lines[2],
	} {
		require.Equal(t, want, send(server, tenant, "GET /v1/receipts?format=ndjson&"+query).Body.String(), query)
	}
	sheet := send(server, tenant, "GET /v1/receipts?format=csv&bom=true&asOf="+asOf)
	text, marked := strings.CutPrefix(sheet.Body.String(), "\ufeff")
	require.True(t, marked)
	cells, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	require.NoError(t, err)
	require.Len(t, cells, 4)
	for i, c := range analyst.Receipts.Columns {
		require.Equal(t, c.Name, cells[0][i])
		if c.Name == "spatial_anchor_id" {
			require.Equal(t, []string{"screen c", "screen,\"b\"", "'=1+1"}, []string{cells[1][i], cells[2][i], cells[3][i]})
		}
	}
	stored := send(server, tenant, "GET /v1/receipts?format=parquet&asOf="+asOf)
	require.Equal(t, "application/vnd.apache.parquet", stored.Header().Get("Content-Type"))
	file, err := parquet.OpenFile(bytes.NewReader(stored.Body.Bytes()), int64(stored.Body.Len()))
	require.NoError(t, err)
	require.EqualValues(t, 3, file.NumRows())

	for query, fault := range map[string]string{
		"format=csv&limit=5": "format: is a file of all receipts: limit and cursor are for json", "format=parquet&cursor=x": "format: is a file of all receipts: limit and cursor are for json",
		"format=ndjson&bom=true": "bom: requires format csv", "bom=true": "bom: requires format csv", "format=csv&asOf=1.0.99": "asOf: is no position that the service has named",
	} {
		h.script(t, []exchange{{tenant, "GET /v1/receipts?" + query, 422, routetest.Invalid(fault)}})
	}
	require.Equal(t, 422, send(server, tenant, "GET /v1/receipts?format=xlsx").Code)
}

// TestFilePages: pages have every row once, newest first, wherever rows stand in the log.
func TestFilePages(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &conform.MemoryWarehouse{}
		var want []string
		b := pipeline.Batch{From: sealer.Position{Generation: 1}, Next: sealer.Position{Generation: 1}}
		for n := range rapid.IntRange(0, 2500).Draw(rt, "rows") {
			switch {
			case n%500 == 7:
				b.Next.Offset += int64(rapid.IntRange(0, 20_000_000).Draw(rt, "gap"))
			case n%700 == 8:
				require.NoError(rt, w.Load(t.Context(), b))
				at := sealer.Position{Generation: b.Next.Generation + uint32(rapid.IntRange(1, 2).Draw(rt, "generations"))}
				b = pipeline.Batch{From: at, Next: at}
			}
			r := pipeline.Row{Entry: sealer.Entry{Position: b.Next}, Type: sealer.TypeDelivery, At: time.Unix(int64(n), 0), Delivery: &pipeline.Delivery{RightID: "rgh_a"}}
			r.TenantID, r.EventID = tenant, "evt_"+r.Position.String()
			want = append(want, r.EventID)
			b.Rows, b.Next = append(b.Rows, r), r.Next()
		}
		require.NoError(rt, w.Load(t.Context(), b))
		slices.Reverse(want)
		p := &pages{warehouse: w, q: pipeline.EventQuery{TenantID: tenant, Types: []string{sealer.TypeDelivery}}, before: b.Next, span: leastSpan}
		var got []string
		for {
			rows, err := p.next(t.Context())
			require.NoError(rt, err)
			if len(rows) == 0 {
				break
			}
			require.LessOrEqual(rt, len(rows), rowsAPage)
			for _, row := range rows {
				got = append(got, row.EventID)
			}
		}
		require.Equal(rt, want, got)
	})
}

// failing is a warehouse that can't be read once it was read some times.
type failing struct {
	pipeline.Warehouse
	good int
}

var errDown = errors.New("the warehouse is down")

func (f *failing) Events(ctx context.Context, q pipeline.EventQuery) ([]pipeline.Row, error) {
	if f.good--; f.good < 0 {
		return nil, errDown
	}
	return f.Warehouse.Events(ctx, q)
}

// TestBrokenFile: a file that can't be read to its end is cut off for its reader; one that can't be read at all is an error.
func TestBrokenFile(t *testing.T) {
	h := build(t)
	h.deliver(rowsAPage + 10)
	h.seal()
	over := h.Warehouse
	for _, format := range []string{"csv", "ndjson", "parquet"} {
		h.service.warehouse = &failing{over, 1}
		server := httptest.NewServer(header(h.serve()))
		response, err := http.Get(server.URL + "/v1/receipts?format=" + format)
		if err == nil {
			require.Equal(t, 200, response.StatusCode)
			_, err = io.ReadAll(response.Body)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, format)
			require.NoError(t, response.Body.Close())
		} else { // Parquet begins with its first group of rows
			require.ErrorIs(t, err, io.EOF)
			require.Equal(t, "parquet", format)
		}
		server.Close()
		h.service.warehouse = &failing{over, 0}
		require.Equal(t, 500, send(h.serve(), tenant, "GET /v1/receipts?format="+format).Code, format)
	}
}

// header calls for the tenant.
func header(to http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Tenant", tenant)
		to.ServeHTTP(w, r)
	})
}
