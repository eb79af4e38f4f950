package operator

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/assets"
	"muniment.example/control/assets/assetstest"
	"muniment.example/control/route/routetest"
	"muniment.example/control/store"
)

func page(t *testing.T) *assets.Page {
	t.Helper()
	p, err := assets.Open(embedded, assets.Policy)
	require.NoError(t, err)
	return p
}

func TestEveryFileIsReached(t *testing.T) { assetstest.EveryFileIsReached(t, page(t), Path) }

func TestPolicyHolds(t *testing.T) { assetstest.PolicyHolds(t, page(t), Path) }

func TestConfigIsComplete(t *testing.T) {
	_, err := New(Config{})
	require.ErrorContains(t, err, "is missing")
}

// TestExpiredLinks: a link that has expired is not remembered.
func TestExpiredLinks(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	s := newSessions(func() time.Time { return now })
	expired, _ := s.link()
	now = now.Add(linkAge)
	_, _, ok := s.begin(expired)
	require.False(t, ok)
	s.link()
	require.Len(t, s.links, 1)
}

func TestCommand(t *testing.T) {
	until := time.Date(2026, 11, 24, 12, 5, 0, 0, time.UTC)
	server := routetest.Admin{Operation: "POST /admin/console/links", Data: Link{Path: "/console#abc", ExpiresAt: store.At(until)}}
	var out bytes.Buffer
	require.NoError(t, new(Command).Run(server, &out))
	require.Equal(t, "http://127.0.0.1:9090/console#abc\n\nOpen this link in a browser until 2026-11-24T12:05:00.000Z. It works once; the page then stays open for an hour.\n", out.String())
	out.Reset()
	require.NoError(t, (&Command{JSON: true}).Run(server, &out))
	require.JSONEq(t, `{"url":"http://127.0.0.1:9090/console#abc","expiresAt":"2026-11-24T12:05:00.000Z"}`, out.String())
}
