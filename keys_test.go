package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/bench"
	"muniment/sealer"
)

// TestKeysUnderLoad rotates and revokes keys of every kind through the admin
// listener, while 16 clients deliver: no request is refused or has to be sent
// again, every receipt verifies under the one key that was valid at its issuedAt,
// and in the end everything is sealed and passes, what revoked keys signed included:
// receipts, packs and what is made of packs, those of a tenant too that was quiet when
// the key of its packs was revoked.
func TestKeysUnderLoad(t *testing.T) {
	exe, data := muniment(t), filepath.Join(t.TempDir(), "data")
	server := startServer(t, exe, data)
	tenant := createTenant(t, exe, data)
	client := bench.Client{API: server.API, Key: tenant.APIKey}
	rights := issueRights(t, client)

	load := startLoad(t, client, rights)
	load.await(500)
	rotated := current(t, exe, data, sealer.PurposeReceipt)
	command(t, exe, "signing-key", "rotate", "--data", data, rotated)
	load.await(500)
	command(t, exe, "signing-key", "rotate", "--data", data, current(t, exe, data, sealer.PurposePack))
	seal(t, client, nil)
	command(t, exe, "signing-key", "rotate", "--data", data, current(t, exe, data, sealer.PurposeDirectory))
	load.await(500)
	revoked := current(t, exe, data, sealer.PurposeReceipt)
	require.NotEqual(t, rotated, revoked)
	command(t, exe, "signing-key", "revoke", "--data", data, "--reason", "drill", revoked)
	load.await(500)
	command(t, exe, "signing-key", "revoke", "--data", data, rotated)
	load.await(500)
	stolen := current(t, exe, data, sealer.PurposePack)
	quiet := sealedTenant(t, exe, data, server.API)
	command(t, exe, "signing-key", "revoke", "--data", data, stolen)
	quiet.isSound(t, exe, data)
	load.await(500)
	client.Key = strings.TrimSpace(command(t, exe, "key", "rotate", "--data", data, "--overlap", "1h", "--key-only", tenant.KeyID))
	load.await(500)
	answers := load.end()

	directory := filepath.Join(t.TempDir(), "keys.json")
	require.NoError(t, client.Download(t.Context(), "/.well-known/muniment/keys.json", directory))
	text, err := os.ReadFile(directory)
	require.NoError(t, err)
	vkey, err := os.ReadFile(filepath.Join(data, "keys", "root.vkey"))
	require.NoError(t, err)
	d, err := sealer.VerifyDirectory(text, strings.TrimSpace(string(vkey)))
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

	packs := sealAndExport(t, client)
	verifyPacks(t, exe, data, packs)
	byStolen := 0
	for _, file := range packs {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), `"signingKeyId":"`+stolen+`"`) {
			byStolen++
		}
	}
	require.NotZero(t, byStolen)

	// A receipt of a revoked key is worth nothing by itself, and all with its pack.
	verify := func(args ...string) (out string, passed bool) {
		b, err := exec.Command(exe, append([]string{"verify", "--root", strings.TrimSpace(string(vkey)), directory}, args...)...).CombinedOutput()
		return string(b), err == nil
	}
	for keyID, answer := range signed {
		file := filepath.Join(t.TempDir(), keyID+".json")
		require.NoError(t, os.WriteFile(file, answer, 0o600))
		out, passed := verify(file)
		if keyID == rotated || keyID == revoked {
			require.False(t, passed, out)
			require.Contains(t, out, string(sealer.KeyRevoked))
		} else {
			require.True(t, passed, out)
		}
		out, passed = verify(append(packs, file)...)
		require.True(t, passed, out)
	}

	// Only the current keys are left on disk.
	require.NoError(t, server.Stop())
	server = startServer(t, exe, data)
	client.API, quiet.client.API = server.API, server.API
	var left []string
	entries, err := os.ReadDir(filepath.Join(data, "keys"))
	require.NoError(t, err)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	require.ElementsMatch(t, []string{
		"root.skey", "root.vkey", "directory-" + current(t, exe, data, sealer.PurposeDirectory) + ".key",
		"pack-" + current(t, exe, data, sealer.PurposePack) + ".key",
		"node-" + nodeID + "-" + current(t, exe, data, sealer.PurposeReceipt) + ".key",
		"sandbox-control-" + currentOf(t, exe, data, sealer.PurposeSandbox, "control") + ".key",
		"sandbox-" + nodeID + "-" + currentOf(t, exe, data, sealer.PurposeSandbox, nodeID) + ".key",
	}, left)
	require.NoError(t, client.Do(t.Context(), "GET", "/v1/tenant", nil, nil), "the new API key")
	quiet.isSound(t, exe, data)
}

// quietTenant has sealed what it has, and does nothing more.
type quietTenant struct {
	client    bench.Client
	packID    string
	receiptID string
	upTo      string // position of the receipt
}

func sealedTenant(t *testing.T, exe, data, api string) *quietTenant {
	t.Helper()
	q := &quietTenant{client: bench.Client{API: api, Key: createTenant(t, exe, data).APIKey}}
	load := startLoad(t, q.client, issueRights(t, q.client))
	load.await(1)
	for _, a := range load.end() {
		if a.Status == 200 {
			var answer struct {
				Data struct{ Receipt struct{ ReceiptID string } }
			}
			require.NoError(t, json.Unmarshal(a.Body, &answer))
			q.receiptID = answer.Data.Receipt.ReceiptID
		}
	}
	var sealed struct{ Pack struct{ PackID string } }
	seal(t, q.client, &sealed)
	q.packID = sealed.Pack.PackID
	var receipt struct{ Position string }
	require.NoError(t, q.client.Do(t.Context(), "GET", "/v1/receipts/"+q.receiptID, nil, &receipt))
	q.upTo = receipt.Position
	return q
}

// isSound verifies all that the tenant can be handed: its packs, a proof of a receipt
// under either checkpoint, the newest checkpoint, what leads there from the first
// pack, and exports.
func (q *quietTenant) isSound(t *testing.T, exe, data string) {
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
		args := append([]string{"verify", "--root", filepath.Join(data, "keys", "root.vkey"), keys}, files...)
		out, err := exec.CommandContext(t.Context(), exe, args...).CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
	}
}

// TestRootOffline serves with a root key that never was on the server.
func TestRootOffline(t *testing.T) {
	exe, data, offline := muniment(t), filepath.Join(t.TempDir(), "data"), t.TempDir()
	skey := filepath.Join(offline, "root.skey")
	vkey := command(t, exe, "root", "generate", "--out", skey, "--name", "root.example")
	keys := filepath.Join(data, "keys")
	require.NoError(t, os.MkdirAll(keys, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(keys, "root.vkey"), []byte(vkey), 0o644))

	_, err := bench.StartServer(t.Context(), exe, data, "127.0.0.1:0", "127.0.0.1:0")
	require.Error(t, err)
	said, err := os.ReadFile(data + ".log")
	require.NoError(t, err)
	require.Contains(t, string(said), "muniment root delegate")
	request, err := filepath.Glob(filepath.Join(keys, "directory-*.pub"))
	require.NoError(t, err)
	require.Len(t, request, 1)
	note := command(t, exe, "root", "delegate", "--skey", skey, "--for", "8760h", request[0])
	require.NoError(t, os.WriteFile(strings.TrimSuffix(request[0], ".pub")+".delegation", []byte(note), 0o600))

	startServer(t, exe, data)
	old := current(t, exe, data, sealer.PurposeDirectory)
	waiting := command(t, exe, "signing-key", "rotate", "--data", data, old)
	require.Contains(t, waiting, "waits for the root's delegation")
	carried := filepath.Join(offline, "key.pub")
	require.NoError(t, os.WriteFile(carried, []byte(waiting[strings.Index(waiting, "-----BEGIN"):]), 0o600))
	answer := filepath.Join(offline, "answer")
	require.NoError(t, os.WriteFile(answer, []byte(command(t, exe, "root", "delegate", "--skey", skey, carried)), 0o600))
	require.Contains(t, command(t, exe, "signing-key", "delegate", "--data", data, answer), old+" is valid until")
	require.NotEqual(t, old, current(t, exe, data, sealer.PurposeDirectory))

	tenant := command(t, exe, "tenant", "create", "--data", data, "--org", "acme", "--another", "--json")
	var made tenantKey
	require.NoError(t, json.Unmarshal([]byte(tenant), &made))
	var list struct{ Keys []struct{ KeyID string } }
	require.NoError(t, json.Unmarshal([]byte(command(t, exe, "key", "list", "--data", data, "--tenant", made.TenantID, "--json")), &list))
	require.Len(t, list.Keys, 1)
	another := command(t, exe, "key", "create", "--data", data, "--tenant", made.TenantID, "--label", "another", "--scope", "rights:read", "--key-only")
	require.True(t, strings.HasPrefix(another, "mun_test_"))
	require.Contains(t, command(t, exe, "key", "revoke", "--data", data, made.KeyID), "is revoked since")
	id := "key_" + strings.Split(another, "_")[2]
	rotated := command(t, exe, "key", "rotate", "--data", data, "--key-only", id)
	require.Contains(t, command(t, exe, "key", "revoke", "--data", data, id), "Its successor key_"+strings.Split(rotated, "_")[2]+" still works: revoke it too")
	require.Contains(t, command(t, exe, "key", "list", "--data", data, "--tenant", made.TenantID), "another")
}

// stream is load without an end.
type stream struct {
	t        *testing.T
	enough   atomic.Bool
	answered atomic.Int64
	running  sync.WaitGroup
	answers  []bench.Answer // once it has run
}

func startLoad(t *testing.T, client bench.Client, rights map[string]string) *stream {
	ctx, cancel := context.WithCancel(t.Context())
	s := &stream{t: t}
	t.Cleanup(func() { cancel(); s.running.Wait() })
	s.running.Go(func() {
		for round := 0; !s.enough.Load(); round++ {
			deliveries, err := bench.Deliveries(500, uint64(round), bench.Profiles(), rights)
			if err != nil {
				t.Error(err)
				return
			}
			load := &bench.Load{
				Addrs: []string{hostPort(client.API)}, Key: client.Key, Clients: 16, Name: fmt.Sprintf("round-%d", round), Deliveries: deliveries,
				Answered: func(int) { s.answered.Add(1) },
			}
			answers, err := load.Run(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			s.answers = append(s.answers, answers...)
		}
	})
	return s
}

// await waits for n more answers.
func (s *stream) await(n int64) {
	s.t.Helper()
	target := s.answered.Load() + n
	require.Eventually(s.t, func() bool { return s.answered.Load() >= target }, time.Minute, 5*time.Millisecond)
}

func (s *stream) end() []bench.Answer {
	s.enough.Store(true)
	s.running.Wait()
	return s.answers
}

// command runs muniment and returns what it prints.
func command(t *testing.T, exe string, args ...string) string {
	t.Helper()
	var errors strings.Builder
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Stderr = &errors
	out, err := cmd.Output()
	require.NoError(t, err, "%v: %s", args, &errors)
	return string(out)
}

// current is the newest key of a purpose.
func current(t *testing.T, exe, data, purpose string) string {
	t.Helper()
	return currentOf(t, exe, data, purpose, "")
}

// currentOf is current for the key of a node, or of control.
func currentOf(t *testing.T, exe, data, purpose, nodeID string) string {
	t.Helper()
	var list struct {
		Keys []struct{ KeyID, Purpose, NodeID, State string }
	}
	require.NoError(t, json.Unmarshal([]byte(command(t, exe, "signing-key", "list", "--data", data, "--json")), &list))
	for _, k := range slices.Backward(list.Keys) {
		if k.Purpose == purpose && k.State == "ACTIVE" && (nodeID == "" || k.NodeID == nodeID) {
			return k.KeyID
		}
	}
	require.Fail(t, "no current key", purpose)
	return ""
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
func validAt(d *sealer.Directory, at time.Time) (keyIDs []string) {
	for _, k := range d.Keys {
		if k.Purpose == sealer.PurposeReceipt && !at.Before(k.NotBefore) && (k.NotAfter == nil || at.Before(*k.NotAfter)) {
			keyIDs = append(keyIDs, k.KeyID)
		}
	}
	return keyIDs
}
