package control

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"muniment/control/route"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/gateway/auth"
)

const (
	// maxKept is the longest answer that is kept for retries, in bytes: all that are known
	// to be longer are streamed, and none of those is of a POST.
	maxKept = 1 << 20
	// keepWait bounds how long the end of an attempt may take to write down.
	keepWait = 5 * time.Second
)

// takesKey says whether requests of the operation may have an Idempotency-Key: those
// that API keys may POST.
func takesKey(op *huma.Operation) bool {
	_, scoped := route.Of(op).Access.(route.Scope)
	return scoped && op.Method == http.MethodPost
}

// describeKey says in the document that an operation takes an Idempotency-Key.
func describeKey(op *huma.Operation) {
	shortest, longest := 1, api.MaxIdempotencyKey
	op.Parameters = append(op.Parameters, &huma.Param{
		Name: api.HeaderIdempotencyKey, In: "header",
		Description: "Visible ASCII. A retry with the same key and body gets the first answer again, for 24 hours; with another body it is 409.",
		Schema:      &huma.Schema{Type: huma.TypeString, MinLength: &shortest, MaxLength: &longest, Pattern: "^[!-~]*$", Examples: []any{"play-0001"}},
	})
	answer := op.Responses["200"]
	if answer.Headers == nil {
		answer.Headers = map[string]*huma.Header{}
	}
	answer.Headers[api.HeaderReplayed] = &huma.Header{
		Description: "true when this is the first answer again", Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"true"}},
	}
}

// once is the middleware that answers requests with one Idempotency-Key once: see
// package control.
func (d *door) once(ctx huma.Context, next func(huma.Context)) {
	r, _ := humago.Unwrap(ctx)
	keys := r.Header.Values(api.HeaderIdempotencyKey)
	if len(keys) == 0 || !takesKey(ctx.Operation()) || ctx.Context().Value(inProcess{}) != nil {
		next(ctx)
		return
	}
	request, err := readKeyed(ctx, r, keys)
	if err != nil {
		d.refuse(ctx, err)
		return
	}
	attempt, answer, err := d.db.Attempt(ctx.Context(), request.KeyedRequest)
	if e, ok := errors.AsType[*api.Error](err); ok && e.Reason == api.StorageFull && route.Of(ctx.Operation()).Stops {
		next(ctx) // no space to keep a key must not keep in force what the request would stop
		return
	}
	if err == nil && answer != nil {
		err = request.replay(ctx, *answer)
	}
	if err != nil {
		d.refuse(ctx, err)
	}
	if attempt != nil {
		d.attempt(ctx, next, request, attempt)
	}
}

// attempt answers a request that has its key for itself.
func (d *door) attempt(ctx huma.Context, next func(huma.Context), request *keyedRequest, a *store.Attempt) {
	w := &heldAnswer{plainContext: huma.WithContext(ctx, store.WithAttempt(ctx.Context(), a))}
	kept := false
	end := func(do func(context.Context) error) {
		// The caller may be gone, or have been answered at length: the key has to be free
		// for his next attempt all the same.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx.Context()), keepWait)
		defer cancel()
		if err := do(ctx); err != nil {
			logger := d.logger
			if x, ok := exchangeOf(ctx); ok {
				logger = x.logger
			}
			logger.Warn("cannot note how a request with an Idempotency-Key ended: a retry is refused", "err", err)
		}
	}
	defer func() {
		if !kept {
			end(func(ctx context.Context) error { return d.db.Release(ctx, a) })
		}
	}()
	next(w)
	if w.status == http.StatusOK && w.body.Len() <= maxKept {
		kept = true
		end(func(ctx context.Context) error { return d.db.Keep(ctx, a, request.seal(w.body.Bytes())) })
	}
	w.send()
}

// keyedRequest is a request with an Idempotency-Key, and what protects its answer.
type keyedRequest struct {
	store.KeyedRequest
	aead cipher.AEAD
}

// readKeyed reads a request's key. Everything that is kept of the request is hashed or
// encrypted under the key and the caller's API key: the database holds neither, so that
// it alone doesn't give away an answer that shows a secret, nor which key was used.
func readKeyed(ctx huma.Context, r *http.Request, keys []string) (*keyedRequest, error) {
	if len(keys) > 1 || !api.Printable(keys[0], api.MaxIdempotencyKey) {
		return nil, api.ErrIdempotencyKey
	}
	var body []byte
	if ctx.Operation().RequestBody != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil { // readBody has put it there
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	_, apiKey, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	secret, err := hkdf.Key(sha256.New, []byte(keys[0]), []byte(apiKey), "muniment: answer to an Idempotency-Key", 64)
	if err != nil {
		return nil, fmt.Errorf("cannot derive keys from an Idempotency-Key: %w", err)
	}
	hash := func(parts ...string) string {
		h := hmac.New(sha256.New, secret[:32])
		h.Write([]byte(strings.Join(parts, "\x00")))
		return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
	}
	block, err := aes.NewCipher(secret[32:])
	if err != nil {
		return nil, fmt.Errorf("cannot encrypt the answer to an Idempotency-Key: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("cannot encrypt the answer to an Idempotency-Key: %w", err)
	}
	return &keyedRequest{store.KeyedRequest{
		TenantID:    auth.PrincipalFrom(ctx.Context()).TenantID,
		KeyHash:     hash("route", r.URL.Path),
		RequestHash: hash("request", r.URL.RawQuery, string(body)),
	}, aead}, nil
}

// seal makes the text that is kept of an answer.
func (k *keyedRequest) seal(answer []byte) string {
	return base64.RawURLEncoding.EncodeToString(k.aead.Seal(nil, nil, answer, []byte(k.KeyHash)))
}

// replay answers as the first request was answered. All answers of 200 are JSON.
func (k *keyedRequest) replay(ctx huma.Context, kept string) error {
	sealed, err := base64.RawURLEncoding.DecodeString(kept)
	if err != nil {
		return fmt.Errorf("cannot read the answer kept for an Idempotency-Key: %w", err)
	}
	answer, err := k.aead.Open(nil, nil, sealed, []byte(k.KeyHash))
	if err != nil {
		return fmt.Errorf("cannot decrypt the answer kept for an Idempotency-Key: %w", err)
	}
	ctx.SetHeader(api.HeaderReplayed, "true")
	ctx.SetHeader("Content-Type", jsonType)
	ctx.SetStatus(http.StatusOK)
	_, _ = ctx.BodyWriter().Write(answer) // the caller may be gone
	return nil
}

type plainContext huma.Context

// heldAnswer holds an answer back until it is kept.
type heldAnswer struct {
	plainContext
	status int
	body   bytes.Buffer
}

// Unwrap is for humago.Unwrap.
func (w *heldAnswer) Unwrap() huma.Context { return w.plainContext }

func (w *heldAnswer) SetStatus(status int) { w.status = status }

func (w *heldAnswer) Status() int { return w.status }

func (w *heldAnswer) BodyWriter() io.Writer { return &w.body }

// send lets go of the answer.
func (w *heldAnswer) send() {
	if w.status != 0 {
		w.plainContext.SetStatus(w.status)
	}
	_, _ = w.plainContext.BodyWriter().Write(w.body.Bytes()) // the caller may be gone
}
