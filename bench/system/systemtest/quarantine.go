package systemtest

import (
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
	"muniment.example/pipeline/segment"
	"muniment.example/sealer"
)

// Misplace puts a record into the log of a server that is stopped: an event of a tenant
// under an id that is not its own.
func Misplace(t *testing.T, data, tenantID string) {
	t.Helper()
	log, err := segment.Open(segment.Config{Dir: filepath.Join(data, "log"), Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	require.NoError(t, err)
	defer func() { require.NoError(t, log.Close()) }()
	first, end, err := log.Bounds(t.Context(), 0)
	require.NoError(t, err)
	var record *sealer.Record
	require.NoError(t, log.Scan(t.Context(), first, end, func(e sealer.Entry) error {
		if e.TenantID == tenantID && record == nil {
			record = &sealer.Record{TenantID: tenantID, EventID: api.NewID(api.PrefixEvent, time.Now()), Node: e.Node, Epoch: e.Epoch, Seq: e.Seq, Event: append([]byte(nil), e.Event...)}
		}
		return nil
	}))
	_, err = log.Append(t.Context(), record)
	require.NoError(t, err)
}
