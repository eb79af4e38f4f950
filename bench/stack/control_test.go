package stack

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/control/node"
	"muniment.example/control/objects/s3test"
	"muniment.example/control/store/storetest"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/certs"
	"muniment.example/gateway/certs/certstest"
	"muniment.example/gateway/snapshot"
	"muniment.example/pipeline/kafka"
	"muniment.example/sealer/keydir"
)

// TestControlProcessesOnTheStack has two of them, a node at the second, and a caller who revokes
// at the first.
func TestControlProcessesOnTheStack(t *testing.T) {
	t.Parallel()
	s := newScaled(t)
	planned := s.Migrate(t, "--dry-run")
	require.Contains(t, planned, "postgresql: apply 0001_store.sql\n")
	require.Contains(t, planned, "kafka: create topic muniment.events: 4 partitions, 1 replicas")
	require.Contains(t, planned, "nothing was changed\n")
	done := s.Migrate(t)
	require.Contains(t, done, "postgresql: apply 0001_store.sql\n")
	require.Equal(t, "everything is up to date\n", s.Migrate(t))
	require.Equal(t, "{\"dryRun\":true,\"changes\":[]}\n", s.Migrate(t, "--json", "--dry-run"))

	first, second := s.Start(t), s.Start(t)
	_, notes := first.Ready()
	require.Contains(t, notes, `{"name":"log","note":"ready"}`)
	require.Contains(t, notes, `ClickHouse database muniment is not ready`)
	client := system.Client{API: first.Api, Key: systemtest.CreateTenant(t, s.Data).APIKey}
	rightID := systemtest.IssueRights(t, client)["DOOH"]
	nodeID, view := second.Follow(t, s)
	var revoked, response struct{ Propagation node.Propagation }
	require.NoError(t, client.Do(t.Context(), "POST", "/v1/rights/"+rightID+"/revoke", map[string]any{}, &revoked))
	require.Len(t, revoked.Propagation.Nodes, 1)
	require.Equal(t, nodeID, revoked.Propagation.Nodes[0].NodeID)
	for _, p := range []*systemtest.Launched{first, second} {
		of := system.Client{API: p.Api, Key: client.Key}
		waittest.Until(t, func() bool {
			err := of.Do(t.Context(), "GET", "/v1/rights/"+rightID+"/propagation", nil, &response)
			return err == nil && len(response.Propagation.Nodes) == 1 && response.Propagation.Nodes[0].AppliedRevision >= revoked.Propagation.Revision
		})
		require.True(t, response.Propagation.Applied)
		require.Equal(t, revoked.Propagation.Revision, response.Propagation.Revision)
	}
	waittest.Until(t, func() bool { return view.Fresh() == nil })

	// A process stops, and the other goes on, with the token that both have.
	second.Stop(t)
	systemtest.CreateTenant(t, s.Data, "--admin", systemtest.HostPort(first.Admin))
	first.Stop(t)
}

// TestControlSealsOnTheStack has two processes and a loader on the engines, and seals
// at either process what the other was requested to do: the packs are one chain, by keys that
// the root vouches for.
func TestControlSealsOnTheStack(t *testing.T) {
	t.Parallel()
	s := newScaled(t)
	s.Topic, s.Kafka = fmt.Sprintf("muniment.test.%d", time.Now().UnixNano()), stacktest.Kafka(t)
	s.Clickhouse = warehouseAt(t, s.Topic)
	require.Contains(t, s.Migrate(t, "--clickhouse", s.Clickhouse, "--dry-run"), "clickhouse: apply 0001_")
	s.Migrate(t, "--clickhouse", s.Clickhouse)
	require.Equal(t, "everything is up to date\n", s.Migrate(t, "--clickhouse", s.Clickhouse))

	first, second := s.Start(t), s.Start(t)
	loader := systemtest.StartLoader(t, "--kafka", s.Kafka, "--topic", s.Topic, "--clickhouse", s.Clickhouse, "--from-all")
	one := system.Client{API: first.Api, Key: systemtest.CreateTenant(t, s.Data).APIKey}
	two := system.Client{API: second.Api, Key: one.Key}
	rightID := systemtest.IssueRights(t, one)["DOOH"]
	before := systemtest.SealAndExport(t, two)
	systemtest.VerifyPacks(t, s.Data, before)

	// The one that started last rotates, the other seals on.
	rotated := systemtest.Current(t, s.Data, keydir.PurposePack)
	systemtest.Command(t, "signing-key", "rotate", rotated, "--data", s.Data)
	require.NoError(t, two.Do(t.Context(), "POST", "/v1/rights/"+rightID+"/suspend", map[string]any{}, nil))
	packs := systemtest.SealAndExport(t, one)
	require.Greater(t, len(packs), len(before))
	systemtest.VerifyPacks(t, s.Data, packs)
	for n, file := range packs {
		header, _, _ := strings.Cut(string(systemtest.ReadFile(t, file)), "\n")
		require.Equal(t, n < len(before), strings.Contains(header, `"signingKeyId":"`+rotated+`"`))
	}
	_, notes := first.Ready()
	require.Contains(t, notes, `{"name":"clickhouse","note":"ready"}`)
	loader.Stop(t)
	second.Stop(t)
	first.Stop(t)
}

// TestPacksInABucketOnTheStack has two control processes without a shared folder: each has the same keys in a folder of
// its own, and packs are in a bucket.
func TestPacksInABucketOnTheStack(t *testing.T) {
	bucket := s3test.Bucket(t, nil)
	s := newScaled(t)
	s.Topic, s.Kafka = fmt.Sprintf("muniment.test.%d", time.Now().UnixNano()), stacktest.Kafka(t)
	s.Clickhouse = warehouseAt(t, s.Topic)
	s.Migrate(t, "--clickhouse", s.Clickhouse)
	other := *s
	other.Data = filepath.Join(t.TempDir(), "data")

	first := s.Start(t, "--packs", bucket, "--bundles", bucket+"&prefix=bundles/")
	require.NoError(t, os.Mkdir(other.Data, 0o700))
	require.NoError(t, exec.Command("cp", "-a", filepath.Join(s.Data, "keys"), other.Data).Run())
	second := other.Start(t, "--packs", bucket, "--bundles", bucket+"&prefix=bundles/")
	for _, p := range []*systemtest.Launched{first, second} {
		_, notes := p.Ready()
		require.Contains(t, notes, `{"name":"packs","note":"ready"}`)
	}
	loader := systemtest.StartLoader(t, "--kafka", s.Kafka, "--topic", s.Topic, "--clickhouse", s.Clickhouse, "--from-all")
	one := system.Client{API: first.Api, Key: systemtest.CreateTenant(t, s.Data).APIKey}
	two := system.Client{API: second.Api, Key: one.Key}
	rights := systemtest.IssueRights(t, one)
	systemtest.VerifyPacks(t, s.Data, systemtest.SealAndExport(t, one))

	// Both seal at once, several times.
	for _, rightID := range slices.Sorted(maps.Values(rights)) {
		require.NoError(t, two.Do(t.Context(), "POST", "/v1/rights/"+rightID+"/suspend", map[string]any{}, nil))
		var callers sync.WaitGroup
		for _, c := range []system.Client{one, two} {
			callers.Go(func() {
				if err := c.Do(t.Context(), "POST", "/v1/proof-packs/seal", nil, nil); err != nil {
					t.Error(err)
				}
			})
		}
		callers.Wait()
	}
	packs := systemtest.SealAndExport(t, two)
	require.Greater(t, len(packs), 2)
	systemtest.VerifyPacks(t, s.Data, packs)
	for _, data := range []string{s.Data, other.Data} {
		files, err := filepath.Glob(filepath.Join(data, "packs", "*", "*.ndjson.zst"))
		require.NoError(t, err)
		require.Empty(t, files)
	}

	// The first is killed, and the second goes on with what both have sealed.
	first.Kill()
	require.NoError(t, two.Do(t.Context(), "GET", "/v1/proof-packs", nil, nil))
	require.NoError(t, two.Do(t.Context(), "POST", "/v1/rights/"+rights["DOOH"]+"/resume", map[string]any{}, nil))
	more := systemtest.SealAndExport(t, two)
	require.Greater(t, len(more), len(packs))
	systemtest.VerifyPacks(t, s.Data, more)
	loader.Stop(t)
	second.Stop(t)
}

// TestDatabaseAwayOnTheStack cuts the connections to the database, and lets them through again.
func TestDatabaseAwayOnTheStack(t *testing.T) {
	t.Parallel()
	s := newScaled(t)
	s.Migrate(t)
	wire := storetest.NewWire(t, s.Database)
	s.Database = wire.URL
	p := s.Start(t)
	client := system.Client{API: p.Api, Key: systemtest.CreateTenant(t, s.Data).APIKey}
	rightID := systemtest.IssueRights(t, client)["DOOH"]

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
	p.AwaitReady(t, http.StatusServiceUnavailable)
	_, response := p.Ready()
	require.Contains(t, response, `"notReady":[{"name":"database"`)
	late := s.Launch(t) // one that starts meanwhile waits
	resp, err := http.Get(late.Api + "/v1/rights")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)

	wire.Restore()
	p.AwaitReady(t, http.StatusOK)
	late.AwaitReady(t, http.StatusOK)
	require.NoError(t, client.Do(t.Context(), "POST", "/v1/rights/"+rightID+"/suspend", map[string]any{}, nil))
	waittest.Until(t, func() bool { return strings.Contains(p.Log(), "the database is back") })
	require.Equal(t, 1, strings.Count(p.Log(), "lost the connection for notifications of the database"), "once, however often it was tried")
	late.Stop(t)
	p.Stop(t)
}

// TestDatabaseRestoredOnTheStack puts a backup in the place of the database, under processes that
// run and a node. The processes end, nothing is signed by it, nobody starts on it, until that is accepted;
// then what was revoked after the backup is revoked.
func TestDatabaseRestoredOnTheStack(t *testing.T) {
	t.Parallel()
	s := newScaled(t)
	s.Migrate(t)
	wire := storetest.NewWire(t, s.Database)
	s.Database = wire.URL
	first, second := s.Start(t), s.Start(t)
	key := systemtest.CreateTenant(t, s.Data)
	client := system.Client{API: first.Api, Key: key.APIKey}
	rights := systemtest.IssueRights(t, client)
	before, after := rights["DOOH"], rights["CTV"]
	revoke := func(rightID string) {
		require.NoError(t, client.Do(t.Context(), "POST", "/v1/rights/"+rightID+"/revoke", map[string]any{}, nil))
	}
	stateOf := func(client system.Client, rightID string) string {
		var response struct{ Right struct{ State string } }
		require.NoError(t, client.Do(t.Context(), "GET", "/v1/rights/"+rightID, nil, &response))
		return response.Right.State
	}
	nodeID, credential := second.Join(t, s)
	revoke(before)

	wire.Cut()
	backup := t.TempDir()
	storetest.Copy(t, s.Data, backup)
	wire.Restore()
	first.AwaitReady(t, http.StatusOK)
	second.AwaitReady(t, http.StatusOK)
	view := second.View(t, nodeID, credential)
	_, err := view.Right(t.Context(), key.TenantID, after)
	require.NoError(t, err)
	revoke(after)
	relayed := func() bool {
		resp, err := http.Get(first.Admin + "/metrics")
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return strings.Contains(string(text), "\nmuniment_store_outbox_events 0\n")
	}
	waittest.Until(t, relayed)

	wire.Cut()
	storetest.Replace(t, backup, s.Data)
	wire.Restore()
	for _, p := range []*systemtest.Launched{first, second} {
		require.Error(t, p.Ended())
		require.Contains(t, p.Log(), "gone back to an older state")
	}
	waittest.Until(t, func() bool { return view.Fresh() != nil }, "its lease ends, and there is no other")
	refused := s.Launch(t)
	require.Error(t, refused.Ended())
	require.Contains(t, refused.Log(), "--accept-rollback")
	require.Error(t, view.Fresh())

	accepting := s.Start(t, "--accept-rollback")
	other := s.Start(t)
	for _, p := range []*systemtest.Launched{accepting, other} {
		client := system.Client{API: p.Api, Key: key.APIKey}
		require.Equal(t, "REVOKED", stateOf(client, before))
		require.Equal(t, "REVOKED", stateOf(client, after), "revoked in between")
		require.Equal(t, "ACTIVE", stateOf(client, rights["AUDIO"]))
		again := p.View(t, nodeID, credential)
		_, err := again.Right(t.Context(), key.TenantID, after)
		require.Equal(t, api.StateConflict, api.From(err).Code)
	}
	other.Stop(t)
	accepting.Stop(t)
}

// TestTopicMadeAnewOnTheStack: records of another topic are not those that the database knows.
func TestTopicMadeAnewOnTheStack(t *testing.T) {
	t.Parallel()
	s := newScaled(t)
	s.Migrate(t)
	p := s.Start(t)
	systemtest.CreateTenant(t, s.Data)
	p.Stop(t) // the marks are written once more
	topic := kafka.Config{Brokers: strings.Split(s.Kafka, ","), Topic: s.Topic}
	_, err := kafka.Topic{Partitions: 4, Replication: 1, Renew: true}.Migrate(t.Context(), topic, false)
	require.NoError(t, err)
	refused := s.Launch(t)
	require.Error(t, refused.Ended())
	require.Contains(t, refused.Log(), "is not the one that the database knows")
	s.Start(t, "--accept-rollback").Stop(t)
	s.Start(t).Stop(t)
}

// TestControlTLSOnTheStack serves each listener with a certificate of its own.
func TestControlTLSOnTheStack(t *testing.T) {
	t.Parallel()
	s := newScaled(t)
	s.Migrate(t)
	authority := certstest.New(t)
	nodes, admin := authority.Issue(t, certstest.Leaf{}), authority.Issue(t, certstest.Leaf{})
	refused := systemtest.Fails(t, "control", "--database", s.Database, "--kafka", s.Kafka, "--clickhouse", s.Clickhouse, "--data", s.Data,
		"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--nodes-tls-cert", nodes.Cert, "--nodes-tls-key", admin.Key)
	require.Contains(t, refused, "TLS for nodes: the key in "+admin.Key+" is not that of the certificate")

	p := s.Launch(t, "--nodes-tls-cert", nodes.Cert, "--nodes-tls-key", nodes.Key, "--admin-tls-cert", admin.Cert, "--admin-tls-key", admin.Key)
	require.True(t, strings.HasPrefix(p.Api, "http://"), p.Api)
	require.True(t, strings.HasPrefix(p.Nodes, "https://"), p.Nodes)
	client, err := certs.NewClient(certs.Options{Use: "control"}, certs.ClientFlags{CA: authority.File})
	require.NoError(t, err)
	waittest.Until(t, func() bool {
		resp, err := client.HTTP().Get(p.Admin + "/readyz")
		if err != nil {
			return false
		}
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode == http.StatusOK
	})
	systemtest.CreateTenant(t, s.Data) // it knows the certificate by the data folder
	source, err := snapshot.NewRemote([]string{p.Nodes}, "nod_x.y", client.HTTP())
	require.NoError(t, err)
	_, err = source.Feed(t.Context(), api.FeedRequest{})
	require.ErrorContains(t, err, "401 AUTH_INVALID")
	_, err = http.Get(p.Nodes)
	require.ErrorContains(t, err, "certificate")
	p.Stop(t)
}

func do(t *testing.T, client system.Client, method, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(t.Context(), method, client.API+path, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+client.Key)
	return http.DefaultClient.Do(req)
}
