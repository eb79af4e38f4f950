package faults

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

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/sealer"
)

// newOnSmallDisk is newService on a disk of its own, of so many MiB. It needs root.
func newOnSmallDisk(t *testing.T, mebibytes int, flags ...string) (h *systemtest.Service, disk string) {
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
	h = systemtest.NotStarted(t, filepath.Join(disk, "data"), flags...)
	// The server's own log is beside its data folder: a link leads to another disk.
	require.NoError(t, os.Symlink(filepath.Join(t.TempDir(), "log"), h.Data+".log"))
	h.Start()
	h.Settle()
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
	h.Post("/v1/api-keys", map[string]any{"label": "second"}, &second)
	var challenge struct{ Challenge struct{ ID string } }
	h.Post("/v1/challenges", map[string]any{
		"rightId": h.Rights["MOBILE"], "challengerOrgId": "org_c", "reason": "ours",
	}, &challenge)
	h.Receipts(3)
	ballast := filepath.Join(disk, "ballast")
	fill(t, ballast)
	// What SQLite's files still have room for is filled, too.
	waittest.Until(t, func() bool {
		err := h.Client.Do(t.Context(), "POST", "/v1/bases", map[string]any{"kind": "CONTRACT", "title": strings.Repeat("x", 200)}, nil)
		return err != nil && strings.Contains(err.Error(), "STORAGE_FULL")
	})

	stop := func(method, path string, body any) {
		t.Helper()
		require.NoError(t, h.Client.Do(t.Context(), method, path, body, nil))
	}
	suspended := systemtest.Call(t, h.Client.API, h.Client.Key, systemtest.Operation{Method: "POST", Path: "/v1/rights/" + h.Rights["CTV"] + "/suspend"}, "Idempotency-Key", "suspend-1")
	require.Equal(t, http.StatusOK, suspended.Status, "the key finds no room, which must not keep the right in force: %s", suspended.Body)
	stop("POST", "/v1/rights/"+h.Rights["DOOH"]+"/revoke", map[string]any{})
	stop("POST", "/v1/challenges/"+challenge.Challenge.ID+"/resolve", map[string]any{"upheld": true})
	stop("DELETE", "/v1/api-keys/"+second.Key.KeyID, nil)
	for _, substrate := range []string{"DOOH", "CTV", "MOBILE"} {
		status, answer := h.Deliver(h.Client.Key, substrate)
		require.Equal(t, http.StatusConflict, status, answer)
	}
	status, answer := h.Deliver(second.APIKey, "AUDIO")
	require.Equal(t, http.StatusUnauthorized, status, answer)
	// What is left of the disk is for stops: deliveries and other changes wait.
	require.NoFileExists(t, filepath.Join(h.Data, "reserve"))
	status, answer = h.Deliver(h.Client.Key, "AUDIO")
	require.Equal(t, http.StatusServiceUnavailable, status, answer)
	require.Contains(t, answer, "LOG_UNAVAILABLE")
	readiness := func() systemtest.Response {
		return systemtest.Call(t, h.Server.Admin, "", systemtest.Operation{Method: "GET", Path: "/readyz"})
	}
	require.Contains(t, string(readiness().Body), `"ready":false,"notReady":[{"name":"log","reason":`)
	require.ErrorContains(t, h.Client.Do(t.Context(), "POST", "/v1/bases", map[string]any{"kind": "CONTRACT", "title": "x"}, nil), "STORAGE_FULL")
	for _, event := range []string{"right.revoked", "right.suspended", "challenge.upheld", "key.revoked"} {
		waittest.Until(t, func() bool { return typesInLog(t, h.Data)[event] > 0 }, event)
	}

	require.NoError(t, os.Remove(ballast))
	waittest.Until(t, func() bool { return readiness().Status == http.StatusOK }, "it finds out without a delivery")
	status, answer = h.Deliver(h.Client.Key, "AUDIO")
	require.Equal(t, http.StatusOK, status, answer)
	require.FileExists(t, filepath.Join(h.Data, "reserve"))
	require.Equal(t, 4, h.Metered())
	packs := systemtest.SealAndExport(t, h.Client)
	h.Stop()
	systemtest.VerifyPacks(t, h.Data, packs)
}

// TestStartsOnAFullDisk: a service that was killed while its disk was full starts on it, takes stops, and goes on by
// itself once there is space.
func TestStartsOnAFullDisk(t *testing.T) {
	t.Parallel()
	h, disk := newOnSmallDisk(t, 256)
	h.Receipts(1)
	var second struct{ Key struct{ KeyID string } }
	h.Post("/v1/api-keys", map[string]any{"label": "second"}, &second)
	h.Server.Kill()
	ballast := filepath.Join(disk, "ballast")
	fill(t, ballast)
	type started struct {
		server *system.Server
		err    error
	}
	ready := make(chan started, 1)
	go func() {
		server, err := system.StartServer(t.Context(), "muniment", h.Data, "127.0.0.1:0", "127.0.0.1:0")
		ready <- started{server, err}
	}()
	var again started
	waittest.Until(t, func() bool {
		select {
		case again = <-ready: // it may be ready before it finds that only the reserve is left
			require.NoError(t, again.err)
		default:
		}
		return exec.CommandContext(t.Context(), "muniment", "key", "revoke", "--data", h.Data, second.Key.KeyID).Run() == nil
	}, "a key is stopped")
	require.NoError(t, os.Remove(ballast))
	if again.server == nil {
		again = <-ready
		require.NoError(t, again.err)
	}
	t.Cleanup(again.server.Kill)
	h.Server, h.Client.API = again.server, again.server.API
	waittest.Until(t, func() bool { _, err := os.Stat(filepath.Join(h.Data, "reserve")); return err == nil }, "the reserve is there again")
	status, answer := h.Deliver(h.Client.Key, "AUDIO")
	require.Equal(t, http.StatusOK, status, answer)
	require.Equal(t, 1, typesInLog(t, h.Data)["key.revoked"])
}

// TestLeasesEndWhileAStopIsUnrecorded: when not even the reserve is enough, nodes sign
// nothing within the bound, until stops can be recorded again.
func TestLeasesEndWhileAStopIsUnrecorded(t *testing.T) {
	t.Parallel()
	h, disk := newOnSmallDisk(t, 256, "--bound", "2s")
	h.Receipts(1)
	var rights []string
	scope := map[string]any{"description": strings.Repeat("x", 15_000)}
	var bases struct{ Bases []struct{ ID string } }
	h.Get("/v1/bases", &bases)
	for range 300 {
		var issued struct{ Right struct{ ID string } }
		h.Post("/v1/rights", map[string]any{
			"basisId": bases.Bases[0].ID, "substrate": "CTV", "effectiveFrom": "2026-01-01T00:00:00Z", "scope": scope,
		}, &issued)
		rights = append(rights, issued.Right.ID)
	}
	// Who reads an old state for long keeps the database's write-ahead log from being used
	// again: it grows with every change.
	db, err := sql.Open("sqlite", filepath.Join(h.Data, "control.db"))
	require.NoError(t, err)
	defer db.Close()
	reading, err := db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	require.NoError(t, err)
	require.NoError(t, reading.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM rights`).Scan(new(int)))
	for i, err := 0, error(nil); err == nil; i++ {
		require.Less(t, i, len(rights), "there is room for all")
		fill(t, filepath.Join(disk, fmt.Sprint("ballast", i))) // what was released is taken by somebody else
		err = h.Client.Do(t.Context(), "POST", "/v1/rights/"+rights[i]+"/revoke", map[string]any{}, nil)
		if err != nil {
			require.ErrorContains(t, err, "STORAGE_FULL")
			require.ErrorContains(t, err, "this process gives no node a lease")
		}
	}
	var answer string
	awaited := func(said string) {
		t.Helper()
		defer func() { t.Log(answer) }()
		waittest.Until(t, func() bool {
			_, answer = h.Deliver(h.Client.Key, "DOOH")
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
	require.Equal(t, 2, h.Metered())
}

// typesInLog counts the events in the log of a data folder by type.
func typesInLog(t *testing.T, data string) map[string]int {
	t.Helper()
	found := map[string]int{}
	systemtest.ScanLog(t, data, func(e sealer.Entry) error {
		event, err := sealer.ParseEvent(e.Event)
		found[event.Type]++
		return err
	})
	return found
}
