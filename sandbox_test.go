package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/bench/waittest"
	"muniment/control/node"
	"muniment/control/settle"
	"muniment/control/store"
	"muniment/control/tenant"
	"muniment/pipeline/segment"
	"muniment/sealer"
	"muniment/sealer/verify"
)

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
	require.Equal(t, verify.ExitUnsound, exit, report.String())
}

// TestRevocationSealsForWhomTheKeySigned: the revocation of a key waits for the tenants that
// it signed for, and not for as many visitors as strangers care to make.
func TestRevocationSealsForWhomTheKeySigned(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	log := sandboxTopic(t)
	h := openSandbox(t, data, log, loadedWarehouse(t, data, log, 8), func(context.Context, *plane) error { return nil })
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
		require.Equal(t, k.Purpose == sealer.PurposeSandbox, packsOf(play), of)
		require.Equal(t, !slices.Contains([]string{sealer.PurposeSandbox, sealer.PurposeBeacon, sealer.PurposeWebhook}, k.Purpose), packsOf(real), of) // what keys of beacons and webhooks sign is in no pack
	}
	none, err := h.ctl.tenants.TenantIDs(t.Context(), sealer.PurposeWebhook)
	require.NoError(t, err)
	require.Empty(t, none)
	_, err = h.ctl.tenants.TenantIDs(t.Context(), "unheard_of")
	require.ErrorContains(t, err, "unheard_of", "it takes none of them for all")
}
