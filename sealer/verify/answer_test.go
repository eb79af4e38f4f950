package verify

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/sealertest"
)

// answered is a key as the sandbox answers with it.
func answered(k keydir.Key) string {
	at := func(t *time.Time) string {
		if t == nil {
			return "null"
		}
		return `"` + canonical.FormatTime(*t) + `"`
	}
	return fmt.Sprintf(`{"keyId":%q,"algorithm":%q,"publicKey":%q,"notBefore":%s,"notAfter":%s,"revokedAt":%s,"purpose":%q}`,
		k.KeyID, k.Algorithm, k.PublicKey, at(&k.NotBefore), at(k.NotAfter), at(k.RevokedAt), k.Purpose)
}

// packAnswer is what the sandbox answers of a pack; keysAnswer is its list of keys.
func packAnswer(pack []byte, beside string) string {
	return `{"ok":true,"data":{"pack":` + string(pack) + `,"verificationKey":` + beside + `}}`
}

func keysAnswer(keys ...keydir.Key) string {
	var list []string
	for _, k := range keys {
		list = append(list, answered(k))
	}
	return fmt.Sprintf(`{"ok":true,"data":{"keys":[%s],"issuedAt":%q,"snapshotId":%q},"contractVersion":"ws30.v1"}`,
		strings.Join(list, ","), canonical.FormatTime(sealertest.Epoch), keys[0].KeyID)
}

// sandboxWorld is that of a tenant of the sandbox: one key signs its packs, another its
// receipts.
func sandboxWorld(tb testing.TB) *world {
	w := newWorld(tb)
	w.Tenant = sealertest.TenantID("visitor")
	node := sealertest.PrivateKey("nod_sandbox")
	w.PackKey, w.Nodes = sealertest.PrivateKey("sandbox"), []*sealer.Signer{{KeyID: keydir.KeyID(sealertest.Public(node)), Node: "nod_sandbox", Key: node}}
	w.Keys = append(w.Keys, keydir.NewKey(sealertest.Public(node), keydir.PurposeSandbox, sealertest.Epoch))
	return w
}

// TestPackAnswer: what the sandbox answers about a pack is taken as it is, and trusted are
// the keys that were given, never the one that came with it.
func TestPackAnswer(t *testing.T) {
	w := sandboxWorld(t)
	first := w.Run(3)
	p1 := w.Seal(first)
	second := w.Run(2)
	later := sealertest.PrivateKey("the next of the sandbox")
	w.Keys = append(w.Keys, keydir.NewKey(sealertest.Public(later), keydir.PurposeSandbox, sealertest.Epoch))
	p2 := w.Seal(second, func(c *pack.Config) { c.Key = later })
	object, next := pack.AppendObject(nil, p1, first), pack.AppendObject(nil, p2, second)
	signer, node := *w.Key(p1.Header.SigningKeyID), *w.Key(w.Nodes[0].KeyID)
	sealedAt := p1.Header.SealedAt
	at := func(d time.Duration) *time.Time { at := sealedAt.Add(d); return &at }
	with := func(change func(*keydir.Key)) keydir.Key { k := signer; change(&k); return k }
	ends := func(d time.Duration) keydir.Key { return with(func(k *keydir.Key) { k.NotAfter = at(d) }) }
	revoked := func(d time.Duration) keydir.Key { return with(func(k *keydir.Key) { k.RevokedAt = at(d) }) }
	good := packAnswer(object, answered(signer))
	of := func(k keydir.Key) string { return packAnswer(object, answered(k)) }
	edit := func(old, new string) string {
		require.Equal(t, 1, strings.Count(good, old), old)
		return strings.Replace(good, old, new, 1)
	}

	dir := t.TempDir()
	put := func(name, text string) string {
		name = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	judge := func(t *testing.T, root, keys string, files ...string) Report {
		if keys != "" {
			keys = put("keys", keys)
		}
		anchor, err := readTrust(root, keys)
		require.NoError(t, err)
		o := Options{Rating: rate.Rating}
		for i, text := range files {
			o.Files = append(o.Files, put(fmt.Sprint(i), text))
		}
		return verifyFiles(context.Background(), anchor, &o)
	}
	all := keysAnswer(signer, node)
	for name, c := range map[string]struct {
		keys, file string
		fails      []sealer.Code
	}{
		"as it was answered":      {all, good, nil},
		"with newlines":           {all, good + "\n\n", nil},
		"the pack with a newline": {all, string(object) + "\n", nil},
		"the data":                {all, good[len(startOfAnswer) : len(good)-1], nil},
		"the pack":                {all, string(object), nil},
		"a list in another order": {keysAnswer(node, signer), good, nil},
		"the bare list":           {strings.TrimSuffix(strings.TrimPrefix(all, startOfAnswer), `,"contractVersion":"ws30.v1"}`), good, nil},
		"an older answer":         {keysAnswer(ends(time.Hour), node), good, nil},
		"a newer answer":          {all, of(ends(time.Hour)), nil},

		"no success":         {all, edit(`"ok":true`, `"ok":false`), []sealer.Code{FormatUnknown}},
		"more data":          {all, strings.TrimSuffix(good, "}") + `,"data":{}}`, []sealer.Code{FormatInvalid}},
		"data before":        {all, edit(`"data":{"pack"`, `"data":null,"data":{"pack"`), []sealer.Code{FormatUnknown}},
		"ok again":           {all, edit(`{"ok":true`, `{"ok":true,"ok":true`), []sealer.Code{FormatUnknown}},
		"a version":          {all, strings.TrimSuffix(good, "}") + endOfAnswer, []sealer.Code{FormatInvalid}},
		"the pack in data":   {all, startOfAnswer + string(object) + "}", []sealer.Code{FormatUnknown}},
		"a space":            {all, edit(`"data":{`, `"data": {`), []sealer.Code{FormatUnknown}},
		"a space inside":     {all, edit(`,"verificationKey":`, `, "verificationKey":`), []sealer.Code{FormatInvalid}},
		"no key":             {all, packAnswer(object, "null"), []sealer.Code{FormatInvalid}},
		"the key first":      {all, startOfAnswer + `{"verificationKey":` + answered(signer) + `,"pack":` + string(object) + `}}`, []sealer.Code{FormatUnknown}},
		"two keys":           {all, packAnswer(object, answered(signer)+`,"verificationKey":`+answered(signer)), []sealer.Code{FormatInvalid}},
		"a member more":      {all, packAnswer(object, strings.TrimSuffix(answered(signer), "}")+`,"use":"sig"}`), []sealer.Code{FormatInvalid}},
		"a member twice":     {all, packAnswer(object, strings.Replace(answered(signer), `"notAfter":null`, `"notAfter":null,"notAfter":null`, 1)), []sealer.Code{FormatInvalid}},
		"another pack":       {all, packAnswer(next, answered(signer)), []sealer.Code{sealer.KeyUnknown}},
		"the node's key":     {all, of(node), []sealer.Code{KeyMismatch}},
		"a stranger's key":   {all, of(keydir.NewKey(sealertest.Public(sealertest.PrivateKey("stranger")), keydir.PurposeSandbox, sealertest.Epoch)), []sealer.Code{KeyMismatch}},
		"another id":         {all, of(with(func(k *keydir.Key) { k.KeyID = node.KeyID })), []sealer.Code{KeyMismatch}},
		"another half":       {all, of(with(func(k *keydir.Key) { k.PublicKey = node.PublicKey })), []sealer.Code{KeyMismatch}},
		"another algorithm":  {all, of(with(func(k *keydir.Key) { k.Algorithm = "ed448" })), []sealer.Code{KeyMismatch}},
		"another purpose":    {all, of(with(func(k *keydir.Key) { k.Purpose = keydir.PurposePack })), []sealer.Code{KeyMismatch}},
		"another beginning":  {all, of(with(func(k *keydir.Key) { k.NotBefore = *at(-time.Minute) })), []sealer.Code{KeyMismatch}},
		"another end":        {keysAnswer(ends(time.Hour), node), of(ends(2 * time.Hour)), []sealer.Code{KeyMismatch}},
		"other revocations":  {keysAnswer(revoked(time.Hour), node), of(revoked(2 * time.Hour)), []sealer.Code{KeyMismatch, sealer.KeyRevoked}},
		"not trusted":        {keysAnswer(node), good, []sealer.Code{sealer.KeyUnknown}},
		"a later end":        {all, of(ends(0)), []sealer.Code{sealer.KeyOutsideWindow}},
		"a later revocation": {all, of(revoked(0)), []sealer.Code{sealer.KeyOutsideWindow}},
		"not vouched for":    {all, of(revoked(time.Millisecond)), []sealer.Code{sealer.KeyRevoked}},
	} {
		t.Run(name, func(t *testing.T) {
			r := judge(t, "", c.keys, c.file)
			require.Equal(t, c.fails, failures(r.Files[0].Verdicts), "%+v", r.Files[0].Verdicts)
			require.Equal(t, c.fails == nil, r.OK)
		})
	}

	t.Run("under the root key", func(t *testing.T) {
		require.Equal(t, [][]sealer.Code{nil}, fails(judge(t, w.VKey, "", good)))
		require.Equal(t, [][]sealer.Code{{KeyMismatch}}, fails(judge(t, w.VKey, "", of(node))))
	})
	t.Run("nothing to trust", func(t *testing.T) {
		_, err := readTrust("", "")
		require.ErrorIs(t, err, errNoAnchor)
	})
	t.Run("vouched for", func(t *testing.T) {
		keys := keysAnswer(signer, node, *w.Key(keydir.KeyID(sealertest.Public(later))))
		r := judge(t, "", keys, of(revoked(time.Millisecond)), packAnswer(next, answered(*w.Key(keydir.KeyID(sealertest.Public(later))))))
		require.Equal(t, [][]sealer.Code{nil, nil}, fails(r))
		require.Contains(t, remarks(r.Files[0]), ChainVouched)
	})
	t.Run("every byte around the pack", func(t *testing.T) {
		from := strings.Index(good, string(object))
		for i := range good {
			if i >= from && i < from+len(object) {
				continue
			}
			spoilt := []byte(good)
			spoilt[i] ^= 1 << (i % 8)
			require.False(t, judge(t, "", all, string(spoilt)).OK, "byte %d: %s", i, spoilt)
		}
	})
	t.Run("what was meant", func(t *testing.T) {
		for text, says := range map[string]string{
			`{"ok":false,"error":"RATE_LIMITED","message":"wait 3 s"}`: "a request that was refused: RATE_LIMITED: wait 3 s",
			edit(`"data":{`, `"data": {`):                              "every byte counts",
			`{"ok":true,"data":{"pack":null}}`:                         "every byte counts",
			`{"ok":true,"data":{"packs":[]}}`:                          "nothing else that can be verified",
		} {
			v := judge(t, "", all, text).Files[0].Verdicts[0]
			require.Contains(t, v.Message+"\n"+v.Next, says)
		}
	})
}

// TestKeysAnswer: keys that are trusted are listed once, in full and in one form, and not
// in the answer to a refused request. What is wrong is named with its place.
func TestKeysAnswer(t *testing.T) {
	k := keydir.NewKey(sealertest.Public(sealertest.PrivateKey("sandbox")), keydir.PurposeSandbox, sealertest.Epoch)
	good := keysAnswer(k)
	d, err := readKeys([]byte(good + "\n"))
	require.NoError(t, err)
	require.Equal(t, []keydir.Key{k}, d.Keys)
	edit := func(old, new string) string {
		require.Contains(t, good, old)
		return strings.Replace(good, old, new, 1)
	}
	for text, says := range map[string]string{
		`{"ok":false,"error":"RATE_LIMITED","message":"wait"}`: "refused: RATE_LIMITED: wait",
		edit(`"ok":true`, `"ok":false`):                        "refused",
		edit(`"ok":true`, `"ok":"true"`):                       `"/ok": want true`,
		edit(`"ok":true,`, ""):                                 `"/ok": it is missing`,
		edit(`"ok":true`, `"ok":true,"keys":[]`):               `"/keys": there is no such member`,
		edit(`"ok":true`, `"ok":true,"a~/b":0`):                `"/a~0~1b": there is no such member`,
		edit(`"contractVersion":"ws30.v1"`, `"v":1`):           `"/contractVersion": it is missing`,
		edit(`"ws30.v1"`, `"v1.0"`):                            `"/contractVersion": want "ws30.v1"`,
		edit(`"data":`, `"data":{},"data":`):                   "duplicate object member name \"data\"",
		edit(`"keyId":`, `"keyId":"x","keyId":`):               "duplicate object member name \"keyId\" within \"/data/keys/0\"",
		edit(answered(k), answered(k)+","+answered(k)):         `"/data/keys/1/keyId": the key is listed twice`,
		edit(k.KeyID, strings.Repeat("0", 32)):                 `"/data/keys/0/keyId": that of this public key is ` + k.KeyID,
		edit(answered(k), ""):                                  `"/data/keys": it lists no keys`,
		edit(`[`+answered(k)+`]`, "{}"):                        `"/data/keys": want a list`,
		edit(answered(k), "null"):                              `"/data/keys/0": want an object`,
		edit(`"notAfter":null`, `"notAfter":"tomorrow"`):       `"/data/keys/0/notAfter": "tomorrow" is not a time`,
		edit(`"notAfter":null,`, ""):                           `"/data/keys/0/notAfter": it is missing`,
		edit(`"notAfter":null`, `"notAfter":null,"use":"sig"`): `"/data/keys/0/use": there is no such member`,
		edit(`"notBefore":"`, `"notBefore":null,"x":"`):        `"/data/keys/0/x": there is no such member`,
		edit(`.000Z","notAfter"`, `Z","notAfter"`):             `"/data/keys/0/notBefore": "2026-05-01T12:00:00Z" is not a time`,
		edit(`"ed25519"`, `"Ed25519"`):                         `"/data/keys/0/algorithm": want "ed25519"`,
		edit(k.PublicKey, k.PublicKey+"="):                     `"/data/keys/0/publicKey": `,
		edit(keydir.PurposeSandbox, ""):                        `"/data/keys/0/purpose": want a non-empty string`,
		edit(`"snapshotId":"`, `"snapshotId":7,"a":"`):         `"/data/a": there is no such member`,
		"":    "it is empty",
		" \n": "it is empty",
		`{"issuedAt":"2026-05-01T12:00:00.000Z","keys":[],"snapshotId":""}`: `"/keys": it lists no keys`,
		good + "{}":                             "more behind it, at byte ",
		"\ufeff" + good:                         "invalid character",
		string(newWorld(t).Directory()) + "\n ": "want the end",
		" " + string(newWorld(t).Directory()):   "a key directory in another form",
		strings.Replace(string(newWorld(t).Directory()), `"value":"`, `"value":"A`, 1): "base64url of 64 bytes",
	} {
		_, err := readKeys([]byte(text))
		require.ErrorContains(t, err, says, text)
	}
}

// TestAnchorThatIsTooLarge: what is trusted is read at once, so it has a bound.
func TestAnchorThatIsTooLarge(t *testing.T) {
	f := newFolder(t)
	pack := f.pack("pack", f.w.Run(1))
	large := f.write("large", append(f.w.Directory(), bytes.Repeat([]byte(" "), maxSmallBytes)...))
	for _, o := range []Options{{Keys: large}, {Root: large}, {Root: f.w.VKey, Keys: large}} {
		var out strings.Builder
		o.Files = []string{pack}
		require.Equal(t, ExitUnjudged, Files(t.Context(), o, &out))
		require.Contains(t, out.String(), "is larger than 16777216 bytes")
	}
}

// TestNamesOnTheScreen: a terminal obeys neither the name of a file, nor what is in it, nor
// a report in JSON, which is to be read back as it was nevertheless.
func TestNamesOnTheScreen(t *testing.T) {
	f := newFolder(t)
	lie := "k\x1b[2K\u009b2J\x7f\u202e\U000e0001"
	keys := f.write(lie, append(f.w.Directory(), '\n'))
	pack := f.pack("pack", f.w.Run(1))
	refusal := f.write("refusal", []byte(`{"ok":false,"error":"`+"\u009b2J\u007f"+`"}`))
	visible := func(out string) {
		for _, r := range out {
			require.True(t, r == '\n' || strconv.IsGraphic(r), "%q in %s", r, out)
		}
	}
	for _, o := range []Options{{Keys: keys, Files: []string{pack, keys, "\xff"}}, {Keys: refusal, Files: []string{pack}}} {
		for _, o.JSON = range []bool{false, true} {
			var out strings.Builder
			Files(t.Context(), o, &out)
			visible(out.String())
			if o.JSON && o.Keys == keys {
				var r Report
				require.NoError(t, json.Unmarshal([]byte(out.String()), &r))
				require.Equal(t, keys, r.Files[1].File)
				require.Equal(t, "\ufffd", r.Files[2].File, "of which JSON has no spelling")
				require.Contains(t, r.Files[0].Verdicts[0].Message, "keys are taken from "+keys)
			}
		}
	}
}

// TestKeysOnTheScreen: who may write the list of keys can't write verdicts.
func TestKeysOnTheScreen(t *testing.T) {
	f := newFolder(t)
	pack := f.pack("pack", f.w.Run(1))
	const lie = `\n\npack: proof pack\n  ok    signature.ok\n\nSound: 1 file.\n\u001b[2K`
	for _, list := range []string{`{"` + lie + `":0}`, `{"ok":false,"error":"` + lie + `"}`, `{"keys":"` + lie + `"}`} {
		for _, root := range []string{"", f.w.VKey} {
			var out strings.Builder
			o := Options{Keys: f.write("keys", []byte(list)), Root: root, Files: []string{pack}}
			require.Equal(t, ExitUnjudged, Files(t.Context(), o, &out))
			require.Equal(t, 2, strings.Count(out.String(), "\n"), out.String())
			require.NotContains(t, out.String(), "\x1b")
		}
	}
}
