package stack

import (
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/control/store/storetest"
)

// loss is a service one of whose engines loses everything.
type loss struct {
	*testing.T
	*system.Cluster
	client system.Client
	rights map[string]string
	plays  int // that were answered with a receipt
}

// deliver has plays delivered.
func (l *loss) deliver(n int) {
	l.Helper()
	for range n {
		got := systemtest.Call(l.T, l.client.API, l.client.Key, systemtest.Operation{Method: "POST", Path: "/v1/delivery", Body: systemtest.Delivery(l.rights["DOOH"])})
		require.Equal(l, 200, got.Status, got.Body)
		l.plays++
	}
}

// stopped requires that the right that was revoked is.
func (l *loss) stopped() {
	l.Helper()
	got := systemtest.Call(l.T, l.client.API, l.client.Key, systemtest.Operation{Method: "POST", Path: "/v1/delivery", Body: systemtest.Delivery(l.rights["CTV"])})
	require.Equal(l, 409, got.Status, got.Body)
}

// counted waits until all plays are in the sums, each once, and has them sealed.
func (l *loss) counted() {
	l.Helper()
	waittest.Until(l.T, func() bool {
		n, duplicates := systemtest.Plays(l.T, l.client)
		require.Zero(l, duplicates)
		require.LessOrEqual(l, n, l.plays)
		return n == l.plays
	}, "%d plays are metered", l.plays)
}

// nodesAgain starts the node again, on its own volume.
func (l *loss) nodesAgain() {
	l.Helper()
	l.Gateways[0].Kill() // if it has not ended itself: one that ran on a topic that is gone does
	require.NoError(l, l.StartGateway(l.Context(), 0))
}

// accepted starts control, which has to refuse what is older until that is accepted.
func (l *loss) accepted() {
	l.Helper()
	before := systemtest.ReadFile(l.T, l.Operator().Data+"1.log")
	require.Error(l, l.StartControl(l.Context(), 0))
	require.Contains(l, string(systemtest.ReadFile(l.T, l.Operator().Data+"1.log")[len(before):]), systemtest.AcceptRollback)
	l.ControlFlags = []string{systemtest.AcceptRollback}
	require.NoError(l, l.StartControl(l.Context(), 0))
	l.ControlFlags = nil
}

// TestLossesOnTheStack does what the procedures say of a lost warehouse, database and log, in turn:
// no play that has a receipt is missing or counted twice, and what was revoked stays so.
func TestLossesOnTheStack(t *testing.T) {
	t.Parallel()
	const partitions = 2
	c := cluster(t, system.Size{Gateways: 1, Loaders: 1, Controls: 1, Partitions: partitions})
	client, rights := systemtest.RegisterOn(t, c)
	l := &loss{T: t, Cluster: c, client: client, rights: rights}
	l.deliver(20)
	l.counted()

	t.Log("the warehouse is lost")
	require.NoError(t, c.Loaders[0].Stop())
	waittest.Until(t, func() bool {
		return systemtest.Query("DROP DATABASE IF EXISTS "+nameOf(t, c.ClickHouse)+" SYNC") == nil
	}, "the warehouse is gone")
	l.deliver(5)
	require.GreaterOrEqual(t, systemtest.Call(t, client.API, client.Key, systemtest.Operation{Method: "GET", Path: "/v1/metering"}).Status, 500)
	require.NoError(t, c.Migrate(t.Context(), partitions))
	require.NoError(t, c.StartLoader(t.Context(), 0))
	l.counted()

	t.Log("the database is lost")
	database := nameOf(t, c.Database)
	administer := func(statement string) {
		t.Helper()
		require.NoError(t, storetest.Administer(c.Engines.Database, statement))
	}
	require.NoError(t, c.Controls[0].Stop())
	administer("CREATE DATABASE " + database + "_copy TEMPLATE " + database)
	require.NoError(t, c.StartControl(t.Context(), 0))
	waittest.Until(t, func() bool {
		return client.Do(t.Context(), "POST", "/v1/rights/"+rights["CTV"]+"/revoke", nil, nil) == nil
	}, "the node reaches control again")
	waittest.Until(t, func() bool {
		got := systemtest.Call(t, client.API, client.Key, systemtest.Operation{Method: "GET", Path: "/v1/events?type=right.revoked"})
		return got.Status == 200 && strings.Contains(got.Body, rights["CTV"])
	}, "the log has the revocation")
	l.deliver(5)
	l.stopped()
	c.Controls[0].Kill()
	administer("DROP DATABASE " + database + " WITH (FORCE)")
	administer("CREATE DATABASE " + database + " TEMPLATE " + database + "_copy")
	l.accepted()
	l.nodesAgain()
	l.deliver(5)
	l.stopped()
	l.counted()

	t.Log("the log is lost")
	broker, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(c.Engines.Kafka, ",")...))
	require.NoError(t, err)
	defer broker.Close()
	request := kmsg.NewPtrDeleteTopicsRequest()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = &c.Topic
	request.Topics = append(request.Topics, topic)
	request.TopicNames = []string{c.Topic}
	_, err = request.RequestWith(t.Context(), broker)
	require.NoError(t, err)
	waittest.Until(t, func() bool {
		about := kmsg.NewPtrMetadataRequest()
		about.Topics = []kmsg.MetadataRequestTopic{{Topic: &c.Topic}}
		answer, err := about.RequestWith(t.Context(), broker)
		return err == nil && len(answer.Topics) == 1 && answer.Topics[0].ErrorCode == unknownTopic
	}, "the topic is gone: what it takes until then goes with it")
	l.deliver(5)
	require.NoError(t, c.Migrate(t.Context(), partitions))
	require.NoError(t, c.Controls[0].Stop())
	l.accepted()
	l.nodesAgain()
	c.Loaders[0].Kill()
	require.NoError(t, c.StartLoader(t.Context(), 0))
	l.deliver(5)
	l.stopped()
	l.counted()
}

// unknownTopic is Kafka's code UNKNOWN_TOPIC_OR_PARTITION.
const unknownTopic = 3

// nameOf is the database of an engine's URL.
func nameOf(t *testing.T, engine string) string {
	t.Helper()
	u, err := url.Parse(engine)
	require.NoError(t, err)
	return path.Base(u.Path)
}
