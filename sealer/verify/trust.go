package verify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/mod/sumdb/note"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/signature"
)

// trust is what verification rests on: a root key, or else a file with keys.
type trust struct {
	root string // vkey; empty for the weaker anchor
	file string // that the weaker anchor was read from
	// newer is the directory that decides, of those that are trusted; nil before
	// there is one.
	newer *keydir.Directory
	// text is the last directory that came with evidence, read and fault the result of reading it.
	// Packs of one log mostly hold the same.
	text  []byte
	read  *keydir.Directory
	fault error
	// foreign is set once one was of another root key.
	foreign bool
	// signatures checks those of receipts; nil: each by itself.
	signatures *signature.Checker
}

// errNoAnchor says that there is nothing to trust.
var errNoAnchor = errors.New("nothing to trust: give --root with the root key, or --keys with a key directory")

// readTrust makes the anchor out of the command's options. root is a vkey or the
// name of a file that holds one, keys the name of a file.
func readTrust(root, keys string) (*trust, error) {
	if root == "" && keys == "" {
		return nil, errNoAnchor
	}
	t := new(trust)
	if root != "" {
		vkey, err := readRoot(root)
		if err != nil {
			return nil, err
		}
		t.root = vkey
	}
	if keys == "" {
		return t, nil
	}
	text, err := readSmall(keys)
	if err != nil {
		return nil, fmt.Errorf("--keys: cannot read keys: %w", err)
	}
	if t.root != "" {
		t.newer, err = keydir.Verify(bytes.TrimRight(text, "\r\n"), t.root)
	} else {
		t.file = keys
		t.newer, err = readKeys(text)
	}
	if err != nil {
		return nil, fmt.Errorf("--keys: cannot use %s: %w", keys, err)
	}
	return t, nil
}

// readSmall reads a file that is read at once.
func readSmall(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSmallBytes+1))
	if err == nil && len(text) > maxSmallBytes {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxSmallBytes)
	}
	return text, err
}

func readRoot(root string) (string, error) {
	if _, err := note.NewVerifier(root); err == nil {
		if _, err := keydir.ReadRoot(root); err != nil {
			return "", fmt.Errorf("cannot use root key: %w", err)
		}
		return root, nil
	}
	text, err := readSmall(root)
	if err != nil {
		return "", fmt.Errorf("--root: cannot use root key: neither a C2SP vkey nor a readable file: %w", err)
	}
	vkey := strings.TrimSpace(string(text))
	if _, err := keydir.ReadRoot(vkey); err != nil {
		return "", fmt.Errorf("--root: cannot use root key of %s: %w", root, err)
	}
	return vkey, nil
}

// learn reads a directory that came with the evidence. Under a root key it is
// verified, and from then on the one that outranks all others decides about keys.
// Without a root it proves nothing, and need only be well-formed.
func (t *trust) learn(text []byte) {
	if t.text != nil && bytes.Equal(t.text, text) {
		return
	}
	t.text = bytes.Clone(text)
	if t.root == "" {
		t.read, t.fault = keydir.Read(text)
		return
	}
	t.read, t.fault = keydir.Verify(text, t.root)
	t.foreign = t.foreign || errors.Is(t.fault, keydir.ErrOtherRoot)
	if t.fault == nil && (t.newer == nil || t.read.Outranks(t.newer)) {
		t.newer = t.read
	}
}

// directory learns a directory that came with the evidence and judges it by what is
// known. signers are the ids of keys that have signed the evidence which it came with: a directory of
// another root beside a key of this one belongs to no service. In a pack or an export one of a revoked
// directory key is passed over, as they are judged by the keys of the one that decides; by itself, without
// signers, it is refused.
func (t *trust) directory(text []byte, signers ...string) Verdict {
	t.learn(text)
	d := t.read
	switch foreign := errors.Is(t.fault, keydir.ErrOtherRoot); {
	case foreign && !t.listsAny(signers):
		return found(DirectoryForeign, "the keys are those of a service with another root key")
	case foreign:
		return found(DirectoryInvalid, fmt.Sprintf("the directory is of another root key, and the evidence signed by key %s of this one", signers[0]))
	case t.fault != nil:
		return found(DirectoryInvalid, t.fault.Error())
	case t.root == "":
		return found(AnchorKeys, fmt.Sprintf(
			"keys are taken from %s on trust; the directory of %s in here is not checked against a root key", t.file, canonical.FormatTime(d.IssuedAt)))
	}
	// Only the directory that decides may revoke: a thief must not revoke a later key.
	if k := t.newer.Key(d.SigningKeyID()); k != nil && k.RevokedAt != nil {
		code := DirectoryIgnored
		if len(signers) == 0 {
			code = DirectoryRevoked
		}
		return found(code, fmt.Sprintf("the directory key %s is revoked: that of the directory of %s, delegated to later, decides", k.KeyID, canonical.FormatTime(t.newer.IssuedAt)))
	}
	name, _, _ := strings.Cut(t.root, "+")
	return found(DirectoryOK, fmt.Sprintf("%s, as of %s, under root key %s", count(len(d.Keys), "key"), canonical.FormatTime(d.IssuedAt), name))
}

// listsAny reports whether the directory that decides lists one of the keys.
func (t *trust) listsAny(keyIDs []string) bool {
	return t.newer != nil && slices.ContainsFunc(keyIDs, func(id string) bool { return t.newer.Key(id) != nil })
}

// lists reports whether a directory that came with evidence lists a key, and the root has delegated to it.
func (t *trust) lists(text []byte, keyID string) bool {
	t.learn(text)
	return t.root != "" && t.fault == nil && t.read.Key(keyID) != nil
}

// readKeys reads a directory that is taken on trust: a signed one, which line ends may follow, or
// a list of keys. Its errors name the place.
func readKeys(text []byte) (*keydir.Directory, error) {
	if bytes.HasPrefix(text, []byte(startOfDirectory)) {
		return keydir.Read(bytes.TrimRight(text, "\r\n"))
	}
	d, err := readKeyList(text)
	if err != nil {
		return nil, fmt.Errorf("cannot read list of keys: %w", err)
	}
	return d, nil
}

// readKeyList reads {"issuedAt":…,"keys":[…],"snapshotId":…}, or the answer that the
// sandbox gives with such a list in it.
func readKeyList(text []byte) (*keydir.Directory, error) {
	var r answerReader
	at, members, err := r.answer(text, keyListVersion)
	if err != nil {
		return nil, err
	}
	if _, signed := members["delegation"]; signed {
		return nil, errors.New("a key directory in another form: save the response unchanged, every byte counts")
	}
	r.exactly(at, members, "issuedAt", "keys", "snapshotId")
	keys := r.list(at+"/keys", members["keys"])
	if len(keys) == 0 { // which a service answers before it has one, with an empty snapshotId
		r.fail(at+"/keys", "it lists no keys")
	}
	issuedAt, snapshotID := r.time(at+"/issuedAt", members["issuedAt"]), r.name(at+"/snapshotId", members["snapshotId"])
	var list []keydir.Key
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
	return keydir.New(list, issuedAt, snapshotID)
}

// keyListVersion is the contract version of the answer with a list of keys.
const keyListVersion = "ws30.v1"

func (r *answerReader) key(at string, v jsontext.Value) keydir.Key {
	m := r.members(at, v)
	r.exactly(at, m, "algorithm", "keyId", "notAfter", "notBefore", "publicKey", "purpose", "revokedAt")
	if r.fault != nil {
		return keydir.Key{}
	}
	k := keydir.Key{
		Algorithm: r.name(at+"/algorithm", m["algorithm"]), KeyID: r.name(at+"/keyId", m["keyId"]), PublicKey: r.name(at+"/publicKey", m["publicKey"]),
		NotBefore: r.time(at+"/notBefore", m["notBefore"]), NotAfter: r.nullTime(at+"/notAfter", m["notAfter"]), RevokedAt: r.nullTime(at+"/revokedAt", m["revokedAt"]),
		Purpose: r.name(at+"/purpose", m["purpose"]),
	}
	if k.Algorithm != sealer.Algorithm {
		r.fail(at+"/algorithm", "want %q", sealer.Algorithm)
	}
	pub, err := keydir.ReadPublicKey(k.PublicKey)
	switch {
	case err != nil:
		r.fail(at+"/publicKey", "%v", err)
	case k.KeyID != keydir.KeyID(pub):
		r.fail(at+"/keyId", "that of this public key is %s", keydir.KeyID(pub))
	}
	return k
}
