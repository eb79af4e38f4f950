package control

import (
	"fmt"
	"net"
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store"
	"muniment.example/control/store/storetest"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
)

// TestWhichEngineIsAway: an engine that can't be reached is not taken for the database,
// which its calls know.
func TestWhichEngineIsAway(t *testing.T) {
	reason := func(err error) api.Reason {
		return translate(http.StatusInternalServerError, "", []error{fmt.Errorf("cannot answer: %w", err)}, nil).Reason
	}
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	require.Equal(t, api.EngineUnavailable, reason(refused))
	require.Empty(t, reason(syscall.ENOENT))

	stacktest.Both(t)
	path, url := storetest.Place(t, t.TempDir())
	if url == "" {
		t.Logf("a file at %s is never away; MUNIMENT_TEST_POSTGRES names no server", path)
		return
	}
	wire := storetest.NewWire(t, url)
	db, err := store.Open(t.Context(), store.Config{URL: wire.URL})
	require.NoError(t, err)
	defer db.Close()
	wire.Cut()
	_, err = store.One(t.Context(), db.Read(), "a tenant", store.Text, `SELECT tenant_id FROM tenants`)
	require.Equal(t, api.DatabaseUnavailable, reason(err))
	require.Equal(t, api.DatabaseUnavailable, reason(db.Ready(t.Context())))
}
