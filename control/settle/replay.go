package settle

import (
	"context"

	"muniment/control/store"
	"muniment/sealer"
)

// Replay applies the newest event of a counterparty or a rule for store.Replay: the database shows
// it as the log has it, by which packs are rated whatever the database says. payoutRef and taxId of a
// counterparty are gone then, because no event has them: those of an older database may be of an account
// that was changed since.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	if e.Subject.Kind == counterparties.Noun {
		was, said, err := counterparties.NewerInEvent(ctx, tx, e)
		if err != nil || said == nil {
			return false, err
		}
		return true, counterparties.Restore(ctx, tx, was, said)
	}
	was, said, err := rules.NewerInEvent(ctx, tx, e)
	if err != nil || said == nil {
		return false, err
	}
	return true, rules.Restore(ctx, tx, was, said)
}
