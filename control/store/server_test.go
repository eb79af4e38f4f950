package store

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/store/storetest"
	"muniment.example/gateway/api"
)

// TestNoConnectionToAnotherServer: a process that meets another server changes nothing there and reads
// nothing, also after it has found the first one again, and ends.
func TestNoConnectionToAnotherServer(t *testing.T) {
	onPostgres(t)
	said, ended := new(said), make(chan error, 2)
	_, at := storetest.Place(t, t.TempDir())
	db := mustOpenAt(t, Config{URL: at, Logger: slog.New(slog.NewTextHandler(said, nil)), OnFailure: func(err error) { ended <- err }})
	db.mustPublish(t, "rgh_a", api.RightActive)
	real := db.cfg.server.current()
	require.Regexp(t, `^\d+/0000000[1-9]$`, real)
	rename := func(name string) {
		db.cfg.server.mu.Lock()
		defer db.cfg.server.mu.Unlock()
		db.cfg.server.name = name
	}
	rename("system/1") // as if all connections from now on led to another server
	db.read.SetMaxIdleConns(0)
	_, err := List(t.Context(), db.read, "rows", Text, `SELECT id FROM incarnations`)
	require.ErrorIs(t, err, ErrWentBack)
	_, err = db.cfg.connect(t.Context(), db.pg.config)
	require.ErrorIs(t, err, ErrWentBack)
	rename(real)
	_, err = db.Feed.Changes(t.Context(), api.FeedRequest{})
	require.ErrorIs(t, err, ErrWentBack)
	require.ErrorIs(t, db.Change(t.Context(), func(*Tx) error { return nil }), ErrWentBack)
	require.ErrorIs(t, <-ended, ErrWentBack)
	require.Empty(t, ended, "once")
	require.Equal(t, 1, said.count("level=ERROR"), said)
}

// TestIdleConnectionsMeetAnotherServer: a process does not go on with connections to a server that its
// address no longer leads to.
func TestIdleConnectionsMeetAnotherServer(t *testing.T) {
	onPostgres(t)
	_, at := storetest.Place(t, t.TempDir())
	db := mustOpenAt(t, Config{URL: at, maxLifetime: time.Millisecond, OnFailure: func(error) {}})
	read := func() error {
		_, err := List(t.Context(), db.read, "rows", Text, `SELECT id FROM incarnations`)
		return err
	}
	require.NoError(t, read())
	db.cfg.server.mu.Lock()
	db.cfg.server.name = "system/1" // as if all connections from now on led to another server
	db.cfg.server.mu.Unlock()
	waittest.Until(t, func() bool { return errors.Is(read(), ErrWentBack) })
}

// TestStopIsInTheLogBeforeItIsAcknowledged: a server that is lost may take with it what it has
// committed, but not the log.
func TestStopIsInTheLogBeforeItIsAcknowledged(t *testing.T) {
	onPostgres(t)
	dir := t.TempDir()
	_, at := storetest.Place(t, dir)
	db, other := mustOpenAt(t, Config{URL: at, confirmWithin: 50 * time.Millisecond}), mustOpen(t, dir)
	stop := func() error {
		return db.Stop(t.Context(), func(tx *Tx) error { return tx.Emit(t.Context(), suspended, event("tnt_a", "rgh_a")) })
	}
	require.NoError(t, stop(), "before there is a log")
	_, err := db.Outbox.relay(t.Context(), new(faultyLog))
	require.NoError(t, err)
	db.Outbox.resign(t.Context())
	db.CheckedAgainstLog()

	err = stop()
	require.Equal(t, api.LogUnavailable, api.From(err).Reason, "nobody relays")
	pending, err := db.Outbox.pending(t.Context())
	require.NoError(t, err)
	require.Len(t, pending, 1, "it takes effect nevertheless")
	again := func() error { return db.Stop(t.Context(), func(*Tx) error { return nil }) }
	require.Equal(t, api.LogUnavailable, api.From(again()).Reason, "which the log still lacks")
	require.Equal(t, api.LogUnavailable, api.From(db.Confirm(t.Context())).Reason)
	conflict := func() error {
		return db.Stop(t.Context(), func(*Tx) error { return api.Conflict("the right is SUSPENDED") })
	}
	require.Equal(t, api.LogUnavailable, api.From(conflict()).Reason, "that it is suspended already would acknowledge it")
	require.Contains(t, api.From(conflict()).Message, "conflicts with an earlier change")
	require.ErrorIs(t, conflict(), ErrUnconfirmed)
	keyed := KeyedRequest{TenantID: "tnt_a", KeyHash: "k", RequestHash: "r"}
	attempt, _, err := db.Attempts.Begin(t.Context(), keyed)
	require.NoError(t, err)
	require.Error(t, db.Stop(WithAttempt(t.Context(), attempt), func(tx *Tx) error { return tx.Emit(t.Context(), suspended, event("tnt_a", "rgh_b")) }))
	require.NoError(t, db.Attempts.Release(t.Context(), attempt))
	_, _, err = db.Attempts.Begin(t.Context(), keyed)
	require.Equal(t, api.LogUnavailable, api.From(err).Reason)

	faulty := &faultyLog{plan: map[int]fault{1: failed, 2: failed}}
	defer other.mustRelay(t, faulty)()
	waittest.Until(t, func() bool { return again() == nil })
	require.Equal(t, 2, faulty.count())
	require.Equal(t, api.StateConflict, api.From(conflict()).Code)
	_, _, err = db.Attempts.Begin(t.Context(), keyed)
	require.ErrorIs(t, err, errAnswerLost)
	db.cfg.confirmWithin = time.Minute
	for n := range 10 {
		require.NoError(t, stop(), "another process relays")
		require.Equal(t, 3+n, faulty.count())
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.True(t, errors.Is(db.Confirm(cancelled), context.Canceled))
}

func (l *faultyLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.records)
}
