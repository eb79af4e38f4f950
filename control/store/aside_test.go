package store

import (
	"database/sql"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAsideKeepsItsConnections: to make one costs more than what is asked over it.
func TestAsideKeepsItsConnections(t *testing.T) {
	onPostgres(t)
	db := mustOpen(t, t.TempDir())
	for range 2 {
		var all, asked sync.WaitGroup
		all.Add(mostAside)
		for range mostAside {
			asked.Go(func() {
				require.NoError(t, db.Aside(t.Context(), func(*sql.Tx) error {
					all.Done()
					all.Wait() // until each has a connection
					return nil
				}))
			})
		}
		asked.Wait()
	}
	s := db.pg.aside.Stats()
	require.Equal(t, mostAside, s.Idle)
	require.Zero(t, s.MaxIdleClosed)
}
