package store

import (
	"context"
	"fmt"
	"strings"
)

// Slice is which records of a list are read: the Limit first ones behind that with the key
// Behind, or of all where it is empty.
type Slice struct {
	Behind string
	Limit  int
}

// Where are the conditions of a query, with their arguments. One that is not asked for is
// left out, so that each query says what an index can answer: of a condition that may be
// none, no database knows which.
type Where struct {
	conditions []string
	args       []any
}

// And adds a condition, in which $ stands for the value.
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

// Count is the number that a query tells of what meets all conditions, of which there must be
// one at least. An error calls that what.
func (w Where) Count(ctx context.Context, q Querier, what, query string) (n int64, err error) {
	if err = q.QueryRowContext(ctx, query+" WHERE "+strings.Join(w.conditions, " AND "), w.args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("cannot count %s: %w", what, err)
	}
	return n, nil
}

// ListPage lists a slice of the rows of a query that meet all conditions, the highest key
// first, of which the column is by. next is the key that the next slice begins behind, empty
// when there is none. A column of a condition needs an index in which by comes next.
func ListPage[T any](ctx context.Context, q Querier, s Slice, what string, key func(T) string, scan func(Row) (T, error), query, by string, w Where) (page []T, next string, err error) {
	if s.Behind != "" {
		w.And(by+" < $", s.Behind)
	}
	query += " WHERE " + strings.Join(w.conditions, " AND ") + fmt.Sprintf(" ORDER BY %s DESC LIMIT %d", by, s.Limit+1)
	rows, err := List(ctx, q, what, scan, query, w.args...)
	page, next = Cut(rows, s.Limit, key)
	return page, next, err
}

// Cut makes a page of rows that were read with one more than limit. next is the key of its
// last one, empty when nothing is behind it.
func Cut[T any](rows []T, limit int, key func(T) string) (page []T, next string) {
	if len(rows) <= limit {
		return rows, ""
	}
	return rows[:limit], key(rows[limit-1])
}
