package snapshot

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

// holding is control, as far as it holds rows, and notes how long the requests are.
func holding(t *testing.T, answer func(q api.HoldRequest) (api.Held, error)) (r *Remote, sizes *[]int) {
	sizes = new([]int)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			panic(err)
		}
		*sizes = append(*sizes, len(body))
		var requests api.HoldRequest
		if err := json.Unmarshal(body, &requests); err != nil {
			panic(err)
		}
		held, err := answer(requests)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": true, "data": held})
	}))
	t.Cleanup(server.Close)
	r, err := NewRemote([]string{server.URL}, "nod_x.y", server.Client())
	require.NoError(t, err)
	return r, sizes
}

func rowsToHold(n, size int) (rows []api.HeldRow) {
	for i := range n {
		rows = append(rows, api.HeldRow{
			Identity: api.RowIdentity{Hash: fmt.Sprint(i)}, Vendor: "acme", IDType: "player", VendorID: "1", PlayedAt: time.Unix(0, 0).UTC(), Row: strings.Repeat(`"`, size),
		})
	}
	return rows
}

// TestHoldFitsWhatControlReads: any number of rows of any size is held, and each has the
// result that control gave it.
func TestHoldFitsWhatControlReads(t *testing.T) {
	for _, c := range []struct{ rows, size int }{{0, 0}, {1, 10}, {1000, 10}, {1000, 4000}, {30, api.MaxHeldRow}} {
		r, sizes := holding(t, func(q api.HoldRequest) (held api.Held, err error) {
			require.Equal(t, "tnt_a key_a", q.TenantID+" "+q.KeyID)
			for _, row := range q.Rows {
				result := api.HeldResult{HeldID: "hld_" + row.Identity.Hash}
				if row.Identity.Hash == "7" {
					result = api.HeldResult{Error: &api.RowError{Code: api.RateLimited, Message: "full"}}
				}
				held.Results = append(held.Results, result)
			}
			return held, nil
		})
		results, err := r.Hold(t.Context(), api.HoldRequest{TenantID: "tnt_a", KeyID: "key_a", Rows: rowsToHold(c.rows, c.size)})
		require.NoError(t, err)
		require.Len(t, results, c.rows)
		for i := range results {
			if i == 7 {
				require.Equal(t, &api.Error{Code: api.RateLimited, Message: "full"}, results[i].Err())
				continue
			}
			require.Nil(t, results[i].Err())
			require.Equal(t, fmt.Sprintf("hld_%d", i), results[i].HeldID)
		}
		for _, size := range *sizes {
			require.LessOrEqual(t, size, 1<<20, "%+v", c)
		}
		require.GreaterOrEqual(t, len(*sizes), (c.rows+api.MostHeldRows-1)/api.MostHeldRows)
	}
}

// TestHoldWithoutControl says so, whatever is wrong with control.
func TestHoldWithoutControl(t *testing.T) {
	away, err := NewRemote([]string{"http://127.0.0.1:1"}, "nod_x.y", nil)
	require.NoError(t, err)
	broken, _ := holding(t, func(api.HoldRequest) (api.Held, error) { return api.Held{}, fmt.Errorf("broken") })
	short, _ := holding(t, func(api.HoldRequest) (api.Held, error) { return api.Held{Results: make([]api.HeldResult, 1)}, nil })
	for name, r := range map[string]*Remote{"away": away, "broken": broken, "another number of results": short} {
		results, err := r.Hold(t.Context(), api.HoldRequest{TenantID: "tnt_a", KeyID: "key_a", Rows: rowsToHold(2, 10)})
		require.Nil(t, results, name)
		require.Equal(t, api.ControlUnavailable, api.From(err).Reason, name)
		require.Equal(t, 503, api.From(err).GetStatus(), name)
	}
}

// TestSandboxRowsAreSplit: rows of any size and number are issued by as many requests as control
// reads, and their results stand as the rows do.
func TestSandboxRowsAreSplit(t *testing.T) {
	var answered api.SandboxRowsIssued
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.LessOrEqual(t, len(text), 1<<20)
		var q api.SandboxRows
		require.NoError(t, json.Unmarshal(text, &q))
		require.Equal(t, "/nodes/sandbox tnt_s key_s acme", strings.Join([]string{r.URL.Path, q.TenantID, q.KeyID, q.Vendor}, " "))
		requests++
		issued := answered
		if issued.Refused == nil && issued.Results == nil {
			for n, row := range q.Rows {
				issued.Results = append(issued.Results, api.SandboxRow{Status: "accepted", Event: row[:1], First: n})
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": true, "data": issued})
	}))
	t.Cleanup(server.Close)
	r, err := NewRemote([]string{server.URL}, "nod_x.y", server.Client())
	require.NoError(t, err)
	q := api.SandboxRows{TenantID: "tnt_s", KeyID: "key_s", Vendor: "acme"}
	for n := range 40 {
		q.Rows = append(q.Rows, fmt.Sprint(n%10)+strings.Repeat("<", 64<<10-1)) // six bytes each in JSON
	}
	results, err := r.SandboxRows(t.Context(), q)
	require.NoError(t, err)
	require.Len(t, results, 40)
	for n := range results {
		require.Equal(t, api.SandboxRow{Status: "accepted", Event: fmt.Sprint(n % 10), First: n}, results[n])
	}
	require.Equal(t, 20, requests)

	answered = api.SandboxRowsIssued{Refused: &api.RowError{Code: api.AuthInvalid, Message: "the API key is not valid"}, Status: 401}
	_, err = r.SandboxRows(t.Context(), q)
	require.Equal(t, []any{401, api.AuthInvalid}, []any{api.From(err).GetStatus(), api.From(err).Code})
	answered = api.SandboxRowsIssued{Refused: &api.RowError{Code: api.InternalError, Message: "away", Reason: api.LogUnavailable}, Status: 503, RetryAfter: 2}
	_, err = r.SandboxRows(t.Context(), q)
	require.Equal(t, []any{503, api.LogUnavailable, 2 * time.Second}, []any{api.From(err).GetStatus(), api.From(err).Reason, api.From(err).RetryAfter})
	answered = api.SandboxRowsIssued{Results: make([]api.SandboxRow, 1)}
	_, err = r.SandboxRows(t.Context(), q)
	require.Equal(t, []any{503, api.ControlUnavailable}, []any{api.From(err).GetStatus(), api.From(err).Reason})
	server.Close()
	_, err = r.SandboxRows(t.Context(), q)
	require.Equal(t, api.ControlUnavailable, api.From(err).Reason, "nothing of the node's own request reaches the caller")
}
