// Package stacktest is where a test asks for an engine of make stack. Without the engine the test is
// skipped; where the stack was started for the tests, as make test-stack does, it fails instead.
//
// make test-stack runs the tests that ask, and no others: deploy/stack/asks finds them by their calls
// of this package, through whatever functions.
package stacktest

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Kafka returns some of the brokers, as HOST:PORT[,HOST:PORT].
func Kafka(t testing.TB) (brokers string) { t.Helper(); return Variable(t, "MUNIMENT_TEST_KAFKA") }

// ClickHouse returns the URL of a database of the server, over its native protocol.
func ClickHouse(t testing.TB) (url string) {
	t.Helper()
	return Variable(t, "MUNIMENT_TEST_CLICKHOUSE")
}

// Postgres returns the URL of a database of the server, whose user may create others.
func Postgres(t testing.TB) (url string) {
	t.Helper()
	return Variable(t, "MUNIMENT_TEST_POSTGRES")
}

// PgBouncer returns the URL of that server through a pooler in one of its modes: session, transaction or
// statement.
func PgBouncer(t testing.TB, mode string) (url string) {
	t.Helper()
	return Variable(t, "MUNIMENT_TEST_PGBOUNCER_"+strings.ToUpper(mode))
}

// Variable returns what the stack has put into a variable, for tests that need more of an engine than
// its address.
func Variable(t testing.TB, name string) (value string) {
	t.Helper()
	if value = os.Getenv(name); value == "" {
		require.Empty(t, os.Getenv("MUNIMENT_TEST_STACK"), "the stack is up, but %s is not set", name)
		t.Skipf("needs %s: make test-stack", name)
	}
	return value
}

// OnlyWith skips a test without a variable that make test-stack does not set, but another target: the
// test asks for what that one starts, and make test-stack leaves it out.
func OnlyWith(t testing.TB, name, target string) {
	t.Helper()
	if os.Getenv(name) == "" {
		t.Skipf("needs %s: make %s", name, target)
	}
}

// Both says that a test, which runs on SQLite, finds on PostgreSQL what SQLite does not show: plans of
// queries, or what happens between processes. make test-stack runs it there.
func Both(testing.TB) {}

// PostgresIfUp returns what Postgres does, or nothing without the server: for tests that run on SQLite
// then. A test that only calls this does not ask: set MUNIMENT_TEST_POSTGRES to run any on PostgreSQL.
func PostgresIfUp() (url string) { return os.Getenv("MUNIMENT_TEST_POSTGRES") }

// WithoutPostgres has PostgresIfUp return nothing for the rest of a test, which then asks for no engine.
func WithoutPostgres(t testing.TB) { t.Setenv("MUNIMENT_TEST_POSTGRES", "") }
