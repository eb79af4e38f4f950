package storytest

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/gateway/api"
)

// BatchesOverKills runs on one or more nodes: each batch is sent three times, besides
// what a kill cut off, and each time to another node than before.
func BatchesOverKills(t *testing.T, s *systemtest.Service, nodes func() []string, kill, start func()) {
	const size, kills = 40, 2
	batches := systemtest.Times(20, 1000)
	played := time.Now().Add(-48 * time.Hour)
	body := func(batch int) string {
		rows := make([]string, size)
		for n := range rows {
			rows[n] = fmt.Sprintf(`{"rowId":"%d-%d","rightId":%q,"spatialAnchorId":"a","playedAt":%q,"dwellMs":1500,"multiplier":"1.5"}`,
				batch, n, s.Rights["DOOH"], played.Add(time.Duration(n)*time.Second).Format(time.RFC3339))
		}
		rows[batch%size] = `{"rowId":"poison"}`
		return `{"vendor":"acme","rows":[` + strings.Join(rows, ",") + `]}`
	}
	send := func(batch, time int) (got api.Ingested, err error) {
		all := nodes()
		to := system.Client{API: all[(batch+time)%len(all)], Key: s.Client.Key}
		return got, to.Do(t.Context(), "POST", "/v1/delivery/ingest-batch", json.RawMessage(body(batch)), &got)
	}
	// each has four clients send all batches.
	each := func(do func(batch int)) (wait func()) {
		var clients sync.WaitGroup
		for c := range 4 {
			clients.Go(func() {
				for batch := c; batch < batches; batch += 4 {
					do(batch)
				}
			})
		}
		return clients.Wait
	}
	for n := range kills {
		begun := make(chan struct{})
		var once sync.Once
		wait := each(func(batch int) {
			if _, err := send(batch, n); err == nil { // else it was killed
				once.Do(func() { close(begun) })
			}
		})
		<-begun
		kill()
		wait()
		start()
	}
	for n := range 3 {
		each(func(batch int) {
			got, err := send(batch, n)
			if err != nil || got.Counts.Accepted+got.Counts.Duplicate != size-1 || got.Results[batch%size].Status != "rejected" {
				t.Error(batch, err, got.Counts)
			}
		})()
	}
	metered, duplicates := systemtest.Plays(t, s.Client)
	require.Equal(t, batches*(size-1), metered)
	if len(nodes()) == 1 {
		require.Zero(t, duplicates, "a node knows its own rows")
	}
	t.Logf("%d rows of %d batches, each metered once, besides %d receipts of duplicates", metered, batches, duplicates)
}
