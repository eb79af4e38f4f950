package sealer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// readKeys reads a directory that is taken on trust: a signed one, behind which a newline
// may stand, or a list of keys. What it refuses it names, and says where that is.
func readKeys(text []byte) (*Directory, error) {
	if bytes.HasPrefix(text, []byte(directoryStart)) {
		return ReadDirectory(bytes.TrimSuffix(text, []byte("\n")))
	}
	d, err := readKeyList(text)
	if err != nil {
		return nil, fmt.Errorf("cannot read list of keys: %w", err)
	}
	return d, nil
}

// readKeyList reads {"issuedAt":…,"keys":[…],"snapshotId":…}, or the answer that the
// sandbox gives with such a list in it.
func readKeyList(text []byte) (*Directory, error) {
	in := jsontext.NewDecoder(bytes.NewReader(text))
	v, err := in.ReadValue() // refuses names that are there twice
	switch {
	case err == io.EOF:
		return nil, errors.New("it is empty")
	case err != nil:
		return nil, err
	}
	v = v.Clone()
	if _, err := in.ReadToken(); err != io.EOF {
		return nil, fmt.Errorf("more behind it, at byte %d", in.InputOffset())
	}
	var r listReader
	at, members := "", r.members("", v)
	_, answered := members["data"]
	if _, told := members["ok"]; answered || told {
		var refused refusal
		if json.Unmarshal(text, &refused) == nil && refused.refused() != nil {
			return nil, refused.refused()
		}
		r.exactly(at, members, "ok", "data", "contractVersion")
		if string(members["ok"]) != "true" {
			r.fail("/ok", "want true")
		}
		if r.name("/contractVersion", members["contractVersion"]) != keyListVersion {
			r.fail("/contractVersion", "want %q", keyListVersion)
		}
		at = "/data"
		members = r.members(at, members["data"])
	}
	if _, signed := members["delegation"]; signed {
		return nil, errors.New("a key directory in another spelling: save what was answered as it is, every byte counts")
	}
	r.exactly(at, members, "issuedAt", "keys", "snapshotId")
	keys := r.list(at+"/keys", members["keys"])
	if len(keys) == 0 { // which a service answers before it has one, with an empty snapshotId
		r.fail(at+"/keys", "it lists no keys")
	}
	d := &Directory{
		IssuedAt: r.time(at+"/issuedAt", members["issuedAt"]), SnapshotID: r.name(at+"/snapshotId", members["snapshotId"]),
		byID: make(map[string]int),
	}
	for i, v := range keys {
		at := fmt.Sprintf("%s/keys/%d", at, i)
		k := r.key(at, v)
		if _, twice := d.byID[k.KeyID]; twice {
			r.fail(at+"/keyId", "the key is listed twice")
		}
		d.Keys = append(d.Keys, k)
		d.byID[k.KeyID] = i
	}
	if r.fault != nil {
		return nil, r.fault
	}
	return d, nil
}

// keyListVersion is the contract version of the answer with a list of keys.
const keyListVersion = "ws30.v1"

// listReader reads JSON whose spacing and order are free, but whose objects have exactly
// the members that they are asked for. The first fault stays, with the JSON pointer to it;
// after that, what is read is of no meaning.
type listReader struct{ fault error }

func (r *listReader) fail(at, format string, args ...any) {
	if r.fault == nil {
		r.fault = fmt.Errorf("%q: %s", at, fmt.Sprintf(format, args...))
	}
}

func (r *listReader) members(at string, v jsontext.Value) (members map[string]jsontext.Value) {
	if v.Kind() != '{' || json.Unmarshal(v, &members) != nil {
		r.fail(at, "want an object")
	}
	return members
}

func (r *listReader) exactly(at string, members map[string]jsontext.Value, names ...string) {
	for _, name := range names {
		if _, there := members[name]; !there {
			r.fail(at+"/"+name, "it is missing")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(names, name) {
			r.fail(at+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name), "there is no such member")
		}
	}
}

func (r *listReader) list(at string, v jsontext.Value) (list []jsontext.Value) {
	if v.Kind() != '[' || json.Unmarshal(v, &list) != nil {
		r.fail(at, "want a list")
	}
	return list
}

func (r *listReader) name(at string, v jsontext.Value) string {
	if v.Kind() == '"' {
		if s, err := jsontext.AppendUnquote(nil, v); err == nil && len(s) > 0 {
			return string(s)
		}
	}
	r.fail(at, "want a non-empty string")
	return ""
}

func (r *listReader) time(at string, v jsontext.Value) time.Time {
	t, err := ParseTime(r.name(at, v))
	if err != nil {
		r.fail(at, "%v", err)
	}
	return t
}

func (r *listReader) nullTime(at string, v jsontext.Value) *time.Time {
	if v.Kind() == 'n' {
		return nil
	}
	t := r.time(at, v)
	return &t
}

func (r *listReader) key(at string, v jsontext.Value) Key {
	m := r.members(at, v)
	r.exactly(at, m, "algorithm", "keyId", "notAfter", "notBefore", "publicKey", "purpose", "revokedAt")
	if r.fault != nil {
		return Key{}
	}
	k := Key{
		Algorithm: r.name(at+"/algorithm", m["algorithm"]), KeyID: r.name(at+"/keyId", m["keyId"]), PublicKey: r.name(at+"/publicKey", m["publicKey"]),
		NotBefore: r.time(at+"/notBefore", m["notBefore"]), NotAfter: r.nullTime(at+"/notAfter", m["notAfter"]), RevokedAt: r.nullTime(at+"/revokedAt", m["revokedAt"]),
		Purpose: r.name(at+"/purpose", m["purpose"]),
	}
	if k.Algorithm != Algorithm {
		r.fail(at+"/algorithm", "want %q", Algorithm)
	}
	pub, err := ReadPublicKey(k.PublicKey)
	switch {
	case err != nil:
		r.fail(at+"/publicKey", "%v", err)
	case k.KeyID != KeyID(pub):
		r.fail(at+"/keyId", "that of this public key is %s", KeyID(pub))
	}
	return k
}
