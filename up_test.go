package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store"
	"muniment.example/pipeline/segment"
	"muniment.example/pipeline/sqlite"
	"muniment.example/sealer"
)

// TestEmbeddedStartWaitsForNoAppend: a full disk keeps no embedded service from starting, although
// events wait in its outbox. SQLite has no other server that the log would have to refuse.
func TestEmbeddedStartWaitsForNoAppend(t *testing.T) {
	data, quiet := t.TempDir(), slog.New(slog.DiscardHandler)
	db, err := store.Open(t.Context(), store.Config{Path: filepath.Join(data, "control.db"), Logger: quiet})
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, db.Change(t.Context(), func(tx *store.Tx) error {
		return tx.EmitSystem(t.Context(), &store.Kind{Type: "right.issued"}, store.ByOperator(), sealer.Ref{Kind: "right", ID: "rgh_a"}, map[string]any{})
	}))
	warehouse, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(data, "warehouse.db"), Logger: quiet})
	require.NoError(t, err)
	defer warehouse.Close()
	log, _, err := (&upCmd{Data: data}).openLog(t.Context(), db, warehouse, segment.Config{Dir: filepath.Join(data, "log"), Log: quiet})
	require.NoError(t, err)
	defer log.Close()
	first, end, err := log.Bounds(context.Background(), segment.Partition)
	require.NoError(t, err)
	require.Equal(t, first, end, "the relay appends it")
}
