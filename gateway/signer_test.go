package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/issuetest"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
)

// TestSignerIsBorrowed follows the key of a delivery: it is the one of the moment
// of issue, and is given back once, not before its receipt is durable.
func TestSignerIsBorrowed(t *testing.T) {
	var out, borrowed atomic.Int64
	var away atomic.Bool
	var w *world
	w = newWorld(t, func(c *settings) {
		c.Issue.Signer = func(_ context.Context, at time.Time) (*sealer.Signer, func(), error) {
			if away.Load() {
				return nil, nil, errors.New("the key has ended")
			}
			if !at.Equal(today) {
				return nil, nil, fmt.Errorf("requested for %v", at)
			}
			out.Add(1)
			borrowed.Add(1)
			return issuetest.SignerOf(w.key), func() { out.Add(-1) }, nil
		}
	})

	release := w.log.Halt()
	answered := make(chan reply)
	go func() { answered <- w.post(w.body()) }()
	waittest.Until(t, func() bool { return w.log.Appending() == 1 })
	require.Equal(t, int64(1), out.Load(), "still in use while the record is on its way")
	release()
	require.Equal(t, 200, (<-answered).status)
	require.Equal(t, int64(0), out.Load())

	refused := fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":1}`, w.suspended)
	require.Equal(t, 409, w.post(refused).status)
	w.log.SetFail(errors.New("disk"))
	require.Equal(t, 503, w.post(w.body()).status)
	w.log.SetFail(nil)
	require.Equal(t, int64(3), borrowed.Load())
	require.Equal(t, int64(0), out.Load(), "given back whatever the end")

	away.Store(true)
	before := len(w.log.All())
	r := w.post(w.body(), "Idempotency-Key: k")
	require.Equal(t, 503, r.status)
	require.Contains(t, r.body, `"reason":"`+string(api.NoSigningKey)+`"`)
	require.NotEmpty(t, r.header.Get("Retry-After"))
	require.Len(t, w.log.All(), before, "nothing is promised without a key")
	away.Store(false)
	require.Equal(t, 200, w.post(w.body(), "Idempotency-Key: k").status)
}

// TestDeliveryThatStoodStill comes for a key when that of the moment it had read is out of
// use: it is issued a moment later.
func TestDeliveryThatStoodStill(t *testing.T) {
	const stood = 10 * time.Second
	var passed atomic.Int64
	var w *world
	w = newWorld(t, func(c *settings) {
		c.Now = func() time.Time { return today.Add(time.Duration(passed.Load())) }
		c.Issue.Signer = func(_ context.Context, at time.Time) (*sealer.Signer, func(), error) {
			passed.Store(int64(stood))
			if at.Before(today.Add(stood)) {
				return nil, nil, errors.New("the key has ended")
			}
			return issuetest.SignerOf(w.key), func() {}, nil
		}
	})
	r := w.post(w.body())
	require.Equal(t, 200, r.status, r.body)
	require.Contains(t, r.body, `"issuedAt":"`+canonical.FormatTime(today.Add(stood))+`"`)
	require.Contains(t, r.body, `"renderedAt":"`+canonical.FormatTime(today)+`"`)
}
