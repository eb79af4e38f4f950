package erasure

import (
	"context"
	"encoding/json"
	"fmt"

	"muniment.example/control/store"
	"muniment.example/sealer"
)

// Replay applies an event of an erasure for rollback.Replay: it adds the tombstone and the record of an
// erasure that the database lacks, and queues the erasure of the restored data. Those of one person may
// come in any order.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	if e.Type != sealer.TypeErased {
		return false, nil
	}
	said := event{Erasure: &Erasure{}}
	if err := json.Unmarshal(e.Data, &said); err != nil {
		return false, fmt.Errorf("cannot read the erasure's record: %w", err)
	}
	said.TenantID, said.EventID = e.TenantID, e.EventID
	if changed, err = buryAll(ctx, tx, said.tombstones(said.Kinds)); err != nil {
		return false, err
	}
	known, err := store.One(ctx, tx, "the tenant "+e.TenantID, store.Text, `SELECT tenant_id FROM tenants WHERE tenant_id = $1`, e.TenantID)
	if err != nil || known == nil {
		return changed, err // the warehouse may still have rows of a deleted tenant
	}
	_, err = erasures.Find(ctx, tx, e.TenantID, said.ID)
	if store.IsNone(err) {
		changed, said.State, said.Certificate, said.CompletedAt = true, Requested, nil, store.Instant{}
		err = erasures.Insert(ctx, tx, said.Erasure)
	}
	if err != nil || !changed {
		return false, err
	}
	if err := tx.ForgetAnswers(ctx, e.TenantID); err != nil {
		return false, err
	}
	return true, enqueue(ctx, tx, said.Erasure, payload{Restored: true})
}
