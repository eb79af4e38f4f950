package challenge

import (
	"context"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

var challenges = store.Machine[Challenge, Action, State]{
	Records: store.Records[Challenge]{Noun: "challenge", Table: "challenges"}, Steps: transitions,
}

// filter selects the challenges that have each given value.
type filter struct{ rightID, state string }

// list lists the tenant's challenges, newest first.
func list(ctx context.Context, q store.Querier, tenantID string, f filter, s store.Slice) (page []Challenge, next string, err error) {
	var w store.Where
	w.Is("right_id", f.rightID)
	w.Is("state", f.state)
	return challenges.Page(ctx, q, tenantID, w, s)
}

// Count counts the tenant's challenges in any state.
func (s *Service) Count(ctx context.Context, tenantID string) (int64, error) {
	return store.Count(ctx, s.db.Read(), "challenges", `SELECT COUNT(*) FROM challenges WHERE tenant_id = $1`, tenantID)
}

// Replay applies the newest event of a challenge for rollback.Replay: one that is OPEN is
// closed as the record says.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	return challenges.ReplayClosed(ctx, tx, e)
}

// Sections are the data of this package in an export of the tenant.
var Sections = []store.Section{challenges.Section("challenges", api.ChallengesRead)}
