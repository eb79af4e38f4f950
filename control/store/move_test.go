package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store/storetest"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// permit is a record such as services have.
type permit struct {
	ID        string          `json:"id" db:"permit_id"`
	TenantID  string          `json:"-" db:"tenant_id"`
	Scope     json.RawMessage `json:"scope" db:"scope"`
	Places    []string        `json:"places" db:"places"`
	Note      *string         `json:"note" db:"note,moves"`
	State     permitState     `json:"state" db:"state,moves"`
	Until     Instant         `json:"until" db:"until"`
	CreatedAt Instant         `json:"createdAt" db:"created_at"`
	UpdatedAt Instant         `json:"updatedAt" db:"updated_at,moves"`
	Revision  int64           `json:"revision" db:"revision,moves"`
	Shown     bool            `json:"-"` // in no column
}

type (
	permitState  string
	permitAction string
)

var permitKind = api.Kind[permit]{Name: "permit", Prefix: "prm_", Of: func(p *permit) (string, int64, bool) { return p.ID, p.Revision, false }}

var permits = Machine[permit, permitAction, permitState]{
	Records: Records[permit]{
		Noun: "permit", Table: "permits",
		Feed: func(ctx context.Context, tx *Tx, p *permit) error { return Publish(ctx, tx, permitKind, p) },
	},
	Steps: Steps[permitAction, permitState]{
		"grant":    {From: From[permitState]("ASKED"), To: "GRANTED", Event: &Kind{Type: "permit.granted"}},
		"annotate": {From: From[permitState]("ASKED", "GRANTED"), Event: &Kind{Type: "permit.annotated"}},
		"end":      {From: From[permitState]("GRANTED", "ENDED"), To: "ENDED", Event: &Kind{Type: "permit.ended"}, Stops: true},
		"lapse":    {From: From[permitState]("LAPSED"), To: "LAPSED", Event: &Kind{Type: "permit.lapsed"}},
		"restore":  {From: From[permitState]("GRANTED", "LAPSED"), To: "GRANTED", Event: &Kind{Type: "permit.restored"}},
	},
	StateAt: func(p *permit, at Instant) permitState {
		if p.State == "ASKED" && !p.Until.IsZero() && !at.Before(p.Until.Time) {
			return "LAPSED"
		}
		return p.State
	},
}

func TestAfter(t *testing.T) {
	const hour = time.Hour
	for _, c := range []struct {
		action permitAction
		from   permitState
		after  time.Duration
		to     permitState
		said   string // empty: it is moved
	}{
		{"grant", "ASKED", 0, "GRANTED", ""},
		{"grant", "GRANTED", 0, "", "permit is already GRANTED"},
		{"grant", "ENDED", 0, "", "permit is already ENDED"},
		{"grant", "ASKED", hour, "", "permit is LAPSED, not ASKED"},
		{"end", "ASKED", 0, "", "permit is ASKED, not GRANTED or ENDED"},
		{"end", "GRANTED", 0, "ENDED", ""},
		{"end", "ENDED", 0, "ENDED", "unchanged"},
		{"annotate", "GRANTED", 0, "GRANTED", ""},
		{"annotate", "ENDED", 0, "", "permit is already ENDED"},
		{"lapse", "ASKED", 0, "", "permit is ASKED, not LAPSED"},
		{"lapse", "ASKED", hour, "LAPSED", ""},
		{"lapse", "LAPSED", hour, "LAPSED", "unchanged"},
		{"lapse", "GRANTED", hour, "", "permit is GRANTED, not LAPSED"},
		{"praise", "ENDED", 0, "", "permit is already ENDED"},
	} {
		t.Run(string(c.action)+" "+string(c.from), func(t *testing.T) {
			was := permit{ID: "prm_a", State: c.from, Until: At(now.Add(hour)), UpdatedAt: At(now.Add(-hour))}
			next, changed, err := permits.After(was, c.action, At(now.Add(c.after)))
			switch want := was; c.said {
			case "":
				require.NoError(t, err)
				require.True(t, changed)
				want.State, want.UpdatedAt = c.to, At(now.Add(c.after))
				require.Equal(t, want, next, "nothing else is changed")
			case "unchanged":
				require.NoError(t, err)
				require.False(t, changed)
				require.Equal(t, want, next)
			default:
				require.Equal(t, api.StateConflict, api.From(err).Code)
				require.Equal(t, c.said, api.From(err).Message)
				require.Equal(t, want, next)
			}
		})
	}
}

// permitted is a database with a table of permits, and one of them.
func permitted(t *testing.T) (*DB, permit) {
	t.Helper()
	stacktest.Both(t)
	path, url := storetest.Place(t, t.TempDir())
	db, err := Open(t.Context(), Config{Path: path, URL: url, Now: func() time.Time { return now }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	p := permit{
		ID: "prm_a", TenantID: "tnt_a", Scope: json.RawMessage(`{"a":1}`), Places: []string{"north", "south"}, State: "ASKED",
		CreatedAt: At(now), UpdatedAt: At(now), Shown: true,
	}
	require.NoError(t, db.Change(t.Context(), func(tx *Tx) error {
		_, err := tx.ExecContext(t.Context(), `CREATE TABLE permits (permit_id TEXT PRIMARY KEY, tenant_id TEXT NOT NULL, scope TEXT NOT NULL, places TEXT NOT NULL,
			note TEXT, state TEXT NOT NULL, until BIGINT, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, revision BIGINT NOT NULL)`)
		if err != nil {
			return err
		}
		return permits.Create(t.Context(), tx, &Kind{Type: "permit.asked"}, &p, ByKey("key_a"), Acting{AssertedBy: new("org_a")})
	}))
	p.Shown = false
	return db, p
}

// move moves the permit in a change of its own.
func (db *DB) move(t *testing.T, move Move[permit, permitAction]) (next permit, err error) {
	move.TenantID, move.By = "tnt_a", ByOperator()
	if move.ID == "" {
		move.ID = "prm_a"
	}
	err = permits.Do(t.Context(), db, move.Action, func(tx *Tx) (err error) {
		next, err = permits.Move(t.Context(), tx, move)
		return err
	})
	return next, err
}

// emitted returns the events that are in the outbox.
func (db *DB) emitted(t *testing.T) (events []sealer.Event) {
	t.Helper()
	rows, err := db.Outbox.pending(t.Context())
	require.NoError(t, err)
	for _, r := range rows {
		e, err := sealer.ParseEvent(r.Event)
		require.NoError(t, err)
		events = append(events, e)
	}
	return events
}

// TestManyRecords: many records are written, published and emitted as each of them alone would be, in their order.
func TestManyRecords(t *testing.T) {
	db, one := permitted(t)
	all := make([]permit, 130)
	for i := range all {
		all[i] = one
		all[i].ID, all[i].Note = fmt.Sprintf("prm_%03d", i), nil
	}
	change := func(fn func(tx *Tx) error) {
		t.Helper()
		require.NoError(t, db.Change(t.Context(), fn))
	}
	change(func(tx *Tx) error {
		return permits.CreateAll(t.Context(), tx, &Kind{Type: "permit.asked"}, all, ByKey("key_a"))
	})
	events := db.emitted(t)[1:]
	require.Len(t, events, len(all))
	stored := func() (list []permit) {
		list, err := List(t.Context(), db.Read(), "all", permits.Scan, permits.Select()+` WHERE permit_id <> 'prm_a' ORDER BY permit_id`)
		require.NoError(t, err)
		return list
	}
	require.Equal(t, all, stored())
	for i, e := range events {
		require.Equal(t, all[i].ID, e.Subject.ID)
		require.Greater(t, all[i].Revision, one.Revision)
	}
	next := stored()
	for i := range next {
		next[i].State, next[i].Places, next[i].Note = "GRANTED", []string{"nowhere"}, new(fmt.Sprint(i))
	}
	change(func(tx *Tx) error { return permits.UpdateAll(t.Context(), tx, next) })
	change(func(tx *Tx) error {
		return permits.EmitAll(t.Context(), tx, &Kind{Type: "permit.granted"}, next[:100], ByOperator())
	})
	for i := range next {
		require.Greater(t, next[i].Revision, all[i].Revision)
		next[i].Places = all[i].Places
	}
	require.Equal(t, next, stored(), "what does not move is never written again")
	snapshot, err := Newest(t.Context(), db, permitKind, "prm_077")
	require.NoError(t, err)
	require.Equal(t, permitState("GRANTED"), snapshot.State)
	foreign := slices.Clone(next[:2])
	foreign[1].TenantID = "tnt_b"
	require.ErrorContains(t, db.Change(t.Context(), func(tx *Tx) error { return permits.UpdateAll(t.Context(), tx, foreign) }), "1 of 2 rows")
	require.Equal(t, next, stored())
}

func TestMove(t *testing.T) {
	db, p := permitted(t)
	found, err := permits.Find(t.Context(), db.Read(), "tnt_a", "prm_a")
	require.NoError(t, err)
	require.Equal(t, p, *found)
	require.Positive(t, p.Revision)

	next, err := db.move(t, Move[permit, permitAction]{
		Action: "grant",
		Edit: func(next *permit) error {
			require.Equal(t, permitState("GRANTED"), next.State)
			next.Note, next.Places = new("in spring"), []string{"nowhere"}
			return nil
		},
		Also: func(next *permit) any {
			require.Greater(t, next.Revision, p.Revision)
			return Acting{ActingOrgID: next.Note}
		},
	})
	require.NoError(t, err)
	require.Zero(t, db.stopped.Load(), "it was no stop")
	found, err = permits.Find(t.Context(), db.Read(), "tnt_a", "prm_a")
	require.NoError(t, err)
	require.Equal(t, []string{"north", "south"}, found.Places, "what does not move is never written again")
	next.Places = found.Places
	require.Equal(t, next, *found)
	snapshot, err := Newest(t.Context(), db, permitKind, "prm_a")
	require.NoError(t, err)
	require.Equal(t, next.Revision, snapshot.Revision)
	require.Equal(t, permitState("GRANTED"), snapshot.State)

	ended, err := db.move(t, Move[permit, permitAction]{Action: "end"})
	require.NoError(t, err)
	require.Positive(t, db.stopped.Load(), "it was a stop")
	again, err := db.move(t, Move[permit, permitAction]{Action: "end", Edit: func(*permit) error { return errors.New("is not called") }})
	require.NoError(t, err)
	require.Equal(t, ended, again)

	for _, refused := range []struct {
		move Move[permit, permitAction]
		code api.Code
	}{
		{Move[permit, permitAction]{Action: "grant"}, api.StateConflict},
		{Move[permit, permitAction]{Action: "grant", ID: "prm_b"}, api.ResourceNotFound},
	} {
		_, err := db.move(t, refused.move)
		require.Equal(t, refused.code, api.From(err).Code)
	}

	all := db.emitted(t)
	require.Len(t, all, 3, "each change emits one event, and nothing else")
	for i, want := range []struct {
		event string
		by    sealer.Ref
		data  string
	}{
		{"permit.asked", ByKey("key_a"), `"actingOrgId":null,"assertedBy":"org_a",`},
		{"permit.granted", ByOperator(), `"actingOrgId":"in spring","assertedBy":null,`},
		{"permit.ended", ByOperator(), ``},
	} {
		e := all[i]
		require.Equal(t, []any{want.event, "tnt_a", want.by, sealer.Ref{Kind: "permit", ID: "prm_a"}, At(now).Time}, []any{e.Type, e.TenantID, e.Actor, e.Subject, e.At})
		require.Regexp(t, `^\{`+want.data+`"createdAt":.*,"revision":\d+,"scope":\{"a":1\},"state":`, string(e.Data))
	}
}

// TestMoveIsOneChange: of what fails behind it, in it, or in another record, nothing is left.
func TestMoveIsOneChange(t *testing.T) {
	db, p := permitted(t)
	failed := errors.New("failed")
	_, err := db.move(t, Move[permit, permitAction]{Action: "grant", Edit: func(*permit) error { return failed }})
	require.ErrorIs(t, err, failed)
	require.ErrorIs(t, db.Change(t.Context(), func(tx *Tx) error {
		_, err := permits.Move(t.Context(), tx, Move[permit, permitAction]{TenantID: "tnt_a", ID: "prm_a", Action: "grant", By: ByOperator()})
		require.NoError(t, err)
		return failed
	}), failed)
	older := p
	older.Revision--
	err = db.Change(t.Context(), func(tx *Tx) error { return permits.Update(t.Context(), tx, &older, &p) })
	require.Equal(t, api.StateConflict, api.From(err).Code, "another change was faster")
	p.Revision = older.Revision + 1
	found, err := permits.Find(t.Context(), db.Read(), "tnt_a", "prm_a")
	require.NoError(t, err)
	require.Equal(t, p, *found)
	require.Len(t, db.emitted(t), 1)
}

func TestReplayClosed(t *testing.T) {
	db, p := permitted(t)
	replay := func(data string) (changed bool) {
		require.NoError(t, db.Change(t.Context(), func(tx *Tx) (err error) {
			changed, err = permits.ReplayClosed(t.Context(), tx, &sealer.Event{TenantID: "tnt_a", Subject: sealer.Ref{Kind: "permit", ID: "prm_a"}, Data: []byte(data)})
			return err
		}))
		return changed
	}
	require.False(t, replay(`{"state":"GRANTED","revision":70}`), "that is not final")
	const ended = `{"state":"ENDED","note":"over","revision":70,"updatedAt":"2026-11-21T05:00:00.000Z"}`
	require.True(t, replay(ended))
	require.False(t, replay(ended))
	require.False(t, replay(`{"state":"LAPSED","revision":71}`), "what is final stays")
	found, err := permits.Find(t.Context(), db.Read(), "tnt_a", "prm_a")
	require.NoError(t, err)
	p.State, p.Note, p.Revision, p.UpdatedAt = "ENDED", new("over"), 70, At(time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC))
	require.Equal(t, p, *found, "the record of the event, its revision too")
	require.Len(t, db.emitted(t), 1, "no other event is made of it")
}
