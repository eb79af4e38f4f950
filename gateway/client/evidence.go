package client

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/url"
	"time"

	"muniment.example/sealer/canonical"
)

// Receipts are what deliveries were answered with.
type Receipts struct{ c *Client }

// Receipts are what deliveries were answered with.
func (c *Client) Receipts() Receipts { return Receipts{c} }

// List iterates over the receipts, newest first, by renderedAt. The service finds a receipt shortly after it
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

// List iterates over the events.
func (e Events) List(ctx context.Context, f EventFilter) iter.Seq2[LoggedEvent, error] {
	return list[LoggedEvent](ctx, e.c, "/v1/events", "events", values(f))
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
