package issue

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/idempotency"
	"muniment.example/sealer"
)

// once issues for a delivery that has an Idempotency-Key or an identity, of which h is the
// hash, unless that was done already.
func (i *Issuer) once(ctx context.Context, dst []byte, w *work, h idempotency.Hash, d *Delivery) (answer []byte, replayed bool, err error) {
	var waiting time.Time // since when
	for {
		event, end, err := i.earlier(ctx, w, &h)
		switch {
		case err != nil:
			return dst, false, err
		case event != nil:
			answer, err = appendAnswer(dst, event)
			return answer, err == nil, err
		case end == nil:
			answer, err = i.first(ctx, dst, w, d)
			return answer, false, err
		}
		if waiting.IsZero() {
			waiting = time.Now()
		}
		if !await(end, i.cfg.IdempotencyWait-time.Since(waiting)) {
			return dst, false, api.ErrKeyBusy
		}
		ctx = i.Deadline(time.Now())
	}
}

// earlier returns the event that a key has, or the end of the delivery that is being issued
// with it; neither if w has claimed the key now.
func (i *Issuer) earlier(ctx context.Context, w *work, h *idempotency.Hash) (event []byte, end <-chan struct{}, err error) {
	for {
		at, known, end := i.claims.Find(h, i.cfg.Now(), &w.claim)
		if !known {
			return nil, end, nil
		}
		if event, err = i.replay(ctx, w, h, at); !errors.Is(err, fs.ErrNotExist) {
			return event, nil, err
		}
		i.claims.Forget(h, at)
	}
}

// await waits for an earlier request with the same key to end.
func await(end <-chan struct{}, atMost time.Duration) bool {
	t := time.NewTimer(atMost)
	defer t.Stop()
	select {
	case <-end:
		return true
	case <-t.C:
		return false
	}
}

// alone waits for an earlier batch with the same Idempotency-Key to end, and keeps the next one
// waiting until free.
func (i *Issuer) alone(ctx context.Context, by Caller, key []byte) (free func(), err error) {
	if !api.Printable(key, api.MaxIdempotencyKey) {
		return nil, api.ErrIdempotencyKey
	}
	h := idempotency.Hash(sha256.Sum256(append(append([]byte(by.TenantID), 2), key...)))
	c, began := new(idempotency.Claim), time.Now()
	for {
		_, _, end := i.claims.Find(&h, i.cfg.Now(), c)
		if end == nil {
			return c.Free, nil
		}
		if ctx.Err() != nil || !await(end, i.cfg.IdempotencyWait-time.Since(began)) {
			return nil, api.ErrKeyBusy
		}
	}
}

func (w *work) keyHash(key []byte) (idempotency.Hash, error) {
	if !api.Printable(key, api.MaxIdempotencyKey) {
		return idempotency.Hash{}, api.ErrIdempotencyKey
	}
	w.scratch = append(append(append(w.scratch[:0], w.by.TenantID...), 0), key...)
	return sha256.Sum256(w.scratch), nil
}

// replay returns the event of the first request with the key, from the log, whose answer
// is this one's too; fs.ErrNotExist if the log has lost it.
func (i *Issuer) replay(ctx context.Context, w *work, h *idempotency.Hash, at idempotency.Place) (event []byte, err error) {
	entry, err := i.cfg.Log.Read(ctx, at.Position())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		i.metrics.replayErrors.Inc()
		return nil, errLogAway
	}
	if hash, ok := idempotency.HashOf(entry.Event); !ok || hash != *h || entry.TenantID != w.by.TenantID {
		return nil, fmt.Errorf("the event at %s is not the one of this idempotency key or row", entry.Position)
	}
	if len(entry.Private) > 0 {
		p, err := sealer.ParsePrivate(entry.Private)
		if err != nil {
			return nil, fmt.Errorf("cannot replay %s: %w", entry.EventID, err)
		}
		if p.RequestHash != w.requestHash(&p, w.body) {
			return nil, api.ErrKeyReused
		}
	}
	return entry.Event, nil
}
