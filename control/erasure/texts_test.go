package erasure

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
	"muniment.example/sealer"
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

// TestErasureOfAParty: if the name of a party is the person's, all of it is the person's: the preview and the export
// have it, and it is erased, also from an older copy of the database. A party that only names the person keeps
// the rest.
func TestErasureOfAParty(t *testing.T) {
	const person = "Ada Jos\u00e9"
	plant := func() *stage {
		s := newStage(t)
		s.write(t, `UPDATE developers SET email = 'eve' WHERE email = 'ada'`)
		s.open(t, func(cfg *Config) {
			cfg.Tables = append(cfg.Tables,
				store.Table{Name: "bases", Personal: &store.Personal{Kind: "basis", Key: []string{"basis_id"}, Text: []string{"title", "reference"}, Parties: [][]string{{"title", "reference"}}}},
				store.Table{Name: "offers", Personal: &store.Personal{Kind: "offer", Key: []string{"offer_id"}, JSON: []string{"scope.name", "scope.place"}, Parties: [][]string{{"scope.name", "scope.place"}}}})
		})
		for id, title := range map[string]string{"bas_b": "  Ada Jose\u0301 ", "bas_c": "heirs of " + person, "bas_d": "Ada"} {
			s.write(t, `INSERT INTO bases (basis_id, tenant_id, kind, title, reference, holder_org_id, created_at, updated_at, revision)
				VALUES ($1, 'tnt_a', 'CONSENT', $2, 'a street', 'org_a', 0, 0, 0)`, id, title)
		}
		s.write(t, `INSERT INTO rights (right_id, tenant_id, basis_id, substrate, scope, effective_from, ancestors, holder_org_id, state, created_at, updated_at, revision)
			VALUES ('rgh_b', 'tnt_a', 'bas_b', 'ANY', '{}', 0, '', 'org_a', 'ACTIVE', 0, 0, 0)`)
		for id, name := range map[string]string{"off_b": person, "off_c": "not " + person} {
			s.write(t, `INSERT INTO offers (offer_id, tenant_id, right_id, from_org_id, to_org_id, scope, expires_at, state, created_at, updated_at, revision)
				VALUES ($1, 'tnt_a', 'rgh_b', 'org_a', 'org_b', $2, 0, 'PROPOSED', 0, 0, 0)`, id, `{"name":"`+name+`","place":"a street","other":"x"}`)
		}
		return s
	}
	texts := func(s *stage, query string) []string {
		list, err := store.List(t.Context(), s.db.Read(), "texts", store.Text, query)
		require.NoError(t, err)
		return list
	}
	check := func(s *stage, hash string) {
		t.Helper()
		require.Equal(t, []string{"Frame agreement ", hash + " " + hash, hash + " a street", "Ada a street"}, texts(s, `SELECT title || ' ' || COALESCE(reference, '') FROM bases ORDER BY basis_id`))
		require.Equal(t, []string{`{"name":"` + hash + `","place":"` + hash + `","other":"x"}`, `{"name":"` + hash + `","place":"a street","other":"x"}`}, texts(s, `SELECT scope FROM offers ORDER BY offer_id`))
	}
	s := plant()
	found := map[string]int{}
	_, err := s.cfg.Tables.Find(t.Context(), s.db.Read(), tenantID, sealer.NewPerson(person), func(row store.Sight) error {
		for _, m := range row.Mentions {
			found[m.ID+" "+m.Field]++
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, map[string]int{"bas_b title": 1, "bas_b reference": 1, "bas_c title": 1, "off_b name": 1, "off_b place": 1, "off_c name": 1}, found)
	made := s.mustErase(t, person)
	require.Equal(t, map[string]int64{"basis": 2, "offer": 2}, made.Counts.Records)
	tombstone := roomtest.Events(t, s.db)[0]
	require.NoError(t, s.work(t))
	check(s, made.SubjectHash)

	older := plant()
	older.key = s.key // the copy has it
	older.warehouse = &conform.MemoryWarehouse{}
	older.cfg.Warehouse = older.warehouse
	require.NoError(t, older.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := Replay(t.Context(), tx, &tombstone)
		return err
	}))
	require.NoError(t, older.work(t))
	check(older, made.SubjectHash)
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
