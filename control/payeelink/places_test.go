package payeelink

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOneLinkLeavesPlacesForOthers: requests by one link, and by all links of one tenant, wait for each other, and all
// others get a place at once.
func TestOneLinkLeavesPlacesForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, began := newPlaces(), time.Now()
		answered := make(chan struct{})
		var requests sync.WaitGroup
		request := func(tenantID, linkID string) error {
			release, err := p.take(t.Context(), &Link{ID: linkID, TenantID: tenantID})
			if err == nil {
				requests.Go(func() { <-answered; release() })
			}
			return err
		}
		flood := func(tenantID string, linkID func(i int) string) {
			for i := range 24 {
				requests.Go(func() { _ = request(tenantID, linkID(i)) })
			}
			synctest.Wait()
		}
		flood("tnt_a", func(int) string { return "pln_a" })
		require.NoError(t, request("tnt_a", "pln_b"))
		flood("tnt_a", func(i int) string { return fmt.Sprint("pln_c", i) })
		require.NoError(t, request("tnt_b", "pln_d"))
		require.Zero(t, time.Since(began), "others don't wait")

		require.ErrorIs(t, request("tnt_a", "pln_e"), errBusy)
		require.Equal(t, patience, time.Since(began))
		close(answered)
		requests.Wait()
		require.Empty(t, p.of, "nothing is kept of whoever has gone")
		require.Empty(t, p.all)
	})
}
