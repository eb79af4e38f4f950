//go:build tools

package deploy

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muniment/bench/system"
	"muniment/bench/waittest"
	"muniment/gateway"
	"muniment/pipeline/kafka"
	"muniment/pipeline/segment"
	"muniment/sealer"
)

// drills are the alerts that are provoked here. A drill makes the fault of a running service, and returns
// its admin listener, the folder where an operator types commands, and what ends the fault.
var drills = map[string]func(t *testing.T) (admin, dir string, fault, mend func()){
	"MunimentDown":           downDrill,
	"MunimentLogFails":       fullDiskDrill,
	"MunimentDeliveriesFail": fullDiskDrill, // whose page keeps it quiet: here only its commands are typed
	"MunimentControlFails":   fullDiskDrill, // likewise: its commands
	"MunimentUnsealed":       fullDiskDrill, // likewise
	"MunimentKafkaAway":      kafkaDrill(0),
	"MunimentSpoolHalfFull":  kafkaDrill(0.6),
	"MunimentSpoolFull":      kafkaDrill(2),
}

// onlyCommands are drills of another alert's fault, which show that the runbook's commands work.
var onlyCommands = map[string]bool{"MunimentDeliveriesFail": true, "MunimentControlFails": true, "MunimentUnsealed": true}

// notProvoked are the others, and why. What their expressions mean is in prometheus/rules_test.yml.
var notProvoked = map[string]string{
	"MunimentLeaseNearBound":       "needs a node that is cut off from control, on the engines",
	"MunimentDatabaseAway":         "needs PostgreSQL",
	"MunimentDeliveriesFailSlowly": "its windows are hours",
	"MunimentBeaconsLost":          "a range of minutes has to pass until it ends",
	"MunimentNodeCopied":           "a range of minutes has to pass until it ends: the tests of the gateway's process copy a node",
	"MunimentNodeKeyEnds":          "needs a key that control has bounded, an hour before its end",
	"MunimentNodeKeyChangeFails":   "needs a node that is cut off from control for minutes, on the engines",
	"MunimentTenantsTakeTurns":     "its window is a quarter of an hour",
	"MunimentSpoolInUse":           "needs a topic that refuses a record that the spool has, for five minutes",
	"MunimentCopiesFail":           "a range of a quarter of an hour has to pass until it ends",
	"MunimentKafkaRefuses":         "a range of minutes has to pass until it ends",
	"MunimentLoaderStopped":        "needs a topic whose records were deleted: the fault tests of retention delete them",
	"MunimentLoaderStuck":          "needs ClickHouse, and ten minutes",
	"MunimentRetentionHalfUsed":    "needs ClickHouse: the fault tests of retention raise it, and type its command",
	"MunimentLoaderBlind":          "needs ClickHouse",
	"MunimentNoLoader":             "a range of days has to pass until it ends",
	"MunimentLoaderNoMember":       "a range of ten minutes has to pass until it ends",
	"MunimentLoaderBehind":         "its windows are hours",
	"MunimentHeldRecords":          "needs a record that can't be trusted in the log",
	"MunimentForgedRecords":        "needs a forged record in the topic, and an hour until it ends",
	"MunimentSealFails":            "needs seals that fail by themselves, at an age of --seal-every",
	"MunimentMeteringDrift":        "needs rows that were changed beside the loaders",
	"MunimentMeteringUnchecked":    "its window is half an hour",
	"MunimentDelegationEnds":       "needs a clock two years ahead",
	"MunimentDelegationEndsSoon":   "needs a clock two years ahead",
	"MunimentCertificateEnds":      "needs a certificate that ends within days",
	"MunimentCertificateUnusable":  "needs certificate files that are replaced by others",
	"MunimentOutboxStuck":          "its window is a quarter of an hour",
	"MunimentJobsWait":             "needs a job that is due for an hour",
	"MunimentOffersExpireLate":     "needs a database that is away for minutes",
	"MunimentWebhooksBehind":       "needs a database that is away for minutes",
}

// TestAlertsAreRaisedAndEnd makes the fault of an alert: its expression becomes true from what the running
// service shows a real Prometheus, the commands of its runbook work as they are typed, and it ends with the
// fault. An alert that is in neither list fails.
func TestAlertsAreRaisedAndEnd(t *testing.T) {
	page, err := os.ReadFile("runbooks.md")
	require.NoError(t, err)
	alerts := 0
	for _, r := range rules(t, shown{}) {
		if r.Alert == "" {
			continue
		}
		alerts++
		drill := drills[r.Alert]
		require.NotEqual(t, drill == nil, notProvoked[r.Alert] == "", "%s: either a drill, or why there is none", r.Alert)
		if drill == nil {
			continue
		}
		t.Run(r.Alert, func(t *testing.T) {
			admin, dir, fault, mend := drill(t)
			prom := startPrometheus(t, admin)
			prom.require(t, r.Alert, `up == 1`, "", true)
			fault()
			if !onlyCommands[r.Alert] {
				prom.require(t, r.Alert, r.Expr, "", true)
			}
			typeCommands(t, section(t, string(page), r.Alert), dir, admin)
			mend()
			prom.require(t, r.Alert, "absent("+r.Expr+")", "", true)
		})
	}
	require.Equal(t, alerts, len(drills)+len(notProvoked), "a row of an alert that there is not")
}

// section is the text of an alert's runbook.
func section(t *testing.T, page, alert string) string {
	t.Helper()
	_, text, found := strings.Cut(page, "\n## "+alert+"\n")
	require.True(t, found, alert)
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

var typed = regexp.MustCompile("(?m)^<!-- a test runs these commands -->\n```sh\n((?s:.*?))^```$")

// typeCommands runs the commands of a section as they stand.
func typeCommands(t *testing.T, text, dir, admin string) {
	t.Helper()
	bin, err := filepath.Abs("../bin")
	require.NoError(t, err)
	for _, m := range typed.FindAllStringSubmatch(text, -1) {
		cmd := exec.CommandContext(t.Context(), "sh", "-e")
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(m[1])
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "ADMIN="+admin)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s\n%s", m[1], out)
		require.NotEmpty(t, out, m[1])
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
