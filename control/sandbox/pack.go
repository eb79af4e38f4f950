package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"muniment/control/proof"
	"muniment/gateway/api"
	"muniment/sealer"
)

// Packs are a tenant's proof packs.
type Packs struct {
	Packs []proof.Summary `json:"packs" doc:"Newest last; the newest 500 at most. The tenant's counts.proofPacks is how many there are; inspect has the headers of all."`
}

func (s *Service) getPacks(ctx context.Context, _ *struct{}) (Packs, error) {
	n, err := s.cfg.CountPacks(ctx, visitorOf(ctx).caller.TenantID)
	if err != nil {
		return Packs{}, err
	}
	packs, err := s.packs(ctx, n)
	return Packs{packs}, err
}

// packs lists the newest of a tenant's first n packs. /v1 lists them from the oldest one on.
func (s *Service) packs(ctx context.Context, n int64) ([]proof.Summary, error) {
	query := url.Values{}
	if cursor := proof.CursorBehind(n - mostListed); cursor != "" {
		query.Set("cursor", cursor)
	}
	packs, _, err := all[proof.Summary](ctx, s.core, "proof-packs", "packs", query)
	return packs[:min(int64(len(packs)), n)], err
}

// mostPack is how many bytes a pack has at most that is answered whole: it is in memory
// several times over then, and strangers decide how much is sealed into it. A run of the
// demo with the most deliveries makes a pack of a few hundred thousand bytes.
const mostPack = 8 << 20

// tooLong refuses a pack that is too long to be answered whole, and says where it is.
func tooLong(p *proof.Summary) *Error {
	return said{Code: api.BadRequest, Message: fmt.Sprintf("the pack has %d bytes, and the sandbox hands out %d at most: "+
		"its header is under /api/sandbox/inspect, and the operator of the service has the whole pack as a file, with the SHA-256 %s",
		p.Bytes, int64(mostPack), p.SHA256)}.refused(http.StatusBadRequest, 0)
}

// FullPack is a pack and the key that signed it.
type FullPack struct {
	Pack            json.RawMessage  `json:"pack" doc:"One JSON object, of which every byte counts: muniment verify takes it as a file, and the whole answer as well. Its entries are texts: each is an event, verbatim."`
	VerificationKey *VerificationKey `json:"verificationKey" doc:"The key that signed the pack; those of its receipts are in the header's directory."`
}

func (s *Service) getPack(ctx context.Context, in *struct {
	PackID string `path:"packId"`
}) (FullPack, error) {
	at := "/v1/proof-packs/" + url.PathEscape(in.PackID)
	known, err := read[struct{ Summary proof.Summary }](ctx, s.core, at)
	if err != nil {
		return FullPack{}, err
	}
	if known.Summary.Bytes > mostPack {
		return FullPack{}, tooLong(&known.Summary)
	}
	status, answer, err := s.cfg.Ask(ctx, visitorOf(ctx).caller, http.MethodGet, at+"/bundle", nil)
	if err != nil {
		return FullPack{}, err
	}
	if status != http.StatusOK {
		_, err := readAnswer(status, answer)
		return FullPack{}, err
	}
	pack, err := sealer.ReadPack(bytes.NewReader(answer))
	if err != nil {
		return FullPack{}, err
	}
	entries := make([][]byte, 0, pack.Header().Count)
	for {
		event, err := pack.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return FullPack{}, err
		}
		entries = append(entries, event)
	}
	full := FullPack{Pack: sealer.AppendPackObject(nil, &sealer.SealedPack{
		Header: *pack.Header(), HeaderText: pack.HeaderText(), Signature: pack.Signature(),
	}, entries)}
	keys, _, err := s.cfg.Keys.SandboxKeys(ctx)
	for _, k := range keys {
		if k.KeyID == pack.Header().SigningKeyID {
			key := verificationKey(k)
			full.VerificationKey = &key
		}
	}
	return full, err
}
