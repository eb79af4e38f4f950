// Package s3test serves buckets to tests, by a server of S3's API that is not ours.
package s3test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"
)

// Bucket serves an empty bucket until the test ends, and returns its URL. Requests pass through what between
// returns, unless that is nil.
func Bucket(t testing.TB, between func(store http.Handler) http.Handler) (url string) {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("evidence"))
	store := gofakes3.New(backend).Server()
	if between != nil {
		store = between(store)
	}
	server := httptest.NewServer(store)
	t.Cleanup(server.Close)
	return "s3://evidence?region=eu-central-1&endpoint=" + server.URL
}
