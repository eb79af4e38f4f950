package control_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control"
	"muniment.example/control/node"
	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/sealer"
)

// noteService is a service with one operation, which writes down a note.
type noteService struct {
	db *store.DB
	// before and after are called around the change; nil does nothing.
	before, after func(context.Context) error
	// pad makes the answer longer.
	pad int
}

type noteInput struct {
	Body struct {
		Text string `json:"text"`
	}
}

type note struct {
	Text string `json:"text"`
	ID   string `json:"id"`
	Pad  string `json:"pad"`
}

func (n *noteService) Routes(a route.API) {
	route.Add(a, route.Operation{ID: "note", Method: http.MethodPost, Path: "/v1/notes", Access: route.Scope(api.RightsWrite)}, func(ctx context.Context, in *noteInput) (note, error) {
		if err := call(n.before, ctx); err != nil {
			return note{}, err
		}
		made := note{in.Body.Text, api.NewID(api.PrefixEvent, time.Now()), strings.Repeat("x", n.pad)}
		err := n.db.Change(ctx, func(tx *store.Tx) error {
			return tx.Emit(ctx, &store.Kind{Type: "note.written"}, sealer.Event{
				TenantID: auth.PrincipalFrom(ctx).TenantID, Actor: store.BySystem(), Subject: sealer.Ref{Kind: "note", ID: made.ID}, Data: []byte(`{}`),
			})
		})
		if err != nil {
			return note{}, err
		}
		return made, call(n.after, ctx)
	})
}

func call(hook func(context.Context) error, ctx context.Context) error {
	if hook == nil {
		return nil
	}
	return hook(ctx)
}

// notebook is a fixture with notes, a clock that the test sets forward, and a tenant.
type notebook struct {
	*fixture
	dir           string
	service       *noteService
	ahead         atomic.Int64 // of the clock, in nanoseconds
	tenantID, key string
}

func newNotebook(t *testing.T) *notebook {
	t.Helper()
	b := &notebook{dir: t.TempDir()}
	began := time.Now() // only wait moves the clock
	b.fixture = newFixtureOn(t, b.dir, node.Config{}, func() time.Time { return began.Add(time.Duration(b.ahead.Load())) })
	b.service = &noteService{db: b.db}
	cfg := b.config()
	cfg.Services = append(slices.Clone(b.services), b.service)
	b.made = mustControl(t, cfg)
	b.tenantID, b.key = b.tenant()
	return b
}

func (b *notebook) wait(d time.Duration) { b.ahead.Add(int64(d)) }

// write posts a note with an Idempotency-Key.
func (b *notebook) write(idempotencyKey, text string) answer {
	b.t.Helper()
	return b.call(b.key, "POST", "/v1/notes", fmt.Sprintf(`{"text":%q}`, text), api.HeaderIdempotencyKey, idempotencyKey)
}

// notes counts those that were written.
func (b *notebook) notes() int64 {
	b.t.Helper()
	n, err := store.Count(b.t.Context(), b.db.Read(), "notes", `SELECT COUNT(*) FROM outbox WHERE tenant_id = $1 AND event LIKE '%note.written%'`, b.tenantID)
	require.NoError(b.t, err)
	return n
}

// replayed requires the bytes of the first response.
func (a answer) replayed(first answer) {
	a.t.Helper()
	require.Equal(a.t, first.text, a.text)
	require.Equal(a.t, 200, a.status)
	require.Equal(a.t, "true", a.header.Get(api.HeaderReplayed))
	require.Equal(a.t, first.header.Get("Content-Type"), a.header.Get("Content-Type"))
	require.Empty(a.t, first.header.Get(api.HeaderReplayed))
}

// conflict requires a 409 with the words, with Retry-After if again.
func (a answer) conflict(words string, again bool) {
	a.t.Helper()
	require.Contains(a.t, a.refused(409, api.StateConflict), words)
	require.Equal(a.t, again, a.header.Get("Retry-After") != "")
}

func TestIdempotencyKey(t *testing.T) {
	b := newNotebook(t)
	first := b.write("k-1", "one")
	first.ok()
	b.write("k-1", "one").replayed(first)
	b.write("k-1", "two").conflict("with another body", false)
	require.EqualValues(t, 1, b.notes())

	// The key is the API key's, and the path's.
	second := get[string](t, b.call(b.key, "POST", "/v1/api-keys", `{"label":"second"}`).ok(), "apiKey")
	other := b.call(second, "POST", "/v1/notes", `{"text":"two"}`, api.HeaderIdempotencyKey, "k-1")
	other.ok()
	require.NotEqual(t, first.text, other.text)
	require.Empty(t, other.header.Get(api.HeaderReplayed))
	basisID := b.basis(b.key)
	one, two := b.right(b.key, basisID), b.right(b.key, basisID)
	suspend := func(id string) answer {
		return b.call(b.key, "POST", "/v1/rights/"+id+"/suspend", "", api.HeaderIdempotencyKey, "k-1")
	}
	suspended := suspend(one)
	suspended.ok()
	suspend(two).ok()
	suspend(one).replayed(suspended)

	// Nothing but a POST takes one.
	got := b.call(b.key, "GET", "/v1/rights/"+one, "", api.HeaderIdempotencyKey, "not a key")
	got.ok()
	require.Empty(t, got.header.Get(api.HeaderReplayed))

	b.wait(24*time.Hour - time.Minute)
	b.write("k-1", "one").replayed(first)
	b.wait(time.Minute)
	again := b.write("k-1", "another day")
	again.ok()
	require.Empty(t, again.header.Get(api.HeaderReplayed))
}

func TestMalformedIdempotencyKey(t *testing.T) {
	b := newNotebook(t)
	for _, key := range []string{"", "a b", "é", strings.Repeat("x", 256)} {
		require.Contains(t, b.write(key, "one").refused(400, api.BadRequest), "the header Idempotency-Key must be 1 to 255 visible ASCII characters", key)
	}
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/notes", strings.NewReader(`{"text":"one"}`))
	r.Header = http.Header{"Authorization": {"Bearer " + b.key}, api.HeaderIdempotencyKey: {"a", "b"}}
	w := httptest.NewRecorder()
	b.control().Handler().ServeHTTP(w, r)
	require.Equal(t, 400, w.Code, "two keys")
	require.EqualValues(t, 0, b.notes())
	b.write(strings.Repeat("x", 255), "one").ok()
}

// TestRefusalFreesTheIdempotencyKey: the next attempt is a new request, whatever its body.
func TestRefusalFreesTheIdempotencyKey(t *testing.T) {
	b := newNotebook(t)
	b.write("k", "").ok()
	b.call(b.key, "POST", "/v1/notes", `{"text":7}`, api.HeaderIdempotencyKey, "wrong").refused(422, api.ValidationFailed)
	b.service.before = func(context.Context) error { return api.Conflict("not now") }
	b.write("early", "one").conflict("not now", false)
	b.service.before = func(context.Context) error { panic("broken") }
	b.write("broken", "one").refused(500, api.InternalError)
	b.service.before = nil
	for _, key := range []string{"wrong", "early", "broken"} {
		first := b.write(key, "two")
		first.ok()
		b.write(key, "two").replayed(first)
	}
}

// TestOneOfManyWithOneIdempotencyKey sends one request many times at once.
func TestOneOfManyWithOneIdempotencyKey(t *testing.T) {
	stacktest.Both(t)
	b := newNotebook(t)
	answers := make([]answer, 64)
	var callers sync.WaitGroup
	for i := range answers {
		callers.Go(func() { answers[i] = b.write("same", "one") })
	}
	callers.Wait()
	require.EqualValues(t, 1, b.notes())
	last := b.write("same", "one")
	last.ok()
	for _, a := range answers {
		if a.status == 200 {
			require.Equal(t, last.text, a.text)
		} else {
			a.conflict("still being answered", true)
		}
	}
}

// TestAnswerLost: a retry after a change whose response was lost is refused, and changes nothing.
func TestAnswerLost(t *testing.T) {
	for name, after := range map[string]func(ctx context.Context, leave func()) error{
		"the answer panics": func(context.Context, func()) error { panic("broken") },
		"the answer fails": func(context.Context, func()) error {
			return api.Unavailable(api.EngineUnavailable, "away", time.Second)
		},
		"the caller leaves": func(ctx context.Context, leave func()) error { leave(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			b := newNotebook(t)
			ctx, leave := context.WithCancel(t.Context())
			b.service.after = func(ctx context.Context) error { return after(ctx, leave) }
			r := httptest.NewRequestWithContext(ctx, "POST", "/v1/notes", strings.NewReader(`{"text":"one"}`))
			r.Header = http.Header{"Authorization": {"Bearer " + b.key}, api.HeaderIdempotencyKey: {"k"}}
			b.control().Handler().ServeHTTP(httptest.NewRecorder(), r)
			b.service.after = nil
			b.write("k", "one").conflict("took effect, but its answer was lost", false)
			b.write("k", "two").conflict("with another body", false)
			require.EqualValues(t, 1, b.notes())
			b.wait(24 * time.Hour)
			b.write("k", "two").ok()
		})
	}
}

// TestLongAnswerIsNotKept: the caller gets all of it, once.
func TestLongAnswerIsNotKept(t *testing.T) {
	b := newNotebook(t)
	b.service.pad = 128 << 10
	require.Len(t, get[string](t, b.write("k", "one").ok(), "pad"), 128<<10)
	b.write("k", "one").conflict("its answer was lost", false)
	require.EqualValues(t, 1, b.notes())
	b.service.pad = 128<<10 - 1000
	first := b.write("k-2", "one")
	first.ok()
	b.write("k-2", "one").replayed(first)
}

// TestStopWithoutItsKey: where a tenant has used too many Idempotency-Keys, a stop is carried out nevertheless.
func TestStopWithoutItsKey(t *testing.T) {
	b := newNotebook(t)
	rightID := b.right(b.key, b.basis(b.key))
	b.write("k", "one").ok()
	require.NoError(t, b.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE idempotency_usage SET row_count = $1 WHERE tenant_id = $2`, 1<<40, b.tenantID)
		return err
	}))
	full := b.write("k-2", "two")
	full.refused(429, api.RateLimited)
	requireRetryAfter(t, 24*60*60, full.header.Get("Retry-After"))
	for _, action := range []string{"suspend", "revoke"} {
		b.call(b.key, "POST", "/v1/rights/"+rightID+"/"+action, `{}`, api.HeaderIdempotencyKey, "k-3").ok()
	}
	b.call(b.key, "POST", "/v1/rights/"+b.right(b.key, b.basis(b.key))+"/resume", `{}`, api.HeaderIdempotencyKey, "k-4").refused(429, api.RateLimited)
}

// stalled has a request stand still in one of the service's hooks. goOn ends that.
func (b *notebook) stalled(hook *func(context.Context) error, idempotencyKey string) (goOn func() answer) {
	b.t.Helper()
	there, on, done := make(chan struct{}), make(chan struct{}), make(chan answer, 1)
	*hook = func(context.Context) error {
		close(there)
		<-on
		return nil
	}
	go func() { done <- b.write(idempotencyKey, "one") }()
	<-there
	*hook = nil
	return func() answer {
		close(on)
		return <-done
	}
}

// TestKilledAfterTheChange: until its lease is over it is unknown that the first request will
// not be answered. Then the error of the next says that it took effect.
func TestKilledAfterTheChange(t *testing.T) {
	b := newNotebook(t)
	goOn := b.stalled(&b.service.after, "k")
	b.write("k", "one").conflict("still being answered", true)
	b.wait(time.Minute - time.Second)
	b.write("k", "one").conflict("still being answered", true)
	b.wait(time.Second)
	b.write("k", "one").conflict("its answer was lost", false)
	require.EqualValues(t, 1, b.notes())

	// It was not killed after all.
	first := goOn()
	first.ok()
	b.write("k", "one").replayed(first)
}

// TestStalledBeforeTheChange: the next request takes the key over, and the first one comes
// too late.
func TestStalledBeforeTheChange(t *testing.T) {
	b := newNotebook(t)
	goOn := b.stalled(&b.service.before, "k")
	b.write("k", "one").conflict("still being answered", true)
	b.wait(time.Minute)
	second := b.write("k", "two")
	second.ok()
	goOn().conflict("still being answered", true)
	require.EqualValues(t, 1, b.notes())
	b.write("k", "two").replayed(second)
}

// TestKeptAnswersAreEncrypted: neither a new API key nor an Idempotency-Key is in the database.
func TestKeptAnswersAreEncrypted(t *testing.T) {
	b := newNotebook(t)
	create := func(key string) answer {
		return b.call(key, "POST", "/v1/api-keys", `{"label":"a very special label"}`, api.HeaderIdempotencyKey, "guessable-0001")
	}
	made := create(b.key)
	create(b.key).replayed(made)
	apiKey, keyID := get[string](t, made.ok(), "apiKey"), get[string](t, made.ok(), "key", "keyId")
	rotate := func() answer {
		return b.call(b.key, "POST", "/v1/api-keys/"+keyID+"/rotate", "", api.HeaderIdempotencyKey, "guessable-0001")
	}
	rotated := rotate()
	rotate().replayed(rotated)
	next := get[string](t, rotated.ok(), "apiKey")

	rows, err := store.List(t.Context(), b.db.Read(), "answers", store.Text,
		`SELECT tenant_id || ' ' || key_hash || ' ' || request_hash || ' ' || token || ' ' || answer FROM idempotency`)
	require.NoError(t, err)
	require.Len(t, rows, 2)
	held := strings.Join(rows, "\n")
	require.NotContains(t, held, "special")
	files, err := filepath.Glob(filepath.Join(b.dir, "control.db*"))
	require.NoError(t, err)
	for _, file := range files { // none on PostgreSQL
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		held += string(text)
	}
	for _, secret := range []string{apiKey, next} {
		require.NotContains(t, held, secret[len(secret)-52:len(secret)-9])
	}
	require.NotContains(t, held, "guessable-0001")
}

// TestEveryPostTakesAnIdempotencyKey holds the document against the contract.
func TestEveryPostTakesAnIdempotencyKey(t *testing.T) {
	_, _, document := openService(t)
	for _, o := range operations(t, document) {
		takes := false
		parameters, _ := o.text["parameters"].([]any)
		for _, p := range parameters {
			takes = takes || p.(map[string]any)["name"] == api.HeaderIdempotencyKey
		}
		_, keyed := o.text["x-required-scope"]
		require.Equal(t, o.method == "POST" && keyed, takes, "%s %s", o.method, o.path)
		if takes && o.path != "/v1/delivery/ingest-batch" { // whose retry is judged row by row
			responses := get[map[string]any](t, o.text, "responses")
			require.Contains(t, get[map[string]any](t, responses, "200", "headers"), api.HeaderReplayed)
			require.Contains(t, responses, "409")
			require.Contains(t, responses, "429")
		}
	}
}

// TestInsideRequestsWithAnIdempotencyKey are made once for each caller, and to their end; those without one are made each time.
func TestInsideRequestsWithAnIdempotencyKey(t *testing.T) {
	b := newNotebook(t)
	var caller auth.Principal
	b.service.before = func(ctx context.Context) error { caller = auth.PrincipalFrom(ctx); return nil }
	b.write("k", "one").ok()
	for range 2 {
		status, text, err := b.control().Call(t.Context(), caller, "POST", "/v1/notes", []byte(`{"text":"one"}`))
		require.NoError(t, err)
		require.Equal(t, 200, status, string(text))
	}
	require.EqualValues(t, 3, b.notes())
	left, leave := context.WithCancel(t.Context())
	leave()
	another := *caller.Key
	another.ID = "key_another"
	var answers []string
	for _, by := range []auth.Principal{caller, caller, {Key: &another}} {
		status, text, err := b.control().CallOnce(left, by, "k", "POST", "/v1/notes", []byte(`{"text":"two"}`))
		require.NoError(t, err)
		require.Equal(t, 200, status, string(text))
		answers = append(answers, string(text))
	}
	require.EqualValues(t, 5, b.notes())
	require.Equal(t, answers[0], answers[1])
}

// TestRunForgetsIdempotencyKeys that are older than a day.
func TestRunForgetsIdempotencyKeys(t *testing.T) {
	b := newNotebook(t)
	b.write("k", "one").ok()
	b.wait(24 * time.Hour)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.control().Run(ctx) }()
	kept := func() int64 {
		n, err := store.Count(t.Context(), b.db.Read(), "keys", `SELECT COUNT(*) FROM idempotency WHERE tenant_id = $1`, b.tenantID)
		require.NoError(t, err)
		return n
	}
	waittest.Until(t, func() bool { return kept() == 0 })
	stop()
	require.NoError(t, <-done)
}

var _ control.Service = (*noteService)(nil)
