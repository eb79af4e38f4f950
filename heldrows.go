package main

import (
	"context"
	"strings"
	"time"

	"muniment/control/ingest"
	"muniment/control/node"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/gateway/issue"
	"muniment/sealer"
)

// heldNode is the node of this process that delivers rows which were held until a mapping
// came, while there is one. Those of the sandbox's tenants the sandbox's node delivers.
type heldNode struct {
	*ownNode
	sandbox *sandboxNode
}

func newHeldNode(sandbox *sandboxNode) *heldNode { return &heldNode{newOwnNode(heldUse), sandbox} }

var heldUse = nodeUse{
	name: "the node that delivers held rows", folder: "held",
	none: api.Unavailable(api.NoSigningKey, "the node that delivers held rows has not started yet", time.Second),
	invite: func(ctx context.Context, nodes *node.Room) (node.Invitation, error) {
		return nodes.Invite(ctx, store.BySystem())
	},
}

// Deliver is ingest.Deliver.
func (h *heldNode) Deliver(ctx context.Context, tenantID, keyID string, rows [][]byte) (all []ingest.Delivered, err error) {
	by := issue.Caller{TenantID: tenantID, KeyID: keyID}
	if by.Sandbox, err = h.sandbox.isSandbox(ctx, tenantID); err != nil {
		return nil, err
	}
	batch := issue.Batch{Rows: make([]issue.Row, len(rows))}
	for i, row := range rows {
		batch.Rows[i].JSON = row
	}
	on := h.ownNode
	if by.Sandbox {
		on = h.sandbox.ownNode
	}
	var results []issue.RowResult
	err = on.with(ctx, func(i *issue.Issuer) (err error) {
		results, err = i.IssueRows(ctx, by, &batch)
		return err
	})
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
