package systemtest

import (
	"database/sql"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
)

// Browser is a visitor of the sandbox of a running service.
type Browser struct {
	T      *testing.T
	URL    string
	client http.Client
	cookie string
}

// Send sends a request to the sandbox.
func (v *Browser) Send(method, path, body string) Response {
	v.T.Helper()
	return callBy(v.T, &v.client, v.URL, "", Operation{Method: method, Path: "/api/sandbox" + path, Body: body}, "Cookie", v.cookie)
}

// Does sends a request to the sandbox, and reads the data of a success. The text is the whole response.
func (v *Browser) Does(method, path, body string, data any) (text string) {
	v.T.Helper()
	a := v.Send(method, path, body)
	require.Equal(v.T, 200, a.Status, a.Body)
	v.cookie = a.Cookie(v.cookie)
	require.NoError(v.T, json.Unmarshal([]byte(a.Body), &struct{ Data any }{data}))
	return a.Body
}

// Taken is what a tenant's events and packs take on disk.
type Taken struct{ Log, warehouse, packs int64 }

func (x Taken) Sum() int64 { return x.Log + x.warehouse + x.packs }

func (s *Service) Taken(tenantID string) (x Taken) {
	s.T.Helper()
	s.Metered() // so that all is loaded
	ScanLog(s.T, s.Data, func(e sealer.Entry) error {
		if e.TenantID == tenantID {
			x.Log += int64(len(sealer.AppendRecord(nil, &e.Record)))
		}
		return nil
	})
	x.warehouse = s.Query("warehouse.db", `SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()`)
	names, err := filepath.Glob(filepath.Join(s.Data, "packs", tenantID, "*"))
	require.NoError(s.T, err)
	for _, name := range names {
		info, err := os.Stat(name)
		require.NoError(s.T, err)
		x.packs += info.Size()
	}
	return x
}

// Query reads a number from a database of the running service.
func (s *Service) Query(file, query string, args ...any) (n int64) {
	s.T.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.Data, file)+"?_pragma=busy_timeout(5000)&_pragma=query_only(1)")
	require.NoError(s.T, err)
	defer db.Close()
	require.NoError(s.T, db.QueryRow(query, args...).Scan(&n))
	return n
}
