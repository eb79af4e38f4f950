package main

import (
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/sealer"
)

// newOnSmallDisk is newService on a disk of its own, of so many MiB. It needs root.
func newOnSmallDisk(t *testing.T, mebibytes int, flags ...string) (h *service, disk string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root may mount a disk")
	}
	disk = t.TempDir()
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm", mebibytes), "tmpfs", disk).CombinedOutput()
	if err != nil {
		t.Skipf("no disk can be mounted here: %s", out)
	}
	t.Cleanup(func() { require.NoError(t, exec.Command("umount", disk).Run()) })
	h = notStarted(t, filepath.Join(disk, "data"), flags...)
	// The server's own log is beside its data folder: a link leads to another disk.
	require.NoError(t, os.Symlink(filepath.Join(t.TempDir(), "log"), h.data+".log"))
	h.start()
	h.settle()
	return h, disk
}

// TestStopsOnAFullDisk: a full disk does not keep an operator from stopping a right or a key,
// and no delivery uses the space that is reserved for that.
func TestStopsOnAFullDisk(t *testing.T) {
	t.Parallel()
	h, disk := newOnSmallDisk(t, 256)
	var second struct {
		Key    struct{ KeyID string }
		APIKey string
	}
	h.post("/v1/api-keys", map[string]any{"label": "second"}, &second)
	var challenge struct{ Challenge struct{ ID string } }
	h.post("/v1/challenges", map[string]any{
		"rightId": h.rights["MOBILE"], "challengerOrgId": "org_c", "reason": "ours",
	}, &challenge)
	h.receipts(3)
	ballast := filepath.Join(disk, "ballast")
	fill(t, ballast)
	// What SQLite's files still have room for is filled, too.
	until(t, func() bool {
		err := h.client.Do(t.Context(), "POST", "/v1/bases", map[string]any{"kind": "CONTRACT", "title": strings.Repeat("x", 200)}, nil)
		return err != nil && strings.Contains(err.Error(), "STORAGE_FULL")
	})

	stop := func(method, path string, body any) {
		t.Helper()
		require.NoError(t, h.client.Do(t.Context(), method, path, body, nil))
	}
	suspended := call(t, h.client.API, h.client.Key, operation{method: "POST", path: "/v1/rights/" + h.rights["CTV"] + "/suspend"}, "Idempotency-Key", "suspend-1")
	require.Equal(t, http.StatusOK, suspended.status, "the key finds no room, which must not keep the right in force: %s", suspended.body)
	stop("POST", "/v1/rights/"+h.rights["DOOH"]+"/revoke", map[string]any{})
	stop("POST", "/v1/challenges/"+challenge.Challenge.ID+"/resolve", map[string]any{"upheld": true})
	stop("DELETE", "/v1/api-keys/"+second.Key.KeyID, nil)
	for _, substrate := range []string{"DOOH", "CTV", "MOBILE"} {
		status, answer := h.deliver(h.client.Key, substrate)
		require.Equal(t, http.StatusConflict, status, answer)
	}
	status, answer := h.deliver(second.APIKey, "AUDIO")
	require.Equal(t, http.StatusUnauthorized, status, answer)
	// What is left of the disk is for stops: deliveries and other changes wait.
	require.NoFileExists(t, filepath.Join(h.data, "reserve"))
	status, answer = h.deliver(h.client.Key, "AUDIO")
	require.Equal(t, http.StatusServiceUnavailable, status, answer)
	require.Contains(t, answer, "LOG_UNAVAILABLE")
	require.ErrorContains(t, h.client.Do(t.Context(), "POST", "/v1/bases", map[string]any{"kind": "CONTRACT", "title": "x"}, nil), "STORAGE_FULL")
	for _, event := range []string{"right.revoked", "right.suspended", "challenge.upheld", "key.revoked"} {
		until(t, func() bool { return typesInLog(t, h.data)[event] > 0 }, event)
	}

	require.NoError(t, os.Remove(ballast))
	until(t, func() bool {
		status, _ = h.deliver(h.client.Key, "AUDIO")
		return status == http.StatusOK
	})
	require.FileExists(t, filepath.Join(h.data, "reserve"))
	require.Equal(t, 4, h.metered())
	packs := sealAndExport(t, h.client)
	h.stop()
	verifyPacks(t, h.data, packs)
}

// TestLeasesEndWhileAStopIsUnrecorded: when not even the reserve is enough, nodes sign
// nothing within the bound, until stops can be recorded again.
func TestLeasesEndWhileAStopIsUnrecorded(t *testing.T) {
	t.Parallel()
	h, disk := newOnSmallDisk(t, 256, "--bound", "2s")
	h.receipts(1)
	var rights []string
	scope := map[string]any{"description": strings.Repeat("x", 15_000)}
	var bases struct{ Bases []struct{ ID string } }
	h.get("/v1/bases", &bases)
	for range 300 {
		var issued struct{ Right struct{ ID string } }
		h.post("/v1/rights", map[string]any{
			"basisId": bases.Bases[0].ID, "substrate": "CTV", "effectiveFrom": "2026-01-01T00:00:00Z", "scope": scope,
		}, &issued)
		rights = append(rights, issued.Right.ID)
	}
	// Who reads an old state for long keeps the database's write-ahead log from being used
	// again: it grows with every change.
	db, err := sql.Open("sqlite", filepath.Join(h.data, "control.db"))
	require.NoError(t, err)
	defer db.Close()
	reading, err := db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	require.NoError(t, err)
	require.NoError(t, reading.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM rights`).Scan(new(int)))
	for i, err := 0, error(nil); err == nil; i++ {
		require.Less(t, i, len(rights), "there is room for all")
		fill(t, filepath.Join(disk, fmt.Sprint("ballast", i))) // what was released is taken by somebody else
		err = h.client.Do(t.Context(), "POST", "/v1/rights/"+rights[i]+"/revoke", map[string]any{}, nil)
		if err != nil {
			require.ErrorContains(t, err, "STORAGE_FULL")
			require.ErrorContains(t, err, "this process gives no node a lease")
		}
	}
	var answer string
	awaited := func(said string) {
		t.Helper()
		defer func() { t.Log(answer) }()
		until(t, func() bool {
			_, answer = h.deliver(h.client.Key, "DOOH")
			return strings.Contains(answer, said)
		})
	}
	awaited("RIGHTS_STALE")

	require.NoError(t, reading.Rollback())
	ballast, err := filepath.Glob(filepath.Join(disk, "ballast*"))
	require.NoError(t, err)
	for _, name := range ballast {
		require.NoError(t, os.Remove(name))
	}
	awaited(`"ok":true`)
	require.Equal(t, 2, h.metered())
}

// typesInLog counts the events in the log of a data folder by type.
func typesInLog(t *testing.T, data string) map[string]int {
	t.Helper()
	found := map[string]int{}
	scanLog(t, data, func(e sealer.Entry) error {
		event, err := sealer.ParseEvent(e.Event)
		found[event.Type]++
		return err
	})
	return found
}
