package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
)

// # Sessions
//
// Every connection to PostgreSQL begins with one statement (begin), which makes the session's settings
// and returns what is at its other end. So no statement of ours runs on a server that is not the one
// that this process knows, or in a session without these settings:
//
//   - A standby is waited for, and a server whose sessions are read-only is refused.
//   - The server is identified by its system identifier and its timeline. A running primary keeps
//     both; its promoted standby has another timeline, and another cluster another system. A process
//     knows one server, that of its first connection, and takes any other for a database that went
//     back (ErrWentBack). control/rollback describes what the next start does.
//   - Settings are made by a statement, because PgBouncer refuses those of the startup packet, or
//     drops them if it is told to ignore them.
//   - synchronous_commit is remote_apply: an answered change is on disk, and if the server has
//     synchronous standbys, visible at them too. Without any it is the same as on.
//
// A pooler that gives a session another server connection for each transaction or statement loses
// settings, advisory locks and notifications, without an error. Open and Migrate refuse it
// (checkSessions). One that keeps the server connection for as long as the session works.

// A process waits for a standby, also at its start, as it may meet one during a failover. A start on a
// server whose sessions are read-only by default is refused.
var (
	errStandby = errors.New("the server is a standby, which takes no changes until it is promoted. " + nameAll)

	errReadOnly = errors.New("the server takes no changes: its sessions are read-only by default. " + nameAll)
)

const nameAll = "Name the primary, or all servers (postgres://user@host1,host2/database?target_session_attrs=read-write)"

// sent are the parameters of the startup packet, which PgBouncer passes on. All others are made by
// statements.
var sent = []string{"application_name", "client_encoding", "options"}

// session is how a connection begins.
type session struct {
	settings map[string]string
	server   *server
}

// begins returns a configuration without the settings that a statement makes, and how its
// connections begin.
func (cfg *Config) begins(config *pgx.ConnConfig) (*pgx.ConnConfig, session) {
	own, s := config.Copy(), session{map[string]string{}, cfg.server}
	for name, value := range config.RuntimeParams {
		if !slices.Contains(sent, name) {
			s.settings[name] = value
			delete(own.RuntimeParams, name)
		}
	}
	return own, s
}

// begin makes the settings of a new connection, and refuses a server that is not the process's.
func (s session) begin(ctx context.Context, conn *pgx.Conn) error {
	names := slices.Sorted(maps.Keys(s.settings))
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = s.settings[name]
	}
	var readOnly bool
	var name string
	// A server in recovery has no position of its own to be read.
	err := conn.QueryRow(ctx, `SELECT current_setting('transaction_read_only')::boolean, CASE WHEN pg_is_in_recovery() THEN ''
			ELSE (SELECT system_identifier FROM pg_control_system()) || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END
		FROM (SELECT count(set_config(name, value, false)) FROM unnest($1::text[], $2::text[]) AS setting(name, value)) AS made`,
		pgx.QueryExecModeExec, names, values).Scan(&readOnly, &name)
	switch {
	case err != nil:
		return fmt.Errorf("cannot begin a session: %w", err)
	case name == "":
		return errStandby
	case readOnly:
		return errReadOnly
	}
	return s.server.meet(name)
}

// server is the one that a process knows.
type server struct {
	changed func(known, met string) error // returns the error of a connection to another server

	mu   sync.Mutex
	name string // its system identifier and timeline; empty before the first connection
}

// meet takes the server at the other end of a connection. nil takes every one.
func (s *server) meet(name string) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	if s.name == "" {
		s.name = name
	}
	known := s.name
	s.mu.Unlock()
	if known == name {
		return nil
	}
	return s.changed(known, name)
}

// current is the server of this process; empty on SQLite.
func (s *server) current() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.name
}

// alternations is how often checkSessions asks both of its sessions. A pooler gives a transaction the
// server connection that became free last, or the next one in turn, so that the sessions meet within
// the first few; the others are for pools that have many, or that others use meanwhile.
const alternations = 100

var errPooled = errors.New("a pooler gives each transaction a server connection of its own (as PgBouncer does with pool_mode transaction or statement), " +
	"so locks, settings and notifications would be lost: use pool_mode=session, or connect to the server itself")

// checkSessions refuses a pooler that does not keep a server connection for each session.
func (cfg *Config) checkSessions(ctx context.Context, config *pgx.ConnConfig) (err error) {
	var sessions [2]*pgx.Conn
	var backends [2]uint32
	for i := range sessions {
		conn, err := cfg.connect(ctx, config)
		if err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		if backends[i], err = backend(ctx, conn); err != nil {
			return err
		}
		if backends[i] == conn.PgConn().PID() {
			return nil // the server itself has answered: a pooler has other numbers for cancellation
		}
		sessions[i] = conn
	}
	for range alternations {
		for i, conn := range sessions {
			now, err := backend(ctx, conn)
			if err != nil {
				return err
			}
			if now != backends[i] || backends[0] == backends[1] {
				return errPooled
			}
		}
	}
	return nil
}

// backend is the server's process that runs a statement of the session.
func backend(ctx context.Context, conn *pgx.Conn) (pid uint32, err error) {
	return pid, conn.QueryRow(ctx, `SELECT pg_backend_pid()`, pgx.QueryExecModeExec).Scan(&pid)
}
