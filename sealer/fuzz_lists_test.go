package sealer

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzReadKeys: of a list of keys that is accepted nothing is free but spacing, order and
// escapes.
func FuzzReadKeys(f *testing.F) {
	w := newWorld(f)
	at := epoch.Add(time.Hour)
	two := NewKey(pub(testKey("two")), PurposeSandbox, epoch)
	two.NotAfter, two.RevokedAt = &at, &at
	good := keysAnswer(NewKey(pub(testKey("one")), PurposeSandbox, epoch), two)
	f.Add([]byte(good))
	f.Add([]byte(good[strings.Index(good, `{"keys"`):strings.LastIndex(good, ",")]))
	directory := string(w.directory())
	f.Add([]byte(directory))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := readKeys(text)
		if err != nil {
			return
		}
		if d.delegated != nil {
			require.Equal(t, directory, strings.TrimSuffix(string(text), "\n"))
			return
		}
		list := appendQuotedTime([]byte(`{"issuedAt":`), d.IssuedAt)
		list = append(list, `,"keys":[`...)
		for i := range d.Keys {
			list = d.Keys[i].append(appendComma(list, i))
		}
		list = append(appendString(append(list, `],"snapshotId":`...), d.SnapshotID), '}')
		said, err := Canonical(text)
		require.NoError(t, err)
		if bytes.HasPrefix(said, []byte(`{"contractVersion":`)) {
			list = append(append([]byte(`{"contractVersion":"ws30.v1","data":`), list...), `,"ok":true}`...)
		}
		require.Equal(t, string(list), string(said))
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
		l := &ledger{first: first, history: newHistory(nil)}
		type delivery struct {
			RecordedDelivery
			at    time.Time
			first uint64
		}
		var all []delivery
		for leaf := uint64(first); len(said) >= 3 && leaf < 40; leaf, said = leaf+1, said[3:] {
			d := delivery{at: epoch.Add(time.Duration(said[1]%60) * time.Hour), first: uint64(said[2]) % (leaf + 1)}
			d.Event.At = d.at
			if hash := (Hash{said[0] % 3}).String(); said[0]%6 < 3 {
				d.Idempotency = hash
			} else {
				d.Identity.Hash = hash
			}
			s, _ := l.history.sighting(leaf, &d.RecordedDelivery)
			l.history.sight(s)
			if d.first >= first { // what is in the pack is no matter of this
				d.first = leaf
			} else {
				l.duplicates = append(l.duplicates, Duplicate{Leaf: leaf, First: d.first})
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
		require.Equal(t, possible, l.contradiction() == "", "%+v: %s", all, l.contradiction())
	})
}
