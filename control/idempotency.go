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

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

const (
	// maxKept is the longest response that is kept for retries, in bytes. A longer one, as the list of an import's
	// refused lines, would fill the database.
	maxKept = 128 << 10
	// keepWait limits the time to record the end of an attempt.
	keepWait = 5 * time.Second
)

// takesKey says whether requests of the operation may have an Idempotency-Key: they are POSTs with
// an API key.
func takesKey(op *huma.Operation) bool {
	_, scoped := route.Of(op).Access.(route.Scope)
	return scoped && op.Method == http.MethodPost && !op.Hidden
}

// describeKey adds the Idempotency-Key to an operation in the document.
func describeKey(op *huma.Operation) {
	shortest, longest := 1, api.MaxIdempotencyKey
	key := &huma.Param{
		Name: api.HeaderIdempotencyKey, In: "header",
		Description: "Visible ASCII. For 24 hours a retry with the same key and body gets the first response again; with another body it is 409.",
		Schema:      &huma.Schema{Type: huma.TypeString, MinLength: &shortest, MaxLength: &longest, Pattern: "^[!-~]*$", Examples: []any{"play-0001"}},
	}
	op.Parameters = append(op.Parameters, key)
	if op.OperationID == ingestBatch { // whose rows have identities
		key.Description = "Visible ASCII. A batch needs none: a retry is recognised row by row. Two batches with one key are carried out one after the other, each with results of its own; if the first takes too long, the second is 409 with `Retry-After`."
		return
	}
	success := op.Responses["200"]
	if success.Headers == nil {
		success.Headers = map[string]*huma.Header{}
	}
	success.Headers[api.HeaderReplayed] = &huma.Header{
		Description: "true if this is the first response again", Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"true"}},
	}
}

// once is the middleware that runs requests with the same Idempotency-Key only once: see package
// control.
func (d *handler) once(ctx huma.Context, next func(huma.Context)) {
	r, _ := humago.Unwrap(ctx)
	keys := r.Header.Values(api.HeaderIdempotencyKey)
	if len(keys) == 0 || !takesKey(ctx.Operation()) {
		next(ctx)
		return
	}
	request, err := readKeyed(ctx, r, keys)
	if err != nil {
		d.refuse(ctx, err)
		return
	}
	attempt, kept, err := d.db.Attempts.Begin(ctx.Context(), request.KeyedRequest)
	if e, ok := errors.AsType[*api.Error](err); ok && (e.Reason == api.StorageFull || e.Code == api.RateLimited) && route.Of(ctx.Operation()).Stops {
		next(ctx) // neither a full disk nor what other requests have used must prevent a stop
		return
	}
	if err == nil && kept != nil {
		err = request.replay(ctx, *kept)
	}
	if err != nil {
		d.refuse(ctx, err)
	}
	if attempt != nil {
		d.attempt(ctx, next, request, attempt)
	}
}

// attempt runs a request that has claimed its key, and keeps the response or releases the key.
func (d *handler) attempt(ctx huma.Context, next func(huma.Context), request *keyedRequest, a *store.Attempt) {
	w := &heldResponse{plainContext: huma.WithContext(ctx, store.WithAttempt(ctx.Context(), a))}
	kept := false
	end := func(do func(context.Context) error) {
		// The request's context may have ended, but the key must be free for the next attempt.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx.Context()), keepWait)
		defer cancel()
		if err := do(ctx); err != nil {
			logger := d.logger
			if x, ok := exchangeOf(ctx); ok {
				logger = x.logger
			}
			logger.Warn("cannot record the end of a request with an Idempotency-Key: retries are refused", "err", err)
		}
	}
	defer func() {
		if !kept {
			end(func(ctx context.Context) error { return d.db.Attempts.Release(ctx, a) })
		}
	}()
	next(w)
	if w.status == http.StatusOK && w.body.Len() <= maxKept {
		kept = true
		end(func(ctx context.Context) error { return d.db.Attempts.Keep(ctx, a, request.seal(w.body.Bytes())) })
	}
	w.send()
}

// keyedRequest is a request with an Idempotency-Key, and the cipher for its response.
type keyedRequest struct {
	store.KeyedRequest
	aead cipher.AEAD
}

// readKeyed reads a request's key. Everything that is kept of the request is hashed or encrypted
// under keys derived from the Idempotency-Key and the caller's API key. The database has neither, so
// it alone reveals neither a secret in a response nor which key was used.
func readKeyed(ctx huma.Context, r *http.Request, keys []string) (*keyedRequest, error) {
	if len(keys) > 1 || !api.Printable(keys[0], api.MaxIdempotencyKey) {
		return nil, api.ErrIdempotencyKey
	}
	var body []byte
	if ctx.Operation().RequestBody != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil { // which readBody has replaced
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	_, apiKey, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if caller, inside := ctx.Context().Value(inProcess{}).(auth.Principal); inside {
		apiKey = caller.ID // there is no key; the Idempotency-Key alone is secret
	}
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
		return nil, fmt.Errorf("cannot encrypt the response to an Idempotency-Key: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("cannot encrypt the response to an Idempotency-Key: %w", err)
	}
	return &keyedRequest{store.KeyedRequest{
		TenantID:    auth.PrincipalFrom(ctx.Context()).TenantID,
		CallerID:    auth.PrincipalFrom(ctx.Context()).ID,
		KeyHash:     hash("route", r.URL.Path),
		RequestHash: hash("request", r.URL.RawQuery, string(body)),
	}, aead}, nil
}

// seal encrypts a response as it is kept.
func (k *keyedRequest) seal(response []byte) string {
	return base64.RawURLEncoding.EncodeToString(k.aead.Seal(nil, nil, response, []byte(k.KeyHash)))
}

// replay sends the first response again. All responses of 200 are JSON.
func (k *keyedRequest) replay(ctx huma.Context, kept string) error {
	sealed, err := base64.RawURLEncoding.DecodeString(kept)
	if err != nil {
		return fmt.Errorf("cannot read the response kept for an Idempotency-Key: %w", err)
	}
	response, err := k.aead.Open(nil, nil, sealed, []byte(k.KeyHash))
	if err != nil {
		return fmt.Errorf("cannot decrypt the response kept for an Idempotency-Key: %w", err)
	}
	ctx.SetHeader(api.HeaderReplayed, "true")
	ctx.SetHeader("Content-Type", jsonType)
	ctx.SetStatus(http.StatusOK)
	_, _ = ctx.BodyWriter().Write(response) // the caller may have disconnected
	return nil
}

type plainContext huma.Context

// heldResponse holds a response back until it is kept.
type heldResponse struct {
	plainContext
	status int
	body   bytes.Buffer
}

// Unwrap is for humago.Unwrap.
func (w *heldResponse) Unwrap() huma.Context { return w.plainContext }

func (w *heldResponse) SetStatus(status int) { w.status = status }

func (w *heldResponse) Status() int { return w.status }

func (w *heldResponse) BodyWriter() io.Writer { return &w.body }

// send sends the response.
func (w *heldResponse) send() {
	if w.status != 0 {
		w.plainContext.SetStatus(w.status)
	}
	_, _ = w.plainContext.BodyWriter().Write(w.body.Bytes()) // the caller may have disconnected
}
