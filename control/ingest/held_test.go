package ingest

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/control/store"
	"muniment/gateway/api"
)

// held is a row of a player, as a node sends it, played at noon. It tells of a person.
func held(player string) api.HeldRow {
	text := fmt.Sprintf(`{"vendor":"acme","idType":"player","vendorId":%q,"rowId":"play-%[1]s","playedAt":"2026-11-20T12:00:00Z","dwellMs":8.2e3,"spatialPlacementId":"","correlationId":null,"dataSubjectId":"ada@example.org","telemetry":{"gazeInView":  true}}`, player)
	return api.HeldRow{Identity: api.RowIdentity{Hash: "hash of " + player}, Vendor: "acme", IDType: "player", VendorID: player, PlayedAt: noon, Row: text}
}

func (r *Room) mustHold(t require.TestingT, rows ...api.HeldRow) (ids []string) {
	results, err := r.Hold(context.Background(), api.HoldRequest{TenantID: tenantID, KeyID: "key_a", Rows: rows})
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
func (r *Room) rows(t require.TestingT) map[string]HeldRow {
	all := map[string]HeldRow{}
	for s := (store.Slice{Limit: 500}); ; {
		page, next, err := listHeld(context.Background(), r.db.Read(), tenantID, heldFilter{}, s)
		require.NoError(t, err)
		for _, h := range page {
			all[h.ID] = h
		}
		if s.Behind = next; next == "" {
			return all
		}
	}
}

// requireUsage holds what is counted against what is there.
func (r *Room) requireUsage(t require.TestingT) usage {
	var counted, there usage
	require.NoError(t, r.db.Read().QueryRowContext(context.Background(), `SELECT row_count, bytes FROM held_usage WHERE tenant_id = $1`, tenantID).Scan(&counted.rows, &counted.bytes))
	require.NoError(t, r.db.Read().QueryRowContext(context.Background(), `SELECT COUNT(*), CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM held_rows WHERE tenant_id = $1 AND state = 'HELD'`, tenantID).Scan(&there.rows, &there.bytes))
	require.Equal(t, there, counted)
	return there
}

func TestHold(t *testing.T) {
	r := newRoom(t, t.TempDir(), &clock{at: noon}, nil)
	ids := r.mustHold(t, held("1"), held("2"))
	require.Equal(t, ids, r.mustHold(t, held("1"), held("2")), "they are held already")
	byDay := held("1")
	byDay.Identity.Day = "2026-11-20"
	require.NotContains(t, ids, r.mustHold(t, byDay)[0], "another identity")
	require.Equal(t, int64(3), r.requireUsage(t).rows)

	other, late, long, strange, nul := held("1"), held("late"), held("long"), held("strange"), held("nul")
	other.Row = strings.Replace(other.Row, "8.2e3", "8.3e3", 1)
	personal := held("2")
	personal.Row = strings.Replace(personal.Row, "ada@", "bob@", 1)
	late.PlayedAt = noon.Add(-holdFor)
	long.Row = strings.Replace(long.Row, "play-", strings.Repeat("x", api.MaxHeldRow), 1)
	strange.Row = `[1]`
	nul.VendorID = "a\x00"
	results, err := r.Hold(t.Context(), api.HoldRequest{TenantID: tenantID, KeyID: "key_a", Rows: []api.HeldRow{other, personal, late, held("3"), long, strange, nul, held("3")}})
	require.NoError(t, err)
	for i, want := range []struct {
		code  api.Code
		named string
	}{
		{api.StateConflict, ids[0]}, {api.StateConflict, ids[1]}, {api.ValidationFailed, "too long ago"}, {}, {api.ValidationFailed, "65536 bytes"},
		{api.ValidationFailed, "no row"}, {api.ValidationFailed, "U+0000"}, {},
	} {
		if want.code == "" {
			require.Nil(t, results[i].Err(), i)
			continue
		}
		require.Empty(t, results[i].HeldID, i)
		require.Equal(t, want.code, results[i].Err().Code, i)
		require.Contains(t, results[i].Err().Message, want.named, i)
	}
	require.Equal(t, results[3].HeldID, results[7].HeldID, "one identity is held once")
	require.Equal(t, int64(4), r.requireUsage(t).rows)

	all := r.rows(t)
	h := all[ids[0]]
	require.Equal(t, Held, h.State)
	require.Equal(t, store.At(noon.Add(holdFor)), h.ExpiresAt)
	answered, err := json.Marshal(h)
	require.NoError(t, err)
	require.NotContains(t, string(answered), "ada@", "nobody is shown what tells of a person")
	require.NotContains(t, string(answered), "gaze")
	require.Equal(t, `{"vendor":"acme","idType":"player","vendorId":"1","rowId":"play-1","playedAt":"2026-11-20T12:00:00Z","dwellMs":8.2e3,"spatialPlacementId":"","correlationId":null}`, string(h.Row))
	require.Equal(t, held("1").Row, string(h.whole()), "what is delivered is what was sent, word for word")
}

// TestHeldRowsKeepWhatMatters: the vendor that a batch named for all is the row's, in any
// order of members; what no row has is not kept.
func TestHeldRowsKeepWhatMatters(t *testing.T) {
	for sent, want := range map[string]string{
		`{"vendor":"acme","playedAt":"x","vendor":null}`:                 `{"vendor":"acme","idType":"player","vendorId":"1","playedAt":"x"}`,
		` { "multiplier" : "2.50" , "secret":1, "rowId":"\u00e9\u0000"}`: `{"vendor":"acme","idType":"player","vendorId":"1","rowId":"\u00e9\u0000","multiplier":"2.50"}`,
		`{"telemetry":{},"dataSubjectId":"é"}`:                           `{"vendor":"acme","idType":"player","vendorId":"1","dataSubjectId":"é","telemetry":{}}`,
		`{"telemetry":null,"dataSubjectId":null}`:                        `{"vendor":"acme","idType":"player","vendorId":"1","telemetry":null}`,
		`{}`: `{"vendor":"acme","idType":"player","vendorId":"1"}`,
	} {
		asked := held("1")
		asked.Row = sent
		h, err := take(tenantID, "key_a", &asked, at(0))
		require.NoError(t, err)
		require.Equal(t, want, string(h.whole()), sent)
	}
	for _, bad := range []string{``, `null`, `[]`, `{"dataSubjectId":1}`, `{`, `{"dataSubjectId":"a\u0000"}`} {
		asked := held("1")
		asked.Row = bad
		_, err := take(tenantID, "key_a", &asked, at(0))
		require.Equal(t, api.ValidationFailed, api.From(err).Code, bad)
	}
}

// TestHoldQuota is exact, for rows and bytes, also for two processes at once.
func TestHoldQuota(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"rows":  func(c *Config) { c.MaxHeldRows = 10 },
		"bytes": func(c *Config) { c.MaxHeldBytes = 6000 },
	} {
		dir, clock := t.TempDir(), &clock{at: noon}
		rooms := []*Room{newRoom(t, dir, clock, change), newRoom(t, dir, clock, change)}
		var all sync.WaitGroup
		for i, r := range rooms {
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
		u := rooms[0].requireUsage(t)
		if name == "rows" {
			require.Equal(t, int64(10), u.rows)
		}
		require.LessOrEqual(t, u.bytes, int64(6000))
		require.Greater(t, u.bytes, int64(4000))
		for _, h := range rooms[0].rows(t) {
			rooms[1].mustHold(t, held(h.VendorID)) // what is held already needs no room
		}
	}
}

// deliverer is the nodes that deliver held rows, of any number of processes.
type deliverer struct {
	mu        sync.Mutex
	delivered map[string]int // receipts by the row's text
	keys      map[string]string
	refuse    map[string]*api.Error // by vendor id
	blind     int                   // for so many calls it knows no mapping
	crash     int                   // the next so many calls deliver, and then fail
}

func newDeliverer() *deliverer {
	return &deliverer{delivered: map[string]int{}, keys: map[string]string{}, refuse: map[string]*api.Error{}}
}

func (n *deliverer) deliver(_ context.Context, tenant, keyID string, rows [][]byte) (all []Delivered, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if tenant != tenantID {
		return nil, errors.New("another tenant")
	}
	if n.blind > 0 {
		n.blind--
		return slices.Repeat([]Delivered{{Unmapped: true}}, len(rows)), nil
	}
	for _, text := range rows {
		var row api.Row
		if err := json.Unmarshal(text, &row); err != nil {
			return nil, err
		}
		if e := n.refuse[row.VendorID]; e != nil {
			all = append(all, Delivered{Err: e})
			continue
		}
		n.delivered[string(text)]++
		n.keys[string(text)] = keyID
		all = append(all, Delivered{ReceiptID: "rcp_" + row.VendorID})
	}
	if n.crash > 0 {
		n.crash--
		return nil, errors.New("killed")
	}
	return all, nil
}

// work does the jobs that are there, as a process of control does, and returns the last error.
func (r *Room) work(t *testing.T) (last error) {
	t.Helper()
	for range 100 {
		job, err := r.db.Claim(t.Context(), ReplayJob, time.Minute)
		require.NoError(t, err)
		if job == nil {
			return last
		}
		if last = r.Replay(t.Context(), job); last != nil {
			require.NoError(t, job.Retry(t.Context(), "FAILED", 0))
			continue
		}
		require.NoError(t, job.Done(t.Context()))
	}
	require.Fail(t, "the jobs don't end", "%v", last)
	return last
}

// TestReplay: a mapping that is made delivers what waited for it, and nothing else.
func TestReplay(t *testing.T) {
	n := newDeliverer()
	r := newRoom(t, t.TempDir(), &clock{at: noon.Add(time.Hour)}, func(c *Config) { c.Deliver = n.deliver })
	n.refuse["4"] = api.Conflict("the right is not ACTIVE: it is REVOKED")
	ids := r.mustHold(t, held("1"), held("2"), held("3"), held("4"))
	require.NoError(t, r.work(t))
	require.Empty(t, n.delivered)

	r.mustCreate(t, ask("2", rightA, 1, 2)) // after its play
	require.NoError(t, r.work(t))
	require.Empty(t, n.delivered)

	n.blind = 2
	for _, player := range []string{"1", "3", "4"} {
		r.mustCreate(t, ask(player, rightA, -1, 1))
	}
	require.NoError(t, r.work(t))
	require.Equal(t, map[string]int{held("1").Row: 1, held("3").Row: 1}, n.delivered, "whole, with what tells of a person")
	require.Equal(t, map[string]string{held("1").Row: "key_a", held("3").Row: "key_a"}, n.keys)
	all := r.rows(t)
	for i, want := range []struct {
		state    HeldState
		receipt  string
		refusal  *api.RowError
		answered bool
	}{
		{Replayed, "rcp_1", nil, false},
		{Held, "", nil, true},
		{Replayed, "rcp_3", nil, false},
		{Replayed, "", &api.RowError{Code: api.StateConflict, Message: "the right is not ACTIVE: it is REVOKED"}, false},
	} {
		h := all[ids[i]]
		require.Equal(t, want.state, h.State, i)
		require.Equal(t, want.receipt, text(h.ReceiptID), i)
		require.Equal(t, want.refusal, h.Error, i)
		require.Equal(t, want.answered, h.Row != nil, i)
		if want.state == Replayed {
			require.Equal(t, personal{}, h.personal, "nothing is left that tells of a person")
			require.Empty(t, h.writtenRow)
		}
	}
	require.Equal(t, int64(1), r.requireUsage(t).rows)
	require.Equal(t, ids[:1], r.mustHold(t, held("1")), "it stays what it was")
}

// TestRowsOfARevokedKeyAreRefused, all at once: the node takes nothing in its name.
func TestRowsOfARevokedKeyAreRefused(t *testing.T) {
	revoked := &api.Error{Code: api.AuthInvalid, Message: "the API key is not valid"}
	r := newRoom(t, t.TempDir(), &clock{at: noon.Add(time.Hour)}, func(c *Config) {
		c.Deliver = func(context.Context, string, string, [][]byte) ([]Delivered, error) { return nil, revoked }
	})
	ids := r.mustHold(t, held("1"))
	r.mustCreate(t, ask("1", rightA, -1, 1))
	require.NoError(t, r.work(t))
	h := r.rows(t)[ids[0]]
	require.Equal(t, Replayed, h.State)
	require.Equal(t, &api.RowError{Code: api.AuthInvalid, Message: "the API key is not valid"}, h.Error)
}

// TestReplayOfAnImport delivers what waited for any of its lines, more than a node takes at
// once, of several keys.
func TestReplayOfAnImport(t *testing.T) {
	n := newDeliverer()
	r := newRoom(t, t.TempDir(), &clock{at: noon.Add(time.Hour)}, func(c *Config) { c.Deliver = n.deliver })
	r.relay(t)
	const rows = 2*replayAtOnce + 50
	csv := "vendor,idType,vendorId,rightId,spatialAnchorId,effectiveFrom\n"
	for i := range rows {
		player := fmt.Sprint(i)
		_, err := r.Hold(t.Context(), api.HoldRequest{TenantID: tenantID, KeyID: fmt.Sprint("key_", i%3), Rows: []api.HeldRow{held(player)}})
		require.NoError(t, err)
		csv += "acme,player," + player + ",rgh_a,wall,2026-11-01\n"
	}
	_, err := r.importAll(t.Context(), tenantID, []byte(csv), byKey)
	require.NoError(t, err)
	require.NoError(t, r.work(t))
	require.Len(t, n.delivered, rows)
	for i := range rows {
		require.Equal(t, 1, n.delivered[held(fmt.Sprint(i)).Row])
		require.Equal(t, fmt.Sprint("key_", i%3), n.keys[held(fmt.Sprint(i)).Row])
	}
	require.Zero(t, r.requireUsage(t).rows)
}

// TestReplayIsBegunAgain: a process that is killed, between a delivery and what is written of
// it too, leaves all to the next, and so does a node that can't deliver now.
func TestReplayIsBegunAgain(t *testing.T) {
	n := newDeliverer()
	dir, clock := t.TempDir(), &clock{at: noon.Add(time.Hour)}
	with := func(c *Config) { c.Deliver = n.deliver }
	a, b := newRoom(t, dir, clock, with), newRoom(t, dir, clock, with)
	ids := a.mustHold(t, held("1"), held("2"))
	b.mustCreate(t, ask("1", rightA, -1, 0))
	b.mustCreate(t, ask("2", rightA, -1, 1))
	b.mustCreate(t, ask("1", rightA, 0, 1))
	n.crash = 1
	job, err := a.db.Claim(t.Context(), ReplayJob, time.Minute)
	require.NoError(t, err)
	require.ErrorContains(t, a.Replay(t.Context(), job), "killed")
	clock.set(clock.Now().Add(2 * time.Minute)) // and its lease is over
	n.refuse["2"] = api.Unavailable(api.LogUnavailable, "the log is away", time.Second)
	job2, err := b.db.Claim(t.Context(), ReplayJob, time.Minute)
	require.NoError(t, err)
	require.Equal(t, job.ID, job2.ID)
	require.ErrorContains(t, b.Replay(t.Context(), job2), "the log is away")
	require.Equal(t, Replayed, a.rows(t)[ids[0]].State)
	require.Equal(t, Held, a.rows(t)[ids[1]].State, "it is for another attempt")
	delete(n.refuse, "2")
	require.ErrorIs(t, a.Replay(t.Context(), job), store.ErrStale, "who lost the lease writes nothing")
	require.Equal(t, Held, a.rows(t)[ids[1]].State)
	require.NoError(t, job2.Retry(t.Context(), "FAILED", 0))
	require.NoError(t, a.work(t))
	require.Equal(t, Replayed, a.rows(t)[ids[1]].State)
	require.Equal(t, "rcp_2", *a.rows(t)[ids[1]].ReceiptID)
	require.Zero(t, a.requireUsage(t).rows)
}

// TestHoldBehindAMapping: a node that has not heard of a mapping yet holds what it covers, and
// that is delivered all the same; so is what is held once more.
func TestHoldBehindAMapping(t *testing.T) {
	n := newDeliverer()
	r := newRoom(t, t.TempDir(), &clock{at: noon.Add(time.Hour)}, func(c *Config) { c.Deliver = n.deliver })
	r.mustCreate(t, ask("1", rightA, -1, 0))
	r.mustCreate(t, ask("2", rightA, -1, 1))
	ids := r.mustHold(t, held("1"), held("2"))
	require.NoError(t, r.work(t))
	require.Equal(t, map[string]int{held("2").Row: 1}, n.delivered)
	require.Equal(t, Held, r.rows(t)[ids[0]].State)
}

// TestHoldMeetsAMapping holds rows while their mappings are made, in two processes: whichever
// comes first, none is left behind.
func TestHoldMeetsAMapping(t *testing.T) {
	n := newDeliverer()
	dir, clock := t.TempDir(), &clock{at: noon.Add(time.Hour)}
	with := func(c *Config) { c.Deliver = n.deliver }
	a, b := newRoom(t, dir, clock, with), newRoom(t, dir, clock, with)
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
			if _, err := b.create(context.Background(), ask(fmt.Sprint(i), rightA, -1, 0), byKey); err != nil {
				t.Error(err)
			}
			if _, err := b.create(context.Background(), ask(fmt.Sprint(i), rightA, 0, 0), byKey); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	require.NoError(t, a.work(t))
	require.Len(t, n.delivered, players)
	require.Zero(t, a.requireUsage(t).rows)
}

// TestExpire: who waited too long is not delivered, and forgotten a while later; so is who
// was delivered.
func TestExpire(t *testing.T) {
	n := newDeliverer()
	clock := &clock{at: noon.Add(time.Hour)}
	r := newRoom(t, t.TempDir(), clock, func(c *Config) { c.Deliver = n.deliver })
	var rows []api.HeldRow
	for i := range dueAtOnce + 10 {
		rows = append(rows, held(fmt.Sprint(i)))
	}
	ids := r.mustHold(t, rows...)
	r.mustCreate(t, ask("0", rightA, -1, 1))
	require.NoError(t, r.work(t))
	require.NoError(t, r.Expire(t.Context()))
	require.Equal(t, int64(len(rows)-1), r.requireUsage(t).rows, "nothing is due yet")

	clock.set(noon.Add(holdFor - replayMargin))
	require.NoError(t, r.Expire(t.Context()))
	require.NotContains(t, r.rows(t), ids[0], "it was delivered long ago")
	require.Len(t, r.rows(t), len(rows)-1)
	r.mustCreate(t, ask("1", rightA, -1, 1))
	require.NoError(t, r.work(t))
	require.Len(t, n.delivered, 1, "what is about to expire is not begun")

	clock.set(noon.Add(holdFor))
	require.NoError(t, r.Expire(t.Context()))
	require.Zero(t, r.requireUsage(t).rows)
	for id, h := range r.rows(t) {
		require.Equal(t, Expired, h.State, id)
		require.Equal(t, personal{}, h.personal)
		require.Nil(t, h.Row)
	}
	r.mustCreate(t, ask("2", rightA, -1, 1))
	require.NoError(t, r.work(t))
	require.Len(t, n.delivered, 1)
	clock.set(noon.Add(holdFor + keepEnded))
	require.NoError(t, r.Expire(t.Context()))
	require.Empty(t, r.rows(t))
}

// TestErasedPersonIsInNoHeldRow, and what was not erased is delivered all the same.
func TestErasedPersonIsInNoHeldRow(t *testing.T) {
	n := newDeliverer()
	r := newRoom(t, t.TempDir(), &clock{at: noon.Add(time.Hour)}, func(c *Config) { c.Deliver = n.deliver })
	r.mustHold(t, held("1"))
	require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
		return Tables.ErasePerson(t.Context(), tx, tenantID, "ada@example.org", "erased")
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
	}
	require.NoError(t, rows.Close())
	r.mustCreate(t, ask("1", rightA, -1, 1))
	require.NoError(t, r.work(t))
	require.Len(t, n.delivered, 1)
	for text := range n.delivered {
		require.Contains(t, text, `"dataSubjectId":"erased"}`)
	}
}

// TestHoldNeedsATenant: a node that names another's, or none, holds nothing.
func TestHoldNeedsATenant(t *testing.T) {
	r := newRoom(t, t.TempDir(), &clock{at: noon}, nil)
	_, err := r.Hold(t.Context(), api.HoldRequest{TenantID: "tnt_none", KeyID: "key_a", Rows: []api.HeldRow{held("1")}})
	require.Error(t, err)
	require.Empty(t, r.rows(t))
	none, err := r.Hold(t.Context(), api.HoldRequest{TenantID: tenantID, KeyID: "key_a"})
	require.NoError(t, err)
	require.Empty(t, none)
}
