package localnode

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/gateway/api"
	"muniment/gateway/issue"
)

func refusal(reason api.Reason) *api.Error { return api.Unavailable(reason, "refused", time.Second) }

// TestDeliveryMeetsALeavingNode: it waits for the next node if it has not begun, unless there is
// to be none.
func TestDeliveryMeetsALeavingNode(t *testing.T) {
	for reason, again := range map[api.Reason]bool{
		api.Draining: true, api.NoSigningKey: true,
		api.RightsStale:    false,
		api.LogUnavailable: false, // it may be in the log
	} {
		n := New(Config{})
		left, next := new(issue.Issuer), new(issue.Issuer)
		var asked []*issue.Issuer
		do := func(i *issue.Issuer) error {
			if asked = append(asked, i); i == left {
				return refusal(reason)
			}
			return nil
		}

		n.Use(left)
		require.Equal(t, refusal(reason), n.with(t.Context(), do), "no other is to come")

		n.open(left, func() bool {
			n.shut(left)
			n.Use(next)
			return true
		})
		err := n.with(t.Context(), do)
		if again {
			require.NoError(t, err, reason)
			require.Equal(t, []*issue.Issuer{left, left, next}, asked, reason)
		} else {
			require.Equal(t, refusal(reason), err)
			require.Len(t, asked, 2, reason)
		}
	}
}

// TestDeliveryWithoutANode is refused after a while, or when its caller gives up.
func TestDeliveryWithoutANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(Config{Identities: Identities{Name: "the node"}})
		began := time.Now()
		_, err := n.Issue(t.Context(), issue.Caller{}, nil)
		require.Equal(t, api.Unavailable(api.NoSigningKey, "the node has not started yet", time.Second), err)
		require.Equal(t, startTimeout, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = n.IssueRows(ctx, issue.Caller{}, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
