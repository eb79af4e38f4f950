// Package identity is the identity of a node: its id, its signing keys, and its credential at
// control, all in one folder.
//
// The node makes its first key, its id and its credential before it sends any request. It joins
// by an invitation that an operator made (muniment node invite), or by a certificate of an
// authority that control trusts for this. Afterwards it authenticates with its credential, and
// control counts each start. While control is unreachable the node repeats the same request, so
// a lost response does no harm. It does so, too, while another node has the name of its certificate, or
// an operator has to lift the bar on it. If control refuses a request otherwise, the error says what to do. A
// private key never leaves the node.
//
// A start first sends its credential to control. So a node that was killed while it joined is
// simply started again: with the same invitation, another, or none if control had let it join.
// It is the same node with the same key. Control receives the hash of the credential in a
// request that the key signs, and returns no secret: a used invitation or a copy of the request
// does not let anyone become the node (see package control/node).
//
// Windows. The directory has a window for each of the node's keys, in the node's own time. It
// determines which key signs for a time, and signatures verify by it. A key signs nothing before
// its window, after it, or once the node has learned that it is revoked. If no key may sign, the
// response to a delivery is a 503 NO_SIGNING_KEY.
//
// Rotation leaves no gap and needs clocks to agree only to a minute. The node makes the next
// key, and enrols it with a window that begins a little later. Until control responds, the
// current key continues to sign, at most for api.KeyOverlap, which remains of its window if
// control received the request. Then the next key takes over, from a time after every time that
// the old key was acquired for. Once everything the old key signed is in the log that control
// seals from (Config.Drained), the node reports to control where the old window ended, and
// destroys the key; it waits because an event that reaches the log after a revocation can't be
// proven. The node rotates by age (Config.RotateEvery), and when the feed reports that the
// current key ends or is revoked (Learn). The folder holds the latest time that was signed for,
// so receipts from before a restart stay inside their window even if the clock was set back.
//
// The current key vouches for the next one with its signature, so a node's credential alone
// can't enrol a key. A node that has lost its keys joins again as another node.
//
// A crash leaves key files, and the next start requests their state from control. A key is in
// force, ended, revoked, or not enrolled; the start first enrols the latter.
//
// If an operator expels a node, the node signs nothing once it has learned of it, and retires
// its keys as above; then control refuses it. It can't come back: another node joins in its
// place.
//
// If the folder is lost, so is the node: another joins in its place, and what the old one
// signed still verifies. Never run a copy of the folder beside it: both would be one node, and
// control gives no more news to the one that started earlier, so its lease ends. A second process on
// the same folder is refused.
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

	"muniment.example/gateway/api"
	"muniment.example/gateway/snapshot"
	"muniment.example/sealer/keyfile"
)

// Config of a Node. Dir and Control are required.
type Config struct {
	// Dir is the folder of the identity; it is created if it is missing. No other user may
	// read it.
	Dir string
	// Control are the URLs of control's listeners for nodes, as api.NewClient takes them.
	Control []string
	// Client decides which server certificates are trusted. Default: a plain http.Client.
	Client *http.Client
	// Invitation lets the node join; ignored once it has.
	Invitation string
	// Invite returns an invitation if the node joins for the first time and Invitation is empty.
	// Default nil.
	Invite func(ctx context.Context) (string, error)
	// Certificate lets the node join by a certificate; excludes Invitation and Invite. It returns
	// a client whose connections present the certificate, and the certificate's SHA-256 in
	// lower-case hexadecimal. It is called for each request to join. Default nil.
	Certificate func() (client *http.Client, hash string, err error)
	// RotateEvery is the age at which a key is rotated. Default 0: only when control
	// requests it.
	RotateEvery time.Duration
	// Drained reports whether everything signed with released keys is in the log that control
	// seals from: the node's spool is empty. It must not block. Default: always true.
	Drained func() bool
	// Now is the clock that dates receipts. Default time.Now.
	Now func() time.Time
	// Logger; default none.
	Logger *slog.Logger
	// Waiting is called with the error before Open repeats a request that control did not
	// answer, or refused because of the certificate's name. Default none.
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

	failing   atomic.Bool // whether the last attempt to change keys failed
	highWater time.Time   // as on disk; owned by Open, then by Run, then by Close

	// Owned by Open and then by Run.
	next     *next
	retiring []*key // drained, but not yet reported to control, or the file is not yet destroyed
	pause    time.Duration

	ring
}

var _ snapshot.Signer = (*Node)(nil)

// Open makes or loads the node's identity, joins if the node has not joined yet, and reports the
// start to control. While control is unreachable it retries until ctx is done. When it returns,
// a key of the node is in the directory, unless the node is leaving.
func Open(ctx context.Context, cfg Config) (*Node, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	control, err := api.NewClient(cfg.Control, cfg.Client)
	if err != nil {
		return nil, err
	}
	if err := keyfile.MakeDir(cfg.Dir); err != nil {
		return nil, fmt.Errorf("cannot open the node's identity: %w", err)
	}
	claim, err := keyfile.Claim(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the node's identity: %w", err)
	}
	n := &Node{cfg: cfg, control: control, claim: claim, ring: ring{wake: make(chan struct{}, 1), leavingCh: make(chan struct{})}}
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
	if err := n.sortKeys(files, known); err != nil {
		return err
	}
	if err := n.ensureKey(ctx); err != nil {
		return err
	}
	return n.writeHighWater(n.cfg.Now().Add(markAhead))
}

// Close writes the latest time that was signed for, and releases the folder. All signers must
// have been released, and Run must have ended.
func (n *Node) Close() error {
	if n.cfg.Registerer != nil {
		for _, m := range n.metrics {
			n.cfg.Registerer.Unregister(m)
		}
	}
	return errors.Join(n.writeHighWater(time.Time{}), n.claim.Close())
}

// ID is the node's id.
func (n *Node) ID() string { return n.saved.NodeID }

// Epoch is the number of this start.
func (n *Node) Epoch() uint64 { return n.epoch }

// Credential authenticates the node at control. It is a secret.
func (n *Node) Credential() string { return n.saved.Credential }

// request sends a request to control, and repeats it until control answers. A refusal, and the
// end of ctx, are errors.
func (n *Node) request(ctx context.Context, what, path string, in, out any) error {
	return n.retry(ctx, what, func() error { return n.send(ctx, n.control, path, in, out) })
}

// retry calls send until it succeeds, control refuses the request, or ctx is done. what completes
// "cannot …" in errors.
func (n *Node) retry(ctx context.Context, what string, send func() error) error {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := send()
		switch {
		case err == nil:
			if pause > minPause {
				n.cfg.Logger.Info("control answers again")
			}
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("cannot %s: %w", what, errors.Join(ctx.Err(), err))
		case refusal(err) != nil:
			return fmt.Errorf("cannot %s: %w", what, err)
		case pause == minPause:
			n.cfg.Logger.Warn("waiting for control", "to", what, "err", err)
		}
		n.cfg.Waiting(err)
		sleep(ctx, api.Again(err, pause, maxPause))
	}
}

const (
	// The pause before a request is repeated doubles from minPause to maxPause. What control asks for counts up to
	// maxPause: a node that waits is not ready.
	minPause, maxPause = 100 * time.Millisecond, 5 * time.Second
	// requestTimeout bounds one request.
	requestTimeout = 10 * time.Second
)

// send sends one request to control.
func (n *Node) send(ctx context.Context, client *api.Client, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	credential := n.saved.Credential
	if path == api.PathJoin {
		credential = "" // the invitation or the certificate authorises the request
	}
	return client.Do(ctx, credential, http.MethodPost, path, in, out)
}

// refusal returns control's response if repeating the request would not help, nil otherwise. A name
// that is another node's, or barred, is free some day: the node waits for that.
func refusal(err error) *api.Refused {
	refused, ok := errors.AsType[*api.Refused](err)
	if !ok || refused.Field == api.FieldName || refused.Status >= 500 || refused.Status == http.StatusTooManyRequests || refused.Status == http.StatusRequestTimeout {
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

// oldestFirst compares keys by the beginning of their windows.
func oldestFirst(a, b *key) int {
	return cmp.Or(a.from.Compare(b.from), cmp.Compare(a.signer.KeyID, b.signer.KeyID))
}
