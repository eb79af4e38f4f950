package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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
