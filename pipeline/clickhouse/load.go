package clickhouse

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// columns of events, in the order in which scanRow goes through them.
var columns = []column[pipeline.Row]{
	of("tenant_id", func(r *pipeline.Row) string { return r.TenantID }),
	of("event_id", func(r *pipeline.Row) string { return r.EventID }),
	of("generation", func(r *pipeline.Row) uint32 { return r.Generation }),
	of("log_partition", func(r *pipeline.Row) int32 { return r.Partition }),
	of("position", func(r *pipeline.Row) int64 { return r.Offset }),
	of("node", func(r *pipeline.Row) string { return r.Node }),
	of("epoch", func(r *pipeline.Row) uint64 { return r.Epoch }),
	of("seq", func(r *pipeline.Row) uint64 { return r.Seq }),
	of("event", func(r *pipeline.Row) string { return text(r.Event) }),
	of("type", func(r *pipeline.Row) string { return r.Type }),
	of("at", func(r *pipeline.Row) time.Time { return r.At }),
	of("actor_kind", func(r *pipeline.Row) string { return r.ActorKind }),
	of("actor_id", func(r *pipeline.Row) string { return r.ActorID }),
	of("subject_kind", func(r *pipeline.Row) string { return r.SubjectKind }),
	of("subject_id", func(r *pipeline.Row) string { return r.SubjectID }),
	ofDelivery("receipt_id", func(d *pipeline.Delivery) string { return d.ReceiptID }),
	ofDelivery("right_id", func(d *pipeline.Delivery) string { return d.RightID }),
	ofDelivery("right_revision", func(d *pipeline.Delivery) int64 { return d.RightRevision }),
	ofDelivery("basis_id", func(d *pipeline.Delivery) string { return d.BasisID }),
	ofDelivery("substrate", func(d *pipeline.Delivery) string { return d.Substrate }),
	ofDelivery("rendered_at", func(d *pipeline.Delivery) time.Time { return d.RenderedAt }),
	ofDelivery("issued_at", func(d *pipeline.Delivery) time.Time { return d.IssuedAt }),
	ofDelivery("signing_key_id", func(d *pipeline.Delivery) string { return d.SigningKeyID }),
	ofDelivery("metered", func(d *pipeline.Delivery) bool { return d.Metered }),
	ofDelivery("reason", func(d *pipeline.Delivery) string { return d.Reason }),
	ofDelivery("metering_basis", func(d *pipeline.Delivery) string { return d.MeteringBasis }),
	ofDelivery("quantity_ms", func(d *pipeline.Delivery) int64 { return d.QuantityMs }),
	ofDelivery("idempotency", func(d *pipeline.Delivery) string { return d.Idempotency }),
	ofDelivery("row_hash", func(d *pipeline.Delivery) string { return d.Identity.Hash }),
	ofDelivery("row_day", func(d *pipeline.Delivery) string { return d.Identity.Day }),
	ofDelivery("impressions", func(d *pipeline.Delivery) int64 { return d.Impressions }),
	ofDelivery("completion", func(d *pipeline.Delivery) string { return d.Completion }),
	ofDelivery("spatial_anchor_id", func(d *pipeline.Delivery) string { return d.SpatialAnchorID }),
	ofDelivery("spatial_placement_id", func(d *pipeline.Delivery) string { return d.SpatialPlacementID }),
	ofDelivery("correlation_id", func(d *pipeline.Delivery) string { return d.CorrelationID }),
}

// noDelivery has the values of a row that is no delivery.
var noDelivery = &pipeline.Delivery{RenderedAt: time.UnixMilli(0), IssuedAt: time.UnixMilli(0)}

func ofDelivery[V any](name string, value func(*pipeline.Delivery) V) column[pipeline.Row] {
	return of(name, func(r *pipeline.Row) V {
		if r.Delivery == nil {
			return value(noDelivery)
		}
		return value(r.Delivery)
	})
}

// selected are the columns that scanRow reads. The others are for searches and sums; the event
// has them too.
var selected = strings.Join(names(columns[:len(columns)-3]), ", ")

// privatePart is what is kept of a row's private part.
type privatePart struct {
	*pipeline.Row
	private       []byte
	subjectHashes []string // of persons and notes: what can be erased of it
}

var privateColumns = []column[privatePart]{
	of("tenant_id", func(p *privatePart) string { return p.TenantID }),
	of("event_id", func(p *privatePart) string { return p.EventID }),
	of("generation", func(p *privatePart) uint32 { return p.Generation }),
	of("position", func(p *privatePart) int64 { return p.Offset }),
	of("at", func(p *privatePart) time.Time { return p.At }),
	of("subject_hashes", func(p *privatePart) []string { return p.subjectHashes }),
	of("private", func(p *privatePart) string { return text(p.private) }),
}

var quarantinedColumns = []column[pipeline.Quarantined]{
	of("generation", func(s *pipeline.Quarantined) uint32 { return s.Position.Generation }),
	of("log_partition", func(s *pipeline.Quarantined) int32 { return s.Position.Partition }),
	of("position", func(s *pipeline.Quarantined) int64 { return s.Position.Offset }),
	of("tenant_id", func(s *pipeline.Quarantined) string { return s.TenantID }),
	of("event_id", func(s *pipeline.Quarantined) string { return s.EventID }),
	of("reason", func(s *pipeline.Quarantined) string { return s.Reason }),
	of("record", func(s *pipeline.Quarantined) string { return text(s.Record) }),
}

var positionColumns = []column[sealer.Position]{
	of("generation", func(p *sealer.Position) uint32 { return p.Generation }),
	of("log_partition", func(p *sealer.Position) int32 { return p.Partition }),
	of("position", func(p *sealer.Position) int64 { return p.Offset }),
}

// Load stores what b's rows need, the rows, and then Next. After an error any of it may be
// there, Next only if all is. It may be loaded together with batches of other goroutines (see
// groups); the error is about b alone. When ctx is done it returns, and b may still be loaded
// with the others.
func (w *Warehouse) Load(ctx context.Context, b pipeline.Batch) error {
	ctx, cancel := w.deadline(ctx)
	defer cancel()
	if err := w.groups.add(ctx, b); err != nil {
		return fmt.Errorf("cannot load up to %s: %w", b.Next, err)
	}
	return nil
}

// load loads batches with one set of statements. No position is written before everything of
// all batches is there.
func (w *Warehouse) load(ctx context.Context, batches []*pipeline.Batch) (err error) {
	defer func() {
		if err != nil {
			w.stored.forget()
		}
	}()
	known, err := w.known(ctx, batches)
	if err != nil {
		return err
	}
	from, err := starts(batches, known.positions)
	if errors.Is(err, pipeline.ErrAhead) { // another loader may have loaded more than is known
		if known, err = w.readState(ctx, batches, known); err == nil {
			from, err = starts(batches, known.positions)
		}
	}
	if err != nil {
		return err
	}
	var rows []pipeline.Row
	var quarantined []pipeline.Quarantined
	released := false
	for _, b := range batches {
		rows = append(rows, b.Rows...)
		quarantined = append(quarantined, b.Quarantined...)
		released = released || len(b.Quarantined) > 0 ||
			slices.ContainsFunc(b.Rows, func(r pipeline.Row) bool { return r.Type == pipeline.TypeReleased })
	}
	rows = withoutRetracted(rows, known.retracted)
	parts, kept, err := leaveOut(known.erased, rows, quarantined)
	if err != nil {
		return err
	}
	keys := withKeys(rows)
	decisions, err := w.decide(ctx, keys, from, known.retracted)
	if err != nil {
		return fmt.Errorf("cannot look for duplicates: %w", err)
	}
	if err := w.insertAll(ctx, decisions, keys, parts, rows, kept); err != nil {
		return err
	}
	if released {
		if err := w.retract(ctx); err != nil {
			return fmt.Errorf("cannot retract what was released: %w", err)
		}
	}
	// Another loader may have retracted rows meanwhile that this Load has inserted, or whose
	// keys its rows have.
	now, err := w.readState(ctx, batches, known)
	if err != nil {
		return err
	}
	if released || len(now.retracted) > len(known.retracted) {
		if err := w.forget(ctx, now.retracted); err != nil {
			return err
		}
	}
	if err := w.eraseLoaded(ctx, now.erased, rows, quarantined); err != nil {
		return fmt.Errorf("cannot erase what was loaded: %w", err)
	}
	next := ends(batches)
	if err := insert(ctx, w.servers, "positions", positionColumns, slices.Collect(maps.Values(next))); err != nil {
		return err
	}
	w.stored.learn(state{positions: next, retracted: now.retracted, erased: now.erased, print: now.print})
	for partition, p := range next {
		own, identities := split(slices.DeleteFunc(slices.Clone(keys), func(k keyed) bool { return k.position.Partition != partition }))
		w.filter(partition, false).loaded(from[partition], p, own)
		own, _ = withoutDay(identities)
		w.filter(partition, true).loaded(from[partition], p, own)
	}
	return nil
}

// insertAll inserts what the events need, into all tables at once, and then the events: an insert
// of few rows is mostly a wait for the disk.
func (w *Warehouse) insertAll(ctx context.Context, decisions []decision, keys []keyed, parts []privatePart, rows []pipeline.Row, quarantined []pipeline.Quarantined) error {
	keys, identities := split(keys)
	needed, together := errgroup.WithContext(ctx)
	needed.Go(func() error { return insert(together, w.servers, "duplicates", decisionColumns, decisions) })
	needed.Go(func() error { return insert(together, w.servers, "idempotency_keys", keyColumns, keys) })
	needed.Go(func() error { return insert(together, w.servers, "row_identities", identityColumns, identities) })
	needed.Go(func() error { return insert(together, w.servers, "private_parts", privateColumns, parts) })
	if err := needed.Wait(); err != nil {
		return err
	}
	if err := insert(ctx, w.servers, "events", columns, rows); err != nil {
		return err
	}
	return insert(ctx, w.servers, "set_aside", quarantinedColumns, quarantined)
}

// Resume returns where the partition's loader goes on.
func (w *Warehouse) Resume(ctx context.Context, partition int32) (next sealer.Position, ok bool, err error) {
	ctx, cancel := w.deadline(ctx)
	defer cancel()
	next.Partition = partition
	err = w.conn.QueryRow(ctx, `SELECT generation, position FROM positions WHERE log_partition = ?
		ORDER BY place DESC LIMIT 1`, partition).Scan(&next.Generation, &next.Offset)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return sealer.Position{}, false, nil
	case err != nil:
		return sealer.Position{}, false, fmt.Errorf("cannot read the position of partition %d: %w", partition, err)
	}
	return next, true, nil
}

// scanRow reads a row of selected; the private part is read separately.
func scanRow(scan func(...any) error) (pipeline.Row, error) {
	var (
		r                        pipeline.Row
		d                        pipeline.Delivery
		event                    string
		at, renderedAt, issuedAt time.Time
	)
	err := scan(
		&r.TenantID, &r.EventID, &r.Generation, &r.Partition, &r.Offset, &r.Node, &r.Epoch, &r.Seq, &event,
		&r.Type, &at, &r.ActorKind, &r.ActorID, &r.SubjectKind, &r.SubjectID,
		&d.ReceiptID, &d.RightID, &d.RightRevision, &d.BasisID, &d.Substrate, &renderedAt, &issuedAt,
		&d.SigningKeyID, &d.Metered, &d.Reason, &d.MeteringBasis, &d.QuantityMs, &d.Idempotency,
		&d.Identity.Hash, &d.Identity.Day, &d.Impressions, &d.Completion)
	if err != nil {
		return pipeline.Row{}, err
	}
	r.Event, r.At = []byte(event), at.UTC()
	if d.ReceiptID != "" {
		d.RenderedAt, d.IssuedAt = renderedAt.UTC(), issuedAt.UTC()
		r.Delivery = &d
	}
	return r, nil
}

func instant(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// moment is a time as a statement has it.
func moment(ms int64) string { return fmt.Sprintf("fromUnixTimestamp64Milli(%d, 'UTC')", ms) }
