package store

import "context"

// Slice is which records of a list are read: the Limit first ones behind that with the key
// Behind, or of all where it is empty.
type Slice struct {
	Behind string
	Limit  int
}

// ListPage is List for a slice. The query has as $1 the key that the slice begins behind, and
// as $2 how many rows to read. next is the key that the next slice begins behind, empty when
// there is none.
func ListPage[T any](ctx context.Context, q Querier, s Slice, what string, key func(T) string, scan func(Row) (T, error), query string, args ...any) (page []T, next string, err error) {
	rows, err := List(ctx, q, what, scan, query, append([]any{s.Behind, s.Limit + 1}, args...)...)
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
