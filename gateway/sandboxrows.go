package gateway

import (
	"context"
	"time"

	"muniment/gateway/api"
	"muniment/gateway/issue"
)

const (
	// sandboxPiece is how many rows of the sandbox are issued, and count as deliveries in hand,
	// at a time.
	sandboxPiece = 64
	// sandboxTimeout bounds a batch of the sandbox, which has a slot all the while.
	sandboxTimeout = 20 * time.Second
)

// issueRows issues the receipts of a batch: here or, for a tenant of the sandbox, at the node of
// control that has a key for them.
func (g *Gateway) issueRows(by issue.Caller, b *issue.Batch) ([]issue.RowResult, error) {
	if !by.Sandbox || g.issuer.ForSandbox() || g.cfg.SandboxRows == nil {
		return g.issuer.IssueRows(context.Background(), by, b)
	}
	results, open := make([]issue.RowResult, len(b.Rows)), make([]int, 0, len(b.Rows))
	for n := range b.Rows {
		if err := b.Rows[n].Unreadable(); err != nil {
			results[n] = issue.RowResult{Status: issue.Rejected, Err: err}
		} else {
			open = append(open, n)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), sandboxTimeout)
	defer cancel()
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
	taken, leave := b.Admit(min(len(open), sandboxPiece))
	defer leave()
	req := api.SandboxRows{TenantID: by.TenantID, KeyID: by.KeyID, Vendor: b.Vendor, Rows: make([]string, taken)}
	if b.HasKey {
		key := string(b.IdempotencyKey)
		req.IdempotencyKey = &key
	}
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
