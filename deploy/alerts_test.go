//go:build tools

package deploy

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muniment.example/bench/system"
	"muniment.example/bench/waittest"
	"muniment.example/deploy/alerttest"
	"muniment.example/gateway"
	"muniment.example/pipeline/kafka"
	"muniment.example/pipeline/segment"
	"muniment.example/sealer"
)

// drills are those of one process or of a part of one. bench/drills has those that need the engines.
var drills = []struct {
	alerttest.Drill
	// make makes a running service, and returns its admin listener, the folder where an operator types
	// commands, what makes the fault and what ends it.
	make func(t *testing.T) (admin, dir string, fault, mend func())
}{
	{alerttest.Drill{How: "`kill -9` of the process", Alerts: []string{"MunimentDown"}, Factor: 60}, downDrill},
	{alerttest.Drill{How: "the disk of `muniment up` is full", Alerts: []string{"MunimentLogFails"}, Factor: 60}, fullDiskDrill},
	{alerttest.Drill{How: "brokers acknowledge nothing", Alerts: []string{"MunimentKafkaAway"}, Factor: 60}, kafkaDrill(0)},
	{alerttest.Drill{How: "brokers acknowledge nothing until a small spool is more than half full", Alerts: []string{"MunimentSpoolHalfFull"}, Factor: 60}, kafkaDrill(0.6)},
	{alerttest.Drill{How: "brokers acknowledge nothing until a small spool is full", Alerts: []string{"MunimentSpoolFull"}, Factor: 60}, kafkaDrill(2)},
}

// inOneProcess begins a row of the runbooks' table whose drill is here.
const inOneProcess = "In one process: "

// TestAlertsAreRaisedAndEnd makes the fault of alerts: they fire by what the running service shows a real
// Prometheus, the commands of their runbooks work as they are typed, and they end with the fault.
func TestAlertsAreRaisedAndEnd(t *testing.T) {
	bin, err := filepath.Abs("../bin")
	require.NoError(t, err)
	how := map[string]string{}
	for _, d := range drills {
		d.How = inOneProcess + d.How
		for _, alert := range d.Alerts {
			how[alert] = d.How
		}
		t.Run(d.Alerts[0], func(t *testing.T) {
			admin, dir, fault, mend := d.make(t)
			d.Run(t, ".", alerttest.Stage{
				Jobs: []alerttest.Scraped{{Job: "muniment", Targets: []string{admin}}},
				Terminal: func(string) alerttest.Terminal {
					return alerttest.Terminal{Dir: dir, Env: []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "ADMIN=" + admin}}
				},
				Fault: fault, Mend: mend,
			})
		})
	}
	for _, row := range alerttest.Table(t, "runbooks.md") {
		if strings.HasPrefix(row.How, inOneProcess) {
			require.Equal(t, how[row.Alert], row.How, row.Alert)
		}
	}
}

// startIn runs muniment up on the data folder that commands find without a flag.
func startIn(t *testing.T, dir string) *system.Server {
	t.Helper()
	exe, err := filepath.Abs("../bin/muniment")
	require.NoError(t, err)
	server, err := system.StartServer(t.Context(), exe, filepath.Join(dir, "muniment-data"), "127.0.0.1:0", "127.0.0.1:0")
	require.NoError(t, err, "is the binary built?")
	t.Cleanup(server.Kill)
	return server
}

func downDrill(t *testing.T) (admin, dir string, fault, mend func()) {
	dir = t.TempDir()
	server := startIn(t, dir)
	exe, err := filepath.Abs("../bin/muniment")
	require.NoError(t, err)
	return server.Admin, dir, server.Kill, func() {
		again, err := system.StartServer(t.Context(), exe, filepath.Join(dir, "muniment-data"), "127.0.0.1:0", strings.TrimPrefix(server.Admin, "http://"))
		require.NoError(t, err)
		t.Cleanup(again.Kill)
	}
}

// fullDiskDrill is a service in one process on a small disk, to which somebody delivers.
func fullDiskDrill(t *testing.T) (admin, dir string, fault, mend func()) {
	if os.Getuid() != 0 {
		t.Skip("only root may mount a disk")
	}
	disk := t.TempDir()
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", disk).CombinedOutput()
	if err != nil {
		t.Skipf("no disk can be mounted here: %s", out)
	}
	t.Cleanup(func() { require.NoError(t, exec.Command("umount", "-l", disk).Run()) })
	require.NoError(t, os.Symlink(filepath.Join(t.TempDir(), "log"), filepath.Join(disk, "muniment-data.log")))
	server := startIn(t, disk)
	key, err := exec.Command("../bin/muniment", "tenant", "create", "--data", filepath.Join(disk, "muniment-data"), "--org", "org_a", "--another", "--key-only").Output()
	require.NoError(t, err)
	client := system.Client{API: server.API, Key: strings.TrimSpace(string(key))}
	right, stopped := issueRight(t, client, "DOOH"), issueRight(t, client, "DOOH")
	ballast := filepath.Join(disk, "ballast")
	refused := func(reason, path string, body any) bool {
		err := client.Do(t.Context(), "POST", path, body, nil)
		return err != nil && strings.Contains(err.Error(), reason)
	}
	fault = func() {
		// dd ends when the disk is full, as is wanted.
		_ = exec.Command("dd", "if=/dev/zero", "of="+ballast, "bs=64k").Run()
		waittest.Until(t, func() bool {
			return refused("STORAGE_FULL", "/v1/bases", map[string]any{"kind": "CONTRACT", "title": strings.Repeat("x", 200)})
		})
		// A stop takes the space that is reserved for stops, which deliveries leave alone from then on.
		require.NoError(t, client.Do(t.Context(), "POST", "/v1/rights/"+stopped+"/suspend", map[string]any{}, nil))
		waittest.Until(t, func() bool {
			return refused("LOG_UNAVAILABLE", "/v1/delivery", map[string]any{"rightId": right, "spatialAnchorId": "a", "dwellMs": 4200})
		})
	}
	return server.Admin, disk, fault, func() { require.NoError(t, os.Remove(ballast)) }
}

// issueRight issues a right on a basis.
func issueRight(t *testing.T, client system.Client, substrate string) (id string) {
	t.Helper()
	var basis struct{ Basis struct{ ID string } }
	require.NoError(t, client.Do(t.Context(), "POST", "/v1/bases", map[string]any{
		"kind": "LICENSE", "title": "a", "holderOrgId": "org_a", "effectiveFrom": "2026-01-01T00:00:00Z",
	}, &basis))
	var right struct{ Right struct{ ID string } }
	require.NoError(t, client.Do(t.Context(), "POST", "/v1/rights", map[string]any{
		"basisId": basis.Basis.ID, "substrate": substrate, "scope": map[string]any{}, "effectiveFrom": "2026-01-01T00:00:00Z",
	}, &right))
	return right.Right.ID
}

// kafkaDrill is the log of a node whose brokers acknowledge nothing, until its spool is full to a part; 2
// is more than it holds. The gateway's own gauge is that of the log here.
func kafkaDrill(part float64) func(t *testing.T) (admin, dir string, fault, mend func()) {
	return func(t *testing.T) (admin, dir string, fault, mend func()) {
		all := prometheus.NewRegistry()
		dir = t.TempDir()
		const segmentBytes, most = 64 << 10, 16 * 64 << 10
		cluster, _, spooled := openSpooled(t, all, dir, segment.Config{SegmentBytes: segmentBytes, MaxBytes: most}, kafka.SpoolConfig{AckTimeout: 10 * time.Millisecond, CheckEvery: 100 * time.Millisecond})
		all.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "muniment_gateway_ready", ConstLabels: prometheus.Labels{"part": "log"}}, func() float64 {
			if spooled.Writable(t.Context()) != nil {
				return 0
			}
			return 1
		}))
		server := httptest.NewServer(gateway.Admin{Gatherer: all}.Handler())
		t.Cleanup(server.Close)
		var away *kfake.FaultHandle
		fault = func() {
			away = cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
			for n, bytes := 0, 0.; n == 0 || bytes < part*most; n++ {
				r := &sealer.Record{TenantID: "tnt_a", EventID: "evt_a", Node: "nod_a", Epoch: 1, Seq: uint64(n + 1), Event: make([]byte, 2000)}
				if _, err := spooled.Append(t.Context(), r); err != nil {
					break // it is full
				}
				bytes += 2000
			}
		}
		return server.URL, dir, fault, func() { away.Remove() }
	}
}
