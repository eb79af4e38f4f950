package proof

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/route/routetest"
	"muniment.example/gate"
	"muniment.example/pipeline"
	auditor "muniment.example/sealer/verify"
)

// receipts are the ids of the receipts among events.
func receipts(events [][]byte) (ids []string) {
	for _, id := range deliveriesOf(events) {
		ids = append(ids, "rcp_"+id[4:])
	}
	return ids
}

// proven returns a file with the proof that the log holds a receipt.
func (h *fixture) proven(receiptID string, latest bool) []byte {
	h.T.Helper()
	row, err := h.Warehouse.Event(h.T.Context(), h.Tenant, "evt_"+receiptID[4:])
	require.NoError(h.T, err)
	proof, found, err := h.service.Inclusion(h.T.Context(), row, latest)
	require.NoError(h.T, err)
	require.True(h.T, found)
	text, err := json.Marshal(proof.Text())
	require.NoError(h.T, err)
	return fmt.Appendf(nil, `{"event":%s,"proof":%s}`, row.Event, text)
}

// exported returns a file with the leaves from first to last, and what proves them.
func (h *fixture) exported(first, last uint64) []byte {
	h.T.Helper()
	events, err := h.service.Range(h.T.Context(), h.Tenant, first, last)
	require.NoError(h.T, err)
	var file bytes.Buffer
	require.NoError(h.T, events.Write(h.T.Context(), &file))
	require.EqualValues(h.T, events.Bytes, file.Len())
	return file.Bytes()
}

// get must succeed; it returns the answer and its data.
func get(t tb, server http.Handler, path string) (answer []byte, data map[string]json.RawMessage) {
	t.Helper()
	got := send(server, tenant, "GET "+path)
	require.Equal(t, 200, got.Code, "%s: %s", path, got.Body)
	var body struct{ Data map[string]json.RawMessage }
	require.NoError(t, json.Unmarshal(got.Body.Bytes(), &body))
	return got.Body.Bytes(), body.Data
}

// TestGrowthIsProven proves the growth of the log between any two of many packs.
func TestGrowthIsProven(t *testing.T) {
	h := build(t, Config{MaxEntries: 3})
	server := h.serve()
	for n := range 4 {
		h.Deliver(deliveries(2 + 3*n)...)
		h.seal()
	}
	packs := h.packs()
	require.Greater(t, len(packs), 7)
	var grown [][]byte
	for i, to := range packs {
		for _, from := range packs[:i+1] {
			answer, _ := get(t, server, "/v1/proof-packs/"+to.ID+"/consistency?from="+from.ID)
			grown = append(grown, answer)
		}
	}
	h.Sound(grown...)
}

func TestConsistencyOverHTTP(t *testing.T) {
	h := build(t)
	h.Deliver(deliveries(2)...)
	h.seal()
	h.Deliver(deliveries(2)...)
	h.seal()
	packs := h.packs()
	names := strings.NewReplacer("{1}", packs[0].ID, "{2}", packs[1].ID, "{none}", "ppk_01ARZ3NDEKTSV4RRFFQ69G5FAV")
	none := `{"ok":false,"error":"RESOURCE_NOT_FOUND","message":"no such proof pack in this tenant","contractVersion":"v1.0","field":"packId"}`
	h.script(t, names, []exchange{
		{tenant, "GET /v1/proof-packs/{1}/consistency?from={2}", 422,
			routetest.Invalid("from: pack {2} is newer than {1}")},
		{tenant, "GET /v1/proof-packs/{2}/consistency?from={none}", 404, none},
		{tenant, "GET /v1/proof-packs/{none}/consistency?from={1}", 404, none},
		{stranger, "GET /v1/proof-packs/{2}/consistency?from={1}", 404, none},
	})
	require.Equal(t, 422, send(h.serve(), tenant, names.Replace("GET /v1/proof-packs/{2}/consistency")).Code)

	// A pack of another tenant is none, also as from.
	own := h.Tenant
	h.Tenant = stranger
	h.Deliver(delivery{Substrate: gate.DOOH, DwellMs: 1})
	h.seal()
	foreign := h.packs()[0].ID
	h.Tenant = own
	h.script(t, names, []exchange{{tenant, "GET /v1/proof-packs/{2}/consistency?from=" + foreign, 404, none}})
}

func TestCheckpointOverHTTP(t *testing.T) {
	h := build(t)
	server := h.serve()
	h.script(t, strings.NewReplacer(), []exchange{{tenant, "GET /v1/proof-packs/checkpoint", 404,
		`{"ok":false,"error":"RESOURCE_NOT_FOUND","message":"no such checkpoint in this tenant","contractVersion":"v1.0"}`}})
	var held []string
	for range 3 {
		h.Deliver(deliveries(2)...)
		header := h.seal()[0]
		answer, data := get(t, server, "/v1/proof-packs/checkpoint")
		var note string
		require.NoError(t, json.Unmarshal(data["checkpoint"], &note))
		require.Equal(t, header.Checkpoint, note)
		h.Sound(answer)
		h.Sound([]byte(note))
		held = append(held, string(answer))
	}
	packs := h.packs()
	bundle := func(n int) []byte {
		return send(server, tenant, "GET /v1/proof-packs/"+packs[n].ID+"/bundle").Body.Bytes()
	}
	for _, note := range held {
		report, exit := h.Verify(note, bundle(0), bundle(1), bundle(2))
		require.Equal(t, auditor.ExitSound, exit, report)
	}
	report, exit := h.Verify(held[2], bundle(0), bundle(1))
	require.Equal(t, auditor.ExitUnjudged, exit)
	require.Contains(t, report, `"consistency.unproven"`)
}

// TestDamagedNodesAreMadeAgain loses and damages the files beside the packs in
// every way: proofs stay the same, and the files come back.
func TestDamagedNodesAreMadeAgain(t *testing.T) {
	h := build(t, Config{MaxEntries: 4})
	h.Deliver(deliveries(11)...)
	h.seal()
	packs := h.packs()
	id := receipts(h.check())[5]
	row, err := h.Warehouse.Event(t.Context(), tenant, "evt_"+id[4:])
	require.NoError(t, err)
	proofs := map[string]func() (any, error){
		"leaf": func() (any, error) {
			_, leaf, _, err := h.service.LeafOf(t.Context(), row)
			return leaf, err
		},
		"inclusion": func() (any, error) {
			proof, _, err := h.service.Inclusion(t.Context(), row, false)
			return proof, err
		},
		"inclusion in the newest pack": func() (any, error) {
			proof, _, err := h.service.Inclusion(t.Context(), row, true)
			return proof, err
		},
		"consistency": func() (any, error) { return h.service.consistency(t.Context(), packs[0], packs[2]) },
		"range": func() (any, error) {
			events, err := h.service.Range(t.Context(), tenant, 5, 8)
			if err != nil {
				return nil, err
			}
			return string(events.header), nil
		},
	}
	want := map[string]any{}
	for what, prove := range proofs {
		want[what], err = prove()
		require.NoError(t, err, what)
	}
	name := func(p Pack) string { return h.service.folder.name(tenant, p.ID+nodesSuffix) }
	whole := map[string][]byte{}
	for _, p := range packs {
		text, err := os.ReadFile(name(p))
		require.NoError(t, err)
		require.EqualValues(t, p.nodes()*hashBytes, len(text))
		whole[p.ID] = text
	}
	damages := map[string]func(text []byte) []byte{
		"missing": func([]byte) []byte { return nil },
		"cut":     func(text []byte) []byte { return text[:len(text)-1] },
		"longer":  func(text []byte) []byte { return append(text, 0) },
		"empty":   func([]byte) []byte { return []byte{} },
		"zero":    func(text []byte) []byte { return make([]byte, len(text)) },
	}
	for at := range whole[packs[1].ID] {
		if at%32 == 7 {
			damages[fmt.Sprint("flipped at ", at)] = func(text []byte) []byte { text[min(at, len(text)-1)] ^= 4; return text }
		}
	}
	for about, damage := range damages {
		for what, prove := range proofs {
			for _, p := range packs {
				require.NoError(t, os.Remove(name(p)))
				if text := damage(bytes.Clone(whole[p.ID])); text != nil {
					require.NoError(t, os.WriteFile(name(p), text, 0o600))
				}
			}
			got, err := prove()
			require.NoError(t, err, "%s: %s", about, what)
			require.Equal(t, want[what], got, "%s: %s", about, what)
			for _, p := range packs { // a proof rebuilds what it needs, and doesn't read the others
				text, err := os.ReadFile(name(p))
				if again := bytes.Equal(text, whole[p.ID]); !again {
					require.Equal(t, damage(bytes.Clone(whole[p.ID])), text, "%s: %s, %v", about, what, err)
				}
				require.NoError(t, os.WriteFile(name(p), whole[p.ID], 0o600))
			}
		}
	}
	require.NoError(t, os.Remove(name(packs[1])))
	_, err = proofs["inclusion"]()
	require.NoError(t, err)
	text, err := os.ReadFile(name(packs[1]))
	require.NoError(t, err)
	require.Equal(t, whole[packs[1].ID], text)

	// A pack that is damaged itself proves nothing, and nothing wrong is served.
	for _, p := range packs {
		require.NoError(t, os.Remove(name(p)))
		text, err := os.ReadFile(h.path(p.ID))
		require.NoError(t, err)
		text[len(text)/2] ^= 1
		require.NoError(t, os.WriteFile(h.path(p.ID), text, 0o600))
	}
	for what, prove := range proofs {
		_, err := prove()
		require.Error(t, err, what)
	}
}

// TestEventThatNoPackHolds: what stands before the head must be sealed.
func TestEventThatNoPackHolds(t *testing.T) {
	h := build(t)
	h.Deliver(delivery{Tenant: stranger, DwellMs: 1})
	h.Deliver(deliveries(2)...)
	h.seal()
	rows, err := h.Warehouse.Events(t.Context(), pipeline.EventQuery{TenantID: stranger, Limit: 1})
	require.NoError(t, err)
	row := rows[0]
	row.TenantID = tenant
	_, _, _, err = h.service.LeafOf(t.Context(), row)
	require.ErrorContains(t, err, "lacks event "+row.EventID)
}

// TestNodesAreSwept: what a crash leaves beside no pack is deleted at a start.
func TestNodesAreSwept(t *testing.T) {
	h := build(t)
	h.Deliver(deliveries(2)...)
	h.seal()
	pack := h.packs()[0].ID
	for _, name := range []string{"ppk_01ARZ3NDEKTSV4RRFFQ69G5FAV.nodes", pack + ".nodes.17.draft"} {
		require.NoError(t, os.WriteFile(h.service.folder.name(tenant, name), []byte("x"), 0o600))
	}
	names := func() (all []string) {
		entries, err := os.ReadDir(filepath.Join(h.Dir, "packs", tenant))
		require.NoError(t, err)
		for _, e := range entries {
			all = append(all, e.Name())
		}
		return all
	}
	h.reopen(Config{})
	require.ElementsMatch(t, []string{pack + packSuffix, pack + ".nodes", pack + ".nodes.17.draft"}, names(), "a young draft may be in work")
	h.Advance(2 * draftAge)
	h.reopen(Config{})
	require.ElementsMatch(t, []string{pack + packSuffix, pack + ".nodes"}, names())
}

// TestSealWithoutNodes: that the hashes can't be kept fails no seal.
func TestSealWithoutNodes(t *testing.T) {
	h := build(t)
	h.Deliver(deliveries(3)...)
	h.service.step = func(name string) error {
		if name == "write nodes" {
			return errInjected
		}
		return nil
	}
	h.seal()
	id := receipts(h.check())[1]
	_, err := os.Stat(h.service.folder.name(tenant, h.packs()[0].ID+nodesSuffix))
	require.ErrorIs(t, err, os.ErrNotExist)
	h.Sound(h.proven(id, false))
}
