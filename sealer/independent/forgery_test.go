//go:build independent

package independent_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/checkpoint"
	"muniment.example/sealer/merkle"
)

// object is a JSON object to be changed. Numbers keep their spelling.
type object map[string]any

func (s *service) parse(text []byte) object {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var o object
	require.NoError(s, d.Decode(&o))
	return o
}

func (s *service) canonical(v any) []byte {
	text, err := json.Marshal(v)
	require.NoError(s, err)
	text, err = canonical.JSON(text)
	require.NoError(s, err)
	return text
}

func (o object) in(name string) object { return o[name].(map[string]any) }

func (o object) list(name string) []any {
	list, _ := o[name].([]any)
	return list
}

// add adds to a whole number.
func (o object) add(name string, n int64) {
	was, err := o[name].(json.Number).Int64()
	if err != nil {
		panic(err)
	}
	o[name] = was + n
}

// signature is the JSON of a signature.
func signature(key ed25519.PrivateKey, text []byte) object {
	return object{"algorithm": "ed25519", "keyId": keyID(key),
		"value": base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, text))}
}

// forgery is a pack of which everything can be changed before it is signed anew.
type forgery struct {
	*sealedPack
	header object
	key    ed25519.PrivateKey // that signs it
}

// stamp has the header's checkpoint say what the header says.
func (f *forgery) stamp(tenant string, key ed25519.PrivateKey) {
	root, err := merkle.ParseHash(f.header["rootHash"].(string))
	require.NoError(f, err)
	at, err := canonical.ParseTime(f.header["sealedAt"].(string))
	require.NoError(f, err)
	var size uint64
	_, err = fmt.Sscan(fmt.Sprint(f.header["treeSize"]), &size)
	require.NoError(f, err)
	f.header["checkpoint"], err = checkpoint.Sign(checkpoint.Checkpoint{
		Origin: checkpoint.Origin(tenant), Size: size, Root: root, SealedAt: at.Truncate(time.Second),
	}, key)
	require.NoError(f, err)
}

// regrow builds the tree anew over changed entries, with all that follows from it.
func (f *forgery) regrow() {
	var leaves []merkle.Hash
	tree := f.before.Clone()
	for _, e := range f.events {
		leaves = append(leaves, merkle.LeafHash(e))
		tree.Append(leaves[len(leaves)-1])
	}
	proof, err := f.before.Consistency(leaves)
	require.NoError(f, err)
	hashes := []string{}
	for _, h := range proof {
		hashes = append(hashes, h.String())
	}
	f.header["consistency"], f.header["count"] = hashes, len(leaves)
	f.header["treeSize"], f.header["rootHash"] = tree.Size(), tree.Root().String()
	f.stamp(f.tenant, f.key)
}

// change replaces an entry, and regrows the tree.
func (f *forgery) change(i int, e object) {
	f.events[i] = f.canonical(e)
	f.regrow()
}

// retell replaces a delivery that the node itself lies in: with its own witness and
// signature.
func (f *forgery) retell(i int, e object) {
	data, receipt := e.in("data"), e.in("data").in("receipt")
	was := data["signature"].(map[string]any)["keyId"]
	delete(data, "receipt")
	delete(data, "signature")
	node := f.signers[slices.IndexFunc(f.signers, func(s *sealer.Signer) bool { return s.KeyID == was })]
	receipt["witness"] = fmt.Sprintf("edge:%s:%s", node.Node, merkle.Hash(sha256.Sum256(f.canonical(e))))
	data["receipt"] = map[string]any(receipt)
	data["signature"] = map[string]any(signature(node.Key.(ed25519.PrivateKey), f.canonical(receipt)))
	f.change(i, e)
}

// bill adds to what a delivery is billed, in the row as well.
func (f *forgery) bill(e object, ms int64) {
	metering := e.in("data").in("metering")
	for _, r := range f.header.list("metering") {
		row := object(r.(map[string]any))
		if row["rightId"] == e.in("data")["rightId"] && row["substrate"] == e.in("data")["substrate"] &&
			row["basisId"] == e.in("data")["basisId"] && row["meteringBasis"] == metering["basis"] && row["reason"] == metering["reason"] {
			row.add("quantityMs", ms)
			metering.add("quantityMs", ms)
			return
		}
	}
}

// sign makes the signature lines of the header's checkpoint over any lines.
func (f *forgery) note(said string) []string {
	public := f.key.Public().(ed25519.PublicKey)
	second := f.Header.SealedAt.Unix()
	line := func(name string, kind byte, more, signed []byte) string {
		id := sha256.Sum256(slices.Concat([]byte(name), []byte{'\n', kind}, public))
		return fmt.Sprintf("— %s %s\n", name, base64.StdEncoding.EncodeToString(slices.Concat(id[:4], more, ed25519.Sign(f.key, signed))))
	}
	return []string{
		line(checkpoint.Origin(f.tenant), 1, nil, []byte(said)),
		line("muniment/sealed", 4, binary.BigEndian.AppendUint64(nil, uint64(second)), fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", second, said)),
	}
}

// flipped flips a bit of a signature line's signature.
func (f *forgery) flipped(line string) string {
	at := strings.LastIndexByte(line, ' ') + 1
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(line[at:]))
	require.NoError(f, err)
	raw[4+f.IntN(len(raw)-4)] ^= 1 << f.IntN(8)
	return line[:at] + base64.StdEncoding.EncodeToString(raw) + "\n"
}

// someDelivery is one of the deliveries, parsed, or false if there is none.
func (f *forgery) someDelivery() (int, object, bool) {
	for range 50 {
		i := f.IntN(len(f.events))
		if e := f.parse(f.events[i]); e["type"] == sealer.TypeDelivery {
			return i, e, true
		}
	}
	return 0, nil, false
}

// some is one of the objects in a list, nil if there is none.
func (f *forgery) some(list []any) object {
	if len(list) == 0 {
		return nil
	}
	return list[f.IntN(len(list))].(map[string]any)
}

// drop takes one out of a list.
func (f *forgery) drop(s object, name string) bool {
	list := s.list(name)
	if len(list) == 0 {
		return false
	}
	i := f.IntN(len(list))
	s[name] = slices.Delete(slices.Clone(list), i, i+1)
	return true
}

// amiss sets a member of an object, if there is one and it was not so before.
func amiss(o object, name string, value any) bool {
	if o == nil || fmt.Sprint(o[name]) == fmt.Sprint(value) {
		return false
	}
	o[name] = value
	return true
}
