package compare

import (
	"bytes"
	"crypto/ed25519"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"muniment.example/bench/load"
)

// TestForgedReceipt: what the comparison calls verified is.
func TestForgedReceipt(t *testing.T) {
	bodies, err := load.Bodies(1, 1, load.AnyRights())
	require.NoError(t, err)
	s := &bareServer{key: bareKey(), tenants: bareTenants()}
	s.pool.New = func() any { return new(bareWork) }
	var ctx fasthttp.RequestCtx
	ctx.Request.SetBody(bodies[0])
	target := &target{signers: map[string]ed25519.PublicKey{bareKeyID: bareKey().Public().(ed25519.PublicKey)}}
	answer := func() []byte {
		s.handle(&ctx)
		return ctx.Response.Body()
	}
	require.NoError(t, target.check(answer()))
	require.ErrorContains(t, target.check(bytes.Replace(answer(), []byte(`"version":"1"`), []byte(`"version":"2"`), 1)), "verify")
	target.signers = nil
	require.ErrorContains(t, target.check(answer()), "verify", "an unknown key")
}
