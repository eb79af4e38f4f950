package identity

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"muniment/gateway/api"
	"muniment/sealer"
	"muniment/sealer/keyfile"
)

// key is one that is enrolled.
type key struct {
	file   *keyfile.Key
	signer *sealer.Signer
	done   func() // ends one loan

	// Under Node.mu.
	from, until time.Time // when it signs; until is zero while that is open
	notAfter    time.Time // what control has said of until
	lent        int
}

// hold makes a key of a file and of what the directory says of it.
func (n *Node) hold(f *keyfile.Key, told api.SigningKey) *key {
	k := &key{
		file: f, from: told.NotBefore, until: told.NotAfter, notAfter: told.NotAfter,
		signer: &sealer.Signer{KeyID: told.KeyID, Node: n.saved.NodeID, Key: lent{f}},
	}
	k.done = func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		k.lent--
	}
	return k
}

// lent is a key in the hands of a delivery.
type lent struct{ *keyfile.Key }

var errRevoked = api.Unavailable(api.NoSigningKey, "the key to sign with was revoked a moment ago", time.Second)

// Sign fails with a 503 once the key is out of use.
func (l lent) Sign(random io.Reader, message []byte, opts crypto.SignerOpts) ([]byte, error) {
	signature, err := l.Key.Sign(random, message, opts)
	if errors.Is(err, keyfile.ErrDestroyed) {
		err = errRevoked
	}
	return signature, err
}

// Signer lends the key that signs for a moment, in the form that issue.Config.Signer
// asks for. It never waits; the error is that there is none.
func (n *Node) Signer(_ context.Context, at time.Time) (s *sealer.Signer, done func(), err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.keyFor(at)
	if k == nil {
		return nil, nil, n.noKey(at)
	}
	k.lent++
	if at.After(n.latest) {
		n.latest = at
	}
	return k.signer, k.done, nil
}

// keyFor is the key that signs for a moment; nil if none does. The caller holds n.mu.
func (n *Node) keyFor(at time.Time) *key {
	for _, k := range slices.Backward(n.keys) {
		if !at.Before(k.from) && (k.until.IsZero() || at.Before(k.until)) {
			return k
		}
	}
	return nil
}

func (n *Node) noKey(at time.Time) error {
	if n.leaving {
		return fmt.Errorf("the node %s was asked to leave, and signs nothing more", n.saved.NodeID)
	}
	return fmt.Errorf("the node %s has no key for %s", n.saved.NodeID, sealer.FormatTime(at))
}

// Ready is an error while no key signs for the present.
func (n *Node) Ready() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now := n.cfg.Now(); n.keyFor(now) == nil {
		return n.noKey(now)
	}
	return nil
}

// SigningKeys implements snapshot.Signer.
func (n *Node) SigningKeys() (keyIDs []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, k := range n.keys {
		keyIDs = append(keyIDs, k.signer.KeyID)
	}
	return keyIDs
}

// Learn implements snapshot.Signer: a revoked key signs nothing any more, one that ends
// signs nothing later, and Run lets another take over, unless the node is to leave.
func (n *Node) Learn(told []api.SigningKey) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range told {
		i := slices.IndexFunc(n.keys, func(k *key) bool { return k.signer.KeyID == t.KeyID })
		if i < 0 {
			continue
		}
		k := n.keys[i]
		if t.Last && !n.leaving { // be the key revoked: no other takes over
			n.leave()
			n.due()
		}
		switch {
		case !t.RevokedAt.IsZero():
			k.file.Forget()
			n.dead = append(n.dead, k)
			n.keys = slices.Delete(n.keys, i, i+1)
			n.due()
		case !t.NotAfter.Equal(k.notAfter):
			k.notAfter = t.NotAfter
			if !t.NotAfter.IsZero() {
				k.end(t.NotAfter)
			}
			n.due()
		}
	}
}

// leave ends all keys, behind what they were lent for. It is called once. The caller holds n.mu, or is alone.
func (n *Node) leave() {
	n.leaving = true
	close(n.gone)
	at := n.cfg.Now()
	if n.latest.After(at) {
		at = n.latest
	}
	for _, k := range n.keys {
		k.end(nextMilli(at))
	}
	n.cfg.Logger.Warn("the node was asked to leave: it signs nothing more")
}

// due has Run look at once.
func (n *Node) due() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// end makes the key sign for nothing from a moment on. The caller holds Node.mu.
func (k *key) end(at time.Time) {
	if k.until.IsZero() || at.Before(k.until) {
		k.until = at
	}
}

// current is the newest key, nil if there is none.
func (n *Node) current() *key {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.newest()
}

// newest is current, under the lock.
func (n *Node) newest() *key {
	if len(n.keys) == 0 {
		return nil
	}
	return n.keys[len(n.keys)-1]
}

// handOver ends the keys before the newest, where its window begins or after all that
// they were lent for. The caller holds n.mu, or is alone.
func (n *Node) handOver() {
	at := n.newest().from
	if after := nextMilli(n.latest); after.After(at) {
		at = after
	}
	for _, k := range n.keys[:len(n.keys)-1] {
		k.end(at)
	}
}

func nextMilli(t time.Time) time.Time {
	return t.UTC().Truncate(time.Millisecond).Add(time.Millisecond)
}
