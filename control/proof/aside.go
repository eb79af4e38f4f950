package proof

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment/control/route"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/pipeline"
	"muniment/sealer"
)

// SetAside is a record that holds sealing, as an operator sees it.
type SetAside struct {
	Position string `json:"position"`
	TenantID string `json:"tenantId" doc:"What the record names; empty if that can't be read: it then holds its whole partition."`
	EventID  string `json:"eventId" doc:"What the record names; may be empty."`
	Reason   string `json:"reason" doc:"The check that failed."`
	SHA256   string `json:"sha256" doc:"Of the record as the log has it, base64url."`
}

// SetAsides is the answer of a list.
type SetAsides struct {
	Records []SetAside `json:"records" doc:"The first of them, in the order of their positions."`
	Total   int64      `json:"total" doc:"How many hold sealing."`
}

// Released is a record that holds sealing no more.
type Released struct {
	Record   SetAside `json:"record"`
	TenantID string   `json:"tenantId" doc:"In whose log the event record.released is."`
}

func newSetAside(s pipeline.SetAside) SetAside {
	return SetAside{
		Position: s.Position.String(), TenantID: s.TenantID, EventID: s.EventID,
		Reason: strings.ToValidUTF8(s.Reason, "\uFFFD"), SHA256: sealer.Hash(sha256.Sum256(s.Record)).String(),
	}
}

// SetAsides lists the records that hold sealing, at most limit of them.
func (r *Room) SetAsides(ctx context.Context, limit int) (SetAsides, error) {
	held, total, err := r.warehouse.Held(ctx, pipeline.HeldQuery{Limit: limit})
	if err != nil {
		return SetAsides{}, err
	}
	list := SetAsides{Records: []SetAside{}, Total: total}
	for _, s := range held {
		list.Records = append(list.Records, newSetAside(s))
	}
	return list, nil
}

// Holds tells an operator whether sealing is held; it changes nothing.
func (r *Room) Holds(ctx context.Context) (string, error) {
	_, total, err := r.warehouse.Held(ctx, pipeline.HeldQuery{})
	if total == 0 {
		return "no record is set aside", err
	}
	return fmt.Sprintf("held for some tenants by records set aside: %d (muniment set-aside list)", total), err
}

// Release lets sealing go on without the records set aside at some positions: they
// never become leaves. That they were there does, by one event record.released each, of
// the tenant that the record names, or of tnt_system: it says where the record stood,
// its hash, why it was set aside, and the operator's reason. The record itself stays in
// the warehouse. All of them are released, or none.
//
// When Release returns nil the hold is gone. After 503 WAREHOUSE_BEHIND or
// LOG_UNAVAILABLE it will be; releasing again does no harm.
func (r *Room) Release(ctx context.Context, positions []sealer.Position, reason string, by sealer.Ref) ([]Released, error) {
	r.releasing.Lock()
	defer r.releasing.Unlock()
	var all []Released
	for _, at := range positions {
		held, _, err := r.warehouse.Held(ctx, pipeline.HeldQuery{At: &at, Limit: 1})
		if err == nil && len(held) == 0 {
			err = &api.Error{Code: api.ResourceNotFound, Message: "no record set aside at " + at.String() + " holds sealing"}
		}
		if err != nil {
			return nil, err
		}
		one := Released{Record: newSetAside(held[0]), TenantID: api.SystemTenant}
		if api.IsID(api.PrefixTenant, one.Record.TenantID) {
			one.TenantID = one.Record.TenantID
		}
		all = append(all, one)
	}
	err := r.db.Change(ctx, func(tx *store.Tx) error {
		for _, one := range all {
			if err := one.tell(ctx, tx, reason, by); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = r.toldOf(ctx, all)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot release records set aside: %w", err)
	}
	for _, one := range all {
		r.cfg.Logger.Warn("a record set aside was released", "tenantId", one.Record.TenantID, "eventId", one.Record.EventID,
			"position", one.Record.Position, "setAsideReason", one.Record.Reason, "reason", reason)
	}
	return all, nil
}

// tell emits the event of a release.
func (one *Released) tell(ctx context.Context, tx *store.Tx, reason string, by sealer.Ref) error {
	return tx.EmitRecord(ctx, sealer.Event{
		TenantID: one.TenantID, Type: pipeline.TypeReleased, Actor: by, Subject: sealer.Ref{Kind: pipeline.KindRecord, ID: one.Record.Position},
	}, map[string]any{
		"eventId": one.Record.EventID, "position": one.Record.Position, "reason": reason,
		"setAsideReason": one.Record.Reason, "sha256": one.Record.SHA256,
	})
}

// toldOf waits until the warehouse has the events of releases.
func (r *Room) toldOf(ctx context.Context, all []Released) error {
	waited := map[string]bool{}
	for _, one := range all {
		if waited[one.TenantID] {
			continue
		}
		waited[one.TenantID] = true
		at, _, err := r.catchUp(ctx, one.TenantID, 0)
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

// OperatorRoutes adds what an operator may do to the API of the admin listener.
func (r *Room) OperatorRoutes(a route.API) {
	route.Add(a, route.Operation{ID: "list-set-aside", Method: http.MethodGet, Path: "/admin/set-aside", Tag: "Operator", Access: route.Operator{},
		Summary: "List the records set aside that hold sealing"}, func(ctx context.Context, _ *struct{}) (SetAsides, error) {
		return r.SetAsides(ctx, mostListed)
	})
	route.Add(a, route.Operation{ID: "release-set-aside", Method: http.MethodPost, Path: "/admin/set-aside/release", Tag: "Operator", Access: route.Operator{},
		Summary: "Let sealing go on without records set aside, for good; all of them or none"}, r.postRelease)
}

type releaseRequest struct {
	Body struct {
		Positions []string `json:"positions" minItems:"1" maxItems:"500" maxLength:"64"`
		Reason    string   `json:"reason" minLength:"1" maxLength:"512" doc:"Kept in the audit log for good: no place for personal data."`
	}
}

// Releases is the answer of a release.
type Releases struct {
	Released []Released `json:"released"`
}

func (r *Room) postRelease(ctx context.Context, in *releaseRequest) (Releases, error) {
	var positions []sealer.Position
	for _, text := range in.Body.Positions {
		at, err := sealer.ParsePosition(text)
		if err != nil {
			return Releases{}, api.InvalidField("positions", fmt.Sprintf("%q is no position of this log", text))
		}
		if !slices.Contains(positions, at) {
			positions = append(positions, at)
		}
	}
	all, err := r.Release(ctx, positions, in.Body.Reason, store.ByOperator())
	return Releases{all}, err
}

// heldGauge asks the warehouse when it is scraped, so that a restart forgets nothing
// and the database of another process counts. While the warehouse is away there is
// no figure.
type heldGauge struct {
	room *Room
	desc *prometheus.Desc
}

func newHeldGauge(r *Room) *heldGauge {
	return &heldGauge{r, prometheus.NewDesc("muniment_proof_held_records", "Records set aside that hold sealing until an operator releases them.", nil, nil)}
}

// Describe implements prometheus.Collector.
func (g *heldGauge) Describe(to chan<- *prometheus.Desc) { to <- g.desc }

// Collect implements prometheus.Collector.
func (g *heldGauge) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, n, err := g.room.warehouse.Held(ctx, pipeline.HeldQuery{}); err == nil {
		to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(n))
	}
}
