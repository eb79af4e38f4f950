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

	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keyfile"
)

// ring holds the node's enrolled keys. Safe for concurrent use.
type ring struct {
	cfg    *Config
	nodeID string
	wake   chan struct{} // wakes Run; capacity 1

	mu        sync.Mutex
	keys      []*key        // not revoked or retired, oldest first; the last is current
	latest    time.Time     // the latest time that a key was acquired for
	revoked   []*key        // their files are not yet destroyed
	leaving   bool          // control accepts no other key
	leavingCh chan struct{} // closed by leave
}

// key is an enrolled key.
type key struct {
	file    *keyfile.Key
	signer  *sealer.Signer
	release func() // ends one use

	// Guarded by ring.mu.
	from, until time.Time // the window in which it signs; until is zero while the window is open
	notAfter    time.Time // the end of the window in the directory
	inUse       int       // how many callers have acquired and not released it
}

// newKey makes a key from a file and its entry in the directory.
func (r *ring) newKey(f *keyfile.Key, entry api.SigningKey) *key {
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

// inUse is the crypto.Signer of an acquired key.
type inUse struct{ *keyfile.Key }

var errRevoked = api.Unavailable(api.NoSigningKey, "the signing key was revoked a moment ago", time.Second)

// Sign returns a 503 once the key is revoked.
func (u inUse) Sign(random io.Reader, message []byte, opts crypto.SignerOpts) ([]byte, error) {
	signature, err := u.Key.Sign(random, message, opts)
	if errors.Is(err, keyfile.ErrDestroyed) {
		err = errRevoked
	}
	return signature, err
}

// Signer acquires the key that signs for a time, as issue.Config.Signer. It never blocks. The
// error is that there is no such key. The caller must call release after its last signature.
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

// keyFor returns the key that signs for a time, nil if there is none. The caller holds r.mu.
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
	return fmt.Errorf("the node %s has no key for %s", r.nodeID, canonical.FormatTime(at))
}

// Ready returns an error while no key signs for the current time.
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

// Learn implements snapshot.Signer: a revoked key immediately stops signing, and a key that ends
// signs nothing after its end. Run then enrols another key, unless the node is leaving.
func (r *ring) Learn(entries []api.SigningKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, entry := range entries {
		i := slices.IndexFunc(r.keys, func(k *key) bool { return k.signer.KeyID == entry.KeyID })
		if i < 0 {
			continue
		}
		k := r.keys[i]
		if entry.Last && !r.leaving { // also if the key is revoked: no other key takes over
			r.leave()
			r.wakeRun()
		}
		switch {
		case !entry.RevokedAt.IsZero():
			k.file.Forget()
			r.revoked = append(r.revoked, k)
			r.keys = slices.Delete(r.keys, i, i+1)
			r.wakeRun()
		case !entry.NotAfter.Equal(k.notAfter):
			k.notAfter = entry.NotAfter
			if !entry.NotAfter.IsZero() {
				k.end(entry.NotAfter)
			}
			r.wakeRun()
		}
	}
}

// leave ends all keys, after every time that they were acquired for. It is called once. The
// caller holds r.mu, or is Open.
func (r *ring) leave() {
	r.leaving = true
	close(r.leavingCh)
	at := r.cfg.Now()
	if r.latest.After(at) {
		at = r.latest
	}
	for _, k := range r.keys {
		k.end(nextMilli(at))
	}
	r.cfg.Logger.Warn("the node was asked to leave: it signs nothing more")
}

// wakeRun lets Run check at once what is due.
func (r *ring) wakeRun() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// end ends the key's window at a time, unless it ends earlier. The caller holds ring.mu.
func (k *key) end(at time.Time) {
	if k.until.IsZero() || at.Before(k.until) {
		k.until = at
	}
}

// current returns the newest key, nil if there is none.
func (r *ring) current() *key {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.currentLocked()
}

// currentLocked is current for callers that hold r.mu.
func (r *ring) currentLocked() *key {
	if len(r.keys) == 0 {
		return nil
	}
	return r.keys[len(r.keys)-1]
}

// handOver ends the keys before the newest: where its window begins, but after every time that
// they were acquired for. The caller holds r.mu, or is Open.
func (r *ring) handOver() {
	at := r.currentLocked().from
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

// isDue reports whether another key must take over from the current one.
func (r *ring) isDue() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.currentLocked()
	return !r.leaving && (k == nil || !k.notAfter.IsZero() || r.cfg.RotateEvery > 0 && !r.cfg.Now().Before(k.from.Add(r.cfg.RotateEvery)))
}

func (r *ring) isLeaving() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leaving
}

// announce returns the time from which the next key is to sign, for the request to enrol it.
// Control ends the current key's window api.KeyOverlap after that time, so announce makes the
// current key sign no longer.
func (r *ring) announce() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := r.cfg.Now()
	if r.latest.After(from) {
		from = r.latest // the clock stepped back
	}
	from = nextMilli(from)
	if k := r.currentLocked(); k != nil {
		if !r.endedLocked() {
			from = from.Add(lead)
		}
		if !from.After(k.from) {
			from = nextMilli(k.from)
		}
		k.end(from.Add(api.KeyOverlap))
	}
	return from
}

// cancelAnnounce undoes announce. Only for requests that control has certainly not accepted.
func (r *ring) cancelAnnounce() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.currentLocked(); k != nil && !r.leaving {
		k.until = k.notAfter
	}
}

// drained removes and returns the keys that have ended and are not in use, if everything they
// signed is in the log. wait is how long to wait before the next call.
func (r *ring) drained() (drained []*key, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait = checkEvery
	if r.cfg.RotateEvery > 0 && len(r.keys) > 0 && !r.leaving {
		wait = max(acquireGrace, min(wait, r.currentLocked().from.Add(r.cfg.RotateEvery).Sub(r.cfg.Now())))
	}
	newest := r.currentLocked()
	r.keys = slices.DeleteFunc(r.keys, func(k *key) bool {
		if k == newest && !r.leaving {
			return false
		}
		left := k.until.Add(acquireGrace).Sub(r.cfg.Now())
		if left > 0 || k.inUse > 0 {
			wait = min(wait, max(left, acquireGrace))
			return false
		}
		if !r.cfg.Drained() { // checked last: a caller that has acquired the key may still spool a record
			wait = min(wait, checkSpoolEvery)
			return false
		}
		k.file.Forget()
		drained = append(drained, k)
		return true
	})
	return drained, wait
}

// ended reports whether no key signs for any time from now on.
func (r *ring) ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.endedLocked()
}

// endedLocked is ended for callers that hold r.mu.
func (r *ring) endedLocked() bool {
	k := r.currentLocked()
	return k == nil || !k.until.IsZero() && !r.cfg.Now().Before(k.until)
}

// secondsLeft returns for how many seconds the current key still signs.
func (r *ring) secondsLeft() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.currentLocked()
	switch {
	case k == nil:
		return 0
	case k.until.IsZero():
		return math.Inf(1)
	}
	return max(0, k.until.Sub(r.cfg.Now()).Seconds())
}

// Leaving is closed once control has asked the node to leave: it permanently stops signing. Keep
// Run and the feed running until control refuses the node, because the expulsion waits until they
// have reported that the node no longer uses its keys.
func (r *ring) Leaving() <-chan struct{} { return r.leavingCh }
