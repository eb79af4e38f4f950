package plane

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
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/control/node"
	"muniment.example/control/sandbox"
	"muniment.example/control/settle"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/control/store/storetest"
	"muniment.example/control/tenant"
	"muniment.example/deploy/process"
	"muniment.example/gateway/api"
	"muniment.example/gateway/issue"
	"muniment.example/gateway/localnode"
	"muniment.example/pipeline"
	"muniment.example/pipeline/kafka"
	"muniment.example/pipeline/segment"
	"muniment.example/pipeline/sqlite"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/verify"
)

// sandboxProcess is control with a node for the sandbox, as one process has them.
type sandboxProcess struct {
	t         *testing.T
	ctl       *Plane
	db        *store.DB
	log       sandboxLog
	warehouse *sqlite.Warehouse
	data      string
	stop      func()
}

// sandboxLog is the log of a process.
type sandboxLog interface {
	pipeline.OrderedLog
	issue.Log
}

// openSandbox opens a process over a folder and a log, and has start run its node.
func openSandbox(t *testing.T, data string, log sandboxLog, warehouse *sqlite.Warehouse, start func(context.Context, *Plane) error) *sandboxProcess {
	path, url := storetest.Place(t, data)
	quiet := slog.New(slog.DiscardHandler)
	db, err := store.Open(t.Context(), store.Config{Path: path, URL: url, Logger: quiet})
	require.NoError(t, err)
	ctl, err := Open(t.Context(), Config{DB: db, Log: log, Deliveries: log, Warehouse: warehouse, Data: data, PacksDir: filepath.Join(data, PacksFolder), Listening: "https://muniment.example", LeaseBound: 5 * time.Second, Flags: Flags{Sandbox: sandbox.Flags{Tenants: 100, Limits: sandbox.Limits{Burst: 1000, Sustained: 1000}}},
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
	waittest.Until(h.t, func() bool {
		_, err := h.ctl.deliverSandbox(h.t.Context(), v.TenantID, v.KeyID, fmt.Appendf(nil, `{"rightId":%q,"spatialAnchorId":"wall","dwellMs":4200}`, v.rightID))
		if refused, ok := errors.AsType[*api.Error](err); ok && refused.GetStatus() == http.StatusServiceUnavailable {
			return false // a node that is stopped for the length of its lease refuses until its next poll
		}
		require.NoError(h.t, err)
		return true
	})
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
func sandboxAlone(ctx context.Context, ctl *Plane) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	served := process.NewParts(ctx, fail)
	ctl.ServeNodes(served)
	return errors.Join(ctl.sandboxNode.Run(ctx), served.Stop())
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

// TestSandboxNodeExpelled: a node that an operator has put out does not come back, but
// another takes its place, in the same process, and is there at the next start.
func TestSandboxNodeExpelled(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	log := sandboxTopic(t)
	warehouse := loadedWarehouse(t, data, log, 8)
	h := openSandbox(t, data, log, warehouse, sandboxAlone)
	v := h.visitor(true)
	h.deliver(v)
	nodes := map[string]bool{}
	for n := range 3 {
		node := h.nodeOf(v)
		require.False(t, nodes[node], "it came back")
		nodes[node] = true
		h.call("operator", "POST", "/admin/nodes/"+node+"/expel", "{}")
		waittest.Until(t, func() bool {
			_, err := h.ctl.deliverSandbox(t.Context(), v.TenantID, v.KeyID, fmt.Appendf(nil, `{"rightId":%q,"spatialAnchorId":"wall","dwellMs":1}`, v.rightID))
			if refused, ok := errors.AsType[*api.Error](err); ok {
				require.Equal(t, 503, refused.GetStatus(), refused)
			}
			return err == nil
		})
		h.verifies(h.sealed(v))
		require.Len(t, h.signers(v), n+2)
	}
	last := h.nodeOf(v)
	h.stop()

	h = openSandbox(t, data, log, warehouse, sandboxAlone)
	h.deliver(v)
	h.verifies(h.sealed(v))
	require.Equal(t, last, h.nodeOf(v))
	require.Len(t, h.signers(v), 4)
	invited := h.invitations()
	h.stop()

	// Who was expelled before it had signed anything is not invited again.
	folder := filepath.Join(data, "sandbox")
	written, err := filepath.Glob(filepath.Join(folder, "*", "latest"))
	require.NoError(t, err)
	require.Len(t, written, 4)
	for _, file := range written {
		require.NoError(t, os.Remove(file))
	}
	h = openSandbox(t, data, log, warehouse, sandboxAlone)
	h.deliver(v)
	require.Equal(t, last, h.nodeOf(v))
	require.Equal(t, invited, h.invitations())
	h.stop()

	// What has lost its name is passed over.
	for _, file := range []string{"latest", "node.json"} {
		require.NoError(t, os.Remove(filepath.Join(folder, "4", file)))
	}
	h = openSandbox(t, data, log, warehouse, sandboxAlone)
	h.deliver(v)
	require.NotEqual(t, last, h.nodeOf(v))
	require.Equal(t, invited+1, h.invitations())
}

// TestSandboxNodeAskedToLeave: a node whose expulsion does not come to its end has a
// successor all the same, also at the next start, and says what the expulsion waits for.
func TestSandboxNodeAskedToLeave(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	log := sandboxTopic(t)
	warehouse := loadedWarehouse(t, data, log, 8)
	h := openSandbox(t, data, log, warehouse, sandboxAlone)
	v := h.visitor(true)
	h.deliver(v)
	first := h.nodeOf(v)
	var unheard node.Expulsion
	unheard.Seal = func(context.Context, string, string) ([]signing.Unsealed, error) {
		return nil, errors.New("the disk is full")
	}
	_, err := h.ctl.nodes.Expel(t.Context(), first, unheard, store.ByOperator())
	require.ErrorContains(t, err, "the disk is full", "not before the node has said that its keys are out of use")
	h.deliver(v)
	second := h.nodeOf(v)
	require.NotEqual(t, first, second)
	h.stop()

	// The successor gets the request while it is not there.
	h = openSandbox(t, data, log, warehouse, func(context.Context, *Plane) error { return nil })
	_, err = h.ctl.nodes.Expel(t.Context(), second, node.Expulsion{}, store.ByOperator())
	require.ErrorContains(t, err, "does not poll the feed")
	h.stop()

	h = openSandbox(t, data, log, warehouse, sandboxAlone)
	h.deliver(v)
	third := h.nodeOf(v)
	require.NotContains(t, []string{first, second}, third)
	for _, n := range []string{second, first} {
		h.call("operator", "POST", "/admin/nodes/"+n+"/expel", "{}")
	}
	h.deliver(v)
	require.Equal(t, third, h.nodeOf(v))
	h.verifies(h.sealed(v))
}

// TestSandboxNodeKilledAsItJoined: the next start goes on with the same node in the same
// slot, whether or not control had let it join; and to try again makes no other invitation.
func TestSandboxNodeKilledAsItJoined(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	log := sandboxTopic(t)
	warehouse := loadedWarehouse(t, data, log, 8)
	h := openSandbox(t, data, log, warehouse, func(context.Context, *Plane) error { return nil })
	// joining has another process join, whose request gets the given answer.
	joining := func(answer func(*http.Request) (*http.Response, error)) *localnode.Identities {
		do := func(q *http.Request) (*http.Response, error) {
			if q.URL.Path == api.PathJoin {
				return answer(q)
			}
			return h.answer(q)
		}
		return h.identities("sandbox", do, h.ctl.nodes.InviteSandbox)
	}

	s := joining(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusConflict, Body: http.NoBody}, nil
	})
	for range 3 {
		_, err := s.Open(t.Context(), nil)
		require.ErrorContains(t, err, "cannot join")
	}
	require.Equal(t, 1, h.invitations())
	for i, arrived := range []bool{false, true} { // by control
		ctx, kill := context.WithCancel(t.Context())
		_, err := joining(func(q *http.Request) (*http.Response, error) {
			if arrived {
				_, err := h.answer(q)
				require.NoError(t, err)
			}
			kill()
			return nil, errors.New("killed")
		}).Open(ctx, nil)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 2+i, h.invitations())
	}
	h.stop()

	h = openSandbox(t, data, log, warehouse, sandboxAlone)
	v := h.visitor(true)
	h.deliver(v)
	h.verifies(h.sealed(v))
	joined, err := store.List(t.Context(), h.db.Read(), "the nodes", store.Text, `SELECT node_id FROM nodes`)
	require.NoError(t, err)
	require.Equal(t, []string{h.nodeOf(v)}, joined)
	require.Equal(t, 3, h.invitations())
	entries, err := os.ReadDir(filepath.Join(data, "sandbox"))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// TestSandboxReceipts: a stranger who has the keys of the sandbox, and nothing else,
// verifies what a visitor's deliveries became, over rotations of all of those keys, with
// everything in one process and with a node of control's on a topic.
func TestSandboxReceipts(t *testing.T) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		data := t.TempDir()
		log, err := segment.Open(segment.Config{Dir: filepath.Join(data, "log")})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, log.Close()) })
		testSandboxReceipts(t, openSandbox(t, data, log, loadedWarehouse(t, data, log, 1), sandboxAlone))
	})
	t.Run("on a topic", func(t *testing.T) {
		data := t.TempDir()
		log := sandboxTopic(t)
		testSandboxReceipts(t, openSandbox(t, data, log, loadedWarehouse(t, data, log, 8), sandboxAlone))
	})
}

func testSandboxReceipts(t *testing.T, h *sandboxProcess) {
	v, real := h.visitor(true), h.visitor(false)
	_, err := h.ctl.deliverSandbox(t.Context(), real.TenantID, real.KeyID, fmt.Appendf(nil, `{"rightId":%q,"spatialAnchorId":"wall","dwellMs":1}`, real.rightID))
	require.ErrorIs(t, err, errNotSandboxed)
	for range 5 {
		h.deliver(v)
	}
	first := h.sealed(v)
	h.verifies(first)

	// Both keys are rotated while deliveries go on.
	keys, _, err := h.ctl.keys.SandboxKeys(t.Context())
	require.NoError(t, err)
	require.Len(t, keys, 2, "control's, and the node's")
	for _, k := range keys {
		stop, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for {
				_, err := h.ctl.deliverSandbox(t.Context(), v.TenantID, v.KeyID, fmt.Appendf(nil, `{"rightId":%q,"spatialAnchorId":"wall","dwellMs":7}`, v.rightID))
				if err != nil {
					t.Errorf("a delivery while a key was rotated: %v", err)
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
		h.call("operator", "POST", "/admin/signing-keys/"+k.KeyID+"/rotate", "")
		close(stop)
		<-ended
	}
	waittest.Until(t, func() bool {
		h.deliver(v)
		return len(h.signers(v)) == 2
	})
	require.Equal(t, keys[1].KeyID, h.signers(v)[0])
	all := h.sealed(v)
	require.Greater(t, len(all), len(first))
	h.verifies(all)
	after, _, err := h.ctl.keys.SandboxKeys(t.Context())
	require.NoError(t, err)
	require.Len(t, after, 4)
	require.NotEqual(t, keys[0].KeyID, after[0].KeyID, "control's current one is first")

	_, err = h.ctl.packs.SealSome(t.Context(), "tnt_01ARZ3NDEKTSV4RRFFQ69G5FAV", nil, store.ByOperator())
	require.ErrorIs(t, err, tenant.ErrNone, "nothing is sealed for a tenant that is gone, whichever sort it was of")

	// What is no sandbox's does not verify so.
	var report bytes.Buffer
	exit := verify.Files(t.Context(), verify.Options{Files: h.sealed(real), Keys: h.runtimeKeys(), Rating: settle.Rating}, &report)
	require.Equal(t, verify.ExitUnjudged, exit, report.String())
}

// TestRevocationSealsForWhomTheKeySigned: the revocation of a key waits for the tenants that
// it signed for, and not for as many visitors as strangers care to make.
func TestRevocationSealsForWhomTheKeySigned(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	log := sandboxTopic(t)
	h := openSandbox(t, data, log, loadedWarehouse(t, data, log, 8), func(context.Context, *Plane) error { return nil })
	for folder, invite := range map[string]func(context.Context) (node.Invitation, error){"node": h.ctl.invite, "sandbox": h.ctl.nodes.InviteSandbox} {
		n, err := h.identities(folder, h.answer, invite).Open(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, n.Close())
	}
	listed, err := h.ctl.keys.SigningKeys(t.Context())
	require.NoError(t, err)
	require.Len(t, listed.Keys, 7)
	packsOf := func(v visitor) bool {
		n, err := h.ctl.packs.CountPacks(t.Context(), v.TenantID)
		require.NoError(t, err)
		return n > 0
	}
	for _, k := range listed.Keys {
		play, real := h.visitor(true), h.visitor(false)
		h.call("operator", "POST", "/admin/signing-keys/"+k.KeyID+"/revoke", `{"force":true}`) // the nodes are gone
		of := k.NodeID + "'s key for " + k.Purpose
		require.Equal(t, k.Purpose == keydir.PurposeSandbox, packsOf(play), of)
		require.Equal(t, !slices.Contains([]string{keydir.PurposeSandbox, keydir.PurposeBeacon, keydir.PurposeWebhook}, k.Purpose), packsOf(real), of) // what keys of beacons and webhooks sign is in no pack
	}
	none, err := h.ctl.tenants.TenantIDs(t.Context(), keydir.PurposeWebhook)
	require.NoError(t, err)
	require.Empty(t, none)
	_, err = h.ctl.tenants.TenantIDs(t.Context(), "unheard_of")
	require.ErrorContains(t, err, "unheard_of", "it takes none of them for all")
}
