package dispute

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/rapidtest"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// TestSequences applies random operations to a dispute in memory, and compares it with a model: its
// state, and the number of its evidence.
func TestSequences(t *testing.T) {
	rapidtest.Check(t, 2_000, 100_000, func(t *rapid.T) {
		clock := now
		d, err := open(Dispute{DisputeSummary: DisputeSummary{ReceiptIDs: []string{"rcp_a"}, Reason: "never shown"}}, clock)
		require.NoError(t, err)
		state, evidence := "OPEN", 0
		for range rapid.IntRange(1, 8).Draw(t, "operations") {
			clock = store.At(clock.Add(time.Millisecond))
			action := rapid.SampledFrom([]Action{Investigate, Respond, Resolve}).Draw(t, "action")
			to := map[string]string{
				"investigate OPEN": "INVESTIGATING", "respond INVESTIGATING": "RESPONDED",
				"resolve OPEN": "RESOLVED", "resolve INVESTIGATING": "RESOLVED", "resolve RESPONDED": "RESOLVED",
			}[fmt.Sprintf("%s %s", action, state)]
			next, changed, err := disputes.After(d, action, clock)
			if to == "" {
				require.Equal(t, api.StateConflict, api.From(err).Code)
				require.ErrorContains(t, err, state)
				require.Equal(t, d, next)
				continue
			}
			require.NoError(t, err)
			require.True(t, changed)
			want := d
			want.State, want.UpdatedAt = State(to), clock
			require.Equal(t, want, next, "nothing else is changed")
			d, state = next, to
			if action == Respond {
				more := rapid.IntRange(1, maxEvidence+1).Draw(t, "evidence")
				err := d.append(make([]Evidence, more))
				require.Equal(t, evidence+more > maxEvidence, err != nil)
				if err == nil {
					evidence += more
				}
			}
			require.Len(t, d.Evidence, evidence)
		}
		require.Equal(t, state, string(d.State))
	})
}
