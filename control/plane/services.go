package plane

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/control"
	"muniment.example/control/access"
	"muniment.example/control/beacon"
	"muniment.example/control/challenge"
	"muniment.example/control/console"
	"muniment.example/control/dispute"
	"muniment.example/control/dsar"
	"muniment.example/control/erasure"
	"muniment.example/control/event"
	"muniment.example/control/ingest"
	"muniment.example/control/mailer"
	"muniment.example/control/member"
	"muniment.example/control/meter"
	"muniment.example/control/node"
	"muniment.example/control/objects"
	"muniment.example/control/offer"
	"muniment.example/control/operator"
	"muniment.example/control/paper"
	"muniment.example/control/payable"
	"muniment.example/control/payeelink"
	"muniment.example/control/playground"
	"muniment.example/control/proof"
	"muniment.example/control/requests"
	"muniment.example/control/reserve"
	"muniment.example/control/right"
	"muniment.example/control/rollback"
	"muniment.example/control/sandbox"
	"muniment.example/control/settle"
	"muniment.example/control/signing"
	"muniment.example/control/statement"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/control/verifier"
	"muniment.example/control/webhook"
	"muniment.example/gateway/auth"
	"muniment.example/pipeline"
	"muniment.example/pipeline/segment"
)

// services are the services of control.
type services struct {
	keys       *signing.Service
	nodes      *node.Service
	rights     *right.Service
	offers     *offer.Service
	challenges *challenge.Service
	disputes   *dispute.Service

	packs      *proof.Service
	events     *event.Service
	metering   *meter.Service
	settlement *settle.Service
	statements *statement.Service
	payables   *payable.Service
	payees     *payeelink.Service
	hooks      *webhook.Service

	mails     *mailer.Mails
	requests  *requests.Service
	tenants   *tenant.Service
	members   *member.Service
	ingest    *ingest.Service
	beacons   *beacon.Service
	exports   *dsar.Service
	erased    *erasure.Service
	visitors  *sandbox.Service // nil without a sandbox
	access    *access.Service  // without a sandbox for operators alone
	operators *operator.Service
	console   *console.Service
	play      *playground.Service
	watched   *playground.Feed // what play's streams show
	verifier  *verifier.Service
}

// all are the services whose operations and tables control has.
func (s *services) all() []control.Service {
	all := []control.Service{
		s.keys, s.tenants, s.requests, s.members, s.rights, s.offers, s.challenges, s.disputes, s.packs, s.events, s.metering, s.ingest, s.beacons, s.hooks, s.settlement, s.statements, s.payables, s.payees, s.erased, s.exports, s.verifier,
	}
	if s.visitors != nil {
		all = append(all, s.visitors, s.play, s.access)
	}
	return append(all, s.console) // which reads what the others declare
}

// openRights opens the services that decide who may deliver what.
func (p *Plane) openRights(ctx context.Context) (err error) {
	cfg := &p.cfg
	p.keys, err = signing.New(ctx, signing.Config{
		DB: cfg.DB, LastSeal: proof.LastSeal, Dir: filepath.Join(cfg.Data, "keys"), OwnFolder: cfg.OwnKeys, Logger: cfg.Logger, Registerer: cfg.Registerer,
	})
	if err != nil {
		return err
	}
	if p.nodes, err = node.New(ctx, node.Config{DB: cfg.DB, Keys: p.keys, LeaseBound: cfg.LeaseBound, NodeCA: cfg.NodeCA, OwnNodes: cfg.Embedded, Logger: cfg.Logger, Registerer: cfg.Registerer}); err != nil {
		return err
	}
	if p.rights, err = right.New(right.Config{DB: cfg.DB, Nodes: p.nodes}); err != nil {
		return err
	}
	if p.offers, err = offer.New(offer.Config{DB: cfg.DB, Registerer: cfg.Registerer}); err != nil {
		return err
	}
	if p.challenges, err = challenge.New(challenge.Config{DB: cfg.DB, Nodes: p.nodes}); err != nil {
		return err
	}
	p.disputes, err = dispute.New(dispute.Config{DB: cfg.DB, Warehouse: cfg.Warehouse, AwaitLoaded: func(ctx context.Context, tenantID string) error {
		return p.packs.AwaitLoaded(ctx, tenantID)
	}, HeldAmount: func(ctx context.Context, tenantID string, x *dispute.Exclusion) ([]dispute.Amount, error) {
		amounts, err := p.statements.HeldAmount(ctx, tenantID, x)
		if err != nil && ctx.Err() == nil { // the dispute is answered all the same
			cfg.Logger.WarnContext(ctx, "cannot say what a dispute holds", "tenantId", tenantID, "disputeId", x.ID, "err", err)
		}
		return amounts, err
	}, Worth: func(ctx context.Context, tenantID string, deliveries []pipeline.Row) ([][]dispute.Amount, error) {
		worth, err := p.statements.Worth(ctx, tenantID, deliveries)
		if err != nil && ctx.Err() == nil { // the dispute is answered all the same
			cfg.Logger.WarnContext(ctx, "cannot say what disputed plays are worth", "tenantId", tenantID, "err", err)
		}
		return worth, err
	}, Stated: statement.StatedPeriods})
	return err
}

// openEvidence opens the services that prove, count and settle deliveries.
func (p *Plane) openEvidence(ctx context.Context) (err error) {
	cfg := &p.cfg
	p.packs, err = proof.New(ctx, proof.Config{
		DB: cfg.DB, Warehouse: cfg.Warehouse, Log: cfg.Log, Keys: p.keys, Nodes: p.nodes, Purpose: tenant.PackPurpose, Rate: settle.Rating.Rate, Packs: cfg.Packs, Dir: cfg.PacksDir,
		Tenants: func(ctx context.Context) ([]string, error) { return p.tenants.Lasting(ctx) }, SealEvery: cfg.Flags.Seal.SealEvery, SealAt: cfg.Flags.Seal.SealAt, Workers: cfg.SealWorkers, Logger: cfg.Logger, Registerer: cfg.Registerer, Tracer: cfg.Tracer,
	})
	if err != nil {
		return err
	}
	if p.events, err = event.New(event.Config{DB: cfg.DB, Warehouse: cfg.Warehouse, Log: cfg.Log, Packs: p.packs, Kinds: control.Kinds, Logger: cfg.Logger}); err != nil {
		return err
	}
	if p.metering, err = meter.New(meter.Config{Sums: p.packs.Sums, Warehouse: cfg.Warehouse, Log: cfg.Log, Scopes: p.packs.Scopes, Logger: cfg.Logger}); err != nil {
		return err
	}
	if p.settlement, err = settle.New(settle.Config{DB: cfg.DB}); err != nil {
		return err
	}
	if p.payables, err = payable.New(cfg.DB); err != nil {
		return err
	}
	p.statements, err = statement.New(statement.Config{DB: cfg.DB, Sums: p.packs.Sums, Checked: p.packs.Sums.Checked(), Warehouse: cfg.Warehouse, Log: cfg.Log, Packs: p.packs, Keys: p.keys, Titles: p.titles, Purpose: tenant.PackPurpose})
	if err != nil {
		return err
	}
	p.payees, err = payeelink.New(payeelink.Config{DB: cfg.DB, Statements: p.statements, Log: evidence{cfg.Warehouse, p.packs}, PublicURL: cfg.Flags.publicURL(cfg.Listening), Logger: cfg.Logger})
	if err != nil {
		return err
	}
	egress, err := webhook.NewEgress(cfg.Flags.Webhook.Allow)
	if err != nil {
		return err
	}
	p.hooks, err = webhook.New(webhook.Config{DB: cfg.DB, Log: cfg.Log, Warehouse: cfg.Warehouse, Keys: p.keys, Kinds: control.Kinds, Scopes: member.ScopesInForce, Egress: egress, Logger: cfg.Logger, Registerer: cfg.Registerer, Tracer: cfg.Tracer})
	return err
}

// openTenants opens the tenants' other services, and those with personal data.
func (p *Plane) openTenants(ctx context.Context) (err error) {
	cfg := &p.cfg
	if p.requests, err = requests.New(cfg.DB); err != nil {
		return err
	}
	p.tenants, err = tenant.New(tenant.Config{DB: cfg.DB, Nodes: p.nodes, LastUsed: p.requests.LastUsed, Ended: p.hooks.KeyEnded, Withdraw: member.Withdraw, Made: member.First, Scopes: member.ScopesInForce, Counters: tenant.Counters{
		Bases: p.rights.CountBases, Rights: p.rights.CountRights, Offers: p.offers.Count, Challenges: p.challenges.Count,
		ProofPacks: p.packs.CountPacks, Events: p.events.Count,
	}})
	if err != nil {
		return err
	}
	server, err := cfg.Flags.Mail.server(cfg.Logger, cfg.Registerer)
	if err != nil {
		return err
	}
	p.mails = &mailer.Mails{Server: server, Outbox: filepath.Join(cfg.Data, "outbox")}
	provider, err := cfg.Flags.OIDC.provider(cfg.Flags.publicURL(cfg.Listening), cfg.Logger, cfg.Registerer)
	if err != nil {
		return err
	}
	p.members, err = member.New(member.Config{
		DB: cfg.DB, PublicURL: cfg.Flags.publicURL(cfg.Listening), Mails: p.mails, Provider: provider, Shared: cfg.Shared, Ended: p.hooks.KeyEnded, Logger: cfg.Logger,
		Failed: func(code string, final bool, err error) error {
			return &control.JobFailure{Code: code, Final: final, Err: err}
		},
	})
	if err != nil {
		return err
	}
	if p.beacons, err = beacon.New(beacon.Config{DB: cfg.DB, Keys: p.keys}); err != nil {
		return err
	}
	bundles, err := objects.Open(cmp.Or(cfg.Flags.Exports.Bundles, filepath.Join(cfg.Data, "bundles")), dsar.BundleType)
	if err != nil {
		return fmt.Errorf("cannot open the place of bundles: %w", err)
	}
	p.exports, err = dsar.New(dsar.Config{
		DB: cfg.DB, Warehouse: cfg.Warehouse, Log: cfg.Log, Keys: p.keys, Nodes: p.nodes, Bundles: bundles, Keep: cfg.Flags.Exports.BundleKeep, Logger: cfg.Logger,
		Tables: control.Tables, Scopes: member.ScopesInForce, Failed: func(code string, err error) error { return &control.JobFailure{Code: code, Err: err} },
	})
	if err != nil {
		return err
	}
	p.erased, err = erasure.New(ctx, erasure.Config{
		Statements: statement.Naming, Followed: payeelink.ErasedKinds, Erased: p.forget,
		DB: cfg.DB, Warehouse: cfg.Warehouse, Keys: p.keys, Purpose: tenant.PackPurpose, Tables: control.Tables, Bundles: p.exports, LogKeep: cfg.LogKept,
		CopiesKeep: KeptFor(segment.LeastKeep),
	})
	if err != nil {
		return err
	}
	p.ingest, err = ingest.New(ingest.Config{DB: cfg.DB, Nodes: p.nodes, Deliver: p.deliverHeld, Erased: p.erased.Covers, RowAge: cfg.RowAge, Logger: cfg.Logger})
	return err
}

// evidence finds events and proves them.
type evidence struct {
	pipeline.Warehouse
	*proof.Service
}

// forget does what follows when a person was erased who may be a member, or a payee with a link.
func (p *Plane) forget(ctx context.Context, tx *store.Tx, tenantID string, rows map[string]int64, ids []string) error {
	if err := p.members.Erased(ctx, tx, tenantID, rows); err != nil {
		return err
	}
	return p.payees.Erased(ctx, tx, tenantID, ids)
}

// openSandbox opens the sandbox and its page, if they are enabled.
func (p *Plane) openSandbox(ctx context.Context) (err error) {
	cfg := &p.cfg
	p.watched = playground.NewFeed()
	if cfg.Flags.Sandbox.Tenants == 0 {
		return nil
	}
	p.visitors, err = sandbox.New(ctx, sandbox.Config{
		DB: cfg.DB, Tables: control.Tables, Keys: p.keys,
		Call: func(ctx context.Context, caller auth.Principal, method, target string, body []byte) (int, []byte, error) {
			return p.Call(ctx, caller, method, target, body)
		},
		Deliver: p.watched.Watch(p.deliverSandbox), Dropped: p.watched.Dropped, CountPacks: p.packs.CountPacks, DropPacks: p.packs.Drop, MaxTenants: int64(cfg.Flags.Sandbox.Tenants),
		Events: cfg.Flags.Sandbox.Events, MinFree: cfg.Flags.Sandbox.Free, Free: func() (int64, error) { return reserve.Free(cfg.Data) }, LogKeep: cfg.LogKeep,
		Limits: cfg.Flags.Sandbox.Limits, Shared: cfg.Shared, Idle: cfg.Flags.Sandbox.Idle, Logger: cfg.Logger,
	})
	if err != nil {
		return err
	}
	p.play, err = playground.New(playground.Config{Visitors: p.visitors, Feed: p.watched})
	return err
}

// openAccess opens the service by which strangers get keys of the sandbox.
func (p *Plane) openAccess(context.Context) (err error) {
	cfg := &p.cfg
	p.access, err = access.New(access.Config{
		DB: cfg.DB, PublicURL: cfg.Flags.publicURL(cfg.Listening), Mails: p.mails, Shared: cfg.Shared, Logger: cfg.Logger,
		Failed: func(code string, final bool, err error) error {
			return &control.JobFailure{Code: code, Final: final, Err: err}
		},
	})
	return err
}

// openOperators opens the operators' page, and the one on which anyone verifies files.
func (p *Plane) openOperators(context.Context) (err error) {
	cfg := &p.cfg
	p.drifts = prometheus.NewRegistry()
	if p.verifier, err = verifier.New(); err != nil {
		return err
	}
	p.operators, err = operator.New(operator.Config{
		Nodes: p.nodes, Packs: p.packs, Access: p.access, Log: cfg.Log, Warehouse: cfg.Warehouse, Drift: p.drifts, Checking: p.checking.Load, Secure: cfg.AdminTLS,
	})
	return err
}

// openConsole opens the tenants' pages.
func (p *Plane) openConsole(context.Context) (err error) {
	p.console, err = console.New(console.Config{
		Members: p.members, Kinds: control.Kinds, PublicURL: p.cfg.Flags.publicURL(p.cfg.Listening), Logger: p.cfg.Logger,
		SealEvery: p.cfg.Flags.Seal.SealEvery, SealAt: p.cfg.Flags.Seal.SealAt,
		Call: func(ctx context.Context, caller auth.Principal, method, target string, body []byte) (int, []byte, error) {
			return p.Call(ctx, caller, method, target, body)
		},
		CallOnce: func(ctx context.Context, caller auth.Principal, key, method, target string, body []byte) (int, []byte, error) {
			return p.CallOnce(ctx, caller, key, method, target, body)
		},
		Serve: func(w http.ResponseWriter, ctx context.Context, caller auth.Principal, method, target string) error {
			return p.Serve(w, ctx, caller, method, target)
		},
	})
	return err
}

// sweeps are control's periodic tasks. A warehouse may keep a copy of the sums of packs.
func (s *services) sweeps(warehouse any) []control.Sweep {
	all := []control.Sweep{
		{Name: "expire offers", Every: time.Second, Do: s.offers.Expire},
		{Name: "end the keys of nodes that are silent for long", Every: 10 * time.Minute, Do: s.nodes.EndSilent},
		{Name: "renew the directory key", Every: time.Minute, Do: s.keys.Renew},
		{Name: "announce erasures to the warehouse", Every: 10 * time.Second, Do: s.erased.Announce},
		{Name: "expire held rows", Every: time.Minute, Do: s.ingest.Expire},
		{Name: "deliver held rows whose right is resumed", Every: 5 * time.Second, Do: s.ingest.Wake},
		{Name: "queue the webhooks' scan of the log", Every: 10 * time.Minute, Do: s.hooks.Enqueue},
		{Name: "look after the webhooks' deliveries", Every: time.Minute, Do: s.hooks.Sweep},
		{Name: "erase applications for access that are over", Every: time.Minute, Do: s.access.Expire},
		{Name: "forget sessions that have ended", Every: 10 * time.Minute, Do: s.members.Forget},
		{Name: "write which keys were used and which requests were refused", Every: requests.WriteEvery, Do: s.requests.Write},
		{Name: "forget requests that were refused a day ago", Every: time.Minute, Do: s.requests.Forget},
		{Name: "forget the uses of keys that are gone", Every: time.Hour, Do: s.requests.ForgetUses},
		{Name: "note what the operators' page charts", Every: operator.NoteEvery, Do: s.operators.Note},
		{Name: "expire bundles", Every: time.Minute, Do: s.exports.Expire},
		{Name: "delete the bundles that no job has", Every: time.Hour, Do: s.exports.Sweep},
	}
	all = append(all, control.Sweep{Name: "merge the sums of packs", Every: proof.MergeEvery, Do: s.packs.Sums.MergeSums})
	if keeper, ok := warehouse.(pipeline.PackSumKeeper); ok {
		all = append(all, control.Sweep{Name: "copy the sums of packs to the warehouse", Every: proof.CopyEvery, Do: s.packs.Sums.Copier(keeper).Copy})
	}
	if every := s.packs.DueEvery(); every > 0 {
		all = append(all, control.Sweep{Name: "seal what is due", Every: every, Do: s.packs.SealDue})
	}
	if s.visitors != nil {
		all = append(all, control.Sweep{Name: "drop the sandbox's idle tenants", Every: time.Minute, Do: s.visitors.Evict})
	}
	return all
}

// workers do the jobs.
func (s *services) workers() []control.Worker {
	return []control.Worker{
		{Kind: proof.DropJob, Do: s.packs.RunDrop, AtOnce: 1},
		{Kind: ingest.ReplayJob, Do: s.ingest.Replay, Attempts: ingest.ReplayAttempts},
		{Kind: erasure.EraseJob, Do: s.erased.Erase, Attempts: erasure.EraseAttempts},
		{Kind: webhook.QueueJob, Do: s.hooks.Queue, AtOnce: 1, Attempts: math.MaxInt},
		{Kind: webhook.RecoverJob, Do: s.hooks.Recover},
		{Kind: member.AdmitJob, Do: s.members.Admit, AtOnce: 1, Attempts: math.MaxInt},
		{Kind: member.MailJob, Do: s.members.SendMail, Attempts: member.MailAttempts},
		{Kind: access.AdmitJob, Do: s.access.Admit, AtOnce: 1, Attempts: math.MaxInt},
		{Kind: access.MailJob, Do: s.access.SendMail, Failed: s.access.GiveUpMail, Attempts: access.MailAttempts},
		{Kind: dsar.ExportJob, Do: s.exports.Export, Failed: s.exports.GiveUp, AtOnce: 1, Attempts: dsar.Attempts},
	}
}

// titles are how papers name rights.
func (p *Plane) titles(ctx context.Context, tenantID string, rightIDs []string) (map[string]paper.Right, error) {
	all, err := p.rights.Titles(ctx, tenantID, rightIDs)
	named := make(map[string]paper.Right, len(all))
	for id, t := range all {
		named[id] = paper.Right(t)
	}
	return named, err
}

// Replays are the services whose records are restored from events that are newer than the
// database.
func Replays() []rollback.Replay {
	return []rollback.Replay{
		{Kinds: []string{"right"}, Missed: true, Apply: right.ReplayMove},
		{Kinds: []string{"right"}, Newest: true, Final: right.IsRevoked, Apply: right.Replay},
		{Kinds: []string{"offer"}, Newest: true, Apply: offer.Replay},
		{Kinds: []string{"challenge"}, Newest: true, Apply: challenge.Replay},
		{Kinds: []string{"dispute"}, Newest: true, Apply: dispute.Replay},
		{Kinds: []string{"counterparty", "settlement_rule"}, Newest: true, Apply: settle.Replay},
		{Kinds: []string{"statement"}, Newest: true, Apply: statement.Replay},
		{Kinds: []string{"payable"}, Newest: true, Apply: payable.Replay},
		{Kinds: []string{"issuer"}, Newest: true, Apply: payable.ReplayIssuer},
		{Kinds: []string{"payee_link"}, Newest: true, Apply: payeelink.Replay},
		{Kinds: []string{"mapping"}, Newest: true, Missed: true, Apply: ingest.ReplayMapping},
		{Kinds: []string{"webhook"}, Newest: true, Apply: webhook.Replay},
		{Kinds: []string{"key"}, Newest: true, Final: tenant.IsRevoked, Apply: tenant.Replay},
		{Kinds: []string{"member"}, Newest: true, Apply: member.Replay},
		{Kinds: []string{"signing_key"}, Apply: signing.Replay},
		{Kinds: []string{"node"}, Apply: node.Replay},
		{Kinds: []string{"erasure"}, Apply: erasure.Replay},
		{Kinds: []string{"application"}, Newest: true, Apply: access.Replay},
		{Kinds: []string{"tenant", "sandbox"}, Apply: sandbox.Replay(control.Tables)},
	}
}
