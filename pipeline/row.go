package pipeline

import (
	"fmt"

	"muniment.example/sealer"
)

// NewRow checks that the headers, event, private part and witness of a record
// agree, and returns its row, which refers to e's bytes. An error is why the record has to
// be quarantined. No signature is checked.
func NewRow(e sealer.Entry) (Row, error) {
	event, delivery, err := sealer.CheckRecord(&e.Record)
	if err != nil {
		return Row{}, fmt.Errorf("record at %s: %w", e.Position, err)
	}
	row := Row{
		Entry:       e,
		Type:        event.Type,
		At:          event.At,
		ActorKind:   event.Actor.Kind,
		ActorID:     event.Actor.ID,
		SubjectKind: event.Subject.Kind,
		SubjectID:   event.Subject.ID,
	}
	if d := delivery; d != nil {
		row.Delivery = &Delivery{
			ReceiptID:     d.Receipt.ReceiptID,
			RightID:       d.RightID,
			RightRevision: d.RightRevision,
			BasisID:       d.BasisID,
			Substrate:     d.Substrate,
			RenderedAt:    d.Receipt.RenderedAt,
			IssuedAt:      d.Receipt.IssuedAt,
			SigningKeyID:  d.KeyID,
			Metered:       d.Metered,
			Reason:        d.Reason,
			MeteringBasis: d.Basis,
			QuantityMs:    d.QuantityMs,
			Idempotency:   d.Idempotency,
			Identity:      d.Identity,
			Impressions:   d.Impressions,
			Completion:    d.Completion,

			SpatialAnchorID: d.Receipt.SpatialAnchorID,
		}
		if d.Receipt.SpatialPlacementID != nil {
			row.Delivery.SpatialPlacementID = *d.Receipt.SpatialPlacementID
		}
		if d.Receipt.CorrelationID != nil {
			row.Delivery.CorrelationID = *d.Receipt.CorrelationID
		}
	}
	return row, nil
}

// newQuarantined keeps a record that failed its check.
func newQuarantined(e sealer.Entry, reason error) Quarantined {
	return Quarantined{
		Position: e.Position,
		TenantID: readableID(e.TenantID),
		EventID:  readableID(e.EventID),
		Reason:   reason.Error(),
		Record:   sealer.AppendRecord(nil, &e.Record),
	}
}

// readableID is id if it has the form of one, else empty: a damaged header must not be taken
// for a tenant that doesn't exist.
func readableID(id string) string {
	if len(id) < 5 || len(id) > 64 || id[3] != '_' {
		return ""
	}
	for i := range len(id) {
		if c := id[i]; c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return ""
		}
	}
	return id
}
