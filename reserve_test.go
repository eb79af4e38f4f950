package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/pipeline/segment"
	"muniment/sealer"
)

// newSmallHouse is newHouse on a disk of its own, of so many MiB. It needs root.
func newSmallHouse(t *testing.T, mebibytes int) (h *house, disk string) {
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
	h = &house{t: t, exe: muniment(t), data: filepath.Join(disk, "data")}
	// The server's own log is beside its data folder: a link leads to another disk.
	require.NoError(t, os.Symlink(filepath.Join(t.TempDir(), "log"), h.data+".log"))
	h.start()
	h.client.Key = createTenant(t, h.exe, h.data).APIKey
	h.rights = issueRights(t, h.client)
	return h, disk
}

// TestStopsOnAFullDisk: whoever has a right or a key to stop is not kept from it by a
// disk that others have filled, and nobody delivers on what is left for that.
func TestStopsOnAFullDisk(t *testing.T) {
	h, disk := newSmallHouse(t, 256)
	var second struct {
		Key    struct{ KeyID string }
		APIKey string
	}
	require.NoError(t, h.client.Do(t.Context(), "POST", "/v1/api-keys", map[string]any{"label": "second"}, &second))
	var challenge struct{ Challenge struct{ ID string } }
	require.NoError(t, h.client.Do(t.Context(), "POST", "/v1/challenges", map[string]any{
		"rightId": h.rights["MOBILE"], "challengerOrgId": "org_c", "reason": "ours",
	}, &challenge))
	h.receipts(3)
	ballast := filepath.Join(disk, "ballast")
	fill(t, ballast)
	// What SQLite's files still have room for is filled, too.
	require.Eventually(t, func() bool {
		err := h.client.Do(t.Context(), "POST", "/v1/bases", map[string]any{"kind": "CONTRACT", "title": strings.Repeat("x", 200)}, nil)
		return err != nil && strings.Contains(err.Error(), "STORAGE_FULL")
	}, time.Minute, time.Millisecond)

	stop := func(method, path string, body any) {
		t.Helper()
		require.NoError(t, h.client.Do(t.Context(), method, path, body, nil))
	}
	stop("POST", "/v1/rights/"+h.rights["DOOH"]+"/revoke", map[string]any{})
	stop("POST", "/v1/rights/"+h.rights["CTV"]+"/suspend", map[string]any{})
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
		require.Eventually(t, func() bool { return typesInLog(t, h.data)[event] > 0 }, time.Minute, 50*time.Millisecond, event)
	}

	require.NoError(t, os.Remove(ballast))
	require.Eventually(t, func() bool {
		status, answer = h.deliver(h.client.Key, "AUDIO")
		return status == http.StatusOK
	}, time.Minute, 50*time.Millisecond, "%s", answer)
	require.FileExists(t, filepath.Join(h.data, "reserve"))
	require.Equal(t, 4, h.metered())
	packs := sealAndExport(t, h.client)
	h.stop()
	verifyPacks(t, h.exe, h.data, packs)
}

// typesInLog counts the events in the log of a data folder by type.
func typesInLog(t *testing.T, data string) map[string]int {
	t.Helper()
	log, err := segment.OpenReader(filepath.Join(data, "log"))
	require.NoError(t, err)
	defer log.Close()
	first, end, err := log.Bounds(t.Context(), 0)
	require.NoError(t, err)
	found := map[string]int{}
	require.NoError(t, log.Scan(t.Context(), first, end, func(e sealer.Entry) error {
		event, err := sealer.ParseEvent(e.Event)
		found[event.Type]++
		return err
	}))
	return found
}
