package webhook

import (
	"context"
	"slices"
	"strings"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// Scopes returns the scopes of a key at a time, or those of its successor in rotations once it is
// not in force; 0 if none is in force. The id of a member stands for one, whose scopes may become less.
type Scopes func(ctx context.Context, q store.Querier, keyID string, at time.Time) (api.Scopes, error)

// Why the service pauses a webhook: its key was revoked or has expired, or its member was removed or erased, or has a
// role that may not set it.
const (
	reasonKeyRevoked    = "KEY_REVOKED"
	reasonMemberChanged = "MEMBER_CHANGED"
)

// entitled returns SCOPE_MISSING unless the scopes admit to all kinds that filters name.
func (c *core) entitled(held api.Scopes, filters []string) error {
	var refused, missing []string
	for _, f := range filters {
		for _, k := range chosen(c.cfg.Kinds, f) {
			if !k.Allows(held) {
				refused, missing = append(refused, f), append(missing, k.Scopes()[0])
			}
		}
	}
	if refused == nil {
		return nil
	}
	slices.Sort(missing)
	missing = slices.Compact(missing)
	return &api.Error{
		Code: api.ScopeMissing, Message: "for " + strings.Join(slices.Compact(refused), ", ") + " the key needs " + strings.Join(missing, " and ") + ", or audit:read",
		RequiredScopes: missing, KeyScopes: held.Names(),
	}
}

// mayGet reports whether the scopes admit to the events of a delivery. A key that may send to a webhook
// may test it.
func (c *core) mayGet(held api.Scopes, d *Delivery) bool {
	if d.EventType == eventTested.Type {
		return true
	}
	if k := c.cfg.Kinds.Find(d.EventType); k != nil {
		return k.Allows(held)
	}
	return held.Allows(api.AuditRead)
}

// mayKeep reports whether a webhook may go on under its key or member, who holds these scopes now. The scopes of a key
// stay what they were when it set the webhook; a member's may have become less.
func (c *core) mayKeep(held api.Scopes, w *Webhook) bool {
	if !api.IsID(api.PrefixMember, w.KeyID) {
		return held != 0
	}
	return held.Allows(api.WebhooksWrite) && c.entitled(held, w.Events) == nil
}

// KeyEnded pauses the tenant's webhooks whose key is not in force, in the change that ends a key or erases a member, or that
// takes scopes from a member.
func (c *core) KeyEnded(ctx context.Context, tx *store.Tx, tenantID string) error {
	active, err := store.List(ctx, tx, "the webhooks of "+tenantID, webhooks.Scan, webhooks.Select()+` WHERE tenant_id = $1 AND state = 'ACTIVE' ORDER BY webhook_id`, tenantID)
	for i := 0; i < len(active) && err == nil; i++ {
		err = c.pauseIn(ctx, tx, &active[i])
	}
	return err
}

// pause pauses a webhook whose key is not in force.
func (c *core) pause(ctx context.Context, id string) error {
	return c.db.Change(ctx, func(tx *store.Tx) error {
		was, err := store.One(ctx, tx, "the webhook "+id, webhooks.Scan, webhooks.Select()+` WHERE webhook_id = $1`, id)
		if err != nil || was == nil || was.State != Active {
			return err
		}
		return c.pauseIn(ctx, tx, was)
	})
}

// pauseIn pauses an ACTIVE webhook unless it may go on.
func (c *core) pauseIn(ctx context.Context, tx *store.Tx, was *Webhook) error {
	held, err := c.cfg.Scopes(ctx, tx, was.KeyID, tx.Now())
	if err != nil || c.mayKeep(held, was) {
		return err
	}
	next := *was
	next.State, next.StateReason = Paused, new(reasonKeyRevoked)
	if api.IsID(api.PrefixMember, was.KeyID) {
		next.StateReason = new(reasonMemberChanged)
	}
	return revise(ctx, tx, was, &next, eventPaused, store.BySystem())
}
