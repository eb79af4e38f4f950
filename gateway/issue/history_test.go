package issue

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/issuetest"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
)

// past is the history of a right as a person would write it down: when it was in force, and what was
// done with it, by rising time.
type past struct {
	id          string
	from, until time.Time
	suspensions []api.Suspension
	revoked     bool
}

func (p *past) suspendedAt(at time.Time) bool {
	for _, s := range p.suspensions {
		if !at.Before(s.From) && (s.Until.IsZero() || at.Before(s.Until)) {
			return true
		}
	}
	return false
}

func (p *past) suspendedNow() bool {
	return len(p.suspensions) > 0 && p.suspensions[len(p.suspensions)-1].Until.IsZero()
}

// snapshot is what control publishes of it: the newest 64 suspensions, of those that ended in the
// last 31 days.
func (p *past) snapshot(ancestors []string) api.Right {
	r := api.Right{
		ID: p.id, TenantID: "tnt_a", BasisID: "bas_1", Substrate: "DOOH", State: api.RightActive, Ancestors: ancestors,
		EffectiveFrom: p.from, EffectiveUntil: p.until, Suspensions: p.suspensions,
	}
	for len(r.Suspensions) > 0 {
		oldest := r.Suspensions[0]
		if len(r.Suspensions) <= 64 && (oldest.Until.IsZero() || issuetest.Today.Sub(oldest.Until) < 31*24*time.Hour) {
			break
		}
		r.Suspensions, r.SuspensionsSince = r.Suspensions[1:], oldest.Until
	}
	switch {
	case p.revoked:
		r.State = api.RightRevoked
	case p.suspendedNow():
		r.State = api.RightSuspended
	}
	return r
}

// pastOf draws a history of the last 40 days, in half hours.
func pastOf(drawn *rand.Rand, id string) *past {
	p := &past{id: id, from: issuetest.Today.AddDate(-1, 0, 0)}
	if drawn.IntN(3) == 0 {
		p.from = issuetest.Today.Add(-time.Duration(drawn.IntN(40*48)) * 30 * time.Minute)
		p.until = p.from.Add(time.Duration(1+drawn.IntN(40*48)) * 30 * time.Minute)
	}
	pauses := []int{2, 20, 200, 900}[drawn.IntN(4)]
	for at := issuetest.Today.AddDate(0, 0, -40); drawn.IntN(9) > 0 || pauses == 2; {
		at = at.Add(time.Duration(drawn.IntN(pauses)) * 30 * time.Minute)
		s := api.Suspension{From: at, Until: at.Add(time.Duration(drawn.IntN(pauses)) * 30 * time.Minute)}
		if !s.From.Before(issuetest.Today) {
			break
		}
		if s.Until.After(issuetest.Today) {
			s.Until = time.Time{}
		}
		p.suspensions = append(p.suspensions, s)
		if at = s.Until; at.IsZero() {
			break
		}
	}
	p.revoked = drawn.IntN(12) == 0
	return p
}

// outcome is the status of a row, and the reason of its error.
func outcome(r *RowResult) (status string, reason api.Reason) {
	if e, ok := errors.AsType[*api.Error](r.Err); ok {
		reason = e.Reason
	}
	return r.Status.String(), reason
}

// TestRowsAndTheHistoryOfTheirRight sends rows of random plays on a right with random ancestors and
// histories, to a node that may not reach control for a while. A row is delivered if its right was in
// force when it was played, neither it nor an ancestor was suspended then, and none of them is revoked
// now. It is held if one of them is suspended now.
func TestRowsAndTheHistoryOfTheirRight(t *testing.T) {
	f := rowsFixture(t, nil)
	seen := map[string]int{}
	rounds := uint64(60)
	if os.Getenv("MUNIMENT_TEST_FULL") != "" {
		rounds = 3_000
	}
	for seed := range rounds {
		drawn := rand.New(rand.NewPCG(seed, 31))
		var line []*past // the right, its parent and so on
		var ids []string
		for range 1 + drawn.IntN(3) {
			ids = append(ids, issuetest.RightID(1000+int(seed)*3+len(ids)))
			line = append(line, pastOf(drawn, ids[len(ids)-1]))
		}
		for i := len(line) - 1; i >= 0; i-- {
			f.control.SetHistory(line[i].id, line[i].suspensions)
			f.await(f.control.SetRight(line[i].snapshot(ids[i+1:])))
		}
		var plays []time.Time
		for range 20 {
			plays = append(plays, issuetest.Today.Add(-time.Duration(drawn.IntN(30*48))*30*time.Minute-time.Duration(drawn.IntN(2))*time.Millisecond))
		}
		var rows []Row
		for i, at := range plays {
			rows = append(rows, Row{JSON: fmt.Appendf(nil, `{"rowId":"%d-%d","vendor":"acme","rightId":%q,"spatialAnchorId":"a","playedAt":%q,"dwellMs":4200}`, seed, i, ids[0], canonical.FormatTime(at))})
		}
		if away := drawn.IntN(3) == 0; away {
			f.control.Fail(errors.New("control is away"))
			results, err := f.IssueRows(t.Context(), f.tenant, &Batch{Rows: rows})
			f.control.Fail(nil)
			require.NoError(t, err)
			for i := range results {
				status, reason := outcome(&results[i])
				if reason == api.RightsStale {
					seen["a row that waits for control"]++
					continue // it is sent again below
				}
				wantStatus, wantReason := expected(line, plays[i])
				require.Equal(t, []any{wantStatus, wantReason}, []any{status, reason}, "seed %d: %s, control away", seed, plays[i])
			}
		}
		results, err := f.IssueRows(t.Context(), f.tenant, &Batch{Rows: rows})
		require.NoError(t, err)
		for i := range results {
			wantStatus, wantReason := expected(line, plays[i])
			status, reason := outcome(&results[i])
			if status == "duplicate" { // delivered while control was away
				status = "accepted"
			}
			require.Equal(t, []any{wantStatus, wantReason}, []any{status, reason}, "seed %d: %s", seed, plays[i])
			seen[fmt.Sprint(status, " ", reason)]++
			if status == "held" {
				require.Equal(t, []any{api.HeldRightSuspended, ids[0]}, []any{results[i].Held.Reason, results[i].Held.RightID})
			}
			if status == "accepted" {
				d, err := sealer.ReadDelivery(results[i].Event)
				require.NoError(t, err)
				require.Equal(t, canonical.FormatTime(plays[i]), canonical.FormatTime(d.Receipt.RenderedAt))
			}
		}
	}
	t.Log(seen)
	for _, kind := range []string{"accepted ", "rejected ", "held ", "rejected RIGHT_NOT_IN_FORCE", "a row that waits for control"} {
		require.Positive(t, seen[kind], kind)
	}
}

// expected is the outcome of a row on the first of a right and its ancestors.
func expected(line []*past, at time.Time) (status string, reason api.Reason) {
	any := func(is func(*past) bool) bool { return slices.ContainsFunc(line, is) }
	right := line[0]
	inWindow := !at.Before(right.from) && (right.until.IsZero() || at.Before(right.until))
	switch {
	case right.revoked:
		return "rejected", ""
	case !inWindow:
		return "rejected", api.RightNotInForce
	case any(func(p *past) bool { return p.revoked }):
		return "rejected", ""
	case any(func(p *past) bool { return p.suspendedAt(at) }):
		return "rejected", api.RightNotInForce
	case any((*past).suspendedNow):
		return "held", ""
	}
	return "accepted", ""
}
