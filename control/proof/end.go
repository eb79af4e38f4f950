package proof

import (
	"context"
	"time"

	"muniment/gateway/api"
	"muniment/sealer"
)

// End is where a tenant's newest pack ends.
type End struct {
	PackID   string
	RootHash string
	TreeSize uint64
	// Position is right behind its last entry: of the rows before it are its leaves, and those of
	// all packs before.
	Position sealer.Position
	// Rules are the settlement rules that the log holds there.
	Rules []sealer.SettlementRule
}

// Head is how many leaves of a tenant are sealed, and the position of the last; 0 if none is.
func (s *packer) Head(ctx context.Context, tenantID string) (size uint64, last sealer.Position, err error) {
	h, err := readHead(ctx, s.db.Read(), tenantID)
	if err != nil {
		return 0, last, err
	}
	return h.tree.Size(), h.position, nil
}

// SealToEnd is SealSome that fails if not all could be sealed, and returns the end of the newest
// pack; nil if the tenant has none.
func (s *packer) SealToEnd(ctx context.Context, tenantID string, by sealer.Ref) (*End, error) {
	sealed, err := s.SealSome(ctx, tenantID, nil, by)
	if err != nil {
		return nil, err
	}
	if sealed.More {
		return nil, api.Unavailable(api.WarehouseBehind, "not all events are sealed yet; what was sealed stays so: send the request again", time.Second)
	}
	now, err := readHead(ctx, s.db.Read(), tenantID)
	if err != nil || now.sequence == 0 {
		return nil, err
	}
	return s.EndOf(ctx, tenantID, now.packID)
}

// EndOf is the end of a pack of a tenant; RESOURCE_NOT_FOUND if it has none of that id.
func (s *packer) EndOf(ctx context.Context, tenantID, packID string) (*End, error) {
	p, found, err := readPack(ctx, s.db.Read(), tenantID, packID)
	if err == nil && !found {
		err = api.NotFound("proof pack")
	}
	if err != nil {
		return nil, err
	}
	header, err := sealer.ParsePackHeader(p.Header)
	if err != nil {
		return nil, err
	}
	return &End{PackID: p.ID, RootHash: p.RootHash, TreeSize: header.TreeSize, Position: p.Last.Next(), Rules: header.Rules()}, nil
}
