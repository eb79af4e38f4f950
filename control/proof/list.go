package proof

import (
	"context"
)

// PackAfter reads the pack with the lowest id above one, of any tenant; found is false behind
// the last. Ids rise with the moments at which packs were begun.
func (r *Room) PackAfter(ctx context.Context, packID string) (p Pack, found bool, err error) {
	return onePack(r.db.Read().QueryRowContext(ctx, `SELECT `+packColumns+` FROM proof_packs
		WHERE pack_id > $1 ORDER BY pack_id LIMIT 1`, packID))
}
