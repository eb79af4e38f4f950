package settle

import (
	"context"

	"muniment.example/control/store"
	"muniment.example/sealer"
)

// Replay applies the newest event of a counterparty or a rule for rollback.Replay, so the database
// agrees with the log, which packs are rated by. It clears what is private of
// a counterparty: no event has it, and the older database may name an account that was changed since.
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
