package systemtest

import (
	"github.com/stretchr/testify/require"

	"muniment.example/gateway/client"
)

// GoClient is a client of the service, by its tenant's key.
func (s *Service) GoClient(change ...func(*client.Config)) *client.Client {
	s.T.Helper()
	cfg := client.Config{URL: s.Client.API, Key: s.Client.Key}
	for _, f := range change {
		f(&cfg)
	}
	c, err := client.New(cfg)
	require.NoError(s.T, err)
	return c
}
