package issue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/issuetest"
	"muniment.example/sealer"
)

// drawnRow is a row of the model, and what the service should say of it alone.
type drawnRow struct {
	Row
	identity, content string // "" where it has none
	alone             string // as statuses has it, if it was never delivered
}

// drawRow draws one of few rows, so that many are equal; name is of the run alone.
func (f *fixture) drawRow(t *rapid.T, name string) drawnRow {
	id := fmt.Sprint(name, rapid.IntRange(0, 9).Draw(t, "id"))
	content := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "content")
	more := fmt.Sprintf(`,"rowId":%q,"correlationId":%q`, id, content)
	d := drawnRow{identity: id, alone: "accepted"}
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		return drawnRow{Row: Row{JSON: []byte(`{"rowId":` + fmt.Sprintf("%q", id) + `,}`)}, alone: "rejected 400"}
	case 1:
		d.Row, d.alone = rowOn(issuetest.RightID(99), time.Hour, more), "rejected 404 rightId"
	case 2:
		d.Row, d.alone = rowOn(f.right, 31*24*time.Hour, more), "rejected 422 playedAt"
	case 3:
		d.Row = mapped(name, time.Hour, fmt.Sprintf(`,"vendor":"acme","correlationId":%q,"spatialPlacementId":%q`, content, id))
		d.identity, d.alone = "mapped "+id, "unmapped"
	default:
		d.Row = rowOn(f.right, time.Hour, more)
	}
	d.content = string(d.JSON)
	return d
}

// TestBatchesAgainstAModel holds the results of batches, over failing logs and restarts, against
// a model that delivers row by row and remembers what the log took.
func TestBatchesAgainstAModel(t *testing.T) {
	f := rowsFixture(t, nil)
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		name := fmt.Sprintf("run %d ", runs)
		delivered := map[string]string{} // content by identity, of what is durable
		events := map[string]string{}
		var sent map[string]drawnRow
		read := len(f.log.All())
		learn := func() (taken int) {
			all := f.log.All()[read:]
			for _, e := range all {
				d, err := sealer.ReadDelivery(e.Event)
				require.NoError(t, err)
				row := sent[d.Identity.Hash]
				require.NotContains(t, delivered, row.identity, "no play is delivered twice")
				delivered[row.identity], events[row.identity] = row.content, string(e.Event)
			}
			read += len(all)
			return len(all)
		}
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				f.Issuer = f.reborn()
				require.NoError(t, f.Rebuild(context.Background()))
				continue
			case 1:
				bad := rapid.Uint64Range(1, 4).Draw(t, "every")
				f.log.Refuse(func(r *sealer.Record) error {
					if r.Seq%bad == 0 {
						return errors.New("away")
					}
					return nil
				})
			}
			rows := make([]drawnRow, rapid.IntRange(0, 30).Draw(t, "rows"))
			batch := Batch{Admit: func(rows int) (int, func()) {
				return rapid.IntRange(1, rows).Draw(t, "granted"), func() {}
			}}
			sent = map[string]drawnRow{}
			for n := range rows {
				rows[n] = f.drawRow(t, name)
				batch.Rows = append(batch.Rows, rows[n].Row)
			}
			known := len(delivered)
			want := make([]string, len(rows))
			fresh, first, waits := map[string]string{}, map[string]int{}, map[string]string{}
			for n, row := range rows {
				content, ok := delivered[row.identity]
				if !ok {
					content, ok = fresh[row.identity]
				}
				switch {
				case !ok && row.alone == "unmapped" && waits[row.identity] == row.content:
					want[n] = "duplicate"
				case row.identity == "" || !ok:
					if row.alone == "unmapped" {
						waits[row.identity] = row.content
					}
					if want[n] = row.alone; row.alone == "accepted" {
						fresh[row.identity], first[row.identity] = row.content, n
						sent[f.identity(row.Row)] = row
					}
				case content == row.content:
					want[n] = "duplicate"
				default:
					want[n] = "rejected 409"
				}
			}
			results, err := f.IssueRows(context.Background(), f.tenant, &batch)
			f.log.Refuse(nil)
			require.Zero(t, f.claims.Running())
			taken := learn()
			if err != nil {
				require.Equal(t, api.LogUnavailable, api.From(err).Reason)
				require.Less(t, taken, len(fresh), "all was durable, and the batch refused")
				continue
			}
			require.Equal(t, known+len(fresh), len(delivered))
			require.Equal(t, want, statuses(results))
			for n, r := range results {
				if r.Event != nil {
					require.Equal(t, events[rows[n].identity], string(r.Event))
				}
			}
		}
	})
}

// TestAPoisonRowInEachOfManyBatches: every batch holds a row that is refused, and comes three
// times, to two nodes that are killed now and then while they take one. Each other row is
// delivered, at most once by each node, and once by its identity.
func TestAPoisonRowInEachOfManyBatches(t *testing.T) {
	batches, size := 40, 20
	if os.Getenv("MUNIMENT_TEST_FULL") != "" {
		batches, size = 1000, 100
	}
	nodes := []*fixture{rowsFixture(t, func(c *Config) { c.CheckpointDir = t.TempDir() }), rowsFixture(t, nil)}
	for _, f := range nodes {
		require.NoError(t, f.Rebuild(t.Context()))
	}
	right := nodes[0].right
	poison := []Row{
		{JSON: []byte(`{"rowId":1}`)}, {JSON: []byte(`{`)}, rowOn(issuetest.RightID(99), time.Hour, ""), rowOn(right, 40*24*time.Hour, ""),
		{Refused: api.InvalidField("play[3]", "is missing")}, rowOn(right, time.Hour, `,"vendorId":"1"`), {JSON: make([]byte, 100<<10)},
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	all := make([][]Row, batches)
	bad := make([]int, batches)
	for b := range all {
		bad[b] = random.IntN(size)
		for n := range size {
			row := rowOn(right, time.Duration(b*size+n)*time.Second, "")
			if n == bad[b] {
				row = poison[random.IntN(len(poison))]
			}
			all[b] = append(all[b], row)
		}
	}
	answered := make([]int, batches)
	for attempt := 0; attempt < 3; attempt++ {
		for _, b := range random.Perm(batches) {
			f := nodes[random.IntN(2)]
			killed := random.IntN(5) == 0
			if killed { // it has written some of them, without a response
				left := random.IntN(size)
				f.log.Refuse(func(*sealer.Record) error {
					if left--; left < 0 {
						return errors.New("killed")
					}
					return nil
				})
			}
			results, err := f.rows(all[b]...)
			if killed {
				f.log.Refuse(nil)
				f.Issuer = f.reborn()
				require.NoError(t, f.Rebuild(t.Context()))
				if attempt < 2 {
					continue
				}
				results, err = f.rows(all[b]...)
			}
			require.NoError(t, err)
			answered[b]++
			for n, r := range results {
				if n == bad[b] {
					require.Equal(t, Rejected, r.Status)
					continue
				}
				require.NoError(t, r.Err)
				require.NotNil(t, r.Event)
			}
		}
	}
	once := map[string]bool{}
	for _, f := range nodes {
		own := map[string]bool{}
		for _, e := range f.log.All() {
			d, err := sealer.ReadDelivery(e.Event)
			require.NoError(t, err)
			require.False(t, own[d.Identity.Hash], "a node delivers a play once, whatever it was killed at")
			own[d.Identity.Hash], once[d.Identity.Hash] = true, true
		}
	}
	for b := range all {
		require.Positive(t, answered[b])
		for n, row := range all[b] {
			if n != bad[b] {
				require.True(t, once[nodes[0].identity(row)])
			}
		}
	}
	require.Len(t, once, batches*(size-1))
}
