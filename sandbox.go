package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muniment/control/node"
	"muniment/gateway/api"
	"muniment/gateway/issue"
)

// sandboxNode is the node of this process that issues the receipts of the sandbox's
// tenants, while there is one.
type sandboxNode struct {
	*ownNode
	isSandbox func(ctx context.Context, tenantID string) (bool, error)
}

func newSandboxNode(isSandbox func(ctx context.Context, tenantID string) (bool, error)) *sandboxNode {
	return &sandboxNode{newOwnNode(sandboxUse), isSandbox}
}

var sandboxUse = nodeUse{
	name: "the sandbox's node", folder: "sandbox", sandbox: true, none: errNoSandboxNode,
	invite: func(ctx context.Context, nodes *node.Room) (node.Invitation, error) { return nodes.InviteSandbox(ctx) },
}

// errNotSandboxed says that a tenant is not one of the sandbox, or not any more: its key may
// be good at the node still.
var errNotSandboxed = errors.New("the tenant is none of the sandbox")

var errNoSandboxNode = api.Unavailable(api.NoSigningKey, "the sandbox's node has not started yet", time.Second)

// Deliver is sandbox.Deliver: a 503 while there is no node that could. What a node that
// leaves has not begun is the next one's.
func (s *sandboxNode) Deliver(ctx context.Context, tenantID, keyID string, body []byte) (answer []byte, err error) {
	s.start()
	switch is, err := s.isSandbox(ctx, tenantID); {
	case err != nil:
		return nil, err
	case !is:
		return nil, fmt.Errorf("cannot deliver for %s: %w", tenantID, errNotSandboxed)
	}
	by := issue.Caller{TenantID: tenantID, KeyID: keyID, Sandbox: true}
	err = s.with(ctx, func(i *issue.Issuer) (err error) {
		began := time.Now()
		answer, _, err = i.Issue(i.Deadline(began), nil, by, &issue.Delivery{Body: body, Rendered: began})
		return err
	})
	return answer, err
}
