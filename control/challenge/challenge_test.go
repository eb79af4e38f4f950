package challenge

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

var now = store.At(time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC))

// TestTransitions reads like the contract's table.
func TestTransitions(t *testing.T) {
	want := map[string]State{
		"uphold OPEN":   Upheld,
		"overturn OPEN": Overturned,
		"withdraw OPEN": Withdrawn,
	}
	for _, from := range []State{Open, Upheld, Overturned, Withdrawn} {
		for _, a := range []Action{Uphold, Overturn, Withdraw, "accept"} {
			name := fmt.Sprintf("%s %s", a, from)
			t.Run(name, func(t *testing.T) {
				was := Challenge{ID: "chg_a", State: from, Resolution: new("before"), UpdatedAt: now}
				later := store.At(now.Add(time.Second))
				next, _, err := challenges.After(was, a, later)
				if want[name] == "" {
					require.Equal(t, api.StateConflict, api.From(err).Code)
					if from != Open {
						require.ErrorContains(t, err, "challenge is already "+string(from))
					}
					require.Equal(t, was, next)
					return
				}
				require.NoError(t, err)
				require.Equal(t, want[name], next.State)
				require.Equal(t, later, next.UpdatedAt)
				require.Equal(t, Open, was.State, "the record before stays as it was")
				require.Equal(t, a == Uphold, transitions[a].Stops)
			})
		}
	}
}

func TestOpen(t *testing.T) {
	requested := Challenge{RightID: "rgh_a", ChallengerOrgID: "org_c", Reason: "ours"}
	made, err := open(requested, api.RightActive, now)
	require.NoError(t, err)
	require.Equal(t, Challenge{RightID: "rgh_a", ChallengerOrgID: "org_c", Reason: "ours", State: Open, CreatedAt: now, UpdatedAt: now}, made)
	for _, state := range []api.RightState{api.RightSuspended, api.RightRevoked} {
		_, err := open(requested, state, now)
		require.Equal(t, api.StateConflict, api.From(err).Code)
		require.Contains(t, err.Error(), string(state))
	}
}
