// Package drills runs the drills of the alerts on the engines (make alert-drills): each makes a fault of a
// scaled service, sees a real Prometheus raise the alerts, types the commands of their runbooks, and mends
// the fault. Those that one process has are in deploy.
package drills

import (
	"bytes"
	"context"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/deploy/alerttest"
	"muniment.example/deploy/stack/stacktest"
)

func TestMain(m *testing.M) { systemtest.Main(m) }

// drill is one on the engines.
type drill struct {
	alerttest.Drill
	make func(s *stage) act
}

// act is what a drill does on the stage.
type act struct {
	fault, mend, look func()
	// admin is the admin listener that the commands of an alert's runbook are typed for: nil is control's.
	admin func(alert string) string
}

// onTheEngines begins a row of the runbooks' table whose drill is here.
const onTheEngines = "On the engines: "

// TestTableHasTheDrills: what the runbooks say of a drill on the engines is what is done here.
func TestTableHasTheDrills(t *testing.T) {
	how := map[string]string{}
	for _, d := range drills {
		for _, alert := range d.Alerts {
			require.Empty(t, how[alert], "%s has two drills", alert)
			how[alert] = onTheEngines + d.How
		}
	}
	for _, row := range alerttest.Table(t, "deploy/runbooks.md") {
		if len(row.How) > len(onTheEngines) && row.How[:len(onTheEngines)] == onTheEngines || how[row.Alert] != "" {
			require.Equal(t, how[row.Alert], row.How, row.Alert)
			delete(how, row.Alert)
		}
	}
	require.Empty(t, how, "alerts without a row")
}

// TestAlertDrills runs them one after the other, on one cluster.
func TestAlertDrills(t *testing.T) {
	stacktest.OnlyWith(t, "MUNIMENT_TEST_DRILLS", "alert-drills")
	s := newStage(t)
	for _, d := range drills {
		d.How = onTheEngines + d.How
		t.Run(d.Alerts[0], func(t *testing.T) {
			s := s.of(t)
			s.settled()
			a := d.make(s)
			d.Run(t, "deploy", alerttest.Stage{
				Jobs: s.jobs(), Fault: a.fault, Mend: a.mend, Look: a.look,
				Terminal: func(alert string) alerttest.Terminal {
					admin := s.Operator().Admin
					if a.admin != nil {
						admin = a.admin(alert)
					}
					token, err := s.Gateways[changed].AdminToken()
					require.NoError(t, err)
					return alerttest.Terminal{Dir: s.workspace, Env: append(s.Command(t.Context()).Env, "ADMIN="+admin, "TOKEN="+token)}
				},
			})
		})
	}
}

// stage is a cluster whose engines can be cut off: two gateways, a loader and a control process.
type stage struct {
	*testing.T
	*system.Cluster
	broker                      *systemtest.Engine
	kafka, clickhouse, database *door
	olderTopic                  string // than that of the cluster; it has no records
	client                      system.Client
	rights                      map[string]string
	// workspace is where an operator types commands: it has control's data folder under the name that
	// commands find without a flag.
	workspace string
}

// The gateways. The second one is that which drills start with other flags.
const steady, changed = 0, 1

// door is the way to an engine.
type door struct {
	*system.Balancer
	engine string
}

func newDoor(t *testing.T, engine string) *door {
	t.Helper()
	b, err := system.NewBalancer(engine)
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return &door{b, engine}
}

// shut cuts everybody off, and open lets them through again.
func (d *door) shut() { d.Set() }
func (d *door) open() { d.Set(d.engine) }

// through puts a door into an engine's URL.
func through(t *testing.T, engine string) (*door, string) {
	t.Helper()
	u, err := url.Parse(engine)
	require.NoError(t, err)
	d := newDoor(t, u.Host)
	u.Host = d.Addr()
	return d, u.String()
}

// The lease bound, so that a drill sees leases end, and the age of events at which they are sealed.
const bound, sealEvery = "10s", "5s"

const brokerPort = "29392"

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{T: t, Cluster: &system.Cluster{
		Exe: "muniment", Dir: t.TempDir(), Engines: systemtest.Engines(t),
		GatewayFlags: []string{"--bound", bound},
		ControlFlags: []string{"--bound", bound, "--seal-every", sealEvery},
		LoaderFlags:  []string{"--session-timeout", "6s"}, // as short as brokers allow
	}, workspace: t.TempDir()}
	s.kafka = newDoor(t, "127.0.0.1:"+brokerPort)
	at, err := url.Parse("//" + s.kafka.Addr())
	require.NoError(t, err)
	s.broker = systemtest.StartEngine(t, "kafka", "MUNIMENT_KAFKA_PORT="+brokerPort, "MUNIMENT_KAFKA_ADVERTISED="+at.Port())
	s.Engines.Kafka = s.kafka.Addr()
	s.clickhouse, s.Engines.ClickHouse = through(t, s.Engines.ClickHouse)
	s.database, s.Engines.Database = through(t, s.Engines.Database)
	s.olderTopic = system.RandomName("muniment_")
	systemtest.Command(t, "migrate", "--only", "kafka", "--kafka", s.Engines.Kafka, "--topic", s.olderTopic, "--partitions", "2", "--replication", "1")
	t.Cleanup(s.End)
	require.NoError(t, s.Raise(t.Context(), system.Size{Gateways: 2, Loaders: 1, Controls: 1, Partitions: 2}))
	require.NoError(t, os.Symlink(s.Operator().Data, filepath.Join(s.workspace, "muniment-data")))
	s.client, s.rights = systemtest.RegisterOn(t, s.Cluster)
	return s
}

// of is the stage for the test of one drill.
func (s *stage) of(t *testing.T) *stage {
	one := *s
	one.T = t
	return &one
}

// settled waits until the loader knows how far it is: it may have been started again a moment ago, which
// rules with shorter windows take for a loader that is blind.
func (s *stage) settled() {
	s.Helper()
	for _, name := range []string{"muniment_loader_lag_records", "muniment_loader_retention_used_ratio"} {
		s.until("the loader knows how far it is", func() bool {
			v, err := systemtest.Metric(s.Loaders[0], name)
			return err == nil && !math.IsNaN(v)
		})
	}
}

func (s *stage) jobs() (all []alerttest.Scraped) {
	for _, of := range []struct {
		job   string
		parts []*system.Server
	}{{"muniment-gateway", s.Gateways}, {"muniment-pipeline", s.Loaders}, {"muniment-control", s.Controls}} {
		job := alerttest.Scraped{Job: of.job}
		for _, p := range of.parts {
			job.Targets = append(job.Targets, p.Admin)
		}
		all = append(all, job)
	}
	return all
}

// at is the admin listener of a gateway, for act.admin.
func (s *stage) at(p *system.Server) func(string) string {
	return func(string) string { return p.Admin }
}

// again starts the changeable gateway anew, with some flags beside the usual ones.
func (s *stage) again(flags ...string) {
	s.Helper()
	s.Gateways[changed].Kill()
	usual := s.GatewayFlags
	s.GatewayFlags = append(append([]string{}, usual...), flags...)
	defer func() { s.GatewayFlags = usual }()
	require.NoError(s, s.StartGateway(s.Context(), changed))
}

// until waits for a condition.
func (s *stage) until(what string, holds func() bool) {
	s.Helper()
	waittest.Until(s, holds, what)
}

// stream sends requests all the while, whatever they are answered: each client one in every so long.
func (s *stage) stream(clients int, every time.Duration, request func(ctx context.Context, c system.Client)) (stop func()) {
	ctx, cancel := context.WithCancel(s.Context())
	var running sync.WaitGroup
	for range clients {
		client := s.client
		client.HTTP = &http.Client{Transport: &http.Transport{}}
		running.Go(func() {
			_ = system.Every(ctx, every, func() error { request(ctx, client); return nil })
		})
	}
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	s.Cleanup(stop)
	return stop
}

// deliveries are delivered to a gateway.
func (s *stage) deliveries(gateway *system.Server, every time.Duration) (stop func()) {
	return s.stream(1, every, func(ctx context.Context, c system.Client) {
		c.API = gateway.API
		_, _, _ = c.Request(ctx, "POST", "/v1/delivery", s.play())
	})
}

// play is the body of a delivery.
func (s *stage) play() map[string]any {
	return map[string]any{"rightId": s.rights["DOOH"], "spatialAnchorId": "a", "dwellMs": 4200}
}

// deliver delivers some plays, which are acknowledged.
func (s *stage) deliver(n int) {
	s.Helper()
	for range n {
		require.NoError(s, s.client.Do(s.Context(), "POST", "/v1/delivery", s.play(), nil))
	}
}

// command runs a command of the operator.
func (s *stage) command(arg ...string) string {
	s.Helper()
	cmd := s.Command(s.Context(), arg...)
	cmd.Dir = s.workspace
	out, err := cmd.CombinedOutput()
	require.NoError(s, err, "%v: %s", arg, out)
	return string(out)
}

// setTopic changes a setting of the topic beside muniment migrate.
func (s *stage) setTopic(name, value string) {
	systemtest.SetTopic(s.T, s.Engines.Kafka, s.Topic, name, value)
}

// launch starts a command as the part of the cluster whose admin listener it takes.
func (s *stage) launch(at *system.Server, arg ...string) *systemtest.Launched {
	s.Helper()
	return systemtest.Launch(s.T, append(arg, "--admin", system.HostOf(at.Admin), "--kafka", s.Engines.Kafka)...)
}

// requireLogged requires that the log of a part says something since the cluster was raised.
func (s *stage) requireLogged(part, text string) {
	s.Helper()
	s.until(part+" logs "+text, func() bool {
		return bytes.Contains(systemtest.ReadFile(s.T, filepath.Join(s.Dir, part+".log")), []byte(text))
	})
}
