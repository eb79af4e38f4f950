package offer

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/rapidtest"
	"muniment.example/gateway/api"
)

// TestSequences applies random operations to offers in memory, and compares them with a model: the
// sides, the expiry in milliseconds, and the state.
func TestSequences(t *testing.T) {
	type entry struct {
		from, to string
		end      int
		state    string
	}
	orgs := rapid.SampledFrom([]string{"org_a", "org_b", "org_c"}) // org_a holds the right
	ends := rapid.SampledFrom([]int{-1, 0, 1, 2, 5, 20})           // from now on
	after := func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }
	to := map[string]string{"counter": "COUNTERED", "accept": "ACCEPTED", "withdraw": "WITHDRAWN", "reject": "REJECTED", "expire": "EXPIRED"}

	rapidtest.Check(t, 2_000, 100_000, func(t *rapid.T) {
		var model []entry
		var proposed []Offer
		clock := 0
		add := func(e entry, made Offer) {
			made.ID = fmt.Sprint("ofr_", len(model))
			require.Equal(t, Proposed, made.State)
			require.Equal(t, []string{e.from, e.to}, []string{made.FromOrgID, made.ToOrgID})
			require.Equal(t, later(after(e.end)), made.ExpiresAt)
			model, proposed = append(model, e), append(proposed, made)
		}
		for range rapid.IntRange(1, 16).Draw(t, "operations") {
			operation := rapid.SampledFrom([]string{"propose", "counter", "accept", "withdraw", "reject", "expire", "wait"}).Draw(t, "operation")
			switch {
			case operation == "wait":
				clock += rapid.IntRange(1, 3).Draw(t, "ms")
			case operation == "propose" || len(model) == 0:
				e := entry{orgs.Draw(t, "from"), orgs.Draw(t, "to"), clock + ends.Draw(t, "end"), "PROPOSED"}
				made, err := propose(Offer{FromOrgID: e.from, ToOrgID: e.to, ExpiresAt: later(after(e.end))}, "org_a", later(after(clock)))
				if e.from == e.to || e.from != "org_a" && e.to != "org_a" || e.end <= clock {
					require.Equal(t, api.ValidationFailed, api.From(err).Code)
					continue
				}
				require.NoError(t, err)
				add(e, made)
			default:
				i := rapid.IntRange(0, len(model)-1).Draw(t, "offer")
				m := &model[i]
				expired := clock >= m.end
				next, changed, err := offers.After(proposed[i], Action(operation), later(after(clock)))
				if m.state == "EXPIRED" && operation == "expire" {
					require.NoError(t, err)
					require.False(t, changed, "it is written down already")
					continue
				}
				if m.state != "PROPOSED" || expired != (operation == "expire") {
					require.Equal(t, api.StateConflict, api.From(err).Code)
					require.Equal(t, proposed[i], next)
					continue
				}
				require.NoError(t, err)
				want := proposed[i]
				want.State, want.UpdatedAt = State(to[operation]), later(after(clock))
				require.Equal(t, want, next, "nothing else is changed")
				actor := map[string]*string{"counter": &m.to, "accept": &m.to, "reject": &m.to, "withdraw": &m.from}[operation]
				require.Equal(t, actor, next.actor(Action(operation)))
				answer := entry{m.to, m.from, 0, "PROPOSED"}
				if operation == "counter" {
					answer.end = clock + ends.Draw(t, "end")
					made, err := next.counter(Offer{ExpiresAt: later(after(answer.end))}, later(after(clock)))
					if answer.end <= clock {
						require.Equal(t, "expiresAt", api.From(err).Field)
						continue // and nothing is changed
					}
					require.NoError(t, err)
					require.Equal(t, "counter_of:"+next.ID, *made.TermsRef)
					add(answer, made)
				}
				proposed[i], model[i].state = next, to[operation]
			}
		}
		for i, m := range model {
			if m.state == "PROPOSED" && clock >= m.end {
				m.state = "EXPIRED"
			}
			require.Equal(t, m.state, string(proposed[i].stateAt(later(after(clock)))))
			require.NotEqual(t, "org_a", proposed[i].beneficiary("org_a"))
		}
	})
}
