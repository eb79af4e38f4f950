package control

import (
	"context"
	"errors"
	"net/http"
	"time"

	"muniment.example/control/node"
	"muniment.example/control/route"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/gateway/api"
)

// operatorRoutes adds the operations for operators: those of the services, and those on nodes and
// signing keys, whose revocation needs a seal of all tenants.
func (c *Control) operatorRoutes(a route.API) {
	c.cfg.Tenants.OperatorRoutes(a)
	if c.cfg.Packs != nil {
		c.cfg.Packs.OperatorRoutes(a)
	}
	if c.cfg.Sandbox != nil {
		c.cfg.Sandbox.OperatorRoutes(a)
	}
	if c.cfg.Access != nil {
		c.cfg.Access.OperatorRoutes(a)
	}
	if c.cfg.Operators != nil {
		c.cfg.Operators.OperatorRoutes(a)
	}
	route.Add(a, route.Operation{ID: "invite-node", Method: http.MethodPost, Path: "/admin/nodes/invitations", Tag: "Operator", Access: route.Operator{},
		Summary: "Invite one node to join within an hour; the token is shown only once"}, func(ctx context.Context, _ *struct{}) (node.Invitation, error) {
		return c.cfg.Nodes.Invite(ctx, store.ByOperator())
	})
	route.Add(a, route.Operation{ID: "expel-node", Method: http.MethodPost, Path: "/admin/nodes/{nodeId}/expel", Tag: "Operator", Access: route.Operator{},
		Summary: "Permanently remove a node, after what it signed is sealed"}, c.expelNode)
	route.Add(a, route.Operation{ID: "unbar-node-name", Method: http.MethodPost, Path: "/admin/nodes/unbar", Tag: "Operator", Access: route.Operator{},
		Summary: "Allow another node to join by a certificate with the name of an expelled node"}, c.unbarNodeName)
	route.Add(a, route.Operation{ID: "list-signing-keys", Method: http.MethodGet, Path: "/admin/signing-keys", Tag: "Operator", Access: route.Operator{},
		Summary: "List every key that ever signed, oldest first"}, c.signingKeys)
	route.Add(a, route.Operation{ID: "rotate-signing-key", Method: http.MethodPost, Path: "/admin/signing-keys/{keyId}/rotate", Tag: "Operator", Access: route.Operator{},
		Summary: "Replace a current signing key by a new one"}, c.rotateSigningKey)
	route.Add(a, route.Operation{ID: "revoke-signing-key", Method: http.MethodPost, Path: "/admin/signing-keys/{keyId}/revoke", Tag: "Operator", Access: route.Operator{},
		Summary: "Revoke a signing key, so that verifiers no longer trust it"}, c.revokeSigningKey)
	route.Add(a, route.Operation{ID: "delegate-to-signing-key", Method: http.MethodPost, Path: "/admin/signing-keys/delegations", Tag: "Operator", Access: route.Operator{},
		Summary: "Submit the root's delegation to the directory key that waits for it"}, c.delegate)
}

func (c *Control) signingKeys(ctx context.Context, _ *struct{}) (signing.SigningKeys, error) {
	return c.cfg.Keys.SigningKeys(ctx)
}

type signingKeyInput struct {
	KeyID string `path:"keyId"`
}

func (c *Control) rotateSigningKey(ctx context.Context, in *signingKeyInput) (signing.Succession, error) {
	return c.cfg.Nodes.Rotate(ctx, in.KeyID, store.ByOperator())
}

type revokeInput struct {
	KeyID string `path:"keyId"`
	Body  *struct {
		Reason string `json:"reason,omitempty" maxLength:"512" doc:"Kept permanently in the audit log: must not contain personal data."`
		Force  bool   `json:"force,omitempty" doc:"Revoke the key even if some tenants can't be sealed first; unsealed in the response names them."`
	} // may be absent
}

func (c *Control) revokeSigningKey(ctx context.Context, in *revokeInput) (signing.Revoked, error) {
	q := signing.Revocation{Seal: c.sealAll}
	if in.Body != nil {
		q.Reason, q.Force = in.Body.Reason, in.Body.Force
	}
	return c.cfg.Nodes.Revoke(ctx, in.KeyID, q, store.ByOperator())
}

type expelInput struct {
	NodeID string `path:"nodeId" maxLength:"64"`
	Body   *struct {
		Reason string `json:"reason,omitempty" maxLength:"512" doc:"Kept permanently in the audit log: must not contain personal data."`
		Force  bool   `json:"force,omitempty" doc:"Expel the node even if it did not report that everything it signed is in the log, or if some tenants can't be sealed."`

		AbandonSpool bool `json:"abandonSpool,omitempty" doc:"Give up the records in the spool of a node that does not respond: seals no longer list them."`
	} // may be absent
}

func (c *Control) expelNode(ctx context.Context, in *expelInput) (node.Expelled, error) {
	q := node.Expulsion{Revocation: signing.Revocation{Seal: c.sealAll}}
	if in.Body != nil {
		q.Reason, q.Force, q.AbandonSpool = in.Body.Reason, in.Body.Force, in.Body.AbandonSpool
	}
	return c.cfg.Nodes.Expel(ctx, in.NodeID, q, store.ByOperator())
}

type unbarInput struct {
	Body struct {
		Name string `json:"name" minLength:"1" maxLength:"63"`
	}
}

func (c *Control) unbarNodeName(ctx context.Context, in *unbarInput) (node.Unbarred, error) {
	return c.cfg.Nodes.Unbar(ctx, in.Body.Name, store.ByOperator())
}

// sealAll seals what is new of every tenant that keys of the purpose sign for, so that no pack
// depends on the key alone. It continues after a tenant that can't be sealed. Anyone can create
// tenants of the sandbox, so they are sealed only for keys of the sandbox, for which no others are.
func (c *Control) sealAll(ctx context.Context, keyID, purpose string) (unsealed []signing.Unsealed, err error) {
	if c.cfg.Packs == nil {
		return nil, nil
	}
	tenants, err := c.cfg.Tenants.TenantIDs(ctx, purpose)
	if err != nil {
		return nil, err
	}
	for _, id := range tenants {
		err := c.cfg.Packs.Vouch(ctx, id, keyID, store.ByOperator())
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if errors.Is(err, tenant.ErrNone) {
			continue // a tenant of the sandbox, which was dropped meanwhile
		}
		if err != nil {
			c.cfg.Logger.Error("cannot seal a tenant before a key is revoked", "tenantId", id, "keyId", keyID, "err", err)
			unsealed = append(unsealed, signing.Unsealed{TenantID: id, Reason: api.From(err).Message, Err: err})
		}
	}
	// A checkpoint has its time in seconds: verifiers could not tell whether a revocation in the
	// same second came before it.
	now := c.cfg.DB.Now()
	select {
	case <-time.After(now.Truncate(time.Second).Add(time.Second).Sub(now)):
		return unsealed, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type delegationInput struct {
	Body struct {
		Delegation string `json:"delegation" minLength:"1" maxLength:"4096" doc:"A signed note, as muniment root delegate prints it."`
	}
}

func (c *Control) delegate(ctx context.Context, in *delegationInput) (signing.Succession, error) {
	return c.cfg.Keys.Delegate(ctx, in.Body.Delegation, store.ByOperator())
}
