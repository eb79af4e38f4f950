// Package snapshot is a node's view of rights and API keys: what the node needs
// to decide a delivery without asking control, and the proof that it may.
//
// Control keeps one feed of changes, ordered by revision. Run requests it again and again; once
// the node has applied everything up to the newest revision that an answer named, it holds a
// lease from the moment of the request, on its own clock, which runs through suspend. Fresh
// fails as soon as the lease is older than the bound. So a receipt is never issued later than
// the acknowledgement of a revocation plus the bound, whatever the network does, and no two
// clocks have to agree.
//
// A decision rests on, in this order:
//
//  1. The stopped map. It holds every right that is or ever was suspended or revoked, and
//     every revoked key, with its newest revision, state and suspensions. It is a
//     plain map and never evicts: it is the one authority for "not stopped".
//  2. The cache. Ristretto holds decoded snapshots, and may lose any of them, late
//     or early, without changing an answer. It drops writes, delays them, and lets a
//     slow writer bring back an old value, so a cached snapshot is used only if
//     it was read from the database at or after its newest change that the
//     feed or an earlier read named. A small table before it spares most
//     look-ups; the same holds for its snapshots.
//  3. Control itself (Source.Snapshot), one request at a time for
//     each id; for the rights of a batch, one request for all (Source.Snapshots).
//
// "The newest change" is kept in a fixed table by hash of the
// id: two ids in one slot cost a needless request, never a wrong answer.
//
// The view fails closed. A database with another incarnation, or with a newest
// revision below what the node has applied, was restored: the view is stale from
// then on and Run ends, so that the process starts again, because a rollback may have
// forgotten revocations. So was, for this node, a database whose standby was promoted
// before it had all that the node has seen; a node that has seen no more than the
// standby had goes on. A right that can't be decoded is an internal error, not a
// right without limits.
//
// Mappings of vendors' ids stop nothing, and there are millions of them: a change in the feed
// only makes what is cached of its id unusable. A node reads what it needs, for a whole batch in
// one request, and also remembers which ids have no mapping.
//
// A kind of records is added in five lines, and with a model that takes its changes:
//
//	// in gateway/api: Change and Read, Feed and Source.Snapshot work for it
//	var Venues = Kind[Venue]{"venue", PrefixVenue, func(n *Venue) (string, int64, bool) { return n.ID, n.Revision, false }, nil}
//	store.Publish(ctx, tx, api.Venues, n.snapshot()) // in control, by the Feed of its store.Records
//	v.venues = newVenues(...)                        // here: holds its records, as a cache does for keys
//	v.models[api.Venues.Name] = v.learnVenue         // here: applies a change
//
// A kind whose changes can stop something needs a deny set before its cache. A
// node skips the kinds that it has no model for; a change that it can't read costs it the lease.
//
// A row of a batch arrives up to 30 days after its play. Whether its right was in force then is
// decided by the suspensions of the right and its ancestors (history.go): a node has the newest of
// each, and requests what it does not have from control.
//
// Memory: the stopped map grows with the number of rights ever stopped, which
// control's database bounds, by at most 64 suspensions each; everything else is fixed by Config.
package snapshot

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/gateway/keyuse"
)

// Source is control as a node sees it. Safe for concurrent use.
type Source interface {
	// Feed answers what came after req.After: at once if there is anything, else
	// after at most half a second. The answer was read after the call began.
	Feed(ctx context.Context, req api.FeedRequest) (api.Feed, error)
	// Snapshot reads the newest snapshot of one record from the primary database.
	Snapshot(ctx context.Context, kind, id string) (api.Snapshot, error)
	// Snapshots reads those of at most api.MostSnapshots records, of one state of the
	// database.
	Snapshots(ctx context.Context, kind string, ids []string) (api.Snapshots, error)
	// Suspended reads whether rights were suspended at moments, at most api.MostSnapshots, in
	// their order.
	Suspended(ctx context.Context, moments []api.RightMoment) ([]bool, error)
}

// Signer holds the node's own signing keys.
type Signer interface {
	// SigningKeys names the keys that the node holds.
	SigningKeys() []string
	// Learn takes the directory's entries of those keys that end or are revoked. Once it has
	// returned, no signature by a revoked key begins. It must not block.
	Learn(keys []api.SigningKey)
}

// Config configures a View. Source and NodeID are required.
type Config struct {
	Source Source
	// NodeID names this node in its requests.
	NodeID string
	// Epoch is the number of this start of the node (identity.Node.Epoch).
	Epoch uint64
	// Signer receives what the feed says of the node's own keys, before the lease of
	// that answer begins. Nil: control holds the keys.
	Signer Signer
	// Spooled counts the records that the node has promised and that are only in its spool:
	// each request reports the number to control. It must not block. Nil: there is no spool.
	Spooled func() int64
	// LeaseBound is the longest age of a lease. Default 30 s.
	LeaseBound time.Duration
	// Capacity is how many rights, and how many keys, are cached; and how many vendors' ids,
	// each of which counts as one for every 256 bytes of its windows. Default 100,000.
	Capacity int64
	// Clock reads a clock that never steps and runs while the machine is
	// suspended. Default CLOCK_BOOTTIME.
	Clock func() time.Duration
	// Now is the clock that receipts are dated by, which is compared with control's.
	// Default time.Now.
	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

func (c *Config) complete() error {
	if c.Source == nil {
		return errors.New("snapshot: Source is missing")
	}
	if c.NodeID == "" {
		return errors.New("snapshot: NodeID is empty")
	}
	if c.LeaseBound < 0 || c.Capacity < 0 {
		return errors.New("snapshot: LeaseBound and Capacity must not be negative")
	}
	if c.LeaseBound == 0 {
		c.LeaseBound = 30 * time.Second
	}
	if c.Capacity == 0 {
		c.Capacity = 100_000
	}
	if c.Clock == nil {
		c.Clock = bootClock
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	return nil
}

// View is the node's view. It is safe for concurrent use.
type View struct {
	cfg     Config
	metrics *metrics

	applied atomic.Int64 // the newest revision that was applied wholly
	lease   atomic.Int64 // when the lease began, as nanoseconds of Clock plus 1; 0: none
	lost    atomic.Bool  // the database was restored under us; never reset
	seen    atomic.Int64 // the newest revision that an answer was read at

	promotions atomic.Int64 // of the database, as of the feed's last answer

	superseded atomic.Bool // control has refused the last request: another process runs as this node

	incarnation string // owned by Run
	ahead       bool   // the log says that the clock is; owned by Run

	stopped  *denySet[stoppedRight]
	rights   *cache[api.Right, Right]
	revoked  *denySet[*api.Key]
	keys     *cache[api.Key, api.Key]
	mappings *cache[api.Mapping, api.Mapping]
	beacons  beaconKeys
	uses     keyuse.Counter
	models   map[string]func(*api.Change) error // by the kind's name, what takes its changes
}

// stoppedRight is what is remembered forever of a right that was ever stopped.
type stoppedRight struct {
	tenantID string
	state    api.RightState
	history
}

var _ auth.Keys = (*View)(nil)

// New makes a view that knows nothing and holds no lease; Run fills it. Close
// frees its caches.
func New(cfg Config) (*View, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	v := &View{cfg: cfg, stopped: newDenySet[stoppedRight](), revoked: newDenySet[*api.Key]()}
	var err error
	if v.rights, err = newCache(v, api.Rights, decode); err != nil {
		return nil, err
	}
	if v.keys, err = newCache(v, api.Keys, asItIs[api.Key]); err != nil {
		v.rights.kept.Close()
		return nil, err
	}
	if v.mappings, err = newCache(v, api.Mappings, asItIs[api.Mapping]); err != nil {
		v.rights.kept.Close()
		v.keys.kept.Close()
		return nil, err
	}
	v.models = map[string]func(*api.Change) error{
		api.Rights.Name:     v.learnRight,
		api.Keys.Name:       v.learnKey,
		api.BeaconKeys.Name: v.beacons.learn,
		api.Mappings.Name:   v.learnMapping,
	}
	v.metrics = newMetrics(cfg.Registerer, v)
	return v, nil
}

// Close frees the caches. No method may be called after it, so a process that ends
// leaves it: requests that were cut may still look up.
func (v *View) Close() {
	v.rights.kept.Close()
	v.keys.kept.Close()
	v.mappings.kept.Close()
}

// Uses counts what requests with keys came to: it is told to control with the requests of the feed.
func (v *View) Uses() *keyuse.Counter { return &v.uses }

// Known are the keys that the node knows without asking control.
func (v *View) Known() auth.Keys { return knownKeys{v} }

type knownKeys struct{ *View }

// Key implements auth.Keys.
func (v knownKeys) Key(_ context.Context, keyID string) (*api.Key, error) {
	if known, ok := v.revoked.get(keyID); ok {
		return known.what, nil
	}
	key, _ := v.keys.known(keyID, anyKey)
	return key, nil
}

// Applied is the newest revision of the feed that was applied wholly.
func (v *View) Applied() int64 { return v.applied.Load() }

// Key returns the newest snapshot of an API key, nil if there is none. A key with a moment of
// revocation is returned with it: the caller decides whether it has passed. The error is a 503
// if control can't be reached.
func (v *View) Key(ctx context.Context, keyID string) (*api.Key, error) {
	if known, ok := v.revoked.get(keyID); ok {
		return known.what, nil
	}
	return v.keys.get(ctx, keyID, anyKey, anyKey)
}

func anyKey(*api.Key) bool { return true }

// asItIs is for API keys and mappings, which are used as they are in the feed.
func asItIs[T any](snapshot *T) (*T, error) { return snapshot, nil }
