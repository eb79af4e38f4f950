package clickhouse

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// column is a column of a table for rows of type T. The driver takes the values of all rows
// at once.
type column[T any] struct {
	name string
	fill func(driver.BatchColumn, []T) error
}

// of is the column whose values value takes from the rows. Its buffers are used again.
func of[T, V any](name string, value func(*T) V) column[T] {
	var buffers sync.Pool
	return column[T]{name, func(c driver.BatchColumn, rows []T) error {
		buffer, _ := buffers.Get().(*[]V)
		if buffer == nil {
			buffer = new([]V)
		}
		values := (*buffer)[:0]
		for i := range rows {
			values = append(values, value(&rows[i]))
		}
		err := c.Append(values)
		clear(values)
		*buffer = values
		buffers.Put(buffer)
		return err
	}}
}

// text is b as a string that shares its bytes: the driver copies them before it returns.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// insert sends the rows as one block; without a row it sends nothing. After an error the
// outcome is unknown.
func insert[T any](ctx context.Context, w *servers, table string, columns []column[T], rows []T) error {
	if len(rows) == 0 {
		return nil
	}
	err := w.retryRefused(ctx, func() error {
		sending, sent := whileSending(ctx)
		defer sent()
		batch, err := w.conn.PrepareBatch(sending, "INSERT INTO "+table+" ("+strings.Join(names(columns), ", ")+")")
		if err != nil {
			return err
		}
		defer batch.Close()
		for i, c := range columns {
			if err := c.fill(batch.Column(i), rows); err != nil {
				return fmt.Errorf("column %s: %w", c.name, err)
			}
		}
		err = batch.Send()
		sent()
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot insert into %s: %w", table, err)
	}
	return nil
}

// sending is a batch's context, which ends with another one until the batch was sent, and then
// no more. The driver closes a batch's connection when its context ends, even if the batch
// was sent just before and the connection is another call's by now
// (ClickHouse/clickhouse-go#2032).
type sending struct {
	context.Context
	done chan struct{}
}

func (s *sending) Done() <-chan struct{} { return s.done }

// whileSending returns the context of a batch, and what to call when it was sent.
func whileSending(ctx context.Context) (_ *sending, sent func() bool) {
	s := &sending{ctx, make(chan struct{})}
	return s, context.AfterFunc(ctx, func() { close(s.done) })
}

func names[T any](columns []column[T]) (names []string) {
	for _, c := range columns {
		names = append(names, c.name)
	}
	return names
}
