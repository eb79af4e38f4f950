package statement

import (
	"context"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// errLost refuses a request for a text that a restored database does not have.
var errLost = api.Conflict("the database was restored from a copy that is older than this statement, and no event holds its text: " +
	"the signed file that was handed out is the proof, and sha256 in the statement's record is that of its text")

// Replay applies the newest event of a statement for store.Replay: one that was issued bills its
// period again, and one that was settled is so. No event holds the text of a statement: a draft
// that the database lacks comes back as DISCARDED.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	was, said, err := statements.NewerInEvent(ctx, tx, e)
	if err != nil || said == nil {
		return false, err
	}
	switch {
	case said.State == Draft:
		said.State = Discarded
	case said.State == Settled && was != nil && was.State == Issued:
		said.Document = was.Document
	}
	return true, statements.Restore(ctx, tx, was, said)
}
