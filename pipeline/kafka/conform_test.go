package kafka

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muniment.example/deploy/stack/stacktest"
	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
	"muniment.example/sealer"
)

// TestConform runs the suite of every log against brokers in process.
func TestConform(t *testing.T) {
	conform.Log(t, func(tb testing.TB) conform.LogEngine {
		return engine(tb, fakeBrokers(tb))
	})
}

// TestConformOnKafka runs it against a real cluster.
func TestConformOnKafka(t *testing.T) {
	brokers := realBrokers(t)
	conform.Log(t, func(tb testing.TB) conform.LogEngine {
		return engine(tb, brokers)
	})
}

// realBrokers are those of a running cluster; make test-stack starts one.
func realBrokers(tb testing.TB) []string {
	return strings.Split(stacktest.Kafka(tb), ",")
}

// fakeBrokers starts a cluster in process.
func fakeBrokers(tb testing.TB, opts ...kfake.Opt) []string {
	_, addrs := fakeCluster(tb, opts...)
	return addrs
}

func fakeCluster(tb testing.TB, opts ...kfake.Opt) (*kfake.Cluster, []string) {
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	require.NoError(tb, err)
	tb.Cleanup(c.Close)
	return c, c.ListenAddrs()
}

// freshTopic makes a topic of its own for a test on a cluster and returns its
// configuration.
func freshTopic(tb testing.TB, brokers []string, topic Topic) Config {
	cfg := Config{
		Brokers: brokers,
		Topic:   fmt.Sprintf("muniment.test.%d", time.Now().UnixNano()),
	}
	if topic.Replication == 0 {
		topic.Replication = 1
	}
	if topic.Partitions == 0 {
		topic.Partitions = 4
	}
	_, err := topic.Migrate(tb.Context(), cfg, false)
	require.NoError(tb, err)
	return cfg
}

func mustOpen(tb testing.TB, cfg Config) *Log {
	l, err := Open(cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { l.Close() })
	return l
}

// engine is a log on a topic of its own. A crash is a process that ends without a
// word: the brokers go on.
func engine(tb testing.TB, brokers []string) conform.LogEngine {
	cfg := freshTopic(tb, brokers, Topic{})
	log := mustOpen(tb, cfg)
	return conform.LogEngine{
		Log: log,
		Reopen: func() pipeline.Log {
			log.refuse(pipeline.ErrClosed)
			log = mustOpen(tb, cfg)
			return log
		},
		Retire: func(before int64) {
			deleteRecords(tb, cfg, partitionOf("tnt_conform", 4), before)
		},
	}
}

// deleteRecords drops the records of a partition before an offset.
func deleteRecords(tb testing.TB, cfg Config, partition int32, before int64) {
	client, err := kgo.NewClient(kgo.SeedBrokers(cfg.Brokers...))
	require.NoError(tb, err)
	defer client.Close()
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Partition, p.Offset = partition, before
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic, topic.Partitions = cfg.Topic, append(topic.Partitions, p)
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Topics = append(req.Topics, topic)
	res, err := req.RequestWith(tb.Context(), client)
	require.NoError(tb, err)
	require.Zero(tb, res.Topics[0].Partitions[0].ErrorCode)
}

func testRecord(tenant string, n int) sealer.Record {
	return sealer.Record{
		TenantID: tenant,
		EventID:  fmt.Sprintf("evt_%026d", n),
		Node:     "nod_test",
		Epoch:    1,
		Seq:      uint64(n + 1),
		Event:    fmt.Appendf(nil, `{"n":%d}`, n),
		Private:  fmt.Appendf(nil, `{"secret":%d}`, n),
	}
}

// collect returns what a log holds of all partitions, each in order.
func collect(tb testing.TB, l *Log) []sealer.Entry {
	ctx := tb.Context()
	n, err := l.Partitions(ctx)
	require.NoError(tb, err)
	var all []sealer.Entry
	for p := range int32(n) {
		first, end, err := l.Bounds(ctx, p)
		require.NoError(tb, err)
		require.NoError(tb, l.Scan(ctx, first, end, func(e sealer.Entry) error {
			all = append(all, e)
			return nil
		}))
	}
	return all
}
