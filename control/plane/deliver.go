package plane

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"muniment.example/control/ingest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/issue"
	"muniment.example/sealer"
)

// errNotSandboxed says that a tenant is not one of the sandbox, or not any more: its key may
// still be valid at the node.
var errNotSandboxed = errors.New("the tenant is not one of the sandbox")

// deliverSandbox is sandbox.Deliver: a 503 while the sandbox has no node.
func (p *Plane) deliverSandbox(ctx context.Context, tenantID, keyID string, body []byte) (answer []byte, err error) {
	answer, _, err = p.deliverSandboxed(ctx, tenantID, keyID, body, nil)
	return answer, err
}

// deliverSandboxed is control.DeliverSandbox, as deliverSandbox.
func (p *Plane) deliverSandboxed(ctx context.Context, tenantID, keyID string, body []byte, idempotencyKey *string) (answer []byte, replayed bool, err error) {
	if err := p.sandboxed(ctx, tenantID); err != nil {
		return nil, false, err
	}
	d := issue.Delivery{Body: body}
	if idempotencyKey != nil {
		d.IdempotencyKey, d.HasKey = []byte(*idempotencyKey), true
	}
	return p.sandboxNode.Issue(ctx, issue.Caller{TenantID: tenantID, KeyID: keyID, Sandbox: true}, d)
}

// sandboxed fails unless the tenant is one of the sandbox.
func (p *Plane) sandboxed(ctx context.Context, tenantID string) error {
	is, err := p.tenants.IsSandbox(ctx, tenantID)
	if err == nil && !is {
		err = fmt.Errorf("cannot deliver for %s: %w", tenantID, errNotSandboxed)
	}
	return err
}

// SandboxRows is control.Config.SandboxRows: a 503 while the sandbox has no node.
func (p *Plane) SandboxRows(ctx context.Context, q api.SandboxRows) ([]api.SandboxRow, error) {
	if err := p.sandboxed(ctx, q.TenantID); err != nil {
		return nil, err
	}
	batch := issue.Batch{Vendor: q.Vendor, Rows: make([]issue.Row, len(q.Rows))}
	for n, row := range q.Rows {
		batch.Rows[n].JSON = []byte(row)
	}
	results, err := p.sandboxNode.IssueRows(ctx, issue.Caller{TenantID: q.TenantID, KeyID: q.KeyID, Sandbox: true}, &batch)
	rows := make([]api.SandboxRow, len(results))
	for n, r := range results {
		rows[n] = api.SandboxRow{Status: r.Status.String(), Event: string(r.Event), First: r.First, Held: r.Held}
		if r.Err == nil {
			continue
		}
		e := api.From(r.Err)
		if e.Code == api.InternalError && e.Reason == "" {
			p.cfg.Logger.ErrorContext(ctx, "cannot deliver a row of the sandbox", "tenantId", q.TenantID, "err", r.Err)
		}
		refused := e.OfRow()
		rows[n].Error = &refused
	}
	return rows, err
}

// deliverHeld is ingest.Deliver. The rows of the sandbox's tenants are the sandbox's node's.
func (p *Plane) deliverHeld(ctx context.Context, tenantID, keyID string, rows []ingest.Delivery) (all []ingest.Delivered, err error) {
	by := issue.Caller{TenantID: tenantID, KeyID: keyID}
	if by.Sandbox, err = p.tenants.IsSandbox(ctx, tenantID); err != nil {
		return nil, err
	}
	batch := issue.Batch{Rows: make([]issue.Row, len(rows))}
	for i := range rows {
		batch.Rows[i] = issue.Row{JSON: rows[i].Row, Identity: &rows[i].Identity}
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
	case issue.Held:
		d.SuspendedRightID = r.Held.RightID
	default:
		d.Err = api.From(r.Err)
	}
	return d, nil
}
