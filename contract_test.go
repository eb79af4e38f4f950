package main

import (
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/bench"
	"muniment/pipeline"
	"muniment/pipeline/clickhouse"
	"muniment/sealer"
)

// service is a running one, in either mode. The contract is the same in both, to the
// letter: the scripts, the matrices of scopes and of foreign ids, and the audit of all
// writes are asked of both, without an exception for either. What differs is
//
//   - how long an event takes into the log that callers read, and so how long a seal
//     waits: a gateway's batch, Kafka and the loader's batch lie in between;
//   - who signs: the embedded service is one node, nod_embedded, for all tenants. Scaled
//     out, each gateway has an id, an epoch and keys of its own, and so has the node that
//     each control process runs for the sandbox's tenants;
//   - how many nodes a propagation names: all gateways, and those of the sandbox;
//   - where an address is counted for the sandbox's limits: in memory, or in the database,
//     which all control processes write;
//   - what is away when something is: that is the matter of the tests of faults.
type service struct {
	exe string
	// Server has the address of the API and the folder that operators' commands take; it
	// is no process that could be stopped.
	*bench.Server
	// events are those of a tenant, dropped or not, behind a position.
	events func(tenantID string, after *sealer.Position) []logged
}

// embedded is everything in one process.
func embedded(t *testing.T) service {
	limits(t)
	s := service{exe: muniment(t)}
	s.Server = startServer(t, s.exe, filepath.Join(t.TempDir(), "data"))
	s.events = func(tenantID string, after *sealer.Position) (list []logged) {
		scanLog(t, s.Data, func(e sealer.Entry) error {
			if e.TenantID == tenantID && (after == nil || e.Position.Compare(*after) > 0) {
				list = append(list, readLogged(t, e.Position, e.Event))
			}
			return nil
		})
		return list
	}
	return s
}

// scaledOut is two gateways, two control processes and a loader. A request goes to any of
// the gateways, and on to any of control's processes, whoever had the one before.
func scaledOut(t *testing.T) service {
	limits(t)
	c := cluster(t, bench.Size{Gateways: 2, Loaders: 1, Controls: 2, Partitions: 4})
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		to, err := url.Parse(c.APIs()[rand.N(len(c.Gateways))])
		require.NoError(t, err)
		r.SetURL(to)
		r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
	}}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	warehouse, err := clickhouse.Open(t.Context(), clickhouse.Config{URL: c.ClickHouse})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, warehouse.Close()) })
	events := func(tenantID string, after *sealer.Position) (list []logged) {
		rows, err := warehouse.Events(t.Context(), pipeline.EventQuery{TenantID: tenantID, After: after, Limit: 500})
		require.NoError(t, err)
		for _, row := range rows {
			list = append(list, readLogged(t, row.Position, row.Record.Event))
		}
		return list
	}
	return service{c.Exe, &bench.Server{API: front.URL, Data: c.Operator().Data}, events}
}

// limits has the sandbox believe the address that a request names, and lets one address
// have an hour's requests at once.
func limits(t *testing.T) {
	t.Setenv("MUNIMENT_TRUSTED_PROXIES", "1")
	t.Setenv("MUNIMENT_SANDBOX_BURST", "200")
}

// anyAddress is one that nobody else asks from. Of IPv6 addresses the limits count the
// first half.
func anyAddress() string {
	return fmt.Sprintf("2001:db8:%x:%x::1", rand.N(1<<16), rand.N(1<<16))
}
