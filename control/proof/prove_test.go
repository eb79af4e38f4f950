package proof

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/gate"
	"muniment/pipeline"
	"muniment/sealer"
)

// sound verifies answers as a stranger does, with the root key and the directory.
func (h *house) sound(files ...[]byte) {
	h.t.Helper()
	report, exit := h.verify("", files...)
	require.Equal(h.t, sealer.ExitSound, exit, report)
}

// verify runs muniment verify over answers; expect is a checkpoint held outside.
func (h *house) verify(expect string, files ...[]byte) (report string, exit int) {
	h.t.Helper()
	dir, err := os.MkdirTemp(h.dir, "verify-")
	require.NoError(h.t, err)
	defer os.RemoveAll(dir)
	put := func(name string, text []byte) string {
		name = filepath.Join(dir, name)
		require.NoError(h.t, os.WriteFile(name, text, 0o600))
		return name
	}
	directory, err := h.keys.Directory(h.t.Context())
	require.NoError(h.t, err)
	o := sealer.Options{Root: h.keys.vkey, Keys: put("keys", directory), JSON: true}
	for i, text := range files {
		o.Files = append(o.Files, put(fmt.Sprint(i), text))
	}
	if expect != "" {
		o.Expect = put("expect", []byte(expect))
	}
	var out bytes.Buffer
	exit = sealer.VerifyFiles(h.t.Context(), o, &out)
	return out.String(), exit
}

// receipts are the ids of the receipts among events.
func receipts(events [][]byte) (ids []string) {
	for _, id := range deliveriesOf(events) {
		ids = append(ids, "rcp_"+id[4:])
	}
	return ids
}

// get must succeed; it returns the answer and its data.
func get(t tb, server http.Handler, path string) (answer []byte, data map[string]json.RawMessage) {
	t.Helper()
	got := ask(server, tenant, "GET "+path)
	require.Equal(t, 200, got.Code, "%s: %s", path, got.Body)
	var body struct{ Data map[string]json.RawMessage }
	require.NoError(t, json.Unmarshal(got.Body.Bytes(), &body))
	return got.Body.Bytes(), body.Data
}

func TestReceiptFromDeliveryToProof(t *testing.T) {
	h := build(t)
	server := h.serve()
	record := h.event(delivery{substrate: gate.DOOH, dwellMs: 1500, subject: "Ada Lovelace"})
	id := "rcp_" + record.EventID[4:]
	h.append(record)

	// Whoever got the receipt finds it at once, however busy the loader is.
	answer, _ := get(t, server, "/v1/receipts/"+id)
	parts, err := sealer.SplitDelivery(record.Event)
	require.NoError(t, err)
	require.Equal(t, `{"ok":true,"data":{"receipt":`+string(parts.Receipt)+`,"signature":`+string(parts.Signature)+
		`,"event":`+string(record.Event)+`,"position":"1.0.0","sealed":null},"contractVersion":"v1.0"}`, strings.TrimSpace(string(answer)))
	h.sound(answer)
	h.script(t, strings.NewReplacer(), []exchange{
		{tenant, "GET /v1/receipts/" + id + "/proof", 409,
			`{"ok":false,"error":"STATE_CONFLICT","message":"no proof pack holds the receipt yet: seal one first","contractVersion":"v1.0"}`},
	})
	require.Equal(t, 422, ask(server, tenant, "GET /v1/receipts/"+id+"/proof?checkpoint=oldest").Code)

	header := h.seal()[0]
	_, data := get(t, server, "/v1/receipts/"+id)
	require.JSONEq(t, `{"packId":"`+header.PackID+`","leafIndex":0}`, string(data["sealed"]))
	proof, data := get(t, server, "/v1/receipts/"+id+"/proof")
	require.Equal(t, string(record.Event), string(data["event"]))
	var text string
	require.NoError(t, json.Unmarshal(data["proof"], &text))
	require.Equal(t, "c2sp.org/tlog-proof@v1\nindex 0\n\n"+header.Checkpoint, text)
	h.sound(proof)
	h.sound(answer, proof)
	h.sound([]byte(text), data["event"])
}

// TestEveryReceiptIsProven proves all receipts of many packs, under both
// checkpoints, and the growth between any two packs.
func TestEveryReceiptIsProven(t *testing.T) {
	h := build(t, Config{MaxEntries: 3})
	server := h.serve()
	for n := range 4 {
		h.deliver(deliveries(2 + 3*n)...)
		h.seal()
	}
	events := h.check()
	packs := h.packs()
	require.Greater(t, len(packs), 7)
	var proofs [][]byte
	for _, id := range receipts(events) {
		proof, _ := get(t, server, "/v1/receipts/"+id+"/proof")
		latest, data := get(t, server, "/v1/receipts/"+id+"/proof?checkpoint=latest")
		require.Contains(t, string(data["proof"]), fmt.Sprintf(`\n%d\n`, len(events)))
		_, receipt := get(t, server, "/v1/receipts/"+id)
		var where struct {
			PackID    string
			LeafIndex int
		}
		require.NoError(t, json.Unmarshal(receipt["sealed"], &where))
		require.Equal(t, string(events[where.LeafIndex]), string(data["event"]))
		proofs = append(proofs, proof, latest)
	}
	h.sound(proofs...)

	var grown [][]byte
	for i, to := range packs {
		for _, from := range packs[:i+1] {
			answer, _ := get(t, server, "/v1/proof-packs/"+to.ID+"/consistency?from="+from.ID)
			grown = append(grown, answer)
		}
	}
	h.sound(grown...)
	require.Len(t, grown, len(packs)*(len(packs)+1)/2)
}

func TestConsistencyOverHTTP(t *testing.T) {
	h := build(t)
	h.deliver(deliveries(2)...)
	h.seal()
	h.deliver(deliveries(2)...)
	h.seal()
	packs := h.packs()
	names := strings.NewReplacer("{1}", packs[0].ID, "{2}", packs[1].ID, "{none}", "ppk_01ARZ3NDEKTSV4RRFFQ69G5FAV")
	none := `{"ok":false,"error":"RESOURCE_NOT_FOUND","message":"no such proof pack in this tenant","contractVersion":"v1.0"}`
	h.script(t, names, []exchange{
		{tenant, "GET /v1/proof-packs/{1}/consistency?from={2}", 422,
			`{"ok":false,"error":"VALIDATION_FAILED","message":"from: pack {2} is newer than {1}","field":"from","contractVersion":"v1.0"}`},
		{tenant, "GET /v1/proof-packs/{2}/consistency?from={none}", 404, none},
		{tenant, "GET /v1/proof-packs/{none}/consistency?from={1}", 404, none},
		{stranger, "GET /v1/proof-packs/{2}/consistency?from={1}", 404, none},
	})
	require.Equal(t, 422, ask(h.serve(), tenant, names.Replace("GET /v1/proof-packs/{2}/consistency")).Code)

	// A pack of another tenant is none, also as from.
	own := h.tenant
	h.tenant = stranger
	h.deliver(delivery{substrate: gate.DOOH, dwellMs: 1})
	h.seal()
	foreign := h.packs()[0].ID
	h.tenant = own
	h.script(t, names, []exchange{{tenant, "GET /v1/proof-packs/{2}/consistency?from=" + foreign, 404, none}})
}

func TestCheckpointOverHTTP(t *testing.T) {
	h := build(t)
	server := h.serve()
	h.script(t, strings.NewReplacer(), []exchange{{tenant, "GET /v1/proof-packs/checkpoint", 404,
		`{"ok":false,"error":"RESOURCE_NOT_FOUND","message":"no such checkpoint in this tenant","contractVersion":"v1.0"}`}})
	var held []string
	for range 3 {
		h.deliver(deliveries(2)...)
		header := h.seal()[0]
		answer, data := get(t, server, "/v1/proof-packs/checkpoint")
		var note string
		require.NoError(t, json.Unmarshal(data["checkpoint"], &note))
		require.Equal(t, header.Checkpoint, note)
		h.sound(answer)
		h.sound([]byte(note))
		held = append(held, string(answer))
	}
	packs := h.packs()
	bundle := func(n int) []byte {
		return ask(server, tenant, "GET /v1/proof-packs/"+packs[n].ID+"/bundle").Body.Bytes()
	}
	for _, note := range held {
		report, exit := h.verify(note, bundle(0), bundle(1), bundle(2))
		require.Equal(t, sealer.ExitSound, exit, report)
	}
	report, exit := h.verify(held[2], bundle(0), bundle(1))
	require.Equal(t, sealer.ExitUnsound, exit)
	require.Contains(t, report, `"rollback"`)
}

// TestForeignReceiptIsNotThere compares every byte of the answers, headers included.
func TestForeignReceiptIsNotThere(t *testing.T) {
	h := build(t)
	h.deliver(deliveries(2)...)
	h.audit("right.issued")
	h.seal()
	events := h.check()
	id := receipts(events)[0]
	audit, err := sealer.ParseEvent(events[2])
	require.NoError(t, err)
	require.Equal(t, "right.issued", audit.Type)
	server := h.serve()
	for _, end := range []string{"", "/proof", "/proof?checkpoint=latest"} {
		unknown := ask(server, stranger, "GET /v1/receipts/rcp_01ARZ3NDEKTSV4RRFFQ69G5FAV"+end)
		require.Equal(t, 404, unknown.Code)
		require.JSONEq(t, `{"ok":false,"error":"RESOURCE_NOT_FOUND","message":"no such receipt in this tenant","contractVersion":"v1.0"}`, unknown.Body.String())
		require.Equal(t, unknown, ask(server, stranger, "GET /v1/receipts/"+id+end), "foreign")
		for about, odd := range map[string]string{
			"lower case": strings.ToLower(id), "an event's id": "evt_" + id[4:], "of no receipt": "rcp_" + audit.EventID[4:],
			"no id": "x", "longer": id + "0", "a path": "rcp_..%2f" + id, "nothing": "rcp_",
		} {
			require.Equal(t, unknown, ask(server, tenant, "GET /v1/receipts/"+odd+end), about)
		}
	}
}

// TestReceiptsBehindTheWarehouse: what may be on its way is not said to be missing, nor
// while the log does not say where it ends.
func TestReceiptsBehindTheWarehouse(t *testing.T) {
	h := build(t, Config{WaitFor: 50 * time.Millisecond})
	h.loaders[0].Pause()
	record := h.event(delivery{substrate: gate.DOOH, dwellMs: 1500})
	h.append(record)
	refused := []exchange{{tenant, "GET /v1/receipts/rcp_" + record.EventID[4:], 503,
		`{"ok":false,"error":"INTERNAL_ERROR","reason":"WAREHOUSE_BEHIND","contractVersion":"v1.0","message":"the warehouse has not loaded all that was acknowledged yet"}`}}
	h.script(t, strings.NewReplacer(), refused)
	h.room.log = endless{h.log}
	h.script(t, strings.NewReplacer(), refused)
	h.loaders[0].Resume()
}

// endless is a log that does not say where it ends.
type endless struct{ pipeline.Reader }

// Bounds implements pipeline.Reader.
func (endless) Bounds(ctx context.Context, _ int32) (first, end sealer.Position, err error) {
	<-ctx.Done()
	return first, end, fmt.Errorf("no answer: %w", ctx.Err())
}

// TestDamagedNodesAreMadeAgain loses and damages the files beside the packs in
// every way: proofs stay the same, and the files come back.
func TestDamagedNodesAreMadeAgain(t *testing.T) {
	h := build(t, Config{MaxEntries: 4})
	h.deliver(deliveries(11)...)
	h.seal()
	server := h.serve()
	packs := h.packs()
	id := receipts(h.check())[5]
	paths := []string{
		"/v1/receipts/" + id, "/v1/receipts/" + id + "/proof", "/v1/receipts/" + id + "/proof?checkpoint=latest",
		"/v1/proof-packs/" + packs[2].ID + "/consistency?from=" + packs[0].ID, "/v1/events/export?after=1.0.4&upTo=1.0.8",
	}
	answer := func(path string) string {
		got := ask(server, tenant, "GET "+path)
		require.Equal(t, 200, got.Code, "%s: %s", path, got.Body)
		return got.Body.String()
	}
	want := map[string]string{}
	for _, path := range paths {
		want[path] = answer(path)
	}
	name := func(p Pack) string { return h.room.folder.name(tenant, p.ID+nodesSuffix) }
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
		for _, path := range paths {
			for _, p := range packs {
				require.NoError(t, os.Remove(name(p)))
				if text := damage(bytes.Clone(whole[p.ID])); text != nil {
					require.NoError(t, os.WriteFile(name(p), text, 0o600))
				}
			}
			require.Equal(t, want[path], answer(path), about)
			for _, p := range packs { // what a proof needs is made again, the rest is not met
				text, err := os.ReadFile(name(p))
				if again := bytes.Equal(text, whole[p.ID]); !again {
					require.Equal(t, damage(bytes.Clone(whole[p.ID])), text, "%s: %s, %v", about, path, err)
				}
				require.NoError(t, os.WriteFile(name(p), whole[p.ID], 0o600))
			}
		}
	}
	require.NoError(t, os.Remove(name(packs[1])))
	answer(paths[1])
	text, err := os.ReadFile(name(packs[1]))
	require.NoError(t, err)
	require.Equal(t, whole[packs[1].ID], text)

	// A pack that is damaged itself proves nothing, and nothing wrong is served.
	for _, p := range packs {
		require.NoError(t, os.Remove(name(p)))
		text, err := os.ReadFile(h.room.folder.path(tenant, p.ID))
		require.NoError(t, err)
		text[len(text)/2] ^= 1
		require.NoError(t, os.WriteFile(h.room.folder.path(tenant, p.ID), text, 0o600))
	}
	for _, path := range paths {
		require.Equal(t, 500, ask(server, tenant, "GET "+path).Code, path)
	}
}

// TestEventThatNoPackHolds: what stands before the head must be sealed.
func TestEventThatNoPackHolds(t *testing.T) {
	h := build(t)
	h.deliver(delivery{tenant: stranger, dwellMs: 1})
	h.deliver(deliveries(2)...)
	h.seal()
	rows, err := h.warehouse.Events(t.Context(), pipeline.EventQuery{TenantID: stranger, Limit: 1})
	require.NoError(t, err)
	row := rows[0]
	row.TenantID = tenant
	_, _, _, err = h.room.leafOf(t.Context(), row)
	require.ErrorContains(t, err, "lacks event "+row.EventID)
}

// TestNodesAreSwept: what a crash leaves beside no pack is deleted at a start.
func TestNodesAreSwept(t *testing.T) {
	h := build(t)
	h.deliver(deliveries(2)...)
	h.seal()
	pack := h.packs()[0].ID
	for _, name := range []string{"ppk_01ARZ3NDEKTSV4RRFFQ69G5FAV.nodes", pack + ".nodes.17.draft"} {
		require.NoError(t, os.WriteFile(h.room.folder.name(tenant, name), []byte("x"), 0o600))
	}
	names := func() (all []string) {
		entries, err := os.ReadDir(filepath.Join(h.dir, "packs", tenant))
		require.NoError(t, err)
		for _, e := range entries {
			all = append(all, e.Name())
		}
		return all
	}
	h.reopen(Config{})
	require.ElementsMatch(t, []string{pack + packSuffix, pack + ".nodes", pack + ".nodes.17.draft"}, names(), "a young draft may be in work")
	h.advance(2 * draftAge)
	h.reopen(Config{})
	require.ElementsMatch(t, []string{pack + packSuffix, pack + ".nodes"}, names())
}

// TestSealWithoutNodes: that the hashes can't be kept fails no seal.
func TestSealWithoutNodes(t *testing.T) {
	h := build(t)
	h.deliver(deliveries(3)...)
	h.room.step = func(name string) error {
		if name == "write nodes" {
			return errInjected
		}
		return nil
	}
	h.seal()
	id := receipts(h.check())[1]
	_, err := os.Stat(h.room.folder.name(tenant, h.packs()[0].ID+nodesSuffix))
	require.ErrorIs(t, err, os.ErrNotExist)
	proof, _ := get(t, h.serve(), "/v1/receipts/"+id+"/proof")
	h.sound(proof)
}
