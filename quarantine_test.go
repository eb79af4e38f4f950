package main

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/bench/system"
	"muniment/gateway/api"
	"muniment/pipeline/segment"
	"muniment/sealer"
)

// TestQuarantineHoldsOneTenant: a record that can't be trusted holds one tenant. A
// stolen key is revoked by force, which seals the others, and the operator's way out
// for the tenant is a release.
func TestQuarantineHoldsOneTenant(t *testing.T) {
	t.Parallel()
	s := newService(t)
	data := s.data
	held, other := s.tenant, createTenant(t, data)
	deliver := func(tn tenantKey) (system.Client, []byte) {
		client := system.Client{API: s.client.API, Key: tn.APIKey}
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
	s.stop()
	misplace(t, data, held.TenantID)
	s.startAgain()

	seal := func(client system.Client) error {
		return client.Do(t.Context(), "POST", "/v1/proof-packs/seal", map[string]any{}, nil)
	}
	require.ErrorContains(t, seal(heldClient), string(api.Quarantined))
	require.Contains(t, s.note("sealing"), "quarantined records: 1 (muniment quarantine list)")

	stolen := current(t, data, sealer.PurposeReceipt)
	said := fails(t, "signing-key", "revoke", "--data", data, stolen)
	require.Contains(t, said, held.TenantID)
	require.NotContains(t, said, other.TenantID)
	require.Contains(t, muniment(t, "signing-key", "revoke", "--data", data, "--force", stolen), held.TenantID+" could not be sealed before")
	answer := filepath.Join(t.TempDir(), "receipt.json")
	require.NoError(t, os.WriteFile(answer, receipt, 0o600))
	verifyPacks(t, data, append(sealAndExport(t, otherClient), answer))

	// What the key has signed of the one that was held is worth nothing now, and is
	// found by the seal behind the first release.
	release := func(args ...string) int {
		args = append([]string{"quarantine", "release", "--data", data, "--reason", "drill"}, args...)
		return strings.Count(muniment(t, args...), " is released; the event is in the log of "+held.TenantID)
	}
	list := parse[struct {
		Records []struct{ Position, TenantID string }
	}](t, muniment(t, "quarantine", "list", "--data", data, "--json"))
	require.Len(t, list.Records, 1)
	require.Equal(t, held.TenantID, list.Records[0].TenantID)
	require.Contains(t, muniment(t, "quarantine", "list", "--data", data), list.Records[0].Position)
	require.Equal(t, 1, release(list.Records[0].Position))
	require.ErrorContains(t, seal(heldClient), string(api.Quarantined))
	require.Greater(t, release("--all"), 20)
	verifyPacks(t, data, sealAndExport(t, heldClient))
	require.Equal(t, "No record holds sealing.\n", muniment(t, "quarantine", "list", "--data", data))
	require.Equal(t, "no record is quarantined", s.note("sealing"))
	require.Contains(t, fails(t, "quarantine", "release", "--data", data, "--reason", "drill", "1.0.0"), "no quarantined record at 1.0.0 holds sealing")
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
