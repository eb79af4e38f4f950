package proof

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"time"

	"muniment/pipeline"
	"muniment/sealer"
)

// verify says why a row must not be sealed; nil if it may: receipts are signed by keys of
// the purpose. The builder of a pack
// asks the same of each entry, but only names the first that fails.
func verify(row *pipeline.Row, keys *sealer.Directory, purpose string, sealedAt time.Time) error {
	_, delivery, err := sealer.CheckRecord(&row.Record)
	if err != nil || delivery == nil {
		return err
	}
	pub, fault := keys.FindSealed(delivery.KeyID, purpose, delivery.Receipt.IssuedAt, sealedAt)
	if fault != "" {
		return fmt.Errorf("%s: receipt %s is signed by %s", fault, delivery.Receipt.ReceiptID, delivery.KeyID)
	}
	if !ed25519.Verify(pub, delivery.ReceiptText, delivery.Signature) {
		return fmt.Errorf("%s: receipt %s is not signed by %s", sealer.SignatureInvalid, delivery.Receipt.ReceiptID, delivery.KeyID)
	}
	return nil
}

// setAsideOf is a row as it is kept when it can't be verified.
func setAsideOf(row *pipeline.Row, fault error) pipeline.SetAside {
	return pipeline.SetAside{
		Position: row.Position, TenantID: row.TenantID, EventID: row.EventID,
		Reason: fault.Error(), Record: sealer.AppendRecord(nil, &row.Record),
	}
}

// setAside keeps what could not be verified of one tenant, and so holds its sealing
// from now on. The position of its partition's loader stays where it is.
func (r *Room) setAside(ctx context.Context, aside []pipeline.SetAside) error {
	partition := aside[0].Position.Partition
	next, _, err := r.warehouse.Resume(ctx, partition)
	if err == nil {
		err = r.warehouse.Load(ctx, pipeline.Batch{Partition: partition, From: next, SetAside: aside, Next: next})
	}
	if err != nil {
		return fmt.Errorf("cannot set aside %d records that can't be verified: %w", len(aside), err)
	}
	r.metrics.forged.Add(float64(len(aside)))
	for _, a := range aside {
		r.cfg.Logger.Error("record set aside: it can't be verified",
			"tenantId", a.TenantID, "eventId", a.EventID, "position", a.Position.String(), "reason", a.Reason)
	}
	return nil
}
