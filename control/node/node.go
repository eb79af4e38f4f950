// Package node knows the nodes that sign receipts, the keys that anything is
// signed with, and how far each node has followed the feed.
//
// Keys. A private key lives in a key file of its own, never in the database. Its
// public half is a row, written before the key first signs and never deleted, so
// whatever was signed can be verified for good. Each role (receipts of a node, packs
// and directories of control) has one current key; a start without one makes it.
//
// A purpose of keys is added in five lines, and has its place in all that is said below:
//
//	PurposeBeacon = "beacon_signing"                                 // in sealer/purpose.go,
//	{Name: PurposeBeacon},                                           // with what evidence rests on it: none
//	{purpose: sealer.PurposeBeacon, files: "beacon", control: true}, // in uses: who has keys, and their files
//	signer, err := nodes.Signer(ctx, sealer.PurposeBeacon)           // control's current one
//	_, code := directory.Find(signer.KeyID, sealer.PurposeBeacon, at)
//
// Those of beacons are in the feed as well: it is nodes that verify by them.
//
// The sandbox. Its tenants prove themselves by keys of their own purpose, so that nobody
// takes a play for the real thing: control has one for their packs, and the node that
// issues their receipts has one for those. That node is the one of this process, or one
// that was invited for the purpose (InviteSandbox) and signs nothing else.
//
// Rotation. The windows of a node's keys meet in one millisecond, which comes after
// every moment that the old key was lent for: the directory says for each moment
// which one key of the node may have signed a receipt (ring.go). Deliveries that
// arrive while the new key is written wait for that commit, and no longer. The keys
// of control, but for the directory's, overlap by Config.SealTime instead, as a seal keeps
// its key to the end.
// An old key's file is overwritten and removed once it is out of use; what that
// can't reach is said at keyfile.Destroy.
//
// Revocation takes a key out of use, has sealed what it signed, destroys it, and
// only then says so in the directory: a receipt that no pack holds by then could not
// be proven any more.
//
// The directory lists all keys and is signed by an online directory key, to which
// the root key has delegated. A root key is made at the first start if there is
// none, with a warning that root.skey should be taken away; it may as well be made
// elsewhere (GenerateRoot), and only root.vkey put into the key folder. From then on
// it is needed for another directory key only, which waits for its delegation as
// long as it takes (DelegateOffline, Delegate).
//
// A delegation has an end, by default after two years. From 90 days before, another key
// takes over if the root is here (Renew); else the log asks for its delegation once a day, and the gauge muniment_node_delegation_left_seconds
// and a note in /readyz tell the time left. After the end no directory is signed
// (503, DELEGATION_ENDED), so no pack is sealed, until
// the root has delegated anew; deliveries go on, and later packs prove them. If a
// directory key was stolen, revoke it: its successor's delegation is later, which is
// what verifiers go by, whatever the thief signs. For the same reason a delegation that
// is not later than all before it is not taken.
//
// The clock. A signature needs a key whose window holds its moment. When the clock is
// set back to before the current key's window nothing is signed until it has come;
// when it is set back while the service is down, and a key is rotated then, receipts
// of the key that are dated later are outside its window.
//
// A node in a process of its own makes its keys itself. Its credential lets it ask; that
// another key is its own the newest one has to say, unless it is revoked.
//
// Nodes. A node is live while its last poll of the feed is younger than the
// lease's bound: only then can it hold a lease and sign. A poll also reports what
// the node has applied. On a database of this process alone both are kept in memory:
// after a start of control every enrolled node counts as live, with nothing applied,
// until it polls or the bound has passed, since it may still hold a lease that the
// last process gave it. Processes that share a database tell each other by it
// (shared.go). Time is taken from a clock that never steps: by the wall clock, setting
// it forward would make a node look dead that may sign. None of it decides how long a
// node signs: that is the node's own reckoning, and what is told here comes on top.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// control is who signs what no node does.
const control = "control"

// Config of the room. DB and Dir are required.
type Config struct {
	DB *store.DB
	// LastSeal is the latest moment that a proof pack states as that of its sealing, zero
	// without a pack: a key ends after it. nil: there are no packs.
	LastSeal func(ctx context.Context, q store.Querier) (time.Time, error)
	// Dir is the folder of the key files; it is made when it is missing. Control
	// processes that share a database share it (several.go).
	Dir string
	// Bound is the longest that a node signs after it last asked for the feed.
	// Default 30 s.
	Bound time.Duration
	// WaitFor is how long a suspension waits for the nodes. Default 2 s.
	WaitFor time.Duration
	// SealTime is how long a rotated key of control may still sign, as for seals at work.
	// Default 10 min.
	SealTime time.Duration
	// DrainFor is how long a rotation or a revocation waits for deliveries that were signed
	// but are not in the log: each of them gives up earlier (issue.Config.Timeout).
	// Default 15 s.
	DrainFor time.Duration
	// Clock reads a clock that never steps. It may stand still while the machine is
	// suspended: nodes count as live for longer then. Default Go's monotonic clock.
	Clock func() time.Duration
	// Logger; default slog.Default.
	Logger *slog.Logger
	// Registerer takes the room's metrics; default none.
	Registerer prometheus.Registerer
}

// Room is safe for concurrent use.
type Room struct {
	cfg Config
	db  *store.DB

	rootVkey  string
	directory *ring // one of rings

	// change is held while the keys in the database and in the rings differ; for the whole
	// of a change to a key see administer.
	change sync.RWMutex

	asked time.Time // when the root was last asked for a delegation; changed by who has the turn to change keys

	mu    sync.Mutex
	rings map[role]*ring  // of control, and of the nodes of this process
	seen  map[string]poll // by node id
	moved chan struct{}   // closed by the next poll that reports another revision

	shared *shared // nil: no other process has the database
}

// New makes or loads control's keys and puts them into the directory.
func New(ctx context.Context, cfg Config) (*Room, error) {
	if cfg.DB == nil || cfg.Dir == "" {
		return nil, errors.New("cannot open the key directory: DB or Dir is missing")
	}
	if cfg.Bound == 0 {
		cfg.Bound = 30 * time.Second
	}
	if cfg.WaitFor == 0 {
		cfg.WaitFor = 2 * time.Second
	}
	if cfg.SealTime == 0 {
		cfg.SealTime = 10 * time.Minute
	}
	if cfg.LastSeal == nil {
		cfg.LastSeal = func(context.Context, store.Querier) (time.Time, error) { return time.Time{}, nil }
	}
	if cfg.DrainFor == 0 {
		cfg.DrainFor = 15 * time.Second
	}
	if cfg.Clock == nil {
		started := time.Now()
		cfg.Clock = func() time.Duration { return time.Since(started) }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	r := &Room{cfg: cfg, db: cfg.DB, rings: map[role]*ring{}, seen: map[string]poll{}, moved: make(chan struct{})}
	if cfg.DB.Shared() {
		r.shared = newShared(&r.cfg)
	}
	if err := r.open(ctx); err != nil {
		return nil, fmt.Errorf("cannot open the key directory: %w", err)
	}
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(r.gauge()); err != nil {
			return nil, fmt.Errorf("cannot open the key directory: %w", err)
		}
	}
	return r, nil
}

func (r *Room) open(ctx context.Context) error {
	release, err := r.db.Turn(ctx, "opening the keys")
	if err != nil {
		return err
	}
	defer release()
	known, err := r.keys(ctx)
	if err != nil {
		return err
	}
	if err := r.openRoot(len(known) > 0); err != nil {
		return err
	}
	if err := r.openDirectory(ctx); err != nil {
		return err
	}
	for _, role := range rolesOf(control) {
		if role == directoryRole {
			continue
		}
		if r.rings[role], err = r.openSigner(ctx, role); err != nil {
			return err
		}
	}
	if r.shared != nil {
		_, err := r.look(ctx)
		return err
	}
	enrolled, err := r.nodeIDs(ctx)
	if err != nil {
		return err
	}
	for _, id := range enrolled {
		r.seen[id] = poll{at: r.cfg.Clock()}
	}
	return nil
}

// Enrol registers a start of a node that runs in this process. The epoch counts
// its starts from 1. The node's keys for receipts, and for those of the sandbox, are in the
// directory when Enrol returns.
func (r *Room) Enrol(ctx context.Context, nodeID string) (epoch uint64, err error) {
	if err := r.enrol(ctx, nodeID, &epoch); err != nil {
		return 0, fmt.Errorf("cannot enrol the node %s: %w", nodeID, err)
	}
	return epoch, nil
}

func (r *Room) enrol(ctx context.Context, nodeID string, epoch *uint64) error {
	if !api.Printable(nodeID, 64) || filepath.Base(nodeID) != nodeID || nodeID == control {
		return fmt.Errorf("%q is no node id", nodeID)
	}
	err := r.db.Change(ctx, func(tx *store.Tx) error {
		var err error
		if *epoch, err = startNode(ctx, tx, nodeID, r.db.Now()); err != nil || *epoch > 1 {
			return err
		}
		return tx.EmitSystem(ctx, "node.enrolled", store.BySystem(), sealer.Ref{Kind: "node", ID: nodeID}, map[string]any{"nodeId": nodeID})
	})
	if err != nil {
		return err
	}
	opened := map[role]*ring{}
	for _, role := range rolesOf(nodeID) {
		g, err := r.openSigner(ctx, role)
		if err != nil {
			return err
		}
		opened[g.role] = g
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.Copy(r.rings, opened)
	if r.shared == nil {
		delete(r.seen, nodeID) // whatever lease it held, it held in a process that is gone
	}
	return nil
}

// ReceiptSigner lends the keys that seal deliveries of a node that Enrol was called
// for, in the form that issue.Config.Signer asks for: of sealer.PurposeReceipt, or of
// sealer.PurposeSandbox for those of the sandbox's tenants. A lent key may sign until
// done is called.
func (r *Room) ReceiptSigner(nodeID, purpose string) (func(ctx context.Context, at time.Time) (s *sealer.Signer, done func(), err error), error) {
	g := r.ringOf(role{purpose, nodeID})
	if g == nil || nodeID == control {
		return nil, fmt.Errorf("cannot sign as the node %s for %s: it is not enrolled", nodeID, purpose)
	}
	return func(ctx context.Context, at time.Time) (*sealer.Signer, func(), error) {
		k, err := g.lend(ctx, at)
		if err != nil {
			return nil, nil, err
		}
		return k.signer, k.done, nil
	}, nil
}

// RootVkey is the root key's verifying half as C2SP vkey: the one thing that an
// auditor has to be given.
func (r *Room) RootVkey() string { return r.rootVkey }
