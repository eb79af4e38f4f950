package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/bench"
	"muniment/gateway/api"
	"muniment/pipeline/segment"
	"muniment/sealer"
)

// TestSetAsideHoldsNobodyElse: a record that can't be trusted holds one tenant. A
// stolen key is revoked by force, which seals the others, and the operator's way out
// for the tenant is a release.
func TestSetAsideHoldsNobodyElse(t *testing.T) {
	exe, data := muniment(t), filepath.Join(t.TempDir(), "data")
	server := startServer(t, exe, data)
	held, other := createTenant(t, exe, data), createTenant(t, exe, data)
	deliver := func(tn tenantKey) (bench.Client, []byte) {
		client := bench.Client{API: server.API, Key: tn.APIKey}
		load := startLoad(t, client, issueRights(t, client))
		load.await(1)
		var answer []byte
		for _, a := range load.end() {
			if a.Status == 200 {
				answer = a.Body
			}
		}
		require.NotNil(t, answer)
		return client, answer
	}
	heldClient, _ := deliver(held)
	otherClient, receipt := deliver(other)
	require.NoError(t, server.Stop())
	misplace(t, data, held.TenantID)
	again, err := bench.StartServer(t.Context(), exe, data, hostPort(server.API), hostPort(server.Admin))
	require.NoError(t, err)
	t.Cleanup(again.Kill)

	seal := func(client bench.Client) error {
		return client.Do(t.Context(), "POST", "/v1/proof-packs/seal", map[string]any{}, nil)
	}
	require.ErrorContains(t, seal(heldClient), string(api.SetAside))
	require.Contains(t, note(t, server.Admin, "sealing"), "records set aside: 1 (muniment set-aside list)")

	stolen := current(t, exe, data, sealer.PurposeReceipt)
	out, err := exec.CommandContext(t.Context(), exe, "signing-key", "revoke", "--data", data, stolen).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), held.TenantID)
	require.NotContains(t, string(out), other.TenantID)
	require.Contains(t, command(t, exe, "signing-key", "revoke", "--data", data, "--force", stolen), held.TenantID+" could not be sealed before")
	answer := filepath.Join(t.TempDir(), "receipt.json")
	require.NoError(t, os.WriteFile(answer, receipt, 0o600))
	verifyPacks(t, exe, data, append(sealAndExport(t, otherClient), answer))

	// What the key has signed of the one that was held is worth nothing now, and is
	// found by the seal behind the first release.
	release := func(args ...string) int {
		args = append([]string{"set-aside", "release", "--data", data, "--reason", "drill"}, args...)
		return strings.Count(command(t, exe, args...), " is released; the event is in the log of "+held.TenantID)
	}
	var list struct {
		Records []struct{ Position, TenantID string }
	}
	require.NoError(t, json.Unmarshal([]byte(command(t, exe, "set-aside", "list", "--data", data, "--json")), &list))
	require.Len(t, list.Records, 1)
	require.Equal(t, held.TenantID, list.Records[0].TenantID)
	require.Contains(t, command(t, exe, "set-aside", "list", "--data", data), list.Records[0].Position)
	require.Equal(t, 1, release(list.Records[0].Position))
	require.ErrorContains(t, seal(heldClient), string(api.SetAside))
	require.Greater(t, release("--all"), 100)
	verifyPacks(t, exe, data, sealAndExport(t, heldClient))
	require.Equal(t, "No record holds sealing.\n", command(t, exe, "set-aside", "list", "--data", data))
	require.Equal(t, "no record is set aside", note(t, server.Admin, "sealing"))
	out, err = exec.CommandContext(t.Context(), exe, "set-aside", "release", "--data", data, "--reason", "drill", "1.0.0").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "no record set aside at 1.0.0 holds sealing")
}

// misplace puts a record into the log of a server that is stopped: an event of a tenant
// under an id that is not its own.
func misplace(t *testing.T, data, tenantID string) {
	t.Helper()
	log, err := segment.Open(segment.Config{Dir: filepath.Join(data, "log"), Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	require.NoError(t, err)
	defer func() { require.NoError(t, log.Close()) }()
	first, end, err := log.Bounds(t.Context(), 0)
	require.NoError(t, err)
	var record *sealer.Record
	require.NoError(t, log.Scan(t.Context(), first, end, func(e sealer.Entry) error {
		if e.TenantID == tenantID && record == nil {
			record = &sealer.Record{TenantID: tenantID, EventID: api.NewID(api.PrefixEvent, time.Now()), Node: e.Node, Epoch: e.Epoch, Seq: e.Seq, Event: append([]byte(nil), e.Event...)}
		}
		return nil
	}))
	_, err = log.Append(t.Context(), record)
	require.NoError(t, err)
}

// note is what /readyz says of a part.
func note(t *testing.T, admin, name string) string {
	t.Helper()
	resp, err := http.Get(admin + "/readyz")
	require.NoError(t, err)
	defer resp.Body.Close()
	var told struct {
		Ready bool
		Notes []struct{ Name, Note string }
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&told))
	require.True(t, told.Ready)
	for _, n := range told.Notes {
		if n.Name == name {
			return n.Note
		}
	}
	require.Fail(t, "no such note", name)
	return ""
}
