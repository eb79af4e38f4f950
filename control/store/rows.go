package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"muniment.example/gateway/api"
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

// Storable says whether a text can be stored and searched for. PostgreSQL accepts only UTF-8
// without U+0000, so the same holds for SQLite.
func Storable(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }

// List reads all records that a query finds; none is an empty list, not nil. what names them in
// errors.
func List[T any](ctx context.Context, q Querier, what string, scan func(Row) (T, error), query string, args ...any) ([]T, error) {
	records := []T{}
	err := Each(ctx, q, what, scan, func(r T) error {
		records = append(records, r)
		return nil
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return records, nil
}

// Each reads the records that a query finds, one after the other, and calls take for each, which
// must not use q. take's error is returned unchanged; what names the records in other errors.
func Each[T any](ctx context.Context, q Querier, what string, scan func(Row) (T, error), take func(T) error, query string, args ...any) error {
	failed := func(err error) error { return fmt.Errorf("cannot list %s: %w", what, err) }
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return failed(err)
	}
	defer rows.Close()
	for rows.Next() {
		r, err := scan(rows)
		if err != nil {
			return failed(err)
		}
		if err := take(r); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return failed(err)
	}
	return nil
}

// One reads the record that a query finds, nil if it finds none. what names it in errors.
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

// Find is One for a record that must exist: otherwise the error is RESOURCE_NOT_FOUND. noun and id
// name the record in errors.
func Find[T any](ctx context.Context, q Querier, noun, id string, scan func(Row) (T, error), query string, args ...any) (*T, error) {
	record, err := One(ctx, q, fmt.Sprintf("the %s %q", noun, id), scan, query, args...)
	if err == nil && record == nil {
		err = api.NotFound(noun)
	}
	return record, err
}

// IsNone says whether an error is Find's for a record that doesn't exist.
func IsNone(err error) bool { return api.From(err).Code == api.ResourceNotFound }

// Count returns the number from a counting query over a tenant's records. what names them in
// errors.
func Count(ctx context.Context, q Querier, what, query, tenantID string, args ...any) (n int64, err error) {
	if err = q.QueryRowContext(ctx, query, append([]any{tenantID}, args...)...).Scan(&n); err != nil {
		return 0, fmt.Errorf("cannot count the %s of %s: %w", what, tenantID, err)
	}
	return n, nil
}

// WithinLimit returns STATE_CONFLICT if a tenant has the maximum of a kind of record already. The
// query counts the tenant's records; the remedy is for the caller.
func WithinLimit(ctx context.Context, q Querier, most int64, what, remedy, query, tenantID string) error {
	n, err := Count(ctx, q, what, query, tenantID)
	if err == nil && n >= most {
		err = api.Conflict(fmt.Sprintf("the tenant has the maximum of %d %s: %s", most, what, remedy))
	}
	return err
}

// Slice selects records of a list: the first Limit records after the key Behind, or from the start
// if it is empty.
type Slice struct {
	Behind string
	Limit  int
}

// Where holds the conditions of a query, with their arguments. Conditions that are not used are
// left out, so the database can choose an index by those that are.
type Where struct {
	conditions []string
	args       []any
}

// And adds a condition, in which $ is the value's placeholder.
func (w *Where) And(condition string, value any) {
	w.args = append(w.args, value)
	w.conditions = append(w.conditions, strings.ReplaceAll(condition, "$", fmt.Sprintf("$%d", len(w.args))))
}

// Is adds that a column has a value, unless that is empty.
func (w *Where) Is(column, value string) {
	if value != "" {
		w.And(column+" = $", value)
	}
}

// In adds that a column is among what a query returns whose conditions, at least one, add adds. So one index finds these rows, and
// another gives them their order.
func (w *Where) In(column, query string, add func(*Where)) {
	inner := Where{args: w.args}
	add(&inner)
	w.args = inner.args
	w.conditions = append(w.conditions, column+" IN ("+query+" WHERE "+strings.Join(inner.conditions, " AND ")+")")
}

// Count returns the number from a counting query with all conditions, at least one. what names the
// rows in errors.
func (w Where) Count(ctx context.Context, q Querier, what, query string) (n int64, err error) {
	if err = q.QueryRowContext(ctx, query+" WHERE "+strings.Join(w.conditions, " AND "), w.args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("cannot count %s: %w", what, err)
	}
	return n, nil
}

// ListPage lists a slice of the rows of a query that meet all conditions, in descending order of
// the column by. next is the Behind of the next slice, empty if there is none. Each column of a
// condition needs an index in which by comes next.
func ListPage[T any](ctx context.Context, q Querier, s Slice, what string, key func(T) string, scan func(Row) (T, error), query, by string, w Where) (page []T, next string, err error) {
	if s.Behind != "" {
		w.And(by+" < $", s.Behind)
	}
	query += " WHERE " + strings.Join(w.conditions, " AND ") + fmt.Sprintf(" ORDER BY %s DESC LIMIT %d", by, s.Limit+1)
	rows, err := List(ctx, q, what, scan, query, w.args...)
	page, next = Cut(rows, s.Limit, key)
	return page, next, err
}

// Cut makes a page of rows that were read with limit+1. next is the key of the page's last row,
// empty if no row follows.
func Cut[T any](rows []T, limit int, key func(T) string) (page []T, next string) {
	if len(rows) <= limit {
		return rows, ""
	}
	return rows[:limit], key(rows[limit-1])
}
