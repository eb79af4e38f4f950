package proof

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/sealer"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
)

// Quarantined is a record that holds sealing, in a response to an operator.
type Quarantined struct {
	Position string `json:"position"`
	TenantID string `json:"tenantId" doc:"The tenant that the record names; empty if it can't be read: the record then holds its whole partition."`
	EventID  string `json:"eventId" doc:"The event that the record names; may be empty."`
	Reason   string `json:"reason" doc:"The check that failed."`
	SHA256   string `json:"sha256" doc:"SHA-256 of the record in the log, base64url."`
}

// QuarantinedList is the response of a list.
type QuarantinedList struct {
	Records []Quarantined `json:"records" doc:"The first records, in the order of their positions."`
	Total   int64         `json:"total" doc:"How many records hold sealing."`
}

// Released is a record that no longer holds sealing.
type Released struct {
	Record   Quarantined `json:"record"`
	TenantID string      `json:"tenantId" doc:"The tenant whose log has the event record.released."`
}

func newQuarantined(s pipeline.Quarantined) Quarantined {
	return Quarantined{
		Position: s.Position.String(), TenantID: s.TenantID, EventID: s.EventID,
		Reason: strings.ToValidUTF8(s.Reason, "\uFFFD"), SHA256: merkle.Hash(sha256.Sum256(s.Record)).String(),
	}
}

// quarantine lists and releases quarantined records.
type quarantine struct {
	*archive
	releasing sync.Mutex // held while records are released, so that each has one event
}

// ListQuarantined lists the records that hold sealing, at most limit of them.
func (q *quarantine) ListQuarantined(ctx context.Context, limit int) (QuarantinedList, error) {
	held, total, err := q.warehouse.Held(ctx, pipeline.HeldQuery{Limit: limit})
	if err != nil {
		return QuarantinedList{}, err
	}
	list := QuarantinedList{Records: []Quarantined{}, Total: total}
	for _, record := range held {
		list.Records = append(list.Records, newQuarantined(record))
	}
	return list, nil
}

// Holds describes whether sealing is held, for the readiness report.
func (q *quarantine) Holds(ctx context.Context) (string, error) {
	_, total, err := q.warehouse.Held(ctx, pipeline.HeldQuery{})
	if total == 0 {
		return "no record is quarantined", err
	}
	return fmt.Sprintf("held for some tenants by quarantined records: %d (muniment quarantine list)", total), err
}

// Release ends the hold of the quarantined records at some positions, which never become leaves.
// Each release is an event record.released of the tenant that the record names, or of tnt_system,
// with the record's position and hash, why it was quarantined, and the operator's reason. The
// record itself stays in the warehouse. All of them are released, or none.
//
// A record whose event a pack holds can't be released: STATE_CONFLICT.
//
// When Release returns nil the hold has ended. After 503 WAREHOUSE_BEHIND or LOG_UNAVAILABLE it
// will end; releasing again does no harm.
func (q *quarantine) Release(ctx context.Context, positions []sealer.Position, reason string, by sealer.Ref) ([]Released, error) {
	q.releasing.Lock()
	defer q.releasing.Unlock()
	var all []Released
	for _, at := range positions {
		held, _, err := q.warehouse.Held(ctx, pipeline.HeldQuery{At: &at, Limit: 1})
		if err == nil && len(held) == 0 {
			err = &api.Error{Code: api.ResourceNotFound, Message: "no quarantined record at " + at.String() + " holds sealing"}
		}
		if err != nil {
			return nil, err
		}
		one := Released{Record: newQuarantined(held[0]), TenantID: api.SystemTenant}
		if api.IsID(api.PrefixTenant, one.Record.TenantID) {
			one.TenantID = one.Record.TenantID
			if err := q.refuseSealed(ctx, at, &one.Record); err != nil {
				return nil, err
			}
		}
		all = append(all, one)
	}
	err := q.db.Change(ctx, func(tx *store.Tx) error {
		for _, one := range all {
			if err := one.emit(ctx, tx, reason, by); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = q.awaitLoaded(ctx, all)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot release quarantined records: %w", err)
	}
	for _, one := range all {
		q.cfg.Logger.Warn("a quarantined record was released", "tenantId", one.Record.TenantID, "eventId", one.Record.EventID,
			"position", one.Record.Position, "setAsideReason", one.Record.Reason, "reason", reason)
	}
	return all, nil
}

// refuseSealed returns STATE_CONFLICT if a pack holds the record's event, at its position: a release would
// delete the row, and the pack counts it.
func (q *quarantine) refuseSealed(ctx context.Context, at sealer.Position, record *Quarantined) error {
	p, found, err := packAt(ctx, q.db.Read(), record.TenantID, at)
	if err != nil || !found || at.Compare(p.First) < 0 {
		return err
	}
	id, err := eventULID(record.EventID)
	if err != nil {
		return nil // no entry has such an id
	}
	all, err := q.leavesOf(ctx, p)
	if leaf, ok := all.leaf(id); err == nil && ok {
		err = api.Conflict(fmt.Sprintf("the event at %s is entry %d of the log, which pack %s holds, so it can't be released: load the log into a new warehouse, once it has the record as it was sealed", at, leaf, p.ID))
	}
	return err
}

// emit emits the event of a release.
func (one *Released) emit(ctx context.Context, tx *store.Tx, reason string, by sealer.Ref) error {
	return tx.EmitRecord(ctx, eventReleased, sealer.Event{
		TenantID: one.TenantID, Actor: by, Subject: sealer.Ref{Kind: pipeline.KindRecord, ID: one.Record.Position},
	}, RecordReleased{one.Record.EventID, one.Record.Position, reason, one.Record.Reason, one.Record.SHA256})
}

// awaitLoaded waits until the warehouse has the events of releases.
func (q *quarantine) awaitLoaded(ctx context.Context, all []Released) error {
	waited := map[string]bool{}
	for _, one := range all {
		if waited[one.TenantID] {
			continue
		}
		waited[one.TenantID] = true
		at, _, err := q.catchUp(ctx, one.TenantID, 0)
		if err == nil && at.short() {
			err = errBehind
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mostListed is how many records a list holds.
const mostListed = 500

// OperatorRoutes adds the operators' operations to the API of the admin listener.
func (q *quarantine) OperatorRoutes(a route.API) {
	route.Add(a, route.Operation{ID: "list-quarantined", Method: http.MethodGet, Path: "/admin/quarantine", Tag: "Operator", Access: route.Operator{},
		Summary: "List the quarantined records that hold sealing"}, func(ctx context.Context, _ *struct{}) (QuarantinedList, error) {
		return q.ListQuarantined(ctx, mostListed)
	})
	route.Add(a, route.Operation{ID: "release-quarantined", Method: http.MethodPost, Path: "/admin/quarantine/release", Tag: "Operator", Access: route.Operator{},
		Summary: "Permanently release quarantined records, all of them or none"}, q.ReleaseNamed)
}

// ReleaseRequest names the records of a release.
type ReleaseRequest struct {
	Body struct {
		Positions []string `json:"positions" minItems:"1" maxItems:"500" maxLength:"64"`
		Reason    string   `json:"reason" minLength:"1" maxLength:"512" doc:"Kept in the audit log permanently: no place for personal data."`
	}
}

// Releases is the response to a release.
type Releases struct {
	Released []Released `json:"released"`
}

// ReleaseNamed releases records for an operator.
func (q *quarantine) ReleaseNamed(ctx context.Context, in *ReleaseRequest) (Releases, error) {
	var positions []sealer.Position
	for _, text := range in.Body.Positions {
		at, err := sealer.ParsePosition(text)
		if err != nil {
			return Releases{}, api.InvalidField("positions", fmt.Sprintf("%q is not a position of this log", text))
		}
		if !slices.Contains(positions, at) {
			positions = append(positions, at)
		}
	}
	all, err := q.Release(ctx, positions, in.Body.Reason, store.ByOperator())
	return Releases{all}, err
}

// heldGauge queries the warehouse when it is scraped, so the value is right after a restart and in
// every process. While the warehouse is unavailable there is no value.
type heldGauge struct {
	archive *archive
	desc    *prometheus.Desc
}

func newHeldGauge(a *archive) *heldGauge {
	return &heldGauge{a, prometheus.NewDesc("muniment_proof_held_records", "Quarantined records that hold sealing until an operator releases them.", nil, nil)}
}

// Describe implements prometheus.Collector.
func (g *heldGauge) Describe(to chan<- *prometheus.Desc) { to <- g.desc }

// Collect implements prometheus.Collector.
func (g *heldGauge) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, n, err := g.archive.warehouse.Held(ctx, pipeline.HeldQuery{}); err == nil {
		to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(n))
	}
}

// verify returns why a row must not be sealed, or nil: a part of the record that is in no pack
// contradicts the event, or in finds a fault other than an entry later than the seal, for which a
// later seal is enough. The builder of a pack reports only the first entry that fails.
func verify(row *pipeline.Row, in *pack.Inspector) error {
	if _, _, err := sealer.CheckRecord(&row.Record); err != nil {
		return err
	}
	f := in.Inspect(row.Record.Event)[0]
	if f.Code == "" || f.Code == sealer.EntryAfterSeal {
		return nil
	}
	return fmt.Errorf("%s: %w", f.Code, f.Err)
}

// quarantinedOf converts a row that can't be verified into a quarantined record.
func quarantinedOf(row *pipeline.Row, fault error) pipeline.Quarantined {
	return pipeline.Quarantined{
		Position: row.Position, TenantID: row.TenantID, EventID: row.EventID,
		Reason: fault.Error(), Record: sealer.AppendRecord(nil, &row.Record),
	}
}

// quarantineRows quarantines rows of one tenant that could not be verified, which holds its sealing
// from now on. It doesn't change the position of the partition's loader.
func (s *packer) quarantineRows(ctx context.Context, quarantined []pipeline.Quarantined) error {
	partition := quarantined[0].Position.Partition
	next, _, err := s.warehouse.Resume(ctx, partition)
	if err == nil {
		err = s.warehouse.Load(ctx, pipeline.Batch{Partition: partition, From: next, Quarantined: quarantined, Next: next})
	}
	if err != nil {
		return fmt.Errorf("cannot quarantine %d records that can't be verified: %w", len(quarantined), err)
	}
	s.metrics.forged.Add(float64(len(quarantined)))
	for _, a := range quarantined {
		s.cfg.Logger.Error("quarantined record: it can't be verified",
			"tenantId", a.TenantID, "eventId", a.EventID, "position", a.Position.String(), "reason", a.Reason)
	}
	return nil
}
