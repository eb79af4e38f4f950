package main

import (
	"context"
	"sync/atomic"
	"time"

	"muniment/gateway"
	"muniment/gateway/api"
)

// sandboxNode is the gateway of this process that issues the receipts of the sandbox's
// tenants, once it is there.
type sandboxNode struct {
	gateway atomic.Pointer[gateway.Gateway]
}

var errNoSandboxNode = api.Unavailable(api.NoSigningKey, "the sandbox's node has not started yet", time.Second)

// Deliver is gateway.Gateway.Deliver; until there is one, a 503 *api.Error.
func (s *sandboxNode) Deliver(ctx context.Context, tenantID, keyID string, body []byte) (status int, answer []byte, err error) {
	g := s.gateway.Load()
	if g == nil {
		return 0, nil, errNoSandboxNode
	}
	return g.Deliver(ctx, tenantID, keyID, body)
}
