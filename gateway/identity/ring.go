package identity

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"muniment/gateway/api"
	"muniment/sealer"
	"muniment/sealer/keyfile"
)

// ring is the node's enrolled keys. Safe for concurrent use.
type ring struct {
	cfg    *Config
	nodeID string
	wake   chan struct{} // Run should look; holds one

	mu     sync.Mutex
	keys   []*key    // that may sign, oldest first; the last is current
	latest time.Time // of the moments that a key was acquired for
	dead   []*key    // revoked, whose files are still to be destroyed
	// leaving is set once control wants no other key to take over.
	leaving bool
	gone    chan struct{} // closed by leave
}

// key is an enrolled key.
type key struct {
	file    *keyfile.Key
	signer  *sealer.Signer
	release func() // ends one use

	// Under ring.mu.
	from, until time.Time // when it signs; until is zero while that is open
	notAfter    time.Time // control's until
	inUse       int
}

// hold makes a key of a file and its entry in the directory.
func (r *ring) hold(f *keyfile.Key, entry api.SigningKey) *key {
	k := &key{
		file: f, from: entry.NotBefore, until: entry.NotAfter, notAfter: entry.NotAfter,
		signer: &sealer.Signer{KeyID: entry.KeyID, Node: r.nodeID, Key: inUse{f}},
	}
	k.release = func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		k.inUse--
	}
	return k
}

// inUse is a key that a delivery has acquired.
type inUse struct{ *keyfile.Key }

var errRevoked = api.Unavailable(api.NoSigningKey, "the key to sign with was revoked a moment ago", time.Second)

// Sign fails with a 503 once the key is out of use.
func (u inUse) Sign(random io.Reader, message []byte, opts crypto.SignerOpts) ([]byte, error) {
	signature, err := u.Key.Sign(random, message, opts)
	if errors.Is(err, keyfile.ErrDestroyed) {
		err = errRevoked
	}
	return signature, err
}

// Signer acquires the key that signs for a moment, as issue.Config.Signer. It never blocks; the
// error is that there is no such key.
func (r *ring) Signer(_ context.Context, at time.Time) (s *sealer.Signer, release func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.keyFor(at)
	if k == nil {
		return nil, nil, r.noKey(at)
	}
	k.inUse++
	if at.After(r.latest) {
		r.latest = at
	}
	return k.signer, k.release, nil
}

// keyFor returns the key that signs for a moment; nil if none does. The caller holds r.mu.
func (r *ring) keyFor(at time.Time) *key {
	for _, k := range slices.Backward(r.keys) {
		if !at.Before(k.from) && (k.until.IsZero() || at.Before(k.until)) {
			return k
		}
	}
	return nil
}

func (r *ring) noKey(at time.Time) error {
	if r.leaving {
		return fmt.Errorf("the node %s was asked to leave, and signs nothing more", r.nodeID)
	}
	return fmt.Errorf("the node %s has no key for %s", r.nodeID, sealer.FormatTime(at))
}

// Ready is an error while no key signs for the present.
func (r *ring) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.cfg.Now(); r.keyFor(now) == nil {
		return r.noKey(now)
	}
	return nil
}

// SigningKeys implements snapshot.Signer.
func (r *ring) SigningKeys() (keyIDs []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.keys {
		keyIDs = append(keyIDs, k.signer.KeyID)
	}
	return keyIDs
}

// Learn implements snapshot.Signer: a revoked key signs nothing any more, a key that ends signs
// nothing after its end, and Run enrols another one, unless the node is to leave.
func (r *ring) Learn(entries []api.SigningKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range entries {
		i := slices.IndexFunc(r.keys, func(k *key) bool { return k.signer.KeyID == t.KeyID })
		if i < 0 {
			continue
		}
		k := r.keys[i]
		if t.Last && !r.leaving { // also if the key is revoked: no other takes over
			r.leave()
			r.due()
		}
		switch {
		case !t.RevokedAt.IsZero():
			k.file.Forget()
			r.dead = append(r.dead, k)
			r.keys = slices.Delete(r.keys, i, i+1)
			r.due()
		case !t.NotAfter.Equal(k.notAfter):
			k.notAfter = t.NotAfter
			if !t.NotAfter.IsZero() {
				k.end(t.NotAfter)
			}
			r.due()
		}
	}
}

// leave ends all keys, after every moment that they were acquired for. It is called once. The
// caller holds r.mu, or is Open.
func (r *ring) leave() {
	r.leaving = true
	close(r.gone)
	at := r.cfg.Now()
	if r.latest.After(at) {
		at = r.latest
	}
	for _, k := range r.keys {
		k.end(nextMilli(at))
	}
	r.cfg.Logger.Warn("the node was asked to leave: it signs nothing more")
}

// due has Run look at once.
func (r *ring) due() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// end makes the key sign for nothing from a moment on. The caller holds ring.mu.
func (k *key) end(at time.Time) {
	if k.until.IsZero() || at.Before(k.until) {
		k.until = at
	}
}

// current returns the newest key, nil if there is none.
func (r *ring) current() *key {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest()
}

// newest is current, under the lock.
func (r *ring) newest() *key {
	if len(r.keys) == 0 {
		return nil
	}
	return r.keys[len(r.keys)-1]
}

// handOver ends the keys before the newest, where its window begins or after every moment that
// they were acquired for. The caller holds r.mu, or is Open.
func (r *ring) handOver() {
	at := r.newest().from
	if after := nextMilli(r.latest); after.After(at) {
		at = after
	}
	for _, k := range r.keys[:len(r.keys)-1] {
		k.end(at)
	}
}

func nextMilli(t time.Time) time.Time {
	return t.UTC().Truncate(time.Millisecond).Add(time.Millisecond)
}

// isDue says whether another key must take over from the current one.
func (r *ring) isDue() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.newest()
	return !r.leaving && (k == nil || !k.notAfter.IsZero() || r.cfg.RotateEvery > 0 && !r.cfg.Now().Before(k.from.Add(r.cfg.RotateEvery)))
}

func (r *ring) isLeaving() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leaving
}

// announce returns the moment from which the next key is to sign. From now on the current one
// signs no longer than its window has left once control has received that moment.
func (r *ring) announce() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := r.cfg.Now()
	if r.latest.After(from) {
		from = r.latest // the clock stepped back
	}
	from = nextMilli(from)
	if k := r.newest(); k != nil {
		if !r.isOver() {
			from = from.Add(lead)
		}
		if !from.After(k.from) {
			from = nextMilli(k.from)
		}
		k.end(from.Add(api.KeyOverlap))
	}
	return from
}

// withdraw undoes announce, when control has certainly not received it.
func (r *ring) withdraw() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.newest(); k != nil && !r.leaving {
		k.until = k.notAfter
	}
}

// drained removes the keys that are out of use, with all that they signed in the log. wait is how
// long to wait for the next one.
func (r *ring) drained() (drained []*key, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait = look
	if r.cfg.RotateEvery > 0 && len(r.keys) > 0 && !r.leaving {
		wait = max(straggling, min(wait, r.newest().from.Add(r.cfg.RotateEvery).Sub(r.cfg.Now())))
	}
	newest := r.newest()
	r.keys = slices.DeleteFunc(r.keys, func(k *key) bool {
		if k == newest && !r.leaving {
			return false
		}
		left := k.until.Add(straggling).Sub(r.cfg.Now())
		if left > 0 || k.inUse > 0 {
			wait = min(wait, max(left, straggling))
			return false
		}
		if !r.cfg.Drained() { // only now: a use that ends later may still spool a record
			wait = min(wait, lookSpool)
			return false
		}
		k.file.Forget()
		drained = append(drained, k)
		return true
	})
	return drained, wait
}

// over says whether there is no key for any moment to come.
func (r *ring) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isOver()
}

// isOver is over, under the lock.
func (r *ring) isOver() bool {
	k := r.newest()
	return k == nil || !k.until.IsZero() && !r.cfg.Now().Before(k.until)
}

// left is for how many seconds the newest key still signs.
func (r *ring) left() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.newest()
	switch {
	case k == nil:
		return 0
	case k.until.IsZero():
		return math.Inf(1)
	}
	return max(0, k.until.Sub(r.cfg.Now()).Seconds())
}

// Leaving is closed once the node is expelled, which is for good: it signs nothing more. Run and
// the feed should go on until control refuses the node: the expulsion waits for them to confirm
// that the keys are out of use.
func (r *ring) Leaving() <-chan struct{} { return r.gone }
