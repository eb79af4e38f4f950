package ingest

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// held is a row of a player, as a node sends it, played at noon. It names a person.
func held(player string) api.HeldRow {
	text := fmt.Sprintf(`{"vendor":"acme","idType":"player","vendorId":%q,"rowId":"play-%[1]s","playedAt":"2026-11-20T12:00:00Z","dwellMs":8.2e3,"spatialPlacementId":"","correlationId":null,"dataSubjectId":"ada@example.org","telemetry":{"gazeInView":  true}}`, player)
	return api.HeldRow{Identity: api.RowIdentity{Hash: "hash of " + player}, Reason: api.HeldUnmapped, Content: "content of " + player, Vendor: "acme", IDType: "player", VendorID: player, PlayedAt: noon, Row: text}
}

func (s *Service) mustHold(t require.TestingT, rows ...api.HeldRow) (ids []string) {
	results, err := s.Hold(context.Background(), api.HoldRequest{TenantID: tenantID, KeyID: "key_a", Rows: rows})
	require.NoError(t, err)
	require.Len(t, results, len(rows))
	for i := range results {
		require.Nil(t, results[i].Err())
		require.True(t, api.IsID(api.PrefixHeld, results[i].HeldID))
		ids = append(ids, results[i].HeldID)
	}
	return ids
}

// rows are the held rows by id.
func (s *Service) rows(t require.TestingT) map[string]HeldRow {
	all := map[string]HeldRow{}
	for slice := (store.Slice{Limit: 500}); ; {
		page, next, err := listHeld(context.Background(), s.db.Read(), tenantID, heldFilter{}, slice)
		require.NoError(t, err)
		for _, h := range page {
			all[h.ID] = h
		}
		if slice.Behind = next; next == "" {
			return all
		}
	}
}

// requireUsage compares the recorded usage with the rows.
func (s *Service) requireUsage(t require.TestingT) usage {
	var counted, there usage
	require.NoError(t, s.db.Read().QueryRowContext(context.Background(), `SELECT row_count, bytes FROM held_usage WHERE tenant_id = $1`, tenantID).Scan(&counted.rows, &counted.bytes))
	require.NoError(t, s.db.Read().QueryRowContext(context.Background(), `SELECT COUNT(*), CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM held_rows WHERE tenant_id = $1 AND state = 'HELD'`, tenantID).Scan(&there.rows, &there.bytes))
	require.Equal(t, there, counted)
	if there.rows == 0 {
		require.NoError(t, s.db.Read().QueryRowContext(context.Background(), `SELECT COUNT(*) FROM held_mapped WHERE tenant_id = $1`, tenantID).Scan(&there.rows))
		require.Zero(t, there.rows, "no mark is left without held rows")
	}
	return there
}

func TestHold(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), nil)
	ids := r.mustHold(t, held("1"), held("2"))
	require.Equal(t, ids, r.mustHold(t, held("1"), held("2")), "they are held already")
	byDay := held("1")
	byDay.Identity.Day = "2026-11-20"
	require.NotContains(t, ids, r.mustHold(t, byDay)[0], "another identity")
	require.Equal(t, int64(3), r.requireUsage(t).rows)

	other, late, long, strange, nul := held("1"), held("late"), held("long"), held("strange"), held("nul")
	reformatted := held("1")
	reformatted.Row = strings.Replace(reformatted.Row, "8.2e3", "8200", 1)
	require.Equal(t, ids[:1], r.mustHold(t, reformatted), "the content is the same")
	other.Content = "other content"
	late.PlayedAt = noon.Add(-api.MaxRowAge)
	long.Row = strings.Replace(long.Row, "play-", strings.Repeat("x", api.MaxHeldRow), 1)
	strange.Row = `[1]`
	nul.VendorID = "a\x00"
	results, err := r.Hold(t.Context(), api.HoldRequest{TenantID: tenantID, KeyID: "key_a", Rows: []api.HeldRow{other, late, held("3"), long, strange, nul, held("3")}})
	require.NoError(t, err)
	for i, want := range []struct {
		code  api.Code
		named string
	}{
		{api.StateConflict, ids[0]}, {api.ValidationFailed, "too long ago"}, {}, {api.ValidationFailed, "65536 bytes"},
		{api.ValidationFailed, "not a row"}, {api.ValidationFailed, "U+0000"}, {},
	} {
		if want.code == "" {
			require.Nil(t, results[i].Err(), i)
			continue
		}
		require.Empty(t, results[i].HeldID, i)
		require.Equal(t, want.code, results[i].Err().Code, i)
		require.Contains(t, results[i].Err().Message, want.named, i)
	}
	require.Equal(t, results[2].HeldID, results[6].HeldID, "one identity is held once")
	require.Equal(t, int64(4), r.requireUsage(t).rows)

	all := r.rows(t)
	h := all[ids[0]]
	require.Equal(t, Held, h.State)
	require.Equal(t, store.At(noon.Add(api.MaxRowAge)), h.ExpiresAt)
	answered, err := json.Marshal(h)
	require.NoError(t, err)
	require.NotContains(t, string(answered), "ada@", "responses have no personal data")
	require.NotContains(t, string(answered), "gaze")
	require.Equal(t, `{"vendor":"acme","idType":"player","vendorId":"1","rowId":"play-1","playedAt":"2026-11-20T12:00:00Z","dwellMs":8.2e3,"spatialPlacementId":"","correlationId":null}`, string(h.Row))
	require.Equal(t, held("1").Row, string(h.whole()), "what is delivered is what was sent, word for word")
}

// TestHeldRowsKeepWhatMatters: the vendor that a batch named for all is the row's, in any
// order of members; what no row has is not kept.
func TestHeldRowsKeepWhatMatters(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), nil)
	for sent, want := range map[string]string{
		`{"vendor":"acme","playedAt":"x","vendor":null}`:                 `{"vendor":"acme","idType":"player","vendorId":"1","playedAt":"x"}`,
		` { "multiplier" : "2.50" , "secret":1, "rowId":"\u00e9\u0000"}`: `{"vendor":"acme","idType":"player","vendorId":"1","rowId":"\u00e9\u0000","multiplier":"2.50"}`,
		`{"telemetry":{},"dataSubjectId":"é"}`:                           `{"vendor":"acme","idType":"player","vendorId":"1","dataSubjectId":"é","telemetry":{}}`,
		`{"telemetry":null,"dataSubjectId":null}`:                        `{"vendor":"acme","idType":"player","vendorId":"1","telemetry":null}`,
		`{}`: `{"vendor":"acme","idType":"player","vendorId":"1"}`,
	} {
		requested := held("1")
		requested.Row = sent
		h, err := r.take(tenantID, "key_a", &requested, at(0))
		require.NoError(t, err)
		require.Equal(t, want, string(h.whole()), sent)
	}
	for _, bad := range []string{``, `null`, `[]`, `{"dataSubjectId":1}`, `{`, `{"dataSubjectId":"a\u0000"}`} {
		requested := held("1")
		requested.Row = bad
		_, err := r.take(tenantID, "key_a", &requested, at(0))
		require.Equal(t, api.ValidationFailed, api.From(err).Code, bad)
	}
}

// TestHoldQuota is exact, for rows and bytes, also for two processes at once.
func TestHoldQuota(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"rows":  func(c *Config) { c.MaxHeldRows = 10 },
		"bytes": func(c *Config) { c.MaxHeldBytes = 6000 },
	} {
		dir, clock := t.TempDir(), roomtest.NewClock(noon)
		services := []*Service{newService(t, dir, clock, change), newService(t, dir, clock, change)}
		var all sync.WaitGroup
		for i, r := range services {
			all.Go(func() {
				for n := range 20 {
					results, err := r.Hold(context.Background(), api.HoldRequest{TenantID: tenantID, KeyID: "key_a", Rows: []api.HeldRow{held(fmt.Sprint(i, "-", n))}})
					if err != nil {
						t.Error(err)
					} else if e := results[0].Err(); e != nil && e.Code != api.RateLimited {
						t.Error(e)
					}
				}
			})
		}
		all.Wait()
		u := services[0].requireUsage(t)
		if name == "rows" {
			require.Equal(t, int64(10), u.rows)
		}
		require.LessOrEqual(t, u.bytes, int64(6000))
		require.Greater(t, u.bytes, int64(4000))
		for _, h := range services[0].rows(t) {
			services[1].mustHold(t, held(h.VendorID)) // what is held already needs no space
		}
	}
}

// TestHoldBehindAMapping: a node that has not applied a mapping yet holds rows that it covers. They
// are delivered nevertheless, also if they are held again.
func TestHoldBehindAMapping(t *testing.T) {
	n := newDeliverer()
	r := newService(t, t.TempDir(), roomtest.NewClock(noon.Add(time.Hour)), func(c *Config) { c.Deliver = n.deliver })
	r.mustCreate(t, mappingFor("1", rightA, -1, 0))
	r.mustCreate(t, mappingFor("2", rightA, -1, 1))
	ids := r.mustHold(t, held("1"), held("2"))
	require.NoError(t, r.work(t))
	require.Equal(t, map[string]int{held("2").Row: 1}, n.delivered)
	require.Equal(t, Held, r.rows(t)[ids[0]].State)
}

// TestHoldMeetsAMapping holds rows while their mappings are made, in two processes: whichever
// comes first, none is left behind.
func TestHoldMeetsAMapping(t *testing.T) {
	stacktest.Both(t)
	n := newDeliverer()
	dir, clock := t.TempDir(), roomtest.NewClock(noon.Add(time.Hour))
	with := func(c *Config) { c.Deliver = n.deliver }
	a, b := newService(t, dir, clock, with), newService(t, dir, clock, with)
	const players = 40
	var all sync.WaitGroup
	all.Go(func() {
		for i := range players {
			results, err := a.Hold(context.Background(), api.HoldRequest{TenantID: tenantID, KeyID: "key_a", Rows: []api.HeldRow{held(fmt.Sprint(i))}})
			if err != nil || results[0].Err() != nil {
				t.Error(err, results)
			}
		}
	})
	all.Go(func() {
		for i := range players {
			if _, err := b.create(context.Background(), mappingFor(fmt.Sprint(i), rightA, -1, 0), byKey); err != nil {
				t.Error(err)
			}
			if _, err := b.create(context.Background(), mappingFor(fmt.Sprint(i), rightA, 0, 0), byKey); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	require.NoError(t, a.work(t))
	require.Len(t, n.delivered, players)
	require.Zero(t, a.requireUsage(t).rows)
}

// TestExpire: a row that waited too long is not delivered, and is deleted later, as is a delivered
// one.
func TestExpire(t *testing.T) {
	n := newDeliverer()
	clock := roomtest.NewClock(noon.Add(time.Hour))
	r := newService(t, t.TempDir(), clock, func(c *Config) { c.Deliver = n.deliver })
	var rows []api.HeldRow
	for i := range dueAtOnce + 10 {
		rows = append(rows, held(fmt.Sprint(i)))
	}
	ids := r.mustHold(t, rows...)
	r.mustCreate(t, mappingFor("0", rightA, -1, 1))
	require.NoError(t, r.work(t))
	require.NoError(t, r.Expire(t.Context()))
	require.Equal(t, int64(len(rows)-1), r.requireUsage(t).rows, "nothing is due yet")

	clock.Set(noon.Add(api.MaxRowAge - time.Millisecond))
	require.NoError(t, r.Expire(t.Context()))
	require.NotContains(t, r.rows(t), ids[0], "it was delivered long ago")
	require.Len(t, r.rows(t), len(rows)-1)
	r.mustCreate(t, mappingFor("1", rightA, -1, 1))
	require.NoError(t, r.work(t))
	require.Len(t, n.delivered, 2, "the last moment")

	clock.Set(noon.Add(api.MaxRowAge))
	require.NoError(t, r.Expire(t.Context()))
	require.Equal(t, int64(len(rows)-2), r.requireUsage(t).rows, "a delivery that has begun may still end")
	clock.Set(noon.Add(api.MaxRowAge + replayMargin))
	require.NoError(t, r.Expire(t.Context()))
	require.Zero(t, r.requireUsage(t).rows)
	for id, h := range r.rows(t) {
		if id == ids[1] {
			require.Equal(t, Replayed, h.State)
			continue
		}
		require.Equal(t, Expired, h.State, id)
		require.Equal(t, personal{}, h.personal)
		require.Nil(t, h.Row)
	}
	r.mustCreate(t, mappingFor("2", rightA, -1, 1))
	require.NoError(t, r.work(t))
	require.Len(t, n.delivered, 2)
	clock.Set(noon.Add(api.MaxRowAge + replayMargin + keepEnded))
	require.NoError(t, r.Expire(t.Context()))
	require.Empty(t, r.rows(t))
}

// TestRowAge: where nodes take no older rows, none is held for longer.
func TestRowAge(t *testing.T) {
	clock := roomtest.NewClock(noon)
	r := newService(t, t.TempDir(), clock, func(c *Config) { c.RowAge = 24 * time.Hour })
	ids := r.mustHold(t, held("1"))
	require.Equal(t, at(24), r.rows(t)[ids[0]].ExpiresAt)
	clock.Set(at(24).Time)
	results, err := r.Hold(t.Context(), api.HoldRequest{TenantID: tenantID, KeyID: "key_a", Rows: []api.HeldRow{held("2")}})
	require.NoError(t, err)
	require.Equal(t, api.ValidationFailed, results[0].Err().Code)
	clock.Set(at(24).Time.Add(replayMargin))
	require.NoError(t, r.Expire(t.Context()))
	require.Equal(t, Expired, r.rows(t)[ids[0]].State)
	_, err = New(Config{DB: r.db, Nodes: r.nodes, Deliver: r.cfg.Deliver, RowAge: api.MaxRowAge + 1})
	require.ErrorContains(t, err, "RowAge")
}

// TestErasedPersonIsInNoHeldRow, and what was not erased is delivered all the same.
func TestErasedPersonIsInNoHeldRow(t *testing.T) {
	n := newDeliverer()
	r := newService(t, t.TempDir(), roomtest.NewClock(noon.Add(time.Hour)), func(c *Config) { c.Deliver = n.deliver })
	ids := r.mustHold(t, held("1"))
	require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := Tables.Erase(t.Context(), tx, tenantID, sealer.NewPerson("ada@example.org"), "erased", nil, nil)
		return err
	}))
	rows, err := r.db.Read().QueryContext(t.Context(), `SELECT * FROM held_rows`)
	require.NoError(t, err)
	defer rows.Close()
	names, err := rows.Columns()
	require.NoError(t, err)
	require.True(t, rows.Next())
	columns, into := make([]sql.NullString, len(names)), make([]any, len(names))
	for i := range columns {
		into[i] = &columns[i]
	}
	require.NoError(t, rows.Scan(into...))
	for i, c := range columns {
		require.NotContains(t, c.String, "ada@", names[i])
		require.NotContains(t, c.String, "gaze", names[i])
		require.NotContains(t, c.String, "content of", names[i])
	}
	require.NoError(t, rows.Close())
	guess := held("1")
	guess.Content = "a guess"
	require.Equal(t, append(ids, ids...), r.mustHold(t, held("1"), guess), "the caller's retry is none the wiser")
	r.mustCreate(t, mappingFor("1", rightA, -1, 1))
	require.NoError(t, r.work(t))
	require.Len(t, n.delivered, 1)
	for text := range n.delivered {
		require.NotContains(t, text, `dataSubjectId`)
	}
}

// TestHeldRowsAreSearchedAhead: an erasure finds the person in what was held by the time of the search, unless it has been
// delivered since, and in what was held or refused after it. Of other rows it reads no text in the change.
func TestHeldRowsAreSearchedAhead(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon.Add(time.Hour)), nil)
	ada := sealer.NewPerson("ada@example.org")
	of := func(player, person string) api.HeldRow {
		h := held(player)
		h.Row = strings.ReplaceAll(h.Row, "ada@example.org", person)
		return h
	}
	before := r.mustHold(t, held("1"), of("2", "bob@example.org"), held("3"))
	var ahead *store.Ahead
	require.NoError(t, r.db.Search(t.Context(), func(q store.Querier) (err error) {
		ahead, err = Tables.Ahead(t.Context(), q, tenantID, ada)
		return err
	}))
	after := r.mustHold(t, held("4"), of("5", "bob@example.org"))
	exec := func(statement string, args ...any) {
		require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
			_, err := tx.ExecContext(t.Context(), statement, args...)
			return err
		}))
	}
	exec(`UPDATE held_rows SET data_subjects = '["ada@example.org"]' WHERE held_id = $1`, before[1]) // no text of a row changes without its state
	exec(`UPDATE held_rows SET data_subjects = '', row_text = '', telemetry = '', state = 'REPLAYED' WHERE held_id = $1`, before[2])
	var found []string
	require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := Tables.Erase(t.Context(), tx, tenantID, ada, "erased", ahead, func(of store.Sight) error {
			found = append(found, of.Mentions[0].ID)
			return nil
		})
		return err
	}))
	require.ElementsMatch(t, []string{before[0], after[0]}, found)
	if !r.db.Shared() {
		for _, table := range Tables {
			if table.Personal == nil || len(table.Personal.Versions) == 0 {
				continue
			}
			plan, err := store.List(t.Context(), r.db.Read(), "a plan", func(row store.Row) (step string, err error) {
				return step, row.Scan(new(int), new(int), new(int), &step)
			}, `EXPLAIN QUERY PLAN SELECT `+strings.Join(table.Personal.Versions, ", ")+` FROM `+table.Name+` WHERE tenant_id = $1`, tenantID)
			require.NoError(t, err)
			require.Contains(t, strings.Join(plan, "\n"), "COVERING INDEX")
		}
	}
}

// TestHeldRowOfSeveral: a row that names two persons loses each alone, and its telemetry with the last.
func TestHeldRowOfSeveral(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), nil)
	both := held("1")
	both.Row = strings.Replace(both.Row, `{`, `{"dataSubjectIds":["bob@example.org","ada@example.org"],`, 1)
	ids := r.mustHold(t, both)
	row := func() HeldRow {
		rows, err := store.List(t.Context(), r.db.Read(), "held rows", scanHeld, `SELECT `+heldColumns+` FROM held_rows`)
		require.NoError(t, err)
		require.Len(t, rows, 1)
		return rows[0]
	}
	before := row()
	require.Equal(t, `["ada@example.org","bob@example.org"]`, before.personal.dataSubjects)
	require.JSONEq(t, strings.Replace(before.writtenRow, `{`, `{"dataSubjectId":"ada@example.org","dataSubjectIds":["bob@example.org"],"telemetry":`+before.personal.telemetry+`,`, 1), string(before.whole()))
	erase := func(person string) (seen []store.Sight) {
		require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
			_, err := Tables.Erase(t.Context(), tx, tenantID, sealer.NewPerson(person), "erased", nil, func(s store.Sight) error {
				seen = append(seen, s)
				return nil
			})
			return err
		}))
		require.Len(t, seen, 1)
		return seen
	}
	ada := store.Mention{Kind: "heldRow", ID: ids[0], Field: "dataSubjects", Text: "ada@example.org"}
	seen := erase("ADA@example.org")
	require.Equal(t, []store.Mention{ada}, seen[0].Mentions)
	require.NotContains(t, seen[0].Texts, "bob@example.org", "whose bundles have nothing of ada")
	require.Equal(t, personal{`["bob@example.org"]`, before.personal.telemetry}, row().personal)
	require.Empty(t, row().content, "it would confirm a guess")
	seen = erase("bob@example.org")
	require.Equal(t, "telemetry", seen[0].Mentions[1].Field)
	require.Contains(t, seen[0].Texts, before.personal.telemetry, "which may name others, whose bundles have it")
	require.Equal(t, personal{}, row().personal)
}

// TestHeldTextsOfAnErasedPerson: a held row that is about somebody else loses the texts that name the
// person, and nothing else, and is delivered under its identity.
func TestHeldTextsOfAnErasedPerson(t *testing.T) {
	n := newDeliverer()
	r := newService(t, t.TempDir(), roomtest.NewClock(noon.Add(time.Hour)), func(c *Config) { c.Deliver = n.deliver })
	bobs := held("1")
	bobs.Row = strings.NewReplacer("ada@", "bob@", "play-1", "play of ada@example.org", `:"",`, `:"at ada@example.org's",`, `"correlationId":null`, `"correlationId":"(ADA@example.org)"`,
		`{"gazeInView":  true}`, `{"beamId" : "of ada@example.org","more":[{"ada@example.org":["ada@example.org"]},"adam@example.org"],"viewable":  true}`).Replace(bobs.Row)
	played := held("2") // only what was played there names her
	played.Row = strings.NewReplacer("ada@example.org", "bob", "true", `["ada@example.org"]`).Replace(played.Row)
	ids := r.mustHold(t, bobs, played)
	var seen []store.Sight
	require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := Tables.Erase(t.Context(), tx, tenantID, sealer.NewPerson("ada@example.org"), "erased", nil, func(s store.Sight) error {
			seen = append(seen, s)
			return nil
		})
		return err
	}))
	var fields []string
	for _, s := range seen {
		for _, m := range s.Mentions {
			fields = append(fields, m.Field)
		}
	}
	require.ElementsMatch(t, []string{"rowId", "spatialPlacementId", "correlationId", "beamId", "more", "gazeInView"}, fields)
	require.Equal(t, `{"gazeInView":  ["erased"]}`, r.rows(t)[ids[1]].personal.telemetry)
	row := r.rows(t)[ids[0]]
	require.Equal(t, personal{`["bob@example.org"]`, `{"beamId" : "erased","more":[{"ada@example.org":["erased"]},"adam@example.org"],"viewable":  true}`}, row.personal)
	require.Empty(t, row.content)
	r.mustCreate(t, mappingFor("1", rightA, -1, 1))
	require.NoError(t, r.work(t))
	require.Len(t, n.delivered, 1)
	for text := range n.delivered {
		require.Contains(t, text, `"rowId":"erased"`)
		require.Contains(t, text, `"dataSubjectId":"bob@example.org"`)
		require.Equal(t, bobs.Identity, n.identities[text])
	}
}

// TestKeptVendorIDs: rows whose vendor's id names a person are counted, as an erasure leaves it.
func TestKeptVendorIDs(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), nil)
	of := held("phone of ada@example.org")
	of.Row = strings.Replace(of.Row, `"dataSubjectId":"ada@example.org"`, `"dataSubjectId":"bob"`, 1)
	r.mustHold(t, held("1"), of)
	_, err := r.Hold(t.Context(), api.HoldRequest{TenantID: tenantID, KeyID: "key_a", Rejected: []api.RejectedPlay{{Hash: "a", Format: "broadsign", Row: of.Row, Error: "{}"}}})
	require.NoError(t, err)
	for person, want := range map[string]map[string]int64{"ADA@example.org": {"heldRow": 1, "rejectedPlay": 1}, "acme": {"heldRow": 2, "rejectedPlay": 1}, "bob": {}} {
		kept, err := Tables.Kept(t.Context(), r.db.Read(), tenantID, sealer.NewPerson(person))
		require.NoError(t, err)
		require.Equal(t, want, kept, person)
	}
}

// TestErasedPersonIsInNoError: the error of a row that was refused has a text of its telemetry once, where an
// erasure finds it.
func TestErasedPersonIsInNoError(t *testing.T) {
	n := newDeliverer()
	violations := `[{"rule":"a","observed":80,"message":"80 mph (ada@example.org)"},{"rule":"b","observed":"of ada@example.org","message":"outside (of ada@example.org)"},{"rule":"c","observed":null,"message":"as ever"}]`
	n.refuse["1"] = &api.Error{Code: api.ValidationFailed, Message: "refused", Violations: json.RawMessage(violations)}
	r := newService(t, t.TempDir(), roomtest.NewClock(noon.Add(time.Hour)), func(c *Config) { c.Deliver = n.deliver })
	ids := r.mustHold(t, held("1"))
	r.mustCreate(t, mappingFor("1", rightA, -1, 1))
	require.NoError(t, r.work(t))
	refused := func() string { return string(r.rows(t)[ids[0]].Error.Violations) }
	require.Equal(t, strings.Replace(violations, "outside (of ada@example.org)", "outside", 1), refused())
	require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
		found, err := Tables.Erase(t.Context(), tx, tenantID, sealer.NewPerson("ada@example.org"), "erased", nil, nil)
		require.Equal(t, map[string]int64{"heldRow": 1}, found.Rows)
		return err
	}))
	require.Contains(t, refused(), `"observed":"erased","message":"outside"`)
}

// TestHeldOfAnErasedPerson: a row of a person whom an erasure covers is held without reference and
// telemetry, again too, and without texts that name the person; so is a rejected play. Rows of others are
// held as they are.
func TestHeldOfAnErasedPerson(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), func(c *Config) {
		c.Erased = func(_ context.Context, _ store.Querier, of string) (func(string) string, error) {
			require.Equal(t, tenantID, of)
			return func(reference string) string {
				if sealer.NewPerson("ada@example.org").Is(reference) {
					return "erased"
				}
				return ""
			}, nil
		}
	})
	bob := held("2")
	bob.Row = strings.ReplaceAll(bob.Row, "ada@", "bob@")
	both := held("3")
	both.Row = strings.NewReplacer(`{"vendor"`, `{"dataSubjectIds":["bob@example.org","ada@example.org"],"vendor"`, `"correlationId":null`, `"correlationId":"for Ada@example.org"`,
		`{"gazeInView":  true}`, `{"beamId":"of ada@example.org"}`).Replace(both.Row)
	texts := held("4")
	texts.Row = strings.NewReplacer("ada@", "bob@", "play-4", "play of ada@example.org").Replace(texts.Row)
	ids := r.mustHold(t, held("1"), bob, both, texts)
	require.Equal(t, ids[:1], r.mustHold(t, held("1")), "the caller's retry is none the wiser")
	_, err := r.Hold(t.Context(), api.HoldRequest{TenantID: tenantID, KeyID: "key_a", Rejected: []api.RejectedPlay{{Hash: "a", Format: "broadsign", Row: texts.Row, Error: "{}"}}})
	require.NoError(t, err)
	rows, err := store.List(t.Context(), r.db.Read(), "held rows", scanHeld, `SELECT `+heldColumns+` FROM held_rows ORDER BY vendor_id`)
	require.NoError(t, err)
	require.Len(t, rows, 4)
	require.Equal(t, personal{}, rows[0].personal)
	require.Empty(t, rows[0].content)
	require.Equal(t, `["bob@example.org"]`, rows[1].personal.dataSubjects)
	require.NotEmpty(t, rows[1].personal.telemetry)
	require.NotEmpty(t, rows[1].content)
	require.Equal(t, personal{`["bob@example.org"]`, `{"beamId":"erased"}`}, rows[2].personal)
	require.Contains(t, rows[2].writtenRow, `"correlationId":"erased"`)
	require.Empty(t, rows[2].content)
	require.Equal(t, rows[1].personal, rows[3].personal)
	require.Contains(t, rows[3].writtenRow, `"rowId":"erased"`)
	require.Empty(t, rows[3].content)
	require.NoError(t, EachRejected(t.Context(), r.db.Read(), tenantID, func(p RejectedPlay) error {
		require.Contains(t, string(p.Row), `"rowId":"erased"`)
		require.NotContains(t, string(p.Row), "ada@")
		return nil
	}))
}

// TestTextsBeyondSearch: while a person is being erased, a row that would take long to search is refused for a
// while; others of the request are held.
func TestTextsBeyondSearch(t *testing.T) {
	erased := func(string) string { return "" }
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), func(c *Config) {
		c.Erased = func(context.Context, store.Querier, string) (func(string) string, error) { return erased, nil }
	})
	hostile := held("1")
	hostile.Row = strings.Replace(hostile.Row, "true", `"`+strings.Repeat(".", 60_000)+`"`, 1)
	results, err := r.Hold(t.Context(), api.HoldRequest{TenantID: tenantID, KeyID: "key_a", Rows: []api.HeldRow{held("2"), hostile, held("3")}})
	require.NoError(t, err)
	require.NotEmpty(t, results[0].HeldID)
	require.Equal(t, api.RateLimited, results[1].Error.Code)
	require.NotEmpty(t, results[2].HeldID)
	erased = nil
	require.Len(t, r.mustHold(t, hostile), 1)
}

// TestHoldNeedsATenant: a request that names another tenant's key, or none, holds nothing.
func TestHoldNeedsATenant(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), nil)
	_, err := r.Hold(t.Context(), api.HoldRequest{TenantID: "tnt_none", KeyID: "key_a", Rows: []api.HeldRow{held("1")}})
	require.Error(t, err)
	require.Empty(t, r.rows(t))
	none, err := r.Hold(t.Context(), api.HoldRequest{TenantID: tenantID, KeyID: "key_a"})
	require.NoError(t, err)
	require.Empty(t, none)
}
