package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muniment.example/sealer"
	"muniment.example/sealer/pack"
)

// Warehouse keeps the loaded events and answers queries. Every result is computed from
// deduplicated rows, for one tenant, and sees every Load that returned before the query
// began. Safe for concurrent use.
type Warehouse interface {
	Sink
	Eraser

	// Events lists the rows that q selects in the order of their positions, at most
	// Limit of them. Paging by After (or by Before, for Newest) neither skips nor
	// repeats a row, whatever is loaded meanwhile: a partition is loaded in order, so no
	// row is added before a position that was seen.
	Events(ctx context.Context, q EventQuery) ([]Row, error)
	// Event returns one row by its id, ErrNoEvent if the tenant has none.
	Event(ctx context.Context, tenantID, eventID string) (Row, error)
	// Metering sums the recorded metering decisions by bucket, right, substrate,
	// basis, metering basis, reason, and what By names. Lines are sorted by these in the
	// order of MeterRow, texts by their bytes. A duplicate (see MeterRow.Reason) counts with
	// quantity 0; whether a row is a duplicate never depends on the query.
	Metering(ctx context.Context, q MeterQuery) ([]MeterRow, error)
	// MeterTotals sums the same deliveries into one line. It ignores Buckets, By, Skip and
	// Limit.
	MeterTotals(ctx context.Context, q MeterQuery) (MeterTotals, error)
	// Refusals sums the counts of the tenant's gate.refusals events by bucket, right
	// and rule, and sorts the lines by these. Each event counts once, however often the log
	// has it. A count that is not {count, rule, rightId?} with a whole number is ignored:
	// the event is evidence as it is.
	Refusals(ctx context.Context, q RefusalQuery) ([]RefusalRow, error)
	// RefusalTotals sums the same counts into one. It ignores Buckets, Skip and Limit.
	RefusalTotals(ctx context.Context, q RefusalQuery) (RefusalTotals, error)
	// Unrecognised sums the counts of names in the same events by bucket, name and meant, and sorts
	// the lines by these, the newest bucket first. A count that is not {count, meant, name} with a whole
	// number is ignored. The counts are of the whole tenant: RightID and Rule are ignored.
	Unrecognised(ctx context.Context, q RefusalQuery) ([]UnrecognisedRow, error)
	// CountEvents counts the loaded events of a tenant.
	CountEvents(ctx context.Context, tenantID string) (int64, error)
	// Duplicates lists the duplicates among the rows of one tenant in after < pos ≤ upTo,
	// as they were decided when they were loaded (see Sink), in the order of their
	// positions. The zero position as after stands before every duplicate.
	Duplicates(ctx context.Context, tenantID string, after, upTo sealer.Position) ([]Duplicate, error)
	// Quarantined lists the records that hold sealing for a tenant, in the order of
	// their positions: its own, and those of its partition that name no readable tenant.
	// The partition of a tenant without rows is unknown: all records without a readable
	// tenant hold it. A released record (see TypeReleased) holds no tenant.
	Quarantined(ctx context.Context, tenantID string) ([]Quarantined, error)
	// Held lists the records that hold sealing for any tenant and that q selects, in the
	// order of partition and position, and counts all of them.
	Held(ctx context.Context, q HeldQuery) (list []Quarantined, total int64, err error)
}

// Sink is the half of a Warehouse that the loader needs.
type Sink interface {
	// Load stores the batch and then its Next position; both are durable when it
	// returns. A batch is stored wholly or may be loaded again.
	//
	// Rows are keyed by (tenantId, eventId), and the lowest position wins. The batches of a
	// partition come in order: one that begins behind the position that Resume returns would
	// leave a gap, and is refused with ErrAhead; nothing of it is stored. Any number of
	// loaders may at once load batches that begin at it or before it: rows that are there
	// already don't change. The first batch of a partition, or of a generation that is newer
	// than the position's, begins where the loader says.
	//
	// So everything before a batch is there when it is loaded, and duplicates are decided
	// then, once, with the same result for every loader. A delivery is a duplicate if another
	// event of the tenant at a lower position, each event at its lowest, has the same
	// identity, however old that event is; or if it has the same idempotency hash and is at
	// most 24 h older by the events' own times. Rows of the batch count like loaded ones. A
	// decision stays, whatever is loaded again, unless a row is retracted (see TypeReleased):
	// every row with its identity or hash is decided anew, in the Load that retracts it.
	//
	// A private part that a tombstone covers is not stored (see Eraser). A batch with a row
	// that names a person is refused with ErrErasedUnknown until the first Erase.
	Load(ctx context.Context, b Batch) error
	// Resume returns the highest Next of all batches of the partition; ok is false when
	// nothing was loaded yet. It never goes back, so the late Load of a loader that was
	// thought dead can't undo the progress of its successor: within a generation the higher
	// offset wins, and a higher generation beats every offset of a lower one.
	Resume(ctx context.Context, partition int32) (next sealer.Position, ok bool, err error)
}

var (
	// ErrNoEvent: the tenant has no such event.
	ErrNoEvent = errors.New("no such event")
	// ErrAhead refuses a batch that begins after the loaded records of its partition. The
	// loader calls Resume again: the warehouse may have been replaced by an older copy.
	ErrAhead = errors.New("batch begins after the end of what is loaded")
)

// Row is one event as the warehouse holds it.
type Row struct {
	sealer.Entry
	Type string
	At   time.Time
	// Actor and subject of the event, as in its text.
	ActorKind, ActorID     string
	SubjectKind, SubjectID string
	// Delivery is set for delivery.recorded, nil for every other type.
	Delivery *Delivery
}

// Delivery is what metering and lists need of a delivery.recorded event.
type Delivery struct {
	ReceiptID     string
	RightID       string
	RightRevision int64
	BasisID       string
	Substrate     string
	RenderedAt    time.Time
	IssuedAt      time.Time
	SigningKeyID  string
	Metered       bool
	Reason        string
	MeteringBasis string
	QuantityMs    int64
	// Idempotency is the base64url hash of tenant and key; empty without a key.
	Idempotency string
	// Identity is that of a row of a batch, which has no Idempotency.
	Identity sealer.RowIdentity
	// Impressions are those that the delivery makes if it is no duplicate, in ten-thousandths; 0
	// unless it is metered.
	Impressions int64
	// Completion is how far a video was played, "none" if unknown (see gate.Completion).
	Completion string
	// SpatialAnchorID, SpatialPlacementID and CorrelationID are the receipt's, for searches and
	// sums; the last two are empty if it has none. A warehouse doesn't return them: they are in
	// the event.
	SpatialAnchorID, SpatialPlacementID, CorrelationID string
}

// Batch is a contiguous run of one partition: each record from From up to Next is among
// its rows, which are in the order of their positions, or is quarantined.
type Batch struct {
	Partition int32
	// From is the position of the first record. A batch that only quarantines records,
	// wherever they stand, begins and ends at the stored position.
	From        sealer.Position
	Rows        []Row
	Quarantined []Quarantined
	// Next is the position to resume from once the batch is stored.
	Next sealer.Position
	// Chain is the log's hash of everything before Next, nil for none (see Chained). A
	// ChainKeeper stores it if it stores Next; others ignore it.
	Chain []byte
}

// Quarantined is a record that can't be loaded. It is kept verbatim, with the reason.
type Quarantined struct {
	Position sealer.Position
	// TenantID and EventID are what the record's headers say. A header that can't
	// be an id is empty: the record then holds its whole partition.
	TenantID, EventID string
	// Reason is the text of the check that failed.
	Reason string
	// Record is the record as sealer.AppendRecord encodes it.
	Record []byte
}

// TypeReleased is the type of the event by which an operator releases a quarantined
// record. Its subject is {kind KindRecord, id the record's position}, and its tenant the
// one that the record names, or SystemTenant; with another tenant it is no release.
//
// A warehouse computes what is held from such rows alone, so a release may be loaded
// before the record or behind it, again and in any order. If the released record is a row
// at that position, as it is when it was quarantined at sealing, the row is retracted: the
// warehouse deletes it, with every copy of its event, and a replay doesn't restore it. The
// quarantined record stays.
const (
	TypeReleased = "record.released"
	KindRecord   = "record"
)

// TypeDropped is the type of the event that a tenant of the sandbox was deleted. A warehouse
// on the disk of the service then deletes the tenant's rows, and ignores later ones, or
// strangers could fill the disk. An engine for which deleting single rows is expensive may
// keep them.
const TypeDropped = "tenant.dropped"

// SystemTenant owns the events about what belongs to no other tenant.
const SystemTenant = "tnt_system"

// HeldQuery selects records that hold sealing.
type HeldQuery struct {
	// At keeps the record at this position; nil keeps all.
	At *sealer.Position
	// Limit is the most records to return; with 0 they are only counted.
	Limit int
}

// EventQuery selects rows of one tenant: those that pass every field that is set.
type EventQuery struct {
	TenantID string
	// After and Before are exclusive bounds; nil is open.
	After, Before *sealer.Position
	// Types keeps only these types; empty keeps all.
	Types []string
	// NoDeliveries leaves out deliveries.
	NoDeliveries bool
	// ActorKind and so on keep the events of one actor, and those about one subject.
	ActorKind, ActorID     string
	SubjectKind, SubjectID string
	// SubjectIDs keep the events about any of these subjects, at most MaxSubjects; empty keeps all.
	SubjectIDs []string
	// From and To bound the event's own time, From inclusive, To exclusive; zero is
	// open.
	From, To time.Time
	// RightID, SpatialAnchorID and CorrelationID keep the deliveries with these very values,
	// RenderedFrom and RenderedTo, bounds as From and To, those with a renderedAt between
	// them. If one is set, all rows but deliveries are left out.
	RightID, SpatialAnchorID, CorrelationID string
	RenderedFrom, RenderedTo                time.Time
	// EventIDEnd keeps the events whose id ends with it. No index helps: bound the query otherwise.
	EventIDEnd string
	// DataSubject keeps the events whose private part names this person (sealer.Person.Is).
	DataSubject string
	// Newest lists from the newest down instead of from the oldest up.
	Newest bool
	// Limit is the most rows to return; it must be positive.
	Limit int
}

// MaxSubjects is the most subjects that an EventQuery may name.
const MaxSubjects = 10_000

// Check returns an error for a query that every warehouse refuses.
func (q *EventQuery) Check() error {
	switch {
	case q.Limit <= 0:
		return fmt.Errorf("limit %d is not positive", q.Limit)
	case len(q.SubjectIDs) > MaxSubjects:
		return fmt.Errorf("%d subjects are named, at most %d may be", len(q.SubjectIDs), MaxSubjects)
	}
	return nil
}

// MeterQuery selects the deliveries to sum.
type MeterQuery struct {
	TenantID string
	// From and To bound renderedAt, From inclusive, To exclusive; zero is open.
	// Rows have whole milliseconds, the bounds may be finer.
	From, To time.Time
	// RightID keeps one right; empty keeps all.
	RightID string
	// After leaves out rows at or before this position, AsOf rows at or behind this one; nil takes all.
	After, AsOf *sealer.Position
	// Hours keeps the deliveries with a renderedAt in one of these hours of UTC, which are given by
	// their starts, rising, at most MaxMeterHours; nil keeps all.
	Hours []time.Time
	// EventIDs keeps these deliveries, at most MaxMeterEvents; ids that the tenant doesn't
	// have are ignored. nil keeps all, an empty list keeps none: a caller that subtracts the
	// sum must not subtract everything.
	EventIDs []string
	// Buckets are the starts, in ascending order, of the intervals of renderedAt to sum by.
	// Each ends where the next one starts, the last one never; what is before the first is
	// left out. Empty: one sum over all time. The caller computes them: a warehouse knows
	// neither calendars nor time zones.
	Buckets []time.Time
	// By is what else to sum by.
	By MeterBy
	// Skip is how many lines to skip; Limit is the most to return, 0 for all.
	Skip, Limit int
}

// MeterBy names optional fields to sum metering by.
type MeterBy struct{ Completion, Anchor, Placement bool }

// MaxMeterEvents is the most events that a MeterQuery may name, MaxMeterHours the most hours.
const (
	MaxMeterEvents = 10_000
	MaxMeterHours  = 4000
)

// Check returns an error for a query that every warehouse refuses.
func (q *MeterQuery) Check() error {
	if len(q.EventIDs) > MaxMeterEvents {
		return fmt.Errorf("%d events are named, and %d may be", len(q.EventIDs), MaxMeterEvents)
	}
	if len(q.Hours) > MaxMeterHours {
		return fmt.Errorf("%d hours are named, and %d may be", len(q.Hours), MaxMeterHours)
	}
	return nil
}

// CeilMilli is the first whole millisecond at or after t, since the epoch. As rows have
// whole milliseconds, comparing them with it gives the same result as with t.
func CeilMilli(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return ms
}

// MeterRow is one line of a metering result.
type MeterRow struct {
	// Bucket is the start of the line's bucket, in UTC; zero when there are none.
	Bucket        time.Time
	RightID       string
	Substrate     string
	BasisID       string
	MeteringBasis string
	// Reason is METERED, a suppression reason, or DUPLICATE for a duplicate (see Sink).
	// A duplicate's basis is "none", its quantity and its impressions are 0.
	Reason string
	// Completion, SpatialAnchorID and SpatialPlacementID are those of the deliveries, duplicates
	// included, and empty if the query doesn't sum by them; the last also if a receipt has none.
	Completion, SpatialAnchorID, SpatialPlacementID string

	Receipts   int64
	QuantityMs int64
	// Impressions are in ten-thousandths.
	Impressions int64
}

// Sealed is the row as in the header of a pack, which has fewer names.
func (r *MeterRow) Sealed() pack.MeterRow {
	return pack.MeterRow{
		RightID: r.RightID, Substrate: r.Substrate, BasisID: r.BasisID, MeteringBasis: r.MeteringBasis, Reason: r.Reason,
		Receipts: r.Receipts, QuantityMs: r.QuantityMs, Impressions: r.Impressions,
	}
}

// MeterTotals is the sum of a window. Receipts that are neither metered nor
// duplicates were suppressed. Impressions are as in MeterRow.
type MeterTotals struct {
	Receipts, Metered, Duplicates, QuantityMs, Impressions int64
	// First and Last are the earliest and the latest renderedAt; zero for no receipts.
	First, Last time.Time
}

// TypeRefusals is the type of the events that Warehouse.Refusals sums.
const TypeRefusals = sealer.TypeRefusals

// RefusalQuery selects the gate.refusals events to sum. Its fields mean what
// MeterQuery's mean; the time is the event's own.
type RefusalQuery struct {
	TenantID      string
	From, To      time.Time
	RightID, Rule string
	AsOf          *sealer.Position
	Buckets       []time.Time
	Skip, Limit   int
}

// RefusalRow is how many deliveries a rule has refused. A delivery that broke two rules is
// counted under both.
type RefusalRow struct {
	// Bucket is as in MeterRow.
	Bucket time.Time
	// RightID is empty where the event names none.
	RightID  string
	Rule     string
	Refusals int64
}

// UnrecognisedRow is how often telemetry had a name that is a field's but for its spelling.
type UnrecognisedRow struct {
	// Bucket is as in MeterRow.
	Bucket time.Time
	// Name is as it was sent; empty where a node had too many of them.
	Name string
	// Meant is the field.
	Meant      string
	Deliveries int64
}

// RefusalTotals is the sum of a window.
type RefusalTotals struct {
	Refusals int64
	// First and Last are the times of the earliest and the latest event that counts, in Refusals or, if
	// neither a right nor a rule is selected, in Unrecognised; zero for none.
	First, Last time.Time
}

// RuleCounter counts refusals of all tenants, for operators.
type RuleCounter interface {
	// RefusalsByRule sums the counts of gate.refusals events with from ≤ time < to, of every tenant,
	// by rule, the highest sum first. Neither time may be zero. Only Rule and Refusals are set.
	RefusalsByRule(ctx context.Context, from, to time.Time) ([]RefusalRow, error)
}

// Duplicate names a delivery and the lowest event that makes it a duplicate, with both
// positions.
type Duplicate struct {
	EventID, FirstEventID string
	Position, First       sealer.Position
}

// ReasonDuplicate replaces a duplicate's own reason when it is read.
const ReasonDuplicate = sealer.ReasonDuplicate
