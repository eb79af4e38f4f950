package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"muniment/control/ingest"
	"muniment/gateway/api"
	"muniment/gateway/issue"
	"muniment/sealer"
)

// errNotSandboxed says that a tenant is not one of the sandbox, or not any more: its key may
// still be valid at the node.
var errNotSandboxed = errors.New("the tenant is not one of the sandbox")

// deliverSandbox is sandbox.Deliver: a 503 while the sandbox has no node.
func (p *plane) deliverSandbox(ctx context.Context, tenantID, keyID string, body []byte) (answer []byte, err error) {
	answer, _, err = p.deliverSandboxed(ctx, tenantID, keyID, body, nil)
	return answer, err
}

// deliverSandboxed is control.DeliverSandbox, as deliverSandbox.
func (p *plane) deliverSandboxed(ctx context.Context, tenantID, keyID string, body []byte, idempotencyKey *string) (answer []byte, replayed bool, err error) {
	switch is, err := p.tenants.IsSandbox(ctx, tenantID); {
	case err != nil:
		return nil, false, err
	case !is:
		return nil, false, fmt.Errorf("cannot deliver for %s: %w", tenantID, errNotSandboxed)
	}
	d := issue.Delivery{Body: body}
	if idempotencyKey != nil {
		d.IdempotencyKey, d.HasKey = []byte(*idempotencyKey), true
	}
	return p.sandboxNode.Issue(ctx, issue.Caller{TenantID: tenantID, KeyID: keyID, Sandbox: true}, d)
}

// deliverHeld is ingest.Deliver. The rows of the sandbox's tenants are the sandbox's node's.
func (p *plane) deliverHeld(ctx context.Context, tenantID, keyID string, rows [][]byte) (all []ingest.Delivered, err error) {
	by := issue.Caller{TenantID: tenantID, KeyID: keyID}
	if by.Sandbox, err = p.tenants.IsSandbox(ctx, tenantID); err != nil {
		return nil, err
	}
	batch := issue.Batch{Rows: make([]issue.Row, len(rows))}
	for i, row := range rows {
		batch.Rows[i].JSON = row
	}
	on := p.heldNode
	if by.Sandbox {
		on = p.sandboxNode
	}
	results, err := on.IssueRows(ctx, by, &batch)
	for i := range results {
		d, err := delivered(&results[i])
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, err
}

func delivered(r *issue.RowResult) (d ingest.Delivered, err error) {
	switch r.Status {
	case issue.Accepted, issue.Duplicate:
		e, err := sealer.ParseEvent(r.Event)
		if err != nil {
			return d, err
		}
		d.ReceiptID = string(api.PrefixReceipt) + strings.TrimPrefix(e.EventID, string(api.PrefixEvent)) // they share their ULID
	case issue.Unmapped:
		d.Unmapped = true
	default:
		d.Err = api.From(r.Err)
	}
	return d, nil
}
