package verify

import (
	"strings"
	"time"

	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/sealertest"
)

// revocation has a node's key that was revoked after its receipts were sealed.
func (v *vectors) revocation() {
	w := newWorld(v.t)
	w.Tenant = sealertest.TenantID("revoked")
	events := w.Run(3)
	pack := v.put("good/before-revocation.ndjson", sealertest.Bundle(v.t, w.Seal(events), events))
	receipt := v.put("good/receipt-of-revoked-key.json", answer(v.t, events[1]))
	late := w.Run(2)
	w.Now = w.Now.Add(time.Hour)
	lateText := sealertest.Bundle(v.t, w.Seal(late), late)

	revoked := w.Now.Add(-time.Minute)
	w.Now = w.Now.Add(time.Hour)
	w.Key(w.Nodes[1].KeyID).RevokedAt = &revoked
	keys := v.put("good/keys-with-revocation.json", w.Directory())
	v.cases = append(v.cases,
		vector{Name: "sealed before the revocation", About: "a key revoked later: the pack's seal is older", Files: []string{pack}, Keys: keys, Failures: [][]sealer.Code{nil}},
		vector{Name: "receipt of a revoked key", About: "alone it proves nothing", Files: []string{receipt}, Keys: keys, Failures: [][]sealer.Code{{sealer.KeyRevoked}}},
		vector{Name: "receipt of a revoked key, with its pack", About: "the pack proves that it is older", Files: []string{receipt, pack}, Keys: keys, Failures: [][]sealer.Code{nil, nil}})
	v.bad("sealed-after-revocation", "line 3 is signed by a key that was revoked before the seal", lateText, EntryAfterRevocation)
	v.cases[len(v.cases)-1].Keys = keys
}

// packRevocation has a pack's key that was revoked before the next pack was sealed.
func (v *vectors) packRevocation() {
	w := newWorld(v.t)
	w.Tenant = sealertest.TenantID("revoked_pack")
	w.Seal(w.Run(2))
	events := w.Run(3)
	p := w.Seal(events)
	pack := v.put("good/by-revoked-key.ndjson", sealertest.Bundle(v.t, p, events))
	forged := v.put("bad/by-revoked-key-forged.ndjson", w.unbilled(p, events))
	w.revokePackKey()
	events = w.Run(2)
	next := v.put("good/by-next-key.ndjson", sealertest.Bundle(v.t, w.Seal(events), events))
	v.good("pack of a revoked key, with the next", "the next pack names it, and its header", pack, next)
	v.cases = append(v.cases, vector{
		Name: "forged pack of a revoked key, with the next", About: "the same entries, but nothing is billed: all are said to repeat a leaf that is not given",
		Files: []string{forged, next}, Failures: [][]sealer.Code{{sealer.KeyRevoked}, {ConsistencyMismatch}},
	})
}

// sandbox has a pack whose receipts and seal are by sandbox keys.
func (v *vectors) sandbox() {
	w := newWorld(v.t)
	w.Tenant = sealertest.TenantID("sandbox")
	key := sealertest.PrivateKey("sandbox")
	w.PackKey, w.Nodes = key, []*sealer.Signer{{KeyID: keydir.KeyID(sealertest.Public(key)), Node: "nod_control", Key: key}}
	events := w.Run(3)
	object := pack.AppendObject(nil, w.Seal(events), events)
	v.good("sandbox", "a pack of a sandbox, as one object", v.put("good/sandbox.json", object))

	signer, other := answered(*w.Key(keydir.KeyID(sealertest.Public(key)))), answered(*w.Key(w.Keys[1].KeyID))
	good := packAnswer(object, signer)
	v.good("sandbox, as answered", "the same pack as the sandbox answers with it, beside its key", v.put("good/sandbox-answer.json", []byte(good+"\n")))
	v.good("sandbox, the data", "the data of that answer", v.put("good/sandbox-data.json", []byte(good[len(startOfAnswer):len(good)-1])))
	v.bad("answer-not-ok", "the answer says that it is none", []byte(strings.Replace(good, "true", "false", 1)), FormatUnknown)
	v.bad("answer-data-twice", "there is more data behind it", []byte(strings.TrimSuffix(good, "}")+`,"data":null}`), FormatInvalid)
	v.bad("answer-key-twice", "a member of the key stands there twice", []byte(packAnswer(object, strings.Replace(signer, `"notAfter":null`, `"notAfter":null,"notAfter":null`, 1))), FormatInvalid)
	v.bad("answer-without-key", "there is no key beside the pack", []byte(packAnswer(object, "null")), FormatInvalid)
	v.bad("answer-spaced", "there is a space in it", []byte(strings.Replace(good, `:{"pack"`, `: {"pack"`, 1)), FormatUnknown)
	v.bad("answer-other-key", "the key beside the pack is another of the directory", []byte(packAnswer(object, other)), KeyMismatch)
	v.bad("answer-other-half", "the key beside the pack has the public half of another", []byte(packAnswer(object, strings.Replace(signer, w.Key(keydir.KeyID(sealertest.Public(key))).PublicKey, w.Keys[1].PublicKey, 1))), KeyMismatch)
}
