package client

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"muniment.example/gateway/api"
)

// Delivery is one play of content under a right. RightID and SpatialAnchorID are required; an
// empty text is absent.
type Delivery struct {
	RightID            string
	SpatialAnchorID    string
	SpatialPlacementID string
	// DwellMs is how long it was shown, in milliseconds; it may have a fraction.
	DwellMs float64
	// CorrelationID is the caller's own tracing id.
	CorrelationID string
	// DataSubjectID is whom it was shown to, for export and erasure.
	DataSubjectID string
	// DataSubjectIDs are more persons, at most 8.
	DataSubjectIDs []string
	// Telemetry is a Telemetry, or another value that is an object in JSON; nil is none. In a Telemetry an
	// empty text and nil are absent; new(false) and new(12.5) make what its fields point to.
	Telemetry any
	// IdempotencyKey names the play: 1 to 255 visible ASCII characters, unique in the tenant. Two
	// deliveries with one key and the same content count once: in Deliver within 24 hours, in a
	// Buffer for good. Empty is a random one.
	IdempotencyKey string
	// PlayedAt is when it was shown. Only a Buffer takes it: Deliver is as of now.
	PlayedAt time.Time
}

// Delivered is the answer to a delivery: its receipt is durable.
type Delivered struct {
	api.Delivered
	// IdempotencyKey is the one that was sent.
	IdempotencyKey string
	// Replayed says that this is the answer to an earlier call with the key.
	Replayed bool
}

// Deliver observes a delivery as of now, and returns its receipt, which is durable then.
//
// A delivery that the constraint gate refuses is ErrPrecondition with the Violations, one on a right
// that is not ACTIVE is ErrConflict. After ErrUnavailable and ErrForeign, and where ctx has ended, it may have been
// recorded all the same: calling again with the IdempotencyKey of the error, or with the
// caller's own, does not record it twice.
func (c *Client) Deliver(ctx context.Context, d Delivery) (*Delivered, error) {
	if !d.PlayedAt.IsZero() {
		return nil, errors.New("a delivery with PlayedAt is for a Buffer or, as a Row, for DeliverBatch: Deliver is as of now")
	}
	if math.IsNaN(d.DwellMs) || math.IsInf(d.DwellMs, 0) {
		return nil, errNotFinite
	}
	telemetry, err := d.telemetry()
	if err != nil {
		return nil, err
	}
	if d.IdempotencyKey != "" {
		c = c.WithIdempotencyKey(d.IdempotencyKey)
	}
	r, err := c.newRequest(http.MethodPost, "/v1/delivery", nil, api.Observation{
		RightID: d.RightID, SpatialAnchorID: d.SpatialAnchorID, DwellMs: d.DwellMs, SpatialPlacementID: given(d.SpatialPlacementID),
		CorrelationID: given(d.CorrelationID), DataSubjectID: given(d.DataSubjectID), DataSubjectIDs: d.DataSubjectIDs, Telemetry: telemetry,
	})
	if err != nil {
		return nil, err
	}
	data, err := c.call(ctx, r)
	if err != nil {
		return nil, err
	}
	got, err := decode[api.Delivered](r, data)
	if err != nil {
		return nil, r.named(err)
	}
	return &Delivered{*got, r.header.Get(api.HeaderIdempotencyKey), r.answer.Get(api.HeaderReplayed) == "true"}, nil
}

var errNotFinite = errors.New("DwellMs is not a finite number")

func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// telemetry is the JSON of the delivery's telemetry, on one line.
func (d *Delivery) telemetry() (json.RawMessage, error) {
	if d.Telemetry == nil {
		return nil, nil
	}
	text, err := json.Marshal(d.Telemetry)
	if err != nil {
		return nil, fmt.Errorf("cannot write Telemetry: %w", err)
	}
	if !bytes.HasPrefix(text, []byte("{")) {
		return nil, errors.New("Telemetry is no object in JSON")
	}
	return text, nil
}

// Row is one play for DeliverBatch. It names its right and anchor, or a vendor's id that a mapping
// knows. Give each a RowID, unique in the tenant, or with Vendor for that vendor: without one, two
// plays of one anchor with the same PlayedAt are one.
type Row = api.Row

// RowResult is what became of a row. Its Status is accepted, duplicate, rejected, unmapped or held;
// see OfRow for the error of one that was rejected.
type RowResult = api.RowResult

// Status of a RowResult.
const (
	// Accepted: the receipt is durable.
	Accepted = "accepted"
	// Duplicate: the play was delivered before, and counts once.
	Duplicate = "duplicate"
	// Rejected: no receipt was signed.
	Rejected = "rejected"
	// Unmapped: the service holds the row until a mapping knows the vendor's id.
	Unmapped = "unmapped"
	// Held: the service holds the row until its right, which is suspended, is resumed.
	Held = "held"
)

var statuses = [...]string{Accepted, Duplicate, Rejected, Unmapped, Held}

// Bounds of a batch, which the service sets.
const (
	maxRows = 1000
	maxBody = 8 << 20  // unpacked
	maxRow  = 64 << 10 // of one row's JSON
)

// DeliverBatch delivers plays as of the time when they were shown, up to 30 days ago. Results are
// one for each row, in their order, whose Index is that of the row.
//
// Rows are sent in as many batches as the service's bounds ask for. A row that is rejected because
// a part of the service is away is sent again, as often as Config.Retry says. Any other rejected
// row is no error of the call. After an error, rows that were not answered have results with an empty
// Status: sending them again is safe, as one that was recorded is a duplicate.
func (c *Client) DeliverBatch(ctx context.Context, rows []Row) ([]RowResult, error) {
	results := make([]RowResult, len(rows))
	lines, of := make([][]byte, 0, len(rows)), make([]int, 0, len(rows))
	for i := range rows {
		results[i].Index = i
		line, err := rowText(&rows[i])
		if err != nil {
			results[i].Status = Rejected
			results[i].Error = &api.RowError{Code: api.ValidationFailed, Message: err.Error()}
			continue
		}
		lines, of = append(lines, line), append(of, i)
	}
	for len(lines) > 0 {
		n := batchLen(lines)
		if err := c.deliverLines(ctx, lines[:n], of[:n], results); err != nil {
			return results, err
		}
		lines, of = lines[n:], of[n:]
	}
	return results, nil
}

// deliverLines delivers rows of one batch, of with their places in results.
func (c *caller) deliverLines(ctx context.Context, lines [][]byte, of []int, results []RowResult) error {
	for n := 0; ; n++ {
		got, err := c.ingest(ctx, lines)
		if err != nil {
			return err
		}
		var left [][]byte
		var leftOf []int
		for k := range got {
			got[k].Index = of[k]
			results[of[k]] = got[k]
			if passingRow(&got[k]) {
				left, leftOf = append(left, lines[k]), append(leftOf, of[k])
			}
		}
		if len(left) == 0 || n+1 >= c.retry.Attempts {
			return nil
		}
		if !wait(ctx, c.retry.delay(n, 0)) {
			return nil // each row has an answer
		}
		lines, of = left, leftOf
	}
}

// passingRow says that a row was rejected for a reason that passes.
func passingRow(r *RowResult) bool {
	return r.Error != nil && r.Error.Code == api.InternalError
}

// batchLen is how many of the lines fit into a batch.
func batchLen(lines [][]byte) int {
	size := 0
	for n, line := range lines {
		if size += len(line) + 1; n == maxRows || size > maxBody {
			return n
		}
	}
	return len(lines)
}

// rowText is a row as one line.
func rowText(r *Row) ([]byte, error) {
	if math.IsNaN(r.DwellMs) || math.IsInf(r.DwellMs, 0) {
		return nil, errNotFinite
	}
	own := *r
	if len(r.Telemetry) > 0 {
		var one bytes.Buffer
		if err := json.Compact(&one, r.Telemetry); err != nil {
			return nil, fmt.Errorf("Telemetry is no JSON: %w", err)
		}
		own.Telemetry = one.Bytes()
	}
	text := own.AppendJSON(nil)
	if len(text) > maxRow {
		return nil, fmt.Errorf("the row is longer than %d bytes", maxRow)
	}
	return text, nil
}

// ingest sends one batch, and returns a result for each line.
func (c *caller) ingest(ctx context.Context, lines [][]byte) ([]RowResult, error) {
	r, err := c.newRequest(http.MethodPost, "/v1/delivery/ingest-batch", nil, nil)
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	pack, _ := gzip.NewWriterLevel(&body, gzip.BestSpeed) // which is a level
	for _, line := range lines {
		_, _ = pack.Write(line) // a Buffer takes all
		_, _ = pack.Write([]byte("\n"))
	}
	_ = pack.Close()
	r.body = body.Bytes()
	r.header.Set("Content-Type", "application/x-ndjson")
	r.header.Set("Content-Encoding", "gzip")
	data, err := c.call(ctx, r)
	if err != nil {
		return nil, err
	}
	got, err := decode[api.Ingested](r, data)
	if err != nil {
		return nil, err
	}
	fault := ""
	if len(got.Results) != len(lines) {
		fault = fmt.Sprintf("%d rows were answered with %d results", len(lines), len(got.Results))
	}
	for i := range got.Results {
		if s := &got.Results[i]; fault == "" && (s.Index != i || !slices.Contains(statuses[:], s.Status)) {
			fault = fmt.Sprintf("row %d was answered with the result of row %d, %.20q", i, s.Index, s.Status)
		}
	}
	if fault != "" {
		return nil, &Error{Operation: r.operation(), Status: http.StatusOK, Message: fault, kind: ErrForeign}
	}
	return got.Results, nil
}
