package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment/control"
	"muniment/control/beacon"
	"muniment/control/challenge"
	"muniment/control/ingest"
	"muniment/control/meter"
	"muniment/control/node"
	"muniment/control/offer"
	"muniment/control/proof"
	"muniment/control/right"
	"muniment/control/sandbox"
	"muniment/control/settle"
	"muniment/control/store"
	"muniment/control/tenant"
	"muniment/gateway"
	"muniment/gateway/auth"
	"muniment/gateway/issue"
	"muniment/pipeline"
	"muniment/pipeline/drift"
	"muniment/sealer"
)

// planeConfig is what the control plane stands on.
type planeConfig struct {
	DB        *store.DB
	Log       pipeline.Log
	Warehouse interface {
		pipeline.Warehouse
		drift.Auditor
	}
	// Data is the folder of keys and packs.
	Data    string
	Bound   time.Duration
	Token   string // of operators
	Sandbox sandbox.Flags
	Seal    sealFlags
	LogKeep time.Duration // 0: 7 days
	// SealWorkers is proof.Config.Workers.
	SealWorkers func() int
	// Shared says that other processes may have the same database.
	Shared     bool
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// sealFlags say when tenants are sealed without being asked for it.
type sealFlags struct {
	SealEvery time.Duration `default:"1h" help:"How old an event may be before its tenant is sealed by itself; 0 is never. Not those of the sandbox's visitors."`
	SealAt    int           `default:"100000" help:"How many events of a tenant may be in no proof pack before it is sealed by itself; 0 is any number." placeholder:"N"`
}

// Validate refuses what would only fail once the service runs.
func (f *sealFlags) Validate() error {
	if f.SealEvery < 0 || f.SealAt < 0 {
		return errors.New("--seal-every and --seal-at must not be negative")
	}
	return nil
}

// plane is control with all of its rooms.
type plane struct {
	*control.Control
	cfg     planeConfig
	nodes   *node.Room
	packs   *proof.Room
	tenants *tenant.Room
	ingest  *ingest.Room
	sandbox *sandboxNode
	held    *heldNode
}

// openFor has an issuer of this process deliver for the sandbox, and the held rows.
func (p *plane) openFor(i *issue.Issuer) {
	p.sandbox.open(i, never)
	p.held.open(i, never)
}

// openPlane opens the rooms, each with those that it builds on.
func openPlane(ctx context.Context, cfg planeConfig) (*plane, error) {
	nodes, err := node.New(ctx, node.Config{
		DB: cfg.DB, LastSeal: proof.LastSeal, Dir: filepath.Join(cfg.Data, "keys"), Bound: cfg.Bound, Logger: cfg.Logger, Registerer: cfg.Registerer,
	})
	if err != nil {
		return nil, err
	}
	rights, err := right.New(right.Config{DB: cfg.DB, Nodes: nodes})
	if err != nil {
		return nil, err
	}
	offers, err := offer.New(offer.Config{DB: cfg.DB, Registerer: cfg.Registerer})
	if err != nil {
		return nil, err
	}
	challenges, err := challenge.New(challenge.Config{DB: cfg.DB, Nodes: nodes})
	if err != nil {
		return nil, err
	}
	var tenants *tenant.Room
	packs, err := proof.New(proof.Config{
		DB: cfg.DB, Warehouse: cfg.Warehouse, Log: cfg.Log, Keys: nodes, Nodes: nodes, Purpose: tenant.PackPurpose, Rate: settle.Rate, Dir: filepath.Join(cfg.Data, "packs"),
		Tenants: func(ctx context.Context) ([]string, error) {
			return tenants.TenantIDs(ctx, sealer.PackPurpose(false))
		},
		SealEvery: cfg.Seal.SealEvery, SealAt: cfg.Seal.SealAt, Workers: cfg.SealWorkers, Logger: cfg.Logger, Registerer: cfg.Registerer,
	})
	if err != nil {
		return nil, err
	}
	metering, err := meter.New(meter.Config{Warehouse: cfg.Warehouse, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	tenants, err = tenant.New(tenant.Config{DB: cfg.DB, Nodes: nodes, Counters: tenant.Counters{
		Bases: rights.CountBases, Rights: rights.CountRights, Offers: offers.Count, Challenges: challenges.Count,
		ProofPacks: packs.CountPacks, Events: packs.CountEvents,
	}})
	if err != nil {
		return nil, err
	}
	beacons, err := beacon.New(beacon.Config{DB: cfg.DB, Keys: nodes})
	if err != nil {
		return nil, err
	}
	issuer := newSandboxNode(tenants.IsSandbox)
	held := newHeldNode(issuer)
	mappings, err := ingest.New(ingest.Config{DB: cfg.DB, Nodes: nodes, Deliver: held.Deliver, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	var ctl *control.Control
	rooms := []control.Room{nodes, tenants, rights, offers, challenges, packs, metering, mappings, beacons}
	check, queueCheck, err := driftCheck(cfg, packs)
	if err != nil {
		return nil, err
	}
	sweeps := []control.Sweep{
		{Name: "expire offers", Every: time.Second, Do: offers.Expire},
		{Name: "renew the directory key", Every: time.Minute, Do: nodes.Renew},
		{Name: "expire held rows", Every: time.Minute, Do: mappings.Expire},
		queueCheck,
	}
	if every := packs.DueEvery(); every > 0 {
		sweeps = append(sweeps, control.Sweep{Name: "seal what is due", Every: every, Do: packs.SealDue})
	}
	workers := []control.Worker{
		{Kind: proof.DropJob, Do: packs.RunDrop, AtOnce: 1},
		{Kind: ingest.ReplayJob, Do: mappings.Replay, Attempts: ingest.ReplayAttempts},
		check,
	}
	var visitors *sandbox.Room
	if cfg.Sandbox.Tenants > 0 {
		visitors, err = sandbox.New(ctx, sandbox.Config{
			DB: cfg.DB, Tables: control.Tables, Keys: nodes,
			Ask: func(ctx context.Context, caller auth.Principal, method, target string, body []byte) (int, []byte, error) {
				return ctl.Ask(ctx, caller, method, target, body)
			},
			Deliver: issuer.Deliver, CountPacks: packs.CountPacks, DropPacks: packs.Drop, MaxTenants: int64(cfg.Sandbox.Tenants),
			Bytes: cfg.Sandbox.Bytes, MinFree: cfg.Sandbox.Free, Free: func() (int64, error) { return store.Free(cfg.Data) }, LogKeep: cfg.LogKeep,
			Limits: cfg.Sandbox.Limits, Shared: cfg.Shared, Idle: cfg.Sandbox.Idle, Logger: cfg.Logger,
		})
		if err != nil {
			return nil, err
		}
		rooms = append(rooms, visitors)
		sweeps = append(sweeps, control.Sweep{Name: "drop the sandbox's idle tenants", Every: time.Minute, Do: visitors.Evict})
	}
	ctl, err = control.New(control.Config{
		DB: cfg.DB, Nodes: nodes, Tenants: tenants, Ingest: mappings, Packs: packs, Sandbox: visitors, Log: cfg.Log, Rooms: rooms, Sweeps: sweeps, Workers: workers,
		AdminToken: cfg.Token, Logger: cfg.Logger, Registerer: cfg.Registerer,
	})
	if err != nil {
		return nil, err
	}
	return &plane{ctl, cfg, nodes, packs, tenants, mappings, issuer, held}, nil
}

// notes tell operators how far the warehouse is, what holds sealing, and for how
// long the root has delegated: each may be amiss while requests are answered.
func (p *plane) notes(log pipeline.Reader, warehouse pipeline.Sink) []gateway.Note {
	return []gateway.Note{
		{Name: "warehouse", Tell: func(ctx context.Context) (string, error) { return loadedUpTo(ctx, log, warehouse) }},
		{Name: "sealing", Tell: p.packs.Holds},
		{Name: "delegation", Tell: p.nodes.Delegated},
	}
}

// loadedUpTo names the position behind what is loaded of each partition.
func loadedUpTo(ctx context.Context, log pipeline.Reader, warehouse pipeline.Sink) (string, error) {
	n, err := log.Partitions(ctx)
	var ends []string
	for partition := range int32(n) {
		next, loaded, away := warehouse.Resume(ctx, partition)
		if err = away; err != nil {
			break
		}
		if loaded {
			ends = append(ends, next.String())
		}
	}
	if err != nil || len(ends) == 0 {
		return "holds nothing yet", err
	}
	return "loaded up to " + strings.Join(ends, ", "), nil
}

// behind tells how far a loader of this process is.
func behind(loader *pipeline.Loader) gateway.Note {
	return gateway.Note{Name: "loader", Tell: func(ctx context.Context) (string, error) {
		lag, err := loader.Lag(ctx)
		return fmt.Sprintf("%d records behind the log", lag), err
	}}
}

// replays are the rooms whose records an event may stop or end.
func replays() []store.Replay {
	return []store.Replay{
		{Kinds: []string{"right"}, Newest: true, Final: right.IsRevoked, Apply: right.Replay},
		{Kinds: []string{"offer"}, Newest: true, Apply: offer.Replay},
		{Kinds: []string{"challenge"}, Newest: true, Apply: challenge.Replay},
		{Kinds: []string{"key"}, Newest: true, Final: tenant.IsRevoked, Apply: tenant.Replay},
		{Kinds: []string{"signing_key", "node"}, Apply: node.Replay},
		{Kinds: []string{"tenant", "sandbox"}, Apply: sandbox.Replay(control.Tables)},
	}
}
