// Package roomtest is the fixture of tests of services: a database with a tenant, its events, and a
// control process without nodes.
package roomtest

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/node"
	"muniment.example/control/store"
	"muniment.example/control/store/storetest"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/sealer"
)

// Open opens the database of a folder, with the tenant tnt_a, of org_a, and its basis
// bas_a. Opened again on the same folder it is another process's. A nil clock is time.Now.
func Open(t testing.TB, dir string, now func() time.Time) *store.DB {
	t.Helper()
	path, url := storetest.Place(t, dir)
	db, err := store.Open(t.Context(), store.Config{Path: path, URL: url, Now: now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	write(t, db, `INSERT INTO tenants (tenant_id, org_id, created_at, updated_at, revision) VALUES ('tnt_a', 'org_a', 0, 0, 0) ON CONFLICT DO NOTHING`)
	write(t, db, `INSERT INTO bases (basis_id, tenant_id, kind, title, holder_org_id, created_at, updated_at, revision)
		VALUES ('bas_a', 'tnt_a', 'CONTRACT', 'Frame agreement', 'org_a', 0, 0, 0) ON CONFLICT DO NOTHING`)
	return db
}

// Right puts an ACTIVE right on CTV under bas_a into the database, unless it is there.
func Right(t *testing.T, db *store.DB, id, scope string) {
	t.Helper()
	write(t, db, `INSERT INTO rights (right_id, tenant_id, basis_id, substrate, scope, effective_from, ancestors, holder_org_id, state, created_at, updated_at, revision)
		VALUES ($1, 'tnt_a', 'bas_a', 'CTV', $2, 0, '', 'org_a', 'ACTIVE', 0, 0, 0) ON CONFLICT DO NOTHING`, id, scope)
}

// Plans requires that a list's queries use indexes: none of them scans a table, or sorts rows on
// SQLite, which doesn't know how few they are. It returns the plans.
func Plans(t *testing.T, db *store.DB, list func(store.Querier) error) (plan string) {
	t.Helper()
	stacktest.Both(t)
	explain, detail, slow := "EXPLAIN QUERY PLAN ", 3, []string{"SCAN", "TEMP B-TREE"}
	if stacktest.PostgresIfUp() != "" {
		explain, detail, slow = "EXPLAIN ", 0, []string{"Seq Scan"}
	}
	asked := recorder{Querier: db.Read()}
	require.NoError(t, list(&asked))
	for i, query := range asked.queries {
		steps, err := store.List(t.Context(), db.Read(), "the plan", func(row store.Row) (string, error) {
			columns := make([]string, detail+1)
			into := make([]any, len(columns))
			for i := range columns {
				into[i] = &columns[i]
			}
			err := row.Scan(into...)
			return columns[detail], err
		}, explain+query, asked.args[i]...)
		require.NoError(t, err)
		plan += strings.Join(steps, "\n") + "\n"
	}
	for _, word := range slow {
		require.NotContains(t, plan, word)
	}
	return plan
}

// recorder notes the queries that are made.
type recorder struct {
	store.Querier
	queries []string
	args    [][]any
}

func (r *recorder) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	r.queries, r.args = append(r.queries, query), append(r.args, args)
	return r.Querier.QueryContext(ctx, query, args...)
}

func (r *recorder) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	r.queries, r.args = append(r.queries, query), append(r.args, args)
	return r.Querier.QueryRowContext(ctx, query, args...)
}

// Fill writes many rows of a table: columns are what an INSERT names, values an expression
// for each, in which i is the number of the row. A database that plans by statistics has
// them then.
func Fill(t testing.TB, db *store.DB, rows int, table, columns, values string) {
	t.Helper()
	write(t, db, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < CAST($1 AS INTEGER))
		INSERT INTO `+table+` (`+columns+`) SELECT `+values+` FROM n`, rows)
	write(t, db, "ANALYZE "+table)
}

func write(t testing.TB, db *store.DB, statement string, args ...any) {
	t.Helper()
	require.NoError(t, db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), statement, args...)
		return err
	}))
}

// Events returns the events in the outbox.
func Events(t require.TestingT, db *store.DB) []sealer.Event {
	events, err := store.List(context.Background(), db.Read(), "the outbox", func(row store.Row) (sealer.Event, error) {
		text, err := store.Text(row)
		if err != nil {
			return sealer.Event{}, err
		}
		return sealer.ParseEvent([]byte(text))
	}, `SELECT event FROM outbox ORDER BY epoch, seq`)
	require.NoError(t, err)
	return events
}

// Alone is a service without nodes.
type Alone struct{}

// Await implements right.Nodes.
func (Alone) Await(context.Context, int64) node.Propagation { return node.Propagation{Applied: true} }

// Propagation implements right.Nodes.
func (Alone) Propagation(context.Context, int64) (node.Propagation, error) {
	return node.Propagation{Applied: true}, nil
}
