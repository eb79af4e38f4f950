package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"muniment/control/proof"
	"muniment/sealer"
)

// Packs are a tenant's proof packs.
type Packs struct {
	Packs []proof.Summary `json:"packs" doc:"Newest last; the newest 500 at most."`
}

func (r *Room) getPacks(ctx context.Context, _ *struct{}) (*Answer[Packs], error) {
	packs, err := r.packs(ctx)
	return tell(Packs{packs}, err)
}

// packs lists the newest packs. /v1 lists them from the oldest one on.
func (r *Room) packs(ctx context.Context) ([]proof.Summary, error) {
	of := visitorOf(ctx).caller
	n, err := r.cfg.CountPacks(ctx, of.TenantID)
	if err != nil {
		return nil, err
	}
	query := url.Values{}
	if cursor := proof.CursorBehind(n - mostListed); cursor != "" {
		query.Set("cursor", cursor)
	}
	return all[proof.Summary](ctx, r, of, "proof-packs", "packs", query)
}

// FullPack is a pack and the key that signed it.
type FullPack struct {
	Pack            json.RawMessage  `json:"pack" doc:"One JSON object, of which every byte counts: muniment verify takes it as a file, and the whole answer as well. Its entries are texts: each is an event, verbatim."`
	VerificationKey *VerificationKey `json:"verificationKey" doc:"The key that signed the pack; those of its receipts are in the header's directory."`
}

func (r *Room) getPack(ctx context.Context, in *struct {
	PackID string `path:"packId"`
}) (*Answer[FullPack], error) {
	status, answer, err := r.cfg.Ask(ctx, visitorOf(ctx).caller, http.MethodGet, "/v1/proof-packs/"+url.PathEscape(in.PackID)+"/bundle", nil)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		_, err := heard(status, answer)
		return nil, err
	}
	pack, err := sealer.ReadPack(bytes.NewReader(answer))
	if err != nil {
		return nil, err
	}
	entries := make([][]byte, 0, pack.Header().Count)
	for {
		event, err := pack.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, event)
	}
	full := FullPack{Pack: sealer.AppendPackObject(nil, &sealer.SealedPack{
		Header: *pack.Header(), HeaderText: pack.HeaderText(), Signature: pack.Signature(),
	}, entries)}
	keys, _, err := r.cfg.Keys.SandboxKeys(ctx)
	for _, k := range keys {
		if k.KeyID == pack.Header().SigningKeyID {
			key := told(k)
			full.VerificationKey = &key
		}
	}
	return tell(full, err)
}
