// Package meter answers what was metered, and what was refused.
//
// GET /v1/metering sums a tenant's recorded metering decisions by right, substrate,
// basis, metering basis and reason, and when asked to by stretches of renderedAt, anchor,
// placement and campaign. It answers page by page, or with a file of all rows: CSV or NDJSON,
// which is written while the warehouse is read, one page of rows in memory, all as of one
// position. What goes wrong in the middle breaks the file off, so that it can't be taken for
// a whole one.
// GET /v1/metering/refusals sums what the gate refused by right, rule and hour.
//
// Nothing is decided here and nothing is kept. The gate decided each delivery
// when it was made, the event records it, and the warehouse sums deduplicated
// rows, so this service is right whenever the warehouse is, and an auditor gets the
// same sums from the proof packs. A retry that another node answered, and a row that was
// sent again, counts as DUPLICATE with quantity 0 and no impressions.
//
// An answer says as of which log position it holds, by default all that is
// loaded now. The same question with that asOf gives the same answer for ever,
// which also keeps the pages of one listing consistent: the cursor carries it.
// Totals are over all rows, not over the page.
//
// Campaigns are those that the scope of a right lists (control/right), which is never changed:
// they are put beside what the warehouse answers, not asked of it. A right of several campaigns
// has its rows under each of them, one of none under null, so rows may add up to more than the
// totals, which count each receipt once. A row keeps its right; nothing is summed over rights,
// so no answer by campaign needs more memory than its page.
//
// Buckets are cut here, by the clocks of an IANA time zone, and handed to the
// warehouse as moments: no engine's idea of time zones is asked, and two engines
// can't differ. The rules of the zones are the machine's, or the ones built into the
// program where the machine has none. A bucket without deliveries has no row. A
// question for more than maxBuckets is refused with 422; where the window is open,
// its end is that of the data.
//
// A node writes its refusal counts about once a minute, and they are counted at the time of the
// event that reports them: a refusal may be reported in the hour after it happened, but never
// twice.
package meter

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
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

// Config of the service.
type Config struct {
	// Warehouse holds the loaded deliveries. Required.
	Warehouse Warehouse
	// Log is only asked where a tenant is, and where that partition ends. Required.
	Log route.Ended
	// Campaigns are those of some rights of a tenant, at most rightsAtOnce: each once, in the order
	// of their bytes, and the same whenever it is asked. A right of none may be left out. Required.
	Campaigns func(ctx context.Context, tenantID string, rightIDs []string) (map[string][]string, error)
	// Logger; nil is slog.Default.
	Logger *slog.Logger
}

// Service serves metering. It is safe for concurrent use.
type Service struct {
	warehouse Warehouse
	log       route.Ended
	campaigns func(ctx context.Context, tenantID string, rightIDs []string) (map[string][]string, error)
	logger    *slog.Logger
}

// New returns the service.
func New(cfg Config) (*Service, error) {
	if cfg.Warehouse == nil || cfg.Log == nil || cfg.Campaigns == nil {
		return nil, errors.New("cannot open metering: Warehouse, Log or Campaigns is missing")
	}
	return &Service{cfg.Warehouse, cfg.Log, cfg.Campaigns, cmp.Or(cfg.Logger, slog.Default())}, nil
}

// maxBuckets bounds the work of one question: a year of hours, or eight days of
// minutes.
const maxBuckets = 12_000

// place is where the next page begins: at the row of that number in the ordered
// answer as of a position, and there at the campaign of that number of its right.
type place struct {
	asOf          sealer.Position
	row, campaign int
}

func (p place) String() string {
	text := p.asOf.String() + "/" + strconv.Itoa(p.row)
	if p.campaign > 0 {
		text += "/" + strconv.Itoa(p.campaign)
	}
	return text
}

func parsePlace(key string) (p place, ok bool) {
	at, number, found := strings.Cut(key, "/")
	number, campaign, within := strings.Cut(number, "/")
	asOf, err := sealer.ParsePosition(at)
	row, err2 := strconv.Atoi(number)
	p = place{asOf: asOf, row: row}
	if within {
		var err3 error
		p.campaign, err3 = strconv.Atoi(campaign)
		return p, found && errors.Join(err, err2, err3) == nil && row >= 0 && p.campaign > 0
	}
	return p, found && errors.Join(err, err2) == nil && row > 0
}
