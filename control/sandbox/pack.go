package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"muniment.example/control/proof"
	"muniment.example/gateway/api"
	"muniment.example/sealer/pack"
)

// Packs are a tenant's proof packs.
type Packs struct {
	Packs []proof.Summary `json:"packs" doc:"The newest 500 at most, newest last. The tenant's counts.proofPacks is how many there are; inspect has the headers of all."`
}

func (s *Service) getPacks(ctx context.Context, _ *struct{}) (Packs, error) {
	n, err := s.cfg.CountPacks(ctx, visitorOf(ctx).caller.TenantID)
	if err != nil {
		return Packs{}, err
	}
	packs, err := s.packs(ctx, n)
	return Packs{packs}, err
}

// packs lists the newest of a tenant's first n packs. /v1 lists packs from the oldest on.
func (s *Service) packs(ctx context.Context, n int64) ([]proof.Summary, error) {
	query := url.Values{}
	if cursor := proof.CursorBehind(n - mostListed); cursor != "" {
		query.Set("cursor", cursor)
	}
	packs, _, err := all[proof.Summary](ctx, s.core, "proof-packs", "packs", query)
	return packs[:min(int64(len(packs)), n)], err
}

// mostPack is the largest pack, in bytes, that is sent whole: sending it takes several times its
// size in memory, and visitors decide how much is sealed into it. A run of the demo with the most
// deliveries makes a pack of a few hundred thousand bytes.
const mostPack = 8 << 20

// tooLong refuses to send a pack that is too long, and says where to get it.
func tooLong(p *proof.Summary) *Error {
	return v1Error{Code: api.BadRequest, Message: fmt.Sprintf("the pack has %d bytes, and the sandbox sends packs of at most %d: "+
		"its header is under /api/sandbox/inspect, and the operator of the service has the whole pack as a file, with the SHA-256 %s",
		p.Bytes, int64(mostPack), p.SHA256)}.render(http.StatusBadRequest, 0)
}

// FullPack is a pack and the key that signed it.
type FullPack struct {
	Pack            json.RawMessage  `json:"pack" doc:"One JSON object, whose bytes must not change: muniment verify accepts it as a file, and the whole response, too. Its entries are strings, each with the text of an event, verbatim."`
	VerificationKey *VerificationKey `json:"verificationKey" doc:"The key that signed the pack; the keys of its receipts are in the header's directory."`
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
	status, response, err := s.cfg.Call(ctx, visitorOf(ctx).caller, http.MethodGet, at+"/bundle", nil)
	if err != nil {
		return FullPack{}, err
	}
	if status != http.StatusOK {
		_, err := readResponse(status, response)
		return FullPack{}, err
	}
	reader, err := pack.Read(bytes.NewReader(response))
	if err != nil {
		return FullPack{}, err
	}
	entries := make([][]byte, 0, reader.Header().Count)
	for {
		event, err := reader.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return FullPack{}, err
		}
		entries = append(entries, event)
	}
	full := FullPack{Pack: pack.AppendObject(nil, &pack.Pack{
		Header: *reader.Header(), HeaderText: reader.HeaderText(), Signature: reader.Signature(),
	}, entries)}
	keys, _, err := s.cfg.Keys.SandboxKeys(ctx)
	for _, k := range keys {
		if k.KeyID == reader.Header().SigningKeyID {
			key := verificationKey(k)
			full.VerificationKey = &key
		}
	}
	return full, err
}
