package statement

import (
	"context"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// errLost refuses a request for a text that a restored database lacks.
var errLost = api.Conflict("the database was restored from a copy that is older than this statement, so its text is lost: " +
	"the signed file that was handed out is the proof, and sha256 in the statement's record is its hash")

// uncorrectable refuses a correction or a void of a chain whose newest statement's text is lost.
func uncorrectable(id string) error {
	return api.Conflict("the database was restored from a copy that is older than the statement " + id + ", so its text is lost, and without it the period can be neither corrected nor voided here. " +
		"Restore a copy from after its issue, if there is one. Otherwise compute the correction from the signed file that was handed out and the packs, agree on it with the payees, and pay it outside; " +
		"the period stays stated, so it is not billed again")
}

// Replay applies the newest event of a statement for rollback.Replay, so an issued statement occupies
// its period again. No event has the text of a statement: a draft that the database lacks becomes
// DISCARDED.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	was, said, err := statements.NewerInEvent(ctx, tx, e)
	if err != nil || said == nil {
		return false, err
	}
	switch {
	case said.State == Draft:
		said.State = Discarded
	case was != nil && was.Sequence > 0:
		said.Document = was.Document
	}
	return true, statements.Restore(ctx, tx, was, said)
}
