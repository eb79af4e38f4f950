package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muniment.example/bench/waittest"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/issuetest"
	"muniment.example/pipeline/copies"
	"muniment.example/pipeline/kafka"
	"muniment.example/pipeline/segment"
	"muniment.example/sealer"
)

// shortage is one way to a 503.
type shortage struct {
	reason api.Reason
	name   string
	// part is what /readyz names while every delivery is answered 503 for it. Empty: the node is
	// ready, for the reason why.
	part, why string
	// begin starts a world, and returns what makes the fault and what ends it.
	begin func(t *testing.T) (w *world, fault, mend func())
	// request is the one that is answered 503; nil: the delivery that was answered 200 before.
	request func(w *world) reply
}

// neverOfDeliveries are the reasons that no delivery is answered with.
var neverOfDeliveries = map[api.Reason]string{
	api.DelegationEnded:     "of directories, packs and statements: nodes sign deliveries with keys that are in the directory already",
	api.WarehouseBehind:     "of what control reads from the warehouse; deliveries need the log alone",
	api.Quarantined:         "of sealing",
	api.StorageFull:         "of changes that control makes. Deliveries of a service in one process are then LOG_UNAVAILABLE",
	api.DatabaseUnavailable: "of control. A node notices by its lease: RIGHTS_STALE",
	api.DatabaseBusy:        "of changes that control makes",
	api.EngineUnavailable:   "of control. A node has its own way to the log: LOG_UNAVAILABLE",
}

// shortages are all others.
var shortages = []shortage{
	{reason: api.RightsStale, name: "control is away for longer than the bound", part: "rights",
		begin: func(t *testing.T) (*world, func(), func()) {
			w := newWorld(t, nil)
			w.warm()
			return w, func() { w.control.Fail(errors.New("away")); w.skew.Store(int64(31 * time.Second)) }, func() { w.control.Fail(nil) }
		}},
	{reason: api.RightsStale, name: "a right that the node does not know, and control is away", why: "the node knows other rights, and decides them",
		begin: func(t *testing.T) (*world, func(), func()) {
			w := newWorld(t, nil)
			w.warm()
			return w, func() { w.control.Fail(errors.New("away")) }, func() { w.control.Fail(nil) }
		},
		request: func(w *world) reply { return w.post(strings.Replace(w.body(), w.right, rightID(77), 1)) }},
	{reason: api.RightsStale, name: "the clock is behind the end of a right's suspension", why: "deliveries of rights that were not suspended lately are issued",
		begin: func(t *testing.T) (*world, func(), func()) {
			w := newWorld(t, nil)
			now := w.gateway.now()
			w.control.SetRight(api.Right{
				ID: rightID(78), TenantID: "tnt_a", Substrate: gate.DOOH.String(), BasisID: "bas_1", State: api.RightActive, EffectiveFrom: now.Add(-time.Hour),
				Suspensions: []api.Suspension{{From: now.Add(-time.Minute), Until: now.Add(time.Hour)}}, SuspensionsSince: now.Add(-time.Hour),
			})
			return w, func() {}, func() {}
		},
		request: func(w *world) reply { return w.post(strings.Replace(w.body(), w.right, rightID(78), 1)) }},
	{reason: api.NoSigningKey, name: "the node has no key", part: "signing key",
		begin: func(t *testing.T) (w *world, fault, mend func()) {
			var ended atomic.Bool
			w = newStill(t)
			w.start(func(c *settings) {
				c.Issue.Signer = func(context.Context, time.Time) (*sealer.Signer, func(), error) {
					if ended.Load() {
						return nil, nil, errors.New("its key has ended")
					}
					return issuetest.SignerOf(w.key), func() {}, nil
				}
			})
			return w, func() { ended.Store(true) }, func() { ended.Store(false) }
		}},
	{reason: api.LogUnavailable, name: "the log fails", part: "log",
		begin: func(t *testing.T) (*world, func(), func()) {
			w := newWorld(t, nil)
			return w, func() { w.log.SetFail(errors.New("disk")) }, func() { w.log.SetFail(nil) }
		}},
	{reason: api.LogUnavailable, name: "the disk is full", part: "log", begin: fullDisk},
	{reason: api.LogUnavailable, name: "Kafka is away and the spool is full", part: "log", begin: fullSpool},
	{reason: api.Draining, name: "the node is stopping", part: "gateway",
		begin: func(t *testing.T) (*world, func(), func()) {
			w := newWorld(t, nil)
			return w, func() { w.gateway.phase.Store(refusing) }, func() { w.gateway.phase.Store(serving) }
		}},
	{reason: api.Overloaded, name: "too many requests are in hand", why: "a balancer that drops a node for its load puts that load on the others, until none is left",
		begin: func(t *testing.T) (w *world, fault, mend func()) {
			w = newWorld(t, func(c *settings) { c.MaxInFlight, c.MaxTenantInFlight = 1, 1 })
			var release func()
			answered := make(chan reply, 1)
			fault = func() {
				release = w.log.Halt()
				go func() { answered <- w.post(w.body()) }()
				waittest.Until(t, func() bool { return w.log.Appending() == 1 })
			}
			return w, fault, func() { release(); <-answered }
		}},
	{reason: api.ControlUnavailable, name: "control is away", why: "deliveries go on until the lease ends, which is RIGHTS_STALE",
		begin:   func(t *testing.T) (*world, func(), func()) { return newWorld(t, nil), func() {}, func() {} },
		request: func(w *world) reply { return w.raw("GET /v1/rights HTTP/1.1\r\nHost: muniment\r\n\r\n") }},
}

// fullDisk is the log of a service in one process.
func fullDisk(t *testing.T) (w *world, fault, mend func()) {
	log, err := segment.Open(segment.Config{Dir: t.TempDir(), SegmentBytes: 64 << 10, MaxBytes: 128 << 10})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	w = newWorld(t, func(c *settings) { c.Issue.Log = log })
	return w, w.fill, func() {
		_, end, err := log.Bounds(context.Background(), 0)
		require.NoError(t, err)
		_, err = log.Retain(end, today.AddDate(100, 0, 0))
		require.NoError(t, err)
	}
}

// fullSpool is the log of a node in a process of its own.
func fullSpool(t *testing.T) (w *world, fault, mend func()) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	at := kafka.Config{Brokers: cluster.ListenAddrs()}
	_, err = kafka.Topic{Replication: 1}.Migrate(t.Context(), at, false)
	require.NoError(t, err)
	topic, err := kafka.Open(at)
	require.NoError(t, err)
	dir := t.TempDir()
	disk, err := segment.Open(segment.Config{Dir: filepath.Join(dir, "spool"), SegmentBytes: 64 << 10, MaxBytes: 128 << 10})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, disk.Close()) })
	spool, err := kafka.OpenSpooled(kafka.SpoolConfig{Log: topic, Spool: disk, Mark: filepath.Join(dir, "mark"), AckTimeout: 20 * time.Millisecond, CheckEvery: 100 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, spool.Close()) })
	log, err := copies.Open(copies.Config{Promise: spool, Dir: filepath.Join(dir, "copies")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	w = newWorld(t, func(c *settings) { c.Issue.Log = log })
	var away *kfake.FaultHandle
	fault = func() {
		away = cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
		w.fill()
	}
	return w, fault, func() { away.Remove() }
}

// fill delivers until the log is full.
func (w *world) fill() {
	for n := 0; w.post(w.body()).status == http.StatusOK; n++ {
		require.Less(w.t, n, 10_000, "it does not get full")
	}
}

// readiness is the status of /readyz, and the parts that it names.
func readiness(t *testing.T, h http.Handler) (status int, parts []string) {
	t.Helper()
	status, body := get(t, h, "/readyz")
	var answer struct{ NotReady []struct{ Name string } }
	require.NoError(t, json.Unmarshal([]byte(body), &answer))
	for _, part := range answer.NotReady {
		parts = append(parts, part.Name)
	}
	return status, parts
}

// TestReadyIsWhatDeliveriesGet: for each reason of a 503, /readyz names a part if and only if every
// delivery is answered with it, and the node is ready again when the fault is over, without a
// delivery that would show it.
func TestReadyIsWhatDeliveriesGet(t *testing.T) {
	known := map[api.Reason]bool{}
	for _, s := range shortages {
		known[s.reason] = true
		require.NotContains(t, neverOfDeliveries, s.reason)
		require.NotEqual(t, s.part == "", s.why == "", "%s: either a part, or why it is none", s.name)
		t.Run(string(s.reason)+"/"+s.name, func(t *testing.T) {
			t.Parallel()
			w, fault, mend := s.begin(t)
			operators := Admin{Gatherer: w.registry, Checks: w.gateway.Checks()}.Handler()
			delivery := func() reply { return w.post(w.body()) }
			refused := delivery
			if s.request != nil {
				refused = func() reply { return s.request(w) }
			}
			require.Equal(t, http.StatusOK, delivery().status)
			status, parts := readiness(t, operators)
			require.Equal(t, http.StatusOK, status, parts)

			fault()
			for range 10 {
				r := refused()
				require.Equal(t, http.StatusServiceUnavailable, r.status, r.body)
				require.Contains(t, r.body, fmt.Sprintf(`"reason":%q`, s.reason))
				status, parts := readiness(t, operators)
				if s.part == "" {
					require.Equal(t, http.StatusOK, status, parts)
					continue
				}
				require.Equal(t, http.StatusServiceUnavailable, status)
				require.Equal(t, []string{s.part}, parts)
				require.Zero(t, w.metric("muniment_gateway_ready", s.part))
			}
			if s.request != nil {
				require.Equal(t, http.StatusOK, delivery().status, "others go on")
			}

			mend()
			waittest.Until(t, func() bool { status, _ := readiness(t, operators); return status == http.StatusOK })
			require.Equal(t, http.StatusOK, delivery().status)
		})
	}
	for _, reason := range api.Reasons() {
		require.True(t, known[reason] || neverOfDeliveries[reason] != "", "%s is in neither list", reason)
	}
	require.Len(t, api.Reasons(), len(known)+len(neverOfDeliveries))
}
