package proof

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"time"

	"muniment/pipeline"
	"muniment/sealer"
)

// verify says why a row must not be sealed; nil if it may. Receipts have to be signed by keys of the
// purpose. The builder of a pack checks the same of each entry, but names only the first that fails.
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

// quarantinedOf is a row as it is kept when it can't be verified.
func quarantinedOf(row *pipeline.Row, fault error) pipeline.Quarantined {
	return pipeline.Quarantined{
		Position: row.Position, TenantID: row.TenantID, EventID: row.EventID,
		Reason: fault.Error(), Record: sealer.AppendRecord(nil, &row.Record),
	}
}

// quarantineRows keeps what could not be verified of one tenant, and so holds its sealing
// from now on. The position of its partition's loader stays where it is.
func (s *packer) quarantineRows(ctx context.Context, quarantined []pipeline.Quarantined) error {
	partition := quarantined[0].Position.Partition
	next, _, err := s.warehouse.Resume(ctx, partition)
	if err == nil {
		err = s.warehouse.Load(ctx, pipeline.Batch{Partition: partition, From: next, Quarantined: quarantined, Next: next})
	}
	if err != nil {
		return fmt.Errorf("cannot quarantine %d records that can't be verified: %w", len(quarantined), err)
	}
	s.metrics.forged.Add(float64(len(quarantined)))
	for _, a := range quarantined {
		s.cfg.Logger.Error("quarantined record: it can't be verified",
			"tenantId", a.TenantID, "eventId", a.EventID, "position", a.Position.String(), "reason", a.Reason)
	}
	return nil
}
