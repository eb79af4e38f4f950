package gateway

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"muniment/gateway/api"
	"muniment/sealer"
)

// once answers a request that has an Idempotency-Key.
func (g *Gateway) once(ctx *fasthttp.RequestCtx, d *delivery, key []byte, arrived time.Time) error {
	if !api.Printable(key, api.MaxIdempotencyKey) {
		return api.ErrIdempotencyKey
	}
	h := d.keyHash(key)
	d.claim = claimed{}
	var waiting time.Time // since when
	for {
		at, known, end := g.claims.find(&h, arrived, &d.claim)
		switch {
		case known:
			err := g.replay(ctx, d, &h, at)
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			g.claims.forget(&h, at)
			continue
		case end == nil:
			return g.first(ctx, d, arrived)
		}
		if waiting.IsZero() {
			waiting = time.Now()
		}
		if !d.await(end, g.cfg.IdempotencyWait-time.Since(waiting)) {
			return api.ErrKeyBusy
		}
		d.deadline = g.limits.begin(time.Now())
	}
}

// first answers the request that holds a key.
func (g *Gateway) first(ctx *fasthttp.RequestCtx, d *delivery, arrived time.Time) error {
	defer d.claim.free()
	return g.issue(ctx, d, arrived)
}

// await waits for an earlier request with the same key to end.
func (d *delivery) await(end <-chan struct{}, atMost time.Duration) bool {
	t := time.NewTimer(atMost)
	defer t.Stop()
	select {
	case <-end:
		return true
	case <-t.C:
		return false
	}
}

func (d *delivery) keyHash(key []byte) keyHash {
	d.scratch = append(append(append(d.scratch[:0], d.tenant...), 0), key...)
	return sha256.Sum256(d.scratch)
}

// replay answers as the first request with the key was answered, from the event in
// the log; fs.ErrNotExist if the log has lost it.
func (g *Gateway) replay(ctx *fasthttp.RequestCtx, d *delivery, h *keyHash, at place) error {
	entry, err := g.log.Read(d.deadline, sealer.Position{Generation: at.generation, Partition: at.partition, Offset: at.offset})
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil {
		g.metrics.replayErrors.Inc()
		return errLogAway
	}
	if hash, ok := idempotencyOf(entry.Event); !ok || hash != *h || entry.TenantID != d.tenant {
		return fmt.Errorf("the event at %s is not the one of this idempotency key", entry.Position)
	}
	if len(entry.Private) > 0 {
		p, err := sealer.ParsePrivate(entry.Private)
		if err != nil {
			return fmt.Errorf("cannot replay %s: %w", entry.EventID, err)
		}
		if p.RequestHash != d.requestHash(p.Salt, d.body) {
			return api.ErrKeyReused
		}
	}
	ctx.Response.Header.Set(api.HeaderReplayed, "true")
	return respond(ctx, entry.Event)
}

var toIdempotency = []byte(`,"idempotency":"`)

// idempotencyOf finds the hash in a delivery's event. The member's name can't stand
// inside a JSON string: there each quotation mark has a backslash before it.
func idempotencyOf(event []byte) (h keyHash, ok bool) {
	if !strings.HasSuffix(view(event), `,"type":"`+sealer.TypeDelivery+`","v":1}`) {
		return h, false
	}
	_, rest, found := strings.Cut(view(event), view(toIdempotency))
	text, _, closed := strings.Cut(rest, `"`)
	if !found || !closed || len(text) != base64.RawURLEncoding.EncodedLen(len(h)) {
		return h, false
	}
	_, err := base64.RawURLEncoding.Decode(h[:], []byte(text))
	return h, err == nil
}
