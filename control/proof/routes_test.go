package proof

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/stretchr/testify/require"

	"muniment.example/control/proof/prooftest"
	"muniment.example/control/route/routetest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/sealer"
	"muniment.example/sealer/merkle"
)

// serve serves the service's routes to whatever tenant the header Tenant names, as
// control's middleware does with the tenant of a key.
func (h *fixture) serve() http.Handler {
	mux := http.NewServeMux()
	config := huma.DefaultConfig("test", "v1")
	config.CreateHooks = nil
	a := humago.New(mux, config)
	a.UseMiddleware(func(c huma.Context, next func(huma.Context)) {
		caller := auth.Principal{Key: &api.Key{ID: "key_test", TenantID: c.Header("Tenant")}}
		next(huma.WithContext(c, auth.WithPrincipal(c.Context(), caller)))
	})
	h.service.Routes(a)
	return routetest.Declared(a.OpenAPI()).Watch(h.T, mux)
}

// send sends "METHOD /path" for a tenant and returns status and body.
func send(server http.Handler, tenantID, request string) *httptest.ResponseRecorder {
	method, path, _ := strings.Cut(request, " ")
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set("Tenant", tenantID)
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r)
	return w
}

// post sends a body to a path for a tenant.
func (h *fixture) post(tenantID, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Tenant", tenantID)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.serve().ServeHTTP(w, r)
	return w
}

// exchange is one request and its whole answer, in which names stand for what
// differs from run to run.
type exchange struct {
	tenant, request string
	status          int
	answer          string
}

func (h *fixture) script(t *testing.T, names *strings.Replacer, script []exchange) {
	t.Helper()
	server := h.serve()
	for _, e := range script {
		got := send(server, e.tenant, names.Replace(e.request))
		require.Equal(t, e.status, got.Code, "%s: %s", e.request, got.Body)
		require.JSONEq(t, names.Replace(e.answer), got.Body.String(), e.request)
	}
}

func TestPacksOverHTTP(t *testing.T) {
	h := build(t)
	h.script(t, strings.NewReplacer("{end}", h.End().String()), []exchange{
		{tenant, "GET /v1/proof-packs", 200, `{"ok":true,"data":{"packs":[],"nextCursor":null},"contractVersion":"v1.0"}`},
		{tenant, "POST /v1/proof-packs/seal", 200, `{"ok":true,"data":{"packs":[],"pack":null,"upTo":"{end}","more":false,"pending":[]},"contractVersion":"v1.0"}`},
	})
	h.Deliver(deliveries(2)...)
	h.seal()
	h.Deliver(deliveries(3)...)
	h.seal()

	packs := h.packs()
	summary := func(n string) string {
		return `{"id":"{pack` + n + `}","firstIndex":{first` + n + `},"count":{count` + n + `},"treeSize":{size` + n + `},"rootHash":"{root` + n + `}","duplicates":0,
			"rated":0,"unrated":0,"signingKeyId":"{key}","bytes":{bytes` + n + `},"sha256":"{sum` + n + `}","revision":{revision` + n + `},
			"sealedAt":"2026-11-21T04:00:00.000Z","createdAt":"2026-11-21T04:00:00.000Z","updatedAt":"2026-11-21T04:00:00.000Z"}`
	}
	directory, err := h.Keys.Directory(t.Context())
	require.NoError(t, err)
	words := []string{"{end}", h.End().String(), "{key}", h.Keys.Pack.KeyID, "{keys}", string(directory)}
	for i, p := range packs {
		n := strconv.Itoa(i + 1)
		words = append(words, "{pack"+n+"}", p.ID, "{root"+n+"}", p.RootHash, "{sum"+n+"}", p.SHA256, "{header"+n+"}", string(p.Header),
			"{bytes"+n+"}", strconv.FormatInt(p.Bytes, 10), "{revision"+n+"}", strconv.FormatInt(p.Revision, 10))
	}
	words = append(words, "{first1}", "0", "{count1}", "2", "{size1}", "2", "{first2}", "2", "{count2}", "4", "{size2}", "6")
	// Names stand in the summaries too.
	names := strings.NewReplacer(append(words,
		"{summary1}", strings.NewReplacer(words...).Replace(summary("1")),
		"{summary2}", strings.NewReplacer(words...).Replace(summary("2")))...)

	notThere := `{"ok":false,"error":"RESOURCE_NOT_FOUND","message":"no such proof pack in this tenant","contractVersion":"v1.0","field":"packId"}`
	badCursor := routetest.Invalid("cursor: is no cursor of this list")
	h.script(t, names, []exchange{
		{tenant, "POST /v1/proof-packs/seal", 200,
			`{"ok":true,"data":{"packs":[{header2}],"pack":{header2},"upTo":"{end}","more":false,"pending":[]},"contractVersion":"v1.0"}`},
		{tenant, "GET /v1/proof-packs", 200,
			`{"ok":true,"data":{"packs":[{summary1},{summary2}],"nextCursor":null},"contractVersion":"v1.0"}`},
		{tenant, "GET /v1/proof-packs?limit=1", 200,
			`{"ok":true,"data":{"packs":[{summary1}],"nextCursor":"L3YxL3Byb29mLXBhY2tzOjE"},"contractVersion":"v1.0"}`},
		{tenant, "GET /v1/proof-packs?limit=1&cursor=L3YxL3Byb29mLXBhY2tzOjE", 200,
			`{"ok":true,"data":{"packs":[{summary2}],"nextCursor":null},"contractVersion":"v1.0"}`},
		{tenant, "GET /v1/proof-packs?cursor=MTp4", 422, badCursor},
		{tenant, "GET /v1/proof-packs?cursor=x", 422, badCursor},
		{tenant, "GET /v1/proof-packs/{pack1}", 200,
			`{"ok":true,"data":{"header":{header1},"summary":{summary1},"keys":{keys}},"contractVersion":"v1.0"}`},
		{tenant, "GET /v1/proof-packs/ppk_01ARZ3NDEKTSV4RRFFQ69G5FAV", 404, notThere},
		{tenant, "GET /v1/proof-packs/ppk_01ARZ3NDEKTSV4RRFFQ69G5FAV/bundle", 404, notThere},
		{stranger, "GET /v1/proof-packs", 200, `{"ok":true,"data":{"packs":[],"nextCursor":null},"contractVersion":"v1.0"}`},
	})
}

// TestForeignPackIsNotThere compares every byte of the answers, headers included.
func TestForeignPackIsNotThere(t *testing.T) {
	h := build(t)
	h.Deliver(deliveries(2)...)
	h.seal()
	server := h.serve()
	for _, end := range []string{"", "/bundle"} {
		foreign := send(server, stranger, "GET /v1/proof-packs/"+h.packs()[0].ID+end)
		unknown := send(server, stranger, "GET /v1/proof-packs/ppk_01ARZ3NDEKTSV4RRFFQ69G5FAV"+end)
		odd := send(server, stranger, "GET /v1/proof-packs/..%2f"+tenant+"%2f"+h.packs()[0].ID+end)
		require.Equal(t, 404, foreign.Code)
		require.Equal(t, unknown, foreign)
		require.Equal(t, unknown, odd)
	}
}

func TestBundleIsTheFile(t *testing.T) {
	h := build(t)
	h.Deliver(deliveries(80)...)
	h.seal()
	pack := h.packs()[0]
	file := h.path(pack.ID)
	sealed, err := os.ReadFile(file)
	require.NoError(t, err)

	server := httptest.NewServer(h.serve())
	defer server.Close()
	accept := "gzip"
	get := func() (*http.Response, []byte, error) {
		r, err := http.NewRequest("GET", server.URL+"/v1/proof-packs/"+pack.ID+"/bundle", nil)
		require.NoError(t, err)
		r.Header.Set("Tenant", tenant)
		r.Header.Set("Accept-Encoding", accept)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		return answer, body, err
	}
	answer, body, err := get()
	require.NoError(t, err)
	require.Equal(t, 200, answer.StatusCode)
	require.EqualValues(t, pack.Bytes, len(body))
	require.Equal(t, pack.SHA256, merkle.Hash(sha256.Sum256(body)).String())
	require.EqualValues(t, len(body), answer.ContentLength)
	require.Equal(t, "application/x-ndjson", answer.Header.Get("Content-Type"))
	require.Equal(t, `attachment; filename="`+pack.ID+`.ndjson"`, answer.Header.Get("Content-Disposition"))
	require.Empty(t, answer.Header.Get("Content-Encoding"))
	require.Equal(t, "Accept-Encoding", answer.Header.Get("Vary"))

	accept = "gzip, zstd;q=0.5"
	answer, packed, err := get()
	require.NoError(t, err)
	require.Equal(t, "zstd", answer.Header.Get("Content-Encoding"))
	require.Equal(t, "Accept-Encoding", answer.Header.Get("Vary"))
	require.EqualValues(t, len(sealed), answer.ContentLength)
	require.Equal(t, sealed, packed)
	lines, err := unpack(bytes.NewReader(packed))
	require.NoError(t, err)
	plain, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.Equal(t, string(body), string(plain), "it is the same")

	damage := map[string][]byte{"cut": sealed[:len(sealed)-1], "longer": append(sealed[:len(sealed):len(sealed)], '\n'), "empty": nil}
	for _, at := range []int{0, len(sealed) / 2, len(sealed) - 1} {
		flipped := []byte(string(sealed))
		flipped[at] ^= 1
		damage["flipped at "+strconv.Itoa(at)] = flipped
	}
	for name, text := range damage {
		require.NoError(t, os.WriteFile(file, text, 0o600))
		answer, body, err = get()
		require.NoError(t, err)
		require.Equal(t, 500, answer.StatusCode, name)
		require.NotContains(t, string(body), "delivery.recorded", name)
	}
}

func TestSealOverHTTPNamesTheCaller(t *testing.T) {
	h := build(t)
	h.Deliver(deliveries(1)...)
	require.Equal(t, 200, send(h.serve(), tenant, "POST /v1/proof-packs/seal").Code)
	pack := h.packs()[0]
	h.Audit("right.issued")
	h.seal()
	sealing, err := sealer.ParseEvent(h.check()[1])
	require.NoError(t, err)
	require.Equal(t, "pack.sealed", sealing.Type)
	require.Equal(t, sealer.Ref{Kind: "key", ID: "key_test"}, sealing.Actor)
	require.Equal(t, sealer.Ref{Kind: "pack", ID: pack.ID}, sealing.Subject)
	require.JSONEq(t, `{"count":1,"firstIndex":0,"treeSize":1,"rootHash":"`+pack.RootHash+`","signingKeyId":"`+pack.SigningKeyID+`"}`,
		string(sealing.Data))
}

// TestDownloadIsRecorded: each download is an event, which is no reason to seal, and a download that
// can't be recorded is refused.
func TestDownloadIsRecorded(t *testing.T) {
	h := build(t)
	h.Deliver(deliveries(1)...)
	h.seal()
	pack := h.packs()[0]
	server := h.serve()
	path := "/v1/proof-packs/" + pack.ID + "/bundle"
	head, whole := send(server, tenant, "HEAD "+path), send(server, tenant, "GET "+path)
	require.Equal(t, 200, whole.Code)
	require.Equal(t, whole.Header(), head.Header())
	require.Empty(t, head.Body.Bytes(), "and nothing was read")
	require.Equal(t, 404, send(server, tenant, "GET /v1/proof-packs/ppk_0/bundle").Code)
	h.seal()
	require.Len(t, h.packs(), 1, "nothing new")

	h.Audit("right.issued")
	h.seal()
	leaves := h.check()
	require.Len(t, leaves, 4)
	e, err := sealer.ParseEvent(leaves[2])
	require.NoError(t, err)
	require.Equal(t, "pack.downloaded pack:"+pack.ID+" {}", e.Type+" "+e.Subject.Kind+":"+e.Subject.ID+" "+string(e.Data))
	require.Equal(t, sealer.Ref{Kind: "key", ID: "key_test"}, e.Actor)

	require.NoError(t, h.DB.Close())
	require.GreaterOrEqual(t, send(server, tenant, "GET "+path).Code, 500)
}

func TestRefusedSealOverHTTP(t *testing.T) {
	h := build(t)
	h.Deliver(delivery{DwellMs: 1, Signer: prooftest.NewSigner(t)})
	h.script(t, strings.NewReplacer(), []exchange{
		{tenant, "POST /v1/proof-packs/seal", 503, `{"ok":false,"error":"INTERNAL_ERROR","reason":"QUARANTINED","contractVersion":"v1.0",
			"message":"a quarantined record holds sealing until an operator has repaired or released it"}`},
	})
}

// TestDuplicatesAreServed finds what is not billed in a pack's header, and counted
// in its summary.
func TestDuplicatesAreServed(t *testing.T) {
	h := build(t)
	h.Deliver(delivery{DwellMs: 1, Key: "order 1"}, delivery{DwellMs: 2})
	h.seal()
	h.Deliver(delivery{DwellMs: 1, Key: "order 1"}, delivery{DwellMs: 3, Key: "order 2"}, delivery{DwellMs: 3, Key: "order 2"})
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
