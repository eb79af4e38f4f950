package sums

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/rapidtest"
	"muniment.example/sealer"
	"muniment.example/sealer/pack"
)

// draw draws deliveries of a few kinds around the epoch, and a plain sum of them by hour.
func draw(t *rapid.T) (table Table, model map[Line]Sum) {
	model = map[Line]Sum{}
	texts := []string{"", "a", "it's \"b\"", "é"}
	for range rapid.IntRange(1, 60).Draw(t, "deliveries") {
		k := Kind{
			RightID: rapid.SampledFrom(texts).Draw(t, "right"), Substrate: "CTV", BasisID: rapid.SampledFrom(texts).Draw(t, "basis"),
			MeteringBasis: "viewable", Reason: rapid.SampledFrom([]string{sealer.ReasonMetered, "NOT_VISIBLE", sealer.ReasonDuplicate}).Draw(t, "reason"), Completion: rapid.SampledFrom([]string{"none", "complete"}).Draw(t, "completion"),
		}
		at := rapid.Int64Range(-3*DayMs, 3*DayMs).Draw(t, "at")
		one := Sum{1, rapid.Int64Range(0, 1<<40).Draw(t, "ms"), rapid.Int64Range(0, 1<<40).Draw(t, "impressions"), at, at}
		table.Add(StartOf(at, HourMs), table.Number(k), &one)
		hour := at / HourMs
		if at < 0 && at%HourMs != 0 {
			hour--
		}
		key := Line{Start: hour * HourMs, Kind: k}
		was, known := model[key]
		if !known {
			was.First, was.Last = at, at
		}
		model[key] = Sum{was.Receipts + 1, was.QuantityMs + one.QuantityMs, was.Impressions + one.Impressions, min(was.First, at), max(was.Last, at)}
	}
	return table, model
}

// Whatever is counted: decoded blocks by hour hold it, and those by day hold the sums of the hours.
func TestBlocksHoldWhatWasCounted(t *testing.T) {
	codec, err := NewCodec()
	require.NoError(t, err)
	rapidtest.Check(t, 200, 20_000, func(t *rapid.T) {
		table, model := draw(t)
		decoded := map[Line]Sum{}
		var byDay, ofHours Table
		last := int64(-1 << 62)
		for _, d := range table.Days(codec) {
			require.Greater(t, d.Day, last, "days rise")
			last = d.Day
			hours, err := codec.Decode(d.Day, d.Hours, false)
			require.NoError(t, err)
			for _, l := range hours.Lines {
				key := Line{Start: l.Start, Kind: hours.Kind(l.Kind)}
				require.NotContains(t, decoded, key)
				decoded[key] = l.Sum
				ofHours.Add(StartOf(l.Start, DayMs), ofHours.Number(hours.Kind(l.Kind)), &l.Sum)
			}
			whole, err := codec.Decode(d.Day, d.Whole, true)
			require.NoError(t, err)
			byDay.AddBlock(&whole)
		}
		require.Equal(t, model, decoded)
		require.Equal(t, ofHours.Lines(), byDay.Lines())
	})
}

// A block that was changed is refused or holds other lines, and never more than it has bytes for.
func TestAlteredBlocks(t *testing.T) {
	codec, err := NewCodec()
	require.NoError(t, err)
	rapidtest.Check(t, 300, 30_000, func(t *rapid.T) {
		table, _ := draw(t)
		d := table.Days(codec)[0]
		text, err := codec.decoder.DecodeAll(d.Hours, nil)
		require.NoError(t, err)
		i := rapid.IntRange(0, len(text)-1).Draw(t, "byte")
		switch rapid.IntRange(0, 2).Draw(t, "how") {
		case 0:
			text[i] ^= byte(rapid.IntRange(1, 255).Draw(t, "flip"))
		case 1:
			text = text[:i]
		case 2:
			text = append(text, byte(i))
		}
		block, err := codec.Decode(d.Day, codec.encoder.EncodeAll(text, nil), false)
		if err != nil {
			require.ErrorIs(t, err, ErrBlock)
			return
		}
		for _, l := range block.Lines {
			require.Less(t, int(l.Kind), len(block.kinds))
			require.Positive(t, l.Receipts)
			require.Equal(t, d.Day, StartOf(l.First, DayMs)/DayMs)
			require.Equal(t, l.Start, StartOf(l.Last, HourMs))
		}
	})
	_, err = codec.Decode(0, []byte("no zstd"), false)
	require.ErrorIs(t, err, ErrBlock)
	_, err = codec.Decode(0, nil, false)
	require.ErrorIs(t, err, ErrBlock)
}

// A small block that claims to have much is refused before memory for that is taken.
func TestBlocksThatClaimMuch(t *testing.T) {
	codec, err := NewCodec()
	require.NoError(t, err)
	const length = 32 << 20
	number := func(text []byte) []byte { return binary.AppendUvarint(text, length/8) }
	empty := binary.AppendUvarint([]byte{version, 1}, 0)
	for name, text := range map[string][]byte{
		"texts": number([]byte{version}),
		"kinds": number(slices.Clone(empty)),
		"lines": number(append(slices.Clone(empty), 1, 0, 0, 0, 0, 0, 0)),
	} {
		bomb := codec.encoder.EncodeAll(append(text, make([]byte, length)...), nil)
		require.Less(t, len(bomb), 10_000, name)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = codec.Decode(0, bomb, false)
		runtime.ReadMemStats(&after)
		require.ErrorIs(t, err, ErrBlock, name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(length+length/2), name)
	}
	_, err = codec.Decode(0, codec.encoder.EncodeAll(make([]byte, mostBlock+1), nil), false)
	require.ErrorIs(t, err, ErrBlock)
}

// Sums that are not the header's are refused, whichever differs, and whichever side has more.
func TestAgree(t *testing.T) {
	d := sealer.RecordedDelivery{RightID: "rgh_a", Substrate: "CTV", BasisID: "bas_a"}
	d.Basis, d.Reason, d.QuantityMs, d.Impressions = "viewable", sealer.ReasonMetered, 7, sealer.Impression
	var table Table
	var meter pack.Meter
	for i := range 3 {
		d.Completion = fmt.Sprint(i % 2)
		table.Count(&d, i == 2)
		meter.Add(&d, i == 2)
	}
	require.NoError(t, table.Agree(meter.Rows()))
	for name, change := range map[string]func(r *pack.MeterRow){
		"receipts": func(r *pack.MeterRow) { r.Receipts-- }, "ms": func(r *pack.MeterRow) { r.QuantityMs++ },
		"impressions": func(r *pack.MeterRow) { r.Impressions++ }, "right": func(r *pack.MeterRow) { r.RightID = "rgh_b" },
	} {
		rows := meter.Rows()
		change(&rows[1])
		require.ErrorContains(t, table.Agree(rows), "not the metering in the header", name)
	}
	require.Error(t, table.Agree(meter.Rows()[:1]))
	require.Error(t, new(Table).Agree(meter.Rows()))
}
