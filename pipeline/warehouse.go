package pipeline

import (
	"context"
	"errors"
	"time"

	"muniment/sealer"
)

// Warehouse keeps the loaded events and answers questions about them. Every
// answer is computed from deduplicated rows, for one tenant, and sees every
// Load that returned before the question was asked. Safe for concurrent use.
type Warehouse interface {
	Sink

	// Events lists the rows that q selects in the order of their positions, at most
	// Limit of them. Paging by After (or by Before, for Newest) neither skips nor
	// repeats a row, whatever is loaded meanwhile: a partition is loaded in order, so
	// nothing turns up before a position that was seen.
	Events(ctx context.Context, q EventQuery) ([]Row, error)
	// Event returns one row by its id, ErrNoEvent if the tenant has none.
	Event(ctx context.Context, tenantID, eventID string) (Row, error)
	// Metering sums the recorded metering decisions by bucket, right, substrate,
	// basis, metering basis and reason, and orders the lines by these, texts by their
	// bytes. A duplicate (see MeterRow.Reason) is counted with quantity 0; whether a
	// row is one never depends on the query.
	Metering(ctx context.Context, q MeterQuery) ([]MeterRow, error)
	// MeterTotals sums the same deliveries into one line. It reads no Buckets, Skip
	// and Limit.
	MeterTotals(ctx context.Context, q MeterQuery) (MeterTotals, error)
	// Refusals sums the counts of the tenant's gate.refusals events by bucket, right
	// and rule, and orders the lines by these. Each event counts once, however often
	// it stands in the log. A count that is not {count, rule, rightId?} with a whole
	// number is passed over: the event is evidence as it is.
	Refusals(ctx context.Context, q RefusalQuery) ([]RefusalRow, error)
	// RefusalTotals sums the same counts into one. It reads no Buckets, Skip and Limit.
	RefusalTotals(ctx context.Context, q RefusalQuery) (RefusalTotals, error)
	// CountEvents counts the loaded events of a tenant.
	CountEvents(ctx context.Context, tenantID string) (int64, error)
	// Duplicates lists the duplicates among the rows of one tenant in after < pos ≤ upTo,
	// as they were decided when they were loaded (see Sink), in the order of their
	// positions. The zero position as after stands before every duplicate.
	Duplicates(ctx context.Context, tenantID string, after, upTo sealer.Position) ([]Duplicate, error)
	// SetAsides lists the records that hold sealing for a tenant, in the order of
	// their positions: its own, and those of its partition that name no readable
	// tenant. Of a tenant without rows the partition is unknown: every such record
	// holds it. A released record (see TypeReleased) holds nobody.
	SetAsides(ctx context.Context, tenantID string) ([]SetAside, error)
	// Held lists the records that hold sealing for anybody and that q selects, in the
	// order of partition and position, and counts all of them.
	Held(ctx context.Context, q HeldQuery) (list []SetAside, total int64, err error)
}

// Sink is the half of a Warehouse that the loader needs.
type Sink interface {
	// Load stores the batch and then its Next position; both are durable when it
	// returns. A batch is stored wholly or may be loaded again.
	//
	// Rows are keyed by (tenantId, eventId), and the lowest position wins. The batches of a
	// partition come in order: one that begins behind the position that Resume returns would
	// leave a gap, and is refused with ErrAhead; nothing of it is stored. One that begins at
	// it or before it is welcome, by any number of loaders at once: what is there already
	// stays as it is. The first batch of a partition, or of a generation that is newer than
	// the position's, begins where the loader says.
	//
	// So everything before a batch is there when it is loaded, and what is a duplicate is
	// decided then, once, for every loader alike: a delivery with an identity that also stands
	// on another event of the tenant at a lower position, each event at its lowest, however
	// old that is; or one with an idempotency hash of which that is so, and the other is at
	// most 24 h older by the events' own times. Rows of the batch count as those that are
	// loaded. What was decided stays, whatever is loaded again; but where a row is retracted
	// (see TypeReleased), every row with its identity or hash is decided anew, in the Load
	// that retracts it.
	Load(ctx context.Context, b Batch) error
	// Resume returns the highest Next that a Load of the partition has named; ok is
	// false when nothing was loaded yet. It never goes back, so the late Load of a
	// loader that was thought dead can't undo the progress of its successor: within
	// a generation the higher offset wins, and a higher generation beats every
	// offset of a lower one.
	Resume(ctx context.Context, partition int32) (next sealer.Position, ok bool, err error)
}

var (
	// ErrNoEvent says that the tenant has no such event.
	ErrNoEvent = errors.New("no such event")
	// ErrAhead refuses a batch that begins behind what is loaded of its partition. Whoever
	// loads asks Resume again: the warehouse may be an older copy of the one that it was.
	ErrAhead = errors.New("batch begins behind what is loaded")
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
	// Multiplier is the impressions of the play in ten-thousandths; 0: none was given.
	Multiplier int64
	// SpatialAnchorID and CorrelationID are what a receipt is searched by; the second is
	// empty where the receipt has none. A warehouse doesn't return them: they are in the event.
	SpatialAnchorID, CorrelationID string
}

// Batch is a contiguous run of one partition: each record from From up to Next is among
// its rows, which stand in the order of their positions, or was set aside.
type Batch struct {
	Partition int32
	// From is the position of the first record. A batch that only sets records aside,
	// wherever they stand, begins and ends at the position that is stored.
	From     sealer.Position
	Rows     []Row
	SetAside []SetAside
	// Next is the position to resume from once the batch is stored.
	Next sealer.Position
	// Chain is what the log says of everything before Next, nil for nothing (see Chained).
	// A ChainKeeper stores it with Next, and only where it stores that; others pass it over.
	Chain []byte
}

// SetAside is a record that can't be loaded: kept verbatim, with why.
type SetAside struct {
	Position sealer.Position
	// TenantID and EventID are what the record's headers say. A header that can't
	// be an id is empty: the record then holds its whole partition.
	TenantID, EventID string
	// Reason is the text of the check that failed.
	Reason string
	// Record is the record as sealer.AppendRecord encodes it.
	Record []byte
}

// TypeReleased is the type of the event by which an operator releases a record that
// was set aside. Its subject is {kind KindRecord, id the record's position}, and its
// tenant the one that the record names, or SystemTenant; any other is no release.
//
// Such a row is all that there is to a release: a warehouse works out from it what is
// held, so it may be loaded before the record or behind it, again and in any order.
// Where the released record is a row at that position, as it is when it was set aside
// at sealing, the warehouse forgets the row for good, with every copy of its event: no
// answer knows it, and a replay doesn't bring it back. The record set aside stays.
const (
	TypeReleased = "record.released"
	KindRecord   = "record"
)

// TypeDropped is the type of the event that tells that a tenant of the sandbox is gone, with
// all that it had. A warehouse on the disk of the service deletes the tenant's rows then, and
// those that come later, or strangers would fill the disk. One that deletes single rows at
// great cost may keep them.
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
	// ActorKind and so on keep the events of one actor, and those about one subject.
	ActorKind, ActorID     string
	SubjectKind, SubjectID string
	// From and To bound the event's own time, From inclusive, To exclusive; zero is
	// open.
	From, To time.Time
	// RightID, SpatialAnchorID and CorrelationID keep the deliveries whose event and
	// receipt say so, byte for byte; RenderedFrom and RenderedTo, bounds as From and To,
	// those of a time of renderedAt. Where one is set, what is no delivery is left out.
	RightID, SpatialAnchorID, CorrelationID string
	RenderedFrom, RenderedTo                time.Time
	// Newest lists from the newest down instead of from the oldest up.
	Newest bool
	// Limit is the most rows to return; it must be positive.
	Limit int
}

// MeterQuery selects the deliveries to sum.
type MeterQuery struct {
	TenantID string
	// From and To bound renderedAt, From inclusive, To exclusive; zero is open.
	// Rows have whole milliseconds, the bounds may be finer.
	From, To time.Time
	// RightID keeps one right; empty keeps all.
	RightID string
	// AsOf leaves out rows at or behind this position; nil takes all.
	AsOf *sealer.Position
	// Buckets are the starts, in ascending order, of the stretches of renderedAt to
	// sum by. Each ends where the next one starts, the last one never; what is before
	// the first is left out. Empty: one sum over all time. A warehouse knows nothing
	// of calendars and time zones: whoever asks has cut the time.
	Buckets []time.Time
	// Skip passes over that many lines; Limit is the most to return, 0 for all.
	Skip, Limit int
}

// CeilMilli is the first whole millisecond at or after t, since the epoch. Rows have
// whole milliseconds, so x ≥ t and x < t mean the same of a row with it.
func CeilMilli(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return ms
}

// MeterRow is one line of a metering answer.
type MeterRow struct {
	// Bucket is the start of the line's bucket, in UTC; zero when there are none.
	Bucket        time.Time
	RightID       string
	Substrate     string
	BasisID       string
	MeteringBasis string
	// Reason is METERED, a suppression reason, or DUPLICATE for a duplicate (see Sink).
	// A duplicate's basis is "none", its quantity and its impressions are 0.
	Reason     string
	Receipts   int64
	QuantityMs int64
	// Impressions are in ten-thousandths: those of each delivery that is metered, and no
	// duplicate, are its multiplier, or one (see sealer.CountImpressions).
	Impressions int64
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

// RefusalRow says how many deliveries a rule has refused. One that broke two rules
// is counted under both.
type RefusalRow struct {
	// Bucket is as in MeterRow.
	Bucket time.Time
	// RightID is empty where the event names none.
	RightID  string
	Rule     string
	Refusals int64
}

// RefusalTotals is the sum of a window.
type RefusalTotals struct {
	Refusals int64
	// First and Last are the times of the earliest and the latest event that counts;
	// zero for none.
	First, Last time.Time
}

// Duplicate names a delivery and the lowest event that makes it one, and where both
// stand.
type Duplicate struct {
	EventID, FirstEventID string
	Position, First       sealer.Position
}

// ReasonDuplicate is the reason that a duplicate's own reason is replaced with
// when it is read.
const ReasonDuplicate = sealer.ReasonDuplicate
