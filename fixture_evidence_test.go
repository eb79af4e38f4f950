package main

import (
	"bytes"
	"encoding/json"
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

// seal seals, however long the loader takes to catch up.
func (s *service) seal() {
	s.t.Helper()
	seal(s.t, s.client, nil)
}

// metered seals, so that all is loaded, and counts the tenant's receipts.
func (s *service) metered() int {
	s.t.Helper()
	s.seal()
	return metered(s.t, s.client)
}

// metered is how many receipts the warehouse has of a tenant.
func metered(t *testing.T, client system.Client) int {
	t.Helper()
	var metering struct{ Totals struct{ Receipts int } }
	require.NoError(t, client.Do(t.Context(), "GET", "/v1/metering", nil, &metering))
	return metering.Totals.Receipts
}

// plays is how many plays a tenant's receipts are of, once all is loaded; duplicates, those that
// say so once more.
func plays(t *testing.T, client system.Client) (plays, duplicates int) {
	t.Helper()
	seal(t, client, nil)
	var metering struct {
		Totals struct{ Receipts, Duplicates int }
	}
	require.NoError(t, client.Do(t.Context(), "GET", "/v1/metering", nil, &metering))
	return metering.Totals.Receipts - metering.Totals.Duplicates, metering.Totals.Duplicates
}

// seal seals a tenant's events, all of them. If the loader is behind, the response says to try
// again. The answer of the last call goes to sealed.
func seal(t *testing.T, client system.Client, sealed any) {
	t.Helper()
	body := map[string]any{}
	untilAtMost(t, 5*time.Minute, func() bool {
		var answer json.RawMessage
		err := client.Do(t.Context(), "POST", "/v1/proof-packs/seal", body, &answer)
		if err != nil && strings.Contains(err.Error(), "answered 503") {
			return false
		}
		require.NoError(t, err)
		var part struct {
			UpTo string
			More bool
		}
		require.NoError(t, json.Unmarshal(answer, &part))
		body["upTo"] = part.UpTo
		if !part.More && sealed != nil {
			require.NoError(t, json.Unmarshal(answer, sealed))
		}
		return !part.More
	})
}

// sealAndExport seals and downloads every pack, oldest first.
func sealAndExport(t *testing.T, client system.Client) []string {
	t.Helper()
	seal(t, client, nil)
	var list struct{ Packs []struct{ ID string } }
	require.NoError(t, client.Do(t.Context(), "GET", "/v1/proof-packs?limit=500", nil, &list))
	require.NotEmpty(t, list.Packs)
	dir := t.TempDir()
	var files []string
	for _, p := range list.Packs {
		file := filepath.Join(dir, p.ID+".ndjson")
		require.NoError(t, client.Download(t.Context(), "/v1/proof-packs/"+p.ID+"/bundle", file))
		files = append(files, file)
	}
	return files
}

// verifyPacks runs the auditor's command on packs and what else there is.
func verifyPacks(t *testing.T, data string, files []string) {
	t.Helper()
	muniment(t, append([]string{"verify", "--root", filepath.Join(data, "keys", "root.vkey")}, files...)...)
}

// keep copies a file or folder of the stopped service, and returns how to put the copy back
// into the place of what is there then.
func (s *service) keep(name string) (putBack func()) {
	s.t.Helper()
	from, kept := filepath.Join(s.data, name), filepath.Join(s.t.TempDir(), name)
	copyAll(s.t, from, kept)
	return func() {
		s.t.Helper()
		for _, suffix := range []string{"", "-wal", "-shm"} {
			require.NoError(s.t, os.RemoveAll(from+suffix))
		}
		copyAll(s.t, kept, from)
	}
}

func copyAll(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	require.NoError(t, err)
	if info.IsDir() {
		require.NoError(t, os.CopyFS(to, os.DirFS(from)))
		return
	}
	require.NoError(t, os.WriteFile(to, read(t, from), 0o600))
}

// scanLog calls fn with each entry of a data folder's log, which may be in use.
func scanLog(t *testing.T, data string, fn func(sealer.Entry) error) {
	t.Helper()
	log, err := segment.OpenReader(filepath.Join(data, "log"))
	require.NoError(t, err)
	defer log.Close()
	first, end, err := log.Bounds(t.Context(), segment.Partition)
	require.NoError(t, err)
	require.NoError(t, log.Scan(t.Context(), first, end, fn))
}

// inLog counts the receipts in a data folder's log, by id.
func inLog(t *testing.T, data string) map[string]int {
	t.Helper()
	found := map[string]int{}
	scanLog(t, data, func(e sealer.Entry) error {
		parts, err := sealer.SplitDelivery(e.Event)
		if err != nil {
			return nil // an event of another type
		}
		var receipt struct{ ReceiptID string }
		err = json.Unmarshal(parts.Receipt, &receipt)
		found[receipt.ReceiptID]++
		return err
	})
	return found
}

// logged are the events of a tenant in the log of a service in one process.
func (s *service) logged(tenantID string, after *sealer.Position) (list []logged) {
	scanLog(s.t, s.data, func(e sealer.Entry) error {
		if e.TenantID == tenantID && (after == nil || e.Position.Compare(*after) > 0) {
			list = append(list, readLogged(s.t, e.Position, e.Event))
		}
		return nil
	})
	return list
}

// systemEvents are the events of the system's tenant in the log, by type.
func (s *service) systemEvents() map[string]string {
	s.t.Helper()
	found := map[string]string{}
	scanLog(s.t, s.data, func(e sealer.Entry) error {
		if e.TenantID != api.SystemTenant {
			return nil
		}
		event, err := sealer.ParseEvent(bytes.Clone(e.Event))
		found[event.Type] = string(event.Data)
		return err
	})
	return found
}
