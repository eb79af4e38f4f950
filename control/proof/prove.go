package proof

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"muniment.example/control/route"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/pipeline"
	"muniment.example/sealer/checkpoint"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/merkle"
)

// prover proves that a tenant's log includes an event, and that one checkpoint extends another.
type prover struct{ *archive }

// LeafOf finds the pack that holds an event, and its leaf. found is false for an event after the
// head. An event before the head that is in no pack is an error.
func (s *prover) LeafOf(ctx context.Context, row pipeline.Row) (p Pack, index uint64, found bool, err error) {
	p, found, err = packAt(ctx, s.db.Read(), row.TenantID, row.Position)
	if err != nil || !found {
		return Pack{}, 0, false, err
	}
	err = s.prove(row.TenantID, func(n *nodes) error {
		if index, found, err = n.leaf(ctx, p, merkle.LeafHash(row.Event)); err == nil && !found {
			err = fmt.Errorf("pack %s lacks event %s", p.ID, row.EventID)
		}
		return err
	})
	return p, index, found, err
}

// Inclusion proves that the log includes an event, under the checkpoint of the pack that holds it, or
// of the first later pack whose key is not revoked; with latest, of the tenant's newest pack. found
// is false for an event after the head.
func (s *prover) Inclusion(ctx context.Context, row pipeline.Row, latest bool) (proof checkpoint.InclusionProof, found bool, err error) {
	under, index, found, err := s.LeafOf(ctx, row)
	switch {
	case err != nil || !found:
		return proof, found, err
	case latest:
		under, err = s.newest(ctx, row.TenantID)
	default:
		under, err = s.sound(ctx, under)
	}
	if err != nil {
		return proof, true, err
	}
	proof, err = s.inclusion(ctx, under, index, merkle.LeafHash(row.Event))
	return proof, true, err
}

// sound returns the oldest pack from p on whose key is not revoked, or p if there is none. A
// checkpoint by a revoked key alone proves nothing. It has to be the oldest because it also has to
// precede a revocation of the key that signed the receipt.
func (s *prover) sound(ctx context.Context, p Pack) (Pack, error) {
	text, err := s.keys.Directory(ctx)
	if err != nil {
		return Pack{}, err
	}
	directory, err := keydir.Read(text)
	if err != nil {
		return Pack{}, err
	}
	other, found, err := packNotBy(ctx, s.db.Read(), p.TenantID, p.Sequence, revoked(directory))
	if !found {
		other = p
	}
	return other, err
}

// revoked lists the revoked keys of packs, of tenants and of the sandbox.
func revoked(d *keydir.Directory) (keyIDs []string) {
	for i := range d.Keys {
		if k := &d.Keys[i]; keydir.PurposeOf(k.Purpose).Packs && k.RevokedAt != nil {
			keyIDs = append(keyIDs, k.KeyID)
		}
	}
	return keyIDs
}

// newest returns the tenant's newest pack. The tenant must have one.
func (s *prover) newest(ctx context.Context, tenantID string) (Pack, error) {
	h, err := readHead(ctx, s.db.Read(), tenantID)
	if err != nil {
		return Pack{}, err
	}
	p, found, err := readPack(ctx, s.db.Read(), tenantID, h.packID)
	if err == nil && !found {
		err = &api.Error{Code: api.ResourceNotFound, Message: "no such checkpoint in this tenant"}
	}
	return p, err
}

// inclusion proves a leaf under the checkpoint of a pack.
func (s *prover) inclusion(ctx context.Context, under Pack, index uint64, leaf merkle.Hash) (proof checkpoint.InclusionProof, err error) {
	root, err := merkle.ParseHash(under.RootHash)
	if err != nil {
		return proof, err
	}
	proof.Index = index
	if proof.Checkpoint, err = under.checkpoint(); err != nil {
		return proof, err
	}
	err = s.prove(under.TenantID, func(n *nodes) error {
		if proof.Hashes, err = merkle.ProveInclusion(index, under.end(), n.reader(ctx)); err != nil {
			return err
		}
		return merkle.VerifyInclusion(index, under.end(), leaf, root, proof.Hashes)
	})
	return proof, err
}

// checkpoint returns the signed note in the pack's header.
func (p *Pack) checkpoint() (string, error) {
	var h struct {
		Checkpoint string `json:"checkpoint"`
	}
	err := json.Unmarshal(p.Header, &h)
	return h.Checkpoint, err
}

func (s *prover) checkpointRoutes(a route.API) {
	route.Add(a, route.Operation{ID: "get-checkpoint", Method: http.MethodGet, Path: "/v1/proof-packs/checkpoint", Tag: "Proof packs", Access: route.Scope(api.AuditRead),
		Summary:     "Get the newest signed checkpoint of the tenant's log",
		Description: "A C2SP signed note: a copy kept elsewhere shows later that the log was not rolled back (muniment verify --expect-checkpoint).", Errors: []int{http.StatusNotFound}}, s.getCheckpoint)
	route.Add(a, route.Operation{ID: "prove-consistency", Method: http.MethodGet, Path: "/v1/proof-packs/{packId}/consistency", Tag: "Proof packs", Access: route.Scope(api.AuditRead),
		Summary:     "Prove that the log of a pack extends that of an earlier one",
		Description: "RFC 6962 consistency proof between the checkpoints of both packs. The whole response is a file for muniment verify."}, s.proveConsistency)
}

type checkpointData struct {
	Checkpoint string `json:"checkpoint" doc:"C2SP signed note."`
}

func (s *prover) getCheckpoint(ctx context.Context, _ *struct{}) (checkpointData, error) {
	p, err := s.newest(ctx, auth.PrincipalFrom(ctx).TenantID)
	if err != nil {
		return checkpointData{}, err
	}
	note, err := p.checkpoint()
	return checkpointData{note}, err
}

type consistencyRequest struct {
	PackID string `path:"packId"`
	From   string `query:"from" required:"true" minLength:"1" doc:"Id of the earlier pack; may be the same."`
}

// The order of the members is that of the file that muniment verify reads.
type consistencyProof struct {
	Consistency []string `json:"consistency" doc:"RFC 6962 consistency proof, base64url."`
	From        string   `json:"from" doc:"Checkpoint of the earlier pack, a C2SP signed note."`
	To          string   `json:"to" doc:"Checkpoint of the later pack."`
}

func (s *prover) proveConsistency(ctx context.Context, in *consistencyRequest) (consistencyProof, error) {
	to, err := s.find(ctx, in.PackID)
	if err != nil {
		return consistencyProof{}, err
	}
	from, err := s.find(ctx, in.From)
	if err != nil {
		return consistencyProof{}, err
	}
	if from.Sequence > to.Sequence {
		return consistencyProof{}, api.InvalidField("from", fmt.Sprintf("pack %s is newer than %s", from.ID, to.ID))
	}
	detail := consistencyProof{Consistency: []string{}}
	hashes, err := s.consistency(ctx, from, to)
	if err == nil {
		detail.From, err = from.checkpoint()
	}
	if err == nil {
		detail.To, err = to.checkpoint()
	}
	if err != nil {
		return consistencyProof{}, err
	}
	for _, h := range hashes {
		detail.Consistency = append(detail.Consistency, h.String())
	}
	return detail, nil
}

// consistency proves that the tree of to extends that of from.
func (s *prover) consistency(ctx context.Context, from, to Pack) (hashes []merkle.Hash, err error) {
	var roots [2]merkle.Hash
	for i, p := range []Pack{from, to} {
		if roots[i], err = merkle.ParseHash(p.RootHash); err != nil {
			return nil, err
		}
	}
	err = s.prove(to.TenantID, func(n *nodes) error {
		if hashes, err = merkle.ProveConsistency(from.end(), to.end(), n.reader(ctx)); err != nil {
			return err
		}
		return merkle.VerifyConsistency(from.end(), to.end(), roots[0], roots[1], hashes)
	})
	return hashes, err
}
