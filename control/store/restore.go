package store

import (
	"context"
	"encoding/json"
	"fmt"

	"muniment/sealer"
)

// InEvent reads, for Replay.Apply, the record that an event holds (said), and the one that the
// database has (was). said is nil if the event holds no record of this kind, or one of a tenant that
// the database does not know; was is nil if the database has none.
func (k *Records[R]) InEvent(ctx context.Context, tx *Tx, e *sealer.Event) (was, said *R, err error) {
	if e.Subject.Kind != k.Noun || revisionOf(e) == 0 {
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
