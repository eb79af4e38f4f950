package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/control/backup"
	"muniment/control/store"
	"muniment/sealer"
)

// stoppedService is one whose tenant has stopped some rights and a key, and resumed a right.
type stoppedService struct {
	*service
	revokedKey string
}

// wasStopped is what became of each right.
var wasStopped = map[string]string{"DOOH": "ACTIVE", "AUDIO": "ACTIVE", "CTV": "SUSPENDED", "MOBILE": "REVOKED"}

func newStopped(t *testing.T) *stoppedService {
	h := &stoppedService{service: newService(t)}
	var made struct {
		Key    struct{ KeyID string }
		APIKey string
	}
	h.post("/v1/api-keys", map[string]any{"label": "stolen"}, &made)
	h.revokedKey = made.APIKey
	for range 3 {
		h.move("AUDIO", "suspend")
		h.move("AUDIO", "resume")
	}
	h.post("/v1/rights/"+h.rights["CTV"]+"/suspend", map[string]any{"reason": "fraud"}, nil)
	h.move("MOBILE", "revoke")
	require.NoError(t, h.client.Do(t.Context(), http.MethodDelete, "/v1/api-keys/"+made.Key.KeyID, nil, nil))
	muniment(h.t, "sandbox", "rotate-secret", "--data", h.data)
	h.receipts(3)
	h.requireStopped()
	return h
}

// requireStopped checks at control and at the node what is stopped.
func (h *stoppedService) requireStopped() {
	h.t.Helper()
	for substrate, want := range wasStopped {
		var response struct{ Right struct{ State string } }
		h.get("/v1/rights/"+h.rights[substrate], &response)
		require.Equal(h.t, want, response.Right.State, substrate)
		status, answer := h.deliver(h.client.Key, substrate)
		require.Equal(h.t, map[bool]int{true: http.StatusOK, false: http.StatusConflict}[want == "ACTIVE"], status, "%s: %s", substrate, answer)
	}
	status, answer := h.deliver(h.revokedKey, "DOOH")
	require.Equal(h.t, http.StatusUnauthorized, status, answer)
}

// revive makes all live again in a database, as anyone who can write its file could. All of
// its revisions look newer than what the log says.
func revive(t *testing.T, file string) {
	t.Helper()
	edit(t, file,
		`UPDATE rights SET state = 'ACTIVE', state_reason = NULL, revision = revision + 1000`,
		`UPDATE api_keys SET revoked_at = NULL, revision = revision + 1000`,
		`UPDATE feed SET stopped = 0, revision = revision + 1000, snapshot = json_set(snapshot, '$.revision', revision + 1000)`,
		`UPDATE feed SET snapshot = json_set(snapshot, '$.state', 'ACTIVE') WHERE kind = 'right'`,
		`UPDATE feed SET snapshot = json_remove(snapshot, '$.revokedAt') WHERE kind = 'key'`,
		`UPDATE counters SET value = value + 1000 WHERE name = 'revision'`)
}

// edit runs statements on the database of a service that is stopped.
func edit(t *testing.T, file string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file)
	require.NoError(t, err)
	defer db.Close()
	for _, statement := range append(statements, `PRAGMA wal_checkpoint(TRUNCATE)`) {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err, statement)
	}
}

// TestStartUndoesAnEditedDatabase: what was stopped since the last start is stopped, whatever
// the database says. A start that finds nothing amiss changes nothing.
func TestStartUndoesAnEditedDatabase(t *testing.T) {
	t.Parallel()
	h := newStopped(t)
	h.stop()
	h.start()
	h.requireStopped()
	require.NotContains(t, h.log(), "it was re-applied")
	h.move("DOOH", "suspend")
	h.move("DOOH", "resume")
	h.stop()
	require.NotContains(t, h.systemEvents(), "database.stops_reapplied")

	h = newStopped(t)
	h.stop()
	revive(t, filepath.Join(h.data, "control.db"))
	h.start()
	h.requireStopped()
	require.Contains(t, h.log(), "it was re-applied")
	h.stop()
	require.JSONEq(t, `{"reapplied":3}`, h.systemEvents()["database.stops_reapplied"])
}

// reviveBackup is revive for a backup, whose manifest says what was made of it.
func reviveBackup(t *testing.T, dir string, files ...string) {
	t.Helper()
	revive(t, filepath.Join(dir, "control.db"))
	var m backup.Manifest
	require.NoError(t, json.Unmarshal(read(t, filepath.Join(dir, "manifest.json")), &m))
	for _, name := range append(files, "control.db") {
		text := read(t, filepath.Join(dir, name))
		sum := sha256.Sum256(text)
		i := slices.IndexFunc(m.Files, func(f backup.File) bool { return f.Name == name })
		m.Files[i].Bytes, m.Files[i].SHA256 = int64(len(text)), hex.EncodeToString(sum[:])
	}
	text, err := json.Marshal(m)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "manifest.json"), text, 0o600))
}

// TestRestoreUndoesAnEditedDatabase has the stops be older than the newest start, too: a
// restore reads all that the log says.
func TestRestoreUndoesAnEditedDatabase(t *testing.T) {
	t.Parallel()
	h := newStopped(t)
	h.stop()
	h.start()
	h.stop()
	to := filepath.Join(t.TempDir(), "backup")
	h.backUp(to)
	honest, made := h.restored(to)
	require.Empty(t, made.Reapplied)
	reviveBackup(t, to)
	edited, made := h.restored(to)
	require.Len(t, made.Reapplied, 3)
	for _, other := range []*service{honest, edited} {
		other.start()
		(&stoppedService{other, h.revokedKey}).requireStopped()
		other.stop()
	}
	require.Contains(t, edited.systemEvents()["database.restored"], `"reapplied":3`)
}

// forgetful is a log that holds no event of control any more.
type forgetful struct{ backup.OpenLog }

func (l forgetful) Scan(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
	return l.OpenLog.Scan(ctx, from, to, func(e sealer.Entry) error {
		if e.Node == store.Node {
			return nil
		}
		return fn(e)
	})
}

// TestRestoreReadsPacksAndWarehouse: what the log holds no more is in the packs, and what
// was not sealed is in the warehouse. What was resumed stays so, wherever that is recorded.
func TestRestoreReadsPacksAndWarehouse(t *testing.T) {
	t.Parallel()
	h := newStopped(t)
	h.move("DOOH", "suspend")
	h.seal()
	h.move("DOOH", "resume")
	h.move("DRONE", "suspend")
	loaded := func() bool {
		var response struct {
			Events []struct{ Event struct{ Type string } }
		}
		h.get("/v1/events?limit=1", &response)
		return response.Events[0].Event.Type == "right.suspended"
	}
	until(t, loaded)
	h.stop()
	to := filepath.Join(t.TempDir(), "backup")
	h.backUp(to)

	restored := func() []string {
		made, err := backup.Restore{
			From: to, Data: filepath.Join(t.TempDir(), "data"), Replays: replays(), Older: olderEvents, Tombstones: tombstones([]string{os.DevNull}),
			Continue: func(ctx context.Context, data string, end sealer.Position, generation uint32) (backup.OpenLog, error) {
				log, err := continueLog(ctx, data, end, generation)
				return forgetful{log}, err
			},
		}.Run(t.Context())
		require.NoError(t, err)
		var rights []string
		for _, said := range made.Reapplied {
			for substrate, id := range h.rights {
				if strings.Contains(said, id) {
					rights = append(rights, substrate)
				}
			}
		}
		slices.Sort(rights)
		return rights
	}
	require.Empty(t, restored())
	reviveBackup(t, to)
	require.Equal(t, []string{"CTV", "DRONE", "MOBILE"}, restored())

	// Without the warehouse, a suspension that only the packs know is not known to have ended.
	db, err := sql.Open("sqlite", "file:"+filepath.Join(to, "warehouse.db"))
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), `DELETE FROM events WHERE class > 0`)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), `PRAGMA wal_checkpoint(TRUNCATE)`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	reviveBackup(t, to, "warehouse.db")
	require.Equal(t, []string{"CTV", "DOOH", "MOBILE"}, restored())
}

// TestVerifyFindsWhatWasRevived: where no start looks any more for what was stopped, an edited
// database has rights live again; but the packs say that they were stopped.
func TestVerifyFindsWhatWasRevived(t *testing.T) {
	t.Parallel()
	h := newStopped(t)
	h.stop()
	h.start() // the stops are older than the newest start
	h.stop()
	file := filepath.Join(h.data, "control.db")
	revive(t, file)
	edit(t, file, // the suspended right keeps its revision
		`UPDATE rights SET revision = revision - 1000 WHERE right_id = '`+h.rights["CTV"]+`'`,
		`UPDATE feed SET revision = revision - 1000, snapshot = json_set(snapshot, '$.revision', revision - 1000) WHERE kind = 'right' AND id = '`+h.rights["CTV"]+`'`)
	h.start()
	require.NotContains(t, h.log(), "it was re-applied")
	h.seal()
	require.Contains(t, muniment(h.t, h.verifyPacks()...), "Sound: 1 file.")

	for n, substrate := range []string{"MOBILE", "CTV"} {
		status, answer := h.deliver(h.client.Key, substrate)
		require.Equal(t, http.StatusOK, status, answer)
		h.seal()
		cmd := exec.Command("muniment", h.verifyPacks()...)
		out, err := cmd.Output()
		require.Error(t, err)
		require.Equal(t, 1, cmd.ProcessState.ExitCode(), string(out))
		require.Equal(t, n+1, strings.Count(string(out), "FAIL"), string(out))
		require.Contains(t, string(out), "FAIL  right.stopped")
		require.Contains(t, string(out), "right "+h.rights[substrate]+" was ")
	}
}

// verifyPacks are the arguments that verify all packs of the tenant.
func (h *stoppedService) verifyPacks() []string {
	packs, err := filepath.Glob(filepath.Join(h.data, "packs", "*", "*.ndjson.zst"))
	require.NoError(h.t, err)
	return append([]string{"verify", "--root", filepath.Join(h.data, "keys", "root.vkey")}, packs...)
}
