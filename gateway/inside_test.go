package gateway

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/gate"
	"muniment/gateway/api"
	"muniment/gateway/auth"
	"muniment/gateway/snapshot"
	"muniment/sealer"
)

// sandboxWorld is a world in which tnt_s is a tenant of the sandbox, with a key of its
// own, and rights of each sort.
type sandboxWorld struct {
	*world
	token  string // of tnt_s
	keyID  string
	signer *sealer.Signer
	right  string
}

func newSandboxWorld(t *testing.T, change func(*Config)) *sandboxWorld {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize))
	s := &sandboxWorld{signer: signerOf(private), keyID: fmt.Sprintf("key_01KAJ%021d", 9)}
	s.world = newWorld(t, func(c *Config) {
		c.SandboxSigner = always(s.signer)
		c.IsSandbox = func(_ context.Context, tenantID string) (bool, error) { return tenantID == "tnt_s", nil }
		if change != nil {
			change(c)
		}
	})
	s.log.sandbox = private.Public().(ed25519.PublicKey)
	token, prefix, hash, err := auth.NewKey(bytes.NewReader(bytes.Repeat([]byte{9}, 32)), auth.EnvTest, s.keyID)
	require.NoError(t, err)
	s.token = token
	s.control.putKey(api.Key{ID: s.keyID, TenantID: "tnt_s", Prefix: prefix, SecretHash: hash, Scopes: api.EveryScope, Sandbox: true})
	s.right = s.putRight(10, "tnt_s", gate.DOOH, "", api.RightActive)
	s.putRight(11, "tnt_s", gate.DOOH, "", api.RightSuspended)
	s.putRight(12, "tnt_s", gate.Automotive, "", api.RightActive)
	return s
}

func (s *sandboxWorld) body(right string) string {
	return fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"anchor-1","dwellMs":4200}`, right)
}

// last is the delivery that was recorded last.
func (s *sandboxWorld) last() sealer.RecordedDelivery {
	all := s.log.all()
	require.NotEmpty(s.t, all)
	d, err := sealer.ReadDelivery(all[len(all)-1].Event)
	require.NoError(s.t, err)
	return d
}

// TestSandboxHasAKeyOfItsOwn: whichever way a delivery comes in, it is signed by the key
// that its tenant is proven by.
func TestSandboxHasAKeyOfItsOwn(t *testing.T) {
	s := newSandboxWorld(t, nil)
	sandboxed := func() {
		d := s.last()
		require.Equal(t, s.signer.KeyID, d.KeyID)
		require.Equal(t, "tnt_s", d.Event.TenantID)
		require.Equal(t, sealer.Ref{Kind: "key", ID: s.keyID}, d.Event.Actor)
	}
	status, answer, err := s.gateway.Deliver(t.Context(), "tnt_s", s.keyID, []byte(s.body(s.right)))
	require.NoError(t, err)
	require.Equal(t, 200, status, string(answer))
	sandboxed()
	require.Contains(t, string(answer), s.last().Receipt.ReceiptID)

	got := s.raw(request(s.token, s.body(s.right), "Idempotency-Key: play-1"))
	require.Equal(t, 200, got.status, got.body)
	sandboxed()
	again := s.raw(request(s.token, s.body(s.right), "Idempotency-Key: play-1"))
	require.Equal(t, got.body, again.body)
	// The delivery's memory is used again.
	for range 20 {
		require.Equal(t, 200, s.post(s.world.body()).status)
		require.Equal(t, signerOf(s.key).KeyID, s.last().KeyID, "a tenant's")
		require.Equal(t, 200, s.raw(request(s.token, s.body(s.right))).status)
		sandboxed()
	}
}

// TestDeliverServesTheSandboxAlone, and nothing while it can't know.
func TestDeliverServesTheSandboxAlone(t *testing.T) {
	broken := errors.New("the database is away")
	s := newSandboxWorld(t, func(c *Config) {
		c.IsSandbox = func(_ context.Context, tenantID string) (bool, error) {
			if tenantID == "tnt_b" {
				return true, broken
			}
			return tenantID == "tnt_s", nil
		}
	})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx    context.Context
		tenant string
		right  string
		want   error
	}{
		{t.Context(), "tnt_a", s.world.right, ErrNoSandbox},
		{t.Context(), "", s.world.right, ErrNoSandbox},
		{t.Context(), "tnt_b", s.foreign, broken},
		{gone, "tnt_s", s.right, context.Canceled},
	} {
		status, answer, err := s.gateway.Deliver(c.ctx, c.tenant, s.keyID, []byte(s.body(c.right)))
		require.ErrorIs(t, err, c.want)
		require.Zero(t, status)
		require.Nil(t, answer)
	}
	require.Empty(t, s.log.all())
}

// TestDeliverAnswersAsTheRoute sends each body both ways.
func TestDeliverAnswersAsTheRoute(t *testing.T) {
	s := newSandboxWorld(t, nil)
	for name, body := range map[string]string{
		"no JSON":          `{`,
		"a missing field":  `{}`,
		"an unknown right": s.body(rightID(99)),
		"another tenant's": s.body(s.foreign),
		"a suspended one":  s.body(rightID(11)),
		"too fast":         fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":1,"telemetry":{"speedMph":80}}`, rightID(12)),
		"too large":        `"` + strings.Repeat("x", maxDeliveryBody) + `"`,
	} {
		plain := func(text string) (envelope map[string]any) {
			require.NoError(t, json.Unmarshal([]byte(text), &envelope), text)
			require.NotEmpty(t, envelope["requestId"])
			delete(envelope, "requestId")
			return envelope
		}
		status, answer, err := s.gateway.Deliver(t.Context(), "tnt_s", s.keyID, []byte(body))
		require.NoError(t, err)
		want := s.raw(request(s.token, body))
		require.Equal(t, want.status, status, name)
		require.Equal(t, plain(want.body), plain(string(answer)), name)
		require.GreaterOrEqual(t, status, 400, name)
	}
	require.Empty(t, s.log.all())

	s.log.setFail(errors.New("full"))
	status, _, err := s.gateway.Deliver(t.Context(), "tnt_s", s.keyID, []byte(s.body(s.right)))
	require.NoError(t, err)
	require.Equal(t, 503, status)
}

// TestNoReceiptOnARevokedKey: whichever way a delivery comes in, nothing is signed once
// this node knows that the key was revoked, be it that the delivery was let in before.
func TestNoReceiptOnARevokedKey(t *testing.T) {
	for name, deliver := range map[string]func(*sandboxWorld) int{
		"inside": func(s *sandboxWorld) int {
			status, _, err := s.gateway.Deliver(t.Context(), "tnt_s", s.keyID, []byte(s.body(s.right)))
			require.NoError(t, err)
			return status
		},
		"route": func(s *sandboxWorld) int { return s.raw(request(s.token, s.body(s.right))).status },
	} {
		var s *sandboxWorld
		revoke := sync.OnceFunc(func() {
			k := s.control.key(t, s.keyID)
			k.RevokedAt = today
			revision := s.control.putKey(k)
			for s.view.Applied() < revision {
				runtime.Gosched()
			}
		})
		var meanwhile func()
		s = newSandboxWorld(t, func(c *Config) {
			lend := c.SandboxSigner
			c.SandboxSigner = func(ctx context.Context, at time.Time) (*sealer.Signer, func(), error) {
				if meanwhile != nil {
					meanwhile()
				}
				return lend(ctx, at)
			}
		})
		require.Equal(t, 200, deliver(s), name)
		meanwhile = revoke
		require.Equal(t, 401, deliver(s), name)
		require.Equal(t, 401, deliver(s), name)
		require.Len(t, s.log.all(), 1, name)
	}
	s := newSandboxWorld(t, nil)
	for _, id := range []string{"", "key_unknown", fmt.Sprintf("key_01KAJ%021d", 1)} { // the last is of tnt_a
		status, _, err := s.gateway.Deliver(t.Context(), "tnt_s", id, []byte(s.body(s.right)))
		require.NoError(t, err)
		require.Equal(t, 401, status, id)
	}
	require.Empty(t, s.log.all())
}

// TestDeliverIsDurable: no answer before the log has it.
func TestDeliverIsDurable(t *testing.T) {
	s := newSandboxWorld(t, nil)
	release := s.log.halt()
	defer release()
	answered := make(chan int, 1)
	go func() {
		status, _, _ := s.gateway.Deliver(t.Context(), "tnt_s", s.keyID, []byte(s.body(s.right)))
		answered <- status
	}()
	require.Eventually(t, func() bool { return s.log.appending() == 1 }, time.Minute, time.Millisecond)
	require.Empty(t, answered)
	release()
	require.Equal(t, 200, <-answered)
	require.Len(t, s.log.all(), 1)
}

// TestNodeWithoutTheSandbox refuses its tenants, whose receipts it could only sign wrong.
func TestNodeWithoutTheSandbox(t *testing.T) {
	s := newSandboxWorld(t, func(c *Config) { c.SandboxSigner, c.IsSandbox = nil, nil })
	got := s.raw(request(s.token, s.body(s.right)))
	require.Equal(t, 409, got.status, got.body)
	_, _, err := s.gateway.Deliver(t.Context(), "tnt_s", s.keyID, []byte(s.body(s.right)))
	require.ErrorIs(t, err, ErrNoSandbox)
	require.Empty(t, s.log.all())
	require.Equal(t, 200, s.post(s.world.body()).status)
}

// TestRunInside is a gateway without a listener, with no key but the sandbox's.
func TestRunInside(t *testing.T) {
	s := newSandboxWorld(t, nil)
	view, err := snapshot.New(snapshot.Config{Source: s.control, NodeID: "nod_2", Clock: func() time.Duration { return 0 }})
	require.NoError(t, err)
	defer view.Close()
	g, err := New(Config{
		NodeID: "nod_2", Epoch: 1, Rights: view, Log: s.log, SandboxSigner: s.gateway.cfg.SandboxSigner, IsSandbox: s.gateway.cfg.IsSandbox,
		Now: func() time.Time { return today }, AppendTimeout: time.Minute,
	})
	require.NoError(t, err)
	require.ErrorContains(t, g.Run(t.Context(), nil), "Signer or DialControl is missing")
	_, err = New(Config{NodeID: "nod_2", Rights: view, Log: s.log, SandboxSigner: s.gateway.cfg.SandboxSigner})
	require.ErrorContains(t, err, "go together")

	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = view.Run(ctx) })
	inside, leave := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- g.RunInside(inside) }()
	require.Eventually(t, func() bool { return g.Ready() == nil }, time.Minute, time.Millisecond)
	deliver := func(body string) int {
		status, _, err := g.Deliver(t.Context(), "tnt_s", s.keyID, []byte(body))
		require.NoError(t, err)
		return status
	}
	require.Equal(t, 200, deliver(s.body(s.right)))
	require.Equal(t, "nod_2", s.log.all()[0].Node)
	require.Equal(t, 412, deliver(fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":1,"telemetry":{"speedMph":80}}`, rightID(12))))
	leave()
	require.NoError(t, <-ended)
	require.Len(t, s.log.all(), 2, "what was refused is counted in the log")
	require.Equal(t, 503, deliver(s.body(s.right)))
	stop()
	running.Wait()
}
