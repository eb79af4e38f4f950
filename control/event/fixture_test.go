package event

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/stretchr/testify/require"

	"muniment.example/control/proof"
	"muniment.example/control/proof/prooftest"
	"muniment.example/control/route/routetest"
	"muniment.example/control/settle"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/pipeline"
	"muniment.example/pipeline/kafka"
	"muniment.example/sealer"
	"muniment.example/sealer/pack"
)

type delivery = prooftest.Delivery

const (
	tenant   = prooftest.Tenant
	stranger = prooftest.Stranger
)

// fixture is the service, the packs that it proves events with, and what surrounds both.
type fixture struct {
	*prooftest.Stage
	packs   *proof.Service
	service *Service
}

// kinds are the kinds of this package's events, and some of the others.
var kinds = append(store.KindsOf(Nouns), &store.Kind{Noun: &store.Noun{}, Type: "right.issued"}, &store.Kind{Noun: &store.Noun{}, Type: "key.revoked"})

// build makes a fixture in a new folder; cfg is what a test needs other than the default.
func build(t *testing.T, cfg ...proof.Config) *fixture { return buildOver(t, kafka.Config{}, cfg...) }

// buildOver makes a fixture whose log is a topic.
func buildOver(t *testing.T, topic kafka.Config, cfg ...proof.Config) *fixture {
	h := &fixture{Stage: prooftest.NewStage(t, topic)}
	h.Open()
	t.Cleanup(h.Close)
	h.reopen(append(cfg, proof.Config{})[0])
	return h
}

// reopen opens the service once more.
func (h *fixture) reopen(cfg proof.Config) {
	h.T.Helper()
	cfg.DB, cfg.Keys, cfg.Dir, cfg.Now = h.DB, h.Keys, filepath.Join(h.Dir, "packs"), h.Now
	cfg.Logger, cfg.Rate = slog.New(slog.DiscardHandler), settle.Rating.Rate
	if cfg.Log == nil {
		cfg.Log = h.Log
	}
	if cfg.Warehouse == nil {
		cfg.Warehouse = h.Warehouse
	}
	var err error
	h.packs, err = proof.New(h.T.Context(), cfg)
	require.NoError(h.T, err)
	h.service, err = New(Config{DB: h.DB, Warehouse: cfg.Warehouse, Log: cfg.Log, Packs: h.packs, Kinds: kinds, Logger: cfg.Logger})
	require.NoError(h.T, err)
}

// seal seals everything and returns the headers of the packs. The event of the sealing is in the log
// then.
func (h *fixture) seal() []pack.Header {
	h.T.Helper()
	done, err := h.packs.SealSome(h.T.Context(), h.Tenant, nil, prooftest.Operator)
	require.NoError(h.T, err)
	require.False(h.T, done.More)
	require.NoError(h.T, h.DB.Outbox.Drain(h.T.Context(), h.Tenant))
	var headers []pack.Header
	for _, text := range done.Packs {
		header, err := pack.ParseHeader(text)
		require.NoError(h.T, err)
		headers = append(headers, header)
	}
	return headers
}

// sealed are the tenant's sealed events, in the order of the log.
func (h *fixture) sealed() (events [][]byte) {
	h.T.Helper()
	size, _, err := h.packs.Head(h.T.Context(), h.Tenant)
	require.NoError(h.T, err)
	rows, err := h.Warehouse.Events(h.T.Context(), pipeline.EventQuery{TenantID: h.Tenant, Limit: int(size)})
	require.NoError(h.T, err)
	require.Len(h.T, rows, int(size))
	for _, row := range rows {
		events = append(events, row.Event)
	}
	return events
}

// deliver makes n deliveries durable and returns the ids of their receipts.
func (h *fixture) deliver(n int) (receiptIDs []string) {
	for _, d := range prooftest.Deliveries(n) {
		record := h.Event(d)
		h.Append(record)
		receiptIDs = append(receiptIDs, receiptOf(record))
	}
	return receiptIDs
}

func receiptOf(r *sealer.Record) string { return "rcp_" + r.EventID[len("evt_"):] }

// serve serves the service's routes to the tenant that the header Tenant names.
func (h *fixture) serve() http.Handler { return serve(h.T.(*testing.T), h.service) }

func serve(t interface{ Errorf(string, ...any) }, s *Service) http.Handler {
	mux := http.NewServeMux()
	config := huma.DefaultConfig("test", "v1")
	config.CreateHooks = nil
	a := humago.New(mux, config)
	a.UseMiddleware(func(c huma.Context, next func(huma.Context)) {
		caller := auth.Principal{Key: &api.Key{ID: "key_test", TenantID: c.Header("Tenant")}}
		next(huma.WithContext(c, auth.WithPrincipal(c.Context(), caller)))
	})
	s.Routes(a)
	return routetest.Declared(a.OpenAPI()).Watch(t, mux)
}

// send sends "METHOD /path" for a tenant.
func send(server http.Handler, tenantID, request string) *httptest.ResponseRecorder {
	method, path, _ := strings.Cut(request, " ")
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set("Tenant", tenantID)
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r)
	return w
}

// get must succeed; it returns the response and its data.
func get(t *testing.T, server http.Handler, path string) (response []byte, data map[string]json.RawMessage) {
	t.Helper()
	got := send(server, tenant, "GET "+path)
	require.Equal(t, 200, got.Code, "%s: %s", path, got.Body)
	var body struct{ Data map[string]json.RawMessage }
	require.NoError(t, json.Unmarshal(got.Body.Bytes(), &body))
	return got.Body.Bytes(), body.Data
}

// exchange is a request and its whole response.
type exchange struct {
	tenant, request string
	status          int
	response        string
}

func (h *fixture) script(t *testing.T, script []exchange) {
	t.Helper()
	server := h.serve()
	for _, e := range script {
		got := send(server, e.tenant, e.request)
		require.Equal(t, e.status, got.Code, "%s: %s", e.request, got.Body)
		require.JSONEq(t, e.response, got.Body.String(), e.request)
	}
}
