package ingest

import (
	"context"
	"fmt"

	"muniment.example/control/right"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// ReplayMapping applies the newest event of a mapping for rollback.Replay, so a player that was remapped
// after an older database was copied goes on to the new right: a mapping that was retired is retired
// again, and one that is missing is written. Nodes get the windows of its vendor's id under a new
// revision, and held rows that it covers are delivered. A mapping of a right that the database lacks
// can't be written: its plays are held.
func ReplayMapping(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	was, said, err := mappings.NewerInEvent(ctx, tx, e)
	if err != nil || said == nil {
		return false, err
	}
	said.VendorKey = api.VendorKey(said.TenantID, said.Vendor, said.IDType, said.VendorID)
	if was == nil {
		if _, err := right.Find(ctx, tx, said.TenantID, said.Target.RightID); store.IsNone(err) {
			return false, nil
		} else if err != nil {
			return false, err
		}
		if err := emptyOthers(ctx, tx, said); err != nil {
			return false, err
		}
	} else if err := count(ctx, tx, was, was.State, -1); err != nil {
		return false, err
	}
	if err := mappings.Restore(ctx, tx, was, said); err != nil {
		return false, err
	}
	if err := count(ctx, tx, said, said.State, 1); err != nil {
		return false, err
	}
	if was == nil {
		if err := deliverHeld(ctx, tx, said); err != nil {
			return false, err
		}
	}
	return true, republish(ctx, tx, said)
}

// emptyOthers ends another mapping of the vendor's id that begins with a restored one before it began.
// The log has it retired, but events of different mappings are replayed in any order, and no two of
// them are in force from one moment.
func emptyOthers(ctx context.Context, tx *store.Tx, m *Mapping) error {
	if m.EffectiveUntil.Equal(m.EffectiveFrom.Time) { // it never is in force itself
		return nil
	}
	_, err := tx.ExecContext(ctx, `UPDATE mappings SET effective_until = effective_from WHERE vendor_key = $1 AND effective_from = $2 AND `+inForce, m.VendorKey, m.EffectiveFrom)
	if err != nil {
		return fmt.Errorf("cannot end what overlaps with the mapping %s: %w", m.ID, err)
	}
	return nil
}

// deliverHeld has the held rows delivered that a restored mapping covers.
func deliverHeld(ctx context.Context, tx *store.Tx, m *Mapping) error {
	batch, err := begin(ctx, tx, m.TenantID)
	if err != nil {
		return err
	}
	if err := batch.cover(ctx, tx, m); err != nil {
		return err
	}
	return batch.end(ctx, tx)
}

// republish is publish under the revision of this change, which the restored record does not have.
func republish(ctx context.Context, tx *store.Tx, m *Mapping) (err error) {
	published := *m
	if published.Revision, err = tx.Revision(ctx); err != nil {
		return err
	}
	return publish(ctx, tx, &published)
}
