package gateway

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	mathrand "math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/issuetest"
	"muniment.example/sealer"
)

// session is one connection that is kept, for tests of many requests.
type session struct {
	w    *world
	conn net.Conn
	in   *bufio.Reader
}

func (w *world) session() *session {
	w.t.Helper()
	c := w.dial()
	w.t.Cleanup(func() { c.Close() })
	return &session{w, c, bufio.NewReader(c)}
}

func (s *session) do(text string) reply {
	s.w.t.Helper()
	_, err := io.WriteString(s.conn, text)
	require.NoError(s.w.t, err)
	return readReply(s.w.t, s.in)
}

// mended gives a key the checksum that belongs to the rest of it.
func mended(token string) string {
	body := token[:len(token)-len("_00000000")]
	return fmt.Sprintf("%s_%08x", body, crc32.ChecksumIEEE([]byte(body)))
}

// TestTamperedKeys sends requests with 10,000 keys that are nearly right. None is let in, and
// no response shows how near it was.
func TestTamperedKeys(t *testing.T) {
	w := newWorld(t, nil)
	expired := w.control.PutKey(t, 10, "tnt_a", api.EveryScope, false)
	revoked := w.control.PutKey(t, 11, "tnt_a", api.EveryScope, false)
	unknown := issuetest.NewControl().PutKey(t, 12, "tnt_a", api.EveryScope, false)
	for n, end := range map[byte]func(*api.Key){
		10: func(k *api.Key) { k.ExpiresAt = today },
		11: func(k *api.Key) { k.RevokedAt = today },
	} {
		revision := w.control.EditKey(t, n, end)
		waittest.Until(t, func() bool { return w.view.Applied() >= revision })
	}

	const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
	idAt := len("mun_test_")
	secretAt := strings.LastIndex(w.token[:len(w.token)-len("_00000000")], "_") + 1
	seed := mathrand.Uint64()
	t.Logf("seed %d", seed)
	r := mathrand.New(mathrand.NewPCG(seed, 0))
	changed := func(token string, at int) string {
		return token[:at] + string(alphabet[r.IntN(len(alphabet))]) + token[at+1:]
	}
	tamper := []func() string{
		func() string { return changed(w.token, r.IntN(len(w.token))) },
		func() string { return mended(changed(w.token, r.IntN(len(w.token)-len("_00000000")))) },
		func() string { return mended(changed(w.token, secretAt+r.IntN(43))) },
		func() string { return mended(changed(changed(w.token, secretAt+r.IntN(43)), secretAt+r.IntN(43))) },
		func() string { return w.token[:r.IntN(len(w.token))] },
		func() string { return w.token + alphabet[:1+r.IntN(len(alphabet))] },
		func() string { // two neighbours change places
			at := r.IntN(len(w.token) - 1)
			return w.token[:at] + w.token[at+1:at+2] + w.token[at:at+1] + w.token[at+2:]
		},
		func() string { return strings.ToUpper(w.token) },
		func() string { return strings.ToLower(w.token) },
		func() string { return mended(strings.Replace(w.token, "_test_", "_live_", 1)) },
		func() string { return mended(w.otherToken[:idAt+26] + w.token[idAt+26:]) }, // one's secret under the other's id
		func() string { return mended(changed(expired, secretAt+r.IntN(43))) },
		func() string { return mended(changed(revoked, secretAt+r.IntN(43))) },
		func() string { return unknown },
	}
	s := w.session()
	do := func(token string) reply {
		r := s.do(request(token, w.body()))
		r.header.Del("Date")
		return r
	}
	want := do("nonsense")
	require.Equal(t, 401, want.status)
	require.Contains(t, want.body, `"error":"AUTH_INVALID"`)
	tried := 0
	for tried < 10_000 {
		token := tamper[r.IntN(len(tamper))]()
		if token == w.token || token == expired || token == revoked || token == "" {
			continue // a change into the same, or no key at all, which is AUTH_REQUIRED
		}
		tried++
		require.Equal(t, want, do(token), token)
	}
	require.Contains(t, do(expired).body, "the API key has expired", "who has the secret may know it")
	require.Contains(t, do(revoked).body, "the API key was revoked")
	require.Equal(t, 200, do(w.token).status)
	require.Len(t, w.log.All(), 1)
}

// TestClockThatJumps moves the clock by hours and days, between requests and in the
// middle of one, under a key that is valid for some of it only.
func TestClockThatJumps(t *testing.T) {
	notBefore, notAfter := today.Add(-2*time.Hour), today.Add(2*time.Hour)
	jumps := []time.Duration{0, 0, time.Millisecond, -time.Millisecond, time.Hour, -time.Hour, 24 * time.Hour, -24 * time.Hour}
	w := newWorld(t, func(c *settings) {
		c.Now = func() time.Time { return today.Add(jumps[mathrand.IntN(len(jumps))]) }
		acquire := c.Issue.Signer
		c.Issue.Signer = func(ctx context.Context, at time.Time) (*sealer.Signer, func(), error) {
			if at.Before(notBefore) || !at.Before(notAfter) {
				return nil, nil, errors.New("no key for this moment")
			}
			return acquire(ctx, at)
		}
	})
	right := rightID(500)
	w.control.SetRight(api.Right{
		ID: right, TenantID: "tnt_a", BasisID: "bas_1", Substrate: "DOOH", State: api.RightActive, EffectiveFrom: today.AddDate(-1, 0, 0),
	})
	s := w.session()
	var issued []float64
	for i := range 1000 {
		got := s.do(request(w.token, fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":%d}`, right, i)))
		if got.status == 503 {
			require.Contains(t, got.body, `"reason":"NO_SIGNING_KEY"`)
			continue
		}
		require.Equal(t, 200, got.status, got.body)
		issued = append(issued, float64(i))
	}
	require.Greater(t, len(issued), 100)
	require.Less(t, len(issued), 900)

	var logged []float64
	for i, e := range w.log.All() {
		d, err := sealer.ReadDelivery(e.Event)
		require.NoError(t, err)
		require.False(t, d.Receipt.IssuedAt.Before(d.Receipt.RenderedAt))
		require.False(t, d.Receipt.IssuedAt.Before(notBefore) || !d.Receipt.IssuedAt.Before(notAfter), "outside the key's window")
		require.Equal(t, uint64(i+1), e.Seq)
		logged = append(logged, d.Receipt.DwellMs)
	}
	require.Equal(t, issued, logged, "the log's order is that of the requests, whatever the clock says")
}

// TestHostileJSON sends bodies that other decoders take, over a real connection.
func TestHostileJSON(t *testing.T) {
	w := newWorld(t, nil)
	s := w.session()
	whole := strings.TrimSuffix(w.body(), "}")
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	for _, c := range []struct {
		name, body string
		status     int
	}{
		{"depth 10,000", whole + `,"x":` + deep + `}`, 400},
		{"depth 10,000 in telemetry", whole + `,"telemetry":{"x":` + deep + `}}`, 400},
		{"never closed", whole + `,"x":` + strings.Repeat(`{"a":`, 10_000), 400},
		{"name twice", whole + `,"dwellMs":1}`, 422},
		{"name twice, one escaped", whole + `,"\u0072ightId":"rgh_2"}`, 422},
		{"name twice in telemetry", whole + `,"telemetry":{"minorMode":true,"minorMode":false}}`, 422},
		{"invalid UTF-8", whole + ",\"x\":\"\xc3\x28\"}", 400},
		{"overlong UTF-8", whole + ",\"x\":\"\xc0\xaf\"}", 400},
		{"surrogate in UTF-8", whole + ",\"x\":\"\xed\xa0\x80\"}", 400},
		{"lone surrogate", whole + `,"x":"\udfff"}`, 400},
		{"surrogates in the wrong order", whole + `,"x":"\udc00\ud800"}`, 400},
		{"1e400", strings.Replace(w.body(), "4200", "1e400", 1), 422},
		{"1e400 in telemetry", whole + `,"telemetry":{"speedMph":1e400}}`, 422},
		{"NaN", strings.Replace(w.body(), "4200", "NaN", 1), 400},
		{"Infinity", whole + `,"telemetry":{"speedMph":-Infinity}}`, 400},
		{"hexadecimal", strings.Replace(w.body(), "4200", "0x10", 1), 400},
		{"RIGHTID", strings.Replace(w.body(), "rightId", "RIGHTID", 1), 422},
		{"trailing bytes", w.body() + "\x00", 400},
		{"two values", w.body() + w.body(), 400},
		{"byte order mark", "\ufeff" + w.body(), 400},
		{"UTF-16", "\xff\xfe{\x00}\x00", 400},
		{"comment", "/**/" + w.body(), 400},
		{"single quotes", `{'rightId':1}`, 400},
	} {
		got := s.do(request(w.token, c.body))
		require.Equal(t, c.status, got.status, "%s: %s", c.name, got.body)
		requireEnvelope(t, got)
	}
	require.Empty(t, w.log.All())
	require.Equal(t, 200, s.do(request(w.token, w.body())).status, "the connection is as good as before")
}

// TestNothingOfARequestIsLeftInTheNext interleaves deliveries with all members and
// with the least of them on connections that share pooled memory.
func TestNothingOfARequestIsLeftInTheNext(t *testing.T) {
	w := newWorld(t, nil)
	s := w.session()
	for range 50 {
		full := strings.TrimSuffix(w.body(), "}") + `,"spatialPlacementId":"p","correlationId":"c","dataSubjectId":"s","telemetry":{"beamId":"b","eyeTrackingConsent":true,"dwellInViewMs":7}}`
		require.Equal(t, 200, s.do(request(w.token, full, "Idempotency-Key: "+rand.Text())).status)
		require.Equal(t, 422, s.do(request(w.token, `{"correlationId":"of a refused one","telemetry":{"beamId":"x"}}`)).status)
		var got struct {
			Data struct {
				Receipt struct{ SpatialPlacementID, CorrelationID *string }
			}
		}
		require.NoError(t, json.Unmarshal([]byte(s.do(request(w.token, w.body())).body), &got))
		require.Nil(t, got.Data.Receipt.SpatialPlacementID)
		require.Nil(t, got.Data.Receipt.CorrelationID)
		all := w.log.All()
		p, err := sealer.ParsePrivate(all[len(all)-1].Private)
		require.NoError(t, err)
		require.Equal(t, sealer.Private{Salt: p.Salt, AttentionMs: -1}, p)
	}
}
