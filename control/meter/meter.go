// Package meter answers what was metered: GET /v1/metering, the recorded
// metering decisions of a tenant summed by right, substrate, basis, metering
// basis and reason.
//
// Nothing is decided here and nothing is kept. The gate decided each delivery
// when it was made, the event records it, and the warehouse sums deduplicated
// rows, so this room is right whenever the warehouse is, and an auditor gets the
// same sums from the proof packs. A retry that another node answered counts as
// DUPLICATE with quantity 0.
//
// An answer says as of which log position it holds, by default all that is
// loaded now. The same question with that asOf gives the same answer for ever,
// which also keeps the pages of one listing consistent: the cursor carries it.
// Totals are over all rows, not over the page.
package meter

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"muniment/pipeline"
	"muniment/sealer"
)

// Warehouse is what metering needs of a pipeline.Warehouse, with its contract.
type Warehouse interface {
	Metering(ctx context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error)
	Resume(ctx context.Context, partition int32) (next sealer.Position, ok bool, err error)
}

// Config of the room.
type Config struct {
	// Warehouse holds the loaded deliveries. Required.
	Warehouse Warehouse
}

// Room serves metering. It is safe for concurrent use.
type Room struct {
	warehouse Warehouse
}

// New wires the room.
func New(cfg Config) (*Room, error) {
	if cfg.Warehouse == nil {
		return nil, errors.New("cannot open metering: Warehouse is missing")
	}
	return &Room{warehouse: cfg.Warehouse}, nil
}

// Row is one line of the answer. Its first five fields are its key.
type Row struct {
	RightID       string `json:"rightId"`
	Substrate     string `json:"substrate"`
	BasisID       string `json:"basisId"`
	MeteringBasis string `json:"meteringBasis" doc:"what the quantity is of: viewable, gross, audible, delivered, none"`
	Reason        string `json:"reason" doc:"METERED, why it was suppressed, or DUPLICATE"`
	Receipts      int64  `json:"receipts"`
	QuantityMs    int64  `json:"quantityMs"`
}

// Totals are sums over all rows; receipts = metered + suppressed + duplicates.
type Totals struct {
	Receipts   int64 `json:"receipts"`
	Metered    int64 `json:"metered"`
	Suppressed int64 `json:"suppressed"`
	Duplicates int64 `json:"duplicates"`
	QuantityMs int64 `json:"quantityMs"`
}

// reasonMetered is the reason of a delivery that is billed.
const reasonMetered = "METERED"

// sum adds up the rows.
func sum(rows []pipeline.MeterRow) Totals {
	var t Totals
	for _, r := range rows {
		t.Receipts += r.Receipts
		t.QuantityMs += r.QuantityMs
		switch r.Reason {
		case reasonMetered:
			t.Metered += r.Receipts
		case pipeline.ReasonDuplicate:
			t.Duplicates += r.Receipts
		default:
			t.Suppressed += r.Receipts
		}
	}
	return t
}

// order sorts rows by their key, so that pages of one asOf fit together.
func order(rows []pipeline.MeterRow) {
	slices.SortFunc(rows, func(a, b pipeline.MeterRow) int {
		return cmp.Or(
			cmp.Compare(a.RightID, b.RightID), cmp.Compare(a.Substrate, b.Substrate), cmp.Compare(a.BasisID, b.BasisID),
			cmp.Compare(a.MeteringBasis, b.MeteringBasis), cmp.Compare(a.Reason, b.Reason),
		)
	})
}

// place is where the next page begins: at the row of that number in the ordered
// answer as of a position.
type place struct {
	asOf sealer.Position
	row  int
}

func (p place) String() string { return p.asOf.String() + "/" + strconv.Itoa(p.row) }

func parsePlace(key string) (place, bool) {
	at, n, found := strings.Cut(key, "/")
	asOf, err := sealer.ParsePosition(at)
	row, err2 := strconv.Atoi(n)
	return place{asOf, row}, found && err == nil && err2 == nil && row > 0
}

// parseTime reads a bound of the window. Recorded times are whole milliseconds,
// so rounding a finer bound up selects the same rows.
func parseTime(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, errors.New("must be an RFC 3339 time")
	}
	if whole := t.Truncate(time.Millisecond); whole.Before(t) {
		t = whole.Add(time.Millisecond)
	}
	return t.UTC(), nil
}
