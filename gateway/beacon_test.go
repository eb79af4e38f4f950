package gateway

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"image/gif"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/issuetest"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
)

// beaconSigner signs beacons, and is known to the node.
type beaconSigner struct {
	private ed25519.PrivateKey
	id      string
}

func (w *world) beaconSigner(seed byte, edit func(*api.BeaconKey)) beaconSigner {
	private := ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(seed)), ed25519.SeedSize)))
	public := private.Public().(ed25519.PublicKey)
	k := api.BeaconKey{ID: keydir.KeyID(public), PublicKey: public, NotBefore: today.Add(-24 * time.Hour)}
	if edit != nil {
		edit(&k)
	}
	revision := w.control.SetBeaconKey(k)
	waittest.Until(w.t, func() bool { return w.view.Applied() >= revision })
	return beaconSigner{private, k.ID}
}

// token makes one that is sound, but for the edit.
func (s beaconSigner) token(t *testing.T, w *world, edit func(*api.Beacon)) string {
	b := api.Beacon{
		TenantID: "tnt_a", KeyID: issuetest.KeyID(1), RightID: w.right, SpatialAnchorID: "screen-7", IssuedAt: today.Add(-time.Hour),
		ExpiresAt: today.Add(time.Hour), MaxReceiptsPerHour: 1000, SigningKeyID: s.id,
	}
	if edit != nil {
		edit(&b)
	}
	token, err := api.SignBeacon(&b, func(m []byte) ([]byte, error) { return ed25519.Sign(s.private, m), nil })
	require.NoError(t, err)
	return token
}

// call requests a beacon, and requires that the response is the image, whatever the outcome. It
// returns the one outcome that was counted.
func (w *world) call(method, target string, headers ...string) string {
	w.t.Helper()
	counts := func() (all [beaconOutcomes]float64) {
		for o := range beaconOutcomes {
			all[o] = w.metric("muniment_gateway_beacons_total", o.String())
		}
		return all
	}
	before := counts()
	req, err := http.NewRequest(method, "http://"+w.addr, nil)
	require.NoError(w.t, err)
	req.URL.Opaque = "//" + w.addr + target // as it stands
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Set(name, value)
	}
	got, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(w.t, err)
	defer got.Body.Close()
	require.Equal(w.t, 200, got.StatusCode)
	require.Equal(w.t, "image/gif", got.Header.Get("Content-Type"))
	require.Equal(w.t, "no-store", got.Header.Get("Cache-Control"))
	require.Equal(w.t, "*", got.Header.Get("Access-Control-Allow-Origin"))
	require.Empty(w.t, got.Header.Get("ETag")+got.Header.Get("Last-Modified"))
	if method != "HEAD" {
		image, err := gif.Decode(got.Body)
		require.NoError(w.t, err)
		require.Equal(w.t, 1, image.Bounds().Dx()*image.Bounds().Dy())
	}
	changed := ""
	for o, n := range counts() {
		if n != before[o] {
			require.Empty(w.t, changed)
			require.Equal(w.t, before[o]+1, n)
			changed = beaconOutcome(o).String()
		}
	}
	return changed
}

// TestBeacon: a call is a receipt of its own, named by token and eid; with the same eid it is
// the same play, whatever else it says.
func TestBeacon(t *testing.T) {
	w := newWorld(t, nil)
	token := w.beaconSigner('a', nil).token(t, w, nil)
	require.Equal(t, "recorded", w.call("GET", "/beacon/"+token+"?eid=play-1&dwellMs=8000&ord=[timestamp]&eid2=x"))
	d, err := sealer.ReadDelivery(w.log.All()[0].Event)
	require.NoError(t, err)
	require.Equal(t, []any{"screen-7", "play-1", 8000.0, today, issuetest.KeyID(1), w.right},
		[]any{d.Receipt.SpatialAnchorID, *d.Receipt.CorrelationID, d.Receipt.DwellMs, d.Receipt.RenderedAt, d.Event.Actor.ID, d.RightID})
	require.NotEmpty(t, d.Identity.Hash)
	require.Empty(t, d.Identity.Day)
	require.Empty(t, d.Idempotency)
	for _, again := range []string{"?eid=play-1&dwellMs=8000", "?eid=play-1", "?dwellMs=9000&eid=play%2D1"} {
		require.Equal(t, "duplicate", w.call("GET", "/beacon/"+token+again))
	}
	require.Equal(t, "recorded", w.call("GET", "/beacon/"+token+"?eid=play-2&dwellMs=8000.5"))
	other := w.beaconSigner('a', nil).token(t, w, func(b *api.Beacon) { b.SpatialAnchorID = "screen-8" })
	require.Equal(t, "recorded", w.call("GET", "/beacon/"+other+"?eid=play-1"), "another beacon's")

	w.restart(nil)
	require.Equal(t, "duplicate", w.call("GET", "/beacon/"+token+"?eid=play-2"), "also after a start")
	require.Len(t, w.log.All(), 3)
}

// TestBeaconNeedsAPlay: what is fetched ahead, or names no play, is no play. The tenant sees how often
// and why.
func TestBeaconNeedsAPlay(t *testing.T) {
	w := newWorld(t, nil)
	target := "/beacon/" + w.beaconSigner('a', nil).token(t, w, nil)
	for _, header := range []string{"Sec-Purpose: prefetch", "Sec-Purpose: prefetch;prerender", "Purpose: prefetch", "purpose: Prefetch", "X-Moz: prefetch", "X-Purpose: preview"} {
		require.Equal(t, "prefetch", w.call("GET", target+"?eid=pre&dwellMs=7001", header), header)
	}
	for _, macro := range []string{"[CACHEBUSTING]", "%5BCACHEBUSTING%5D", "%25%25CACHEBUSTER%25%25", "%%CACHEBUSTER%%", "${CB}", "%24%7BCB%7D", "{CB}", "%7Bcb%7D", "-1", "-2", "[timestamp]",
		"player7-[CACHEBUSTING]", "%25%25A%25%25-1", "x${AUCTION_ID}"} {
		require.Equal(t, "macro", w.call("GET", target+"?dwellMs=8000&eid="+macro), macro)
		require.Equal(t, "recorded", w.call("GET", target+"?dwellMs=8000&eid="+url.QueryEscape(strings.ToLower("with "+macro+" beside"))+"&cb="+macro), macro)
	}
	require.Equal(t, "malformed", w.call("GET", target+"?dwellMs=8000"))
	require.Equal(t, "recorded", w.call("GET", target+"?eid=play-1&dwellMs=8000", "Purpose: fetch"))

	require.NoError(t, w.end())
	events := w.log.All()
	counted := string(events[len(events)-1].Event)
	for rule, count := range map[string]int{"beacon-prefetch": 6, "beacon-macro": 14, "beacon-malformed": 1} {
		require.Contains(t, counted, fmt.Sprintf(`{"count":%d,"rightId":%q,"rule":%q}`, count, w.right, rule))
	}
}

// TestBeaconIsRefused: what is no play of the beacon's is answered alike, and is no receipt.
func TestBeaconIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	s := w.beaconSigner('a', nil)
	token := s.token(t, w, nil)
	drone := w.putRight(8, "tnt_a", gate.Drone, "", api.RightActive)
	revoked := w.beaconSigner('b', func(k *api.BeaconKey) { k.RevokedAt = today })
	retired := w.beaconSigner('c', func(k *api.BeaconKey) { k.NotAfter = today.Add(-time.Minute) })
	stranger := beaconSigner{ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), "0123"}
	posing := beaconSigner{stranger.private, s.id}
	w.control.EditKey(t, 2, func(k *api.Key) { k.RevokedAt = today })
	waittest.Until(t, func() bool { return w.view.Fresh() == nil })
	text, signature, _ := strings.Cut(token, ".")
	last := strings.Index("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", signature[len(signature)-1:])
	respelt := text + "." + signature[:len(signature)-1] + "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[last+1:last+2]
	require.NotEqual(t, token, respelt)
	of := func(edit func(*api.Beacon)) string { return s.token(t, w, edit) }

	for name, c := range map[string]struct{ method, token, query, want string }{
		"a preview":            {"HEAD", token, "?eid=x", "not_get"},
		"a preflight":          {"OPTIONS", token, "?eid=x", "not_get"},
		"no eid":               {"GET", token, "?dwellMs=1", "malformed"},
		"an empty eid":         {"GET", token, "?eid=", "malformed"},
		"two eids":             {"GET", token, "?eid=a&eid=b", "malformed"},
		"a long eid":           {"GET", token, "?eid=" + strings.Repeat("x", 256), "malformed"},
		"an eid that is bytes": {"GET", token, "?eid=%ff", "malformed"},
		"a line in the eid":    {"GET", token, "?eid=a%0ab", "malformed"},
		"a dwell in words":     {"GET", token, "?eid=x&dwellMs=long", "malformed"},
		"a negative dwell":     {"GET", token, "?eid=x&dwellMs=-3", "malformed"},
		"a dwell not known":    {"GET", token, "?eid=x&dwellMs=-1", "macro"},
		"a macro of a dwell":   {"GET", token, "?eid=x&dwellMs=[DWELL]", "macro"},
		"an endless dwell":     {"GET", token, "?eid=x&dwellMs=" + strings.Repeat("9", 400), "malformed"},
		"no token":             {"GET", "", "?eid=x", "invalid"},
		"any text":             {"GET", "a.b", "?eid=x", "invalid"},
		"a token and more":     {"GET", token + "/x", "?eid=x", "invalid"},
		"half a token":         {"GET", token[:len(token)/2], "?eid=x", "invalid"},
		"another spelling":     {"GET", respelt, "?eid=x", "invalid"},
		"a line in the token":  {"GET", text[:8] + "%0A" + text[8:] + "." + signature, "?eid=x", "invalid"},
		"a changed token":      {"GET", base64.RawURLEncoding.EncodeToString([]byte(`{"maxReceiptsPerHour":9}`)) + "." + signature, "?eid=x", "invalid"},
		"a stranger's":         {"GET", stranger.token(t, w, nil), "?eid=x", "invalid"},
		"a pretender's":        {"GET", posing.token(t, w, nil), "?eid=x", "invalid"},
		"a revoked key's":      {"GET", revoked.token(t, w, nil), "?eid=x", "invalid"},
		"of before the key":    {"GET", of(func(b *api.Beacon) { b.IssuedAt = today.Add(-48 * time.Hour) }), "?eid=x", "invalid"},
		"of behind the key":    {"GET", retired.token(t, w, func(b *api.Beacon) { b.IssuedAt = today }), "?eid=x", "invalid"},
		"expired":              {"GET", of(func(b *api.Beacon) { b.ExpiresAt = today }), "?eid=x", "expired"},
		"a revoked API key":    {"GET", of(func(b *api.Beacon) { b.TenantID, b.KeyID = "tnt_b", issuetest.KeyID(2) }), "?eid=x", "key"},
		"no such API key":      {"GET", of(func(b *api.Beacon) { b.KeyID = issuetest.KeyID(9) }), "?eid=x", "key"},
		"another's API key":    {"GET", of(func(b *api.Beacon) { b.TenantID = "tnt_b" }), "?eid=x", "key"},
		"a key that may not":   {"GET", of(func(b *api.Beacon) { b.KeyID = issuetest.KeyID(3) }), "?eid=x", "key"},
		"a suspended right":    {"GET", of(func(b *api.Beacon) { b.RightID = w.suspended }), "?eid=x", "refused"},
		"another's right":      {"GET", of(func(b *api.Beacon) { b.RightID = w.foreign }), "?eid=x", "refused"},
		"what the gate bars":   {"GET", of(func(b *api.Beacon) { b.RightID = drone }), "?eid=x", "refused"},
	} {
		require.Equal(t, c.want, w.call(c.method, "/beacon/"+c.token+c.query), name)
	}
	require.Empty(t, w.log.All())
	require.Equal(t, "recorded", w.call("GET", "/beacon/"+retired.token(t, w, nil)+"?eid=x"), "a beacon outlives the window of the key that signed it")
	require.Equal(t, "recorded", w.call("GET", "/beacon/"+url.PathEscape(token)+"?eid=%C3%A4"))

	w.log.SetFail(fmt.Errorf("no disk"))
	require.Equal(t, "unavailable", w.call("GET", "/beacon/"+token+"?eid=y"))
	w.log.SetFail(nil)
	w.skew.Store(int64(time.Hour))
	require.Equal(t, "unavailable", w.call("GET", "/beacon/"+token+"?eid=y"), "without a lease")
}

// TestUnreadBeacon: a request that can't be read is answered with the image as well, as far as its
// path can be told.
func TestUnreadBeacon(t *testing.T) {
	w := newWorld(t, func(c *settings) { c.ReadTimeout = 100 * time.Millisecond })
	long := "Cookie: " + strings.Repeat("x", 16<<10) + "\r\n\r\n"
	for name, text := range map[string]string{
		"headers of 16 KiB": "GET /beacon/x?eid=1 HTTP/1.1\r\nHost: m\r\n" + long,
		"of another method": "POST /beacon/x HTTP/1.1\r\nHost: m\r\n" + long,
		"two lengths":       "GET /beacon/x HTTP/1.1\r\nHost: m\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
		"a folded header":   "GET /beacon/x HTTP/1.1\r\nHost: m\r\nX: a\r\n b\r\n\r\n",
		"a body":            "POST /beacon/x HTTP/1.1\r\nHost: m\r\nContent-Length: 10\r\n\r\n",
		"half a head":       "GET /beacon/x HTTP/1.1\r\nHost: m\r\n",
	} {
		r := w.tooSlow(text)
		require.Equal(t, 200, r.status, name)
		require.Equal(t, string(pixel), r.body, name)
		require.Equal(t, []string{"image/gif", "no-store", "*"}, []string{r.header.Get("Content-Type"), r.header.Get("Cache-Control"), r.header.Get("Access-Control-Allow-Origin")}, name)
		require.True(t, r.closes, name)
	}
	require.Equal(t, 431, w.tooSlow("GET /v1/beacon/x HTTP/1.1\r\nHost: m\r\nX: /beacon/\r\n"+long).status)
	require.Equal(t, 6.0, w.metric("muniment_gateway_beacons_total", "malformed")+w.metric("muniment_gateway_beacons_total", "unavailable"))
}

// TestBeaconRate: no hour has more receipts than the beacon may have, and neither duplicates nor
// refusals count.
func TestBeaconRate(t *testing.T) {
	w := newWorld(t, nil)
	s := w.beaconSigner('a', nil)
	token := s.token(t, w, func(b *api.Beacon) { b.MaxReceiptsPerHour = 2 })
	require.Equal(t, "recorded", w.call("GET", "/beacon/"+token+"?eid=1"))
	require.Equal(t, "duplicate", w.call("GET", "/beacon/"+token+"?eid=1"))
	w.log.SetFail(fmt.Errorf("no disk"))
	require.Equal(t, "unavailable", w.call("GET", "/beacon/"+token+"?eid=2"))
	w.log.SetFail(nil)
	require.Equal(t, "recorded", w.call("GET", "/beacon/"+token+"?eid=2"))
	require.Equal(t, "limited", w.call("GET", "/beacon/"+token+"?eid=3"))
	require.Equal(t, "recorded", w.call("GET", "/beacon/"+s.token(t, w, func(b *api.Beacon) { b.SpatialAnchorID = "other" })+"?eid=3"), "another's count is its own")
	require.Len(t, w.log.All(), 3)
}

// TestRollingHour counts against a list of all that were taken.
func TestRollingHour(t *testing.T) {
	var rates rates
	var taken []time.Time
	now := today
	step := func(d time.Duration, text string, limit int) bool {
		now = now.Add(d)
		_, ok := rates.take("tnt_a", []byte(text), limit, now)
		return ok
	}
	for i := range 4000 {
		d := time.Duration(i*i*7919%240) * time.Second
		if i%500 == 499 {
			d = 3 * time.Hour
		}
		if step(d, "a", 20) {
			taken = append(taken, now)
		}
		inHour := 0
		for _, at := range taken {
			if now.Sub(at) < time.Hour {
				inHour++
			}
		}
		require.LessOrEqual(t, inHour, 20)
	}
	require.Greater(t, len(taken), 1000, "and not many fewer than it may")
	require.True(t, step(2*time.Hour, "b", 1))
	require.False(t, step(time.Hour, "b", 1), "the running step is no whole one")
	require.True(t, step(rateStep, "b", 1))
	require.False(t, step(-time.Hour, "b", 1), "a clock that steps back frees nothing")
}

// TestManyBeacons: those that a node has no room to count are passed, never lost; one tenant
// takes no room of another's, and what rests makes room.
func TestManyBeacons(t *testing.T) {
	var rates rates
	take := func(tenant string, n int, at time.Time) bool {
		_, ok := rates.take(tenant, []byte(fmt.Sprint(tenant, n)), 1, at)
		return ok
	}
	for n := range maxRates {
		require.True(t, take("tnt_a", n, today))
	}
	require.Equal(t, maxRates/2, len(rates.all))
	require.False(t, take("tnt_a", 0, today), "what is counted stays so")
	require.True(t, take("tnt_a", maxRates, today))
	require.True(t, take("tnt_a", maxRates, today), "and what is not, is passed")
	require.True(t, take("tnt_b", 0, today))
	require.False(t, take("tnt_b", 0, today), "another tenant's has its room")
	for n := range maxRates {
		require.True(t, take("tnt_c", n, today))
	}
	require.Equal(t, maxRates, len(rates.all))
	require.False(t, take("tnt_b", 0, today))

	later := today.Add(2 * time.Hour)
	for n := range maxRates / 4 {
		require.True(t, take("tnt_d", n, later))
	}
	require.LessOrEqual(t, len(rates.all), maxRates/3, "those that rest make room")
	require.False(t, take("tnt_d", 0, later))
	counted := 0
	for _, of := range rates.owners {
		require.Positive(t, of.counted)
		counted += of.counted
	}
	require.Equal(t, len(rates.all), counted)

	before := len(rates.all)
	taken, ok := rates.take("tnt_e", []byte("refused"), 1, later)
	require.True(t, ok)
	rates.giveBack(taken)
	require.LessOrEqual(t, len(rates.all), before, "one without receipts takes no room")
	require.NotContains(t, rates.owners, "tnt_e")
}
