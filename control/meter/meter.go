// Package meter serves sums of metered and of refused deliveries.
//
// GET /v1/metering sums a tenant's recorded metering decisions by right, substrate, basis, metering
// basis and reason, and on request by buckets of renderedAt, anchor, placement and campaign. The
// response is a page, or a file of all rows in CSV or NDJSON. A file is written while the warehouse
// is read, with one page of rows in memory, all as of one position. An error in the middle aborts the
// transfer, so a partial file can't be mistaken for a complete one.
//
// GET /v1/metering/refusals sums the gate's refusals by right, rule and hour, and the names in
// telemetry that the gate did not recognise and that stand for a field.
//
// This package decides nothing and stores nothing. The gate decided each delivery when it was made,
// the event records the decision; sums of sealed packs and of the deduplicated rows behind them add up to what
// all rows would. So these sums are right whenever packs and warehouse are, and an auditor gets the same ones
// from the proof packs. A retry that
// another node accepted, and a row that was sent again, count as DUPLICATE with quantity 0 and no
// impressions.
//
// A response names the log position that it holds for, by default the end of what is loaded. The same
// query with that asOf always has the same result. The cursor carries asOf, so the pages of a listing
// are consistent. Totals are over all rows, not over the page.
//
// Campaigns come from the scopes of rights, which never change, as the log has them. The rows of a right with several campaigns are repeated under each of them; those of a
// right without campaigns are under null. So rows may sum to more than the totals, which count each
// receipt once. Nothing is summed over rights, so a response by campaign needs no more memory than
// its page.
//
// Buckets are computed here, in an IANA time zone, and passed to the warehouse as moments, so the
// engines' notions of time zones don't matter. The rules of the zones are the machine's, or those
// built into the program if the machine has none. A bucket without deliveries has no row. A request
// for more than maxBuckets is refused with 422; an open window ends where the data does.
//
// A node writes its refusal counts about once a minute. They count at the time of the event that
// reports them: a refusal may be reported in the hour after it happened, but never twice.
package meter

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"

	"muniment.example/control/route"
	"muniment.example/pipeline"
	"muniment.example/sealer"
	"muniment.example/sealer/settlement"
)

// Warehouse has the methods of pipeline.Warehouse that metering needs, with their contract.
type Warehouse interface {
	Refusals(ctx context.Context, q pipeline.RefusalQuery) ([]pipeline.RefusalRow, error)
	RefusalTotals(ctx context.Context, q pipeline.RefusalQuery) (pipeline.RefusalTotals, error)
	Unrecognised(ctx context.Context, q pipeline.RefusalQuery) ([]pipeline.UnrecognisedRow, error)
	Resume(ctx context.Context, partition int32) (next sealer.Position, ok bool, err error)
}

// Sums adds up deliveries. It has methods of pipeline.Warehouse, with their contract; the result is the
// rows', whether or not they are read (see proof.Sums).
type Sums interface {
	Metering(ctx context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error)
	MeterTotals(ctx context.Context, q pipeline.MeterQuery) (pipeline.MeterTotals, error)
}

// Config of the service.
type Config struct {
	// Sums answers GET /v1/metering. Required.
	Sums Sums
	// Warehouse holds the counts of refusals, and says what is loaded. Required.
	Warehouse Warehouse
	// Log is read only for a tenant's partition, and for that partition's end. Required.
	Log route.LogBounds
	// Scopes returns what names has of the scopes of rights of a tenant, as the log has them; nil names everything.
	// Campaigns are each once, in byte order, and always the same. Required.
	Scopes func(ctx context.Context, tenantID string, names *settlement.ScopeNames, rightIDs []string) ([]settlement.Right, error)
	// Logger; nil is slog.Default.
	Logger *slog.Logger
}

// Service serves metering. It is safe for concurrent use.
type Service struct {
	sums      Sums
	warehouse Warehouse
	log       route.LogBounds
	scopes    func(ctx context.Context, tenantID string, names *settlement.ScopeNames, rightIDs []string) ([]settlement.Right, error)
	logger    *slog.Logger
}

// New returns the service.
func New(cfg Config) (*Service, error) {
	if cfg.Sums == nil || cfg.Warehouse == nil || cfg.Log == nil || cfg.Scopes == nil {
		return nil, errors.New("cannot open metering: Sums, Warehouse, Log or Scopes is missing")
	}
	return &Service{cfg.Sums, cfg.Warehouse, cfg.Log, cfg.Scopes, cmp.Or(cfg.Logger, slog.Default())}, nil
}

// maxBuckets bounds the work of one query: a year of hours, or eight days of minutes.
const maxBuckets = 12_000

// place is where the next page begins: the index of a row in the ordered result as of a position, and
// the index of a campaign of its right.
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
