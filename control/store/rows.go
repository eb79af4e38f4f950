package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"muniment/gateway/api"
)

// Querier is the read pool, a transaction or a change.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Row is what a record is scanned from.
type Row interface{ Scan(...any) error }

// Text scans a row of one text.
func Text(r Row) (text string, err error) {
	err = r.Scan(&text)
	return text, err
}

// Storable says whether a text can be kept and looked for: PostgreSQL takes UTF-8 without
// U+0000, so SQLite is not given anything else either.
func Storable(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }

// List reads all records that a query finds; none is an empty list, not nil. An
// error calls them what.
func List[T any](ctx context.Context, q Querier, what string, scan func(Row) (T, error), query string, args ...any) ([]T, error) {
	failed := func(err error) ([]T, error) { return nil, fmt.Errorf("cannot list %s: %w", what, err) }
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return failed(err)
	}
	defer rows.Close()
	records := []T{}
	for rows.Next() {
		r, err := scan(rows)
		if err != nil {
			return failed(err)
		}
		records = append(records, r)
	}
	if err := rows.Err(); err != nil {
		return failed(err)
	}
	return records, nil
}

// One reads the record that a query finds, nil when it finds none. An error calls
// it what.
func One[T any](ctx context.Context, q Querier, what string, scan func(Row) (T, error), query string, args ...any) (*T, error) {
	record, err := scan(q.QueryRowContext(ctx, query, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", what, err)
	}
	return &record, nil
}

// Find is One for a record that must be there: else it is RESOURCE_NOT_FOUND. noun and id
// name the record in errors.
func Find[T any](ctx context.Context, q Querier, noun, id string, scan func(Row) (T, error), query string, args ...any) (*T, error) {
	record, err := One(ctx, q, fmt.Sprintf("the %s %q", noun, id), scan, query, args...)
	if err == nil && record == nil {
		err = api.NotFound(noun)
	}
	return record, err
}

// IsNone says whether an error is Find's for a record that is not there.
func IsNone(err error) bool { return api.From(err).Code == api.ResourceNotFound }

// Count is the number that a query tells of a tenant's records. An error calls them what.
func Count(ctx context.Context, q Querier, what, query, tenantID string) (n int64, err error) {
	if err = q.QueryRowContext(ctx, query, tenantID).Scan(&n); err != nil {
		return 0, fmt.Errorf("cannot count the %s of %s: %w", what, tenantID, err)
	}
	return n, nil
}
