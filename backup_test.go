package main

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/control/backup"
	"muniment.example/control/plane"
	"muniment.example/control/store"
	"muniment.example/sealer"
)

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
	h := systemtest.NewStopped(t)
	h.Move("DOOH", "suspend")
	h.Seal()
	h.Move("DOOH", "resume")
	h.Move("DRONE", "suspend")
	loaded := func() bool {
		var response struct {
			Events []struct {
				Event struct{ Subject sealer.Ref }
			}
		}
		h.Get("/v1/events?limit=1", &response)
		return response.Events[0].Event.Subject.ID == h.Rights["DRONE"]
	}
	waittest.Until(t, loaded)
	h.Stop()
	to := filepath.Join(t.TempDir(), "backup")
	h.BackUp(to)

	restored := func() []string {
		made, err := backup.Restore{
			From: to, Data: filepath.Join(t.TempDir(), "data"), Replays: plane.Replays(), Older: olderEvents, Tombstones: tombstones([]string{os.DevNull}),
			Continue: func(ctx context.Context, data string, end sealer.Position, generation uint32) (backup.OpenLog, error) {
				log, err := continueLog(ctx, data, end, generation)
				return forgetful{log}, err
			},
		}.Run(t.Context())
		require.NoError(t, err)
		var rights []string
		for _, said := range made.Reapplied {
			for substrate, id := range h.Rights {
				if strings.Contains(said, id) {
					rights = append(rights, substrate)
				}
			}
		}
		slices.Sort(rights)
		return rights
	}
	require.Empty(t, restored())
	systemtest.ReviveBackup(t, to)
	require.Equal(t, []string{"CTV", "DRONE", "MOBILE"}, restored())

	// Without the warehouse, a suspension that only the packs know is not known to have ended.
	db, err := sql.Open("sqlite", "file:"+filepath.Join(to, "warehouse.db"))
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), `DELETE FROM events WHERE class > 0`)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), `PRAGMA wal_checkpoint(TRUNCATE)`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	systemtest.ReviveBackup(t, to, "warehouse.db")
	require.Equal(t, []string{"CTV", "DOOH", "MOBILE"}, restored())
}
