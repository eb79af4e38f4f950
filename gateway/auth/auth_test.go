package auth

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

var now = time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)

// keys is a Keys over a map; err makes it fail.
type keys struct {
	byID map[string]*api.Key
	err  error
}

func (k keys) Key(_ context.Context, id string) (*api.Key, error) { return k.byID[id], k.err }

func newKey(t *testing.T) (token string, key *api.Key, known keys) {
	t.Helper()
	id := api.NewID(api.PrefixKey, now)
	token, prefix, hash, err := NewKey(rand.Reader, EnvTest, id)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(token, prefix+"_"))
	key = &api.Key{ID: id, TenantID: "tnt_a", Prefix: prefix, SecretHash: hash, Scopes: api.EveryScope}
	return token, key, keys{byID: map[string]*api.Key{id: key}}
}

func TestAuthenticate(t *testing.T) {
	token, key, known := newKey(t)
	for _, scheme := range []string{"Bearer", "bearer", "BEARER"} {
		p, err := Authenticate(t.Context(), scheme+" "+token, known, now)
		require.NoError(t, err)
		require.Equal(t, key.ID, p.ID)
		require.NoError(t, p.Require(api.DeliveryWrite))
		require.Error(t, p.Require(api.Wildcard))
	}
	for header, want := range map[string]api.Code{
		"":                            api.AuthRequired,
		"Bearer":                      api.AuthRequired,
		"Bearer ":                     api.AuthRequired,
		"Basic " + token:              api.AuthRequired,
		token:                         api.AuthRequired,
		"Bearer  " + token:            api.AuthRequired,
		"Bearer " + token + " ":       api.AuthRequired,
		"Bearer " + token + ",x":      api.AuthRequired,
		"Bearer nonsense":             api.AuthInvalid,
		"Bearer " + token[1:]:         api.AuthInvalid,
		"Bearer " + token + "0":       api.AuthInvalid,
		"Bearer " + foreign(t, known): api.AuthInvalid,
	} {
		_, err := Authenticate(t.Context(), header, known, now)
		require.Equal(t, want, api.From(err).Code, header)
	}
}

// foreign is a well-formed key with a known id and another secret.
func foreign(t *testing.T, known keys) string {
	for id := range known.byID {
		token, _, _, err := NewKey(rand.Reader, EnvTest, id)
		require.NoError(t, err)
		return token
	}
	return ""
}

func TestEveryChangedCharacterIsRefused(t *testing.T) {
	token, _, known := newKey(t)
	for i := range token {
		for _, c := range []byte("0aZ_ \x00") {
			if token[i] == c {
				continue
			}
			changed := token[:i] + string(c) + token[i+1:]
			_, err := Authenticate(t.Context(), "Bearer "+changed, known, now)
			require.Error(t, err, "position %d: %q", i, changed)
			_, ok := ParseToken(changed)
			require.False(t, ok, "the checksum must catch position %d", i)
		}
	}
	// A test key passed off as a live one, its checksum mended.
	live := strings.Replace(token, "_test_", "_live_", 1)
	live = live[:len(live)-crcLen-1]
	live = fmt.Sprintf("%s_%08x", live, crc32.ChecksumIEEE([]byte(live)))
	_, ok := ParseToken(live)
	require.True(t, ok)
	_, err := Authenticate(t.Context(), "Bearer "+live, known, now)
	require.Equal(t, api.AuthInvalid, api.From(err).Code)
}

func TestExpiredAndRevokedKeys(t *testing.T) {
	token, key, known := newKey(t)
	key.ExpiresAt = now
	_, err := Authenticate(t.Context(), "Bearer "+token, known, now)
	require.Equal(t, api.AuthInvalid, api.From(err).Code)
	_, err = Authenticate(t.Context(), "Bearer "+token, known, now.Add(-time.Millisecond))
	require.NoError(t, err)

	key.ExpiresAt, key.RevokedAt = time.Time{}, now
	for _, clock := range []time.Time{now, now.Add(-time.Minute)} {
		_, err = Authenticate(t.Context(), "Bearer "+token, known, clock)
		require.Equal(t, api.AuthInvalid, api.From(err).Code, "also when the clock steps back")
	}
}

func TestFailingLookupIsToldAsItIs(t *testing.T) {
	token, _, known := newKey(t)
	known.err = errors.New("database away")
	_, err := Authenticate(t.Context(), "Bearer "+token, known, now)
	require.ErrorIs(t, err, known.err)
}

func TestKeyOfSmallSecretKeepsItsLength(t *testing.T) {
	token, _, hash, err := NewKey(bytes.NewReader(make([]byte, 32)), EnvLive, api.NewID(api.PrefixKey, now))
	require.NoError(t, err)
	parsed, ok := ParseToken(token)
	require.True(t, ok)
	require.Equal(t, hash, parsed.SecretHash)
	_, _, _, err = NewKey(rand.Reader, "prod", api.NewID(api.PrefixKey, now))
	require.Error(t, err)
}

// TestHeader: of two headers, a proxy and this service might each check another one.
func TestHeader(t *testing.T) {
	require.Empty(t, Header(http.Header{}))
	require.Equal(t, "a", Header(http.Header{"Authorization": {"a"}}))
	require.Empty(t, Header(http.Header{"Authorization": {"a", "a"}}))
}
