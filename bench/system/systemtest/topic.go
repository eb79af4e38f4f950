package systemtest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// SetTopic changes a setting of a topic beside muniment migrate, which refuses what no operator wants.
func SetTopic(t *testing.T, brokers, topic, name, value string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(brokers, ",")...))
	require.NoError(t, err)
	defer client.Close()
	set := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	set.Name, set.Value = name, &value
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.Configs = kmsg.ConfigResourceTypeTopic, topic, append(resource.Configs, set)
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	answer, err := request.RequestWith(t.Context(), client)
	require.NoError(t, err)
	require.Zero(t, answer.Resources[0].ErrorCode)
}
