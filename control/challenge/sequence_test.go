package challenge

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/rapidtest"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// TestSequences applies random operations to a right's challenges in memory, and compares them with a
// model of their states. The right can be revoked in every state.
func TestSequences(t *testing.T) {
	rapidtest.Check(t, 2_000, 100_000, func(t *rapid.T) {
		var opened []Challenge
		var model []string
		of := api.RightActive
		clock := now
		for range rapid.IntRange(1, 16).Draw(t, "operations") {
			clock = store.At(clock.Add(time.Millisecond))
			operation := rapid.SampledFrom([]string{"open", "open", "uphold", "overturn", "withdraw", "suspend", "resume"}).Draw(t, "operation")
			switch {
			case operation == "suspend" || operation == "resume":
				to := map[string]api.RightState{"suspend ACTIVE": api.RightSuspended, "resume SUSPENDED": api.RightActive}[operation+" "+string(of)]
				if to != "" {
					of = to
				}
			case operation == "open" || len(opened) == 0:
				made, err := open(Challenge{Reason: "ours"}, of, clock)
				if of != api.RightActive {
					require.Equal(t, api.StateConflict, api.From(err).Code)
					continue
				}
				require.NoError(t, err)
				require.Equal(t, Challenge{Reason: "ours", State: Open, CreatedAt: clock, UpdatedAt: clock}, made)
				opened, model = append(opened, made), append(model, "OPEN")
			default:
				i := rapid.IntRange(0, len(model)-1).Draw(t, "challenge")
				next, changed, err := challenges.After(opened[i], Action(operation), clock)
				if model[i] != "OPEN" {
					require.Equal(t, api.StateConflict, api.From(err).Code)
					require.ErrorContains(t, err, "challenge is already "+model[i])
					require.Equal(t, opened[i], next)
					continue
				}
				require.NoError(t, err)
				require.True(t, changed)
				model[i] = map[string]string{"uphold": "UPHELD", "overturn": "OVERTURNED", "withdraw": "WITHDRAWN"}[operation]
				want := opened[i]
				want.State, want.UpdatedAt = State(model[i]), clock
				require.Equal(t, want, next, "nothing else is changed")
				opened[i] = next
				require.Equal(t, operation == "uphold", transitions[Action(operation)].Stops)
				if operation == "uphold" {
					of = api.RightRevoked
				}
			}
		}
		for i, want := range model {
			require.Equal(t, want, string(opened[i].State))
		}
	})
}
