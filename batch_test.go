package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/gateway/api"
)

// TestBatchesOverKills uploads batches, each with one poisoned row, from several clients while the
// service is killed, and sends all of them again: each row is in the log once, and metered once.
func TestBatchesOverKills(t *testing.T) {
	t.Parallel()
	const batches, size, kills = 24, 40, 2
	h := newService(t)
	played := time.Now().Add(-48 * time.Hour)
	body := func(batch int) string {
		rows := make([]string, size)
		for n := range rows {
			rows[n] = fmt.Sprintf(`{"rowId":"%d-%d","rightId":%q,"spatialAnchorId":"a","playedAt":%q,"dwellMs":1500,"multiplier":"1.5"}`,
				batch, n, h.rights["DOOH"], played.Add(time.Duration(n)*time.Second).Format(time.RFC3339))
		}
		rows[batch%size] = `{"rowId":"poison"}`
		return `{"vendor":"acme","rows":[` + strings.Join(rows, ",") + `]}`
	}
	send := func(batch int) (got api.Ingested, err error) {
		return got, h.client.Do(t.Context(), "POST", "/v1/delivery/ingest-batch", json.RawMessage(body(batch)), &got)
	}
	for range kills {
		begun := make(chan struct{})
		var clients sync.WaitGroup
		var once sync.Once
		for c := range 4 {
			clients.Go(func() {
				for batch := c; batch < batches; batch += 4 {
					if _, err := send(batch); err != nil {
						return // it was killed
					}
					once.Do(func() { close(begun) })
				}
			})
		}
		<-begun
		h.server.Kill()
		clients.Wait()
		h.start()
	}
	for range 2 {
		for batch := range batches {
			got, err := send(batch)
			require.NoError(t, err)
			require.Equal(t, size-1, got.Counts.Accepted+got.Counts.Duplicate)
			require.Equal(t, "rejected", got.Results[batch%size].Status)
		}
	}
	require.Equal(t, batches*(size-1), h.metered())
}
