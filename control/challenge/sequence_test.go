package challenge

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment/control/rapidtest"
	"muniment/control/right"
	"muniment/control/store"
	"muniment/gateway/api"
)

// TestSequences plays random operations on a right and its challenges that no database
// holds, and foresees each by a model: the states alone.
func TestSequences(t *testing.T) {
	rapidtest.Check(t, 5_000, func(t *rapid.T) {
		var challenges []Challenge
		var model []string
		of, state := right.Right{State: api.RightActive}, "ACTIVE"
		clock := now
		revoke := func() {
			next, _, err := of.After(right.Revoke, nil, clock)
			require.NoError(t, err, "a right can be revoked in every state")
			of, state = next, "REVOKED"
		}
		for range rapid.IntRange(1, 16).Draw(t, "operations") {
			clock = store.At(clock.Add(time.Millisecond))
			operation := rapid.SampledFrom([]string{"open", "open", "uphold", "overturn", "withdraw", "suspend", "resume"}).Draw(t, "operation")
			switch {
			case operation == "suspend" || operation == "resume":
				next, _, err := of.After(right.Action(operation), nil, clock)
				switch {
				case operation == "suspend" && state == "ACTIVE":
					state = "SUSPENDED"
				case operation == "resume" && state == "SUSPENDED":
					state = "ACTIVE"
				default:
					require.Equal(t, api.StateConflict, api.From(err).Code)
					continue
				}
				require.NoError(t, err)
				of = next
			case operation == "open" || len(challenges) == 0:
				made, err := open(Challenge{Reason: "ours"}, of.State, clock)
				if state != "ACTIVE" {
					require.Equal(t, api.StateConflict, api.From(err).Code)
					continue
				}
				require.NoError(t, err)
				require.Equal(t, Challenge{Reason: "ours", State: Open, CreatedAt: clock, UpdatedAt: clock}, made)
				challenges, model = append(challenges, made), append(model, "OPEN")
			default:
				i := rapid.IntRange(0, len(model)-1).Draw(t, "challenge")
				next, err := challenges[i].After(Action(operation), new(operation), clock)
				if model[i] != "OPEN" {
					require.Equal(t, api.StateConflict, api.From(err).Code)
					require.Equal(t, challenges[i], next)
					continue
				}
				require.NoError(t, err)
				model[i] = map[string]string{"uphold": "UPHELD", "overturn": "OVERTURNED", "withdraw": "WITHDRAWN"}[operation]
				want := challenges[i]
				want.State, want.Resolution, want.UpdatedAt = State(model[i]), new(operation), clock
				require.Equal(t, want, next, "nothing else is changed")
				challenges[i] = next
				require.Equal(t, operation == "uphold", transitions[Action(operation)].revokes)
				if transitions[Action(operation)].revokes {
					revoke()
				}
			}
			require.Equal(t, state, string(of.State))
		}
		for i, want := range model {
			require.Equal(t, want, string(challenges[i].State))
		}
	})
}
