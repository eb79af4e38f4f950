package proof

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/proof/prooftest"
	"muniment.example/control/settle"
	"muniment.example/control/store"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
	auditor "muniment.example/sealer/verify"
)

// sandboxes says of a tenant that it is one of the sandbox.
func sandboxes(tenantID string) func(context.Context, store.Querier, string) (string, error) {
	return func(_ context.Context, _ store.Querier, id string) (string, error) {
		if id == tenantID {
			return keydir.PurposeSandbox, nil
		}
		return keydir.PurposePack, nil
	}
}

// TestSandboxIsSealedByItsOwnKey verifies everything of a sandbox's tenant by the keys of
// the sandbox alone, as a stranger has them, over a rotation and a revocation.
func TestSandboxIsSealedByItsOwnKey(t *testing.T) {
	h := build(t, Config{Purpose: sandboxes(tenant)})
	plays := func(n int) {
		for _, d := range deliveries(n) {
			d.Signer = h.Keys.Sandbox
			h.Deliver(d)
		}
	}
	plays(4)
	h.seal()
	first := h.Keys.Sandbox
	h.Advance(time.Minute)
	h.Keys.Sandbox = h.Keys.Add(t, keydir.PurposeSandbox, h.Now())
	plays(3)
	require.Len(t, h.seal(), 1)
	ids := receipts(h.check())
	require.Len(t, ids, 7)
	for _, p := range h.packs() {
		require.NotEqual(t, h.Keys.Pack.KeyID, p.SigningKeyID)
	}

	server := h.serve()
	answers := map[string][]byte{}
	for i, p := range h.packs() {
		text, err := os.ReadFile(h.path(p.ID))
		require.NoError(t, err)
		answers["pack"+string(rune('0'+i))] = text
	}
	answers["proof"] = h.proven(ids[0], false)
	_, data := get(t, server, "/v1/proof-packs/checkpoint")
	var checkpoint string
	require.NoError(t, json.Unmarshal(data["checkpoint"], &checkpoint))
	answers["checkpoint"] = []byte(checkpoint)
	h.verifyBySandboxKeys(t, answers)

	h.Advance(time.Minute)
	require.NoError(t, h.service.Vouch(t.Context(), tenant, first.KeyID, operator))
	h.Advance(time.Minute)
	h.Keys.Revoke(first.KeyID, h.Now())
	h.revokedButSound(t, h.packs()[:1], ids)
}

// verifyBySandboxKeys is muniment verify with the list of the sandbox's keys.
func (h *fixture) verifyBySandboxKeys(t *testing.T, answers map[string][]byte) {
	text, err := h.Keys.Directory(t.Context())
	require.NoError(t, err)
	d, err := keydir.Read(text)
	require.NoError(t, err)
	list := map[string]any{"issuedAt": canonical.FormatTime(d.IssuedAt), "snapshotId": h.Keys.Sandbox.KeyID}
	var keys []map[string]any
	for _, k := range d.Keys {
		if k.Purpose == keydir.PurposeSandbox {
			key := map[string]any{"keyId": k.KeyID, "algorithm": k.Algorithm, "publicKey": k.PublicKey, "purpose": k.Purpose,
				"notBefore": canonical.FormatTime(k.NotBefore), "notAfter": nil, "revokedAt": nil}
			for name, at := range map[string]*time.Time{"notAfter": k.NotAfter, "revokedAt": k.RevokedAt} {
				if at != nil {
					key[name] = canonical.FormatTime(*at)
				}
			}
			keys = append(keys, key)
		}
	}
	list["keys"] = keys
	dir := t.TempDir()
	put := func(name string, text []byte) string {
		name = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(name, text, 0o600))
		return name
	}
	listed, err := json.Marshal(list)
	require.NoError(t, err)
	o := auditor.Options{Keys: put("keys", listed), Rating: settle.Rating, JSON: true}
	for name, text := range answers {
		o.Files = append(o.Files, put(name, text))
	}
	var report bytes.Buffer
	exit := auditor.Files(t.Context(), o, &report)
	require.Equal(t, auditor.ExitSound, exit, report.String())
}

// TestNoPackMixesPurposes slips a receipt of the other purpose into the log.
func TestNoPackMixesPurposes(t *testing.T) {
	for name, c := range map[string]struct {
		purpose func(context.Context, store.Querier, string) (string, error)
		good    func(*prooftest.Keyring) *sealer.Signer
		bad     func(*prooftest.Keyring) *sealer.Signer
	}{
		"a tenant's by the sandbox":      {sandboxes(""), func(k *prooftest.Keyring) *sealer.Signer { return k.Receipt }, func(k *prooftest.Keyring) *sealer.Signer { return k.Sandbox }},
		"the sandbox's by the node":      {sandboxes(tenant), func(k *prooftest.Keyring) *sealer.Signer { return k.Sandbox }, func(k *prooftest.Keyring) *sealer.Signer { return k.Receipt }},
		"the sandbox's by that of packs": {sandboxes(tenant), func(k *prooftest.Keyring) *sealer.Signer { return k.Sandbox }, func(k *prooftest.Keyring) *sealer.Signer { return k.Pack }},
	} {
		t.Run(name, func(t *testing.T) {
			h := build(t, Config{Purpose: c.purpose})
			h.Deliver(delivery{Substrate: gate.DOOH, DwellMs: 5, Signer: c.good(h.Keys)})
			h.seal()
			mixed := h.Event(delivery{Substrate: gate.DOOH, DwellMs: 5, Signer: c.bad(h.Keys)})
			h.Append(mixed)
			require.Equal(t, api.Quarantined, h.sealErr().Reason)
			quarantined, err := h.Warehouse.Quarantined(t.Context(), tenant)
			require.NoError(t, err)
			require.Len(t, quarantined, 1)
			require.Equal(t, mixed.EventID, quarantined[0].EventID)
			require.Contains(t, quarantined[0].Reason, string(sealer.KeyPurpose))
			h.check()
		})
	}
}

// TestTenantWithoutAPurpose: nothing is sealed for an unknown tenant.
func TestTenantWithoutAPurpose(t *testing.T) {
	h := build(t, Config{Purpose: func(context.Context, store.Querier, string) (string, error) { return "", api.NotFound("tenant") }})
	h.Deliver(deliveries(1)...)
	require.Equal(t, api.ResourceNotFound, h.sealErr().Code)
	require.Empty(t, h.packs())
}

// TestDroppedTenant: with a tenant its packs go, those that are being sealed too, but
// nothing that keeps its log from being signed otherwise.
func TestDroppedTenant(t *testing.T) {
	gone := false
	cfg := Config{Purpose: func(context.Context, store.Querier, string) (string, error) {
		if gone {
			return "", api.NotFound("tenant")
		}
		return keydir.PurposePack, nil
	}}
	h := build(t, cfg)
	drop := func() {
		gone = true
		require.NoError(t, h.DB.Change(t.Context(), func(tx *store.Tx) error {
			if err := Tables.DropTenant(t.Context(), tx, tenant); err != nil {
				return err
			}
			return h.service.Drop(t.Context(), tx, tenant)
		}))
	}
	deleteFiles := func() {
		job, err := h.DB.Jobs.Claim(t.Context(), DropJob, time.Minute)
		require.NoError(t, err)
		for range 2 { // the first process ends before it can say so
			require.NoError(t, h.service.RunDrop(t.Context(), job))
		}
		require.NoError(t, job.Done(t.Context()))
	}
	count := func(table string) (n int) {
		require.NoError(t, h.DB.Read().QueryRow(`SELECT COUNT(*) FROM `+table+` WHERE tenant_id = $1`, tenant).Scan(&n))
		return n
	}
	h.Deliver(deliveries(3)...)
	h.seal()
	require.NotEmpty(t, h.files())
	h.Deliver(deliveries(2)...)
	h.service.step = func(name string) error {
		if name == "commit" {
			drop()
			deleteFiles()
		}
		return nil
	}
	require.Equal(t, api.ResourceNotFound, h.sealErr().Code)
	h.service.step = func(string) error { return nil }
	require.Empty(t, h.files())
	require.Zero(t, count("proof_packs"))
	require.Equal(t, 1, count("proof_heads"))
	require.Equal(t, 2, count("proof_roots"))
	require.Equal(t, api.ResourceNotFound, h.sealErr().Code)

	// The job has not run yet.
	gone = false
	h = build(t, cfg)
	h.Deliver(deliveries(3)...)
	h.seal()
	drop()
	require.NotEmpty(t, h.files())
	deleteFiles()
	require.Empty(t, h.files())

	require.NoError(t, h.DB.Change(t.Context(), func(tx *store.Tx) error { return h.service.Drop(t.Context(), tx, "..") }))
	job, err := h.DB.Jobs.Claim(t.Context(), DropJob, time.Minute)
	require.NoError(t, err)
	require.ErrorContains(t, h.service.RunDrop(t.Context(), job), "is not a tenant id")
}

// TestPackThatComesAfterTheDrop of its tenant is swept at a start, but never one of a tenant that the database does not
// know yet.
func TestPackThatComesAfterTheDrop(t *testing.T) {
	gone := false
	cfg := Config{Purpose: func(context.Context, store.Querier, string) (string, error) {
		if gone {
			return "", api.NotFound("tenant")
		}
		return keydir.PurposePack, nil
	}}
	h := build(t, cfg)
	h.Deliver(deliveries(3)...)
	h.service.step = func(name string) error {
		if name == "commit" {
			panic(errInjected)
		}
		return nil
	}
	require.Panics(t, func() { h.seal() })
	require.Len(t, h.files(), 1)
	h.reopen(cfg)
	require.Len(t, h.files(), 1)
	pack := h.files()[0]
	text, err := os.ReadFile(h.service.folder.name(tenant, pack))
	require.NoError(t, err)

	gone = true
	older := build(t, cfg)
	require.NoError(t, os.MkdirAll(older.service.folder.name(tenant, ""), 0o700))
	require.NoError(t, os.WriteFile(older.service.folder.name(tenant, pack), text, 0o600))
	older.reopen(cfg)
	require.Len(t, older.files(), 1)
	h.reopen(cfg)
	require.Empty(t, h.files())
}
