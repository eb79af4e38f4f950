//go:build independent

package independent_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/verify"
)

// keyed is a delivery of a moment under a key.
func (l *log) keyed(k key, at time.Time) []byte {
	d, r := l.draft()
	d.Idempotency, d.Identity = k.idempotency, k.row
	r.ReceiptID, r.IssuedAt, r.RenderedAt = l.id("rcp_", at), at, at
	return l.sign(d, r)
}

// possible says whether the earlier leaves that a pack's list names can be as it says, by
// trying for each what follows from it for every delivery.
func (p *sealedPack) possible(keys []key, at []time.Time) bool {
	first := map[int]uint64{}
	for _, d := range p.Header.Duplicates {
		first[int(d.Leaf-p.Header.FirstIndex)] = d.First
	}
	for i, f := range first {
		if f >= p.Header.FirstIndex {
			continue
		}
		for j := range keys {
			g, repeats := first[j]
			if keys[i] != keys[j] && repeats && g == f {
				return false
			}
			// f is as old as it can be for i. Is it so old that j needs not repeat it?
			if old := at[i].Add(-sealer.DuplicateWindow); keys[j].repeats(keys[i], at[j].Sub(old)) && (!repeats || g > f) {
				return false
			}
		}
	}
	return true
}

// TestRepetitions makes packs whose lists say anything of leaves before: those that are not
// at hand as well. What contradicts itself is refused by both verifiers, and what is sound
// is remarked to be the header's word where it is that.
func TestRepetitions(t *testing.T) {
	s := newService(t, "repetitions")
	f := newFolder(t, s)
	var sets [][]string
	var possible []bool // of each third set, the pack alone
	for len(sets) < 3*size(2000) {
		l := s.newLog()
		l.sealing, l.signers, l.priced = s.sealing, s.nodes, s.IntN(2) == 0
		base := l.now
		keys := []key{l.key(), l.key(), l.key()}[:1+s.IntN(3)]
		moment := func() time.Time { return base.Add(time.Duration(s.IntN(8)) * 12 * time.Hour) }
		l.now = base.AddDate(0, 0, 5)
		var before []*sealedPack
		for range 2 {
			var events [][]byte
			for range 1 + s.IntN(3) {
				events = append(events, l.keyed(keys[s.IntN(len(keys))], moment()))
			}
			before = append(before, l.sealed(events, nil))
		}
		var events [][]byte
		var of []key
		var at []time.Time
		earlier := map[string]uint64{}
		for range 1 + s.IntN(5) {
			of, at = append(of, keys[s.IntN(len(keys))]), append(at, moment())
			events = append(events, l.keyed(of[len(of)-1], at[len(at)-1]))
			if s.IntN(2) == 0 {
				earlier[eventID(s, events[len(events)-1])] = uint64(s.IntN(int(l.tree.Size())))
			}
		}
		p := l.sealed(events, earlier)
		file := f.put(p.file)
		possible = append(possible, p.possible(of, at))
		require.Equal(t, !possible[len(possible)-1], p.refused, "what every verifier refuses is not signed")
		sets = append(sets, []string{file}, []string{f.put(before[0].file), file}, []string{file, f.put(before[1].file)})
	}
	said := map[bool]int{}
	for i, theirs := range stranger(t, f.root, sets) {
		us := ours(t, f.root, sets[i])
		for n, v := range us {
			require.Equal(t, v.Verdict, theirs[n].Verdict, "%v: sealer %v, verify.py %v", sets[i], v.Codes, theirs[n].Codes)
			if v.OK {
				require.Equal(t, v.Unproven, theirs[n].Unproven, "%v", sets[i])
			} else {
				require.Equal(t, []sealer.Code{verify.DuplicatesMismatch}, theirs[n].Codes)
				require.Contains(t, v.Codes, verify.DuplicatesMismatch)
			}
		}
		if i%3 == 0 {
			require.Equal(t, possible[i/3], us[0].OK, "%v: %v", sets[i], us[0].Codes)
			require.True(t, !us[0].OK || slices.Contains(us[0].Unproven, verify.DuplicatesUnproven), sets[i])
			said[us[0].OK]++
		}
	}
	require.Positive(t, said[true])
	require.Positive(t, said[false])
	t.Logf("%d sets: of packs alone %d can be, %d contradict themselves", len(sets), said[true], said[false])
}

// TestUnlisted: without a leaf both verifiers remark that a list may lack a repetition of it; with the
// leaf they refuse such a list.
func TestUnlisted(t *testing.T) {
	s := newService(t, "unlisted")
	f := newFolder(t, s)
	l := s.newLog()
	l.sealing, l.signers = s.sealing, s.nodes
	event, again := l.twice()
	one := f.put(l.sealed([][]byte{event}, nil).file)
	two := f.put(l.sealed([][]byte{again}, nil).file)
	three := f.put(l.sealed([][]byte{l.notice()}, nil).file)
	word := []sealer.Code{verify.DuplicatesUnproven, verify.SettlementUnproven}
	sets := [][]string{{two}, {one, two}, {one}, {three}, {two, three}}
	for i, theirs := range stranger(t, f.root, sets) {
		us := ours(t, f.root, sets[i])
		for n, want := range [][]verdict{
			{{OK: true, Unproven: word}},
			{{OK: true}, {Codes: []sealer.Code{verify.DuplicatesMismatch}}},
			{{OK: true}},
			{{OK: true, Unproven: word[1:]}},
			{{OK: true, Unproven: word}, {OK: true, Unproven: word[1:]}},
		}[i] {
			for _, v := range []verdict{us[n], theirs[n]} {
				require.Equal(t, want.OK, v.OK, "%d: %v", i, v.Codes)
				require.Equal(t, want.Unproven, v.Unproven, i)
				require.True(t, want.OK || v.Codes[0] == want.Codes[0], v.Codes)
			}
		}
	}
}

// repetitions are lies about the list of duplicates that a pack alone shows.
var repetitions = []func(f *forgery, list []any) bool{
	func(f *forgery, list []any) bool { // in another order
		now := slices.Clone(list)
		slices.Reverse(now)
		f.header["duplicates"] = now
		return len(list) > 1
	},
	func(f *forgery, list []any) bool { // twice the same
		i := f.IntN(len(list))
		f.header["duplicates"] = slices.Insert(slices.Clone(list), i, list[i])
		return true
	},
	func(f *forgery, list []any) bool { // of a leaf that is not in the pack
		d := f.some(list)
		d["leaf"] = []uint64{f.before.Size() + uint64(len(f.events)), f.before.Size() - 1, 1 << 53}[f.next("leaf", 3)]
		return f.before.Size() > 0
	},
	func(f *forgery, list []any) bool { // of itself, or of a later one
		d := f.some(list)
		leaf, err := d["leaf"].(json.Number).Int64()
		d["first"] = leaf + int64(f.IntN(2))
		return err == nil
	},
	func(f *forgery, list []any) bool { // of another one in the pack
		d := f.some(list)
		was, _ := d["first"].(json.Number).Int64()
		leaf, _ := d["leaf"].(json.Number).Int64()
		own := int64(f.before.Size())
		d["first"] = own + f.Int64N(max(1, leaf-own))
		return d["first"] != was && leaf > own
	},
	func(f *forgery, list []any) bool { // one too few: the rows count it
		i := f.IntN(len(list))
		f.header["duplicates"] = slices.Delete(slices.Clone(list), i, i+1)
		return true
	},
	func(f *forgery, _ []any) bool { // the rows count one more, or one less
		for _, r := range f.header.list("metering") {
			if row := object(r.(map[string]any)); row["reason"] == "DUPLICATE" {
				row.add("receipts", int64(2*f.IntN(2)-1))
				return true
			}
		}
		return false
	},
	func(f *forgery, list []any) bool { // one too many: of an earlier leaf
		listed := map[string]bool{}
		for _, d := range list {
			listed[string(d.(map[string]any)["leaf"].(json.Number))] = true
		}
		for i := range f.events {
			leaf := json.Number(string(f.canonical(f.before.Size() + uint64(i))))
			if !listed[string(leaf)] && f.before.Size() > 0 {
				more := append(slices.Clone(list), any(map[string]any{"leaf": leaf, "first": json.Number("0")}))
				slices.SortFunc(more, func(a, b any) int {
					x, _ := a.(map[string]any)["leaf"].(json.Number).Int64()
					y, _ := b.(map[string]any)["leaf"].(json.Number).Int64()
					return int(x - y)
				})
				f.header["duplicates"] = more
				return true
			}
		}
		return false
	},
}
