package faults

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
)

// TestKeysUnderLoad rotates and revokes keys of every kind through the admin
// listener, while 16 clients deliver: no request is refused or has to be sent
// again, every receipt verifies under the one key that was valid at its issuedAt,
// and in the end everything is sealed and passes, what revoked keys signed included:
// receipts, packs and what is made of packs, those of a tenant too that was quiet when
// the key of its packs was revoked.
func TestKeysUnderLoad(t *testing.T) {
	t.Parallel()
	s := systemtest.NewService(t)
	data, client := s.Data, s.Client
	enough := systemtest.Times(80, 500)
	load := systemtest.StartLoad(t, client, s.Rights)
	load.Await(enough)
	rotated := systemtest.Current(t, data, keydir.PurposeReceipt)
	systemtest.Command(t, "signing-key", "rotate", "--data", data, rotated)
	load.Await(enough)
	systemtest.Command(t, "signing-key", "rotate", "--data", data, systemtest.Current(t, data, keydir.PurposePack))
	systemtest.Seal(t, client, nil)
	systemtest.Command(t, "signing-key", "rotate", "--data", data, systemtest.Current(t, data, keydir.PurposeDirectory))
	load.Await(enough)
	revoked := systemtest.Current(t, data, keydir.PurposeReceipt)
	require.NotEqual(t, rotated, revoked)
	systemtest.Command(t, "signing-key", "revoke", "--data", data, "--reason", "drill", revoked)
	load.Await(enough)
	systemtest.Command(t, "signing-key", "revoke", "--data", data, rotated)
	load.Await(enough)
	stolen := systemtest.Current(t, data, keydir.PurposePack)
	quiet := sealedTenant(t, data, client.API)
	systemtest.Command(t, "signing-key", "revoke", "--data", data, stolen)
	quiet.isSound(t, data)
	load.Await(enough)
	client.Key = strings.TrimSpace(systemtest.Command(t, "key", "rotate", "--data", data, "--overlap", "1h", "--key-only", s.Tenant.KeyID))
	load.Await(enough)
	answers := load.End()

	directory := filepath.Join(t.TempDir(), "keys.json")
	require.NoError(t, client.Download(t.Context(), "/.well-known/muniment/keys.json", directory))
	vkey := strings.TrimSpace(string(systemtest.ReadFile(t, filepath.Join(data, "keys", "root.vkey"))))
	d, err := keydir.Verify(systemtest.ReadFile(t, directory), vkey)
	require.NoError(t, err)
	signed := map[string][]byte{} // key id → one answer
	receipts := 0
	for _, a := range answers {
		require.Contains(t, []int{200, 412}, a.Status, string(a.Body))
		require.Equal(t, 1, a.Attempts, "no second without a key")
		if a.Status != 200 {
			continue
		}
		receipts++
		keyID, at := signature(t, a.Body)
		require.Equal(t, []string{keyID}, validAt(d, at), "at %v", at)
		signed[keyID] = a.Body
	}
	require.Len(t, signed, 3)
	require.Contains(t, signed, rotated)
	require.Contains(t, signed, revoked)
	t.Logf("%d receipts by %d keys, %d answers", receipts, len(signed), len(answers))

	packs := systemtest.SealAndExport(t, client)
	systemtest.VerifyPacks(t, data, packs)
	byStolen := 0
	for _, file := range packs {
		if strings.Contains(string(systemtest.ReadFile(t, file)), `"signingKeyId":"`+stolen+`"`) {
			byStolen++
		}
	}
	require.NotZero(t, byStolen)

	// A receipt of a revoked key is worth nothing by itself, and all with its pack.
	verify := func(files ...string) []string {
		return append([]string{"verify", "--root", vkey, directory}, files...)
	}
	for keyID, answer := range signed {
		file := filepath.Join(t.TempDir(), keyID+".json")
		require.NoError(t, os.WriteFile(file, answer, 0o600))
		if keyID == rotated || keyID == revoked {
			require.Contains(t, systemtest.Fails(t, verify(file)...), string(sealer.KeyRevoked))
		} else {
			systemtest.Command(t, verify(file)...)
		}
		systemtest.Command(t, verify(append(packs, file)...)...)
	}

	// Only the current keys are left on disk.
	s.Stop()
	s.Start()
	client.API, quiet.client.API = s.Client.API, s.Client.API
	var left []string
	entries, err := os.ReadDir(filepath.Join(data, "keys"))
	require.NoError(t, err)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	require.ElementsMatch(t, []string{
		"root.skey", "root.vkey", "directory-" + systemtest.Current(t, data, keydir.PurposeDirectory) + ".key",
		"beacon-" + systemtest.Current(t, data, keydir.PurposeBeacon) + ".key", "webhook-" + systemtest.Current(t, data, keydir.PurposeWebhook) + ".key",
		"pack-" + systemtest.Current(t, data, keydir.PurposePack) + ".key",
		"sandbox-" + systemtest.CurrentOf(t, data, keydir.PurposeSandbox, "control") + ".key",
	}, left)
	own, err := filepath.Glob(filepath.Join(data, "node", "1", "*.key"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(data, "node", "1", systemtest.Current(t, data, keydir.PurposeReceipt)+".key")}, own)
	require.NoError(t, client.Do(t.Context(), "GET", "/v1/tenant", nil, nil), "the new API key")
	quiet.isSound(t, data)
}

// quietTenant has sealed what it has, and does nothing more.
type quietTenant struct {
	client    system.Client
	packID    string
	receiptID string
	upTo      string // position of the receipt
}

func sealedTenant(t *testing.T, data, api string) *quietTenant {
	t.Helper()
	q := &quietTenant{client: system.Client{API: api, Key: systemtest.CreateTenant(t, data).APIKey}}
	load := systemtest.StartLoad(t, q.client, systemtest.IssueRights(t, q.client))
	load.Await(1)
	for _, a := range load.End() {
		if a.Status == 200 {
			var answer struct {
				Data struct{ Receipt struct{ ReceiptID string } }
			}
			require.NoError(t, json.Unmarshal(a.Body, &answer))
			q.receiptID = answer.Data.Receipt.ReceiptID
		}
	}
	var sealed struct{ Pack struct{ PackID string } }
	systemtest.Seal(t, q.client, &sealed)
	q.packID = sealed.Pack.PackID
	var receipt struct{ Position string }
	require.NoError(t, q.client.Do(t.Context(), "GET", "/v1/receipts/"+q.receiptID, nil, &receipt))
	q.upTo = receipt.Position
	return q
}

// isSound verifies all that the tenant can be handed: its packs, a proof of a receipt
// under either checkpoint, the newest checkpoint, what leads there from the first
// pack, and exports.
func (q *quietTenant) isSound(t *testing.T, data string) {
	t.Helper()
	dir := t.TempDir()
	get := func(name, path string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, q.client.Download(t.Context(), path, file))
		return file
	}
	keys := get("keys.json", "/.well-known/muniment/keys.json")
	var list struct{ Packs []struct{ ID string } }
	require.NoError(t, q.client.Do(t.Context(), "GET", "/v1/proof-packs?limit=500", nil, &list))
	var packs []string
	for _, p := range list.Packs {
		packs = append(packs, get(p.ID, "/v1/proof-packs/"+p.ID+"/bundle"))
	}
	for name, files := range map[string][]string{
		"packs":       packs,
		"proof":       {get("proof", "/v1/receipts/"+q.receiptID+"/proof")},
		"latest":      {get("latest", "/v1/receipts/"+q.receiptID+"/proof?checkpoint=latest")},
		"checkpoint":  {get("checkpoint", "/v1/proof-packs/checkpoint")},
		"consistency": {get("consistency", "/v1/proof-packs/"+list.Packs[len(list.Packs)-1].ID+"/consistency?from="+q.packID)},
		"export":      {get("export", "/v1/events/export")},
		"old export":  {get("old export", "/v1/events/export?upTo="+q.upTo)},
	} {
		t.Log(name)
		systemtest.VerifyPacks(t, data, append([]string{keys}, files...))
	}
}

// signature reads who signed the receipt of an answer, and when.
func signature(t *testing.T, body []byte) (keyID string, issuedAt time.Time) {
	t.Helper()
	var answer struct {
		Data struct {
			Receipt   struct{ IssuedAt time.Time }
			Signature struct{ KeyID string }
		}
	}
	require.NoError(t, json.Unmarshal(body, &answer))
	return answer.Data.Signature.KeyID, answer.Data.Receipt.IssuedAt
}

// validAt lists the receipt keys whose windows hold a moment.
func validAt(d *keydir.Directory, at time.Time) (keyIDs []string) {
	for _, k := range d.Keys {
		if k.Purpose == keydir.PurposeReceipt && !at.Before(k.NotBefore) && (k.NotAfter == nil || at.Before(*k.NotAfter)) {
			keyIDs = append(keyIDs, k.KeyID)
		}
	}
	return keyIDs
}
