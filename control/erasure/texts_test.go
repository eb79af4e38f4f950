package erasure

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/control/roomtest"
	"muniment/control/store"
	"muniment/pipeline"
	"muniment/pipeline/conform"
	"muniment/sealer"
)

// TestErasureOfTexts: only texts name the person, of a record that has events, and of one that has not.
// They are erased from the records and from the events, also in an older copy of the database; other
// texts and records stay.
func TestErasureOfTexts(t *testing.T) {
	const person = "ada.lovelace@example.org"
	plant := func() *stage {
		s := newStage(t)
		s.write(t, `UPDATE developers SET email = 'eve' WHERE email = 'ada'`)
		s.open(t, func(cfg *Config) {
			cfg.Tables = append(cfg.Tables, store.Table{Name: "bases", Personal: &store.Personal{Kind: "basis", Key: []string{"basis_id"}, Text: []string{"title", "reference"}, Record: "basis_id", Noun: "basis"}},
				store.Table{Name: "offers", Personal: &store.Personal{Kind: "offer", Key: []string{"offer_id"}, JSON: []string{"scope.for"}}})
		})
		s.write(t, `INSERT INTO bases (basis_id, tenant_id, kind, title, reference, holder_org_id, created_at, updated_at, revision)
			VALUES ('bas_b', 'tnt_a', 'CONSENT', 'a request of `+person+`, twice', 'of ada', 'org_a', 0, 0, 0)`)
		s.write(t, `INSERT INTO rights (right_id, tenant_id, basis_id, substrate, scope, effective_from, ancestors, holder_org_id, state, created_at, updated_at, revision)
			VALUES ('rgh_b', 'tnt_a', 'bas_b', 'ANY', '{}', 0, '', 'org_a', 'ACTIVE', 0, 0, 0)`)
		s.write(t, `INSERT INTO offers (offer_id, tenant_id, right_id, from_org_id, to_org_id, scope, expires_at, state, created_at, updated_at, revision)
			VALUES ('off_b', 'tnt_a', 'rgh_b', 'org_a', 'org_b', '{"for":["IBAN of `+person+`","eve"]}', 0, 'PROPOSED', 0, 0, 0)`)
		noted := []pipeline.Row{conform.Annotated(tenantID, 3, "basis", `{"notes":"`+person+`"}`), conform.Annotated(tenantID, 4, "basis", `{"notes":"nobody"}`)}
		require.NoError(t, s.warehouse.Load(t.Context(), pipeline.Batch{Partition: 3, From: conform.Place(3), Rows: noted, Next: conform.Place(5)}))
		return s
	}
	check := func(s *stage, made Erasure) {
		titles, err := store.List(t.Context(), s.db.Read(), "titles", store.Text, `SELECT title FROM bases ORDER BY basis_id`)
		require.NoError(t, err)
		require.Equal(t, []string{"Frame agreement", made.SubjectHash}, titles)
		references, err := store.List(t.Context(), s.db.Read(), "references", store.Text, `SELECT reference FROM bases WHERE basis_id = 'bas_b'`)
		require.NoError(t, err)
		require.Equal(t, []string{"of ada"}, references)
		scopes, err := store.List(t.Context(), s.db.Read(), "scopes", store.Text, `SELECT scope FROM offers`)
		require.NoError(t, err)
		require.Equal(t, []string{`{"for":["` + made.SubjectHash + `","eve"]}`}, scopes)
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
	noted := []pipeline.Row{conform.Annotated(tenantID, 3, "basis", `{"notes":"`+person+`"}`), conform.Annotated(tenantID, 4, "basis", `{"notes":"nobody"}`)}
	require.NoError(t, older.warehouse.Load(t.Context(), pipeline.Batch{Partition: 3, From: conform.Place(3), Rows: noted, Next: conform.Place(5)}))
	require.NoError(t, older.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := Replay(t.Context(), tx, &tombstone)
		return err
	}))
	require.NoError(t, older.work(t))
	check(older, made)
}

// TestErasureOfManyRecords: a person whom the texts of 40,000 records name is erased, and one of whom it is
// unknown whether the events of 40,000 records name them; the tombstone's event is small.
func TestErasureOfManyRecords(t *testing.T) {
	s := newStage(t)
	s.bundles.of, s.bundles.voiding = map[string]int64{"jane@example.org": 1, "eve": 2}, func() {}
	s.open(t, func(cfg *Config) {
		cfg.Tables = append(cfg.Tables, store.Table{Name: "bases", Personal: &store.Personal{
			Kind: "basis", Key: []string{"basis_id"}, Text: []string{"title"}, Record: "basis_id", Noun: "basis", Unseen: "reference = 'unknown'",
		}})
	})
	const records = 40_000
	roomtest.Fill(t, s.db, records, "bases", `basis_id, tenant_id, kind, title, reference, holder_org_id, created_at, updated_at, revision`,
		`'bas_' || substr('01AAAAAAAAAAAAAAAAAAAAAAAA' || CAST(i AS TEXT), -26), 'tnt_a', 'CONSENT', 'a request of jane@example.org', 'unknown', 'org_a', 0, 0, 0`)
	rows := []pipeline.Row{conform.Annotated(tenantID, 3, "basis", `{"by":"jane@example.org","for":"eve"}`), conform.Annotated(tenantID, 4, "basis", `{"by":"ivy@example.org"}`)}
	require.NoError(t, s.warehouse.Load(t.Context(), pipeline.Batch{Partition: 3, From: conform.Place(3), Rows: rows, Next: conform.Place(5)}))
	for i, person := range []string{"jane@example.org", "ivy@example.org"} {
		made := s.mustErase(t, person)
		require.EqualValues(t, []int{records, 0}[i], made.Counts.Records["basis"])
		require.Less(t, len(roomtest.Events(t, s.db)[0].Data), 2_000)
		require.NoError(t, s.work(t))
		require.Equal(t, Completed, s.find(t, made.ID).State)
		s.write(t, `DELETE FROM outbox`)
	}
	left, err := s.warehouse.Events(t.Context(), pipeline.EventQuery{TenantID: tenantID, NoDeliveries: true, Limit: 9})
	require.NoError(t, err)
	require.Equal(t, []string{"eve", ""}, []string{noteOf(t, left[0].Private), noteOf(t, left[1].Private)})
}

// noteOf is the text of the one note that is left in a private part; empty if nothing is.
func noteOf(t *testing.T, private []byte) (text string) {
	t.Helper()
	if len(private) == 0 {
		return ""
	}
	p, err := sealer.ParsePrivate(private)
	require.NoError(t, err)
	for _, n := range p.Notes {
		if n.Text != "" {
			require.NoError(t, json.Unmarshal([]byte(n.Text), &text))
		}
	}
	return text
}
