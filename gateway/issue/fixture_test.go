package issue

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/issuetest"
	"muniment.example/gateway/snapshot"
	"muniment.example/sealer"
)

// fixture is an issuer for the tenants tnt_a and tnt_s, of which the second is one of the
// sandbox.
type fixture struct {
	*Issuer
	t              *testing.T
	control        *issuetest.Control
	view           *snapshot.View
	log            *issuetest.Log
	registry       *prometheus.Registry
	signer, sample *sealer.Signer // of tenants, of the sandbox
	tenant         Caller
	visitor        Caller
	right          string // of tnt_a, 10 is of tnt_s
}

func newFixture(t *testing.T, change func(*Config)) *fixture {
	private := func(n byte) ed25519.PrivateKey {
		return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
	}
	f := &fixture{
		t: t, control: issuetest.NewControl(), registry: prometheus.NewRegistry(),
		signer: issuetest.SignerOf(private(7)), sample: issuetest.SignerOf(private(8)),
		tenant: Caller{TenantID: "tnt_a", KeyID: issuetest.KeyID(1)}, visitor: Caller{TenantID: "tnt_s", KeyID: issuetest.KeyID(9), Sandbox: true},
	}
	f.log = &issuetest.Log{T: t}
	for _, n := range []byte{7, 8} {
		f.log.Keys = append(f.log.Keys, private(n).Public().(ed25519.PublicKey))
	}
	f.control.PutKey(t, 1, "tnt_a", api.EveryScope, false)
	f.control.PutKey(t, 9, "tnt_s", api.EveryScope, true)
	f.right = f.control.PutRight(1, "tnt_a", gate.DOOH, "", api.RightActive)
	f.control.PutRight(2, "tnt_a", gate.DOOH, "", api.RightSuspended)
	f.control.PutRight(3, "tnt_a", gate.Automotive, "", api.RightActive)
	f.control.PutRight(10, "tnt_s", gate.DOOH, "", api.RightActive)
	var err error
	f.view, err = snapshot.New(snapshot.Config{Source: f.control, NodeID: "nod_1", Capacity: 1000, Clock: func() time.Duration { return 0 }})
	require.NoError(t, err)
	cfg := Config{
		NodeID: "nod_1", Epoch: 1, Rights: f.view, Log: f.log, Signer: issuetest.Always(f.signer), SandboxSigner: issuetest.Always(f.sample),
		Now: func() time.Time { return issuetest.Today }, Registerer: f.registry,
		// However slow the machine is, nothing ends by them unless a test says so.
		Timeout: time.Minute, IdempotencyWait: time.Minute,
	}
	if change != nil {
		change(&cfg)
	}
	f.Issuer, err = New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { _ = f.view.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		following.Wait()
		f.view.Close()
	})
	waittest.Until(t, func() bool { return f.view.Fresh() == nil })
	return f
}

// on is a body of a delivery on a right.
func on(right string) []byte {
	return fmt.Appendf(nil, `{"rightId":%q,"spatialAnchorId":"anchor-1","dwellMs":4200}`, right)
}

func (f *fixture) body() []byte { return on(f.right) }

// issue issues for tnt_a.
func (f *fixture) issue(body []byte) (answer []byte, replayed bool, err error) {
	return f.Issue(f.Deadline(time.Now()), nil, f.tenant, &Delivery{Body: body, Rendered: issuetest.Today})
}

// status is that of an error.
func status(err error) int {
	if err == nil {
		return 200
	}
	return api.From(err).GetStatus()
}

// read is the n-th delivery of the log.
func (f *fixture) read(n int) sealer.RecordedDelivery {
	f.t.Helper()
	all := f.log.All()
	require.Greater(f.t, len(all), n)
	d, err := sealer.ReadDelivery(all[n].Event)
	require.NoError(f.t, err)
	return d
}
