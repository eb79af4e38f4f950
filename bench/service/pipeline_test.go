package service

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
)

// A loader whose warehouse is away waits for it, says so, and stops on a signal.
func TestPipelineWaitsForItsWarehouse(t *testing.T) {
	t.Parallel()
	cfg := systemtest.EventTopic(t)
	p := systemtest.StartLoader(t, "--kafka", cfg.Brokers[0], "--topic", cfg.Topic, "--clickhouse", "clickhouse://u:hidden@127.0.0.1:1/db")
	waittest.Until(t, func() bool {
		status, text := p.Ready()
		return status == http.StatusServiceUnavailable && strings.Contains(text, "connection refused")
	})
	resp, err := http.Get(p.Admin + "/livez")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	p.Stop(t)
	require.NotContains(t, p.Log(), "hidden")
}
