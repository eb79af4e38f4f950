//go:build independent

package independent_test

import (
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/verify"
)

// visitors are logs of the sandbox: packs by its key, receipts by that key and another.
func visitors(s *service, n int) (packs []*sealedPack) {
	node := s.key(keydir.PurposeSandbox)
	for range n {
		l := s.newLog()
		l.sealing = s.sandbox
		l.signers = nil
		for i, key := range []ed25519.PrivateKey{s.sandbox, node} {
			l.signers = append(l.signers, &sealer.Signer{KeyID: keyID(key), Node: fmt.Sprint("sandbox:", i), Key: key})
		}
		for range 1 + s.IntN(3) {
			p := l.seal(1 + s.IntN(15))
			p.file = pack.AppendObject(nil, p.Pack, p.events)
			packs = append(packs, p)
		}
	}
	return packs
}

// keyJSON is a key as the sandbox answers with it.
func keyJSON(k *keydir.Key) string {
	at := func(t *time.Time) string {
		if t == nil {
			return "null"
		}
		return `"` + canonical.FormatTime(*t) + `"`
	}
	return fmt.Sprintf(`{"keyId":%q,"algorithm":%q,"publicKey":%q,"notBefore":%s,"notAfter":%s,"revokedAt":%s,"purpose":%q}`,
		k.KeyID, k.Algorithm, k.PublicKey, at(&k.NotBefore), at(k.NotAfter), at(k.RevokedAt), k.Purpose)
}

func packAnswer(pack []byte, beside string) string {
	return `{"ok":true,"data":{"pack":` + string(pack) + `,"verificationKey":` + beside + `}}`
}

// runtimeKeys are what the sandbox answers about its keys.
func (s *service) runtimeKeys() string {
	var list []string
	for _, k := range slices.Backward(s.keys) {
		if k.Purpose == keydir.PurposeSandbox {
			list = append(list, keyJSON(&k))
		}
	}
	return fmt.Sprintf(`{"ok":true,"data":{"keys":[%s],"issuedAt":%q,"snapshotId":%q},"contractVersion":"ws30.v1"}`+"\n",
		strings.Join(list, ","), canonical.FormatTime(epoch), keyID(s.sandbox))
}

// asObject is the one object of a bundle.
func (s *service) asObject(bundle []byte) []byte {
	lines := strings.Split(strings.TrimSuffix(string(bundle), "\n"), "\n")
	last := len(lines) - 1
	entries := s.canonical(append([]string{}, lines[1:last]...))
	return fmt.Appendf(nil, `{"entries":%s,"header":%s,%s`, entries, lines[0], strings.TrimPrefix(lines[last], "{"))
}

// ofTheRoot are lies that are found only with the root key.
var ofTheRoot = []string{"lie: a directory under another root", "lie: sealed when the delegation of its directory had ended"}

// badAnswers are lies around a pack, where nothing is signed.
var badAnswers = []struct {
	name  string
	write func(s *service, pack, key string) string
}{
	{"it is no success", func(_ *service, pack, key string) string {
		return strings.Replace(packAnswer([]byte(pack), key), "true", "false", 1)
	}},
	{"ok is no truth", func(s *service, pack, key string) string {
		return strings.Replace(packAnswer([]byte(pack), key), "true", []string{"1", `"true"`, "null", "True"}[s.next("ok", 4)], 1)
	}},
	{"ok is missing, or twice there", func(s *service, pack, key string) string {
		return strings.Replace(packAnswer([]byte(pack), key), `"ok":true,`, []string{"", `"ok":true,"ok":true,`}[s.next("ok twice", 2)], 1)
	}},
	{"more data", func(s *service, pack, key string) string {
		more := `"data":` + []string{"null", "{}", `{"pack":` + pack + `,"verificationKey":` + key + "}"}[s.next("data", 3)]
		if s.IntN(2) == 0 {
			return strings.Replace(packAnswer([]byte(pack), key), `"data"`, more+`,"data"`, 1)
		}
		return strings.TrimSuffix(packAnswer([]byte(pack), key), "}") + "," + more + "}"
	}},
	{"another member", func(s *service, pack, key string) string {
		return strings.TrimSuffix(packAnswer([]byte(pack), key), "}") + []string{`,"contractVersion":"v1.0"}`, `,"message":""}`, `,"":0}`}[s.next("member", 3)]
	}},
	{"two packs, or two keys", func(s *service, pack, key string) string {
		again := []string{`"pack":` + pack, `"verificationKey":` + key}[s.next("two", 2)]
		return strings.TrimSuffix(packAnswer([]byte(pack), key), "}}") + "," + again + "}}"
	}},
	{"another order", func(_ *service, pack, key string) string {
		return `{"ok":true,"data":{"verificationKey":` + key + `,"pack":` + pack + `}}`
	}},
	{"data before ok", func(_ *service, pack, key string) string {
		return `{"data":{"pack":` + pack + `,"verificationKey":` + key + `},"ok":true}`
	}},
	{"no key", func(s *service, pack, key string) string {
		if s.IntN(2) == 0 {
			return `{"ok":true,"data":{"pack":` + pack + `}}`
		}
		return packAnswer([]byte(pack), []string{"null", "{}", "[]", `""`, "[" + key + "]"}[s.next("no key", 5)])
	}},
	{"the answer in an answer", func(_ *service, pack, key string) string {
		return `{"ok":true,"data":` + packAnswer([]byte(pack), key) + "}"
	}},
	{"white space", func(s *service, pack, key string) string {
		text, space := packAnswer([]byte(pack), key), []string{" ", "\n", "\t", "\r\n", "\ufeff"}[s.next("space", 5)]
		switch s.next("place", 4) {
		case 0:
			return space + text
		case 1:
			return strings.Replace(text, `"data":`, `"data":`+space, 1)
		case 2:
			return strings.Replace(text, `,"verificationKey"`, space+`,"verificationKey"`, 1)
		}
		return text + "\n" + space
	}},
	{"a key that is not listed", func(s *service, pack, _ string) string {
		k := keydir.NewKey(s.newKey().Public().(ed25519.PublicKey), keydir.PurposeSandbox, epoch)
		return packAnswer([]byte(pack), keyJSON(&k))
	}},
	{"a key that did not sign it", func(s *service, pack, key string) string {
		for _, k := range slices.Backward(s.keys) {
			if other := keyJSON(&k); k.Purpose == keydir.PurposeSandbox && other != key {
				return packAnswer([]byte(pack), other)
			}
		}
		return ""
	}},
	{"the key is not as it is listed", func(s *service, pack, _ string) string {
		k, other := *s.entry(s.sandbox), s.newKey().Public().(ed25519.PublicKey)
		switch s.next("key", 8) {
		case 0:
			k.KeyID = keydir.KeyID(other)
		case 1:
			k.PublicKey = keydir.NewKey(other, "", epoch).PublicKey
		case 2:
			k = keydir.NewKey(other, k.Purpose, epoch)
			k.KeyID = keyID(s.sandbox)
		case 3:
			k.Algorithm = []string{"Ed25519", "none", ""}[s.next("algorithm", 3)]
		case 4:
			k.Purpose = []string{keydir.PurposePack, keydir.PurposeReceipt, ""}[s.next("purpose", 3)]
		case 5:
			k.NotBefore = k.NotBefore.Add(time.Duration(1-2*s.IntN(2)) * time.Millisecond)
		case 6: // the seal is of the same second
			at := epoch
			k.NotAfter = &at
		case 7:
			at := epoch.Add(time.Duration(s.IntN(100)) * time.Hour)
			k.RevokedAt = &at
		}
		return packAnswer([]byte(pack), keyJSON(&k))
	}},
	{"a member of the key is respelt", func(s *service, pack, key string) string {
		switch s.next("respelt", 5) {
		case 0:
			key = strings.Replace(key, `.000Z"`, `Z"`, 1)
		case 1:
			key = strings.Replace(key, `"notAfter":null,`, "", 1)
		case 2:
			key = strings.Replace(key, `"revokedAt":null`, `"revokedAt":null,"revokedAt":null`, 1)
		case 3:
			key = strings.Replace(key, `"algorithm"`, `"\u0061lgorithm"`, 1)
		case 4:
			key = strings.TrimSuffix(key, "}") + `,"use":"sig"}`
		}
		return packAnswer([]byte(pack), key)
	}},
}

// TestAnswersOfTheSandbox: what a visitor saves of packs passes with the keys that he
// saved, and nothing else of it does: neither with spoilt bytes, nor with a lie around
// the pack, which anyone can change, nor with one in it, which only the sandbox can sign.
func TestAnswersOfTheSandbox(t *testing.T) {
	s := newService(t, "sandbox")
	f := newFolder(t, s)
	packs := visitors(s, 20)
	key := keyJSON(s.entry(s.sandbox))
	by := anchor{keys: f.put([]byte(s.runtimeKeys()))}
	good := func(p *sealedPack) string { return packAnswer(p.file, key) }

	var sets [][]string
	chains := map[string][]string{}
	for _, p := range packs {
		text := good(p)
		data := strings.TrimSuffix(strings.TrimPrefix(text, `{"ok":true,"data":`), "}")
		chains[p.tenant] = append(chains[p.tenant], f.put([]byte(text)))
		sets = append(sets, []string{f.put([]byte(text + "\n"))}, []string{f.put([]byte(data))}, []string{f.put([]byte(data + "\n"))}, []string{f.put(p.file)})
	}
	for _, chain := range chains {
		sets = append(sets, chain)
	}
	accepted := 0
	for i, theirs := range by.stranger(t, sets) {
		for n, v := range by.ours(t, sets[i]) {
			require.True(t, v.OK, "sealer about %s: %v", f.begin(v.File), v.Codes)
			require.True(t, theirs[n].OK, "verify.py about %s: %v", f.begin(v.File), theirs[n].Codes)
			require.True(t, v.Sandbox && theirs[n].Sandbox, f.begin(v.File))
			accepted++
		}
	}

	sets = nil
	var kinds []string
	for total := size(10000); len(sets) < total; {
		p := packs[s.IntN(len(packs))]
		kind, text := "spoilt", good(p)
		switch n := s.IntN(10); {
		case n < 3:
			text = string(s.spoil([]byte(text)))
		case n < 5: // in the little that stands around the pack
			text = strings.Replace(text, key, string(s.spoil([]byte(key))), 1)
		case n < 8:
			lie := badAnswers[s.next("answer", len(badAnswers))]
			kind, text = "answer: "+lie.name, lie.write(s, string(p.file), key)
		default:
			var lied []byte
			if kind, lied = s.lie(p); slices.Contains(ofTheRoot, kind) {
				continue
			}
			kind, text = "pack: "+kind, packAnswer(s.asObject(lied), key)
		}
		if text != "" && string(withoutLineEnds([]byte(text))) != good(p) {
			kinds, sets = append(kinds, kind), append(sets, []string{f.put([]byte(text))})
		}
	}
	count, alike := map[string]int{}, 0
	for i, theirs := range by.stranger(t, sets) {
		us := by.ours(t, sets[i])
		require.False(t, theirs[0].OK, "verify.py accepts %s: %s", kinds[i], sets[i][0])
		require.False(t, us[0].OK, "sealer accepts %s: %s", kinds[i], sets[i][0])
		require.Equal(t, us[0].Verdict, theirs[0].Verdict, "%s: sealer %v, verify.py %v: %s", kinds[i], us[0].Codes, theirs[0].Codes, sets[i][0])
		if slices.Contains(us[0].Codes, theirs[0].Codes[0]) {
			alike++
		}
		count[strings.Split(kinds[i], ":")[0]]++
	}
	t.Logf("%d answers accepted by both; %d mutants, %v: none passes either; %d for the same reason", accepted, len(sets), count, alike)
}

// TestNoSandbox: with the option, neither verifier lets anything of the sandbox pass.
func TestNoSandbox(t *testing.T) {
	s := newService(t, "refused")
	f := newFolder(t, s)
	packs := visitors(s, 3)
	set := []string{f.put(s.directory(epoch.AddDate(1, 0, 0)))}
	for _, p := range packs {
		set = append(set, f.put(p.file))
		for _, event := range p.events {
			if _, err := sealer.SplitDelivery(event); err == nil {
				set = append(set, f.put(s.answer(event)))
				break
			}
		}
	}
	plays := len(set)
	l := s.newLog()
	for l.sealing.Equal(s.sandbox) {
		l = s.newLog()
	}
	set = append(set, f.put(l.seal(5).file))
	by := anchor{root: f.root, noSandbox: true}
	us, theirs := by.ours(t, set), by.stranger(t, [][]string{set})[0]
	for i := range set {
		want := []sealer.Code{verify.KeySandbox}
		if i == 0 || i >= plays {
			want = nil
		}
		require.Equal(t, want, us[i].Codes, f.begin(set[i]))
		require.Equal(t, want == nil, theirs[i].OK, f.begin(set[i]))
		if want != nil {
			require.Equal(t, want, theirs[i].Codes)
		}
	}
}

// TestAnswersBeyondTheDelegation: where a directory's delegation ends is no matter of the
// key in an answer, whether that ends later in both or in the newer answer alone.
func TestAnswersBeyondTheDelegation(t *testing.T) {
	s := newService(t, "beyond")
	f := newFolder(t, s)
	p := visitors(s, 1)[0]
	listed := s.entry(s.sandbox)
	end := s.until.Add(time.Hour)
	before := f.put(s.directory(p.log.now.Add(time.Hour)))
	listed.NotAfter = &end
	after := f.put(s.directory(p.log.now.Add(2 * time.Hour)))
	file := f.put([]byte(packAnswer(p.file, keyJSON(listed))))
	for name, dir := range map[string]string{"in the answer alone": before, "in both": after} {
		set := []string{dir, file}
		us, theirs := ours(t, f.root, set), stranger(t, f.root, [][]string{set})[0]
		require.True(t, us[1].OK, "%s: sealer: %v", name, us[1].Codes)
		require.True(t, theirs[1].OK, "%s: verify.py: %v", name, theirs[1].Codes)
		by := anchor{keys: dir}
		require.True(t, by.ours(t, []string{file})[0].OK, "%s: sealer by --keys", name)
		theirs = by.stranger(t, [][]string{{file}})[0]
		require.True(t, theirs[0].OK, "%s: verify.py by --keys: %v", name, theirs[0].Codes)
	}
}

// TestListsOfKeys requires that what is not a list of keys is refused, instead of trusted,
// and that a pack passes with the right list only.
func TestListsOfKeys(t *testing.T) {
	s := newService(t, "lists")
	f := newFolder(t, s)
	p := visitors(s, 1)[0]
	key, list := keyJSON(s.entry(s.sandbox)), s.runtimeKeys()
	file := f.put([]byte(packAnswer(p.file, key)))
	edit := func(old, new string) string {
		require.Contains(t, list, old)
		return strings.Replace(list, old, new, 1)
	}
	data := strings.TrimSuffix(strings.TrimPrefix(list, `{"ok":true,"data":`), `,"contractVersion":"ws30.v1"}`+"\n")
	for name, c := range map[string]struct {
		list         string
		usable, good bool
	}{
		"as it was answered":   {list, true, true},
		"the data":             {data, true, true},
		"indented":             {edit(`"keys":[`, "\"keys\": [\n "), true, true},
		"a directory":          {string(s.directory(epoch)) + "\n", true, true},
		"another's directory":  {string(newService(t, "other").directory(epoch)), true, false},
		"without the key":      {edit(","+key, ""), true, false},
		"for something else":   {strings.ReplaceAll(list, keydir.PurposeSandbox, keydir.PurposePack), true, false},
		"from later on":        {strings.ReplaceAll(list, `"notBefore":"2026`, `"notBefore":"2036`), true, false},
		"no more":              {strings.ReplaceAll(list, `"notAfter":null`, `"notAfter":"2026-03-01T00:00:00.000Z"`), true, false},
		"revoked":              {strings.ReplaceAll(list, `"revokedAt":null`, `"revokedAt":"2026-03-01T00:00:00.000Z"`), true, false},
		"no success":           {edit("true", "false"), false, false},
		"refused":              {`{"ok":false,"error":"RATE_LIMITED","message":"wait"}`, false, false},
		"more data":            {edit(`"data":`, `"data":{},"data":`), false, false},
		"keys again":           {edit(`"ok":true`, `"ok":true,"keys":[]`), false, false},
		"a key again":          {edit(key, key+","+key), false, false},
		"a member again":       {edit(`"notAfter":null`, `"notAfter":null,"notAfter":null`), false, false},
		"another's id":         {edit(keyID(s.sandbox), strings.Repeat("0", 32)), false, false},
		"no keys":              {`{"keys":[],"issuedAt":"2026-03-01T00:00:00.000Z","snapshotId":"x"}`, false, false},
		"the answer of a pack": {packAnswer(p.file, key), false, false},
		"nothing":              {"", false, false},
	} {
		by := f.put([]byte(c.list))
		out, err := python("verify.py", "--keys", by, file).CombinedOutput()
		require.Equal(t, c.good, err == nil, "%s: verify.py: %s", name, out)
		require.Equal(t, !c.usable, strings.Contains(string(out), "holds no list of keys"), "%s: verify.py: %s", name, out)
		if c.usable {
			us := anchor{keys: by}.ours(t, []string{file})
			require.Equal(t, c.good, us[0].OK, "%s: sealer: %v", name, us[0].Codes)
			continue
		}
		var report strings.Builder
		exit := verify.Files(t.Context(), verify.Options{Files: []string{file}, Keys: by}, &report)
		require.Equal(t, verify.ExitUnjudged, exit, "%s: sealer: %s", name, report.String())
		require.Contains(t, report.String(), "cannot use "+by, name)
	}
}
