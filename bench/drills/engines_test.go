package drills

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
)

func databaseAway(s *stage) act {
	return act{fault: s.database.shut, mend: s.database.open}
}

// kafkaAway has deliveries and a change of a right wait for Kafka.
func kafkaAway(s *stage) act {
	stop := func() {}
	return act{
		fault: func() {
			s.kafka.shut()
			stop = s.deliveries(s.Gateways[steady], 50*time.Millisecond)
			got := systemtest.Call(s.T, s.client.API, s.client.Key, systemtest.Operation{Method: "POST", Path: "/v1/rights/" + s.rights["AUDIO"] + "/suspend", Body: "{}"})
			require.Equal(s, 503, got.Status, got.Body)
			require.Contains(s, string(got.Body), "LOG_UNAVAILABLE", "it takes effect, and the log does not have it yet")
		},
		look: func() { s.requireLogged("pipeline1", "cannot join the consumer group") },
		mend: func() {
			s.kafka.open()
			stop()
			require.NoError(s, s.client.Do(s.Context(), "POST", "/v1/rights/"+s.rights["AUDIO"]+"/resume", map[string]any{}, nil))
		},
		admin: func(alert string) string {
			if alert == "MunimentLoaderNoMember" {
				return s.Loaders[0].Admin
			}
			return s.Gateways[steady].Admin
		},
	}
}

// topicRefuses has somebody lower what the topic takes, and a spool that has records then. The commands of
// the runbook mend it.
func topicRefuses(s *stage) act {
	stop := func() {}
	node := s.Gateways[steady]
	return act{
		fault: func() {
			s.setTopic("max.message.bytes", "100")
			got := systemtest.Call(s.T, node.API, s.client.Key, systemtest.Operation{Method: "POST", Path: "/v1/delivery", Body: systemtest.Delivery(s.rights["DOOH"])})
			require.Equal(s, 503, got.Status, got.Body)
			s.kafka.shut()
			stop = s.deliveries(node, 50*time.Millisecond)
			s.until("records are spooled", func() bool { return systemtest.Sum(s.Gateways[:1], "muniment_spool_pending_records") > 0 })
			s.kafka.open()
		},
		look:  func() { stop() },
		mend:  func() {},
		admin: s.at(node),
	}
}

// clickhouseAway has more to load than a loader may be behind, and a topic that keeps records for a minute.
func clickhouseAway(s *stage) act {
	return act{
		fault: func() {
			s.setTopic("retention.ms", "60000")
			s.clickhouse.shut()
			s.rows(110_000)
		},
		look:  func() { s.requireLogged("pipeline1", "records near the end of their retention and are not loaded") },
		mend:  s.clickhouse.open,
		admin: s.at(s.Loaders[0]),
	}
}

func clickhouseCut(s *stage) act {
	return act{
		fault: s.clickhouse.shut,
		look:  func() { s.requireLogged("control1", "cannot check for drift, retrying") },
		mend:  s.clickhouse.open,
	}
}

// rows delivers rows of batches.
func (s *stage) rows(n int) {
	s.Helper()
	const most = 1000
	played := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	batch := time.Now().UnixNano()
	for sent := 0; sent < n; sent += most {
		var rows []string
		for i := range most {
			rows = append(rows, fmt.Sprintf(`{"playedAt":%q,"rowId":"%d-%d","rightId":%q,"spatialAnchorId":"a","dwellMs":4200}`, played, batch, sent+i, s.rights["DOOH"]))
		}
		got := systemtest.Call(s.T, s.client.API, s.client.Key, systemtest.Operation{
			Method: "POST", Path: "/v1/delivery/ingest-batch", Body: `{"rows":[` + strings.Join(rows, ",") + `]}`})
		require.Equal(s, 200, got.Status, got.Body)
	}
}

// loaderBlind has a loader that is in no consumer group, so that nobody else knows its positions, start while
// ClickHouse is away.
func loaderBlind(s *stage) act {
	s.loaderAgain()
	was := s.Loaders[0]
	var blind *systemtest.Launched
	return act{
		fault: func() {
			was.Kill()
			s.clickhouse.shut()
			blind = s.launch(was, "pipeline", "--topic", s.Topic, "--clickhouse", s.ClickHouse, "--from-all")
		},
		look:  func() { require.Contains(s, blind.Log(), "cannot find the position to load from") },
		mend:  s.clickhouse.open,
		admin: s.at(was),
	}
}

func loaderDead(s *stage) act {
	return act{
		fault: s.Loaders[0].Kill,
		mend:  func() { require.NoError(s, s.StartLoader(s.Context(), 0)) },
		admin: s.at(s.Loaders[0]),
	}
}

// loaderAgain starts the loader as it was once the test of a drill has ended, in which another process had
// its place.
func (s *stage) loaderAgain() {
	s.Cleanup(func() { require.NoError(s, s.StartLoader(context.Background(), 0)) })
}

// olderTopic has a loader start with the name of a topic that is older than the right one.
func olderTopic(s *stage) act {
	was := s.Loaders[0]
	var wrong *systemtest.Launched
	return act{
		fault: func() {
			was.Kill()
			wrong = s.launch(was, "pipeline", "--topic", s.olderTopic, "--clickhouse", s.ClickHouse, "--session-timeout", "6s")
		},
		look: func() { require.Contains(s, wrong.Log(), "log ends before what was loaded") },
		mend: func() {
			wrong.Kill()
			require.NoError(s, s.StartLoader(s.Context(), 0))
		},
		admin: s.at(was),
	}
}

// noRequests has control answer no requests of the gateways, which get their rights all the same.
func noRequests(s *stage) act {
	stop := func() {}
	return act{
		fault: func() {
			s.Front.Set()
			stop = s.stream(4, 50*time.Millisecond, func(ctx context.Context, c system.Client) {
				_, _, _ = c.Request(ctx, "GET", "/v1/rights", nil)
			})
		},
		look:  func() { require.Contains(s, s.ready(s.Gateways[steady]), `"name":"control","note":"`) },
		mend:  func() { s.Front.Set(system.HostOf(s.Operator().API)); stop() },
		admin: s.at(s.Gateways[steady]),
	}
}

// ready is what /readyz of a part says.
func (s *stage) ready(p *system.Server) string {
	s.Helper()
	return systemtest.Call(s.T, p.Admin, "", systemtest.Operation{Method: "GET", Path: "/readyz"}).Body
}
