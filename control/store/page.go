package store

import (
	"context"
	"fmt"
	"strings"
)

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
