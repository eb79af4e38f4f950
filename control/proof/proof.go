// Package proof seals a tenant's events into proof packs, and serves the packs and proofs from them.
//
// A pack is the contiguous slice of the tenant's log since the last pack, in the order of the
// events' lowest log positions, with everything that is needed to verify it offline (see sealer).
// Sealing promises:
//
//   - A seal covers every event that was acknowledged into the log before the call. It drains the
//     outbox, takes the log's end, and waits, bounded, until the warehouse has loaded up to there.
//     The seal before a key's revocation (Vouch) covers all of it, or fails. SealSome may return
//     some packs and more; the caller calls again with upTo until more is false. upTo is what has
//     to be covered, never where a pack ends: a pack ends at the end of the log, when it is full,
//     or at what is loaded while that is fresh (see raggedFor); otherwise a verifier would draw a
//     wrong conclusion. If nothing new could be sealed because the warehouse lacks it, the error is
//     503 WAREHOUSE_BEHIND.
//   - Events are sealed automatically (SealDue) when they are old or many; those of the sandbox's
//     visitors are not.
//   - Records that are only in a node's spool are not in the log. A seal waits briefly for the
//     spools of live nodes, and then names in pending each node that still had records there at its
//     last poll, at most a second ago for a live node. Later packs hold them.
//   - Nothing unverified is sealed. Each event is parsed again and each receipt's signature is
//     checked with the key directory. A record that fails is quarantined in the warehouse, and as
//     long as it holds the tenant, sealing answers 503 QUARANTINED. A revoked key verifies nothing
//     that isn't sealed yet, whenever it was used. An operator may release the record: it never
//     becomes a leaf, but the event of its release does. A fault of one tenant holds no other.
//   - No pack rests on a revoked key alone. Before the key of packs is revoked each tenant is
//     sealed once more by the next key, with or without new events, and proofs of the old packs use
//     a checkpoint by a key that is not revoked. An evicted visitor of the sandbox is an exception:
//     nothing is sealed for its tenant any more, and saved packs fail as key.revoked once the
//     sandbox's key is revoked. The response to that revocation does not name the tenant.
//   - A log never signs two roots of one size. A root is written to the database before it is
//     signed, and stays there; a seal that computes another root of that size, or of any size on
//     the way, fails.
//   - An event is in exactly one pack. The head of a tenant's log moves by
//     compare-and-set, in the transaction that adds the pack and its audit event
//     pack.sealed, so any number of control processes may seal at once.
//   - A pack's settlement follows from the log alone: the rules that the previous pack lists, and
//     those whose events are among its own entries. It uses neither the database's rules nor the
//     clock, so a repeated seal computes the same amounts in any process.
//   - A pack follows from its entries, whatever the warehouse's columns say: its metering and
//     settlement are computed from the events, whose receipts were verified. Only the duplicates of
//     an entry in an earlier pack are read from a column, and a verifier with both packs checks
//     these. So an edited column is in no pack. Metering responses and statements are summed from
//     what packs have by hour and day (Sums), and from columns for the rest; the check for drift
//     (pipeline/drift) and GET /v1/settlement/reconciliation compare columns with the packs. Sealing
//     does not read the log, whose partitions are shared by many tenants: a row that was deleted
//     before it was sealed is in no pack, and is not sealed later, as packs end behind it. The check
//     for drift finds it as long as the log has it.
//   - No entry is younger than its pack: where a node's clock is ahead, the pack is
//     sealed at the moment of its newest entry.
//   - A dropped tenant (Drop) has no packs, and gets none. Its head and its roots stay, so that no
//     other log can be signed for it.
//   - A pack's file is complete, named and on disk, or acknowledged by the bucket, before the head
//     moves, and never changes: it is created once (objects.Place.Create). A crash leaves the old head
//     or the new pack, and at most a file that no pack names, which a start sweeps once the head has
//     passed it.
//
// The response of a seal names every pack that was sealed since the call began, so two calls at
// once get the same. If nothing is new it names the last pack again; before the first event packs
// is empty and pack is null. Events about sealing and reading packs, and counts of refusals, don't
// count as new, since otherwise each seal would make something to seal. The next pack with other
// events holds them.
//
// What the deliveries of a pack add up to, by hour and by day, is counted from its verified entries while
// it is sealed, has to sum to the metering in its header, and is stored in the transaction that moves the
// head (see package sums). Sums answers metering from these, and from the rows of the warehouse what they
// don't hold.
//
// Each download of a pack is an event of the tenant's log, committed before the first byte is sent.
// If it can't be recorded, nothing is sent.
//
// A pack is canonical lines, which are hashed, and served byte for byte as they were sealed. Its
// file holds them compressed with zstd, and is sent compressed to clients that accept this. The
// file is first compared with its hash; a damaged one is logged and answered with 500.
//
// Smaller proofs are available: the inclusion of an event, the growth of the log from one pack to
// another, a run of events (Range). A proof reads as many hashes as the logarithm of the log,
// from the files beside the packs (see nodes), and at most one pack's hashes to find a leaf. It is
// verified against the sealed root before it is served. Those files are a cache: a restore may
// leave them out, a crash may damage them, and a proof that needs them rebuilds them from the
// packs, each of which it reads once. Where packs are in a bucket, each process has such files of
// its own.
//
// State is in the database (heads, roots, packs), in a folder or a bucket (one file a pack), and in
// the process's folder (nodes). In memory there is a lock for each tenant that is being sealed, and
// the schedule of SealDue. While the database or the bucket is unavailable, the disk is full, or the
// rest of it is reserved, the answer is 503 and nothing was changed.
//
// Non-goals: unsealed events, and the operations on events and receipts (see control/event); the
// meaning of rules (see control/settle); statements over packs (see control/statement).
package proof

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/control/objects"
	"muniment.example/control/proof/sums"
	"muniment.example/control/reserve"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/pipeline/trace"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/keyfile"
	"muniment.example/sealer/settlement"
)

// Keys signs packs and has the key directory. control/signing implements it.
type Keys interface {
	// Signer returns the current key of a keydir.PackPurpose.
	Signer(ctx context.Context, purpose string) (*sealer.Signer, error)
	// Vouches reports whether the transaction may still commit a pack signed by the key.
	Vouches(ctx context.Context, tx *store.Tx, keyID string) (bool, error)
	// Directory returns the signed key directory, canonical JSON. It has every key before that key's
	// first use.
	Directory(ctx context.Context) ([]byte, error)
}

// Nodes counts the records in the spools of nodes. control/node implements it.
type Nodes interface {
	// Spooled counts, by node, the acknowledged records that were only in the node's spool at its
	// last poll: for nodes that are live, and for nodes that are silent.
	Spooled(ctx context.Context) (live, silent map[string]int64, err error)
}

// Config of the service. DB, Warehouse, Log, Keys, Rate and Dir are required.
type Config struct {
	DB        *store.DB
	Warehouse pipeline.Warehouse
	// Log is read only for a tenant's partition, and for that partition's end.
	Log  pipeline.Reader
	Keys Keys
	// Nodes counts what is not in the log yet; nil: no node has a spool.
	Nodes Nodes
	// Rate rates packs. It has to be the same in every process, and pure.
	Rate settlement.Rate
	// Purpose returns the keydir.PackPurpose of a tenant, which determines the purpose of its receipts
	// too. It never changes. An error refuses to seal, as for a dropped tenant. It is read again in
	// the transaction that moves the head. Default: no tenant belongs to the sandbox.
	Purpose func(ctx context.Context, q store.Querier, tenantID string) (string, error)
	// Packs keeps the packs. All control processes on one database share it, and nobody else writes to
	// it. Default: Dir.
	Packs objects.Place
	// Dir is the folder of drafts and of the hashes beside the packs; it is created if it is missing. With
	// Packs each process has one of its own.
	Dir string
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Logger; nil is slog.Default.
	Logger *slog.Logger
	// Registerer takes the metrics; nil leaves them unregistered.
	Registerer prometheus.Registerer
	// Tracer traces some seals, and those of requests that are traced; nil traces none.
	Tracer *trace.Tracer
	// WaitFor is how long a seal waits for outbox, spools and warehouse together.
	// Default 10 s.
	WaitFor time.Duration
	// WorkFor is how long SealSome works after waiting. Default 20 s.
	WorkFor time.Duration
	// SpoolWait is how much of WaitFor a seal waits for the spools of live nodes. Default 2 s.
	SpoolWait time.Duration
	// Tenants lists the tenants that SealDue seals. A tenant is sealed once it has had something to
	// seal for SealEvery, or has SealAt such events; 0 means never. Default: none.
	Tenants   func(ctx context.Context) ([]string, error)
	SealEvery time.Duration
	SealAt    int
	// Workers returns how many goroutines verify the receipts of a pack. Default: GOMAXPROCS.
	Workers func() int
	// MaxEntries is the largest number of entries of one pack, 1 to 100,000. Default 100,000.
	MaxEntries int
}

// maxEntries is the largest number of entries that a pack may hold.
const maxEntries = 100_000

func (c *Config) validate() error {
	switch {
	case c.DB == nil:
		return errors.New("field DB is missing")
	case c.Warehouse == nil:
		return errors.New("field Warehouse is missing")
	case c.Log == nil:
		return errors.New("field Log is missing")
	case c.Keys == nil:
		return errors.New("field Keys is missing")
	case c.Rate == nil:
		return errors.New("field Rate is missing")
	case c.Dir == "":
		return errors.New("field Dir is missing")
	case c.WaitFor < 0 || c.WorkFor < 0 || c.SpoolWait < 0:
		return errors.New("none of WaitFor, WorkFor and SpoolWait may be negative")
	case c.SealEvery < 0 || c.SealAt < 0:
		return errors.New("neither SealEvery nor SealAt may be negative")
	case c.MaxEntries < 0 || c.MaxEntries > maxEntries:
		return fmt.Errorf("MaxEntries %d is not from 1 to %d", c.MaxEntries, maxEntries)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Workers == nil {
		c.Workers = func() int { return 0 }
	}
	if c.Purpose == nil {
		c.Purpose = func(context.Context, store.Querier, string) (string, error) { return keydir.PackPurpose(false), nil }
	}
	if c.WaitFor == 0 {
		c.WaitFor = 10 * time.Second
	}
	if c.WorkFor == 0 {
		c.WorkFor = 20 * time.Second
	}
	if c.SpoolWait == 0 {
		c.SpoolWait = 2 * time.Second
	}
	if c.MaxEntries == 0 {
		c.MaxEntries = maxEntries
	}
	return nil
}

// Service seals and serves proof packs. It is safe for concurrent use.
type Service struct {
	*archive
	*packer
	*prover
	*quarantine
	// Sums are what the deliveries of packs add up to, and the rows behind them.
	Sums *Sums
}

// archive is shared by all parts of the service: the packs, and the events that they contain.
type archive struct {
	db        *store.DB
	warehouse pipeline.Warehouse
	log       pipeline.Reader
	keys      Keys
	folder    folder
	cfg       Config
	codec     *sums.Codec
	metrics   *metrics
	watch     spoolWatch
	absent    absences
	unmended  unmendedSums
	// step is called with the name of each step of a seal that can fail, before it; an error fails
	// the step. Tests set it before the first seal.
	step func(name string) error
}

// New returns the service. It creates the folder, and sweeps the files that crashed seals left there; if the bucket of
// packs does not answer, the next start does.
func New(ctx context.Context, cfg Config) (*Service, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("cannot open proof packs: %w", err)
	}
	a := &archive{
		db: cfg.DB, warehouse: cfg.Warehouse, log: cfg.Log, keys: cfg.Keys, cfg: cfg,
		metrics: newMetrics(), unmended: unmendedSums{last: map[string]mendFailure{}}, step: func(string) error { return nil },
	}
	a.folder = folder{packs: cfg.Packs, dir: cfg.Dir, free: func() (int64, error) { return reserve.Free(cfg.Dir) }, step: func(name string) error { return a.step(name) }}
	var err error
	if a.codec, err = sums.NewCodec(); err != nil {
		return nil, fmt.Errorf("cannot open proof packs: %w", err)
	}
	p := &packer{archive: a, sealing: store.NewTurns(1)}
	s := &Service{a, p, &prover{a}, &quarantine{archive: a}, newSums(a.db, a.warehouse, a.codec)}
	s.Sums.mend, s.Sums.unread = a.MendSums, a.unreadSums
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("cannot open proof packs in %s: %w", cfg.Dir, err)
	}
	return s, nil
}

func (s *Service) open(ctx context.Context) error {
	err := keyfile.MakeDir(s.cfg.Dir)
	if err == nil && s.folder.packs == nil {
		if s.folder.packs, err = objects.Open(s.cfg.Dir, PackType); err == nil {
			err = s.folder.packs.CheckCreate(ctx)
		}
	}
	if err != nil {
		return err
	}
	swept, err := s.sweep(ctx)
	if api.From(err).Reason == api.EngineUnavailable {
		s.cfg.Logger.Warn("cannot sweep the files of unfinished seals: the next start tries again", "err", err)
		err = nil
	}
	if err != nil {
		return fmt.Errorf("cannot sweep: %w", err)
	}
	if swept > 0 {
		s.cfg.Logger.Info("swept files of unfinished seals", "files", swept)
	}
	if err := s.metrics.register(s.cfg.Registerer); err != nil || s.cfg.Registerer == nil {
		return err
	}
	if err := s.cfg.Registerer.Register(newHeldGauge(s.archive)); err != nil || s.DueEvery() == 0 {
		return err
	}
	for _, gauge := range dueGauges(s) {
		if err := s.cfg.Registerer.Register(gauge); err != nil {
			return err
		}
	}
	return nil
}

func (a *archive) now() time.Time { return a.cfg.Now().UTC().Truncate(time.Millisecond) }
