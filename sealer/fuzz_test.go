package sealer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer/canonical"
	"muniment.example/sealer/merkle"
)

// FuzzParsePrivate: what is accepted is written the same again.
func FuzzParsePrivate(f *testing.F) {
	f.Add(AppendPrivate(nil, &Private{AttentionMs: -1}))
	f.Add(AppendPrivate(nil, &Private{AttentionMs: 3, DataSubjects: About("sub", "s2"), Notes: []Note{{Name: "b", Text: `"c"`}, {Name: "d", Hash: Commit([16]byte{}, nil)}, {Name: "e", Text: `{"f":"}"}`}}, RequestHash: "x", Telemetry: []byte(`{"a":[1,{}]}`)}))
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, err := ParsePrivate(text); err == nil {
			require.Equal(t, string(text), string(AppendPrivate(nil, &p)))
		}
	})
}

// FuzzParseRecord: what is accepted is written the same again.
func FuzzParseRecord(f *testing.F) {
	f.Add(AppendRecord(nil, &Record{TenantID: "tnt_1", EventID: "evt_1", Node: "nod_1", Epoch: 300, Seq: 1 << 40, Event: []byte("{}"), Private: []byte("x")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRecord(b)
		if err != nil {
			require.ErrorIs(t, err, ErrRecord)
			return
		}
		require.Equal(t, b, AppendRecord(nil, &r))
		_, _, _ = CheckRecord(&r)
	})
}

// FuzzOpenCheckpoint: only the note that was signed opens.
func FuzzOpenCheckpoint(f *testing.F) {
	key := testKey("pack")
	c := Checkpoint{oneLog, 7, merkle.LeafHash(nil), epoch}
	good, err := SignCheckpoint(c, key)
	require.NoError(f, err)
	f.Add(good)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := OpenCheckpoint(text, c.Origin, pub(key))
		if err == nil {
			require.Equal(t, c, got, "nothing else was ever signed")
		}
	})
}

// FuzzCanonical: the result is a fixed point, and strict readers accept it.
func FuzzCanonical(f *testing.F) {
	f.Add([]byte(`{"b":[1e2,-0,"\u00e9"],"a":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		once, err := canonical.JSON(text)
		if err != nil {
			return
		}
		twice, err := canonical.JSON(once)
		require.NoError(t, err)
		require.Equal(t, string(once), string(twice))
		require.True(t, canonical.IsJSON(once))
	})
}

// FuzzContradiction: a list of duplicates contradicts itself exactly if the leaves that are
// not at hand can't be so, tried one by one.
func FuzzContradiction(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 1, 1, 1, 2, 0})
	f.Add([]byte{0, 5, 1, 0, 5, 0, 0, 9, 2})
	f.Add([]byte{3, 0, 1, 4, 50, 1, 3, 59, 1})
	f.Fuzz(func(t *testing.T, said []byte) {
		const first = 3
		l := &Ledger{first: first, history: newHistory(nil)}
		type delivery struct {
			RecordedDelivery
			at    time.Time
			first uint64
		}
		var all []delivery
		for leaf := uint64(first); len(said) >= 3 && leaf < 40; leaf, said = leaf+1, said[3:] {
			d := delivery{at: epoch.Add(time.Duration(said[1]%60) * time.Hour), first: uint64(said[2]) % (leaf + 1)}
			d.Event.At = d.at
			if hash := (merkle.Hash{said[0] % 3}).String(); said[0]%6 < 3 {
				d.Idempotency = hash
			} else {
				d.Identity.Hash = hash
			}
			s, _ := l.history.occurrence(leaf, &d.RecordedDelivery)
			l.history.add(s)
			if d.first >= first { // what is in the pack is no matter of this
				d.first = leaf
			} else {
				l.Duplicates = append(l.Duplicates, Duplicate{Leaf: leaf, First: d.first})
			}
			all = append(all, d)
		}
		possible := true
		for leaf := range uint64(first) {
			var held *delivery // that leaf holds the key of, as old as can be
			for i := range all {
				if d := &all[i]; d.first == leaf && (held == nil || d.at.After(held.at)) {
					held = d
				}
			}
			for _, d := range all {
				if held == nil {
					continue
				}
				same := d.Idempotency == held.Idempotency && d.Identity == held.Identity
				repeats := same && (d.Idempotency == "" || d.at.Sub(held.at.Add(-DuplicateWindow)) <= DuplicateWindow)
				possible = possible && !(repeats && d.first > leaf) && !(d.first == leaf && !same)
			}
		}
		require.Equal(t, possible, l.Contradiction() == "", "%+v: %s", all, l.Contradiction())
	})
}
