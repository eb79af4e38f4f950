package event

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/proof"
	"muniment.example/control/route/routetest"
	"muniment.example/pipeline"
	"muniment.example/pipeline/segment"
	"muniment.example/sealer"
	"muniment.example/sealer/pack"
)

// exportOf downloads an export and returns it with its header and entries.
func exportOf(t *testing.T, server http.Handler, query string) (text []byte, header *pack.ExportHeader, entries [][]byte) {
	t.Helper()
	got := send(server, tenant, "GET /v1/events/export"+query)
	require.Equal(t, 200, got.Code, "%s: %s", query, got.Body)
	require.Equal(t, "application/x-ndjson", got.Header().Get("Content-Type"))
	require.Equal(t, fmt.Sprint(got.Body.Len()), got.Header().Get("Content-Length"))
	text = bytes.Clone(got.Body.Bytes())
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	h, err := pack.ParseExportHeader(lines[0])
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf(`attachment; filename="events-%d-%d.ndjson"`, h.FirstIndex, h.FirstIndex+h.Count-1), got.Header().Get("Content-Disposition"))
	return text, &h, lines[1:]
}

// TestEveryRunIsExported exports each run of events, named by positions, of a log
// that shares its stream with another tenant.
func TestEveryRunIsExported(t *testing.T) {
	h := build(t, proof.Config{MaxEntries: 3})
	packs := 0
	for n := range 3 {
		h.deliver(2)
		h.Deliver(delivery{Tenant: stranger, DwellMs: float64(n)})
		h.Audit("right.issued")
		packs += len(h.seal())
	}
	events := h.sealed()
	require.Greater(t, len(events), 9)
	rows, err := h.Warehouse.Events(t.Context(), pipeline.EventQuery{TenantID: tenant, Limit: 100})
	require.NoError(t, err)
	server := h.serve()

	text, header, entries := exportOf(t, server, "")
	require.Equal(t, events, entries)
	require.Zero(t, header.FirstIndex)
	require.Len(t, header.Checkpoints, packs)
	h.Sound(text)
	for first := range events {
		for last := first; last < len(events); last++ {
			query := "?upTo=" + rows[last].Position.String()
			if first > 0 {
				query += "&after=" + rows[first-1].Position.String()
			}
			text, header, entries := exportOf(t, server, query)
			require.Equal(t, events[first:last+1], entries, query)
			require.EqualValues(t, first, header.FirstIndex)
			require.NotContains(t, string(text), stranger)
			h.Sound(text)
		}
	}

	// Positions where nothing of the tenant stands name what is behind and before.
	var foreign sealer.Position
	for at := rows[1].Position; at != rows[2].Position; at = at.Next() {
		foreign = at
	}
	_, header, _ = exportOf(t, server, "?after="+foreign.String())
	require.EqualValues(t, 2, header.FirstIndex)
	_, header, _ = exportOf(t, server, "?upTo="+foreign.String())
	require.EqualValues(t, 2, header.Count)
}

func TestExportOverHTTP(t *testing.T) {
	h := build(t)
	none := `{"ok":false,"error":"STATE_CONFLICT","message":"this range has no sealed event","contractVersion":"v1.0"}`
	early := `{"ok":false,"error":"STATE_CONFLICT","message":"an event of this range is in no proof pack yet: seal one first, or give a lower upTo","contractVersion":"v1.0"}`
	position := func(field string) string {
		return routetest.Invalid(field + ": is no position that the service has named")
	}
	h.script(t, []exchange{{tenant, "GET /v1/events/export", 409, none}})
	h.deliver(3)
	h.seal() // the event of the sealing stands behind it, unsealed
	h.deliver(2)
	h.script(t, []exchange{
		{tenant, "GET /v1/events/export?after=x", 422, position("after")},
		{tenant, "GET /v1/events/export?upTo=1.0", 422, position("upTo")},
		{tenant, "GET /v1/events/export?upTo=1.1.0", 422, position("upTo")},
		{tenant, "GET /v1/events/export?after=1.0.2", 409, none},
		{tenant, "GET /v1/events/export?after=1.0.1&upTo=1.0.1", 409, none},
		{tenant, "GET /v1/events/export?after=1.0.2&upTo=1.0.0", 409, none},
		{tenant, "GET /v1/events/export?upTo=1.0.3", 409, early},
		{tenant, "GET /v1/events/export?upTo=1.0.99", 409, early},
		{stranger, "GET /v1/events/export", 409, none},
	})
	_, _, entries := exportOf(t, h.serve(), "")
	require.Len(t, entries, 3, "up to the newest sealed one")
}

// TestExportBehindTheWarehouse: a durable event that is not loaded yet is not omitted silently.
func TestExportBehindTheWarehouse(t *testing.T) {
	h := build(t)
	h.deliver(2)
	h.seal()
	_, end, err := h.Log.Bounds(t.Context(), segment.Partition)
	require.NoError(t, err)
	h.Pause(segment.Partition)
	defer h.Loaders[0].Resume()
	h.deliver(1)
	h.reopen(proof.Config{WaitFor: 50 * time.Millisecond}) // nothing comes
	require.Equal(t, 503, send(h.serve(), tenant, "GET /v1/events/export?upTo="+end.String()).Code)
	require.Equal(t, 200, send(h.serve(), tenant, "GET /v1/events/export").Code)
}

// TestExportOfDamagedPack: nothing wrong is served.
func TestExportOfDamagedPack(t *testing.T) {
	h := build(t, proof.Config{MaxEntries: 2})
	h.deliver(5)
	name := filepath.Join(h.Dir, "packs", tenant, h.seal()[2].PackID+".ndjson.zst")
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	text[len(text)/2] ^= 1
	require.NoError(t, os.WriteFile(name, text, 0o600))
	server := h.serve()
	got := send(server, tenant, "GET /v1/events/export")
	require.Equal(t, 500, got.Code)
	require.NotContains(t, got.Body.String(), "delivery.recorded")
	_, _, entries := exportOf(t, server, "?upTo=1.0.3")
	require.Len(t, entries, 4, "the packs before are sound")
}

// TestExportIsRecorded: each export is an event, which is no reason to seal, and an export that can't
// be recorded is refused.
func TestExportIsRecorded(t *testing.T) {
	h := build(t)
	h.deliver(1)
	h.seal()
	server := h.serve()
	head, whole := send(server, tenant, "HEAD /v1/events/export"), send(server, tenant, "GET /v1/events/export")
	require.Equal(t, 200, whole.Code)
	require.Equal(t, whole.Header(), head.Header())
	require.Empty(t, head.Body.Bytes(), "and nothing was read")
	h.seal()
	require.Len(t, h.sealed(), 1, "nothing new")

	h.Audit("right.issued")
	h.seal()
	events := h.sealed()
	require.Len(t, events, 4)
	e, err := sealer.ParseEvent(events[2])
	require.NoError(t, err)
	require.Equal(t, `events.exported tenant:`+tenant+` {"firstIndex":0,"lastIndex":0}`, e.Type+" "+e.Subject.Kind+":"+e.Subject.ID+" "+string(e.Data))
	require.Equal(t, sealer.Ref{Kind: "key", ID: "key_test"}, e.Actor)

	require.NoError(t, h.DB.Close())
	require.GreaterOrEqual(t, send(server, tenant, "GET /v1/events/export").Code, 500)
}
