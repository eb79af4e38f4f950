package stack

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/storytest"
	"muniment.example/bench/system/systemtest"
)

// TestExportsOnTheStack runs the scenarios of exports on two gateways, two control processes and
// a loader. Whichever process has begun an export is killed, and another does it.
func TestExportsOnTheStack(t *testing.T) {
	t.Parallel()
	s, c := scaledOut(t)
	s.Settle()
	t.Run("bundle", func(t *testing.T) {
		storytest.BundleOfAPerson(t, s, func() string {
			var all strings.Builder
			files, err := filepath.Glob(filepath.Join(c.Dir, "*.log"))
			require.NoError(t, err)
			require.Len(t, files, 5)
			for _, file := range files {
				all.Write(systemtest.ReadFile(t, file))
			}
			return all.String()
		})
	})
	t.Run("workers killed", func(t *testing.T) {
		c.Loaders[0].Kill() // who has begun the job waits for one
		storytest.WorkersKilled(t, s, 1, func(id string) {
			first := s.Await(id, func(j systemtest.Exported) bool { return j.Progress.WorkerID != "" }).Progress.WorkerID
			for i := range c.Controls {
				c.Controls[i].Kill()
				require.NoError(t, c.StartControl(t.Context(), i))
			}
			require.NoError(t, c.StartLoader(t.Context(), 0))
			j := s.Exported(id)
			require.Equal(t, "READY", j.State, "%+v", j)
			require.NotEqual(t, first, j.Progress.WorkerID)
		})
	})
}
