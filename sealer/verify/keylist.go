package verify

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"muniment/sealer"
)

// readKeys reads a directory that is taken on trust: a signed one, which a newline may follow, or
// a list of keys. Its errors name the place.
func readKeys(text []byte) (*sealer.Directory, error) {
	if bytes.HasPrefix(text, []byte(startOfDirectory)) {
		return sealer.ReadDirectory(bytes.TrimSuffix(text, []byte("\n")))
	}
	d, err := readKeyList(text)
	if err != nil {
		return nil, fmt.Errorf("cannot read list of keys: %w", err)
	}
	return d, nil
}

// readKeyList reads {"issuedAt":…,"keys":[…],"snapshotId":…}, or the answer that the
// sandbox gives with such a list in it.
func readKeyList(text []byte) (*sealer.Directory, error) {
	var r answerReader
	at, members, err := r.answer(text, keyListVersion)
	if err != nil {
		return nil, err
	}
	if _, signed := members["delegation"]; signed {
		return nil, errors.New("a key directory in another spelling: save what was answered as it is, every byte counts")
	}
	r.exactly(at, members, "issuedAt", "keys", "snapshotId")
	keys := r.list(at+"/keys", members["keys"])
	if len(keys) == 0 { // which a service answers before it has one, with an empty snapshotId
		r.fail(at+"/keys", "it lists no keys")
	}
	issuedAt, snapshotID := r.time(at+"/issuedAt", members["issuedAt"]), r.name(at+"/snapshotId", members["snapshotId"])
	var list []sealer.Key
	seen := make(map[string]bool)
	for i, v := range keys {
		at := fmt.Sprintf("%s/keys/%d", at, i)
		k := r.key(at, v)
		if seen[k.KeyID] {
			r.fail(at+"/keyId", "the key is listed twice")
		}
		seen[k.KeyID] = true
		list = append(list, k)
	}
	if r.fault != nil {
		return nil, r.fault
	}
	return sealer.NewDirectory(list, issuedAt, snapshotID)
}

// keyListVersion is the contract version of the answer with a list of keys.
const keyListVersion = "ws30.v1"

func (r *answerReader) key(at string, v jsontext.Value) sealer.Key {
	m := r.members(at, v)
	r.exactly(at, m, "algorithm", "keyId", "notAfter", "notBefore", "publicKey", "purpose", "revokedAt")
	if r.fault != nil {
		return sealer.Key{}
	}
	k := sealer.Key{
		Algorithm: r.name(at+"/algorithm", m["algorithm"]), KeyID: r.name(at+"/keyId", m["keyId"]), PublicKey: r.name(at+"/publicKey", m["publicKey"]),
		NotBefore: r.time(at+"/notBefore", m["notBefore"]), NotAfter: r.nullTime(at+"/notAfter", m["notAfter"]), RevokedAt: r.nullTime(at+"/revokedAt", m["revokedAt"]),
		Purpose: r.name(at+"/purpose", m["purpose"]),
	}
	if k.Algorithm != sealer.Algorithm {
		r.fail(at+"/algorithm", "want %q", sealer.Algorithm)
	}
	pub, err := sealer.ReadPublicKey(k.PublicKey)
	switch {
	case err != nil:
		r.fail(at+"/publicKey", "%v", err)
	case k.KeyID != sealer.KeyID(pub):
		r.fail(at+"/keyId", "that of this public key is %s", sealer.KeyID(pub))
	}
	return k
}
