package systemtest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/waittest"
	"muniment.example/gateway/api"
	"muniment.example/pipeline/segment"
	"muniment.example/sealer"
)

// Seal seals, however long the loader takes to catch up.
func (s *Service) Seal() {
	s.T.Helper()
	Seal(s.T, s.Client, nil)
}

// Metered seals, so that all is loaded, and counts the tenant's receipts.
func (s *Service) Metered() int {
	s.T.Helper()
	s.Seal()
	return Metered(s.T, s.Client)
}

// Metered is how many receipts the warehouse has of a tenant.
func Metered(t *testing.T, client system.Client) int {
	t.Helper()
	var metering struct{ Totals struct{ Receipts int } }
	require.NoError(t, client.Do(t.Context(), "GET", "/v1/metering", nil, &metering))
	return metering.Totals.Receipts
}

// Plays is how many plays a tenant's receipts are of, once all is loaded; duplicates, those that
// say so once more.
func Plays(t *testing.T, client system.Client) (plays, duplicates int) {
	t.Helper()
	Seal(t, client, nil)
	var metering struct {
		Totals struct{ Receipts, Duplicates int }
	}
	require.NoError(t, client.Do(t.Context(), "GET", "/v1/metering", nil, &metering))
	return metering.Totals.Receipts - metering.Totals.Duplicates, metering.Totals.Duplicates
}

// Seal seals a tenant's events, all of them. If the loader is behind, the response says to try
// again. The answer of the last call goes to sealed.
func Seal(t *testing.T, client system.Client, sealed any) {
	t.Helper()
	body := map[string]any{}
	waittest.Until(t, func() bool {
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

// SealAndExport seals and downloads every pack, oldest first.
func SealAndExport(t *testing.T, client system.Client) []string {
	t.Helper()
	Seal(t, client, nil)
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

// VerifyPacks runs the auditor's command on packs and what else there is.
func VerifyPacks(t *testing.T, data string, files []string) {
	t.Helper()
	Command(t, append([]string{"verify", "--root", filepath.Join(data, "keys", "root.vkey")}, files...)...)
}

// Keep copies a file or folder of the stopped service, and returns how to put the copy back
// into the place of what is there then.
func (s *Service) Keep(name string) (putBack func()) {
	s.T.Helper()
	from, kept := filepath.Join(s.Data, name), filepath.Join(s.T.TempDir(), name)
	CopyAll(s.T, from, kept)
	return func() {
		s.T.Helper()
		for _, suffix := range []string{"", "-wal", "-shm"} {
			require.NoError(s.T, os.RemoveAll(from+suffix))
		}
		CopyAll(s.T, kept, from)
	}
}

func CopyAll(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	require.NoError(t, err)
	if info.IsDir() {
		require.NoError(t, os.CopyFS(to, os.DirFS(from)))
		return
	}
	require.NoError(t, os.WriteFile(to, ReadFile(t, from), 0o600))
}

// ScanLog calls fn with each entry of a data folder's log, which may be in use.
func ScanLog(t *testing.T, data string, fn func(sealer.Entry) error) {
	t.Helper()
	log, err := segment.OpenReader(filepath.Join(data, "log"))
	require.NoError(t, err)
	defer log.Close()
	first, end, err := log.Bounds(t.Context(), segment.Partition)
	require.NoError(t, err)
	require.NoError(t, log.Scan(t.Context(), first, end, fn))
}

// logged are the events of a tenant in the log of a service in one process.
func (s *Service) logged(tenantID string, after *sealer.Position) (list []Logged) {
	ScanLog(s.T, s.Data, func(e sealer.Entry) error {
		if e.TenantID == tenantID && (after == nil || e.Position.Compare(*after) > 0) {
			list = append(list, ReadLogged(s.T, e.Position, e.Event))
		}
		return nil
	})
	return list
}

// SystemEvents are the events of the system's tenant in the log, by type.
func (s *Service) SystemEvents() map[string]string {
	s.T.Helper()
	found := map[string]string{}
	ScanLog(s.T, s.Data, func(e sealer.Entry) error {
		if e.TenantID != api.SystemTenant {
			return nil
		}
		event, err := sealer.ParseEvent(bytes.Clone(e.Event))
		found[event.Type] = string(event.Data)
		return err
	})
	return found
}
