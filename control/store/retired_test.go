package store

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRetiredKeysMigrate: a key that its node retired before that was noted is retired, and no
// other.
func TestRetiredKeysMigrate(t *testing.T) {
	db := mustOpen(t, t.TempDir())
	text, err := migrations.ReadFile("migrations/0020_retired_keys.sql")
	require.NoError(t, err)
	up, _, _ := strings.Cut(string(text), "-- +goose Down")
	const hour = 3_600_000
	var retired []string
	require.NoError(t, db.Change(t.Context(), func(tx *Tx) error {
		for _, k := range []struct {
			id, node    string
			begins, end int64
		}{
			{"said", "nod_a", hour, 10 * hour}, {"open", "nod_a", 10 * hour, 21 * hour}, {"last", "nod_a", 20 * hour, 0},
			{"alone", "nod_b", hour, 2 * hour},
		} {
			_, err := tx.ExecContext(t.Context(), `INSERT INTO signing_keys (key_id, purpose, node_id, public_key, not_before, not_after, delegation, revision)
				VALUES ($1, 'receipt_signing', $2, '', $3, NULLIF($4, 0), '', 1)`, k.id, k.node, k.begins, k.end)
			if err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(t.Context(), up); err != nil {
			return err
		}
		retired, err = List(t.Context(), tx, "the keys", Text, `SELECT key_id FROM signing_keys WHERE retired = 1`)
		return err
	}))
	require.Equal(t, []string{"said"}, retired)
}
