package signing

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/pipeline/segment"
	"muniment.example/sealer/keydir"
)

// TestLogHasAKeyBeforeItSigns: whatever signed, a database that is restored, or a standby that is
// promoted, finds the key in the log. It is so of the first keys, of those of another process, and of
// those that replace others.
func TestLogHasAKeyBeforeItSigns(t *testing.T) {
	stacktest.Postgres(t)
	log, err := segment.Open(segment.Config{Dir: t.TempDir(), SegmentBytes: 64 << 10})
	require.NoError(t, err)
	defer log.Close()
	relaying := func(r *Service) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.db.Outbox.Relay(ctx, log) }()
		return func() { cancel(); require.NoError(t, <-ended) }
	}
	p := newPlace(t)
	p.events = log
	began := time.Now()
	a, _ := p.mustStart(t)
	require.Less(t, time.Since(began), 5*time.Second, "a start does not wait for a relay, which does not run yet")
	b, _ := p.mustStart(t)
	purposes := []string{keydir.PurposePack, keydir.PurposeSandbox, keydir.PurposeBeacon, keydir.PurposeWebhook}
	// unsigned requires that nothing is signed for the purposes, and with them no directory.
	unsigned := func(directory bool, purposes ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		asked := make(chan error, 2*(len(purposes)+1))
		asks := 0
		for _, r := range []*Service{a, b} {
			for _, purpose := range purposes {
				asks++
				go func() { _, err := r.Signer(ctx, purpose); asked <- err }()
			}
			if directory {
				asks++
				go func() { _, err := r.Directory(ctx); asked <- err }()
			}
		}
		for range asks {
			require.Equal(t, api.LogUnavailable, api.From(<-asked).Reason)
		}
	}
	unsigned(true, purposes...)
	files, events := p.files(t), a.events(t)
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	first := a.keys.of(packRole).current().signer.KeyID
	_, err = a.Rotate(short, first, operator)
	require.ErrorIs(t, err, errNoLog)
	require.Equal(t, files, p.files(t))
	require.Equal(t, events, a.events(t))
	stop := relaying(a)
	for _, r := range []*Service{a, b} {
		for _, purpose := range purposes {
			r.signs(t, purpose, a.keys.of(role{purpose, control}).current().signer.KeyID, a, b)
		}
	}
	s, err := a.Rotate(t.Context(), first, operator)
	require.NoError(t, err)
	p.now = p.now.Add(time.Minute)
	require.Empty(t, a.events(t), "the log has the rotation")
	b.signs(t, keydir.PurposePack, s.Key.KeyID, a, b)
	stop()

	// The log stops while keys are replaced.
	ctx, cancel := context.WithCancel(t.Context())
	rotated := make(chan error, 1)
	go func() {
		_, err := a.Rotate(ctx, s.Key.KeyID, operator)
		rotated <- err
	}()
	waittest.Until(t, func() bool { return len(a.events(t)) == 1 })
	a.verified(t) // by the directory key that the log has
	cancel()
	require.ErrorIs(t, <-rotated, store.ErrUnconfirmed)
	unsigned(false, keydir.PurposePack)
	b.signs(t, keydir.PurposeBeacon, a.mustSigner(t, keydir.PurposeBeacon).KeyID, a, b)
	stop = relaying(b)
	next := a.keys.of(packRole).current().signer.KeyID
	require.NotEqual(t, s.Key.KeyID, next)
	p.now = p.now.Add(time.Minute)
	b.signs(t, keydir.PurposePack, next, a, b)

	directory := a.directory.ring().current().signer.KeyID
	_, err = a.Rotate(t.Context(), directory, operator)
	require.NoError(t, err)
	a.verified(t)
	stop()
}

// TestKeysAreLoggedBeforeTheLogStops: a process that has been up for a while signs on without the log.
func TestKeysAreLoggedBeforeTheLogStops(t *testing.T) {
	stacktest.Postgres(t)
	log, err := segment.Open(segment.Config{Dir: t.TempDir(), SegmentBytes: 64 << 10})
	require.NoError(t, err)
	defer log.Close()
	p := newPlace(t)
	p.events = log
	r, _ := p.mustStart(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.db.Outbox.Relay(ctx, log) }()
	require.NoError(t, r.Renew(t.Context()))
	cancel()
	require.NoError(t, <-ended)
	r.admit(t, "nod_a", keydir.PurposeReceipt)
	r.signs(t, keydir.PurposeWebhook, r.mustSigner(t, keydir.PurposeWebhook).KeyID, r)
}
