// Package node knows the nodes that sign receipts, the keys that anything is
// signed with, and how far each node has followed the feed.
//
// Keys. A private key lives in a key file of its own (LoadKey), never in the
// database. Its public half is a row, written before the key first signs and
// never deleted, so whatever was signed can be verified for good. The directory
// lists all of them and is signed by an online directory key, to which the root
// key has delegated. The root key is made at the first start: root.skey may be
// taken away to a safe place as soon as that start is over. It is needed again
// only to delegate to another directory key, and the service says so then.
//
// Nodes. A node is live while its last poll of the feed is younger than the
// lease's bound: only then can it hold a lease and sign. A poll also reports what
// the node has applied. Both are kept in memory: after a start of control every
// enrolled node counts as live, with nothing applied, until it polls or the bound
// has passed, since it may still hold a lease that the last process gave it.
//
// Non-goals for now: enrolment over the network, and rotation of signing keys.
// The tables are ready for both.
package node

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// Names of control's key files, and how control signs.
const (
	directoryFile = "directory.key"
	packFile      = "pack.key"
	control       = "control"
)

// Config of the room. DB and Dir are required.
type Config struct {
	DB *store.DB
	// Dir is the folder of the key files; it is made when it is missing.
	Dir string
	// Root names the root key. Default "muniment".
	Root string
	// Bound is the longest that a node signs after it last asked for the feed.
	// Default 30 s.
	Bound time.Duration
	// WaitFor is how long a suspension waits for the nodes. Default 2 s.
	WaitFor time.Duration
	// Logger; default slog.Default.
	Logger *slog.Logger
}

// Room is safe for concurrent use.
type Room struct {
	cfg Config
	db  *store.DB

	directoryKey ed25519.PrivateKey
	delegation   string
	rootVkey     string
	pack         *sealer.Signer

	mu      sync.Mutex
	signers map[string]*sealer.Signer // receipt keys by node id
	seen    map[string]poll           // by node id
	moved   chan struct{}             // closed by the next poll that reports another revision
}

// New makes or loads control's keys and puts them into the directory.
func New(ctx context.Context, cfg Config) (*Room, error) {
	if cfg.DB == nil || cfg.Dir == "" {
		return nil, errors.New("cannot open the key directory: DB or Dir is missing")
	}
	if cfg.Root == "" {
		cfg.Root = "muniment"
	}
	if cfg.Bound == 0 {
		cfg.Bound = 30 * time.Second
	}
	if cfg.WaitFor == 0 {
		cfg.WaitFor = 2 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	r := &Room{cfg: cfg, db: cfg.DB, signers: map[string]*sealer.Signer{}, seen: map[string]poll{}, moved: make(chan struct{})}
	if err := r.open(ctx); err != nil {
		return nil, fmt.Errorf("cannot open the key directory: %w", err)
	}
	return r, nil
}

func (r *Room) open(ctx context.Context) (err error) {
	if r.directoryKey, err = LoadKey(r.cfg.Dir, directoryFile); err != nil {
		return err
	}
	if err := r.delegate(ctx); err != nil {
		return err
	}
	key, err := LoadKey(r.cfg.Dir, packFile)
	if err != nil {
		return err
	}
	if r.pack, err = r.signer(ctx, key, sealer.PurposePack, control); err != nil {
		return err
	}
	enrolled, err := r.nodeIDs(ctx)
	if err != nil {
		return err
	}
	for _, id := range enrolled {
		r.seen[id] = poll{at: r.db.Now()}
	}
	return nil
}

// Enrol registers a start of a node that runs in this process. The epoch counts
// its starts from 1. The node's receipt_signing key is in the directory when
// Enrol returns.
func (r *Room) Enrol(ctx context.Context, nodeID string) (epoch uint64, err error) {
	if err := r.enrol(ctx, nodeID, &epoch); err != nil {
		return 0, fmt.Errorf("cannot enrol the node %s: %w", nodeID, err)
	}
	return epoch, nil
}

func (r *Room) enrol(ctx context.Context, nodeID string, epoch *uint64) error {
	key, err := r.nodeKey(nodeID)
	if err != nil {
		return err
	}
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		now := r.db.Now()
		if *epoch, err = startNode(ctx, tx, nodeID, now); err != nil || *epoch > 1 {
			return err
		}
		body, err := sealer.Canonical(map[string]any{"nodeId": nodeID})
		if err != nil {
			return err
		}
		return tx.Emit(ctx, sealer.Event{
			TenantID: api.SystemTenant, Type: "node.enrolled", At: now, Actor: store.BySystem(),
			Subject: sealer.Ref{Kind: "node", ID: nodeID}, Data: body,
		})
	})
	if err != nil {
		return err
	}
	signer, err := r.signer(ctx, key, sealer.PurposeReceipt, nodeID)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.signers[nodeID] = signer
	// Whatever lease it held, it held in a process that is gone.
	delete(r.seen, nodeID)
	return nil
}

// ReceiptSigner lends the key that seals deliveries of a node that Enrol was
// called for.
func (r *Room) ReceiptSigner(nodeID string) (func(context.Context, time.Time) (*sealer.Signer, func(), error), error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.signers[nodeID]; s != nil {
		return func(context.Context, time.Time) (*sealer.Signer, func(), error) { return s, func() {}, nil }, nil
	}
	return nil, fmt.Errorf("cannot sign as the node %s: it is not enrolled", nodeID)
}

// PackSigner is control's current proof_pack_signing key.
func (r *Room) PackSigner() *sealer.Signer { return r.pack }

// RootVkey is the root key's verifying half as C2SP vkey: the one thing that an
// auditor has to be given.
func (r *Room) RootVkey() string { return r.rootVkey }

func (r *Room) nodeKey(nodeID string) (ed25519.PrivateKey, error) {
	if !api.Printable(nodeID, 64) || filepath.Base(nodeID) != nodeID {
		return nil, fmt.Errorf("%q is no node id", nodeID)
	}
	return LoadKey(r.cfg.Dir, "node-"+nodeID+".key")
}
