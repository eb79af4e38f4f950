package gateway

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/issuetest"
	"muniment.example/sealer"
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
		c.DialControl = []func() (net.Conn, error){func() (net.Conn, error) { return net.Dial("tcp", control.Listener.Addr().String()) }}
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

// TestBatchesOfTheSandboxAreControls: a node without their key has control issue their rows, in
// pieces, and answers as if they were its own.
func TestBatchesOfTheSandboxAreControls(t *testing.T) {
	var asked []api.SandboxRows
	var away error
	s := newSandboxWorld(t, func(c *settings) {
		c.Issue.SandboxSigner = nil
		c.SandboxRows = func(_ context.Context, q api.SandboxRows) (rows []api.SandboxRow, err error) {
			asked = append(asked, q)
			for n, row := range q.Rows {
				switch {
				case strings.Contains(row, "unmapped"):
					rows = append(rows, api.SandboxRow{Status: "unmapped", Held: &api.HeldRow{VendorID: row}})
				case strings.Contains(row, "equal"):
					rows = append(rows, api.SandboxRow{Status: "duplicate", First: n - 1})
				default:
					rows = append(rows, api.SandboxRow{Status: "rejected", Error: &api.RowError{Code: api.PreconditionFailed, Message: "no", Gate: "gate.v1", Violations: []byte(`[{"rule":"r"}]`)}})
				}
			}
			return rows, away
		}
		c.Hold = func(_ context.Context, q api.HoldRequest) ([]api.HeldResult, error) {
			return []api.HeldResult{{HeldID: "hld_" + q.Rows[0].VendorID[1:9]}}, nil
		}
	})
	rows := slices.Repeat([]string{`{}`}, api.MostHeldRows)
	rows = append(rows, `"`+strings.Repeat("x", 64<<10)+`"`, `"unmapped"`, `"equal"`)
	send := func(headers ...string) reply {
		return s.raw(batchRequest(s.token, "application/json", inJSON(rows...), headers...))
	}
	got := s.ingested(send("Idempotency-Key: batch-1"))
	require.Equal(t, slices.Concat(slices.Repeat([]string{"rejected"}, api.MostHeldRows+1), []string{"unmapped", "duplicate"}), statuses(got))
	require.Equal(t, &api.RowError{Code: api.PreconditionFailed, Message: "no", Gate: "gate.v1", Violations: []byte(`[{"rule":"r"}]`)}, got.Results[0].Error)
	require.Equal(t, "the row is longer than 64 KiB", got.Results[api.MostHeldRows].Error.Message)
	require.Equal(t, []string{"hld_unmapped", "hld_unmapped"}, []string{got.Results[api.MostHeldRows+1].HeldID, got.Results[api.MostHeldRows+2].HeldID})
	require.Len(t, asked, 2)
	require.Len(t, slices.Concat(asked[0].Rows, asked[1].Rows), api.MostHeldRows+2, "but for the one that is too long")
	for n := range asked {
		require.Equal(t, []string{"tnt_s", issuetest.KeyID(9)}, []string{asked[n].TenantID, asked[n].KeyID})
	}
	require.Empty(t, s.log.All())

	away = api.Unavailable(api.ControlUnavailable, "away", 0)
	require.Equal(t, 503, send().status)
	require.Equal(t, 400, send("Idempotency-Key: a b").status)
	require.Equal(t, []string{"accepted"}, statuses(s.ingested(s.send("application/json", inJSON(s.row("1", ""))))), "all others are its own")
	require.Len(t, asked, 3)
}
