package faults

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
)

// TestStartUndoesAnEditedDatabase: what was stopped since the last start is stopped, whatever
// the database says. A start that finds nothing amiss changes nothing.
func TestStartUndoesAnEditedDatabase(t *testing.T) {
	t.Parallel()
	h := systemtest.NewStopped(t)
	h.Stop()
	h.Start()
	h.RequireStopped()
	require.NotContains(t, h.Log(), "it was re-applied")
	h.Move("DOOH", "suspend")
	h.Move("DOOH", "resume")
	h.Stop()
	require.NotContains(t, h.SystemEvents(), "database.stops_reapplied")

	h = systemtest.NewStopped(t)
	h.Stop()
	systemtest.Revive(t, filepath.Join(h.Data, "control.db"))
	h.Start()
	h.RequireStopped()
	require.Contains(t, h.Log(), "it was re-applied")
	h.Stop()
	require.JSONEq(t, `{"reapplied":3}`, h.SystemEvents()["database.stops_reapplied"])
}

// TestRestoreUndoesAnEditedDatabase has the stops be older than the newest start, too: a
// restore reads all that the log says.
func TestRestoreUndoesAnEditedDatabase(t *testing.T) {
	t.Parallel()
	h := systemtest.NewStopped(t)
	h.Stop()
	h.Start()
	h.Stop()
	to := filepath.Join(t.TempDir(), "backup")
	h.BackUp(to)
	honest, made := h.Restored(to)
	require.Empty(t, made.Reapplied)
	systemtest.ReviveBackup(t, to)
	edited, made := h.Restored(to)
	require.Len(t, made.Reapplied, 3)
	for _, other := range []*systemtest.Service{honest, edited} {
		other.Start()
		(&systemtest.StoppedService{Service: other, RevokedKey: h.RevokedKey}).RequireStopped()
		other.Stop()
	}
	require.Contains(t, edited.SystemEvents()["database.restored"], `"reapplied":3`)
}

// TestVerifyFindsWhatWasRevived: where no start looks any more for what was stopped, an edited
// database has rights live again; but the packs say that they were stopped.
func TestVerifyFindsWhatWasRevived(t *testing.T) {
	t.Parallel()
	h := systemtest.NewStopped(t)
	h.Stop()
	h.Start() // the stops are older than the newest start
	h.Stop()
	file := filepath.Join(h.Data, "control.db")
	systemtest.Revive(t, file)
	systemtest.Edit(t, file, // the suspended right keeps its revision
		`UPDATE rights SET revision = revision - 1000 WHERE right_id = '`+h.Rights["CTV"]+`'`,
		`UPDATE feed SET revision = revision - 1000, snapshot = json_set(snapshot, '$.revision', revision - 1000) WHERE kind = 'right' AND id = '`+h.Rights["CTV"]+`'`)
	h.Start()
	require.NotContains(t, h.Log(), "it was re-applied")
	h.Seal()
	require.Contains(t, systemtest.Command(h.T, h.VerifyPacks()...), "Sound: 1 file.")

	for n, substrate := range []string{"MOBILE", "CTV"} {
		status, answer := h.Deliver(h.Client.Key, substrate)
		require.Equal(t, http.StatusOK, status, answer)
		h.Seal()
		cmd := exec.Command("muniment", h.VerifyPacks()...)
		out, err := cmd.Output()
		require.Error(t, err)
		require.Equal(t, 1, cmd.ProcessState.ExitCode(), string(out))
		require.Equal(t, n+1, strings.Count(string(out), "FAIL"), string(out))
		require.Contains(t, string(out), "FAIL  right.stopped")
		require.Contains(t, string(out), "right "+h.Rights[substrate]+" was ")
	}
}
