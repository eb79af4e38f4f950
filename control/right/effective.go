package right

import (
	"context"
	"fmt"
	"slices"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// These effective states come from the clock alone. No right is stored in them.
const (
	NotBegun api.RightState = "NOT_BEGUN"
	Expired  api.RightState = "EXPIRED"
)

// severity orders states from least to most severe: what ends by itself, what somebody can end, and
// what is final.
var severity = []api.RightState{api.RightActive, NotBegun, api.RightSuspended, Expired, api.RightRevoked}

// worse reports whether a state is more severe than another.
func worse(a, b api.RightState) bool { return slices.Index(severity, a) > slices.Index(severity, b) }

// standing is what a right, an ancestor or a basis contributes to an effective state.
type standing struct {
	id          string
	state       api.RightState
	from, until store.Instant // zero is open
}

func (r *Right) standing() standing {
	return standing{r.ID, r.State, r.EffectiveFrom, r.EffectiveUntil}
}

// at is the most severe of the state and what the clock says.
func (s standing) at(now time.Time) api.RightState {
	state := s.state
	if now.Before(s.from.Time) && worse(NotBegun, state) {
		state = NotBegun
	}
	if !s.until.IsZero() && !now.Before(s.until.Time) && worse(Expired, state) {
		state = Expired
	}
	return state
}

// effective is the most severe state of a right and of what is above it: its ancestors, nearest
// first, and its basis. blockedBy is the cause, where that is not the right alone: the nearest
// ancestor in a state worse than the right's own, or the farthest of those above that begin or end
// together with a right which has not begun or has expired.
func effective(own standing, above []standing, now time.Time) (state api.RightState, blockedBy *string) {
	state = own.at(now)
	for _, a := range above {
		if s := a.at(now); worse(s, state) {
			state, blockedBy = s, &a.id
		}
	}
	if blockedBy != nil {
		return state, blockedBy
	}
	for _, a := range above {
		if state == NotBegun && a.from.Equal(own.from.Time) || state == Expired && a.until.Equal(own.until.Time) {
			blockedBy = &a.id
		}
	}
	return state, blockedBy
}

// blocker is the nearest of a right and its ancestors that is stopped most severely; empty if none is
// stopped.
func blocker(own standing, above []standing) (id string) {
	worst := api.RightActive
	for _, s := range append([]standing{own}, above...) {
		if worse(s.state, worst) {
			worst, id = s.state, s.id
		}
	}
	return id
}

// View is a right in a response: its record, and the effect of its ancestors, its basis and the
// clock.
type View struct {
	Right
	EffectiveState api.RightState `json:"effectiveState" enum:"ACTIVE,NOT_BEGUN,SUSPENDED,EXPIRED,REVOKED" doc:"Whether the right is in force now: the most severe of its own state, its ancestors' states, and NOT_BEGUN before effectiveFrom or EXPIRED from effectiveUntil on. They are listed from least to most severe."`
	BlockedBy      *string        `json:"blockedBy" doc:"What the effective state comes from, if not from this right alone: the ancestor that stops it, or the ancestor or basis that has not begun yet or has ended with it."`
}

func view(ctx context.Context, q store.Querier, r Right, now time.Time) (View, error) {
	views, err := viewAll(ctx, q, []Right{r}, now)
	if err != nil {
		return View{}, err
	}
	return views[0], nil
}

// viewAll reads each ancestor, and each basis that matters, once, however many rights derive from it.
func viewAll(ctx context.Context, q store.Querier, rights []Right, now time.Time) ([]View, error) {
	known := map[string]standing{}
	views := make([]View, 0, len(rights))
	for _, r := range rights {
		above, err := readAncestors(ctx, q, &r, known)
		if err != nil {
			return nil, err
		}
		// A right's window lies within its basis's: the basis only explains why it is outside of it.
		if state := r.standing().at(now); state == NotBegun || state == Expired {
			basis, err := readStanding(ctx, q, r.BasisID, `SELECT 'ACTIVE', effective_from, effective_until FROM bases WHERE basis_id = $1`, known)
			if err != nil {
				return nil, err
			}
			above = append(above, basis)
		}
		v := View{Right: r}
		v.EffectiveState, v.BlockedBy = effective(r.standing(), above, now)
		views = append(views, v)
	}
	return views, nil
}

// readAncestors reads the ancestors of a right that are not known, nearest first.
func readAncestors(ctx context.Context, q store.Querier, r *Right, known map[string]standing) (above []standing, err error) {
	for _, id := range r.Ancestors { // they are of the same tenant
		s, err := readStanding(ctx, q, id, `SELECT state, effective_from, effective_until FROM rights WHERE right_id = $1`, known)
		if err != nil {
			return nil, err
		}
		above = append(above, s)
	}
	return above, nil
}

func readStanding(ctx context.Context, q store.Querier, id, query string, known map[string]standing) (standing, error) {
	if s, ok := known[id]; ok {
		return s, nil
	}
	s := standing{id: id}
	if err := q.QueryRowContext(ctx, query, id).Scan(&s.state, &s.from, &s.until); err != nil {
		return s, fmt.Errorf("cannot read the state of %s: %w", id, err)
	}
	known[id] = s
	return s, nil
}
