package systemtest

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/backup"
)

// StoppedService is one whose tenant has stopped some rights and a key, and resumed a right.
type StoppedService struct {
	*Service
	RevokedKey string
}

// wasStopped is what became of each right.
var wasStopped = map[string]string{"DOOH": "ACTIVE", "AUDIO": "ACTIVE", "CTV": "SUSPENDED", "MOBILE": "REVOKED"}

func NewStopped(t *testing.T) *StoppedService {
	h := &StoppedService{Service: NewService(t)}
	var made struct {
		Key    struct{ KeyID string }
		APIKey string
	}
	h.Post("/v1/api-keys", map[string]any{"label": "stolen"}, &made)
	h.RevokedKey = made.APIKey
	for range 3 {
		h.Move("AUDIO", "suspend")
		h.Move("AUDIO", "resume")
	}
	h.Post("/v1/rights/"+h.Rights["CTV"]+"/suspend", map[string]any{"reason": "fraud"}, nil)
	h.Move("MOBILE", "revoke")
	require.NoError(t, h.Client.Do(t.Context(), http.MethodDelete, "/v1/api-keys/"+made.Key.KeyID, nil, nil))
	Command(h.T, "sandbox", "rotate-secret", "--data", h.Data)
	h.Receipts(3)
	h.RequireStopped()
	return h
}

// RequireStopped checks at control and at the node what is stopped.
func (h *StoppedService) RequireStopped() {
	h.T.Helper()
	for substrate, want := range wasStopped {
		var response struct{ Right struct{ State string } }
		h.Get("/v1/rights/"+h.Rights[substrate], &response)
		require.Equal(h.T, want, response.Right.State, substrate)
		status, answer := h.Deliver(h.Client.Key, substrate)
		require.Equal(h.T, map[bool]int{true: http.StatusOK, false: http.StatusConflict}[want == "ACTIVE"], status, "%s: %s", substrate, answer)
	}
	status, answer := h.Deliver(h.RevokedKey, "DOOH")
	require.Equal(h.T, http.StatusUnauthorized, status, answer)
}

// Revive makes all live again in a database, as anyone who can write its file could. All of
// its revisions look newer than what the log says.
func Revive(t *testing.T, file string) {
	t.Helper()
	Edit(t, file,
		`UPDATE rights SET state = 'ACTIVE', state_reason = NULL, revision = revision + 1000`,
		`UPDATE api_keys SET revoked_at = NULL, revision = revision + 1000`,
		`UPDATE feed SET stopped = 0, revision = revision + 1000, snapshot = json_set(snapshot, '$.revision', revision + 1000)`,
		`UPDATE feed SET snapshot = json_set(snapshot, '$.state', 'ACTIVE') WHERE kind = 'right'`,
		`UPDATE feed SET snapshot = json_remove(snapshot, '$.revokedAt') WHERE kind = 'key'`,
		`UPDATE counters SET value = value + 1000 WHERE name = 'revision'`)
}

// Edit runs statements on the database of a service that is stopped.
func Edit(t *testing.T, file string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file)
	require.NoError(t, err)
	defer db.Close()
	for _, statement := range append(statements, `PRAGMA wal_checkpoint(TRUNCATE)`) {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err, statement)
	}
}

// ReviveBackup is revive for a backup, whose manifest says what was made of it.
func ReviveBackup(t *testing.T, dir string, files ...string) {
	t.Helper()
	Revive(t, filepath.Join(dir, "control.db"))
	var m backup.Manifest
	require.NoError(t, json.Unmarshal(ReadFile(t, filepath.Join(dir, "manifest.json")), &m))
	for _, name := range append(files, "control.db") {
		text := ReadFile(t, filepath.Join(dir, name))
		sum := sha256.Sum256(text)
		i := slices.IndexFunc(m.Files, func(f backup.File) bool { return f.Name == name })
		m.Files[i].Bytes, m.Files[i].SHA256 = int64(len(text)), hex.EncodeToString(sum[:])
	}
	text, err := json.Marshal(m)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "manifest.json"), text, 0o600))
}

// VerifyPacks are the arguments that verify all packs of the tenant.
func (h *StoppedService) VerifyPacks() []string {
	packs, err := filepath.Glob(filepath.Join(h.Data, "packs", "*", "*.ndjson.zst"))
	require.NoError(h.T, err)
	return append([]string{"verify", "--root", filepath.Join(h.Data, "keys", "root.vkey")}, packs...)
}
