package signing

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
)

// delegated returns the root's delegation to the key that signs directories now.
func (r *Service) delegated(t *testing.T) *keydir.Delegation {
	t.Helper()
	d, err := keydir.ReadDelegation(r.verified(t).Delegation, r.RootVkey())
	require.NoError(t, err)
	return d
}

// renewed is delegated after Renew.
func (r *Service) renewed(t *testing.T) *keydir.Delegation {
	t.Helper()
	require.NoError(t, r.Renew(t.Context()))
	return r.delegated(t)
}

// TestRenewal: with the root key in the key folder no delegation ever ends.
func TestRenewal(t *testing.T) {
	p := newPlace(t)
	metrics := prometheus.NewRegistry()
	p.metrics = metrics
	r, stop := p.mustStart(t)
	first := r.delegated(t)
	require.Equal(t, first.NotBefore.Add(delegationTerm), first.NotAfter)
	count, err := testutil.GatherAndCount(metrics, "muniment_node_delegation_left_seconds")
	require.NoError(t, err)
	require.Equal(t, 1, count)
	require.InDelta(t, delegationTerm.Seconds(), testutil.ToFloat64(r.directory.gauge()), 0)

	p.now = first.NotAfter.Add(-renewalNotice - time.Millisecond)
	require.Equal(t, first, r.renewed(t), "too early")
	p.now = p.now.Add(time.Millisecond)
	second := r.renewed(t)
	require.NotEqual(t, first.Key, second.Key)
	require.True(t, second.NotBefore.After(first.NotBefore), "so that verifiers prefer it")
	require.Equal(t, second.NotBefore.Add(delegationTerm), second.NotAfter)
	require.InDelta(t, second.NotAfter.Sub(p.now).Seconds(), testutil.ToFloat64(r.directory.gauge()), 0)
	p.now = p.now.Add(time.Hour)
	require.Equal(t, second, r.renewed(t))

	// The clock jumps past the end.
	p.now = second.NotAfter.Add(time.Hour)
	third := r.renewed(t)
	require.True(t, third.NotBefore.After(second.NotAfter))
	stop()
	p.now, p.metrics = third.NotAfter.Add(-renewalNotice), nil
	r, _ = p.mustStart(t)
	require.Greater(t, r.directory.ring().current().from, third.NotBefore, "a start renews, too")
}

// TestRenewalByTwo: of two processes one renews, and readers of the directory don't wait for it.
func TestRenewalByTwo(t *testing.T) {
	p := newPlace(t)
	r, other := p.two(t)
	first := r.delegated(t)
	p.now = first.NotAfter.Add(-time.Hour)
	done, err := r.keys.lockKeys(t.Context(), "another change")
	require.NoError(t, err)
	var both sync.WaitGroup
	for _, service := range []*Service{r, other} {
		both.Go(func() {
			if err := service.Renew(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	require.Equal(t, first, r.delegated(t))
	done()
	both.Wait()
	second := r.delegated(t)
	require.NotEqual(t, first.Key, second.Key)
	require.Equal(t, second, other.delegated(t))
	keys, err := r.SigningKeys(t.Context())
	require.NoError(t, err)
	directoryKeys := 0
	for _, k := range keys.Keys {
		if k.Purpose == keydir.PurposeDirectory {
			directoryKeys++
		}
	}
	require.Equal(t, 2, directoryKeys)
}

// TestRenewalWithoutTheRoot warns once a day, and says what to do.
func TestRenewalWithoutTheRoot(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	first := r.delegated(t)
	safe := filepath.Join(t.TempDir(), "safe")
	require.NoError(t, os.Rename(filepath.Join(p.keys(), rootSecretFile), safe))
	warnings := func() int { return strings.Count(p.log.String(), "the root has to delegate to another directory key") }

	p.now = first.NotAfter.Add(-renewalNotice)
	for day := range 3 {
		require.Equal(t, day, warnings())
		for range 2 {
			require.Equal(t, first, r.renewed(t), "it still signs")
		}
		p.now = p.now.Add(reminderInterval)
	}
	list, err := r.SigningKeys(t.Context())
	require.NoError(t, err)
	request := beside(directoryRole.path(p.keys(), list.Waiting.KeyID), requestSuffix)
	require.Contains(t, p.log.String(), request)
	require.Contains(t, p.log.String(), canonical.FormatTime(first.NotAfter))

	note, err := r.DelegationStatus(t.Context())
	require.NoError(t, err)
	require.Contains(t, note, "ends at "+canonical.FormatTime(first.NotAfter)+", in 2088h0m0s: run muniment root delegate")

	p.now = first.NotAfter
	require.NoError(t, r.Renew(t.Context()))
	_, err = r.Directory(t.Context())
	require.ErrorContains(t, err, "run muniment root delegate for the public key in "+request)
	refused := api.From(err)
	require.Equal(t, api.DelegationEnded, refused.Reason)
	require.Equal(t, 503, refused.GetStatus())
	require.NotContains(t, refused.Message, p.dir)
	note, err = r.DelegationStatus(t.Context())
	require.NoError(t, err)
	require.Contains(t, note, "ended at "+canonical.FormatTime(first.NotAfter))
	before := warnings()
	for range 3 * 100 {
		require.NoError(t, r.Renew(t.Context()))
		_, err = r.Directory(t.Context())
		require.Error(t, err)
		p.now = p.now.Add(urgentInterval / 100)
	}
	require.Equal(t, before+2, warnings())
	p.now = first.NotAfter.Add(time.Hour)
	require.InDelta(t, -time.Hour.Seconds(), testutil.ToFloat64(r.directory.gauge()), 0)
	delegation, err := DelegateOffline(safe, request, p.now, p.now.Add(8*24*time.Hour))
	require.NoError(t, err)
	_, err = r.Delegate(t.Context(), delegation, operator)
	require.NoError(t, err)
	second := r.delegated(t)

	// A short delegation is renewed in its last quarter.
	before = warnings()
	p.now = second.NotAfter.Add(-3 * 24 * time.Hour)
	r.renewed(t)
	require.Equal(t, before, warnings())
	p.now = second.NotAfter.Add(-24 * time.Hour)
	require.Equal(t, second, r.renewed(t))
	require.Equal(t, before+1, warnings())
}

// TestRenewalThatCannotBe returns an error each time.
func TestRenewalThatCannotBe(t *testing.T) {
	p := newPlace(t)
	r, _ := p.two(t)
	p.now = r.delegated(t).NotAfter.Add(-time.Hour)
	require.NoError(t, r.db.Close())
	for range 2 {
		require.Error(t, r.Renew(t.Context()))
	}
}
