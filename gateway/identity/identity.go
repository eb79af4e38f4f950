// Package identity is who a gateway in a process of its own is: its id, its signing
// keys, and its credential at control. All of it lives in one folder of the node.
//
// The node makes its first key, its id and its credential before it asks for anything, and
// joins by an invitation that an operator made (muniment node invite). From then on it
// speaks for itself by its credential, and counts each start at control. What is asked
// while control is away is asked again, the same thing, so a lost answer harms nothing; a
// refusal ends with an error that says what to do. A private key never leaves the node.
//
// A start begins with the question whether control knows the credential. So a node that
// was killed while it joined is simply started again: with the same invitation, another,
// or none if control had let it join. It is the same node with the same key. Control
// learns the hash of the credential from a request that the key signs, and hands out
// nothing: whoever gets hold of a used invitation, or sees the request, can't become the
// node (muniment/control/node tells more).
//
// What signs. The directory's windows of the node's keys, in the node's own time, say
// which key signs for a moment; what is signed verifies by them. A key signs nothing
// before its window, after it, or from the moment on at which the node was told that it
// is revoked. When no key may sign the answer is a 503 NO_SIGNING_KEY.
//
// Rotation leaves no gap and needs no clock to agree with another to more than a
// minute. The node makes the next key, and enrols it with a window that begins a little
// later. As long as there is no answer, the current key signs on, at most for
// api.KeyOverlap, since that much its window has left if the request arrived. Then the
// keys change hands at one moment, after everything that the old one was lent for; and
// when all of that is in the log that control seals from (Config.Drained) the node tells
// control where the old window ended, and destroys the key: what comes to the log behind
// a revocation can't be proven. It rotates by age (Config.RotateEvery), and when the
// feed says that the current key ends or is revoked (Learn). What was signed before a
// restart is not cut off either, be the clock set back: the folder says up to when.
//
// For each next key the one before vouches with its signature: who has nothing but a
// node's credential can't enrol a key. A node that has lost its keys joins anew.
//
// A crash at any moment leaves key files, and the next start asks control what they
// are: in force, over, revoked, or not enrolled yet, which is then done first.
//
// A node that an operator expels signs nothing from the moment on at which it is told,
// and sees its keys off as above; then control refuses it. It can't come back: another
// joins in its place.
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
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment/gateway/api"
	"muniment/gateway/snapshot"
	"muniment/sealer/keyfile"
)

// Config of a Node. Dir and Control are required.
type Config struct {
	// Dir is the folder of the identity; it is made when it is missing. Nobody else may
	// read it.
	Dir string
	// Control is the URL of control's listener for nodes, as api.NewClient takes it.
	Control string
	// Client holds what is trusted; default a plain one.
	Client *http.Client
	// Invitation lets the node join; of no use once it has.
	Invitation string
	// Invite makes the invitation if the node has to join for the first time and none is
	// given; nil: there is nobody who could.
	Invite func(ctx context.Context) (string, error)
	// RotateEvery is the age at which a key is rotated. Default 0: only when control
	// asks for it.
	RotateEvery time.Duration
	// Drained says whether all that was signed, and whose loan has ended, is in the log
	// that control seals from: nothing waits in the node's spool. It must not wait.
	// Default: it always is.
	Drained func() bool
	// Now is the clock that receipts are dated by. Default time.Now.
	Now func() time.Time
	// Logger; default none.
	Logger *slog.Logger
	// Waiting hears why Open has to ask control again, each time. Default none.
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
	}
	return nil
}

// Node is a node that has joined and was counted in. Safe for concurrent use.
type Node struct {
	cfg     Config
	control *api.Client
	metrics []prometheus.Collector
	claim   io.Closer
	saved   saved
	epoch   uint64
	wake    chan struct{} // something is due; holds one

	failing   atomic.Bool // the last try to change keys
	highWater time.Time   // that is on disk; Open's, then Run's, then Close's

	// The rest but for keys, latest and dead belongs to Open and then to Run.

	next     *next
	retiring []*key // drained, but control or the disk has yet to be told
	pause    time.Duration

	mu     sync.Mutex
	keys   []*key    // that may sign, oldest first; the last is current
	latest time.Time // that a key was lent for
	dead   []*key    // revoked, whose files are still to be destroyed
	// leaving is set once control wants no other key to take over.
	leaving bool
	gone    chan struct{} // closed by leave
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
	n := &Node{cfg: cfg, control: control, claim: claim, wake: make(chan struct{}, 1), gone: make(chan struct{})}
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

// Close notes up to when was signed, and gives the folder back. Nothing may be signed
// any more, and Run must have ended.
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

// Credential is what the node asks control with. It is a secret.
func (n *Node) Credential() string { return n.saved.Credential }

// Leaving is closed once control has asked the node to leave, which is for good: it signs
// nothing more. Run and the feed should go on until control refuses the node: an
// expulsion waits for their word.
func (n *Node) Leaving() <-chan struct{} { return n.gone }

// ask asks control one thing until it answers. A refusal, and the end of ctx, are
// errors.
func (n *Node) ask(ctx context.Context, what, path string, in, out any) error {
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		err := n.once(ctx, path, in, out)
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
	// A question is asked again after a pause that doubles from the first to the second.
	leastPause, mostPause = 100 * time.Millisecond, 5 * time.Second
	// askTimeout bounds one question.
	askTimeout = 10 * time.Second
)

// once asks control one thing, once.
func (n *Node) once(ctx context.Context, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	credential := n.saved.Credential
	if path == api.PathJoin {
		credential = "" // it is the invitation that counts
	}
	return n.control.Ask(ctx, credential, http.MethodPost, path, in, out)
}

// refusal is control's answer that to ask the same again won't change; nil if there
// was none.
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
