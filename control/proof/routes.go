package proof

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/sealer"
)

// Routes adds the service's operations to the API.
func (s *Service) Routes(a route.API) {
	route.Add(a, route.Operation{ID: "seal-proof-packs", Method: http.MethodPost, Path: "/v1/proof-packs/seal", Tag: "Proof packs", Access: route.Scope(api.ProofWrite), Heavy: true,
		Summary: "Seal the events that were acknowledged before the call",
		Description: "Responds within some 30 s, after completing a pack, with every pack sealed since the call began, or with the last one if nothing is new. While more is true, call again with the response's upTo: " +
			"once it is false, every event that was acknowledged into the log before the first call is in a pack. Events are also sealed automatically when they are many or old. " +
			"After 503 WAREHOUSE_BEHIND (the warehouse lacks the new events) or LOG_UNAVAILABLE, retry; 503 QUARANTINED needs an operator."}, s.postSeal)
	route.Add(a, route.Operation{ID: "list-proof-packs", Method: http.MethodGet, Path: "/v1/proof-packs", Tag: "Proof packs", Access: route.Scope(api.AuditRead),
		Summary:     "List the proof packs, newest last",
		Description: "`from` and `to` bound the time of sealing, a little after what a pack holds. The packs of a statement are those up to its packId that were sealed later than an hour before `since` in its document."}, s.list)
	route.Add(a, route.Operation{ID: "get-proof-pack", Method: http.MethodGet, Path: "/v1/proof-packs/{packId}", Tag: "Proof packs", Access: route.Scope(api.AuditRead),
		Summary: "Get a pack's header and summary, and the keys it was made with",
		Description: "header.duplicates lists deliveries that are not billed, as {leaf, first}: the delivery at leaf repeats that at first, which is the lowest " +
			"leaf of the tenant's log with the same idempotency key, at most 24 h older, or younger. header.settlement is empty until the tenant has " +
			"settlement rules. Then it has one element: rules, the records as in their events; lines, the amount of each rule for the " +
			"receipts of one right and metering basis, with the amounts of its shares; and unrated, the metered receipts without a line."}, s.get)
	route.AddFile(a, route.Operation{ID: "download-proof-pack", Method: http.MethodGet, Path: "/v1/proof-packs/{packId}/bundle", Tag: "Proof packs", Access: route.Scope(api.AuditRead),
		Summary: "Download a pack as it was sealed", Heavy: true, Content: route.Content{Type: bundleType, Note: "The pack"},
		Description: "NDJSON of canonical lines: header, entries, signature, byte for byte as sealed. Clients that accept the content coding zstd get it compressed " +
			"to about a quarter; muniment verify accepts both forms. The download is recorded as an event of the log."}, s.download)
	s.checkpointRoutes(a)
}

// SealRequest continues a seal.
type SealRequest struct {
	UpTo string `json:"upTo,omitempty" minLength:"1" maxLength:"64" doc:"The upTo of the previous response; absent: the end of the log now."`
}

type sealInput struct{ Body *SealRequest } // may be absent

func (s *Service) postSeal(ctx context.Context, in *sealInput) (Sealed, error) {
	caller := auth.PrincipalFrom(ctx)
	var upTo *sealer.Position
	if in.Body != nil {
		partition, err := s.log.PartitionOf(ctx, caller.TenantID)
		if err == nil {
			upTo, err = route.GivenPosition("upTo", in.Body.UpTo, partition)
		}
		if err != nil {
			return Sealed{}, err
		}
	}
	return s.SealSome(ctx, caller.TenantID, upTo, store.ByKey(caller.ID))
}

// SchemaName returns the schema name in the OpenAPI document, where names have no package prefix.
func (Summary) SchemaName() string { return "ProofPack" }
func (Sealed) SchemaName() string  { return "SealedPacks" }
func (Pending) SchemaName() string { return "PendingEvents" }

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
	SHA256       string        `json:"sha256" doc:"SHA-256 of the bundle, base64url."`
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

// CursorBehind returns the cursor of the list of packs after a tenant's n-th one; empty for the whole
// list.
func CursorBehind(n int64) string {
	if n <= 0 {
		return ""
	}
	return *route.PageOf("/v1/proof-packs", "").Next(strconv.FormatInt(n, 10))
}

type proofPackList struct {
	Packs      []Summary `json:"packs"`
	NextCursor *string   `json:"nextCursor"`
}

type listInput struct {
	route.Window
	UpTo string `query:"upTo" maxLength:"64" doc:"Only this pack and those before it."`
	route.Page
}

func (s *Service) list(ctx context.Context, in *listInput) (proofPackList, error) {
	var after int64
	slice, err := in.Slice()
	if err == nil && slice.Behind != "" {
		if after, err = strconv.ParseInt(slice.Behind, 10, 64); err != nil {
			err = route.BadCursor()
		}
	}
	if err != nil {
		return proofPackList{}, err
	}
	tenantID, of := auth.PrincipalFrom(ctx).TenantID, selection{after: after}
	if of.from, of.to, err = in.Bounds(); err != nil {
		return proofPackList{}, err
	}
	if in.UpTo != "" {
		last, found, err := readPack(ctx, s.db.Read(), tenantID, in.UpTo)
		if err == nil && !found {
			err = api.InvalidField("upTo", "is the id of no proof pack of yours")
		}
		if err != nil {
			return proofPackList{}, err
		}
		of.upTo = last.Sequence
	}
	packs, err := listSummaries(ctx, s.db.Read(), tenantID, of, in.Limit+1)
	if err != nil {
		return proofPackList{}, err
	}
	page := proofPackList{Packs: []Summary{}}
	packs, next := store.Cut(packs, in.Limit, func(p Pack) string { return strconv.FormatInt(p.Sequence, 10) })
	page.NextCursor = in.Next(next)
	for i := range packs {
		page.Packs = append(page.Packs, packs[i].summary())
	}
	return page, nil
}

// packRequest names a pack.
type packRequest struct {
	PackID string `path:"packId"`
}

type proofPackData struct {
	Header  json.RawMessage `json:"header" doc:"The signed header, verbatim."`
	Summary Summary         `json:"summary"`
	Keys    json.RawMessage `json:"keys" doc:"The key directory at the time of sealing, from the header."`
}

func (s *Service) get(ctx context.Context, in *packRequest) (proofPackData, error) {
	p, err := s.find(ctx, in.PackID)
	if err != nil {
		return proofPackData{}, err
	}
	var header struct {
		Directory json.RawMessage `json:"directory"`
	}
	if err := json.Unmarshal(p.Header, &header); err != nil {
		return proofPackData{}, err
	}
	return proofPackData{Header: p.Header, Summary: p.summary(), Keys: header.Directory}, nil
}

// find returns the caller's pack with an id; RESOURCE_NOT_FOUND for another tenant's.
func (s *archive) find(ctx context.Context, packID string) (Pack, error) {
	p, found, err := readPack(ctx, s.db.Read(), auth.PrincipalFrom(ctx).TenantID, packID)
	if err == nil && !found {
		err = api.NotFound("proof pack")
	}
	return p, err
}

// bundleType is the media type of a pack's file.
const bundleType = "application/x-ndjson"

type downloadRequest struct {
	PackID         string `path:"packId"`
	AcceptEncoding string `header:"Accept-Encoding" maxLength:"1024" doc:"With zstd the file is sent compressed, as it is stored."`
}

func (s *Service) download(ctx context.Context, in *downloadRequest) (*route.File, error) {
	p, err := s.find(ctx, in.PackID)
	if err != nil {
		return nil, err
	}
	answer := &route.File{Name: p.ID + ".ndjson", Size: p.Bytes, Vary: "Accept-Encoding"}
	if accepts(in.AcceptEncoding, "zstd") {
		answer.Coding, answer.Size = "zstd", p.File.Bytes
	}
	answer.Open = func(ctx context.Context) (func(io.Writer), error) {
		file, err := s.folder.open(ctx, p)
		if err != nil {
			return nil, err
		}
		var lines io.Reader = file
		if answer.Coding == "" {
			lines, err = unpack(file)
		}
		if err == nil {
			err = s.db.Change(ctx, func(tx *store.Tx) error {
				return tx.EmitRecord(ctx, eventDownloaded, sealer.Event{
					TenantID: p.TenantID, Actor: store.ByKey(auth.PrincipalFrom(ctx).ID), Subject: sealer.Ref{Kind: "pack", ID: p.ID},
				}, map[string]any{})
			})
		}
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		return func(to io.Writer) {
			defer file.Close()
			if _, err := io.Copy(to, lines); err != nil { // usually the caller has disconnected
				s.cfg.Logger.Info("a download was not completed", "packId", p.ID, "err", err)
			}
		}, nil
	}
	return answer, nil
}

// accepts reports whether the header Accept-Encoding accepts a coding (RFC 9110, section 12.5.3).
func accepts(header, coding string) bool {
	for one := range strings.SplitSeq(header, ",") {
		name, weight, _ := strings.Cut(one, ";")
		if !strings.EqualFold(strings.TrimSpace(name), coding) {
			continue
		}
		q, weighted := strings.CutPrefix(strings.ToLower(strings.TrimSpace(weight)), "q=")
		n, err := strconv.ParseFloat(q, 64)
		return !weighted || err == nil && n > 0
	}
	return false
}
