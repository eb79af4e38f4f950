package proof

import (
	"context"
	"fmt"
	"strings"
	"time"

	"muniment/control/store"
	"muniment/sealer"
)

// Span is a run of a tenant's packs, by what their headers say.
type Span struct {
	// First and Last are the sequence numbers of its first and last pack, FirstID and LastID their ids.
	First, Last     int64
	FirstID, LastID string
	// From and To are the positions of its first and last entry.
	From, To sealer.Position
	Entries  int64
	// Metering are the lines of all headers.
	Metering []sealer.MeterRow
}

// SealedIn returns the sequence numbers of the first and the last pack of a tenant that were sealed in
// from ≤ sealedAt < to, or, if one of some others is later, of that; 0 if there is none.
func (s *Service) SealedIn(ctx context.Context, tenantID string, from, to time.Time, through []string) (first, last int64, err error) {
	others, args := "", []any{tenantID, store.At(from), store.At(to)}
	for _, id := range through {
		args = append(args, id)
		others += fmt.Sprintf(", $%d", len(args))
	}
	if others != "" {
		others = " OR pack_id IN (" + strings.TrimPrefix(others, ", ") + ")"
	}
	err = s.db.Read().QueryRowContext(ctx, `SELECT COALESCE(MIN(sequence), 0), COALESCE(MAX(sequence), 0) FROM proof_packs
		WHERE tenant_id = $1 AND sealed_at >= $2 AND (sealed_at < $3`+others+`)`, args...).Scan(&first, &last)
	if err != nil {
		return 0, 0, fmt.Errorf("cannot find the packs of %s: %w", tenantID, err)
	}
	return first, last, nil
}

// Span are the packs of a tenant with sequence numbers from first to last.
func (s *Service) Span(ctx context.Context, tenantID string, first, last int64) (*Span, error) {
	span := &Span{First: first, Last: last}
	lines := map[sealer.MeterRow]int{}
	err := store.Each(ctx, s.db.Read(), "the packs of "+tenantID, scanPack, func(p Pack) error {
		h, err := sealer.ParsePackHeader(p.Header)
		if err != nil {
			return err
		}
		if span.FirstID == "" {
			span.FirstID, span.From = p.ID, p.First
		}
		span.LastID, span.To, span.Entries = p.ID, p.Last, span.Entries+int64(p.Count)
		for _, l := range h.Metering {
			kind := l
			kind.Receipts, kind.QuantityMs, kind.Impressions = 0, 0, 0
			i, known := lines[kind]
			if !known {
				i, span.Metering = len(span.Metering), append(span.Metering, kind)
				lines[kind] = i
			}
			of := &span.Metering[i]
			of.Receipts, of.QuantityMs, of.Impressions = of.Receipts+l.Receipts, of.QuantityMs+l.QuantityMs, of.Impressions+l.Impressions
		}
		return nil
	}, `SELECT `+packColumns+` FROM proof_packs WHERE tenant_id = $1 AND sequence >= $2 AND sequence <= $3 ORDER BY sequence`, tenantID, first, last)
	return span, err
}
