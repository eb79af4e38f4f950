package client

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/url"
	"time"

	"muniment.example/gateway/api"
	"muniment.example/sealer/canonical"
)

// Receipts are what deliveries were answered with.
type Receipts struct{ c *Client }

// Receipts are what deliveries were answered with.
func (c *Client) Receipts() Receipts { return Receipts{c} }

// ReceiptFilter selects receipts; its zero value is all. Times are those of renderedAt.
type ReceiptFilter struct {
	CorrelationID   string    `json:"correlationId"`
	SpatialAnchorID string    `json:"spatialAnchorId"`
	RightID         string    `json:"rightId"`
	From            time.Time `json:"from"`
	To              time.Time `json:"to"` // exclusive
	// ReceiptIDEnd selects receipts by the last 6 to 26 characters of their ids, between From and To, at most 7 days apart.
	ReceiptIDEnd string `json:"receiptIdEnd"`
	// AsOf is a position that an earlier answer named: nothing from there on counts.
	AsOf string `json:"asOf"`
	// BOM begins a csv file with a byte order mark, for spreadsheets. Only of File.
	BOM bool `json:"bom"`
	// Limit is how many a page has; 0 is the service's default.
	Limit int `json:"limit"`
}

// List iterates over the receipts, newest first. The service finds a receipt shortly after it
// was issued, and not at once.
func (r Receipts) List(ctx context.Context, f ReceiptFilter) iter.Seq2[FoundReceipt, error] {
	f.BOM = false
	return list[FoundReceipt](ctx, r.c, "/v1/receipts", "receipts", values(f))
}

// File returns a file of all receipts that the filter selects, without its Limit, as "csv", "ndjson" or
// "parquet": a row each, with the columns that analysts read. Read it to its end, and close it; it is whole
// only if its end comes without an error.
func (r Receipts) File(ctx context.Context, f ReceiptFilter, format string) (io.ReadCloser, error) {
	f.Limit = 0
	query := values(f)
	query.Set("format", format)
	return r.c.stream(ctx, "/v1/receipts", query)
}

// Get returns a receipt.
func (r Receipts) Get(ctx context.Context, receiptID string) (*LoggedReceipt, error) {
	return get[LoggedReceipt](ctx, r.c, at("/v1/receipts", receiptID), nil)
}

// Checkpoint that a proof leads to.
const (
	// OfPack is that of the pack which holds the receipt, the oldest; the default.
	OfPack = "pack"
	// Latest is that of the tenant's newest pack.
	Latest = "latest"
)

// Proof returns the proof that a receipt is in the tenant's log, under the checkpoint OfPack or
// Latest. A receipt that is not sealed yet is ErrConflict.
func (r Receipts) Proof(ctx context.Context, receiptID, checkpoint string) (*InclusionProof, error) {
	query := url.Values{}
	if checkpoint != "" {
		query.Set("checkpoint", checkpoint)
	}
	return get[InclusionProof](ctx, r.c, at("/v1/receipts", receiptID, "proof"), query)
}

// File is the proof as a file for muniment verify.
func (p *InclusionProof) File() []byte {
	text := append([]byte(`{"event":`), p.Event...)
	return append(canonical.AppendString(append(text, `,"proof":`...), p.Proof), '}')
}

// Events are all that has happened to a tenant.
type Events struct{ c *Client }

// Events are all that has happened to a tenant.
func (c *Client) Events() Events { return Events{c} }

// EventFilter selects events; its zero value is all, newest first.
type EventFilter struct {
	Types       []string  `json:"type"`
	SubjectKind string    `json:"subjectKind"`
	SubjectID   string    `json:"subjectId"`
	ActorKind   string    `json:"actorKind"`
	ActorID     string    `json:"actorId"`
	RightID     string    `json:"rightId"`
	From        time.Time `json:"from"`
	To          time.Time `json:"to"` // exclusive
	// After and Before are positions; both are exclusive. A listing is continued later from the
	// position of its last event.
	After  string `json:"after"`
	Before string `json:"before"`
	// Order is desc or asc.
	Order string `json:"order"`
	// AsOf is a position that an earlier answer named: nothing from there on counts.
	AsOf string `json:"asOf"`
	// Limit is how many a page has; 0 is the service's default.
	Limit int `json:"limit"`
}

// List iterates over the events.
func (e Events) List(ctx context.Context, f EventFilter) iter.Seq2[LoggedEvent, error] {
	return list[LoggedEvent](ctx, e.c, "/v1/events", "events", values(f))
}

// ExportRange is what an export holds; its zero value is all that is sealed.
type ExportRange struct {
	// After is the position behind which it begins; empty is from the first event on.
	After string `json:"after"`
	// UpTo is the position of the last event; empty is the newest sealed one.
	UpTo string `json:"upTo"`
}

// Export streams the sealed events as a file for muniment verify. The caller closes it. Unless it
// ends with io.EOF it is not whole.
func (e Events) Export(ctx context.Context, r ExportRange) (io.ReadCloser, error) {
	return e.c.stream(ctx, "/v1/events/export", values(r))
}

// ProofPacks are signed files of events.
type ProofPacks struct{ c *Client }

// ProofPacks are signed files of events.
func (c *Client) ProofPacks() ProofPacks { return ProofPacks{c} }

// Seal seals every event that was acknowledged before the call, in as many steps as it takes, and
// returns the headers of all packs, oldest first. Where nothing was new that is the last pack.
// What is still Pending, in the last step, is in no pack. An error leaves the packs that were sealed.
func (p ProofPacks) Seal(ctx context.Context) (*SealedPacks, error) {
	all := new(SealedPacks)
	for {
		step, err := p.SealStep(ctx, all.UpTo)
		if err != nil {
			return all, err
		}
		step.Packs = append(all.Packs, step.Packs...)
		if all = step; !all.More {
			return all, nil
		}
	}
}

// SealStep is one step of Seal: upTo is that of the step before, empty for the first.
func (p ProofPacks) SealStep(ctx context.Context, upTo string) (*SealedPacks, error) {
	return post[SealedPacks](ctx, p.c, "/v1/proof-packs/seal", struct {
		UpTo string `json:"upTo,omitempty"`
	}{upTo})
}

// PackFilter selects packs; its zero value is all.
type PackFilter struct {
	// From and To bound the time of sealing; To is exclusive.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// UpTo selects this pack and those before it.
	UpTo string `json:"upTo"`
	// Limit is how many a page has; 0 is the service's default.
	Limit int `json:"limit"`
}

// List iterates over the packs, newest last.
func (p ProofPacks) List(ctx context.Context, f PackFilter) iter.Seq2[ProofPack, error] {
	return list[ProofPack](ctx, p.c, "/v1/proof-packs", "packs", values(f))
}

// Get returns a pack without its entries.
func (p ProofPacks) Get(ctx context.Context, packID string) (*ProofPackData, error) {
	return get[ProofPackData](ctx, p.c, at("/v1/proof-packs", packID), nil)
}

// Bundle streams a pack, byte for byte as it was sealed. The caller closes it. Unless it ends with
// io.EOF it is not whole.
func (p ProofPacks) Bundle(ctx context.Context, packID string) (io.ReadCloser, error) {
	return p.c.stream(ctx, at("/v1/proof-packs", packID, "bundle"), nil)
}

// Checkpoint returns the newest checkpoint of the tenant's log, a C2SP signed note.
func (p ProofPacks) Checkpoint(ctx context.Context) (string, error) {
	text, err := record[string](ctx, p.c, "GET", "/v1/proof-packs/checkpoint", "checkpoint", nil)
	if err != nil {
		return "", err
	}
	return *text, nil
}

// Consistency proves that the log of a pack only added to that of an earlier one.
func (p ProofPacks) Consistency(ctx context.Context, packID, fromPackID string) (*ConsistencyProof, error) {
	return get[ConsistencyProof](ctx, p.c, at("/v1/proof-packs", packID, "consistency"), url.Values{"from": {fromPackID}})
}

// PackHeader is what is signed of a pack.
type PackHeader struct {
	PackID       string    `json:"packId"`
	TenantID     string    `json:"tenantId"`
	Count        int64     `json:"count"`
	FirstIndex   int64     `json:"firstIndex"`
	TreeSize     int64     `json:"treeSize"`
	RootHash     string    `json:"rootHash"`
	SealedAt     time.Time `json:"sealedAt"`
	SigningKeyID string    `json:"signingKeyId"`
	Checkpoint   string    `json:"checkpoint"`
	// Text is the whole header as it came.
	Text json.RawMessage `json:"-"`
}

// UnmarshalJSON reads the fields above, and keeps the text.
func (h *PackHeader) UnmarshalJSON(text []byte) error {
	type fields PackHeader
	if err := json.Unmarshal(text, (*fields)(h)); err != nil {
		return err
	}
	h.Text = append(json.RawMessage(nil), text...)
	return nil
}

// MarshalJSON is the text as it came.
func (h PackHeader) MarshalJSON() ([]byte, error) { return h.Text.MarshalJSON() }

// LoggedEvent is an event of the log.
type LoggedEvent struct {
	// Verbatim: its canonical bytes are the leaf of the tenant's Merkle log.
	Event json.RawMessage `json:"event"`
	// Opaque; may be handed back where a position is asked for.
	Position string `json:"position"`
}

// FoundReceipt is a receipt with its event.
type FoundReceipt struct {
	// Verbatim: its canonical bytes are the leaf of the tenant's Merkle log.
	Event json.RawMessage `json:"event"`
	// Of the event, opaque.
	Position string `json:"position"`
	// What is signed, verbatim.
	Receipt   api.Receipt   `json:"receipt"`
	Signature api.Signature `json:"signature"`
}

// LoggedReceipt is a receipt with its event, and where that is sealed.
type LoggedReceipt struct {
	// Verbatim: its canonical bytes are the leaf of the tenant's Merkle log.
	Event json.RawMessage `json:"event"`
	// Of the event, opaque.
	Position string `json:"position"`
	// What is signed, verbatim.
	Receipt api.Receipt `json:"receipt"`
	// Null until a proof pack holds the event.
	Sealed    *SealedLeaf   `json:"sealed"`
	Signature api.Signature `json:"signature"`
}

// SealedLeaf is where an event is sealed.
type SealedLeaf struct {
	// Of the tenant's Merkle log, from 0.
	LeafIndex int64 `json:"leafIndex"`
	// The proof pack's id.
	PackID string `json:"packId"`
}

// InclusionProof is an event, and the proof that it is in the tenant's log.
type InclusionProof struct {
	// Verbatim: it is the leaf.
	Event json.RawMessage `json:"event"`
	// C2SP tlog-proof.
	Proof string `json:"proof"`
}

// ProofPack is the summary of a pack.
type ProofPack struct {
	Record
	// Size of the bundle.
	Bytes int64 `json:"bytes"`
	// Entries of this pack.
	Count int64 `json:"count"`
	// Deliveries of this pack that repeat an earlier one and are not billed; the header lists them as
	// {leaf, first}.
	Duplicates int64 `json:"duplicates"`
	// Leaf index of the first entry.
	FirstIndex int64 `json:"firstIndex"`
	// Receipts of this pack that a settlement rule rates; the header has the amounts.
	Rated int64 `json:"rated"`
	// Root of the tenant's Merkle log with this pack, base64url.
	RootHash string `json:"rootHash"`
	// When it was sealed.
	SealedAt time.Time `json:"sealedAt"`
	// Of the bundle, base64url.
	SHA256 string `json:"sha256"`
	// The key that signed it, by its id in the directory.
	SigningKeyID string `json:"signingKeyId"`
	// Leaves of the tenant's log with this pack.
	TreeSize int64 `json:"treeSize"`
	// Metered receipts of this pack that no settlement rule rates; 0 while the tenant has no rules.
	Unrated int64 `json:"unrated"`
}

// ProofPackData is a pack without its entries.
type ProofPackData struct {
	// What is signed, verbatim.
	Header PackHeader `json:"header"`
	// The key directory at the time of sealing, as its header has it.
	Keys    json.RawMessage `json:"keys"`
	Summary ProofPack       `json:"summary"`
}

// SealedPacks is what one step of sealing has done.
type SealedPacks struct {
	// Something before upTo is in no pack yet: call again with this upTo.
	More bool `json:"more"`
	// The newest of them; null while the tenant has none.
	Pack *PackHeader `json:"pack"`
	// Headers of the packs sealed since the call began, oldest first, or of the last pack alone when
	// nothing was new.
	Packs []PackHeader `json:"packs"`
	// Acknowledged events that are in no pack yet.
	Pending []PendingEvents `json:"pending"`
	// Every event that was acknowledged into the log before the first call is before this position.
	// Packs may go beyond it.
	UpTo string `json:"upTo"`
}

// PendingEvents are events that are in no pack yet.
type PendingEvents struct {
	// How many there are.
	Count int64 `json:"count"`
	// The node in whose spool alone they are: only a later call can seal them.
	NodeID string `json:"nodeId,omitempty"`
	// Instead of a node: what has not reached the warehouse yet. Counted are the records of the log
	// before upTo, of whatever tenant. One of warehouse.
	Source string `json:"source,omitempty"`
}

// ConsistencyProof proves that the log of one pack only added to that of another.
type ConsistencyProof struct {
	// RFC 6962 consistency proof, base64url.
	Consistency []string `json:"consistency"`
	// Checkpoint of the earlier pack, a C2SP signed note.
	From string `json:"from"`
	// Checkpoint of the later pack.
	To string `json:"to"`
}
