package service

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/gateway/api"
	"muniment.example/sealer/keydir"
)

// TestQuarantineHoldsOneTenant: a record that can't be trusted holds one tenant. A
// stolen key is revoked by force, which seals the others, and the operator's way out
// for the tenant is a release.
func TestQuarantineHoldsOneTenant(t *testing.T) {
	t.Parallel()
	s := systemtest.NewService(t)
	data := s.Data
	held, other := s.Tenant, systemtest.CreateTenant(t, data)
	deliver := func(tn systemtest.TenantKey) (system.Client, []byte) {
		client := system.Client{API: s.Client.API, Key: tn.APIKey}
		load := systemtest.StartLoad(t, client, systemtest.IssueRights(t, client))
		load.Await(1)
		var answer []byte
		for _, a := range load.End() {
			if a.Status == 200 {
				answer = a.Body
			}
		}
		require.NotNil(t, answer)
		return client, answer
	}
	heldClient, _ := deliver(held)
	otherClient, receipt := deliver(other)
	s.Stop()
	systemtest.Misplace(t, data, held.TenantID)
	s.StartAgain()

	seal := func(client system.Client) error {
		return client.Do(t.Context(), "POST", "/v1/proof-packs/seal", map[string]any{}, nil)
	}
	require.ErrorContains(t, seal(heldClient), string(api.Quarantined))
	require.Contains(t, s.Note("sealing"), "quarantined records: 1 (muniment quarantine list)")

	stolen := systemtest.Current(t, data, keydir.PurposeReceipt)
	said := systemtest.Fails(t, "signing-key", "revoke", "--data", data, stolen)
	require.Contains(t, said, held.TenantID)
	require.NotContains(t, said, other.TenantID)
	require.Contains(t, systemtest.Command(t, "signing-key", "revoke", "--data", data, "--force", stolen), held.TenantID+" could not be sealed before")
	answer := filepath.Join(t.TempDir(), "receipt.json")
	require.NoError(t, os.WriteFile(answer, receipt, 0o600))
	systemtest.VerifyPacks(t, data, append(systemtest.SealAndExport(t, otherClient), answer))

	// What the key has signed of the one that was held is worth nothing now, and is
	// found by the seal behind the first release.
	release := func(args ...string) int {
		args = append([]string{"quarantine", "release", "--data", data, "--reason", "drill"}, args...)
		return strings.Count(systemtest.Command(t, args...), " is released; the event is in the log of "+held.TenantID)
	}
	list := systemtest.Parse[struct {
		Records []struct{ Position, TenantID string }
	}](t, systemtest.Command(t, "quarantine", "list", "--data", data, "--json"))
	require.Len(t, list.Records, 1)
	require.Equal(t, held.TenantID, list.Records[0].TenantID)
	require.Contains(t, systemtest.Command(t, "quarantine", "list", "--data", data), list.Records[0].Position)
	require.Equal(t, 1, release(list.Records[0].Position))
	require.ErrorContains(t, seal(heldClient), string(api.Quarantined))
	require.Greater(t, release("--all"), 20)
	systemtest.VerifyPacks(t, data, systemtest.SealAndExport(t, heldClient))
	require.Equal(t, "No record holds sealing.\n", systemtest.Command(t, "quarantine", "list", "--data", data))
	require.Equal(t, "no record is quarantined", s.Note("sealing"))
	require.Contains(t, systemtest.Fails(t, "quarantine", "release", "--data", data, "--reason", "drill", "1.0.0"), "no quarantined record at 1.0.0 holds sealing")
}
