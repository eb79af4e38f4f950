package systemtest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/pipeline/kafka"
	"muniment.example/sealer"
)

// OpenTopic opens a cluster's topic.
func OpenTopic(t *testing.T, c *system.Cluster) *kafka.Log {
	t.Helper()
	log, err := kafka.Open(kafka.Config{Brokers: strings.Split(c.Engines.Kafka, ","), Topic: c.Topic})
	require.NoError(t, err)
	return log
}

// InTopic reads where each receipt of a cluster's topic stands first.
func InTopic(t *testing.T, c *system.Cluster) (first map[string]sealer.Position) {
	t.Helper()
	log := OpenTopic(t, c)
	defer log.Close()
	partitions, err := log.Partitions(t.Context())
	require.NoError(t, err)
	first = map[string]sealer.Position{}
	for p := range int32(partitions) {
		from, end, err := log.Bounds(t.Context(), p)
		require.NoError(t, err)
		require.NoError(t, log.Scan(t.Context(), from, end, func(e sealer.Entry) error {
			if !strings.Contains(string(e.Event), `"type":"delivery.recorded"`) {
				return nil
			}
			parts, err := sealer.SplitDelivery(e.Event)
			if err != nil {
				return err
			}
			var receipt struct{ ReceiptID string }
			if err := json.Unmarshal(parts.Receipt, &receipt); err != nil {
				return err
			}
			if _, again := first[receipt.ReceiptID]; !again {
				first[receipt.ReceiptID] = e.Position
			}
			return nil
		}))
	}
	return first
}
