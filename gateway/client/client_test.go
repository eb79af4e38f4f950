package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

var aDelivery = Delivery{RightID: "rgh_1", SpatialAnchorID: "a", DwellMs: 8200}

func TestConfigNamesTheBadField(t *testing.T) {
	good := Config{URL: "https://service.example", Key: "k"}
	for _, c := range []struct {
		change func(*Config)
		named  string
	}{
		{func(c *Config) { c.URL = "service.example" }, "URL"},
		{func(c *Config) { c.URL = "https://user@service.example" }, "URL"},
		{func(c *Config) { c.URL = "https://service.example?x=1" }, "URL"},
		{func(c *Config) { c.Key = "" }, "Key"},
		{func(c *Config) { c.Key = "a b" }, "API key is malformed"},
		{func(c *Config) { c.KeyFunc = func(context.Context) (string, error) { return "k", nil } }, "both Key"},
		{func(c *Config) { c.Timeout = -1 }, "Timeout"},
		{func(c *Config) { c.UserAgent = "a\nb" }, "UserAgent"},
		{func(c *Config) { c.Retry.Attempts = -1 }, "Retry"},
	} {
		cfg := good
		c.change(&cfg)
		_, err := New(cfg)
		require.ErrorContains(t, err, c.named)
		require.NotContains(t, err.Error(), "a b", "a key is not shown")
	}
	_, err := New(good)
	require.NoError(t, err)
}

// TestReactions holds each refusal of the service against the sentinel of its reaction, and whether
// it is tried again.
func TestReactions(t *testing.T) {
	second := time.Second
	for _, c := range []struct {
		answer *api.Error
		kind   error
		again  bool
	}{
		{&api.Error{Code: api.AuthRequired}, ErrAuth, false},
		{&api.Error{Code: api.AuthInvalid}, ErrAuth, false},
		{&api.Error{Code: api.ScopeMissing, RequiredScopes: []string{"a"}, KeyScopes: []string{"b"}}, ErrAuth, false},
		{&api.Error{Code: api.ResourceNotFound}, ErrNotFound, false},
		{&api.Error{Code: api.StateConflict}, ErrConflict, false},
		{&api.Error{Code: api.StateConflict, RetryAfter: second}, ErrConflict, true},
		{&api.Error{Code: api.PreconditionFailed}, ErrPrecondition, false},
		{&api.Error{Code: api.ValidationFailed}, ErrInvalid, false},
		{&api.Error{Code: api.BadRequest}, ErrInvalid, false},
		{&api.Error{Code: api.BadRequest, HTTPStatus: 408}, ErrUnavailable, true},
		{&api.Error{Code: api.BadRequest, HTTPStatus: 413}, ErrInvalid, false},
		{&api.Error{Code: api.RateLimited}, ErrRateLimited, true},
		{&api.Error{Code: api.InternalError}, ErrUnavailable, true},
		{api.Unavailable(api.Draining, "going away", second), ErrUnavailable, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls, keys := 0, map[string]bool{}
			client := newTestClient(t, transport(func(r *http.Request) (*http.Response, error) {
				calls++
				keys[r.Header.Get(api.HeaderIdempotencyKey)] = true
				after := []string{}
				if c.answer.RetryAfter > 0 {
					after = []string{"Retry-After", "1"}
				}
				return respond(r, c.answer.GetStatus(), failure(c.answer), after...), nil
			}))
			_, err := client.Deliver(t.Context(), aDelivery)
			var e *Error
			require.ErrorAs(t, err, &e)
			require.ErrorIs(t, err, c.kind)
			for _, other := range []error{ErrInvalid, ErrAuth, ErrNotFound, ErrConflict, ErrPrecondition, ErrRateLimited, ErrUnavailable, ErrForeign} {
				require.Equal(t, other == c.kind, errors.Is(err, other), "%v is %v", err, other)
			}
			require.Equal(t, c.answer.Code, e.Code)
			require.Equal(t, c.answer.GetStatus(), e.Status)
			require.Equal(t, c.answer.RequiredScopes, e.RequiredScopes)
			require.Equal(t, c.answer.Reason, e.Reason)
			require.Equal(t, "req-1", e.RequestID)
			require.Len(t, keys, 1, "each attempt has the same key")
			require.True(t, keys[e.IdempotencyKey])
			want := 1
			if c.again {
				want = 5
			}
			require.Equal(t, want, calls, "%v", err)
		})
	}
}

// TestRetryHonoursTheService: the pauses grow, and are as long as the service says.
func TestRetryHonoursTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		began := time.Now()
		answers := []func(r *http.Request) (*http.Response, error){
			func(r *http.Request) (*http.Response, error) {
				return respond(r, 503, "<html>", "Retry-After", "7"), nil
			},
			func(r *http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
			func(r *http.Request) (*http.Response, error) {
				return respond(r, 429, failure(&api.Error{Code: api.RateLimited}), "Retry-After", time.Now().Add(30*time.Second).UTC().Format(http.TimeFormat)), nil
			},
			func(r *http.Request) (*http.Response, error) { return respond(r, 200, delivered), nil },
		}
		c := newTestClient(t, transport(func(r *http.Request) (*http.Response, error) {
			at = append(at, time.Since(began))
			return answers[len(at)-1](r)
		}))
		got, err := c.Deliver(t.Context(), aDelivery)
		require.NoError(t, err)
		require.Equal(t, "rcp_1", got.Receipt.ReceiptID)
		require.Len(t, at, 4)
		require.InDelta(t, 7.5, at[1].Seconds(), 0.5)
		require.InDelta(t, 0.75, (at[2] - at[1]).Seconds(), 0.25, "the second pause is half a second to a second")
		require.InDelta(t, 30.0, (at[3] - at[2]).Seconds(), 2.5)
	})
}

// TestRetryEndsWithItsContext: a call never outlasts its context, nor waits for what would.
func TestRetryEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, transport(func(r *http.Request) (*http.Response, error) {
			return respond(r, 503, failure(api.Unavailable(api.Draining, "going away", time.Second)), "Retry-After", "60"), nil
		}))
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := c.Deliver(ctx, aDelivery)
		require.ErrorIs(t, err, ErrUnavailable, "what was answered says more than that the time is over")
		require.Zero(t, time.Since(began), "it would have to wait for longer than it may")

		late, end := context.WithCancel(t.Context())
		go func() {
			time.Sleep(5 * time.Second)
			end()
		}()
		_, err = c.Deliver(late, aDelivery)
		require.Error(t, err)
		require.Equal(t, 5*time.Second, time.Since(began))

		hangs := newTestClient(t, transport(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}), func(cfg *Config) { cfg.Timeout, cfg.Retry.Attempts = 3*time.Second, 2 })
		began = time.Now()
		_, err = hangs.Deliver(t.Context(), aDelivery)
		require.ErrorIs(t, err, ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.GreaterOrEqual(t, time.Since(began), 6*time.Second)
	})
}

// TestServerThatFails has a real connection fail in every way.
func TestServerThatFails(t *testing.T) {
	var how func(http.ResponseWriter, *http.Request)
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { calls++; how(w, r) }))
	defer server.Close()
	quick := RetryPolicy{Attempts: 3, FirstDelay: time.Microsecond, MaxDelay: time.Millisecond}
	c, err := New(Config{URL: server.URL, Key: "k", Retry: quick})
	require.NoError(t, err)
	hijack := func(text string) func(w http.ResponseWriter, _ *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, text)
				_ = conn.Close()
			}
		}
	}
	for _, f := range []struct {
		name  string
		how   func(http.ResponseWriter, *http.Request)
		kind  error
		calls int
		says  string
	}{
		{"closes early", hijack(""), ErrUnavailable, 3, "no answer"},
		{"is no HTTP", hijack("SSH-2.0-x\r\n"), ErrUnavailable, 3, "no answer"},
		{"is cut off", hijack("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"ok\":true,"), ErrForeign, 3, "cut off"},
		{"a refusal is cut off", hijack("HTTP/1.1 404 Not Found\r\nContent-Length: 1000\r\n\r\n{"), ErrForeign, 1, "cut off"},
		{"another page", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<html>Welcome to the hotel\x00")
		}, ErrForeign, 1, "Welcome to the hotel"},
		{"a proxy's error", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<h1>bad gateway", http.StatusBadGateway) }, ErrForeign, 3, "502 Bad Gateway"},
		{"a proxy's no", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<h1>who are you", http.StatusForbidden) }, ErrForeign, 1, "403 Forbidden"},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere.example", http.StatusTemporaryRedirect)
		}, ErrForeign, 1, "307"},
		{"another envelope", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"ok":true,"data":{}}`) }, ErrForeign, 1, "begins"},
		{"data of another kind", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"ok":true,"data":[1],"contractVersion":"v1.0"}`)
		}, ErrForeign, 1, "cannot read its data"},
		{"an envelope that says no with 200", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"ok":false,"error":"INTERNAL_ERROR","contractVersion":"v1.0"}`)
		}, ErrForeign, 1, "begins"},
	} {
		t.Run(f.name, func(t *testing.T) {
			how, calls = f.how, 0
			_, err := c.Deliver(t.Context(), aDelivery)
			var e *Error
			require.ErrorAs(t, err, &e)
			require.ErrorIs(t, err, f.kind)
			require.Contains(t, err.Error(), f.says)
			require.NotContains(t, err.Error(), "\x00")
			require.Equal(t, f.calls, calls)
			require.NotEmpty(t, e.IdempotencyKey)
		})
	}
	t.Run("hangs", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		how = func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // or the server does not look whether the caller is gone
			cancel()
			<-r.Context().Done()
		}
		_, err := c.Deliver(ctx, aDelivery)
		require.ErrorIs(t, err, context.Canceled)
	})
	t.Run("is away", func(t *testing.T) {
		server.Close()
		_, err := c.Deliver(t.Context(), aDelivery)
		require.ErrorIs(t, err, ErrUnavailable)
		var refused *net.OpError
		require.ErrorAs(t, err, &refused)
	})
}

func TestDeliverSendsTheCallersKey(t *testing.T) {
	c := newTestClient(t, transport(func(r *http.Request) (*http.Response, error) {
		require.Equal(t, "play-1", r.Header.Get(api.HeaderIdempotencyKey))
		require.Equal(t, "Bearer mun_test_key", r.Header.Get("Authorization"))
		require.Equal(t, "fleet/2", r.Header.Get("User-Agent"))
		require.Equal(t, "https://service.example/base/v1/delivery", r.URL.String())
		require.JSONEq(t, `{"rightId":"rgh_1","spatialAnchorId":"a","dwellMs":8200,"telemetry":{"speedMph":0,"audible":false}}`, string(bytesOf(t, r)))
		return respond(r, 200, delivered, api.HeaderReplayed, "true"), nil
	}), func(cfg *Config) { cfg.UserAgent = "fleet/2" })
	d := aDelivery
	d.IdempotencyKey, d.Telemetry = "play-1", Telemetry{SpeedMph: new(0.0), Audible: new(false)}
	got, err := c.Deliver(t.Context(), d)
	require.NoError(t, err)
	require.True(t, got.Replayed)
	require.Equal(t, "play-1", got.IdempotencyKey)

	for says, bad := range map[string]Delivery{
		"object in JSON": {Telemetry: 7}, "Idempotency-Key": {IdempotencyKey: "a b"}, "PlayedAt": {PlayedAt: time.Now()},
	} {
		_, err := c.Deliver(t.Context(), bad)
		require.ErrorContains(t, err, says)
	}
	_, err = c.Rights().Get(t.Context(), "")
	require.ErrorContains(t, err, "an id is empty")
}

func TestKeyIsAskedForEachAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := []string{"first", "second"}
		c := newTestClient(t, transport(func(r *http.Request) (*http.Response, error) {
			if r.Header.Get("Authorization") == "Bearer first" {
				return respond(r, 503, failure(api.Unavailable(api.Draining, "", 0))), nil
			}
			return respond(r, 200, delivered), nil
		}), func(cfg *Config) {
			cfg.Key = ""
			cfg.KeyFunc = func(context.Context) (string, error) {
				if len(keys) == 0 {
					return "", errors.New("the vault is locked")
				}
				key := keys[0]
				keys = keys[1:]
				return key, nil
			}
		})
		_, err := c.Deliver(t.Context(), aDelivery)
		require.NoError(t, err)
		_, err = c.Deliver(t.Context(), aDelivery)
		require.ErrorContains(t, err, "the vault is locked")
	})
}

// TestListsReadAllPages: in order, with the filter on each page, and no page that nobody asks for.
func TestListsReadAllPages(t *testing.T) {
	pages := map[string]string{
		"":   `{"rights":[{"id":"rgh_1"},{"id":"rgh_2"}],"nextCursor":"c1"}`,
		"c1": `{"rights":[],"nextCursor":"c2"}`,
		"c2": `{"rights":[{"id":"rgh_3"}],"nextCursor":null}`,
	}
	asked := 0
	fails := ""
	c := newTestClient(t, transport(func(r *http.Request) (*http.Response, error) {
		asked++
		require.Equal(t, "ACTIVE", r.URL.Query().Get("state"))
		cursor := r.URL.Query().Get("cursor")
		if cursor == fails && fails != "" {
			return respond(r, 404, failure(api.NotFound("page"))), nil
		}
		return respond(r, 200, success(json.RawMessage(pages[cursor]))), nil
	}))
	all := c.Rights().List(t.Context(), RightFilter{State: "ACTIVE"})
	read := func() (ids []string, err error) {
		for right, err := range all {
			if err != nil {
				return ids, err
			}
			ids = append(ids, right.ID)
		}
		return ids, nil
	}
	for range 2 { // an iterator begins anew
		ids, err := read()
		require.NoError(t, err)
		require.Equal(t, "rgh_1 rgh_2 rgh_3", strings.Join(ids, " "))
	}
	require.Equal(t, 6, asked)
	for range all {
		break
	}
	require.Equal(t, 7, asked)
	fails = "c2"
	ids, err := read()
	require.ErrorIs(t, err, ErrNotFound)
	require.Len(t, ids, 2)
}

// TestSealGoesOn: until there is no more, with the end that the first step fixed.
func TestSealGoesOn(t *testing.T) {
	steps := []string{
		`{"packs":[{"packId":"ppk_1"}],"pack":{"packId":"ppk_1"},"upTo":"1.0.9","more":true,"pending":[]}`,
		`{"packs":[{"packId":"ppk_2","v":1}],"pack":{"packId":"ppk_2"},"upTo":"1.0.9","more":false,"pending":[{"nodeId":"nod_1","count":2}]}`,
	}
	n, keys := 0, map[string]bool{}
	c := newTestClient(t, transport(func(r *http.Request) (*http.Response, error) {
		require.Equal(t, []string{`{}`, `{"upTo":"1.0.9"}`}[n], string(bytesOf(t, r)))
		keys[r.Header.Get(api.HeaderIdempotencyKey)] = true
		n++
		return respond(r, 200, success(json.RawMessage(steps[n-1]))), nil
	}))
	sealed, err := c.ProofPacks().Seal(t.Context())
	require.NoError(t, err)
	require.Len(t, keys, 2, "a second step is no retry of the first")
	require.Len(t, sealed.Packs, 2)
	require.Equal(t, "ppk_1", sealed.Packs[0].PackID)
	require.JSONEq(t, `{"packId":"ppk_2","v":1}`, string(sealed.Packs[1].Text))
	require.Equal(t, "ppk_2", sealed.Pack.PackID)
	require.Equal(t, int64(2), sealed.Pending[0].Count)
}

// TestStreamsBreakVisibly: a file that breaks off does not look whole, and one may take longer than
// an attempt.
func TestStreamsBreakVisibly(t *testing.T) {
	more := make(chan string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(200)
		for text := range more {
			if text == "" {
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(w, text)
			w.(http.Flusher).Flush()
		}
	}))
	defer server.Close()
	c, err := New(Config{URL: server.URL, Key: "k"})
	require.NoError(t, err)
	begin := func() io.ReadCloser {
		go func() { more <- "line\n" }()
		file, err := c.ProofPacks().Bundle(t.Context(), "ppk_1")
		require.NoError(t, err)
		return file
	}
	file := begin()
	more <- ""
	_, err = io.ReadAll(file)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NoError(t, file.Close())
	file = begin()
	close(more)
	text, err := io.ReadAll(file)
	require.NoError(t, err)
	require.Equal(t, "line\n", string(text))
	require.NoError(t, file.Close())
}

// TestUnsetMembersAreLeftOut: the service refuses null for what a device has not observed.
func TestUnsetMembersAreLeftOut(t *testing.T) {
	text, err := json.Marshal(Telemetry{})
	require.NoError(t, err)
	require.Equal(t, `{}`, string(text))
	text, err = json.Marshal(api.Observation{RightID: "rgh_1", SpatialAnchorID: "a"})
	require.NoError(t, err)
	require.Equal(t, `{"rightId":"rgh_1","spatialAnchorId":"a","dwellMs":0}`, string(text))
	require.Equal(t, `{"playedAt":"","dwellMs":0}`, string((&Row{}).AppendJSON(nil)))
}
