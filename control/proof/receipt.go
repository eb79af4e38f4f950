package proof

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"muniment/control/route"
	"muniment/gateway/api"
	"muniment/gateway/auth"
	"muniment/pipeline"
	"muniment/sealer"
)

func (r *Room) receiptRoutes(a route.API) {
	route.Add(a, route.Operation{ID: "get-receipt", Method: http.MethodGet, Path: "/v1/receipts/{receiptId}", Tag: "Receipts", Access: route.Scope(api.AuditRead),
		Summary:     "Get a receipt, its signature, and the event that holds it",
		Description: "sealed is null until a proof pack holds the event. A receipt is here from the moment that its caller got it."}, r.getReceipt)
	route.Add(a, route.Operation{ID: "prove-receipt", Method: http.MethodGet, Path: "/v1/receipts/{receiptId}/proof", Tag: "Receipts", Access: route.Scope(api.AuditRead),
		Summary: "Prove that the tenant's log includes a receipt",
		Description: "proof is a C2SP tlog-proof: leaf index, RFC 6962 inclusion proof, and the signed checkpoint that it leads to. " +
			"event is verbatim: it is the leaf. The whole answer is a file for muniment verify. 409 until a pack holds the receipt.", Errors: []int{http.StatusConflict}}, r.proveReceipt)
}

// receiptRequest names a receipt.
type receiptRequest struct {
	ReceiptID string `path:"receiptId"`
}

type loggedReceipt struct {
	Receipt   json.RawMessage `json:"receipt" doc:"What is signed, verbatim."`
	Signature json.RawMessage `json:"signature"`
	Event     json.RawMessage `json:"event" doc:"Verbatim: its canonical bytes are the leaf of the tenant's Merkle log."`
	Position  string          `json:"position" doc:"Of the event, opaque."`
	Sealed    *sealedLeaf     `json:"sealed" doc:"Null until a proof pack holds the event."`
}

// sealedLeaf is where an event stands among the sealed ones.
type sealedLeaf struct {
	_         struct{} `nullable:"true"`
	PackID    string   `json:"packId"`
	LeafIndex uint64   `json:"leafIndex" doc:"Of the tenant's Merkle log, from 0."`
}

func (r *Room) getReceipt(ctx context.Context, in *receiptRequest) (loggedReceipt, error) {
	row, err := r.receipt(ctx, in.ReceiptID)
	if err != nil {
		return loggedReceipt{}, err
	}
	parts, err := sealer.SplitDelivery(row.Event)
	if err != nil {
		return loggedReceipt{}, err
	}
	detail := loggedReceipt{Receipt: parts.Receipt, Signature: parts.Signature, Event: row.Event, Position: row.Position.String()}
	p, index, found, err := r.leafOf(ctx, row)
	if err != nil {
		return loggedReceipt{}, err
	}
	if found {
		detail.Sealed = &sealedLeaf{PackID: p.ID, LeafIndex: index}
	}
	return detail, nil
}

type proofRequest struct {
	ReceiptID  string `path:"receiptId"`
	Checkpoint string `query:"checkpoint" enum:"pack,latest" default:"pack" doc:"pack: that of the pack which holds the receipt, and so the oldest; where the key of that pack is revoked, that of the first pack behind it whose key is not. latest: that of the tenant's newest pack."`
}

// The order of the members is that of the file that muniment verify reads.
type inclusionProof struct {
	Event json.RawMessage `json:"event" doc:"Verbatim: it is the leaf."`
	Proof string          `json:"proof" doc:"C2SP tlog-proof."`
}

// errNotSealed refuses to prove what no pack holds.
var errNotSealed = api.Conflict("no proof pack holds the receipt yet: seal one first")

func (r *Room) proveReceipt(ctx context.Context, in *proofRequest) (inclusionProof, error) {
	row, err := r.receipt(ctx, in.ReceiptID)
	if err != nil {
		return inclusionProof{}, err
	}
	under, index, found, err := r.leafOf(ctx, row)
	if err == nil && !found {
		err = errNotSealed
	}
	switch {
	case err != nil:
		return inclusionProof{}, err
	case in.Checkpoint == "latest":
		under, err = r.newest(ctx, row.TenantID)
	default:
		under, err = r.sound(ctx, under)
	}
	if err != nil {
		return inclusionProof{}, err
	}
	proof, err := r.inclusion(ctx, under, index, sealer.LeafHash(row.Event))
	if err != nil {
		return inclusionProof{}, err
	}
	return inclusionProof{Event: row.Event, Proof: proof.Text()}, nil
}

// receipt is the event with a receipt of the caller's. A foreign one is not there.
// One that its caller got before is, for what the log holds is loaded first.
func (r *Room) receipt(ctx context.Context, receiptID string) (pipeline.Row, error) {
	none := api.NotFound("receipt")
	ulid, ok := strings.CutPrefix(receiptID, string(api.PrefixReceipt))
	if !ok {
		return pipeline.Row{}, none
	}
	tenantID, eventID := auth.PrincipalFrom(ctx).TenantID, string(api.PrefixEvent)+ulid
	row, err := r.warehouse.Event(ctx, tenantID, eventID)
	if errors.Is(err, pipeline.ErrNoEvent) {
		if err = r.load(ctx, tenantID); err == nil {
			row, err = r.warehouse.Event(ctx, tenantID, eventID)
		}
	}
	if errors.Is(err, pipeline.ErrNoEvent) || err == nil && row.Delivery == nil {
		err = none
	}
	return row, err
}

// leafOf finds an event among the sealed ones: the pack that holds it, and its leaf.
// found is false for an event behind the head. One before the head that no pack
// holds is a fault: nothing may come to stand there after the head has passed.
func (r *Room) leafOf(ctx context.Context, row pipeline.Row) (p Pack, index uint64, found bool, err error) {
	p, found, err = packAt(ctx, r.db.Read(), row.TenantID, row.Position)
	if err != nil || !found {
		return Pack{}, 0, false, err
	}
	err = r.prove(row.TenantID, func(n *nodes) error {
		if index, found, err = n.leaf(p, sealer.LeafHash(row.Event)); err == nil && !found {
			err = fmt.Errorf("pack %s lacks event %s", p.ID, row.EventID)
		}
		return err
	})
	return p, index, found, err
}

// sound is the oldest pack from p on whose key is not revoked, as a checkpoint of a
// revoked key proves nothing by itself; p if there is none. The oldest, for it also
// has to be older than a revocation of the key that signed the receipt.
func (r *Room) sound(ctx context.Context, p Pack) (Pack, error) {
	text, err := r.keys.Directory(ctx)
	if err != nil {
		return Pack{}, err
	}
	directory, err := sealer.ReadDirectory(text)
	if err != nil {
		return Pack{}, err
	}
	other, found, err := packNotBy(ctx, r.db.Read(), p.TenantID, p.Sequence, revoked(directory))
	if !found {
		other = p
	}
	return other, err
}

// revoked lists the keys of packs that are revoked, of tenants and of the sandbox.
func revoked(d *sealer.Directory) (keyIDs []string) {
	for i := range d.Keys {
		if k := &d.Keys[i]; sealer.PurposeOf(k.Purpose).Packs && k.RevokedAt != nil {
			keyIDs = append(keyIDs, k.KeyID)
		}
	}
	return keyIDs
}

// newest is the tenant's newest pack, of which there must be one.
func (r *Room) newest(ctx context.Context, tenantID string) (Pack, error) {
	h, err := readHead(ctx, r.db.Read(), tenantID)
	if err != nil {
		return Pack{}, err
	}
	p, found, err := readPack(ctx, r.db.Read(), tenantID, h.packID)
	if err == nil && !found {
		err = api.NotFound("checkpoint")
	}
	return p, err
}

// inclusion proves a leaf under the checkpoint of a pack.
func (r *Room) inclusion(ctx context.Context, under Pack, index uint64, leaf sealer.Hash) (proof sealer.InclusionProof, err error) {
	root, err := sealer.ParseHash(under.RootHash)
	if err != nil {
		return proof, err
	}
	proof.Index = index
	if proof.Checkpoint, err = under.checkpoint(); err != nil {
		return proof, err
	}
	err = r.prove(under.TenantID, func(n *nodes) error {
		if proof.Hashes, err = sealer.ProveInclusion(index, under.end(), n.reader(ctx)); err != nil {
			return err
		}
		return sealer.VerifyInclusion(index, under.end(), leaf, root, proof.Hashes)
	})
	return proof, err
}

// checkpoint is the signed note that the pack's header holds.
func (p *Pack) checkpoint() (string, error) {
	var h struct {
		Checkpoint string `json:"checkpoint"`
	}
	err := json.Unmarshal(p.Header, &h)
	return h.Checkpoint, err
}
