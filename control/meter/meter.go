// Package meter answers what was metered, and what was refused.
//
// GET /v1/metering sums a tenant's recorded metering decisions by right, substrate,
// basis, metering basis and reason, and by stretches of renderedAt when asked to.
// GET /v1/metering/refusals sums what the gate refused by right, rule and hour.
//
// Nothing is decided here and nothing is kept. The gate decided each delivery
// when it was made, the event records it, and the warehouse sums deduplicated
// rows, so this room is right whenever the warehouse is, and an auditor gets the
// same sums from the proof packs. A retry that another node answered, and a row that was
// sent again, counts as DUPLICATE with quantity 0 and no impressions.
//
// An answer says as of which log position it holds, by default all that is
// loaded now. The same question with that asOf gives the same answer for ever,
// which also keeps the pages of one listing consistent: the cursor carries it.
// Totals are over all rows, not over the page.
//
// Buckets are cut here, by the clocks of an IANA time zone, and handed to the
// warehouse as moments: no engine's idea of time zones is asked, and two engines
// can't differ. The rules of the zones are the machine's, or the ones built into the
// program where the machine has none. A bucket without deliveries has no row. A
// question for more than maxBuckets is refused with 422; where the window is open,
// its end is that of the data.
//
// A node writes its refusal counts about once a minute, and they are counted at the
// time of the event that tells them: a refusal may be told in the hour after it
// happened, but never twice.
package meter

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"muniment/control/route"
	"muniment/pipeline"
	"muniment/sealer"
)

// Warehouse is what metering needs of a pipeline.Warehouse, with its contract.
type Warehouse interface {
	Metering(ctx context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error)
	MeterTotals(ctx context.Context, q pipeline.MeterQuery) (pipeline.MeterTotals, error)
	Refusals(ctx context.Context, q pipeline.RefusalQuery) ([]pipeline.RefusalRow, error)
	RefusalTotals(ctx context.Context, q pipeline.RefusalQuery) (pipeline.RefusalTotals, error)
	Resume(ctx context.Context, partition int32) (next sealer.Position, ok bool, err error)
}

// Config of the room.
type Config struct {
	// Warehouse holds the loaded deliveries. Required.
	Warehouse Warehouse
	// Log is only asked where a tenant is, and where that partition ends. Required.
	Log route.Ended
}

// Room serves metering. It is safe for concurrent use.
type Room struct {
	warehouse Warehouse
	log       route.Ended
}

// New wires the room.
func New(cfg Config) (*Room, error) {
	if cfg.Warehouse == nil || cfg.Log == nil {
		return nil, errors.New("cannot open metering: Warehouse or Log is missing")
	}
	return &Room{warehouse: cfg.Warehouse, log: cfg.Log}, nil
}

// maxBuckets bounds the work of one question: a year of hours, or eight days of
// minutes.
const maxBuckets = 12_000

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
