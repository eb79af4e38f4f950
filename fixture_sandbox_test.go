package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muniment/bench/system/systemtest"
	"muniment/control/node"
	"muniment/control/sandbox"
	"muniment/control/settle"
	"muniment/control/store"
	"muniment/control/store/storetest"
	"muniment/control/tenant"
	"muniment/gateway/localnode"
	"muniment/pipeline"
	"muniment/pipeline/kafka"
	"muniment/pipeline/sqlite"
	"muniment/sealer"
	"muniment/sealer/verify"
)

// sandboxProcess is control with a node for the sandbox, as one process has them.
type sandboxProcess struct {
	t         *testing.T
	ctl       *plane
	db        *store.DB
	log       pipeline.Log
	warehouse *sqlite.Warehouse
	data      string
	stop      func()
}

// openSandbox opens a process over a folder and a log, and has start run its node.
func openSandbox(t *testing.T, data string, log pipeline.Log, warehouse *sqlite.Warehouse, start func(context.Context, *plane) error) *sandboxProcess {
	path, url := storetest.Place(t, data)
	quiet := slog.New(slog.DiscardHandler)
	db, err := store.Open(t.Context(), store.Config{Path: path, URL: url, Logger: quiet})
	require.NoError(t, err)
	ctl, err := openPlane(t.Context(), planeConfig{DB: db, Log: log, Deliveries: log, Warehouse: warehouse, Data: data, PublicURL: "https://muniment.example", LeaseBound: 5 * time.Second, Sandbox: sandbox.Flags{Tenants: 100, Limits: sandbox.Limits{Burst: 1000, Sustained: 1000}},
		Token: "operator", LogKept: func(context.Context) (time.Duration, error) { return time.Hour, nil }, Logger: quiet, Registerer: prometheus.NewRegistry()})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := ctl.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	running.Go(func() {
		if err := start(ctx, ctl); err != nil {
			t.Error(err)
		}
	})
	stop := sync.OnceFunc(func() {
		cancel()
		running.Wait()
		require.NoError(t, db.Close())
	})
	t.Cleanup(stop)
	return &sandboxProcess{t, ctl, db, log, warehouse, data, stop}
}

// call sends a request to control as a tenant, or as an operator.
func (h *sandboxProcess) call(key, method, path, body string) []byte {
	h.t.Helper()
	r := httptest.NewRequestWithContext(h.t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+key)
	w := httptest.NewRecorder()
	to := http.Handler(h.ctl.Handler())
	if strings.HasPrefix(path, "/admin/") {
		to = h.ctl.Admin()
	}
	to.ServeHTTP(w, r)
	require.Equal(h.t, 200, w.Code, w.Body.String())
	return w.Body.Bytes()
}

// visitor is a tenant with a right on DOOH.
type visitor struct {
	tenant.Created
	rightID string
}

func (h *sandboxProcess) visitor(sandbox bool) (v visitor) {
	h.t.Helper()
	made, err := h.ctl.tenants.Create(h.t.Context(), tenant.Request{Org: "visitor", Another: true, Sandbox: sandbox})
	require.NoError(h.t, err)
	v.Created = made
	var basis struct {
		Data struct{ Basis struct{ ID string } }
	}
	require.NoError(h.t, json.Unmarshal(h.call(made.APIKey, "POST", "/v1/bases", `{"kind":"CONTRACT","title":"A frame"}`), &basis))
	var issued struct {
		Data struct{ Right struct{ ID string } }
	}
	require.NoError(h.t, json.Unmarshal(h.call(made.APIKey, "POST", "/v1/rights", fmt.Sprintf(
		`{"basisId":%q,"substrate":"DOOH","scope":{},"effectiveFrom":"2026-01-01T00:00:00Z"}`, basis.Data.Basis.ID)), &issued))
	v.rightID = issued.Data.Right.ID
	return v
}

func (h *sandboxProcess) deliver(v visitor) {
	h.t.Helper()
	_, err := h.ctl.deliverSandbox(h.t.Context(), v.TenantID, v.KeyID, fmt.Appendf(nil, `{"rightId":%q,"spatialAnchorId":"wall","dwellMs":4200}`, v.rightID))
	require.NoError(h.t, err)
}

// runtimeKeys is what a stranger is given of the sandbox's keys, in a file.
func (h *sandboxProcess) runtimeKeys() string {
	h.t.Helper()
	name := filepath.Join(h.t.TempDir(), "keys.json")
	require.NoError(h.t, os.WriteFile(name, h.call("", "GET", "/api/sandbox/runtime-keys", ""), 0o600))
	return name
}

// sealed seals what there is of a tenant, and returns all of its packs in files.
func (h *sandboxProcess) sealed(v visitor) (files []string) {
	h.t.Helper()
	h.call(v.APIKey, "POST", "/v1/proof-packs/seal", "")
	var list struct {
		Data struct{ Packs []struct{ ID string } }
	}
	require.NoError(h.t, json.Unmarshal(h.call(v.APIKey, "GET", "/v1/proof-packs", ""), &list))
	dir := h.t.TempDir()
	for i, p := range list.Data.Packs {
		files = append(files, filepath.Join(dir, fmt.Sprint(i)))
		require.NoError(h.t, os.WriteFile(files[i], h.call(v.APIKey, "GET", "/v1/proof-packs/"+p.ID+"/bundle", ""), 0o600))
	}
	return files
}

func (h *sandboxProcess) verifies(files []string) {
	h.t.Helper()
	var report bytes.Buffer
	exit := verify.Files(h.t.Context(), verify.Options{Files: files, Keys: h.runtimeKeys(), Rating: settle.Rating}, &report)
	require.Equal(h.t, verify.ExitSound, exit, report.String())
}

// rows are a tenant's events, as far as they are loaded.
func (h *sandboxProcess) rows(v visitor) (all []pipeline.Row) {
	const page = 1000
	for q := (pipeline.EventQuery{TenantID: v.TenantID, Limit: page}); ; q.After = &all[len(all)-1].Position {
		rows, err := h.warehouse.Events(h.t.Context(), q)
		require.NoError(h.t, err)
		if all = append(all, rows...); len(rows) < page {
			return all
		}
	}
}

// signers are the keys of a tenant's receipts, each once, in their order.
func (h *sandboxProcess) signers(v visitor) (keyIDs []string) {
	seen := map[string]bool{}
	for _, row := range h.rows(v) {
		_, d, err := sealer.CheckRecord(&row.Record)
		require.NoError(h.t, err)
		if d != nil && !seen[d.KeyID] {
			seen[d.KeyID] = true
			keyIDs = append(keyIDs, d.KeyID)
		}
	}
	return keyIDs
}

func sandboxTopic(t *testing.T) *kafka.Log {
	log, err := kafka.Open(systemtest.EventTopic(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	return log
}

// sandboxAlone is how a control process runs its node.
func sandboxAlone(ctx context.Context, ctl *plane) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	served := newParts(ctx, fail)
	ctl.serveNodes(served)
	return errors.Join(ctl.sandboxNode.Run(ctx), served.stop())
}

func loadedWarehouse(t *testing.T, data string, log pipeline.Log, partitions int32) *sqlite.Warehouse {
	warehouse, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(data, "warehouse.db")})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var loading sync.WaitGroup
	for p := range partitions {
		loader, err := pipeline.NewLoader(pipeline.LoaderConfig{Log: log, Warehouse: warehouse, Partition: p})
		require.NoError(t, err)
		loading.Go(func() { _ = loader.Run(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		loading.Wait()
		require.NoError(t, warehouse.Close())
	})
	return warehouse
}

// identities are those of another process, which reaches control through a round tripper.
func (h *sandboxProcess) identities(folder string, do systemtest.RoundTrip, invite func(context.Context) (node.Invitation, error)) *localnode.Identities {
	identities := h.ctl.identities("a node", folder, invite)
	identities.Client = &http.Client{Transport: do}
	return &identities
}

// answer is control's to a node.
func (h *sandboxProcess) answer(q *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ctl.Nodes().ServeHTTP(w, q)
	return w.Result(), nil
}

// invitations is how many there ever were.
func (h *sandboxProcess) invitations() (n int) {
	require.NoError(h.t, h.db.Read().QueryRowContext(h.t.Context(), `SELECT COUNT(*) FROM invitations`).Scan(&n))
	return n
}

// nodeOf is the node that a tenant's last delivery was taken by.
func (h *sandboxProcess) nodeOf(v visitor) string {
	h.sealed(v) // what was delivered is loaded
	node := ""
	for _, row := range h.rows(v) {
		if row.Type == sealer.TypeDelivery {
			node = row.Node
		}
	}
	require.NotEmpty(h.t, node)
	return node
}
