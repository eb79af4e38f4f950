package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/bench/system/systemtest"
	"muniment/bench/waittest"
	"muniment/control/node"
	"muniment/control/signing"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/gateway/localnode"
)

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
	h = openSandbox(t, data, log, warehouse, func(context.Context, *plane) error { return nil })
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
	h := openSandbox(t, data, log, warehouse, func(context.Context, *plane) error { return nil })
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

// TestSandboxNodesOfSeveralProcessesOnTheStack: each process has a node of its own, and one that
// starts takes over who is gone.
func TestSandboxNodesOfSeveralProcessesOnTheStack(t *testing.T) {
	systemtest.OnTheStack(t, "POSTGRES") // a SQLite file has no other process
	data := t.TempDir()
	log := sandboxTopic(t)
	warehouse := loadedWarehouse(t, data, log, 8)
	start := func() *sandboxProcess { return openSandbox(t, data, log, warehouse, sandboxAlone) }
	a, b := start(), start()
	v := a.visitor(true)
	for range 3 {
		a.deliver(v)
		b.deliver(v)
	}
	b.verifies(a.sealed(v))
	require.Len(t, a.signers(v), 2)
	before := a.signers(v)
	keys, _, err := a.ctl.keys.SandboxKeys(t.Context())
	require.NoError(t, err)
	require.Len(t, keys, 3, "control's, and one of each node")

	// A right that is revoked at one process is revoked at the other's node.
	gone := a.visitor(true)
	a.deliver(gone)
	b.deliver(gone)
	var revoked struct {
		Data struct{ Propagation struct{ Applied bool } }
	}
	require.NoError(t, json.Unmarshal(a.call(gone.APIKey, "POST", "/v1/rights/"+gone.rightID+"/revoke", ""), &revoked))
	require.True(t, revoked.Data.Propagation.Applied)
	for _, h := range []*sandboxProcess{a, b} {
		_, err := h.ctl.deliverSandbox(t.Context(), gone.TenantID, gone.KeyID, fmt.Appendf(nil, `{"rightId":%q,"spatialAnchorId":"wall","dwellMs":1}`, gone.rightID))
		refused, ok := errors.AsType[*api.Error](err)
		require.True(t, ok && refused.GetStatus() == 409, "%v", err)
	}

	a.stop()
	c := start()
	c.deliver(v)
	c.verifies(c.sealed(v))
	require.Equal(t, before, c.signers(v), "no other key was made")
	entries, err := os.ReadDir(filepath.Join(data, "sandbox"))
	require.NoError(t, err)
	require.Len(t, entries, 2)
}
