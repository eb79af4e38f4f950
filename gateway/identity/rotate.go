package identity

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"muniment.example/gateway/api"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keyfile"
)

// next is a key that is not known to be enrolled.
type next struct {
	file *keyfile.Key
	// unsure is true once a request to enrol the key got no response: control may have enrolled it,
	// and ended the window of the current key.
	unsure bool
}

const (
	// lead is how long after the request to enrol a key its window begins, if another key can sign
	// until then.
	lead = time.Second
	// acquireGrace is how long after reading the clock a delivery may acquire a key for that time.
	acquireGrace = 100 * time.Millisecond
	// checkEvery is how often Run checks what is due by the clock, and checkSpoolEvery how often it
	// checks the spool if a key waits for it.
	checkEvery, checkSpoolEvery = time.Minute, time.Second
)

// Run rotates the node's key when that is due, and retires old keys, until ctx is done. It
// retries what fails.
func (n *Node) Run(ctx context.Context) error {
	var background sync.WaitGroup
	defer background.Wait()
	background.Go(func() { n.keepHighWater(ctx) })
	logged := ""
	for {
		wait, err := n.step(ctx)
		if ctx.Err() != nil {
			return nil
		}
		text := ""
		if err != nil {
			if text = err.Error(); text != logged {
				n.cfg.Logger.Error("cannot change the signing key, retrying", "err", err)
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
	n.pause = min(max(minPause, 2*n.pause), maxPause)
	return n.pause
}

// step does what is due. wait is how long to wait before the next step.
func (n *Node) step(ctx context.Context) (wait time.Duration, err error) {
	destroyErr := n.destroyRevoked() // a failing disk must not prevent the next key
	if n.next != nil || n.isDue() {
		if err := n.enrol(ctx); err != nil && !n.dropNext(err) {
			return 0, errors.Join(destroyErr, err)
		}
	}
	wait, err = n.retire(ctx)
	if err = errors.Join(destroyErr, err); err == nil {
		n.pause = 0
	}
	return wait, err
}

// destroyRevoked destroys the files of revoked keys. Those that it can't destroy stay in
// n.revoked.
func (n *Node) destroyRevoked() error {
	n.mu.Lock()
	revoked := n.revoked
	n.revoked = nil
	n.mu.Unlock()
	for i, k := range revoked {
		n.cfg.Logger.Warn("a signing key was revoked", "keyId", k.signer.KeyID)
		if err := k.file.Destroy(); err != nil {
			n.mu.Lock()
			n.revoked = append(n.revoked, revoked[i:]...)
			n.mu.Unlock()
			return err
		}
	}
	return nil
}

// enrol enrols the next key in the directory, making it if there is none, and lets it take over.
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
	q := api.EnrolRequest{PublicKey: pub, Signature: signature, Epoch: n.epoch}
	if k := n.current(); k != nil {
		if q.Voucher, err = sign(k.file, claim); err != nil && !errors.Is(err, keyfile.ErrDestroyed) { // it may have been revoked meanwhile
			return err
		}
	}
	q.NotBefore = n.announce()
	var entry api.SigningKey
	if err := n.send(ctx, n.control, api.PathEnrol, q, &entry); err != nil {
		if refusal(err) == nil {
			n.next.unsure = true
		} else if !n.next.unsure {
			n.cancelAnnounce()
		}
		return fmt.Errorf("cannot enrol the next signing key: %w", err)
	}
	n.activate(entry)
	return nil
}

// dropNext destroys the next key if control has refused it because the node is leaving, and
// reports whether it did so.
func (n *Node) dropNext(err error) bool {
	if n.next == nil || !n.isLeaving() || refusal(err) == nil {
		return false
	}
	if err := n.next.file.Destroy(); err != nil {
		n.cfg.Logger.Error("cannot destroy a key that was never enrolled", "file", n.next.file.Path, "err", err)
	}
	n.next = nil
	return true
}

// activate makes the next key current; entry is its entry in the directory.
func (n *Node) activate(entry api.SigningKey) {
	k := n.newKey(n.next.file, entry)
	n.next = nil
	n.mu.Lock()
	defer n.mu.Unlock()
	if !entry.RevokedAt.IsZero() {
		k.file.Forget()
		n.revoked = append(n.revoked, k)
		n.wakeRun()
		return
	}
	n.keys = append(n.keys, k)
	slices.SortFunc(n.keys, oldestFirst)
	n.handOver()
	if entry.Last || n.leaving {
		n.leave()
		return
	}
	n.cfg.Logger.Info("the next signing key takes over", "keyId", entry.KeyID, "from", canonical.FormatTime(entry.NotBefore))
}

// retire reports the drained keys to control, and destroys them. wait is as in ring.drained.
func (n *Node) retire(ctx context.Context) (wait time.Duration, err error) {
	drained, wait := n.drained()
	n.retiring = append(n.retiring, drained...)
	for len(n.retiring) > 0 {
		k := n.retiring[0]
		q := api.RetireRequest{KeyID: k.signer.KeyID, NotAfter: k.until}
		err := n.send(ctx, n.control, api.PathRetire, q, new(api.SigningKey))
		if err != nil && refusal(err) == nil {
			return 0, fmt.Errorf("cannot report to control that the key %s is retired: %w", k.signer.KeyID, err)
		}
		if err = errors.Join(err, k.file.Destroy()); err != nil {
			n.cfg.Logger.Error("a signing key was retired, but control refused the report, or the key's file was not destroyed", "keyId", k.signer.KeyID, "err", err)
		}
		n.retiring = n.retiring[1:]
	}
	return wait, nil
}
