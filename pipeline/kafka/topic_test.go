package kafka

import (
	"errors"
	"strconv"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"muniment.example/bench/waittest"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

func described(tb testing.TB, cfg Config) description {
	return describedWith(tb, cfg, func(description) bool { return true })
}

// describedWith waits until a topic is as it should be: a broker has what the cluster has
// agreed on a moment later.
func describedWith(tb testing.TB, cfg Config, is func(description) bool) (d description) {
	cfg, err := cfg.complete()
	require.NoError(tb, err)
	client, transport, err := cfg.client()
	require.NoError(tb, err)
	defer transport.CloseIdleConnections()
	waittest.Until(tb, func() bool {
		d, err = describe(tb.Context(), client, cfg.Topic)
		return err == nil && is(d)
	})
	return d
}

func testTopic(tb testing.TB, brokers []string) {
	cfg := Config{Brokers: brokers, Topic: "muniment.test." + strconv.FormatInt(time.Now().UnixNano(), 10)}
	topic := Topic{Partitions: 3, Replication: 1, Retention: time.Hour, MessageBytes: 1 << 20}

	planned, err := topic.Migrate(tb.Context(), cfg, true)
	require.NoError(tb, err)
	require.Len(tb, planned, 1)
	require.Contains(tb, planned[0].String(), "create topic "+cfg.Topic+": 3 partitions, 1 replicas, 1 in sync, kept 1h0m0s, generation 1")
	planned, err = topic.Migrate(tb.Context(), cfg, true)
	require.NoError(tb, err)
	require.Len(tb, planned, 1, "a dry run makes nothing")

	before := time.Now().Unix()
	made, err := topic.Migrate(tb.Context(), cfg, false)
	require.NoError(tb, err)
	require.Len(tb, made, 1)
	d := described(tb, cfg)
	require.Equal(tb, 3, d.partitions)
	require.Equal(tb, 1, d.replication)
	for name, want := range map[string]string{
		settingCleanup: "delete", settingInSync: "1", settingMessageBytes: "1048576", settingRetention: "3600000",
		settingRetentionBytes: "-1", settingTimestamp: "LogAppendTime",
	} {
		require.Equal(tb, want, d.settings[name].value, name)
	}
	generation, err := d.generation()
	require.NoError(tb, err)
	require.GreaterOrEqual(tb, int64(generation), before)
	require.LessOrEqual(tb, int64(generation), time.Now().Unix())

	made, err = topic.Migrate(tb.Context(), cfg, false)
	require.NoError(tb, err)
	require.Empty(tb, made)

	// What is not declared stays.
	made, err = Topic{}.Migrate(tb.Context(), Config{Brokers: brokers, Topic: cfg.Topic}, false)
	require.NoError(tb, err)
	require.Len(tb, made, 1, "%v", made)
	require.Equal(tb, settingMessageBytes, made[0].Setting)
	topic.MessageBytes = 4 << 20
	made, err = Topic{Retention: 90 * time.Minute}.Migrate(tb.Context(), cfg, true)
	require.NoError(tb, err)
	require.Equal(tb, []Change{{cfg.Topic, settingRetention, "3600000", "5400000"}}, made)

	// What grows is changed, what would shrink stays.
	larger := Topic{Partitions: 3, Replication: 1, Retention: 2 * time.Hour, MessageBytes: 1 << 19}
	planned, err = larger.Migrate(tb.Context(), cfg, true)
	require.NoError(tb, err)
	require.Equal(tb, []Change{{cfg.Topic, settingRetention, "3600000", "7200000"}}, planned)
	require.Equal(tb, "set retention.ms of topic "+cfg.Topic+" to 7200000 (was 3600000)", planned[0].String())
	require.Equal(tb, "3600000", described(tb, cfg).settings[settingRetention].value)
	made, err = larger.Migrate(tb.Context(), cfg, false)
	require.NoError(tb, err)
	require.Equal(tb, planned, made)
	d = describedWith(tb, cfg, func(d description) bool { return d.settings[settingRetention].value == "7200000" })
	require.Equal(tb, "4194304", d.settings[settingMessageBytes].value)

	// What can't grow is refused, all of it at once, and nothing is changed.
	_, err = Topic{Partitions: 6, Replication: 3}.Migrate(tb.Context(), cfg, false)
	require.ErrorIs(tb, err, ErrTopic)
	require.ErrorContains(tb, err, "it has 3 partitions, 6 are declared")
	require.ErrorContains(tb, err, "1 replicas, 3 are declared")
	require.Equal(tb, "7200000", described(tb, cfg).settings[settingRetention].value)

	// A new generation ends the logs that are open.
	failed := make(chan error, 1)
	watched := cfg
	watched.CheckEvery = 10 * time.Millisecond
	watched.OnFailure = func(err error) { failed <- err }
	l := mustOpen(tb, watched)
	r := testRecord("tnt_a", 0)
	old, err := l.Append(tb.Context(), &r)
	require.NoError(tb, err)
	require.Equal(tb, generation, old.Generation)
	larger.Renew = true
	made, err = larger.Migrate(tb.Context(), cfg, false)
	require.NoError(tb, err)
	require.Len(tb, made, 1)
	require.Equal(tb, settingGeneration, made[0].Setting)
	require.ErrorIs(tb, <-failed, pipeline.ErrFailed)
	_, err = l.Append(tb.Context(), &r)
	require.ErrorIs(tb, err, pipeline.ErrFailed)
	require.ErrorIs(tb, l.Wait(tb.Context(), old), pipeline.ErrFailed)
	require.ErrorIs(tb, l.Ready(), pipeline.ErrFailed)

	renewed := mustOpen(tb, cfg)
	at, err := renewed.Append(tb.Context(), &r)
	require.NoError(tb, err)
	require.Greater(tb, at.Generation, old.Generation)
	require.Equal(tb, old.Next().Offset, at.Offset)
	_, err = renewed.Read(tb.Context(), old)
	require.ErrorIs(tb, err, pipeline.ErrGone)
}

func TestTopic(t *testing.T)        { testTopic(t, fakeBrokers(t)) }
func TestTopicOnKafka(t *testing.T) { testTopic(t, realBrokers(t)) }

// TestHandMadeTopic: a topic that was made by hand is refused until migrate has
// taken it over.
func TestHandMadeTopic(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	require.NoError(t, cluster.CreateTopic("muniment.events", 12, nil))
	cfg := Config{Brokers: brokers, ReadTimeout: 100 * time.Millisecond}
	l := mustOpen(t, cfg)
	waittest.Until(t, func() bool { return errors.Is(l.Ready(), ErrTopic) })
	_, _, err := l.Bounds(t.Context(), 0)
	require.ErrorIs(t, err, ErrTopic)
	require.ErrorContains(t, err, "no generation")

	made, err := Topic{Replication: 1}.Migrate(t.Context(), cfg, false)
	require.NoError(t, err)
	var settings []string
	for _, c := range made {
		settings = append(settings, c.Setting)
	}
	require.Equal(t, []string{settingGeneration, settingMessageBytes, settingTimestamp}, settings)
	require.Contains(t, made[0].String(), "(was not set)")
	waittest.Until(t, func() bool { return l.Ready() == nil })
}

// TestCompactedTopic has lost records from its middle, perhaps.
func TestCompactedTopic(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	policy, generation := "compact", "7"
	require.NoError(t, cluster.CreateTopic("muniment.events", 12, map[string]string{settingCleanup: policy, settingGeneration: generation}))
	cfg := Config{Brokers: brokers, ReadTimeout: 100 * time.Millisecond}
	l := mustOpen(t, cfg)
	waittest.Until(t, func() bool { return errors.Is(l.Ready(), ErrTopic) })
	_, _, err := l.Bounds(t.Context(), 0)
	require.ErrorIs(t, err, ErrTopic)
	require.ErrorContains(t, err, "cleanup.policy=compact")
	_, err = Topic{Replication: 1}.Migrate(t.Context(), cfg, false)
	require.ErrorIs(t, err, ErrTopic)
}

// TestRecreatedTopic: offsets that begin anew can't be taken for those of before.
func TestRecreatedTopic(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	cfg := freshTopic(t, brokers, Topic{})
	l := mustOpen(t, cfg)
	r := testRecord("tnt_a", 0)
	at, err := l.Append(t.Context(), &r)
	require.NoError(t, err)
	require.NoError(t, cluster.DeleteTopic(cfg.Topic))
	require.NoError(t, cluster.CreateTopic(cfg.Topic, 4, map[string]string{settingGeneration: strconv.Itoa(int(at.Generation) + 1)}))

	// The first failure has the topic looked at; it needs no failure to be noticed.
	l.lookAgain()
	<-l.ctx.Done()
	_, err = l.Append(t.Context(), &r)
	require.ErrorIs(t, err, pipeline.ErrFailed)
	require.ErrorContains(t, err, "recreated or restored")

	first, end, err := mustOpen(t, cfg).Bounds(t.Context(), at.Partition)
	require.NoError(t, err)
	require.Equal(t, sealer.Position{Generation: at.Generation + 1, Partition: at.Partition}, first)
	require.Equal(t, first, end)
}

// TestPartitionsAreFixed: a tenant must not change its partition.
func TestPartitionsAreFixed(t *testing.T) {
	t.Parallel()
	_, brokers := fakeCluster(t, kfake.NumBrokers(1))
	cfg := freshTopic(t, brokers, Topic{Partitions: 2})
	l := mustOpen(t, cfg)
	_, err := l.Partitions(t.Context())
	require.NoError(t, err)
	complete, err := cfg.complete()
	require.NoError(t, err)
	client, transport, err := complete.client()
	require.NoError(t, err)
	defer transport.CloseIdleConnections()
	_, err = client.CreatePartitions(t.Context(), &kafkago.CreatePartitionsRequest{Topics: []kafkago.TopicPartitionsConfig{{Name: cfg.Topic, Count: 5}}})
	require.NoError(t, err)
	waittest.Until(t, func() bool { l.lookAgain(); return l.stopErr() != nil })
	require.ErrorContains(t, l.stopErr(), "has 5 partitions and had 2")
}

func TestTopicDeclaredWrongly(t *testing.T) {
	for name, topic := range map[string]Topic{
		"more in sync than there are": {Replication: 1, InSync: 2},
		"negative":                    {Partitions: -1},
		"keeps nothing":               {Retention: time.Microsecond},
		"holds nothing":               {MessageBytes: 10},
	} {
		_, err := topic.Migrate(t.Context(), Config{Brokers: []string{"127.0.0.1:1"}}, true)
		require.ErrorContains(t, err, "kafka: ", name)
	}
}
