package store

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"time"

	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
)

// Records are a service's records of one type, kept in one table. The tags of R name the columns;
// the first is the key, and tenant_id, updated_at and revision are required. The fields of a
// structure tagged "*" are columns too. Only columns tagged "moves" are updated. A service needs
// SQL of its own only for lists:
//
//	type Mapping struct {
//		ID     string `json:"id" db:"mapping_id"`
//		Target Target `json:"target" db:"*"`
//		State  State  `json:"state" db:"state,moves"`
//		…
//	}
//	var mappings = store.Records[Mapping]{Noun: "mapping", Table: "mappings"}
type Records[R any] struct {
	// Noun names a record in errors, and as the subject of its events.
	Noun  string
	Table string
	// Feed publishes the record's snapshot for nodes (Publish); nil: none.
	Feed func(ctx context.Context, tx *Tx, r *R) error
	// Hide splits a record that may name a person: shown becomes the event's data instead of the
	// record, and hidden its private part. nil: the record is the data.
	Hide func(r *R) (shown any, hidden sealer.Private, err error)
}

// columns are a record's row.
type columns []column

type column struct {
	name  string
	moves bool
	at    any // a pointer to its value
}

func columnsOf[R any](r *R) columns { return columnsIn(reflect.ValueOf(r).Elem()) }

func columnsIn(record reflect.Value) (all columns) {
	for i := range record.NumField() {
		tag, kept := record.Type().Field(i).Tag.Lookup("db")
		switch name, moves := strings.CutSuffix(tag, ",moves"); {
		case !kept:
		case name == "*":
			all = append(all, columnsIn(record.Field(i))...)
		default:
			all = append(all, column{name, moves, asColumn(record.Field(i).Addr().Interface())})
		}
	}
	return all
}

// at points to the value of a required column.
func at[T any](columns columns, name string) *T {
	i := slices.IndexFunc(columns, func(c column) bool { return c.name == name })
	return columns[i].at.(*T)
}

func (c columns) id() string { return *c[0].at.(*string) }

// list returns names, parameters and pointers in one order.
func (c columns) list() (names, params string, pointers []any) {
	for i, one := range c {
		names, params, pointers = names+", "+one.name, params+fmt.Sprintf(", $%d", i+1), append(pointers, one.at)
	}
	return names[2:], params[2:], pointers
}

// Select begins a query whose rows Scan reads.
func (k *Records[R]) Select() string {
	names, _, _ := columnsOf(new(R)).list()
	return "SELECT " + names + " FROM " + k.Table
}

// Scan reads a record.
func (k *Records[R]) Scan(row Row) (r R, err error) {
	_, _, pointers := columnsOf(&r).list()
	err = row.Scan(pointers...)
	return r, err
}

// Find returns a record of the tenant, RESOURCE_NOT_FOUND if it has none of that id.
func (k *Records[R]) Find(ctx context.Context, q Querier, tenantID, id string) (*R, error) {
	key := columnsOf(new(R))[0].name
	return Find(ctx, q, k.Noun, id, k.Scan, k.Select()+" WHERE tenant_id = $1 AND "+key+" = $2", tenantID, id)
}

// Page lists a slice of the tenant's records that meet the conditions, newest first.
func (k *Records[R]) Page(ctx context.Context, q Querier, tenantID string, w Where, s Slice) (page []R, next string, err error) {
	key := columnsOf(new(R))[0].name
	w.Is("tenant_id", tenantID)
	return ListPage(ctx, q, s, "the "+k.Table+" of "+tenantID, func(r R) string { return columnsOf(&r).id() }, k.Scan, k.Select(), key, w)
}

// Insert writes a new record with the revision of this change, and publishes it.
func (k *Records[R]) Insert(ctx context.Context, tx *Tx, r *R) error {
	return k.revise(ctx, tx, r, func() error { return k.add(ctx, tx, r) })
}

// add is Insert of the row alone, with the revision that it has.
func (k *Records[R]) add(ctx context.Context, tx *Tx, r *R) error {
	names, params, args := columnsOf(r).list()
	return k.write(ctx, tx, r, "INSERT INTO "+k.Table+" ("+names+") VALUES ("+params+")", args)
}

// Create is Insert and Emit.
func (k *Records[R]) Create(ctx context.Context, tx *Tx, kind *Kind, r *R, by sealer.Ref, also any) error {
	if err := k.Insert(ctx, tx, r); err != nil {
		return err
	}
	return k.Emit(ctx, tx, kind, r, by, also)
}

// Update writes a changed record with the revision of this change, and publishes it. If the row no
// longer has the revision of was, another change was faster: the error is STATE_CONFLICT.
func (k *Records[R]) Update(ctx context.Context, tx *Tx, was, next *R) error {
	return k.revise(ctx, tx, next, func() error { return k.replace(ctx, tx, was, next) })
}

// replace updates only the row, with the revision of next.
func (k *Records[R]) replace(ctx context.Context, tx *Tx, was, next *R) error {
	of := columnsOf(was)
	names, params, args := slices.DeleteFunc(columnsOf(next), func(c column) bool { return !c.moves }).list()
	n := len(args)
	return k.write(ctx, tx, was, fmt.Sprintf("UPDATE %s SET (%s) = (%s) WHERE %s = $%d AND tenant_id = $%d AND revision = $%d",
		k.Table, names, params, of[0].name, n+1, n+2, n+3), append(args, of.id(), at[string](of, "tenant_id"), at[int64](of, "revision")))
}

// paramsAtOnce is about how many parameters a statement has that writes many rows: SQLite looks each of them up
// among all, so a statement of thousands takes longer than several.
const paramsAtOnce = 500

// pieces divides rows of some columns into those of one statement each.
func pieces[R any](all []R, columns int) iter.Seq[[]R] {
	return slices.Chunk(all, max(1, paramsAtOnce/columns))
}

// CreateAll is Create of many records, by statements of many rows. Their events have no further members.
func (k *Records[R]) CreateAll(ctx context.Context, tx *Tx, kind *Kind, all []R, by sealer.Ref) error {
	if err := k.writeAll(ctx, tx, all, ""); err != nil {
		return err
	}
	return k.EmitAll(ctx, tx, kind, all, by)
}

// UpdateAll is Update of many records, which were read in this change.
func (k *Records[R]) UpdateAll(ctx context.Context, tx *Tx, all []R) error {
	var sets []string
	of := columnsOf(new(R))
	for _, c := range of {
		if c.moves {
			sets = append(sets, c.name+" = excluded."+c.name)
		}
	}
	return k.writeAll(ctx, tx, all, " ON CONFLICT ("+of[0].name+") DO UPDATE SET "+strings.Join(sets, ", ")+" WHERE "+k.Table+".tenant_id = excluded.tenant_id")
}

// writeAll writes rows with the revision of this change; behind is what follows their values.
func (k *Records[R]) writeAll(ctx context.Context, tx *Tx, all []R, behind string) (err error) {
	for piece := range pieces(all, len(columnsOf(new(R)))) {
		var rows []string
		var args []any
		names := ""
		for i := range piece {
			c := columnsOf(&piece[i])
			if *at[int64](c, "revision"), err = tx.Revision(ctx); err != nil {
				return err
			}
			var pointers []any
			names, _, pointers = c.list()
			rows, args = append(rows, "("+Marks(len(args), len(pointers))+")"), append(args, pointers...)
		}
		result, err := tx.ExecContext(ctx, "INSERT INTO "+k.Table+" ("+names+") VALUES "+strings.Join(rows, ", ")+behind, args...)
		var n int64
		if err == nil {
			n, err = result.RowsAffected()
		}
		switch {
		case err != nil:
			return fmt.Errorf("cannot write the %s: %w", k.Table, err)
		case n != int64(len(piece)):
			return fmt.Errorf("cannot write the %s: %d of %d rows are there", k.Table, n, len(piece))
		}
		for i := range piece {
			if k.Feed == nil {
				break
			}
			if err := k.Feed(ctx, tx, &piece[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// revise sets the revision of this change, calls write, and publishes the record.
func (k *Records[R]) revise(ctx context.Context, tx *Tx, r *R, write func() error) (err error) {
	if *at[int64](columnsOf(r), "revision"), err = tx.Revision(ctx); err != nil {
		return err
	}
	if err := write(); err != nil || k.Feed == nil {
		return err
	}
	return k.Feed(ctx, tx, r)
}

func (k *Records[R]) write(ctx context.Context, tx *Tx, r *R, query string, args []any) error {
	var n int64
	result, err := tx.ExecContext(ctx, query, args...)
	if err == nil {
		n, err = result.RowsAffected()
	}
	switch {
	case err != nil:
		return fmt.Errorf("cannot write the %s %s: %w", k.Noun, columnsOf(r).id(), err)
	case n != 1:
		return api.Conflict("the " + k.Noun + " was changed at the same time")
	}
	return nil
}

// Emit emits an event of a record at its updatedAt. Its data is the record, or what Hide shows of
// it, with the members of also, if that isn't nil.
func (k *Records[R]) Emit(ctx context.Context, tx *Tx, kind *Kind, r *R, by sealer.Ref, also any) error {
	e, err := k.event(kind, r, by, also)
	if err != nil {
		return err
	}
	return tx.emit(ctx, []*outgoingEvent{e})
}

// EmitAll is Emit of many records, by statements of many rows.
func (k *Records[R]) EmitAll(ctx context.Context, tx *Tx, kind *Kind, all []R, by sealer.Ref) error {
	for piece := range pieces(all, outboxColumns) {
		var events []*outgoingEvent
		for i := range piece {
			e, err := k.event(kind, &piece[i], by, nil)
			if err != nil {
				return err
			}
			events = append(events, e)
		}
		if err := tx.emit(ctx, events); err != nil {
			return err
		}
	}
	return nil
}

// event is what Emit emits.
func (k *Records[R]) event(kind *Kind, r *R, by sealer.Ref, also any) (*outgoingEvent, error) {
	shown, hidden := any(r), sealer.Private{}
	var err error
	if k.Hide != nil {
		if shown, hidden, err = k.Hide(r); err != nil {
			return nil, err
		}
	}
	data, err := canonical.JSON(shown)
	if err == nil && also != nil {
		var more []byte
		if more, err = canonical.JSON(also); err == nil {
			data, err = canonical.JSON(json.RawMessage(string(data[:len(data)-1]) + "," + string(more[1:])))
		}
	}
	if err != nil {
		return nil, err
	}
	c := columnsOf(r)
	e := &outgoingEvent{kind: kind, Event: sealer.Event{
		TenantID: *at[string](c, "tenant_id"), At: at[Instant](c, "updated_at").Time, Actor: by, Subject: sealer.Ref{Kind: k.Noun, ID: c.id()}, Data: data,
	}}
	if k.Hide == nil {
		return e, nil
	}
	return e, e.hide(hidden)
}

// asColumn is the value that a column is written from and read into: a list of words is text,
// separated by spaces; other lists and structures are JSON.
func asColumn(at any) any {
	if words, ok := at.(*[]string); ok {
		return text{
			func() ([]byte, error) { return []byte(strings.Join(*words, " ")), nil },
			func(s string) error { *words = strings.Fields(s); return nil },
		}
	}
	value := reflect.ValueOf(at).Elem()
	if _, scans := at.(sql.Scanner); !scans && (value.Kind() == reflect.Slice || value.Kind() == reflect.Struct) {
		return text{func() ([]byte, error) { return canonical.JSON(value.Interface()) }, func(s string) error { return json.Unmarshal([]byte(s), at) }}
	}
	return at
}

type text struct {
	write func() ([]byte, error)
	read  func(string) error
}

func (t text) Value() (driver.Value, error) {
	written, err := t.write()
	return string(written), err
}

func (t text) Scan(column any) error {
	s, ok := column.(string)
	if !ok {
		return fmt.Errorf("a %T is no text", column)
	}
	return t.read(s)
}

// InEvent reads, for rollback.Replay.Apply, the record that an event holds (said), and the one that the
// database has (was). said is nil if the event holds no record of this kind, or one of a tenant that
// the database does not know; was is nil if the database has none.
func (k *Records[R]) InEvent(ctx context.Context, tx *Tx, e *sealer.Event) (was, said *R, err error) {
	if e.Subject.Kind != k.Noun || RevisionOf(e) == 0 {
		return nil, nil, nil
	}
	known, err := One(ctx, tx, "the tenant "+e.TenantID, Text, `SELECT tenant_id FROM tenants WHERE tenant_id = $1`, e.TenantID)
	if err != nil || known == nil {
		return nil, nil, err
	}
	said = new(R)
	if err := json.Unmarshal(e.Data, said); err != nil {
		return nil, nil, fmt.Errorf("cannot read the record of the %s: %w", k.Noun, err)
	}
	c := columnsOf(said)
	*at[string](c, "tenant_id") = e.TenantID
	if c.id() != e.Subject.ID {
		return nil, nil, nil
	}
	if was, err = k.Find(ctx, tx, e.TenantID, e.Subject.ID); IsNone(err) {
		return nil, said, nil
	}
	return was, said, err
}

// NewerInEvent is InEvent, but said is nil also if the database's record is as new as the event's, or newer.
func (k *Records[R]) NewerInEvent(ctx context.Context, tx *Tx, e *sealer.Event) (was, said *R, err error) {
	was, said, err = k.InEvent(ctx, tx, e)
	if err == nil && was != nil && *at[int64](columnsOf(said), "revision") <= *at[int64](columnsOf(was), "revision") {
		said = nil
	}
	return was, said, err
}

// Restore replaces was by said, as InEvent has read both: with said's own revision, and without an
// event. It is not published.
func (k *Records[R]) Restore(ctx context.Context, tx *Tx, was, said *R) error {
	if was != nil {
		return k.replace(ctx, tx, was, said)
	}
	return k.add(ctx, tx, said)
}

// Section is one kind of a tenant's data, for exports. The members of its rows as JSON are its
// columns.
type Section struct {
	Name string
	// Scope is what reads the same from other operations. An export has no section that its requester could not read.
	Scope api.Scope
	// Row is an empty row.
	Row any
	// Each calls take for each of the tenant's rows, which take must not keep.
	Each func(ctx context.Context, q Querier, tenantID string, take func(row any) error) error
}

// Section returns all records of a tenant, oldest first.
func (k *Records[R]) Section(name string, scope api.Scope) Section {
	return SectionOf(name, scope, k.Scan, k.Select()+" WHERE tenant_id = $1 ORDER BY "+columnsOf(new(R))[0].name)
}

// SectionOf returns the rows that a query finds for the tenant $1.
func SectionOf[R any](name string, scope api.Scope, scan func(Row) (R, error), query string) Section {
	return Section{name, scope, *new(R), func(ctx context.Context, q Querier, tenantID string, take func(row any) error) error {
		return Each(ctx, q, name+" of "+tenantID, scan, func(r R) error { return take(r) }, query, tenantID)
	}}
}

// Instant is a time as records hold it: UTC, in whole milliseconds. In a column it is a BIGINT of
// milliseconds, in JSON the format of canonical.FormatTime, so a record looks the same in responses
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
	return canonical.FormatTime(i.Time)
}

// MarshalJSON writes the time, or null.
func (i Instant) MarshalJSON() ([]byte, error) {
	if i.IsZero() {
		return []byte("null"), nil
	}
	dst := canonical.AppendTime([]byte{'"'}, i.Time)
	return append(dst, '"'), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (i *Instant) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*i = Instant{}
		return nil
	}
	t, err := canonical.ParseTime(string(bytes.Trim(text, `"`)))
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

// RevisionOf reads the revision of the record in an event's data, 0 when it has none.
func RevisionOf(e *sealer.Event) int64 {
	var record struct {
		Revision int64 `json:"revision"`
	}
	if json.Unmarshal(e.Data, &record) != nil {
		return 0
	}
	return record.Revision
}
