package store

import (
	"bytes"
	"database/sql/driver"
	"fmt"
	"time"

	"muniment/sealer"
)

// Instant is a time as records hold it: UTC, in whole milliseconds. In a column it is a BIGINT of
// milliseconds, in JSON the format of sealer.FormatTime, so a record looks the same in responses
// and in events. The zero Instant is NULL in a column and null in JSON.
type Instant struct{ time.Time }

// At makes an Instant. The zero time makes the zero Instant.
func At(t time.Time) Instant {
	if t.IsZero() {
		return Instant{}
	}
	return Instant{t.UTC().Truncate(time.Millisecond)}
}

// String formats the time as JSON does, and the zero Instant as "-".
func (i Instant) String() string {
	if i.IsZero() {
		return "-"
	}
	return sealer.FormatTime(i.Time)
}

// MarshalJSON writes the time, or null.
func (i Instant) MarshalJSON() ([]byte, error) {
	if i.IsZero() {
		return []byte("null"), nil
	}
	dst := sealer.AppendTime([]byte{'"'}, i.Time)
	return append(dst, '"'), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (i *Instant) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*i = Instant{}
		return nil
	}
	t, err := sealer.ParseTime(string(bytes.Trim(text, `"`)))
	*i = At(t)
	return err
}

// Value returns the time as a column holds it.
func (i Instant) Value() (driver.Value, error) {
	if i.IsZero() {
		return nil, nil
	}
	return i.UnixMilli(), nil
}

// Scan reads what Value wrote.
func (i *Instant) Scan(column any) error {
	switch column := column.(type) {
	case nil:
		*i = Instant{}
	case int64:
		*i = Instant{time.UnixMilli(column).UTC()}
	default:
		return fmt.Errorf("a %T is not a time", column)
	}
	return nil
}
