package identity

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"muniment/gateway/api"
	"muniment/sealer"
	"muniment/sealer/keyfile"
)

// next is a key that is not known to be enrolled.
type next struct {
	file *keyfile.Key
	// unsure is true once a request went out whose answer is not known: control may have
	// ended the window of the current key.
	unsure bool
}

const (
	// lead is how long after the request to enrol it the window of the next key begins, if
	// another key can sign until then.
	lead = time.Second
	// straggling is how long after it read the clock a delivery may acquire a key.
	straggling = 100 * time.Millisecond
	// look is how often Run checks whether anything is due by the clock, and lookSpool
	// whether the spool is drained for which a key waits.
	look, lookSpool = time.Minute, time.Second
)

// Run rotates the node's key when that is due, and retires old keys, until ctx is done. What
// fails is tried again.
func (n *Node) Run(ctx context.Context) error {
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { n.keepHighWater(ctx) })
	logged := ""
	for {
		wait, err := n.step(ctx)
		if ctx.Err() != nil {
			return nil
		}
		text := ""
		if err != nil {
			if text = err.Error(); text != logged {
				n.cfg.Logger.Error("cannot change the signing key now, trying again", "err", err)
			}
			wait = n.backOff()
		}
		logged = text
		n.failing.Store(err != nil)
		timer := time.NewTimer(wait)
		select {
		case <-n.wake:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		timer.Stop()
	}
}

func (n *Node) backOff() time.Duration {
	n.pause = min(max(leastPause, 2*n.pause), mostPause)
	return n.pause
}

// step does what is due, and says when to look again.
func (n *Node) step(ctx context.Context) (wait time.Duration, err error) {
	buried := n.bury() // a disk that fails must not keep the next key away
	if n.next != nil || n.isDue() {
		if err := n.enrol(ctx); err != nil && !n.dropNext(err) {
			return 0, errors.Join(buried, err)
		}
	}
	wait, err = n.retire(ctx)
	if err = errors.Join(buried, err); err == nil {
		n.pause = 0
	}
	return wait, err
}

// bury destroys the files of revoked keys.
func (n *Node) bury() error {
	n.mu.Lock()
	dead := n.dead
	n.dead = nil
	n.mu.Unlock()
	for i, k := range dead {
		n.cfg.Logger.Warn("a signing key was revoked", "keyId", k.signer.KeyID)
		if err := k.file.Destroy(); err != nil {
			n.mu.Lock()
			n.dead = append(n.dead, dead[i:]...)
			n.mu.Unlock()
			return err
		}
	}
	return nil
}

// enrol brings the next key, which it makes if there is none, into the directory, and
// lets it take over.
func (n *Node) enrol(ctx context.Context) error {
	if n.next == nil {
		file, err := makeKey(n.cfg.Dir)
		if err != nil {
			return fmt.Errorf("cannot make the next signing key: %w", err)
		}
		n.next = &next{file: file}
	}
	pub := base64.RawURLEncoding.EncodeToString(n.next.file.Pub)
	claim := api.EnrolText(n.saved.NodeID, pub)
	signature, err := sign(n.next.file, claim)
	if err != nil {
		return err
	}
	q := api.EnrolRequest{PublicKey: pub, Signature: signature}
	if k := n.current(); k != nil {
		if q.Voucher, err = sign(k.file, claim); err != nil && !errors.Is(err, keyfile.ErrDestroyed) { // by now it may be revoked
			return err
		}
	}
	q.NotBefore = n.announce()
	var entered api.SigningKey
	if err := n.once(ctx, n.control, api.PathEnrol, q, &entered); err != nil {
		if refusal(err) == nil {
			n.next.unsure = true
		} else if !n.next.unsure {
			n.withdraw()
		}
		return fmt.Errorf("cannot enrol the next signing key: %w", err)
	}
	n.take(entered)
	return nil
}

// dropNext gives up the next key if control refuses it because the node is to leave.
func (n *Node) dropNext(err error) bool {
	if n.next == nil || !n.isLeaving() || refusal(err) == nil {
		return false
	}
	if err := n.next.file.Destroy(); err != nil {
		n.cfg.Logger.Error("a key that was never enrolled is left", "file", n.next.file.Path, "err", err)
	}
	n.next = nil
	return true
}

// take makes the next key current; entry is its own in the directory.
func (n *Node) take(entry api.SigningKey) {
	k := n.hold(n.next.file, entry)
	n.next = nil
	n.mu.Lock()
	defer n.mu.Unlock()
	if !entry.RevokedAt.IsZero() {
		k.file.Forget()
		n.dead = append(n.dead, k)
		n.due()
		return
	}
	n.keys = append(n.keys, k)
	slices.SortFunc(n.keys, oldestFirst)
	n.handOver()
	if entry.Last || n.leaving {
		n.leave()
		return
	}
	n.cfg.Logger.Info("another signing key takes over", "keyId", entry.KeyID, "from", sealer.FormatTime(entry.NotBefore))
}

// retire reports to control, and destroys, the keys that another has taken over from, once all
// that they signed is in the log. wait is how long the next of them takes at least.
func (n *Node) retire(ctx context.Context) (wait time.Duration, err error) {
	drained, wait := n.drained()
	n.retiring = append(n.retiring, drained...)
	for len(n.retiring) > 0 {
		k := n.retiring[0]
		q := api.RetireRequest{KeyID: k.signer.KeyID, NotAfter: k.until}
		err := n.once(ctx, n.control, api.PathRetire, q, new(api.SigningKey))
		if err != nil && refusal(err) == nil {
			return 0, fmt.Errorf("cannot report to control that the key %s is out of use: %w", k.signer.KeyID, err)
		}
		if err = errors.Join(err, k.file.Destroy()); err != nil {
			n.cfg.Logger.Error("an old signing key is out of use, but was not reported to control, or its file not destroyed", "keyId", k.signer.KeyID, "err", err)
		}
		n.retiring = n.retiring[1:]
	}
	return wait, nil
}
