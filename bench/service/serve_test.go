package service

import (
	"database/sql"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
)

// TestOneKeyOneReceipt sends one delivery a hundred times at once with one key,
// and again after a kill: one event, and the same bytes for everybody.
func TestOneKeyOneReceipt(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t)
	body := systemtest.Delivery(h.Rights["DOOH"])
	post := func(body string) string {
		return systemtest.Call(t, h.Client.API, h.Client.Key, systemtest.Operation{Method: "POST", Path: "/v1/delivery", Body: body}, "Idempotency-Key", "one-key").Body
	}
	var answers [100]string
	var clients sync.WaitGroup
	for i := range answers {
		clients.Go(func() { answers[i] = post(body) })
	}
	clients.Wait()
	for _, a := range answers {
		require.Equal(t, answers[0], a)
	}
	require.Contains(t, answers[0], `"receiptId":"rcp_`)

	h.Server.Kill()
	h.Start()
	require.Equal(t, answers[0], post(body), "after a restart")
	require.Contains(t, post(strings.Replace(body, "4200", "4201", 1)), `"error":"STATE_CONFLICT"`)
	require.Equal(t, 1, h.Metered())
}

// TestOneEnvelope makes the gateway and control refuse the same request: the bytes don't show
// which of them answered, and text in them is not escaped.
func TestOneEnvelope(t *testing.T) {
	t.Parallel()
	server := systemtest.Shared(t).Server
	refusal := func(method, path string) string {
		a := systemtest.Call(t, server.API, "", systemtest.Operation{Method: method, Path: path})
		require.Equal(t, http.StatusUnauthorized, a.Status)
		return a.Body
	}
	gateway := refusal(http.MethodPost, "/v1/delivery")
	require.Contains(t, gateway, "<API_KEY>")
	require.Equal(t, gateway, refusal(http.MethodGet, "/v1/rights"))
}

// TestReadiness requests /readyz while the warehouse can't be written: the loader falls behind,
// which /readyz shows, and no request is refused for it.
func TestReadiness(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t)
	do := func() (behind int, warehouse string) {
		notes := h.Notes()
		require.Equal(t, "loader", notes[0].Name)
		require.Equal(t, "warehouse", notes[1].Name)
		if _, err := fmt.Sscanf(notes[0].Note, "%d records behind the log", &behind); err != nil {
			behind = -1 // it has yet to find where it was
		}
		return behind, notes[1].Note
	}
	require.Regexp(t, ", in 729 days$", h.Note("delegation"))
	caughtUp := func() bool { behind, _ := do(); return behind == 0 }
	waittest.Until(t, caughtUp)

	db, err := sql.Open("sqlite", filepath.Join(h.Data, "warehouse.db")+"?_pragma=busy_timeout(10000)&_txlock=immediate")
	require.NoError(t, err)
	defer db.Close()
	held, err := db.Begin()
	require.NoError(t, err)
	_, before := do()
	require.Contains(t, before, "loaded up to ")
	h.Receipts(3)
	behind, warehouse := do()
	require.GreaterOrEqual(t, behind, 3)
	require.Equal(t, before, warehouse)
	require.NoError(t, held.Rollback())
	waittest.Until(t, caughtUp)
	_, after := do()
	require.NotEqual(t, before, after)
}
