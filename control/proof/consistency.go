package proof

import (
	"context"
	"fmt"
	"net/http"

	"muniment/control/route"
	"muniment/gateway/api"
	"muniment/gateway/auth"
	"muniment/sealer"
)

func (s *prover) checkpointRoutes(a route.API) {
	route.Add(a, route.Operation{ID: "get-checkpoint", Method: http.MethodGet, Path: "/v1/proof-packs/checkpoint", Tag: "Proof packs", Access: route.Scope(api.AuditRead),
		Summary:     "Get the newest signed checkpoint of the tenant's log",
		Description: "A C2SP signed note: a copy kept elsewhere shows later that the log was not rolled back (muniment verify --expect-checkpoint).", Errors: []int{http.StatusNotFound}}, s.getCheckpoint)
	route.Add(a, route.Operation{ID: "prove-consistency", Method: http.MethodGet, Path: "/v1/proof-packs/{packId}/consistency", Tag: "Proof packs", Access: route.Scope(api.AuditRead),
		Summary:     "Prove that the log of a pack extends that of an earlier one",
		Description: "RFC 6962 consistency proof between the checkpoints of both packs. The whole answer is a file for muniment verify."}, s.proveConsistency)
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
	From   string `query:"from" required:"true" doc:"Id of the earlier pack; may be the same."`
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
func (s *prover) consistency(ctx context.Context, from, to Pack) (hashes []sealer.Hash, err error) {
	var roots [2]sealer.Hash
	for i, p := range []Pack{from, to} {
		if roots[i], err = sealer.ParseHash(p.RootHash); err != nil {
			return nil, err
		}
	}
	err = s.prove(to.TenantID, func(n *nodes) error {
		if hashes, err = sealer.ProveConsistency(from.end(), to.end(), n.reader(ctx)); err != nil {
			return err
		}
		return sealer.VerifyConsistency(from.end(), to.end(), roots[0], roots[1], hashes)
	})
	return hashes, err
}
