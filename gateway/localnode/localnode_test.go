package localnode

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
	"muniment.example/gateway/issue"
)

func refusal(reason api.Reason) *api.Error { return api.Unavailable(reason, "refused", time.Second) }

// TestDeliveryMeetsALeavingNode: a delivery that the node refuses before writing anything waits for
// the node's successor, if there is to be one.
func TestDeliveryMeetsALeavingNode(t *testing.T) {
	for reason, again := range map[api.Reason]bool{
		api.Draining: true, api.NoSigningKey: true,
		api.RightsStale:    false,
		api.LogUnavailable: false, // the delivery may be in the log
	} {
		n := New(Config{})
		leaving, successor := new(issue.Issuer), new(issue.Issuer)
		var called []*issue.Issuer
		do := func(i *issue.Issuer) error {
			if called = append(called, i); i == leaving {
				return refusal(reason)
			}
			return nil
		}

		n.Use(leaving)
		require.Equal(t, refusal(reason), n.with(t.Context(), do), "there is no successor")

		n.open(leaving, func() bool {
			n.close(leaving)
			n.Use(successor)
			return true
		})
		err := n.with(t.Context(), do)
		if again {
			require.NoError(t, err, reason)
			require.Equal(t, []*issue.Issuer{leaving, leaving, successor}, called, reason)
		} else {
			require.Equal(t, refusal(reason), err)
			require.Len(t, called, 2, reason)
		}
	}
}

// TestDeliveryWithoutANode is refused after startTimeout, or when its context ends.
func TestDeliveryWithoutANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(Config{Identities: Identities{Name: "the node"}})
		began := time.Now()
		_, _, err := n.Issue(t.Context(), issue.Caller{}, issue.Delivery{})
		require.Equal(t, api.Unavailable(api.NoSigningKey, "the node has not started yet", time.Second), err)
		require.Equal(t, startTimeout, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = n.IssueRows(ctx, issue.Caller{}, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
