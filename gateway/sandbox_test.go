package gateway

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/gate"
	"muniment/gateway/api"
	"muniment/gateway/issue/issuetest"
	"muniment/sealer"
)

// sandboxWorld is a world in which tnt_s is a tenant of the sandbox.
type sandboxWorld struct {
	*world
	token  string // of tnt_s
	signer *sealer.Signer
	right  string
}

func newSandboxWorld(t *testing.T, change func(*settings)) *sandboxWorld {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize))
	s := &sandboxWorld{signer: issuetest.SignerOf(private)}
	s.world = newWorld(t, func(c *settings) {
		c.Issue.SandboxSigner = issuetest.Always(s.signer)
		if change != nil {
			change(c)
		}
	})
	s.log.Keys = append(s.log.Keys, private.Public().(ed25519.PublicKey))
	s.token = s.control.PutKey(t, 9, "tnt_s", api.EveryScope, true)
	s.right = s.putRight(10, "tnt_s", gate.DOOH, "", api.RightActive)
	return s
}

func (s *sandboxWorld) body() string {
	return fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"anchor-1","dwellMs":4200}`, s.right)
}

// signedBy is whose key has signed what was recorded last.
func (s *sandboxWorld) signedBy() string {
	all := s.log.All()
	d, err := sealer.ReadDelivery(all[len(all)-1].Event)
	require.NoError(s.t, err)
	return d.KeyID
}

// TestSandboxHasAKeyOfItsOwn: the key that its tenants are proven by signs for them, and for
// nobody else.
func TestSandboxHasAKeyOfItsOwn(t *testing.T) {
	s := newSandboxWorld(t, nil)
	got := s.raw(request(s.token, s.body(), "Idempotency-Key: play-1"))
	require.Equal(t, 200, got.status, got.body)
	require.Equal(t, s.signer.KeyID, s.signedBy())
	again := s.raw(request(s.token, s.body(), "Idempotency-Key: play-1"))
	require.Equal(t, got.body, again.body)
	// The delivery's memory is used again.
	for range 20 {
		require.Equal(t, 200, s.post(s.world.body()).status)
		require.Equal(t, issuetest.SignerOf(s.key).KeyID, s.signedBy(), "a tenant's")
		require.Equal(t, 200, s.raw(request(s.token, s.body())).status)
		require.Equal(t, s.signer.KeyID, s.signedBy())
	}
}

// TestNodeWithoutTheSandbox signs nothing for its tenants: control, which has a node that can, is
// sent their deliveries as they came.
func TestNodeWithoutTheSandbox(t *testing.T) {
	asked := ""
	control := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		asked = fmt.Sprint(r.Method, " ", r.URL.Path, " ", r.Header.Get("Authorization"), " ", r.Header.Get("Idempotency-Key"), " ", string(body), err)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"ok":true}`)
	}))
	defer control.Close()
	s := newSandboxWorld(t, func(c *settings) {
		c.Issue.SandboxSigner = nil
		c.DialControl = func() (net.Conn, error) { return net.Dial("tcp", control.Listener.Addr().String()) }
	})
	got := s.raw(request(s.token, s.body(), "Idempotency-Key: play-1"))
	require.Equal(t, 200, got.status, got.body)
	require.Equal(t, `{"ok":true}`, got.body)
	require.Equal(t, "POST /v1/delivery Bearer "+s.token+" play-1 "+s.body()+"<nil>", asked)
	require.Empty(t, s.log.All())
	asked = ""
	require.Equal(t, 200, s.post(s.world.body()).status)
	require.Empty(t, asked, "all others are its own")
	require.Equal(t, 401, s.raw(request(s.token+"x", s.body())).status)
	require.Empty(t, asked)
}
