package gateway

import (
	"context"
	"fmt"
	"time"

	"muniment.example/gateway/api"
	"muniment.example/gateway/issue"
)

// sandboxTimeout bounds a batch of the sandbox, which has a slot all the while: short, so that
// those of a control that hangs leave slots to others.
const sandboxTimeout = 5 * time.Second

// issueRows issues the receipts of a batch: here or, for a tenant of the sandbox, at the node of
// control that has a key for them. There the Idempotency-Key orders nothing: it is only read.
func (g *Gateway) issueRows(by issue.Caller, b *issue.Batch) ([]issue.RowResult, error) {
	switch {
	case !by.Sandbox, g.issuer.ForSandbox(), g.cfg.SandboxRows == nil:
		return g.issuer.IssueRows(context.Background(), by, b)
	case b.HasKey && !api.Printable(b.IdempotencyKey, api.MaxIdempotencyKey):
		return nil, api.ErrIdempotencyKey
	}
	ctx, cancel := context.WithTimeout(context.Background(), sandboxTimeout)
	defer cancel()
	results, open := make([]issue.RowResult, len(b.Rows)), make([]int, 0, len(b.Rows))
	for n := range b.Rows {
		if err := b.Rows[n].Unreadable(); err != nil {
			results[n] = issue.RowResult{Status: issue.Rejected, Err: err}
		} else {
			open = append(open, n)
		}
	}
	for len(open) > 0 {
		taken, err := g.issueAtControl(ctx, by, b, open, results)
		if err != nil {
			return nil, err
		}
		open = open[taken:]
	}
	return results, nil
}

// issueAtControl has control issue the first of the open rows, and sets their results.
func (g *Gateway) issueAtControl(ctx context.Context, by issue.Caller, b *issue.Batch, open []int, results []issue.RowResult) (taken int, err error) {
	taken, leave := b.Admit(min(len(open), api.MostHeldRows))
	defer leave()
	req := api.SandboxRows{TenantID: by.TenantID, KeyID: by.KeyID, Vendor: b.Vendor, Rows: make([]string, taken)}
	for k, n := range open[:taken] {
		req.Rows[k] = string(b.Rows[n].JSON)
	}
	issued, err := g.cfg.SandboxRows(ctx, req)
	if err != nil {
		return 0, err
	}
	for k, n := range open[:taken] {
		r := &issued[k]
		if results[n].Status, err = issue.ParseRowStatus(r.Status); err != nil {
			return 0, err
		}
		if r.First < 0 || r.First >= taken {
			return 0, fmt.Errorf("control names row %d of %d", r.First, taken)
		}
		if r.Event != "" {
			results[n].Event = []byte(r.Event)
		}
		if r.Error != nil {
			results[n].Err = r.Error.Err()
		}
		results[n].First, results[n].Held = open[r.First], r.Held
	}
	return taken, nil
}
