package erasure

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/control/roomtest"
	"muniment/control/store"
	"muniment/pipeline"
	"muniment/pipeline/conform"
)

// TestErasureOfTexts: the notes of a record that is about nobody name the person. They are erased from
// the record and from its events, also in an older copy of the database, where nothing else names the
// person; other records keep theirs.
func TestErasureOfTexts(t *testing.T) {
	const person = "ada.lovelace@example.org"
	plant := func() *stage {
		s := newStage(t)
		s.write(t, `UPDATE developers SET email = 'eve' WHERE email = 'ada'`)
		s.open(t, func(cfg *Config) {
			cfg.Tables = append(cfg.Tables, store.Table{Name: "bases", Personal: &store.Personal{Kind: "basis", Key: []string{"basis_id"}, Text: []string{"title"}, Record: "basis_id"}})
		})
		s.write(t, `INSERT INTO bases (basis_id, tenant_id, kind, title, holder_org_id, created_at, updated_at, revision)
			VALUES ('bas_b', 'tnt_a', 'CONSENT', 'a request of `+person+`, twice', 'org_a', 0, 0, 0)`)
		noted := []pipeline.Row{conform.Annotated(tenantID, 3, "bas_b", `{"notes":"`+person+`"}`), conform.Annotated(tenantID, 4, "bas_a", `{"notes":"nobody"}`)}
		require.NoError(t, s.warehouse.Load(t.Context(), pipeline.Batch{Partition: 3, From: conform.Place(3), Rows: noted, Next: conform.Place(5)}))
		return s
	}
	check := func(s *stage, made Erasure) {
		titles, err := store.List(t.Context(), s.db.Read(), "titles", store.Text, `SELECT title FROM bases ORDER BY basis_id`)
		require.NoError(t, err)
		require.Equal(t, []string{"Frame agreement", made.SubjectHash}, titles)
		rows, err := s.warehouse.Events(t.Context(), pipeline.EventQuery{TenantID: tenantID, NoDeliveries: true, Limit: 9})
		require.NoError(t, err)
		require.Len(t, rows, 2)
		require.Empty(t, rows[0].Private)
		require.NotEmpty(t, rows[1].Private)
		s.inNoFile(t, person)
	}
	s := plant()
	made := s.mustErase(t, person)
	tombstone := roomtest.Events(t, s.db)[0]
	require.NoError(t, s.work(t))
	check(s, made)

	older := plant()
	older.key = s.key // the copy has it
	older.warehouse = &conform.MemoryWarehouse{}
	older.cfg.Warehouse = older.warehouse
	require.NoError(t, older.Service.cfg.Warehouse.Erase(t.Context(), s.key, nil))
	noted := []pipeline.Row{conform.Annotated(tenantID, 3, "bas_b", `{"notes":"`+person+`"}`), conform.Annotated(tenantID, 4, "bas_a", `{"notes":"nobody"}`)}
	require.NoError(t, older.warehouse.Load(t.Context(), pipeline.Batch{Partition: 3, From: conform.Place(3), Rows: noted, Next: conform.Place(5)}))
	require.NoError(t, older.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := Replay(t.Context(), tx, &tombstone)
		return err
	}))
	require.NoError(t, older.work(t))
	check(older, made)
}

// restoredWarehouse knows a person by a private part.
type restoredWarehouse struct {
	*conform.MemoryWarehouse
	person string
}

func (w restoredWarehouse) PersonOf(_ context.Context, key pipeline.SubjectKey, t pipeline.Tombstone) (string, error) {
	if key.Hash(t.TenantID, w.person) == t.SubjectHash {
		return w.person, nil
	}
	return "", nil
}

// TestRestoredWarehouseNamesWhoIsErased: a text of a restored database, which no list of records has,
// is found by the name in the restored warehouse, before that loses it.
func TestRestoredWarehouseNamesWhoIsErased(t *testing.T) {
	s := newStage(t)
	const person = "ada.lovelace@example.org"
	s.write(t, `UPDATE bases SET title = 'a request of `+person+`'`)
	s.write(t, `INSERT INTO tombstones (tenant_id, subject_hash, until) VALUES ('tnt_a', '`+s.Hash(tenantID, person)+`', 0), ('tnt_a', 'another', 0)`)
	tables := store.Tables{{Name: "bases", Personal: &store.Personal{Kind: "basis", Key: []string{"basis_id"}, Text: []string{"title"}}}}
	require.NoError(t, AnnounceRestored(t.Context(), s.db, tables, restoredWarehouse{s.warehouse, person}))
	titles, err := store.List(t.Context(), s.db.Read(), "titles", store.Text, `SELECT title FROM bases`)
	require.NoError(t, err)
	require.Equal(t, []string{s.Hash(tenantID, person)}, titles)
}
