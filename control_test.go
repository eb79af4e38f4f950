package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/bench/system"
	"muniment/control/node"
	"muniment/control/store/storetest"
	"muniment/gateway/api"
	"muniment/gateway/certs"
	"muniment/gateway/certs/certstest"
	"muniment/gateway/snapshot"
	"muniment/pipeline/kafka"
	"muniment/sealer"
)

// TestControlProcessesOnTheStack has two of them, a node at the second, and a caller who revokes
// at the first.
func TestControlProcessesOnTheStack(t *testing.T) {
	s := newScaled(t)
	planned := s.migrate(t, "--dry-run")
	require.Contains(t, planned, "postgresql: apply 0001_store.sql\n")
	require.Contains(t, planned, "kafka: create topic muniment.events: 4 partitions, 1 replicas")
	require.Contains(t, planned, "nothing was changed\n")
	done := s.migrate(t)
	require.Contains(t, done, "postgresql: apply 0001_store.sql\n")
	require.Equal(t, "everything is up to date\n", s.migrate(t))
	require.Equal(t, "{\"dryRun\":true,\"changes\":[]}\n", s.migrate(t, "--json", "--dry-run"))

	first, second := s.start(t), s.start(t)
	_, notes := first.ready()
	require.Contains(t, notes, `{"name":"log","note":"ready"}`)
	require.Contains(t, notes, `ClickHouse database muniment is not ready`)
	client := system.Client{API: first.api, Key: createTenant(t, s.data).APIKey}
	rightID := issueRights(t, client)["DOOH"]
	nodeID, view := second.follow(t, s)
	var revoked, response struct{ Propagation node.Propagation }
	require.NoError(t, client.Do(t.Context(), "POST", "/v1/rights/"+rightID+"/revoke", map[string]any{}, &revoked))
	require.Len(t, revoked.Propagation.Nodes, 1)
	require.Equal(t, nodeID, revoked.Propagation.Nodes[0].NodeID)
	for _, p := range []*launched{first, second} {
		of := system.Client{API: p.api, Key: client.Key}
		until(t, func() bool {
			err := of.Do(t.Context(), "GET", "/v1/rights/"+rightID+"/propagation", nil, &response)
			return err == nil && len(response.Propagation.Nodes) == 1 && response.Propagation.Nodes[0].AppliedRevision >= revoked.Propagation.Revision
		})
		require.True(t, response.Propagation.Applied)
		require.Equal(t, revoked.Propagation.Revision, response.Propagation.Revision)
	}
	until(t, func() bool { return view.Fresh() == nil })

	// A process stops, and the other goes on, with the token that both have.
	second.stop(t)
	createTenant(t, s.data, "--admin", hostPort(first.admin))
	first.stop(t)
}

// TestControlSealsOnTheStack has two processes and a loader on the engines, and seals
// at either process what the other was requested to do: the packs are one chain, by keys that
// the root vouches for.
func TestControlSealsOnTheStack(t *testing.T) {
	s := newScaled(t)
	s.topic, s.kafka = fmt.Sprintf("muniment.test.%d", time.Now().UnixNano()), onTheStack(t, "KAFKA")
	s.clickhouse = warehouseAt(t, s.topic)
	require.Contains(t, s.migrate(t, "--clickhouse", s.clickhouse, "--dry-run"), "clickhouse: apply 0001_")
	s.migrate(t, "--clickhouse", s.clickhouse)
	require.Equal(t, "everything is up to date\n", s.migrate(t, "--clickhouse", s.clickhouse))

	first, second := s.start(t), s.start(t)
	loader := startLoader(t, "--kafka", s.kafka, "--topic", s.topic, "--clickhouse", s.clickhouse, "--from-all")
	one := system.Client{API: first.api, Key: createTenant(t, s.data).APIKey}
	two := system.Client{API: second.api, Key: one.Key}
	rightID := issueRights(t, one)["DOOH"]
	verifyPacks(t, s.data, sealAndExport(t, two))

	// The one that started last rotates, the other seals on.
	rotated := current(t, s.data, sealer.PurposePack)
	muniment(t, "signing-key", "rotate", rotated, "--data", s.data)
	require.NoError(t, two.Do(t.Context(), "POST", "/v1/rights/"+rightID+"/suspend", map[string]any{}, nil))
	packs := sealAndExport(t, one)
	require.Len(t, packs, 2)
	verifyPacks(t, s.data, packs)
	for n, file := range packs {
		header, _, _ := strings.Cut(string(read(t, file)), "\n")
		require.Equal(t, n == 0, strings.Contains(header, `"signingKeyId":"`+rotated+`"`))
	}
	_, notes := first.ready()
	require.Contains(t, notes, `{"name":"clickhouse","note":"ready"}`)
	loader.stop(t)
	second.stop(t)
	first.stop(t)
}

// TestDatabaseAwayOnTheStack cuts the connections to the database, and lets them through again.
func TestDatabaseAwayOnTheStack(t *testing.T) {
	s := newScaled(t)
	s.migrate(t)
	wire := storetest.NewWire(t, s.database)
	s.database = wire.URL
	p := s.start(t)
	client := system.Client{API: p.api, Key: createTenant(t, s.data).APIKey}
	rightID := issueRights(t, client)["DOOH"]

	wire.Cut()
	for _, try := range []func() (*http.Response, error){
		func() (*http.Response, error) { return do(t, client, "GET", "/v1/rights/"+rightID) },
		func() (*http.Response, error) { return do(t, client, "POST", "/v1/rights/"+rightID+"/suspend") },
	} {
		resp, err := try()
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, string(text))
		require.Contains(t, string(text), `"reason":"DATABASE_UNAVAILABLE"`)
		require.NotEmpty(t, resp.Header.Get("Retry-After"))
	}
	p.awaitReady(t, http.StatusServiceUnavailable)
	_, response := p.ready()
	require.Contains(t, response, `"notReady":[{"name":"database"`)
	late := s.launch(t) // one that starts meanwhile waits
	resp, err := http.Get(late.api + "/v1/rights")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)

	wire.Restore()
	p.awaitReady(t, http.StatusOK)
	late.awaitReady(t, http.StatusOK)
	require.NoError(t, client.Do(t.Context(), "POST", "/v1/rights/"+rightID+"/suspend", map[string]any{}, nil))
	until(t, func() bool { return strings.Contains(p.log(), "the database is back") })
	require.Equal(t, 1, strings.Count(p.log(), "lost the connection for notifications of the database"), "once, however often it was tried")
	late.stop(t)
	p.stop(t)
}

// TestDatabaseRestoredOnTheStack puts a backup in the place of the database, under processes that
// run and a node. Nothing is signed by it, nobody starts on it, until that is accepted;
// then what was revoked after the backup is revoked.
func TestDatabaseRestoredOnTheStack(t *testing.T) {
	s := newScaled(t)
	s.migrate(t)
	wire := storetest.NewWire(t, s.database)
	s.database = wire.URL
	first, second := s.start(t), s.start(t)
	key := createTenant(t, s.data)
	client := system.Client{API: first.api, Key: key.APIKey}
	rights := issueRights(t, client)
	before, after := rights["DOOH"], rights["CTV"]
	revoke := func(rightID string) {
		require.NoError(t, client.Do(t.Context(), "POST", "/v1/rights/"+rightID+"/revoke", map[string]any{}, nil))
	}
	stateOf := func(client system.Client, rightID string) string {
		var response struct{ Right struct{ State string } }
		require.NoError(t, client.Do(t.Context(), "GET", "/v1/rights/"+rightID, nil, &response))
		return response.Right.State
	}
	nodeID, credential := second.join(t, s)
	revoke(before)

	wire.Cut()
	backup := t.TempDir()
	storetest.Copy(t, s.data, backup)
	wire.Restore()
	first.awaitReady(t, http.StatusOK)
	second.awaitReady(t, http.StatusOK)
	view := second.view(t, nodeID, credential)
	_, err := view.Right(t.Context(), key.TenantID, after)
	require.NoError(t, err)
	revoke(after)
	relayed := func() bool {
		resp, err := http.Get(first.admin + "/metrics")
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return strings.Contains(string(text), "\nmuniment_store_outbox_events 0\n")
	}
	until(t, relayed)

	wire.Cut()
	storetest.Replace(t, backup, s.data)
	wire.Restore()
	for _, p := range []*launched{first, second} {
		until(t, func() bool {
			_, response := p.ready()
			return strings.Contains(response, "gone back to an older state")
		})
		resp, err := do(t, system.Client{API: p.api, Key: key.APIKey}, "GET", "/v1/rights/"+after)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	}
	untilAtMost(t, 10*bound, func() bool { return view.Fresh() != nil }, "its lease ends, and there is no other")
	refused := s.launch(t)
	require.Error(t, refused.ended())
	require.Contains(t, refused.log(), "--accept-rollback")
	first.stop(t)
	second.stop(t)
	require.Error(t, view.Fresh())

	accepting := s.start(t, "--accept-rollback")
	other := s.start(t)
	for _, p := range []*launched{accepting, other} {
		client := system.Client{API: p.api, Key: key.APIKey}
		require.Equal(t, "REVOKED", stateOf(client, before))
		require.Equal(t, "REVOKED", stateOf(client, after), "revoked in between")
		require.Equal(t, "ACTIVE", stateOf(client, rights["AUDIO"]))
		again := p.view(t, nodeID, credential)
		_, err := again.Right(t.Context(), key.TenantID, after)
		require.Equal(t, api.StateConflict, api.From(err).Code)
	}
	other.stop(t)
	accepting.stop(t)
}

// TestTopicMadeAnewOnTheStack: records of another topic are not those that the database knows.
func TestTopicMadeAnewOnTheStack(t *testing.T) {
	s := newScaled(t)
	s.migrate(t)
	p := s.start(t)
	createTenant(t, s.data)
	p.stop(t) // the marks are written once more
	topic := kafka.Config{Brokers: strings.Split(s.kafka, ","), Topic: s.topic}
	_, err := kafka.Topic{Partitions: 4, Replication: 1, Renew: true}.Migrate(t.Context(), topic, false)
	require.NoError(t, err)
	refused := s.launch(t)
	require.Error(t, refused.ended())
	require.Contains(t, refused.log(), "is not the one that the database knows")
	s.start(t, "--accept-rollback").stop(t)
	s.start(t).stop(t)
}

// TestControlTLSOnTheStack serves each listener with a certificate of its own.
func TestControlTLSOnTheStack(t *testing.T) {
	s := newScaled(t)
	s.migrate(t)
	authority := certstest.New(t)
	nodes, admin := authority.Issue(t, certstest.Leaf{}), authority.Issue(t, certstest.Leaf{})
	refused := fails(t, "control", "--database", s.database, "--kafka", s.kafka, "--clickhouse", s.clickhouse, "--data", s.data,
		"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--nodes-tls-cert", nodes.Cert, "--nodes-tls-key", admin.Key)
	require.Contains(t, refused, "TLS for nodes: the key in "+admin.Key+" is not that of the certificate")

	p := s.launch(t, "--nodes-tls-cert", nodes.Cert, "--nodes-tls-key", nodes.Key, "--admin-tls-cert", admin.Cert, "--admin-tls-key", admin.Key)
	require.True(t, strings.HasPrefix(p.api, "http://"), p.api)
	require.True(t, strings.HasPrefix(p.nodes, "https://"), p.nodes)
	client, err := certs.NewClient(certs.Options{Use: "control"}, certs.ClientFlags{CA: authority.File})
	require.NoError(t, err)
	until(t, func() bool {
		resp, err := client.HTTP().Get(p.admin + "/readyz")
		if err != nil {
			return false
		}
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode == http.StatusOK
	})
	createTenant(t, s.data) // it knows the certificate by the data folder
	source, err := snapshot.NewRemote(p.nodes, "nod_x.y", client.HTTP())
	require.NoError(t, err)
	_, err = source.Feed(t.Context(), api.FeedRequest{})
	require.ErrorContains(t, err, "401 AUTH_INVALID")
	_, err = http.Get(p.nodes)
	require.ErrorContains(t, err, "certificate")
	p.stop(t)
}

func do(t *testing.T, client system.Client, method, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(t.Context(), method, client.API+path, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+client.Key)
	return http.DefaultClient.Do(req)
}
