package drills

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/load"
	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/certs/certstest"
)

// nodeCutOff has a node that changes its key often lose its way to control, until its lease has ended: its
// deliveries fail, and plays that its beacons report are lost.
func nodeCutOff(s *stage) act {
	s.again("--rotate-every", "2s")
	node := s.Gateways[changed]
	var beacon struct{ URL string }
	require.NoError(s, s.client.Do(s.Context(), "POST", "/v1/delivery/beacons", map[string]any{
		"rightId": s.rights["DOOH"], "spatialAnchorId": "screen", "expiresAt": time.Now().Add(time.Hour), "maxReceiptsPerHour": 100_000,
	}, &beacon))
	_, token, found := strings.Cut(beacon.URL, api.PathBeacon)
	require.True(s, found)
	delivered := s.deliveries(node, 50*time.Millisecond)
	reported := s.stream(1, 50*time.Millisecond, func(ctx context.Context, c system.Client) {
		c.API = node.API
		_, _, _ = c.Request(ctx, "GET", api.PathBeacon+token+"?eid="+api.NewID("eid_", time.Now()), nil)
	})
	return act{
		fault: func() { s.Doors[changed].Set() },
		look: func() {
			require.Contains(s, s.ready(node), `"name":"rights"`)
			s.requireLogged("gateway2", "cannot follow control's feed")
			s.requireLogged("gateway2", "cannot change the signing key, retrying")
		},
		mend: func() {
			s.Doors[changed].Set(s.ControlDoors()...)
			s.until("the node delivers again", func() bool { return strings.Contains(s.ready(node), `"ready":true`) })
			delivered()
			reported()
		},
		admin: s.at(node),
	}
}

// nodeCopied has a copy of a node's folder run beside it.
func nodeCopied(s *stage) act {
	node := s.Gateways[changed]
	var other *systemtest.Launched
	return act{
		fault: func() {
			node.Kill()
			folder := filepath.Join(s.TempDir(), "copied")
			require.NoError(s, exec.Command("cp", "-a", node.Data, folder).Run())
			s.again()
			node = s.Gateways[changed]
			other = systemtest.Launch(s.T, "gateway", "--data", folder, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--bound", bound,
				"--control", s.Front.Addr(), "--nodes", "http://"+s.Doors[changed].Addr(), "--kafka", s.Engines.Kafka, "--topic", s.Topic)
		},
		look: func() {
			s.requireLogged("control1", "two processes run as one node")
			require.Contains(s, s.ready(node), "another process runs as this node")
		},
		mend:  func() { other.Kill(); s.again() },
		admin: func(string) string { return node.Admin },
	}
}

// certificates has the certificate of a node's API be renewed by one that soon ends, and then its key
// replaced by another's.
func certificates(s *stage) act {
	authority := certstest.New(s.T)
	month := certstest.Leaf{Until: time.Now().Add(30 * 24 * time.Hour)}
	pair := authority.Issue(s.T, month)
	s.again("--tls-cert", pair.Cert, "--tls-key", pair.Key)
	s.Cleanup(func() {
		s.Gateways[changed].Kill()
		s.Gateways[changed].API = strings.Replace(s.Gateways[changed].API, "https://", "http://", 1)
		require.NoError(s, s.StartGateway(context.Background(), changed))
	})
	return act{
		fault: func() {
			authority.Replace(s.T, pair, certstest.Leaf{Until: time.Now().Add(time.Hour)})
			s.until("the new certificate is used", func() bool {
				left, err := systemtest.Metric(s.Gateways[changed], "muniment_certificate_expiry_seconds")
				return err == nil && left < 3600
			})
			other := authority.Issue(s.T, month)
			require.NoError(s, os.Rename(other.Key, pair.Key))
		},
		look:  func() { s.requireLogged("gateway2", pair.Key) },
		mend:  func() { authority.Replace(s.T, pair, month) },
		admin: s.at(s.Gateways[changed]),
	}
}

// copiesLost has a node start whose folder of copies can't be opened.
func copiesLost(s *stage) act {
	node := s.Gateways[changed]
	copies, aside := filepath.Join(node.Data, "copies"), filepath.Join(s.TempDir(), "copies")
	stop := func() {}
	return act{
		fault: func() {
			node.Kill()
			require.NoError(s, os.Rename(copies, aside))
			require.NoError(s, os.WriteFile(copies, nil, 0o600))
			s.again()
			stop = s.deliveries(s.Gateways[changed], 50*time.Millisecond)
		},
		look: func() {
			s.requireLogged("gateway2", "serving without answers to idempotent retries until the next start")
		},
		mend: func() {
			stop()
			s.Gateways[changed].Kill()
			require.NoError(s, os.Remove(copies))
			require.NoError(s, os.Rename(aside, copies))
			s.again()
		},
		admin: func(string) string { return s.Gateways[changed].Admin },
	}
}

// tenantAbove has a tenant deliver far above its cap, beside another one.
func tenantAbove(s *stage) act {
	s.again("--tenant-cap", "4")
	node := s.Gateways[changed]
	calm, rights := systemtest.RegisterOn(s.T, s.Cluster)
	var stops []func()
	return act{
		fault: func() {
			stops = append(stops, s.stream(12, time.Millisecond, func(ctx context.Context, c system.Client) {
				c.API = node.API
				_, _, _ = c.Request(ctx, "POST", "/v1/delivery", s.play())
			}), s.stream(1, 20*time.Millisecond, func(ctx context.Context, c system.Client) {
				c.API, c.Key = node.API, calm.Key
				_, _, _ = c.Request(ctx, "POST", "/v1/delivery", map[string]any{"rightId": rights["DOOH"], "spatialAnchorId": "a", "dwellMs": 4200})
			}))
		},
		look: func() { // an operator looks between the two commands
			level := func(name string) {
				token, err := node.AdminToken()
				require.NoError(s, err)
				got := systemtest.Call(s.T, node.Admin, token, systemtest.Operation{Method: "PUT", Path: "/debug/log-level", Body: `{"level":"` + name + `"}`})
				require.Equal(s, 200, got.Status, got.Body)
			}
			level("debug")
			s.requireLogged("gateway2", "route=delivery status=429 tenantId=tnt_")
			level("info")
		},
		mend: func() {
			for _, stop := range stops {
				stop()
			}
		},
		admin: s.at(node),
	}
}

// tooMany has more clients deliver than a node takes at a time, while Kafka stalls: it answers some of
// them that it is overloaded.
func tooMany(s *stage) act {
	const tenants, clients = 5, 1000 // a tenant may have a quarter of 4,096 in flight
	var deliveries [][]load.Delivery
	var keys []string
	for i := range tenants {
		client, rights := systemtest.RegisterOn(s.T, s.Cluster)
		some, err := load.Deliveries(10_000, uint64(i), load.Profiles(), rights)
		require.NoError(s, err)
		deliveries, keys = append(deliveries, slices.Repeat(some, 100)), append(keys, client.Key)
	}
	ctx, cancel := context.WithCancel(s.Context())
	var running sync.WaitGroup
	var refused atomic.Int64
	broker := s.broker.PID("node1.pid")
	goOn := func() { _ = syscall.Kill(broker, syscall.SIGCONT) }
	s.Cleanup(func() { goOn(); cancel(); running.Wait() })
	return act{
		fault: func() {
			for i := range tenants {
				running.Go(func() {
					flood := load.Load{
						Name: "flood", Key: keys[i], Addrs: []string{systemtest.HostPort(s.Gateways[steady].API)}, Deliveries: deliveries[i], Clients: clients,
						Pause: 100 * time.Millisecond, Refused: func(int, string) { refused.Add(1) },
					}
					_, _ = flood.Run(ctx)
				})
			}
			s.until("all deliver", func() bool { return systemtest.Sum(s.Gateways[:1], "muniment_gateway_connections") >= tenants*clients })
			require.NoError(s, syscall.Kill(broker, syscall.SIGSTOP))
			s.until("some are refused", func() bool { return refused.Load() > 100 })
			goOn()
		},
		mend:  func() { cancel(); running.Wait() },
		admin: s.at(s.Gateways[steady]),
	}
}

// nodeLeaves has an operator remove a node while the loader is down: its deliveries can't be sealed, so it
// stays asked to leave, and signs nothing.
func nodeLeaves(s *stage) act {
	s.again()
	node := s.Gateways[changed]
	var id struct{ NodeID string }
	text, err := os.ReadFile(filepath.Join(node.Data, "identity", "node.json"))
	require.NoError(s, err)
	require.NoError(s, json.Unmarshal(text, &id))
	var expel *exec.Cmd
	return act{
		fault: func() {
			stop := s.deliveries(node, 10*time.Millisecond)
			s.Loaders[0].Kill()
			expel = s.Command(s.Context(), "node", "expel", id.NodeID, "--data", s.Operator().Data)
			require.NoError(s, expel.Start()) // it waits
			s.until("the node signs nothing more", func() bool {
				left, err := systemtest.Metric(node, "muniment_identity_key_left_seconds")
				return err == nil && left == 0
			})
			stop()
		},
		mend: func() {
			require.NoError(s, s.StartLoader(s.Context(), 0))
			_ = expel.Wait() // it may have given up
			s.until("it is expelled", func() bool {
				return s.Command(s.Context(), "node", "expel", id.NodeID, "--data", s.Operator().Data).Run() == nil
			})
			// Another node takes its place, with a folder and an invitation of its own.
			node.Kill()
			require.NoError(s, os.RemoveAll(node.Data))
			s.Gateways[changed] = nil
			require.NoError(s, s.StartGateway(s.Context(), changed))
		},
		admin: func(string) string { return s.Gateways[changed].Admin },
	}
}
