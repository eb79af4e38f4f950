package proof

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/pipeline"
	"muniment/pipeline/segment"
	"muniment/sealer"
)

// exportOf downloads an export and returns it with its header and entries.
func exportOf(t *testing.T, server http.Handler, query string) (text []byte, header *sealer.ExportHeader, entries [][]byte) {
	t.Helper()
	got := ask(server, tenant, "GET /v1/events/export"+query)
	require.Equal(t, 200, got.Code, "%s: %s", query, got.Body)
	require.Equal(t, "application/x-ndjson", got.Header().Get("Content-Type"))
	require.Equal(t, fmt.Sprint(got.Body.Len()), got.Header().Get("Content-Length"))
	text = bytes.Clone(got.Body.Bytes())
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	h, err := sealer.ParseExportHeader(lines[0])
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf(`attachment; filename="events-%d-%d.ndjson"`, h.FirstIndex, h.FirstIndex+h.Count-1), got.Header().Get("Content-Disposition"))
	return text, &h, lines[1:]
}

// TestEveryRunIsExported exports each run of events, named by positions, of a log
// that shares its stream with another tenant.
func TestEveryRunIsExported(t *testing.T) {
	h := build(t, Config{MaxEntries: 3})
	for n := range 3 {
		h.deliver(deliveries(2)...)
		h.deliver(delivery{tenant: stranger, dwellMs: float64(n)})
		h.audit("right.issued")
		h.seal()
	}
	events := h.check()
	require.Greater(t, len(events), 9)
	rows, err := h.warehouse.Events(t.Context(), pipeline.EventQuery{TenantID: tenant, Limit: 100})
	require.NoError(t, err)
	server := h.serve()

	text, header, entries := exportOf(t, server, "")
	require.Equal(t, events, entries)
	require.Zero(t, header.FirstIndex)
	require.Len(t, header.Checkpoints, len(h.packs()))
	h.sound(text)
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
			h.sound(text)
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
	none := `{"ok":false,"error":"STATE_CONFLICT","message":"no sealed event is in this run","contractVersion":"v1.0"}`
	early := `{"ok":false,"error":"STATE_CONFLICT","message":"an event of this run is in no proof pack yet: seal one first, or name a lower upTo","contractVersion":"v1.0"}`
	position := func(field string) string {
		return `{"ok":false,"error":"VALIDATION_FAILED","message":"` + field + `: is no position that the service has named","field":"` + field + `","contractVersion":"v1.0"}`
	}
	h.script(t, strings.NewReplacer(), []exchange{{tenant, "GET /v1/events/export", 409, none}})
	h.deliver(deliveries(3)...)
	h.seal() // the event of the sealing stands behind it, unsealed
	h.deliver(deliveries(2)...)
	h.script(t, strings.NewReplacer(), []exchange{
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

// TestExportBehindTheWarehouse: an event on its way is not left out silently.
func TestExportBehindTheWarehouse(t *testing.T) {
	h := build(t)
	h.deliver(deliveries(2)...)
	h.seal()
	_, end, err := h.log.Bounds(t.Context(), segment.Partition)
	require.NoError(t, err)
	h.pause(segment.Partition)
	defer h.loaders[0].Resume()
	h.deliver(deliveries(1)...)
	h.room.cfg.WaitFor = 50 * time.Millisecond // nothing comes
	require.Equal(t, 503, ask(h.serve(), tenant, "GET /v1/events/export?upTo="+end.String()).Code)
	require.Equal(t, 200, ask(h.serve(), tenant, "GET /v1/events/export").Code)
}

// TestExportOfDamagedPack: nothing wrong is served.
func TestExportOfDamagedPack(t *testing.T) {
	h := build(t, Config{MaxEntries: 2})
	h.deliver(deliveries(5)...)
	h.seal()
	last := h.packs()[2]
	name := h.room.folder.path(tenant, last.ID)
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	text[len(text)/2] ^= 1
	require.NoError(t, os.WriteFile(name, text, 0o600))
	server := h.serve()
	got := ask(server, tenant, "GET /v1/events/export")
	require.Equal(t, 500, got.Code)
	require.NotContains(t, got.Body.String(), "delivery.recorded")
	_, _, entries := exportOf(t, server, "?upTo=1.0.3")
	require.Len(t, entries, 4, "the packs before are sound")
}

// TestDuplicatesAreServed finds what is not billed in a pack's header, and counted
// in its summary.
func TestDuplicatesAreServed(t *testing.T) {
	h := build(t)
	h.deliver(delivery{dwellMs: 1, key: "order 1"}, delivery{dwellMs: 2})
	h.seal()
	h.deliver(delivery{dwellMs: 1, key: "order 1"}, delivery{dwellMs: 3, key: "order 2"}, delivery{dwellMs: 3, key: "order 2"})
	h.seal()
	server := h.serve()
	packs := h.packs()
	_, data := get(t, server, "/v1/proof-packs/"+packs[1].ID)
	var header struct {
		Duplicates []struct{ Leaf, First uint64 }
	}
	require.NoError(t, json.Unmarshal(data["header"], &header))
	require.Len(t, header.Duplicates, 2)
	require.Equal(t, struct{ Leaf, First uint64 }{3, 0}, header.Duplicates[0])
	require.Equal(t, struct{ Leaf, First uint64 }{5, 4}, header.Duplicates[1])
	_, data = get(t, server, "/v1/proof-packs")
	var summaries []struct{ Duplicates int }
	require.NoError(t, json.Unmarshal(data["packs"], &summaries))
	require.Equal(t, []struct{ Duplicates int }{{0}, {2}}, summaries)
}
