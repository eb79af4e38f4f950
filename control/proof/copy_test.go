package proof

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/proof/sums"
	"muniment.example/control/store"
	"muniment.example/pipeline"
)

// memoryKeeper keeps a copy of the sums of packs as ClickHouse does.
type memoryKeeper struct {
	lines  map[string]pipeline.PackSum
	copied map[string]pipeline.PackSumsCopied
	killed bool // before it is said how far copies go
}

func (k *memoryKeeper) PackSumsCopied(context.Context) (list []pipeline.PackSumsCopied, err error) {
	for _, c := range k.copied {
		list = append(list, c)
	}
	return list, nil
}

func (k *memoryKeeper) AddPackSums(_ context.Context, lines []pipeline.PackSum) error {
	for _, l := range lines {
		k.lines[fmt.Sprint(l.TenantID, l.Copy, l.Hour, l.Position, l.Line)] = l
	}
	return nil
}

func (k *memoryKeeper) SetPackSumsCopied(_ context.Context, copied []pipeline.PackSumsCopied) error {
	if k.killed && len(copied) > 0 {
		return errInjected
	}
	for _, c := range copied {
		if was := k.copied[c.TenantID]; c.Copy > was.Copy || c.Copy == was.Copy && c.Position.Compare(was.Position) > 0 {
			k.copied[c.TenantID] = c
		}
	}
	return nil
}

func (k *memoryKeeper) DeletePackSums(context.Context, []pipeline.PackSumsCopied) error { return nil }

// receipts are how many receipts count in each hour.
func (k *memoryKeeper) receipts() map[time.Time]int64 {
	hours := map[time.Time]int64{}
	for _, l := range k.lines {
		if at := k.copied[l.TenantID]; at.PackID != "" && l.Copy == at.Copy && l.Position.Compare(at.Position) <= 0 {
			hours[l.Hour] += l.Receipts
		}
	}
	return hours
}

func newMemoryKeeper() *memoryKeeper {
	return &memoryKeeper{lines: map[string]pipeline.PackSum{}, copied: map[string]pipeline.PackSumsCopied{}}
}

// TestCopyOfALostPack: lines of a pack that no copy says to have count nowhere, also when the database has lost that pack
// and seals another one that ends later.
func TestCopyOfALostPack(t *testing.T) {
	h := &ledger{world: &world{fixture: build(t)}}
	keeper := newMemoryKeeper()
	hour := h.Now().Truncate(time.Hour)
	h.Deliver(deliveries(3)...)
	h.seal()
	head := h.head()
	require.NoError(t, h.service.Sums.Copier(keeper).Copy(t.Context()))
	require.Equal(t, map[time.Time]int64{hour: 3}, keeper.receipts())

	h.Deliver(deliveries(2)...)
	h.seal()
	keeper.killed = true
	require.ErrorIs(t, h.service.Sums.Copier(keeper).Copy(t.Context()), errInjected)
	keeper.killed = false
	h.restore(head)
	require.NoError(t, h.DB.BeginEpoch(t.Context(), store.Epoch{Incarnation: h.DB.NewIncarnation(), Number: h.DB.Epoch().Number + 1}, func(*store.Tx) error { return nil }))
	h.Deliver(deliveries(1)...)
	h.seal()
	require.NoError(t, h.service.Sums.Copier(keeper).Copy(t.Context()))
	require.Equal(t, map[time.Time]int64{hour: 6}, keeper.receipts())
}

// TestCopyOfMendedSums: once the sums of a pack are mended, nothing counts that was copied of them before, whether
// the copy says to have it or the process was killed before.
func TestCopyOfMendedSums(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprint("killed ", killed), func(t *testing.T) {
			h := build(t)
			keeper := newMemoryKeeper()
			hour := h.Now().Truncate(time.Hour)
			h.Deliver(deliveries(3)...)
			h.seal()
			require.NoError(t, h.service.Sums.Copier(keeper).Copy(t.Context()))
			h.Deliver(deliveries(2)...)
			h.seal()

			// The right totals, in another hour of the day.
			p := h.packs()[1]
			stored, err := storedOf(t.Context(), h.DB.Read(), h.service.codec, &p, "hours")
			require.NoError(t, err)
			wrong := hour.Add(time.Hour)
			if !wrong.Truncate(24 * time.Hour).Equal(hour.Truncate(24 * time.Hour)) {
				wrong = hour.Add(-time.Hour)
			}
			var lines []sums.Line
			for _, l := range stored {
				l.Start = wrong.UnixMilli()
				l.First, l.Last = l.Start, l.Start
				lines = append(lines, l)
			}
			require.NoError(t, h.DB.Change(t.Context(), func(tx *store.Tx) error {
				_, err := tx.ExecContext(t.Context(), `UPDATE proof_sums SET hours = $1 WHERE sequence = 2`, h.service.codec.Encode(lines))
				return err
			}))
			if keeper.killed = killed; killed {
				require.ErrorIs(t, h.service.Sums.Copier(keeper).Copy(t.Context()), errInjected)
			} else {
				require.NoError(t, h.service.Sums.Copier(keeper).Copy(t.Context()))
				require.Equal(t, map[time.Time]int64{hour: 3, wrong: 2}, keeper.receipts())
			}
			keeper.killed = false

			require.NoError(t, h.service.RecountSums(t.Context(), h.Tenant, p.ID))
			require.NoError(t, h.service.Sums.Copier(keeper).Copy(t.Context()))
			require.Equal(t, map[time.Time]int64{hour: 5}, keeper.receipts())
		})
	}
}
