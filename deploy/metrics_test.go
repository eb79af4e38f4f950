package deploy

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"math/big"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muniment.example/control"
	"muniment.example/control/node"
	"muniment.example/control/offer"
	"muniment.example/control/proof"
	"muniment.example/control/right"
	"muniment.example/control/settle"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/control/webhook"
	"muniment.example/gateway"
	"muniment.example/gateway/certs"
	"muniment.example/gateway/identity"
	"muniment.example/gateway/issue"
	"muniment.example/gateway/snapshot"
	"muniment.example/pipeline"
	"muniment.example/pipeline/clickhouse"
	"muniment.example/pipeline/copies"
	"muniment.example/pipeline/drift"
	"muniment.example/pipeline/kafka"
	"muniment.example/pipeline/segment"
	"muniment.example/pipeline/sqlite"
	"muniment.example/pipeline/trace"
	"muniment.example/sealer"
)

// shown are the series that a process shows, by name, with their labels.
type shown map[string][]string

// recorder is a registry that remembers what is registered whether or not there are
// samples yet. As any, it refuses what is there already.
type recorder struct {
	*prometheus.Registry
	shown
}

func newRecorder() recorder { return recorder{prometheus.NewPedanticRegistry(), shown{}} }

var describe = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", .*constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

func (r recorder) Register(c prometheus.Collector) error {
	if err := r.Registry.Register(c); err != nil {
		return err
	}
	descs := make(chan *prometheus.Desc, 100)
	c.Describe(descs)
	close(descs)
	for d := range descs {
		parts := describe.FindStringSubmatch(d.String())
		if parts == nil {
			return errors.New("cannot read " + d.String())
		}
		labels := []string{"job", "instance"}
		for _, label := range strings.Split(parts[2]+","+parts[3], ",") {
			name, _, _ := strings.Cut(label, "=")
			labels = append(labels, name)
		}
		r.shown[parts[1]] = append(labels, r.shown[parts[1]]...)
		switch c.(type) {
		case prometheus.Histogram, *prometheus.HistogramVec:
			r.histogram(parts[1])
		}
	}
	return nil
}

func (s shown) histogram(name string) {
	for _, part := range []string{"_sum", "_count", "_bucket"} {
		s[name+part] = append([]string{"le"}, s[name]...)
	}
	delete(s, name)
}

func (r recorder) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// all is what was registered. It recognizes histograms by their samples, too: one that was
// given a label on its way here is a histogram by nothing else.
func (r recorder) all(t *testing.T) shown {
	t.Helper()
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if _, plain := r.shown[f.GetName()]; plain && f.GetType().String() == "HISTOGRAM" {
			r.histogram(f.GetName())
		}
	}
	return r.shown
}

// TestRecorder: two parts that show one metric can't run in one process.
func TestRecorder(t *testing.T) {
	r := newRecorder()
	counter := func() prometheus.Collector {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "muniment_twice_total"})
	}
	require.NoError(t, r.Register(counter()))
	require.ErrorAs(t, r.Register(counter()), new(prometheus.AlreadyRegisteredError))
	labelled := prometheus.WrapRegistererWith(prometheus.Labels{"log": "spool"}, r)
	require.NoError(t, labelled.Register(prometheus.NewHistogram(prometheus.HistogramOpts{Name: "muniment_wait_seconds"})))
	require.Equal(t, []string{"muniment_twice_total", "muniment_wait_seconds_bucket", "muniment_wait_seconds_count", "muniment_wait_seconds_sum"},
		slices.Sorted(maps.Keys(r.all(t))))
	require.Contains(t, r.shown["muniment_wait_seconds_bucket"], "log")
}

// registered opens every part of the service that has metrics, as the commands do,
// and returns what they register.
func registered(t *testing.T) shown {
	t.Helper()
	all, ctx, dir := newRecorder(), t.Context(), t.TempDir()

	topic, err := kafka.Open(kafka.Config{Brokers: []string{"127.0.0.1:1"}, Registerer: all})
	require.NoError(t, err)
	spool, err := segment.Open(segment.Config{
		Dir: filepath.Join(dir, "spool"), Registerer: prometheus.WrapRegistererWith(prometheus.Labels{"log": "spool"}, all),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, spool.Close()) })
	spooled, err := kafka.OpenSpooled(kafka.SpoolConfig{Log: topic, Spool: spool, Mark: filepath.Join(dir, "mark"), Registerer: all})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, spooled.Close()) })

	copies, err := copies.Open(copies.Config{Promise: spooled, Dir: filepath.Join(dir, "copies"), Registerer: all})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, copies.Close()) })
	cert, key := certificate(t, dir)
	_, err = certs.Server(certs.Options{Use: "api", Registerer: all}, certs.ServerFlags{Cert: cert, Key: key})
	require.NoError(t, err)
	_, err = trace.New(trace.Config{Endpoint: "http://127.0.0.1:1", Service: "test", Registerer: all})
	require.NoError(t, err)

	db, err := store.Open(ctx, store.Config{Path: filepath.Join(dir, "control.db"), Registerer: all})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	ready, release, err := store.ReadyGauge(store.Config{URL: "postgres://u:p@127.0.0.1:1/muniment"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, release()) })
	all.MustRegister(ready)
	warehouse, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, "warehouse.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, warehouse.Close()) })
	_, err = pipeline.NewLoader(pipeline.LoaderConfig{Log: topic, Warehouse: warehouse, RetentionUsed: topic.RetentionUsed, Registerer: all})
	require.NoError(t, err)
	_, err = topic.Group(kafka.GroupConfig{})
	require.NoError(t, err)

	away, err := clickhouse.Open(ctx, clickhouse.Config{URL: "clickhouse://u:p@127.0.0.1:1/muniment", Away: true, Registerer: all})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, away.Close()) })
	_, err = drift.New(drift.Config{Log: spool, Loaded: away.Resume, Auditor: away, Registerer: all})
	require.NoError(t, err)

	keys, err := signing.New(ctx, signing.Config{DB: db, Dir: filepath.Join(dir, "keys"), Registerer: all})
	require.NoError(t, err)
	nodes, err := node.New(ctx, node.Config{DB: db, Keys: keys, Registerer: all})
	require.NoError(t, err)
	rights, err := right.New(right.Config{DB: db, Nodes: nodes})
	require.NoError(t, err)
	offers, err := offer.New(offer.Config{DB: db, Registerer: all})
	require.NoError(t, err)
	packs, err := proof.New(ctx, proof.Config{
		DB: db, Warehouse: warehouse, Log: spool, Keys: keys, Rate: settle.Rating.Rate, Dir: filepath.Join(dir, "packs"), Registerer: all,
		SealEvery: time.Hour, Tenants: func(context.Context) ([]string, error) { return nil, nil },
	})
	require.NoError(t, err)
	tenants, err := tenant.New(tenant.Config{DB: db, Nodes: nodes, Counters: tenant.Counters{
		Bases: rights.CountBases, Rights: rights.CountRights, ProofPacks: packs.CountPacks, Events: warehouse.CountEvents,
	}})
	require.NoError(t, err)
	egress, err := webhook.NewEgress(nil)
	require.NoError(t, err)
	_, err = webhook.New(webhook.Config{DB: db, Log: spool, Warehouse: warehouse, Keys: keys, Kinds: control.Kinds, Scopes: tenant.ScopesInForce, Egress: egress, Registerer: all})
	require.NoError(t, err)
	ctl, err := control.New(control.Config{
		DB: db, Keys: keys, Nodes: nodes, Tenants: tenants, Packs: packs, Log: spool,
		Services: []control.Service{keys, tenants, rights, offers, packs}, Registerer: all,
	})
	require.NoError(t, err)

	join(t, all, dir, ctl, nodes)

	view, err := snapshot.New(snapshot.Config{Source: ctl.Source(), NodeID: "nod_a", Registerer: all})
	require.NoError(t, err)
	issuer, err := issue.New(issue.Config{
		NodeID: "nod_a", Rights: view, Log: spool, Registerer: all,
		Signer: func(context.Context, time.Time) (*sealer.Signer, func(), error) {
			return nil, nil, errors.New("no key")
		},
	})
	require.NoError(t, err)
	_, err = gateway.New(gateway.Config{
		Rights: view, Issuer: issuer, Registerer: all, DialControl: []func() (net.Conn, error){func() (net.Conn, error) { return nil, errors.New("no control") }},
	})
	require.NoError(t, err)
	return all.all(t)
}

// join has a node join control.
func join(t *testing.T, all prometheus.Registerer, dir string, ctl *control.Control, nodes *node.Service) {
	t.Helper()
	server := httptest.NewServer(ctl.Nodes())
	t.Cleanup(server.Close)
	invited, err := nodes.Invite(t.Context(), store.ByOperator())
	require.NoError(t, err)
	joined, err := identity.Open(t.Context(), identity.Config{
		Dir: filepath.Join(dir, "identity"), Control: []string{server.URL}, Client: server.Client(), Invitation: invited.Token, Registerer: all,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, joined.Close()) })
}

// certificate writes a certificate and its key to files.
func certificate(t *testing.T, dir string) (certFile, keyFile string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(nil, template, template, public, private)
	require.NoError(t, err)
	key, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return file
	}
	return write("cert.pem", "CERTIFICATE", cert), write("key.pem", "PRIVATE KEY", key)
}

var (
	named    = regexp.MustCompile(`\b(muniment[_:][a-z0-9_:]+)(?:\{([^}]*)\})?`)
	matchers = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*"[^"]*"`)
)

// requireShown fails if an expression names a metric that nothing registers, or
// selects by a label that the metric doesn't have.
func (s shown) requireShown(t *testing.T, where, expr string) {
	t.Helper()
	found := named.FindAllStringSubmatch(expr, -1)
	require.True(t, len(found) > 0 || strings.Contains(expr, "up{"), "%s: %s names no metric of ours", where, expr)
	for _, m := range found {
		labels, known := s[m[1]]
		require.True(t, known, "%s: nothing registers %s", where, m[1])
		for _, matcher := range matchers.FindAllStringSubmatch(m[2], -1) {
			require.Contains(t, labels, matcher[1], "%s: %s has no such label", where, m[1])
		}
	}
}
