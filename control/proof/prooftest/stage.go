// Package prooftest is the fixture of tests about sealed events: log, loader, warehouse, database and
// relay in one folder, signing keys with their directory, and deliveries as a gateway seals them.
package prooftest

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/control/store/storetest"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/pipeline/kafka"
	"muniment.example/pipeline/segment"
	"muniment.example/pipeline/sqlite"
	"muniment.example/sealer"
)

// Tenant is the one that most tests work with, Stranger another.
const (
	Tenant   = "tnt_01ARZ3NDEKTSV4RRFFQ69G5FAV"
	Stranger = "tnt_01ARZ3NDEKTSV4RRFFQ69G5FAX"
)

// Operator makes the events of Audit.
var Operator = sealer.Ref{Kind: "operator", ID: "admin"}

// TB is what a stage needs of a *testing.T or a *rapid.T.
type TB interface {
	require.TestingT
	Helper()
	Context() context.Context
	Cleanup(func())
}

// Stage is what surrounds proof.Service, as the embedded default has it: segment log, loader, SQLite
// warehouse, database and relay in one folder. It can be closed and opened again over that folder.
// Its log may be a topic instead.
type Stage struct {
	T      TB
	Dir    string
	Tenant string // of Deliver and Audit
	Keys   *Keyring
	*roomtest.Clock

	Log interface {
		pipeline.OrderedLog
		io.Closer
	}
	Warehouse *sqlite.Warehouse
	Loaders   []*pipeline.Loader // by partition
	DB        *store.DB

	topic   kafka.Config // without brokers: the log is in the folder
	running sync.WaitGroup
	stop    context.CancelFunc
}

// NewStage makes a stage in a new folder, which is deleted when the test ends. If topic has brokers,
// the log is that topic. The caller opens and closes the stage.
func NewStage(t TB, topic kafka.Config) *Stage {
	dir, err := os.MkdirTemp("", "muniment-proof-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	clock := roomtest.NewClock(time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC))
	return &Stage{T: t, Dir: dir, topic: topic, Tenant: Tenant, Clock: clock, Keys: newKeyring(t, clock)}
}

// Topic makes a topic of five partitions on a broker in process.
func Topic(t TB) kafka.Config {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	topic := kafka.Config{Brokers: cluster.ListenAddrs()}
	_, err = kafka.Topic{Partitions: 5, Replication: 1}.Migrate(t.Context(), topic, false)
	require.NoError(t, err)
	return topic
}

// Open starts everything over the folder.
func (s *Stage) Open() {
	t := s.T
	var err error
	if s.topic.Brokers != nil {
		s.Log, err = kafka.Open(s.topic)
	} else {
		s.Log, err = segment.Open(segment.Config{Dir: filepath.Join(s.Dir, "log")})
	}
	require.NoError(t, err)
	s.Warehouse, err = sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(s.Dir, "warehouse.db")})
	require.NoError(t, err)
	require.NoError(t, s.Warehouse.Erase(t.Context(), pipeline.SubjectKey{}, nil))
	path, url := storetest.Place(t, s.Dir)
	s.DB, err = store.Open(t.Context(), store.Config{Path: path, URL: url, Now: s.Now, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)

	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	partitions, err := s.Log.Partitions(t.Context())
	require.NoError(t, err)
	s.Loaders = nil
	for p := range int32(partitions) {
		loader, err := pipeline.NewLoader(pipeline.LoaderConfig{Log: s.Log, Warehouse: s.Warehouse, Partition: p})
		require.NoError(t, err)
		s.Loaders = append(s.Loaders, loader)
		s.running.Go(func() { _ = loader.Run(ctx) })
	}
	s.running.Go(func() { _ = s.DB.Outbox.Relay(ctx, s.Log) })
}

// Stop ends the loaders and the relay.
func (s *Stage) Stop() { s.stop() }

// Close ends all that Open has started.
func (s *Stage) Close() {
	s.stop()
	s.running.Wait()
	require.NoError(s.T, s.DB.Close())
	require.NoError(s.T, s.Warehouse.Close())
	require.NoError(s.T, s.Log.Close())
}

// Pause stops a loader that has loaded all there is: one that is about to read would still
// find what comes now.
func (s *Stage) Pause(partition int32) {
	s.T.Helper()
	_, end, err := s.Log.Bounds(s.T.Context(), partition)
	require.NoError(s.T, err)
	for next := (sealer.Position{}); next != end; time.Sleep(time.Millisecond) { // also in a bubble of rapid's
		next, _, err = s.Warehouse.Resume(s.T.Context(), partition)
		require.NoError(s.T, err)
	}
	s.Loaders[partition].Pause()
}

// End is that of the tenant's partition of the log.
func (s *Stage) End() sealer.Position {
	s.T.Helper()
	_, end, err := s.Log.Bounds(s.T.Context(), s.Partition(s.Tenant))
	require.NoError(s.T, err)
	return end
}

// Partition is a tenant's partition of the log.
func (s *Stage) Partition(tenantID string) int32 {
	s.T.Helper()
	p, err := s.Log.PartitionOf(s.T.Context(), tenantID)
	require.NoError(s.T, err)
	return p
}

// TwoPartitions returns two tenants in partitions of their own, which are not the system's either.
// The first partition stays empty.
func (s *Stage) TwoPartitions() (a, b string) {
	taken := map[int32]bool{0: true, s.Partition(api.SystemTenant): true}
	require.Len(s.T, taken, 2)
	next := func() string {
		for {
			id := api.NewID(api.PrefixTenant, s.Now())
			if p := s.Partition(id); !taken[p] {
				taken[p] = true
				return id
			}
		}
	}
	return next(), next()
}
