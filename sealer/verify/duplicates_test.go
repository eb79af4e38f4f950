package verify

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/sealertest"
)

// TestDuplicatesOfLeavesThatAreNotAtHand: what a pack alone says of them is its word, unless
// it contradicts itself. That is neither signed nor sound.
func TestDuplicatesOfLeavesThatAreNotAtHand(t *testing.T) {
	const none = ^uint64(0)
	for name, c := range map[string]struct {
		keys   string          // of the deliveries; of rows in upper case
		hours  []time.Duration // when they were
		firsts []uint64        // the leaves that they are said to repeat
		want   string
	}{
		"none":                            {"ab", []time.Duration{0, 0}, []uint64{none, none}, ""},
		"each of its own":                 {"ab", []time.Duration{0, 0}, []uint64{1, 0}, ""},
		"two of one key":                  {"aa", []time.Duration{0, 1}, []uint64{1, 1}, ""},
		"the older a lower one":           {"aa", []time.Duration{0, 1}, []uint64{1, 2}, ""},
		"the younger none":                {"aa", []time.Duration{0, 1}, []uint64{1, none}, ""},
		"two keys":                        {"ab", []time.Duration{0, 0}, []uint64{1, 1}, "leaf 1 is listed as repeated by deliveries of two idempotency keys or rows"},
		"two keys, far apart":             {"acb", []time.Duration{0, 0, 100}, []uint64{2, none, 2}, "leaf 2 is listed as repeated by deliveries of two idempotency keys or rows"},
		"the older none":                  {"aa", []time.Duration{1, 0}, []uint64{none, 1}, ""},
		"the older none, and it is first": {"aa", []time.Duration{0, 1}, []uint64{none, 1}, "leaf 1 is listed as repeated by leaf 4, but not by leaf 3"},
		"of one moment":                   {"aa", []time.Duration{5, 5}, []uint64{none, 0}, "leaf 0 is listed as repeated by leaf 4, but not by leaf 3"},
		"the younger a lower one":         {"aa", []time.Duration{1, 2}, []uint64{2, 1}, "leaf 1 is listed as repeated by leaf 4, but not by leaf 3"},
		"two rows":                        {"AB", []time.Duration{0, 0}, []uint64{1, 1}, "leaf 1 is listed as repeated by deliveries of two idempotency keys or rows"},
		"a key and a row":                 {"aA", []time.Duration{0, 0}, []uint64{1, 1}, "leaf 1 is listed as repeated by deliveries of two idempotency keys or rows"},
		"a row, later":                    {"AA", []time.Duration{0, 100}, []uint64{1, 1}, ""},
		"a row, earlier":                  {"AA", []time.Duration{100, 0}, []uint64{1, 1}, ""},
		"a row a lower one":               {"AA", []time.Duration{0, 100}, []uint64{2, 1}, "leaf 1 is listed as repeated by leaf 4, but not by leaf 3"},
		"a row a higher one":              {"AA", []time.Duration{0, 100}, []uint64{1, 2}, "leaf 1 is listed as repeated by leaf 3, but not by leaf 4"},
		"a younger row none":              {"AA", []time.Duration{0, 1}, []uint64{none, 1}, "leaf 1 is listed as repeated by leaf 4, but not by leaf 3"},
		"an older row none":               {"AA", []time.Duration{1, 0}, []uint64{none, 1}, "leaf 1 is listed as repeated by leaf 4, but not by leaf 3"},
		"the older one in the pack":       {"aaa", []time.Duration{5, 1, 9}, []uint64{none, none, 2}, "leaf 2 is listed as repeated by leaf 5, but not by leaf 3"},
	} {
		w := newWorld(t)
		first := w.Run(3)
		w.Seal(first)
		var events [][]byte
		earlier := map[string]uint64{}
		for i := range c.keys {
			w.Now = sealertest.Epoch.Add(c.hours[i] * time.Hour)
			key := c.keys[i : i+1]
			if strings.ToUpper(key) == key {
				events = append(events, w.row(i, w.Identity(key, ""), 0))
			} else {
				events = append(events, w.Delivery(i, key))
			}
			e, err := sealer.ParseEvent(events[i])
			require.NoError(t, err)
			if c.firsts[i] != none {
				earlier[e.EventID] = c.firsts[i]
			}
		}
		w.Now = sealertest.Epoch.Add(200 * time.Hour)
		b := w.Builder(events, func(c *pack.Config) { c.Earlier = earlier })
		_, err := b.Seal()
		require.Equal(t, c.want == "", err == nil, "%s: %v", name, err)
		v := w.verdicts(w.signAnyway(events, earlier))
		require.Contains(t, okCodes(v), DuplicatesUnproven, name)
		if c.want == "" {
			require.Empty(t, failures(v), name)
			continue
		}
		require.ErrorContains(t, err, c.want, name)
		require.Equal(t, []sealer.Code{DuplicatesMismatch}, failures(v), name)
		require.Contains(t, message(v, DuplicatesMismatch), c.want, name)
	}
}

// TestDuplicatesAreNamed: the verdict names the first difference between list and entries.
func TestDuplicatesAreNamed(t *testing.T) {
	w := newWorld(t)
	w.Seal(w.Run(3))
	events := [][]byte{w.Delivery(0, "a"), w.Delivery(1, "b"), w.Delivery(2, "a"), w.Delivery(3, "b"), w.Delivery(4, "a")}
	p := w.Seal(events)
	require.Equal(t, []pack.Duplicate{{Leaf: 5, First: 3}, {Leaf: 6, First: 4}, {Leaf: 7, First: 3}}, p.Header.Duplicates)
	for want, list := range map[string][]pack.Duplicate{
		"leaf 6 is listed as repeating leaf 5, it repeats leaf 4": {{Leaf: 5, First: 3}, {Leaf: 6, First: 5}, {Leaf: 7, First: 3}},
		"leaf 5 repeats leaf 3, and is not listed":                {{Leaf: 6, First: 4}, {Leaf: 7, First: 3}},
		"leaf 6 repeats leaf 4, and is not listed":                {{Leaf: 5, First: 3}, {Leaf: 7, First: 3}},
		"leaf 7 repeats leaf 3, and is not listed":                {{Leaf: 5, First: 3}, {Leaf: 6, First: 4}},
		"leaf 4 is listed as repeating leaf 3, and repeats none":  {{Leaf: 4, First: 3}, {Leaf: 5, First: 3}, {Leaf: 6, First: 4}, {Leaf: 7, First: 3}},
		"leaf 7 is listed as repeating leaf 5, it repeats leaf 3": {{Leaf: 5, First: 3}, {Leaf: 6, First: 4}, {Leaf: 7, First: 5}},
	} {
		v := w.verdicts(w.resign(p, events, func(h *pack.Header) { h.Duplicates = list }))
		require.Equal(t, want, message(v, DuplicatesMismatch))
	}
	events = [][]byte{w.Delivery(0, "c"), w.Delivery(1, "")}
	p = w.Seal(events)
	v := w.verdicts(w.resign(p, events, func(h *pack.Header) { h.Duplicates = []pack.Duplicate{{Leaf: 9, First: 0}} }))
	require.Equal(t, "leaf 9 is listed as repeating leaf 0, and repeats none", message(v, DuplicatesMismatch), "for it has no idempotency key")
}

// TestRowsOfMoreDuplicatesThanThereAre: rows may count up to 2^53 each, and more than once.
func TestRowsOfMoreDuplicatesThanThereAre(t *testing.T) {
	w := newWorld(t)
	events := [][]byte{w.Delivery(0, "a"), w.Delivery(1, "a")}
	p := w.Seal(events)
	v := w.verdicts(w.resign(p, events, func(h *pack.Header) {
		h.Metering = slices.Clone(h.Metering)
		for range 2048 { // 2^64 in all
			h.Metering = append(h.Metering, pack.MeterRow{RightID: "rgh_1", Substrate: "dooh", BasisID: "bas_1", MeteringBasis: sealer.BasisNone, Reason: sealer.ReasonDuplicate, Receipts: 1 << 53, QuantityMs: 0, Impressions: 0})
		}
	}))
	require.Equal(t, []sealer.Code{DuplicatesMismatch, MeteringMismatch}, failures(v))
}
