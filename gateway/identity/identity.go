// Package identity is the identity of a node: its id, its signing keys, and its credential at
// control, all in one folder.
//
// The node makes its first key, its id and its credential before it sends any request, and
// joins by an invitation that an operator made (muniment node invite), or by a certificate of an
// authority that control was given for that. From then on it
// authenticates with its credential, and each start is counted at control. While control is
// away the node repeats the same request, so a lost answer does no harm; a refusal ends with an
// error that says what to do. A private key never leaves the node.
//
// A start first asks control whether it knows the credential. So a node that was killed while
// it joined is simply started again: with the same invitation, another, or none if control had
// let it join. It is the same node with the same key. Control receives the hash of the
// credential in a request that the key signs, and returns no secret: a used invitation, or a
// copy of the request, does not let anyone become the node (see muniment/control/node).
//
// Windows. The directory's windows of the node's keys, in the node's own time, say which key
// signs for a moment; signatures verify by them. A key signs nothing before its window, after
// it, or once the node has learned that it is revoked. When no key may sign the answer is a 503
// NO_SIGNING_KEY.
//
// Rotation leaves no gap and needs clocks to agree only to a minute. The node makes the next
// key, and enrols it with a window that begins a little later. As long as there is no answer,
// the current key goes on signing, at most for api.KeyOverlap, which its window has left if the
// request arrived. Then the next key takes over at one moment, after every moment that the old
// one was acquired for. When all that the old one signed is in the log that control seals from
// (Config.Drained), the node reports to control where the old window ended, and destroys the
// key: an event that reaches the log after a revocation can't be proven. The node rotates by
// age (Config.RotateEvery), and when the feed says that the current key ends or is revoked
// (Learn). Receipts from before a restart stay inside their window even if the clock was set
// back: the folder holds the latest moment.
//
// The current key vouches for the next one with its signature, so a node's credential alone
// can't enrol a key. A node that has lost its keys joins again.
//
// A crash at any moment leaves key files, and the next start asks control about them: in force,
// over, revoked, or not enrolled yet, which is then done first.
//
// A node that an operator expels signs nothing once it has learned of it, and retires its keys
// as above; then control refuses it. It can't come back: another joins in its place.
//
// Losing the folder loses the node: another joins in its place, and what the old one
// signed verifies as before. A copy of the folder must never run beside it: both would
// be one node. Two processes on one folder are refused.
package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment/gateway/api"
	"muniment/gateway/snapshot"
	"muniment/sealer/keyfile"
)

// Config of a Node. Dir and Control are required.
type Config struct {
	// Dir is the folder of the identity; it is made when it is missing. No other user may
	// read it.
	Dir string
	// Control is the URL of control's listener for nodes, as api.NewClient takes it.
	Control string
	// Client holds what is trusted; default a plain one.
	Client *http.Client
	// Invitation lets the node join; of no use once it has.
	Invitation string
	// Invite makes the invitation if the node has to join for the first time and none is
	// given; nil: an invitation is required.
	Invite func(ctx context.Context) (string, error)
	// Certificate lets the node join in place of an invitation. It returns a client whose connections
	// show the node's certificate, and the SHA-256 of that in lower-case hexadecimal. It is called for
	// each request to join. Nil: the node joins by an invitation.
	Certificate func() (client *http.Client, hash string, err error)
	// RotateEvery is the age at which a key is rotated. Default 0: only when control
	// asks for it.
	RotateEvery time.Duration
	// Drained says whether all that was signed with keys that were released is in the log
	// that control seals from: the node's spool is empty. It must not block.
	// Default: always true.
	Drained func() bool
	// Now is the clock that receipts are dated by. Default time.Now.
	Now func() time.Time
	// Logger; default none.
	Logger *slog.Logger
	// Waiting is called with the reason each time Open repeats a request to control.
	// Default none.
	Waiting func(error)
	// Registerer takes the metrics until Close; default none.
	Registerer prometheus.Registerer
}

func (c *Config) complete() error {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Drained == nil {
		c.Drained = func() bool { return true }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Waiting == nil {
		c.Waiting = func(error) {}
	}
	switch {
	case c.Dir == "":
		return errors.New("identity: Dir is empty")
	case c.RotateEvery < 0:
		return errors.New("identity: RotateEvery is negative")
	case c.Certificate != nil && (c.Invitation != "" || c.Invite != nil):
		return errors.New("identity: a node joins by an invitation or by a certificate, not by both")
	}
	return nil
}

// Node is a node that has joined and whose start was counted. Safe for concurrent use.
type Node struct {
	cfg     Config
	control *api.Client
	metrics []prometheus.Collector
	claim   io.Closer
	saved   saved
	epoch   uint64

	failing   atomic.Bool // the last try to change keys
	highWater time.Time   // that is on disk; Open's, then Run's, then Close's

	// Owned by Open and then by Run.
	next     *next
	retiring []*key // drained, but control has no report yet, or the file is not destroyed
	pause    time.Duration

	ring
}

var _ snapshot.Signer = (*Node)(nil)

// Open makes or loads the node's identity, joins control if it has not yet, and counts
// the start. It waits while control is away, until ctx is done. When it returns, a key
// of the node is in the directory.
func Open(ctx context.Context, cfg Config) (*Node, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	control, err := api.NewClient(cfg.Control, cfg.Client)
	if err != nil {
		return nil, err
	}
	if err := makeDir(cfg.Dir); err != nil {
		return nil, fmt.Errorf("cannot open the node's identity: %w", err)
	}
	claim, err := keyfile.Claim(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the node's identity: %w", err)
	}
	n := &Node{cfg: cfg, control: control, claim: claim, ring: ring{wake: make(chan struct{}, 1), gone: make(chan struct{})}}
	n.ring.cfg = &n.cfg
	if err := n.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open the node's identity %s: %w", cfg.Dir, err), claim.Close())
	}
	n.metrics = newMetrics(n)
	if err := register(cfg.Registerer, n.metrics); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot register metrics of the node's identity: %w", err), claim.Close())
	}
	return n, nil
}

func (n *Node) open(ctx context.Context) (err error) {
	if err := keyfile.Sweep(n.cfg.Dir); err != nil {
		return err
	}
	if n.saved, err = load(n.cfg.Dir); err != nil {
		return err
	}
	files, err := loadKeys(n.cfg.Dir)
	if err != nil {
		return err
	}
	if n.highWater, err = readHighWater(n.cfg.Dir); err != nil {
		return err
	}
	if n.saved.Credential == "" {
		if files, err = n.create(files); err != nil {
			return err
		}
	}
	n.nodeID = n.saved.NodeID
	known, err := n.start(ctx, files)
	if err != nil {
		return err
	}
	if err := n.sort(files, known); err != nil {
		return err
	}
	if err := n.ready(ctx); err != nil {
		return err
	}
	return n.noteHighWater(n.cfg.Now().Add(ahead))
}

// Close writes the latest moment that was signed for, and releases the folder. All signers must
// have been released, and Run must have ended.
func (n *Node) Close() error {
	if n.cfg.Registerer != nil {
		for _, m := range n.metrics {
			n.cfg.Registerer.Unregister(m)
		}
	}
	return errors.Join(n.noteHighWater(time.Time{}), n.claim.Close())
}

// ID is the node's id.
func (n *Node) ID() string { return n.saved.NodeID }

// Epoch is the number of this start.
func (n *Node) Epoch() uint64 { return n.epoch }

// Credential authenticates the node at control. It is a secret.
func (n *Node) Credential() string { return n.saved.Credential }

// ask repeats a request to control until it answers. A refusal, and the end of ctx, are errors.
func (n *Node) ask(ctx context.Context, what, path string, in, out any) error {
	return n.again(ctx, what, func() error { return n.once(ctx, n.control, path, in, out) })
}

// again repeats what asks control.
func (n *Node) again(ctx context.Context, what string, once func() error) error {
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		err := once()
		switch {
		case err == nil:
			if pause > leastPause {
				n.cfg.Logger.Info("control answers again")
			}
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("cannot %s: %w", what, errors.Join(ctx.Err(), err))
		case refusal(err) != nil:
			return fmt.Errorf("cannot %s: %w", what, err)
		case pause == leastPause:
			n.cfg.Logger.Warn("waiting for control", "to", what, "err", err)
		}
		n.cfg.Waiting(err)
		sleep(ctx, pause)
	}
}

const (
	// A request is repeated after a pause that doubles from the first to the second.
	leastPause, mostPause = 100 * time.Millisecond, 5 * time.Second
	// askTimeout bounds one request.
	askTimeout = 10 * time.Second
)

// once sends one request to control.
func (n *Node) once(ctx context.Context, client *api.Client, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	credential := n.saved.Credential
	if path == api.PathJoin {
		credential = "" // it is the invitation or the certificate that counts
	}
	return client.Ask(ctx, credential, http.MethodPost, path, in, out)
}

// refusal returns control's answer if the same request will always be refused; else nil.
func refusal(err error) *api.Refused {
	refused, ok := errors.AsType[*api.Refused](err)
	if !ok || refused.Status >= 500 || refused.Status == http.StatusTooManyRequests || refused.Status == http.StatusRequestTimeout {
		return nil
	}
	return refused
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// oldestFirst orders keys by the beginning of their windows.
func oldestFirst(a, b *key) int {
	return cmp.Or(a.from.Compare(b.from), cmp.Compare(a.signer.KeyID, b.signer.KeyID))
}
