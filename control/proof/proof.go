// Package proof seals a tenant's events into proof packs, serves them and what can
// be proven from them, and lists the events themselves.
//
// A pack is the contiguous slice of the tenant's log since the last pack, in the
// order of the events' lowest log positions, with all that a stranger needs to
// check it offline (see sealer). Sealing promises:
//
//   - A seal covers every event that was acknowledged into the log before the
//     call. It drains the outbox, takes the log's end, and waits, bounded, until
//     the warehouse has loaded up to there. Before a key is revoked (Vouch) it is whole, or
//     fails; a caller (SealSome) gets some packs and more, and calls again with upTo until
//     more is false. upTo is what has to be covered, never where a pack ends: a pack ends at such
//     an end of the log, is full, or ends at what is loaded while that is fresh (see
//     raggedFor), or else a verifier would conclude from it what isn't so. 503
//     WAREHOUSE_BEHIND if nothing new could be sealed, as the warehouse lacks it.
//   - Events are sealed by themselves (SealDue) when they are old or many, so that nobody
//     has to ask for it; those of the sandbox's visitors are not.
//   - What a node has promised in its spool alone is not in the log: a seal waits a
//     little for the spools of live nodes, and then names in pending each node that
//     still had records there, by its newest word, which is at most a second old while
//     the node follows. The next packs hold them.
//   - Nothing unverified is sealed. Each event is taken apart again and each
//     receipt's signature is checked with the key directory. What fails is set
//     aside in the warehouse, and as long as a record set aside holds the tenant,
//     sealing answers 503 SET_ASIDE. A key that was revoked vouches for nothing
//     that isn't sealed yet, whenever it was used. An operator may release the record:
//     it never becomes a leaf, but the event that tells of it does. What is wrong with
//     one tenant holds no other.
//   - No pack rests on a revoked key alone. Before the key of packs is revoked each
//     tenant is sealed once more by the next key, news or not, and what is proven of
//     the old packs is proven under a checkpoint by a key that is not revoked. That is
//     not so for a visitor of the sandbox who is gone: nothing is sealed for him any more,
//     and packs that he saved fail as key.revoked once the sandbox's key is revoked. The
//     answer to that revocation does not name him.
//   - A log never signs two roots of one size. A root is written to the database
//     before it is signed, and stays there; whoever comes to another root of that
//     size, or of any size on the way, stops.
//   - An event is in exactly one pack. The head of a tenant's log moves by
//     compare-and-set, in the transaction that adds the pack and its audit event
//     pack.sealed, so any number of control processes may seal at once.
//   - What a pack is settled by follows from the log: the rules that the pack before
//     lists, and those whose events are among its own entries. Neither the database's
//     rules nor the clock is asked, so a seal that is repeated, by whatever process, comes
//     to the same amounts.
//   - No entry is younger than its pack: where a node's clock is ahead, the pack is
//     sealed at the moment of its newest entry.
//   - A tenant that was dropped (Drop) has no packs any more, and gets none. Its head and
//     its roots stay, so that its log can't be signed otherwise.
//   - A pack's file is complete, named and on disk before the head moves, and
//     never changes. A crash leaves the old head or the new pack, and at most a
//     file that no pack names, which a start sweeps once the head has passed it.
//
// The answer of a seal names every pack that was sealed since the call began, so
// two calls at once get the same. If there is none, because nothing is new, it
// names the last pack again; before the first event, no pack at all: packs is
// empty and pack is null. That packs were sealed and refusals counted is not new:
// otherwise each seal would make something to seal. Such events ride along with
// the next pack that has something else in it.
//
// A pack is canonical lines, which are what is hashed, and served byte for byte as they were
// sealed. Its file holds them compressed with zstd, and is sent so to who accepts that. The
// file is read through and compared with its hash first, and a damaged one is 500, named in
// the log.
//
// What a pack holds can be proven by itself: a receipt's inclusion, the growth of the
// log from one pack to another, a run of events as an export. A proof reads as many
// hashes as the logarithm of the log, from the files beside the packs (see nodes),
// and at most one pack's hashes to find a leaf. It is verified against the sealed
// root before it is served. Those files are a cache: a restore may leave them out, a
// crash may tear them, and they are made again from the packs when a proof needs
// them, at the cost of reading each pack that it needs once.
//
// A receipt can be asked for as soon as its caller has it: what the log holds is
// loaded first, bounded like a seal, and then 503 WAREHOUSE_BEHIND rather than 404.
//
// State is the database's (heads, roots, packs, and which process is at work on which
// tenant, so that no two build the same pack) and the folder's (one file a
// pack, and its nodes). In memory there is a lock for each tenant that is sealing, and
// when to look again at each that is sealed by itself.
// The database away, the disk full, or what is left of it reserved: 503, and nothing has
// happened.
//
// Non-goals here: what rules mean (see control/settle), and statements over packs.
package proof

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment/control/store"
	"muniment/pipeline"
	"muniment/sealer"
	"muniment/sealer/keyfile"
)

// Keys signs packs and knows all keys. control/node implements it.
type Keys interface {
	// Signer is the current key for packs, of a sealer.PackPurpose.
	Signer(ctx context.Context, purpose string) (*sealer.Signer, error)
	// Vouches says whether a pack by the key may still be committed by the change.
	Vouches(ctx context.Context, tx *store.Tx, keyID string) (bool, error)
	// Directory is the signed key directory, canonical JSON. It holds every key
	// before that key's first use.
	Directory(ctx context.Context) ([]byte, error)
}

// Nodes knows of the spools of nodes. control/node implements it.
type Nodes interface {
	// Spooled counts, by node, the records that were promised and were in the node's spool
	// alone, by its newest word: those of nodes that are live, and of nodes that are silent.
	Spooled(ctx context.Context) (live, silent map[string]int64, err error)
}

// Config of the room. DB, Warehouse, Log, Keys, Rate and Dir are required.
type Config struct {
	DB        *store.DB
	Warehouse pipeline.Warehouse
	// Log is only asked where a tenant is, and where that partition ends.
	Log  pipeline.Reader
	Keys Keys
	// Nodes is asked what is not in the log yet; nil: no node has a spool.
	Nodes Nodes
	// Rate rates packs. It has to be the same in every process, and pure.
	Rate sealer.Rate
	// Purpose is the sealer.PackPurpose of a tenant, which says that of its receipts as well.
	// It is the same for good; an error refuses to seal, as for a tenant that was dropped. It is
	// asked again in the change that moves the head. Default: none is of the sandbox.
	Purpose func(ctx context.Context, q store.Querier, tenantID string) (string, error)
	// Dir is the folder of the packs; it is made when it is missing. Several
	// control processes on one database share it.
	Dir string
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Logger hears of what was sealed, and of forged receipts. Default slog.Default.
	Logger *slog.Logger
	// Registerer takes the metrics; nil leaves them unregistered.
	Registerer prometheus.Registerer
	// WaitFor is how long a seal waits for outbox, spools and warehouse together.
	// Default 10 s.
	WaitFor time.Duration
	// WorkFor is how long SealSome works then. Default 20 s.
	WorkFor time.Duration
	// SpoolWait is how much of that it waits for the spools of live nodes. Default 2 s.
	SpoolWait time.Duration
	// Tenants lists those that SealDue seals: once one of them has had something to seal for
	// SealEvery, or SealAt such events, of which 0 is never. Default: none.
	Tenants   func(ctx context.Context) ([]string, error)
	SealEvery time.Duration
	SealAt    int
	// Workers is asked before each pack how many goroutines verify its receipts. Default: one
	// a processor, as Go counts them.
	Workers func() int
	// MaxEntries is the most entries of one pack, 1 to 100,000. Default 100,000.
	MaxEntries int
}

// maxEntries is the most that a pack may hold.
const maxEntries = 100_000

func (c *Config) validate() error {
	switch {
	case c.DB == nil:
		return errors.New("no DB is given")
	case c.Warehouse == nil:
		return errors.New("no Warehouse is given")
	case c.Log == nil:
		return errors.New("no Log is given")
	case c.Keys == nil:
		return errors.New("no Keys is given")
	case c.Rate == nil:
		return errors.New("no Rate is given")
	case c.Dir == "":
		return errors.New("no Dir is given")
	case c.WaitFor < 0 || c.WorkFor < 0 || c.SpoolWait < 0:
		return errors.New("negative WaitFor, WorkFor or SpoolWait")
	case c.SealEvery < 0 || c.SealAt < 0:
		return errors.New("negative SealEvery or SealAt")
	case c.MaxEntries < 0 || c.MaxEntries > maxEntries:
		return fmt.Errorf("a MaxEntries of %d is not within 1 and %d", c.MaxEntries, maxEntries)
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
		c.Purpose = func(context.Context, store.Querier, string) (string, error) { return sealer.PackPurpose(false), nil }
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

// Room seals and serves proof packs. It is safe for concurrent use.
type Room struct {
	db        *store.DB
	warehouse pipeline.Warehouse
	log       pipeline.Reader
	keys      Keys
	folder    folder
	cfg       Config
	metrics   *metrics
	sealing   locks
	turns     turns
	due       schedule
	watch     spoolWatch
	// releasing is held while a record is released: it is told of once.
	releasing sync.Mutex
	// step is called before each step of a seal that can fail on its own, with its
	// name, and fails it by an error. Tests set it before the first seal.
	step func(name string) error
}

// New wires the room, makes its folder, and sweeps what crashed seals left there.
func New(cfg Config) (*Room, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("cannot open proof packs: %w", err)
	}
	r := &Room{
		db: cfg.DB, warehouse: cfg.Warehouse, log: cfg.Log, keys: cfg.Keys, cfg: cfg,
		metrics: newMetrics(), sealing: locks{held: map[string]*lock{}}, turns: newTurns(cfg.DB),
		step: func(string) error { return nil },
	}
	r.folder = folder{dir: cfg.Dir, step: func(name string) error { return r.step(name) }}
	if err := r.open(context.Background()); err != nil {
		return nil, fmt.Errorf("cannot open proof packs in %s: %w", cfg.Dir, err)
	}
	return r, nil
}

func (r *Room) open(ctx context.Context) error {
	if err := keyfile.MakeDir(r.cfg.Dir); err != nil {
		return err
	}
	swept, err := r.sweep(ctx)
	if err != nil {
		return fmt.Errorf("cannot sweep: %w", err)
	}
	if swept > 0 {
		r.cfg.Logger.Info("swept files of unfinished seals", "files", swept)
	}
	if err := r.metrics.register(r.cfg.Registerer); err != nil || r.cfg.Registerer == nil {
		return err
	}
	if err := r.cfg.Registerer.Register(newHeldGauge(r)); err != nil || r.DueEvery() == 0 {
		return err
	}
	return r.cfg.Registerer.Register(newUnsealedGauge(r))
}

func (r *Room) now() time.Time { return r.cfg.Now().UTC().Truncate(time.Millisecond) }
