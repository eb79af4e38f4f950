package demo

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/load"
	"muniment.example/bench/measure"
)

// sound makes books in which three receipts, one of them suppressed, balance.
func sound(t *testing.T) *books {
	keep := func() receipts {
		r := receipts{}
		for i := range 3 {
			require.NoError(t, r.count(fmt.Appendf(nil, `{"receiptId":"rcp_%d","nonce":"n%d"}`, i, i)))
		}
		return r
	}
	return &books{
		clients: &tally{acknowledged: keep(), metered: 2, suppressed: 1, quantityMs: 300, refused: 1, refusals: map[string]int{"A": 1}, others: map[int]int{}},
		log:     keep(), warehouse: keep(), packs: keep(),
		metering: meterTotals{Receipts: 3, Metered: 2, Suppressed: 1, QuantityMs: 300},
		answers:  make([]load.Answer, 4), took: 1,
	}
}

func TestBooksBalance(t *testing.T) {
	var out bytes.Buffer
	require.True(t, (&Demo{Out: &out}).report(sound(t)), out.String())
	require.NotContains(t, out.String(), "≠")
}

// TestEveryFaultIsFound spoils one thing at a time: none may pass.
func TestEveryFaultIsFound(t *testing.T) {
	for name, place := range map[string]func(*books) receipts{
		"log":       func(b *books) receipts { return b.log },
		"warehouse": func(b *books) receipts { return b.warehouse },
		"packs":     func(b *books) receipts { return b.packs },
	} {
		for fault, spoil := range map[string]func(receipts){
			"1 missing, 0 altered, 0 doubled, 0 never acknowledged": func(r receipts) { delete(r, "rcp_1") },
			"0 missing, 1 altered, 0 doubled, 0 never acknowledged": func(r receipts) { r["rcp_1"] = &found{1, "other"} },
			"0 missing, 0 altered, 1 doubled, 0 never acknowledged": func(r receipts) { r["rcp_1"].times++ },
			"0 missing, 0 altered, 0 doubled, 1 never acknowledged": func(r receipts) { r["rcp_9"] = &found{1, "new"} },
			// Counts alone would not see this one.
			"1 missing, 0 altered, 0 doubled, 1 never acknowledged": func(r receipts) { delete(r, "rcp_1"); r["rcp_9"] = &found{1, "new"} },
		} {
			requireFault(t, name, fault, func(b *books) { spoil(place(b)) })
		}
	}
	requireFault(t, "metered less", "the answers add up to 2 metered", func(b *books) { b.metering.Metered = 1 })
	requireFault(t, "suppressed more", "1 suppressed", func(b *books) { b.metering.Suppressed = 2 })
	requireFault(t, "billed more", "300 ms", func(b *books) { b.metering.QuantityMs++ })
	requireFault(t, "a repeated delivery that is metered", "0 never acknowledged", func(b *books) { b.scaled, b.clients.repeated = true, 1 })
	requireFault(t, "a duplicate", "expected 3", func(b *books) { b.metering.Duplicates = 1 })
	requireFault(t, "an odd answer", "unexpected", func(b *books) { b.clients.others = map[int]int{500: 1} })
}

func requireFault(t *testing.T, name, fault string, spoil func(*books)) {
	t.Helper()
	var out bytes.Buffer
	b := sound(t)
	spoil(b)
	require.False(t, (&Demo{Out: &out}).report(b), "%s passes:\n%s", name, out.String())
	require.Contains(t, out.String(), fault, name)
}

func TestTally(t *testing.T) {
	ok := `{"data":{"receipt":{"receiptId":"rcp_%d"},"metering":{"metered":%t,"quantityMs":%d}}}`
	got := newTally()
	require.NoError(t, got.add([]load.Answer{
		{Status: 200, Attempts: 1, Body: fmt.Appendf(nil, ok, 1, true, 20)},
		{Status: 200, Attempts: 2, Replayed: true, Body: fmt.Appendf(nil, ok, 2, false, 0)},
		{Status: 412, Attempts: 1, Body: []byte(`{"violations":[{"code":"A"},{"code":"B"}]}`)},
	}))
	require.NoError(t, got.add([]load.Answer{{
		Status: 200, Attempts: 1, Body: fmt.Appendf(nil, ok, 3, true, 5),
		Again: &load.Answer{Status: 200, Attempts: 1, Body: fmt.Appendf(nil, ok, 4, true, 5)},
	}}))
	require.NoError(t, got.add([]load.Answer{{Status: 422, Attempts: 1, Body: []byte(`{}`)}}))
	require.Len(t, got.acknowledged, 4)
	require.Equal(t, 1, got.repeated)
	require.Equal(t, map[string]int{"A": 1, "B": 1}, got.refusals)
	require.Equal(t, []int64{2, 1, 25}, []int64{got.metered, got.suppressed, got.quantityMs})
	require.Equal(t, []int{1, 1, 1}, []int{got.refused, got.retried, got.replayed})
	require.Equal(t, map[int]int{422: 1}, got.others)

	require.Error(t, got.add([]load.Answer{{Status: 200, Body: []byte("<html>")}}))
}

// TestJoinedReceipts: a receipt that stands in two places stands there twice.
func TestJoinedReceipts(t *testing.T) {
	b := sound(t)
	all := receipts{}
	all.join(b.log)
	require.Equal(t, b.log, all)
	all.join(receipts{"rcp_1": {1, "again"}, "rcp_9": {1, "new"}})
	missing, altered, doubled, unknown := all.differences(b.clients.acknowledged)
	require.Equal(t, []int{0, 0, 1, 1}, []int{missing, altered, doubled, unknown})
	require.Equal(t, 1, all.collapse())
	_, _, doubled, _ = all.differences(b.clients.acknowledged)
	require.Zero(t, doubled)
	require.Equal(t, 1, b.log["rcp_1"].times, "what was joined is left as it is")
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567"} {
		require.Equal(t, want, measure.Count(n))
	}
}
