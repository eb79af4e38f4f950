package proof

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"muniment/control/route"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/gateway/auth"
	"muniment/sealer"
)

// Routes adds the room's operations to the API: proof packs, what they prove, and
// the list of events.
func (r *Room) Routes(a route.API) {
	route.Key(a, api.ProofWrite, "Proof packs", "seal-proof-packs", http.MethodPost, "/v1/proof-packs/seal", "Seal what was acknowledged before the call", r.postSeal,
		route.Described("Answers with every pack sealed since the call began, or with the last one when nothing is new. "+
			"503 WAREHOUSE_BEHIND and LOG_UNAVAILABLE may be tried again, 503 SET_ASIDE needs an operator."))
	route.Key(a, api.AuditRead, "Proof packs", "list-proof-packs", http.MethodGet, "/v1/proof-packs", "List the proof packs, newest last", r.list)
	route.Key(a, api.AuditRead, "Proof packs", "get-proof-pack", http.MethodGet, "/v1/proof-packs/{packId}", "Get a pack's header and summary, and the keys it was made with", r.get,
		route.Described("header.duplicates lists what is not billed, as {leaf, first}: the delivery at leaf repeats that at first, the lowest "+
			"leaf of the tenant's log with the same idempotency key, at most 24 h older, or younger. header.settlement is empty until the tenant has "+
			"settlement rules. Then it has one element: rules, the records as their events have them; lines, what each rule makes of the "+
			"receipts of one right and metering basis, with the amounts of its shares; and unrated, the metered receipts without a line."))
	route.Key(a, api.AuditRead, "Proof packs", "download-proof-pack", http.MethodGet, "/v1/proof-packs/{packId}/bundle", "Download a pack as it was sealed", r.download,
		answersFile("The pack"), route.Described("NDJSON of canonical lines: header, entries, signature. Byte for byte what was sealed."))
	r.checkpointRoutes(a)
	r.receiptRoutes(a)
	r.eventRoutes(a)
	r.exportRoutes(a)
}

// answersFile has the operation answer with canonical lines, of any length.
func answersFile(what string) route.Also {
	return func(op *huma.Operation) {
		op.Metadata["heavy"] = true
		op.Responses = map[string]*huma.Response{"200": {Description: what, Content: map[string]*huma.MediaType{bundleType: {}}}}
	}
}

func (r *Room) postSeal(ctx context.Context, _ *struct{}) (*store.Answer[Sealed], error) {
	caller := auth.PrincipalFrom(ctx)
	return store.Tell(r.Seal(ctx, caller.TenantID, sealer.Ref{Kind: "key", ID: caller.ID}))
}

// Summary is a pack in a list.
type Summary struct {
	ID           string        `json:"id"`
	FirstIndex   uint64        `json:"firstIndex" doc:"Leaf index of the first entry."`
	Count        int           `json:"count" doc:"Entries of this pack."`
	TreeSize     uint64        `json:"treeSize" doc:"Leaves of the tenant's log with this pack."`
	RootHash     string        `json:"rootHash"`
	Duplicates   int64         `json:"duplicates" doc:"Deliveries of this pack that repeat an earlier one and are not billed; the header lists them as {leaf, first}."`
	Rated        int64         `json:"rated" doc:"Receipts of this pack that a settlement rule rates; the header has the amounts."`
	Unrated      int64         `json:"unrated" doc:"Metered receipts of this pack that no settlement rule rates; 0 while the tenant has no rules."`
	SigningKeyID string        `json:"signingKeyId"`
	Bytes        int64         `json:"bytes" doc:"Size of the bundle."`
	SHA256       string        `json:"sha256" doc:"Of the bundle, base64url."`
	SealedAt     store.Instant `json:"sealedAt"`
	CreatedAt    store.Instant `json:"createdAt"`
	UpdatedAt    store.Instant `json:"updatedAt"`
	Revision     int64         `json:"revision"`
}

func (p *Pack) summary() Summary {
	n := p.counts
	return Summary{
		ID: p.ID, FirstIndex: p.FirstIndex, Count: p.Count, TreeSize: p.FirstIndex + uint64(p.Count), RootHash: p.RootHash,
		Duplicates: n.duplicates, Rated: n.rated, Unrated: n.unrated, SigningKeyID: p.SigningKeyID, Bytes: p.Bytes, SHA256: p.SHA256,
		SealedAt: p.SealedAt, CreatedAt: p.SealedAt, UpdatedAt: p.SealedAt, Revision: p.Revision,
	}
}

// CursorBehind is the cursor of the list of packs behind a tenant's n-th one; empty for
// all of them.
func CursorBehind(n int64) string {
	if n <= 0 {
		return ""
	}
	return *route.Cursor(strconv.FormatInt(n, 10))
}

type packPage struct {
	Packs      []Summary `json:"packs"`
	NextCursor *string   `json:"nextCursor"`
}

func (r *Room) list(ctx context.Context, in *struct{ route.Page }) (*store.Answer[packPage], error) {
	var after int64
	slice, err := in.Slice()
	if err == nil && slice.Behind != "" {
		if after, err = strconv.ParseInt(slice.Behind, 10, 64); err != nil {
			err = route.BadCursor()
		}
	}
	if err != nil {
		return nil, err
	}
	packs, err := listSummaries(ctx, r.db.Read(), auth.PrincipalFrom(ctx).TenantID, after, in.Limit+1)
	if err != nil {
		return nil, err
	}
	page := packPage{Packs: []Summary{}}
	packs, next := store.Cut(packs, in.Limit, func(p Pack) string { return strconv.FormatInt(p.Sequence, 10) })
	page.NextCursor = route.Cursor(next)
	for i := range packs {
		page.Packs = append(page.Packs, packs[i].summary())
	}
	return store.Tell(page, nil)
}

// packRequest names a pack.
type packRequest struct {
	PackID string `path:"packId"`
}

type packDetail struct {
	Header  json.RawMessage `json:"header" doc:"What is signed, verbatim."`
	Summary Summary         `json:"summary"`
	Keys    json.RawMessage `json:"keys" doc:"The key directory at the time of sealing, as its header has it."`
}

func (r *Room) get(ctx context.Context, in *packRequest) (*store.Answer[packDetail], error) {
	p, err := r.find(ctx, in.PackID)
	if err != nil {
		return nil, err
	}
	var header struct {
		Directory json.RawMessage `json:"directory"`
	}
	if err := json.Unmarshal(p.Header, &header); err != nil {
		return nil, err
	}
	return store.Tell(packDetail{Header: p.Header, Summary: p.summary(), Keys: header.Directory}, nil)
}

// find is the caller's pack of that id. A foreign one is not there.
func (r *Room) find(ctx context.Context, packID string) (Pack, error) {
	p, found, err := readPack(ctx, r.db.Read(), auth.PrincipalFrom(ctx).TenantID, packID)
	if err == nil && !found {
		err = api.NotFound("proof pack")
	}
	return p, err
}

// bundleType is the media type of a pack's file.
const bundleType = "application/x-ndjson"

func (r *Room) download(ctx context.Context, in *packRequest) (*huma.StreamResponse, error) {
	p, err := r.find(ctx, in.PackID)
	if err != nil {
		return nil, err
	}
	file, err := r.folder.open(p)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer file.Close()
		hc.SetHeader("Content-Type", bundleType)
		hc.SetHeader("Content-Length", strconv.FormatInt(p.Bytes, 10))
		hc.SetHeader("Content-Disposition", `attachment; filename="`+p.ID+packSuffix+`"`)
		if _, err := io.Copy(hc.BodyWriter(), file); err != nil {
			// A caller who leaves is the usual reason. An answer that is short of its
			// length can't be taken for a pack.
			r.cfg.Logger.Info("a download broke off", "packId", p.ID, "err", err)
		}
	}}, nil
}
