//go:build independent

package independent_test

import (
	"bytes"
	"crypto/ed25519"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/verify"
)

// evidence is a file, and the code of what is wrong with it beside the others.
type evidence struct {
	text []byte
	code sealer.Code
}

// together makes files that are sound or not because of other files.
var together = map[string]func(s *service, l *log) []evidence{
	"a pack is given twice": func(s *service, l *log) []evidence {
		one, two := l.seal(9), l.seal(9)
		return []evidence{{two.file, ""}, {one.file, ""}, {one.file, ""}, {two.file, ""}}
	},
	"two packs behind the same": func(s *service, l *log) []evidence {
		one, fork := l.seal(5), *l
		return []evidence{{l.seal(5).file, verify.ChainFork}, {fork.seal(7).file, verify.ChainFork}, {one.file, ""}}
	},
	"a pack behind another": func(s *service, l *log) []evidence {
		fork := *l
		one, _ := l.seal(5), fork.seal(5)
		return []evidence{{one.file, ""}, {fork.seal(5).file, verify.ConsistencyMismatch}}
	},
	"a pack behind one of the same entries and another header": func(s *service, l *log) []evidence {
		one := l.seal(5)
		l.previous.HeaderHash[0]++
		return []evidence{{one.file, ""}, {l.seal(5).file, verify.ConsistencyMismatch}}
	},
	"a pack behind another that is not given": func(s *service, l *log) []evidence {
		l.seal(5)
		l.previous.HeaderHash[0]++
		return []evidence{{l.seal(5).file, ""}}
	},
	"the key of a pack is revoked": func(s *service, l *log) []evidence {
		one := l.seal(5)
		s.revoke(s.sealing, l.now.Add(time.Hour))
		return []evidence{{one.file, sealer.KeyRevoked}, {s.directory(l.now.Add(2 * time.Hour)), ""}}
	},
	"the key of two packs is revoked": func(s *service, l *log) []evidence {
		one, two := l.seal(5), l.seal(5)
		s.revoke(s.sealing, l.now.Add(time.Hour))
		return []evidence{{one.file, sealer.KeyRevoked}, {two.file, sealer.KeyRevoked}, {s.directory(l.now.Add(2 * time.Hour)), ""}}
	},
	"a pack by the next key vouches for all before": func(s *service, l *log) []evidence {
		one, two := l.seal(5), l.seal(5)
		s.revoke(s.sealing, l.now.Add(time.Second))
		l.sealing, l.now = s.key(keydir.PurposePack), l.now.Add(time.Hour)
		three := l.seal(5)
		return []evidence{{one.file, ""}, {two.file, ""}, {three.file, ""}}
	},
	"no pack vouches for one sealed after the revocation": func(s *service, l *log) []evidence {
		one, at := l.seal(5), l.now
		s.revoke(s.sealing, at)
		l.sealing = s.key(keydir.PurposePack)
		return []evidence{{one.file, sealer.KeyOutsideWindow}, {l.seal(5).file, ""}}
	},
	"a pack that is not sound vouches for none": func(s *service, l *log) []evidence {
		one := l.seal(5)
		s.revoke(s.sealing, l.now.Add(time.Second))
		l.sealing, l.now = s.key(keydir.PurposePack), l.now.Add(time.Hour)
		two := l.seal(5)
		spoilt := bytes.Replace(two.file, []byte("evt_"), []byte("evt-"), 1)
		return []evidence{{one.file, sealer.KeyRevoked}, {spoilt, sealer.EntryAltered}, {s.directory(l.now), ""}}
	},
	"two packs of the same leaves, one of which lists repetitions in disorder": func(s *service, l *log) []evidence {
		l.sealed([][]byte{l.notice(), l.notice()}, nil)
		event, again := l.twice()
		fork := *l
		lied := fork.sealed([][]byte{event, again}, map[string]uint64{eventID(s, event): 0, eventID(s, again): 0})
		header := s.parse(lied.HeaderText)
		slices.Reverse(header.list("duplicates"))
		text := s.canonical(header)
		file := bytes.Join([][]byte{text, event, again, s.canonical(object{"signature": signature(l.sealing, text)}), nil}, []byte("\n"))
		return []evidence{{l.sealed([][]byte{event, again}, nil).file, ""}, {file, verify.FormatInvalid}}
	},
	"a repetition of the pack before is not listed": func(s *service, l *log) []evidence {
		event, again := l.twice()
		one := l.sealed([][]byte{event}, nil)
		return []evidence{{one.file, ""}, {l.sealed([][]byte{again}, nil).file, verify.DuplicatesMismatch}}
	},
	"a repetition is listed that is none": func(s *service, l *log) []evidence {
		one := l.seal(3)
		event, _ := l.twice()
		return []evidence{{one.file, ""}, {l.sealed([][]byte{event}, map[string]uint64{eventID(s, event): 1}).file, verify.DuplicatesMismatch}}
	},
	"a repetition can't be found without the pack before": func(s *service, l *log) []evidence {
		event, again := l.twice()
		l.sealed([][]byte{event}, nil)
		return []evidence{{l.sealed([][]byte{again}, nil).file, ""}}
	},
	"a directory and a newline": func(s *service, l *log) []evidence {
		return []evidence{{append(s.directory(l.now), '\n'), ""}, {l.seal(3).file, ""}}
	},
	"an event of the pack before": func(s *service, l *log) []evidence {
		event := l.notice()
		one := l.sealed([][]byte{event}, nil)
		return []evidence{{l.sealed([][]byte{l.notice(), event}, nil).file, sealer.EntryRepeated}, {one.file, ""}}
	},
	"an event of a pack before one that is given twice": func(s *service, l *log) []evidence {
		event := l.notice()
		one, two := l.sealed([][]byte{event}, nil), l.seal(3)
		three := l.sealed([][]byte{l.notice(), event}, nil)
		return []evidence{
			{two.file, ""}, {one.file, ""}, {pack.AppendObject(nil, two.Pack, two.events), ""}, {two.file, ""}, {three.file, sealer.EntryRepeated},
		}
	},
	"an event of a pack before a gap": func(s *service, l *log) []evidence {
		event := l.notice()
		one, _ := l.sealed([][]byte{event}, nil), l.seal(3)
		return []evidence{{l.sealed([][]byte{l.notice(), event}, nil).file, sealer.EntryRepeated}, {one.file, ""}}
	},
	"an event of a pack that is not sound": func(s *service, l *log) []evidence {
		event := l.notice()
		one := l.sealed([][]byte{event}, nil)
		two := l.sealed([][]byte{l.notice(), event, l.notice()}, nil)
		return []evidence{{one.file, ""}, {two.file, sealer.EntryRepeated}, {l.sealed([][]byte{two.events[0]}, nil).file, ""}}
	},
	"a repetition over a gap is not listed": func(s *service, l *log) []evidence {
		event, again := l.twice()
		one, _ := l.sealed([][]byte{event}, nil), l.sealed([][]byte{l.notice()}, nil)
		return []evidence{{one.file, ""}, {l.sealed([][]byte{again}, nil).file, verify.DuplicatesMismatch}}
	},
	"a repetition over a gap is listed that is none": func(s *service, l *log) []evidence {
		event, _ := l.twice()
		_, other := l.twice()
		one, _ := l.sealed([][]byte{event}, nil), l.sealed([][]byte{l.notice()}, nil)
		return []evidence{{one.file, ""}, {l.sealed([][]byte{other}, map[string]uint64{eventID(s, other): 0}).file, verify.DuplicatesMismatch}}
	},
	"a repetition of a leaf in a gap can't be found": func(s *service, l *log) []evidence {
		event, again := l.twice()
		one, _ := l.sealed([][]byte{l.notice()}, nil), l.sealed([][]byte{event}, nil)
		return []evidence{{one.file, ""}, {l.sealed([][]byte{again}, map[string]uint64{eventID(s, again): 1}).file, ""}}
	},
	"the event of a rule is in a gap": func(s *service, l *log) []evidence {
		one, _ := l.sealed([][]byte{l.rule()}, nil), l.sealed([][]byte{l.rule(), l.rule()}, nil)
		return []evidence{{one.file, ""}, {l.seal(9).file, ""}}
	},
	"a rule is another behind a gap": func(s *service, l *log) []evidence {
		one, _ := l.sealed([][]byte{l.rule()}, nil), l.sealed([][]byte{l.notice()}, nil)
		said := l.parse(l.rules[0].Record)
		said["price"] = "77"
		l.rules[0].Record = l.canonical(said)
		return []evidence{{one.file, ""}, {l.seal(9).file, verify.SettlementMismatch}}
	},
	"a rule is missing behind a gap": func(s *service, l *log) []evidence {
		one, _ := l.sealed([][]byte{l.rule()}, nil), l.sealed([][]byte{l.notice()}, nil)
		l.rules = nil
		return []evidence{{one.file, ""}, {l.sealed([][]byte{l.notice()}, nil).file, verify.SettlementMismatch}}
	},
	"a receipt and its pack": func(s *service, l *log) []evidence {
		event, _, _ := l.delivery(0)
		return []evidence{{s.answer(event), ""}, {l.sealed([][]byte{event}, nil).file, ""}}
	},
	"a node signed two receipts of one id": func(s *service, l *log) []evidence {
		d, r := l.draft()
		event := l.sign(d, r)
		r.SpatialAnchorID = "elsewhere"
		return []evidence{{s.answer(l.sign(d, r)), sealer.EntryAltered}, {l.sealed([][]byte{event}, nil).file, ""}}
	},
	"a receipt in a pack that is not sound": func(s *service, l *log) []evidence {
		event, _, _ := l.delivery(0)
		p := l.sealed([][]byte{event, l.notice()}, nil)
		spoilt := bytes.Replace(p.file, []byte("right.revised"), []byte("right.deleted"), 1)
		return []evidence{{s.answer(event), verify.InclusionMismatch}, {spoilt, verify.RootMismatch}}
	},
	"the key of a receipt is revoked": func(s *service, l *log) []evidence {
		l.signers = l.signers[:1]
		event, _, _ := l.delivery(0)
		s.revoke(s.nodes[0].Key.(ed25519.PrivateKey), l.now.Add(time.Hour))
		return []evidence{{s.answer(event), sealer.KeyRevoked}, {s.directory(l.now.Add(2 * time.Hour)), ""}}
	},
	"a pack proves that the receipt is older": func(s *service, l *log) []evidence {
		l.signers = l.signers[:1]
		event, _, _ := l.delivery(0)
		p := l.sealed([][]byte{event}, nil)
		s.revoke(s.nodes[0].Key.(ed25519.PrivateKey), l.now.Add(time.Millisecond))
		return []evidence{{s.answer(event), ""}, {p.file, ""}, {s.directory(l.now.Add(time.Hour)), ""}}
	},
	"a pack proves nothing about what was revoked before": func(s *service, l *log) []evidence {
		l.signers = l.signers[:1]
		event, _, _ := l.delivery(0)
		p := l.sealed([][]byte{event}, nil)
		s.revoke(s.nodes[0].Key.(ed25519.PrivateKey), l.now)
		return []evidence{{p.file, verify.EntryAfterRevocation}, {s.directory(l.now.Add(time.Hour)), ""}}
	},
	"the newest directory decides": func(s *service, l *log) []evidence {
		p, older := l.seal(3), s.directory(l.now)
		s.entry(s.sealing).NotAfter = &p.Header.SealedAt
		return []evidence{{p.file, sealer.KeyOutsideWindow}, {s.directory(l.now.Add(time.Second)), ""}, {older, ""}}
	},
	"a directory of another root decides nothing": func(s *service, l *log) []evidence {
		p := l.seal(3)
		s.revoke(s.sealing, epoch)
		s.root, _ = s.rootKey("root.independent")
		return []evidence{{s.directory(l.now.Add(time.Hour)), verify.DirectoryForeign}, {p.file, ""}}
	},
	"a directory of a later delegation decides, though it is older": func(s *service, l *log) []evidence {
		one := l.seal(3)
		thief := s.succeed(l.now)
		thief.revoke(s.sealing, l.now)
		return []evidence{{one.file, ""}, {thief.directory(l.now.Add(time.Hour)), ""}, {s.directory(l.now), ""}}
	},
	"a stolen directory key is revoked": func(s *service, l *log) []evidence {
		one := l.seal(3)
		thief := s.succeed(l.now.Add(time.Second))
		s.revoke(thief.officer, l.now.Add(time.Minute))
		l.now = l.now.Add(time.Hour)
		return []evidence{
			{one.file, ""}, {thief.directory(l.now.Add(time.Hour)), verify.DirectoryRevoked}, {thief.directory(epoch), verify.DirectoryRevoked},
			{s.directory(l.now), ""}, {l.seal(3).file, ""},
		}
	},
	"a thief lists a pack key of his own": func(s *service, l *log) []evidence {
		thief := s.succeed(l.now)
		s.revoke(thief.officer, l.now.Add(time.Minute))
		forged := thief.newLog()
		forged.signers, forged.sealing = thief.nodes, thief.key(keydir.PurposePack)
		return []evidence{{forged.seal(3).file, verify.KeyMismatch}, {s.directory(l.now.Add(time.Hour)), ""}}
	},
	"a thief revokes his successor": func(s *service, l *log) []evidence {
		l.now = l.now.Add(time.Minute)
		thief := s.succeed(l.now)
		return []evidence{{thief.directory(thief.until.Add(-1)), ""}, {s.directory(l.now), ""}, {l.seal(3).file, ""}}
	},
	"a directory says nothing of after its delegation": func(s *service, l *log) []evidence {
		older := s.directory(l.now)
		l.now = s.until.Add(-time.Hour)
		s.succeed(l.now)
		l.now = l.now.Add(2 * time.Hour)
		return []evidence{{[]byte(l.seal(3).Header.Checkpoint), verify.DirectoryExpired}, {older, ""}}
	},
	"the next one does, and of before": func(s *service, l *log) []evidence {
		one, older := l.seal(3), s.directory(l.now)
		l.now = s.until.Add(-time.Hour)
		s.succeed(l.now)
		l.now = l.now.Add(2 * time.Hour)
		two := l.seal(3)
		return []evidence{{one.file, ""}, {[]byte(two.Header.Checkpoint), ""}, {older, ""}, {s.directory(l.now), ""}}
	},
	"packs of two tenants": func(s *service, l *log) []evidence {
		m := s.newLog()
		return []evidence{{l.seal(3).file, ""}, {m.seal(4).file, ""}, {l.seal(5).file, ""}, {m.seal(6).file, ""}}
	},
}

// TestTogether runs both verifiers on files that are sound or not because of other files.
func TestTogether(t *testing.T) {
	for name, files := range together {
		t.Run(name, func(t *testing.T) {
			s := newService(t, name)
			f := newFolder(t, s)
			var l *log
			for l == nil || !l.sealing.Equal(s.sealing) { // a sandbox is a matter of its own
				l = s.newLog()
			}
			said := files(s, l)
			var set []string
			for _, e := range said {
				set = append(set, f.put(e.text))
			}
			theirs, us := stranger(t, f.root, [][]string{set})[0], ours(t, f.root, set)
			for i, e := range said {
				require.Equal(t, e.code == "", us[i].OK, "sealer about file %d: %v", i, us[i].Codes)
				require.Equal(t, e.code == "", theirs[i].OK, "verify.py about file %d: %v", i, theirs[i].Codes)
				require.Equal(t, us[i].Verdict, theirs[i].Verdict, "file %d", i)
				require.Equal(t, us[i].Unproven, theirs[i].Unproven, "file %d", i)
				if e.code != "" {
					require.Contains(t, us[i].Codes, e.code, "sealer about file %d", i)
					require.Equal(t, e.code, theirs[i].Codes[0], "verify.py about file %d", i)
				}
			}
		})
	}
}

// TestSubsets gives any of the packs of a log, some of them twice and some spoilt, where the
// service has lied in one now and then: about what stands in another. There are forks, keys
// that were revoked, and headers of a stranger. Both verifiers say the same of each.
func TestSubsets(t *testing.T) {
	s := newService(t, "subsets")
	f := newFolder(t, s)
	var sets [][]string
	for len(sets) < size(2000) {
		l := s.newLog()
		l.priced, l.sealing = true, s.sealing
		l.signers = s.nodes
		if s.IntN(3) == 0 {
			l.sealing = s.key(keydir.PurposePack)
		}
		stolen := l.sealing
		var packs []*sealedPack
		for range 3 + s.IntN(4) {
			if s.IntN(12) == 0 {
				fork := *l
				packs = append(packs, fork.seal(1+s.IntN(12)), fork.seal(1+s.IntN(12)))
			}
			events, earlier := l.entries(1 + s.IntN(12))
			if s.IntN(3) == 0 {
				l.contradict(&events, earlier)
			}
			packs = append(packs, l.sealed(events, earlier))
		}
		if !stolen.Equal(s.sealing) {
			s.revoke(stolen, l.now.Add(time.Millisecond))
			l.now, l.sealing = l.now.Add(time.Second), s.sealing
			packs = append(packs, l.seal(3))
		}
		for range 5 {
			var set []string
			for _, p := range packs {
				for n := []int{0, 1, 1, 1, 2}[s.IntN(5)]; n > 0; n-- {
					file := [][]byte{p.file, pack.AppendObject(nil, p.Pack, p.events)}[s.IntN(2)]
					switch s.IntN(24) {
					case 0: // another header, which is not signed
						file = bytes.Replace(file, []byte(`"packId":"ppk_0`), []byte(`"packId":"ppk_1`), 1)
					case 1:
						file = bytes.Replace(file, []byte("evt_"), []byte("evt-"), 1)
					}
					set = append(set, f.put(file))
				}
			}
			s.Shuffle(len(set), func(i, j int) { set[i], set[j] = set[j], set[i] })
			if len(set) > 0 {
				sets = append(sets, set)
			}
		}
	}
	said := map[sealer.Code]int{}
	for i, theirs := range stranger(t, f.root, sets) {
		for n, v := range ours(t, f.root, sets[i]) {
			require.Equal(t, v.Verdict, theirs[n].Verdict, "file %d of %v: sealer %v, verify.py %v", n, sets[i], v.Codes, theirs[n].Codes)
			require.Equal(t, v.Unproven, theirs[n].Unproven, "file %d of %v", n, sets[i])
			said[theirs[n].Codes[0]]++
		}
	}
	for _, code := range []sealer.Code{"", sealer.EntryRepeated, verify.DuplicatesMismatch, verify.SettlementMismatch, verify.ChainFork, sealer.KeyRevoked, sealer.SignatureInvalid} {
		require.Positive(t, said[code], code)
	}
	t.Logf("%d sets: %v", len(sets), said)
}

// contradict has the next pack contradict those before it, if there is anything to
// contradict: by an event that stands there, a repetition that does not, or does, or a rule.
func (l *log) contradict(events *[][]byte, earlier map[string]uint64) {
	switch n := len(l.rules); l.IntN(6) {
	case 0:
		if len(l.events) > 0 {
			*events = append(*events, l.events[l.IntN(len(l.events))])
		}
	case 1:
		for id := range earlier {
			delete(earlier, id)
		}
	case 2:
		if len(l.events) > 0 {
			event, _ := l.twice()
			*events = append(*events, event)
			earlier[eventID(l.service, event)] = uint64(l.IntN(len(l.events)))
		}
	case 3:
		if n > 0 {
			l.rules = slices.Delete(slices.Clone(l.rules), n-1, n)
		}
	case 4:
		if n > 0 {
			l.rules = slices.Clone(l.rules)
			r := &l.rules[l.IntN(n)]
			said := l.parse(r.Record)
			said["price"] = "77"
			r.Record = l.canonical(said)
		}
	case 5:
		if n > 0 {
			l.rules = slices.Clone(l.rules)
			if r := &l.rules[n-1]; r.Leaf+1 < uint64(len(l.events)) {
				r.Leaf++
			}
		}
	}
}

func eventID(s *service, event []byte) string {
	e, err := sealer.ParseEvent(event)
	require.NoError(s, err)
	return e.EventID
}

// twice is a delivery and its repetition.
func (l *log) twice() (event, again []byte) {
	d, r := l.draft()
	_, q := l.draft()
	q.DwellMs = r.DwellMs
	k := l.key()
	d.Idempotency, d.Identity = k.idempotency, k.row
	return l.sign(d, r), l.sign(d, q)
}
