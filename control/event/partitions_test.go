package event

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/proof"
	"muniment.example/control/proof/prooftest"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// TestTenantsOfSeveralPartitions seals, lists and exports two tenants, each for itself
// while the other's partition is not loaded.
func TestTenantsOfSeveralPartitions(t *testing.T) {
	h := buildOver(t, prooftest.Topic(t))
	a, b := h.TwoPartitions()
	server := h.serve()
	listed := func(tenantID, query string) (asOf string, events int) {
		t.Helper()
		got := send(server, tenantID, "GET /v1/events?limit=100"+query)
		require.Equal(t, http.StatusOK, got.Code, got.Body)
		var page api.Body[eventList]
		require.NoError(t, json.Unmarshal(got.Body.Bytes(), &page))
		return *page.Data.AsOf, len(page.Data.Events)
	}
	first := map[string]string{} // the position behind each tenant's first pack
	for i, id := range []string{a, b} {
		h.Tenant = id
		h.deliver(3 + i)
		header := h.seal()[0]
		require.Equal(t, 3+i, header.Count)
		_, last, err := h.packs.Head(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, h.Partition(id), last.Partition)
		first[id] = last.Next().String()
	}

	// b's loader is paused: a gets all that there is, b has to wait.
	h.Pause(h.Partition(b))
	receipts := map[string]string{}
	for _, id := range []string{a, b} {
		record := h.Event(delivery{Tenant: id, DwellMs: 1})
		h.Append(record)
		receipts[id] = "GET /v1/receipts/" + receiptOf(record)
	}
	require.Equal(t, http.StatusOK, send(server, a, receipts[a]).Code)
	h.reopen(proof.Config{WaitFor: 100 * time.Millisecond}) // nothing comes
	require.Equal(t, http.StatusServiceUnavailable, send(h.serve(), b, receipts[b]).Code)
	_, err := h.packs.SealSome(t.Context(), b, nil, prooftest.Operator)
	require.Equal(t, api.WarehouseBehind, api.From(err).Reason)
	h.reopen(proof.Config{})
	server = h.serve()
	h.Tenant = a
	require.Equal(t, 2, h.seal()[0].Count, "the delivery and the event of the first pack")
	_, last, err := h.packs.Head(t.Context(), a)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, send(server, a, "GET /v1/events/export?upTo="+last.String()).Code)
	h.Loaders[h.Partition(b)].Resume()
	h.Tenant = b
	require.Equal(t, 2, h.seal()[0].Count)
	require.Equal(t, http.StatusOK, send(server, b, receipts[b]).Code)

	for i, id := range []string{a, b} {
		h.Tenant = id
		asOf, events := listed(id, "&asOf="+first[id])
		require.Equal(t, first[id], asOf)
		require.Equal(t, 3+i, events)
		asOf, _ = listed(id, "")
		at, err := sealer.ParsePosition(asOf)
		require.NoError(t, err)
		require.Equal(t, h.Partition(id), at.Partition)
	}
	for _, query := range []string{"events?asOf=", "events?after=", "events?before=", "events/export?after=", "events/export?upTo="} {
		require.Equal(t, http.StatusUnprocessableEntity, send(server, a, "GET /v1/"+query+first[b]).Code, query)
	}
}
