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
	"golang.org/x/mod/sumdb/note"

	"muniment/sealer"
)

// A mutant is evidence that must not pass. Whoever spoils bytes has no key; a lie
// is told by the service itself and properly signed.

// next goes through the numbers below n, again and again, for each purpose. So that
// no lie is left out by chance.
func (s *service) next(purpose string, n int) int {
	s.turns[purpose]++
	return s.turns[purpose] % n
}

// spoil changes bytes without knowing what they mean.
func (s *service) spoil(text []byte) []byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	at, line, other := s.IntN(len(text)), s.IntN(len(lines)), s.IntN(len(lines))
	switch s.IntN(10) {
	case 0:
		return slices.Delete(slices.Clone(text), at, at+1)
	case 1:
		return slices.Insert(slices.Clone(text), at, text[s.IntN(len(text))])
	case 2:
		return text[:at]
	case 3:
		return append(slices.Clone(text), " \n{"[s.IntN(3)])
	case 4:
		return bytes.Join(slices.Delete(slices.Clone(lines), line, line+1), nil)
	case 5:
		return bytes.Join(slices.Insert(slices.Clone(lines), line, lines[other]), nil)
	case 6:
		swapped := slices.Clone(lines)
		swapped[line], swapped[other] = swapped[other], swapped[line]
		return bytes.Join(swapped, nil)
	case 7: // the same digit or letter, another one
		spoilt := slices.Clone(text)
		spoilt[at] = "0189AZaz-_+/=\"\\ "[s.IntN(16)]
		return spoilt
	}
	spoilt := slices.Clone(text)
	spoilt[at] ^= 1 << s.IntN(8)
	return spoilt
}

// notID spoils the form of an id.
func (s *service) notID(id string) string {
	return []string{
		id + "0", id[:len(id)-1], strings.ToLower(id), id[4:], "nod_" + id[4:], id[:4] + "8" + id[5:], id[:4] + "system2", id[:len(id)-1] + "U", id + "\n",
	}[s.next("not an id", 9)]
}

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
	text, err = sealer.Canonical(text)
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
	*pack
	header object
	key    ed25519.PrivateKey // that signs it
}

// stamp has the header's checkpoint say what the header says.
func (f *forgery) stamp(tenant string, key ed25519.PrivateKey) {
	root, err := sealer.ParseHash(f.header["rootHash"].(string))
	require.NoError(f, err)
	at, err := sealer.ParseTime(f.header["sealedAt"].(string))
	require.NoError(f, err)
	var size uint64
	_, err = fmt.Sscan(fmt.Sprint(f.header["treeSize"]), &size)
	require.NoError(f, err)
	f.header["checkpoint"], err = sealer.SignCheckpoint(sealer.Checkpoint{
		Origin: sealer.Origin(tenant), Size: size, Root: root, SealedAt: at.Truncate(time.Second),
	}, key)
	require.NoError(f, err)
}

// regrow builds the tree anew over changed entries, with all that follows from it.
func (f *forgery) regrow() {
	var leaves []sealer.Hash
	tree := f.before.Clone()
	for _, e := range f.events {
		leaves = append(leaves, sealer.LeafHash(e))
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
	receipt["witness"] = fmt.Sprintf("edge:%s:%s", node.Node, sealer.Hash(sha256.Sum256(f.canonical(e))))
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
		line(sealer.Origin(f.tenant), 1, nil, []byte(said)),
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

// checkpoints are lies in the checkpoint alone: its lines, and those of its signatures.
var checkpoints = []func(f *forgery, said string, lines []string) string{
	func(_ *forgery, said string, lines []string) string { return said + "\n" + lines[0] },
	func(_ *forgery, said string, lines []string) string { return said + "\n" + lines[1] },
	func(_ *forgery, said string, lines []string) string { return said + "\n" + lines[1] + lines[0] },
	func(_ *forgery, said string, lines []string) string {
		return said + "\n" + lines[0] + lines[0] + lines[1]
	},
	func(f *forgery, said string, lines []string) string {
		return said + "\n" + lines[0] + lines[1] + lines[f.IntN(2)]
	},
	func(f *forgery, said string, lines []string) string {
		witness := f.witness()
		return said + "\n" + lines[0] + lines[1] + witness + witness
	},
	func(f *forgery, said string, lines []string) string {
		witness := f.witness()
		return said + "\n" + lines[0] + lines[1] + witness + f.flipped(witness)
	},
	func(f *forgery, said string, lines []string) string {
		return said + "\n" + lines[0] + lines[1] + strings.Replace(f.witness(), "witness", "a\u2003witness", 1)
	},
	func(f *forgery, said string, lines []string) string {
		return said + "\n" + f.flipped(lines[0]) + lines[1]
	},
	func(f *forgery, said string, lines []string) string {
		return said + "\n" + lines[0] + f.flipped(lines[1])
	},
	func(_ *forgery, said string, lines []string) string {
		return said + "\n" + lines[0] + strings.Replace(lines[1], "sealed", "opened", 1)
	},
	func(_ *forgery, said string, lines []string) string {
		return said + "\n" + strings.ReplaceAll(lines[0]+lines[1], "—", "-")
	},
	func(_ *forgery, said string, lines []string) string {
		return said + "\n" + lines[0] + strings.TrimSuffix(lines[1], "\n")
	},
	func(f *forgery, said string, _ []string) string {
		said += "an extension\n"
		return said + "\n" + strings.Join(f.note(said), "")
	},
	func(f *forgery, said string, _ []string) string {
		said = strings.Replace(said, "\n", "\n0", 1)
		return said + "\n" + strings.Join(f.note(said), "")
	},
	func(f *forgery, said string, _ []string) string {
		said = strings.Replace(said, "=\n", "\n", 1)
		return said + "\n" + strings.Join(f.note(said), "")
	},
}

// some is one of the objects in a list, nil if there is none.
func (f *forgery) some(list []any) object {
	if len(list) == 0 {
		return nil
	}
	return list[f.IntN(len(list))].(map[string]any)
}

// newRule is a rule of this pack: what is said of an older one can't be told.
func (f *forgery) newRule(s object) object {
	for _, r := range s.list("rules") {
		if leaf, err := object(r.(map[string]any))["leaf"].(json.Number).Int64(); err == nil && leaf >= int64(f.before.Size()) {
			return r.(map[string]any)
		}
	}
	return nil
}

// amiss sets a member of an object, if there is one and it was not so before.
func amiss(o object, name string, value any) bool {
	if o == nil || fmt.Sprint(o[name]) == fmt.Sprint(value) {
		return false
	}
	o[name] = value
	return true
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

// settlements are lies about the settlement alone. The last can always be told.
var settlements = []func(f *forgery, s object) bool{
	func(f *forgery, s object) bool { return amiss(f.some(s.list("lines")), "amount", "0.000001") },
	func(f *forgery, s object) bool { return amiss(f.some(s.list("lines")), "amount", "1.0") },
	func(f *forgery, s object) bool { return amiss(f.some(s.list("lines")), "amount", 1) },
	func(f *forgery, s object) bool { return amiss(f.some(s.list("lines")), "rightId", "rgh_other") },
	func(f *forgery, s object) bool { return amiss(f.some(s.list("lines")), "ruleId", "rule_other") },
	func(f *forgery, s object) bool { return amiss(f.some(s.list("lines")), "meteringBasis", "audible") },
	func(f *forgery, s object) bool { return amiss(f.some(s.list("lines")), "quantityMs", 1) },
	func(f *forgery, s object) bool { return amiss(f.some(s.list("lines")), "receipts", 10_000) },
	func(f *forgery, s object) bool { return amiss(f.some(s.list("lines")), "currency", "EUR") },
	func(f *forgery, s object) bool {
		line := f.some(s.list("lines"))
		return line != nil && f.drop(line, "shares")
	},
	func(f *forgery, s object) bool {
		line := f.some(s.list("lines"))
		if line == nil {
			return false
		}
		was := line.list("shares")
		now := slices.Clone(was)
		slices.Reverse(now)
		return amiss(line, "shares", now)
	},
	func(f *forgery, s object) bool { return f.drop(s, "lines") },
	func(f *forgery, s object) bool {
		line := f.some(s.list("lines"))
		s["lines"] = append(s.list("lines"), any(map[string]any(line)))
		return line != nil
	},
	func(f *forgery, s object) bool {
		was := s.list("lines")
		now := slices.Clone(was)
		slices.Reverse(now)
		return amiss(s, "lines", now)
	},
	func(f *forgery, s object) bool { return f.drop(s, "unrated") },
	func(f *forgery, s object) bool { return amiss(f.some(s.list("unrated")), "reason", "OTHER") },
	func(f *forgery, s object) bool { return amiss(f.some(s.list("unrated")), "receipts", 10_000) },
	func(f *forgery, s object) bool { return amiss(f.some(s.list("unrated")), "quantityMs", 1) },
	func(f *forgery, s object) bool {
		return amiss(f.newRule(s), "leaf", f.before.Size()+uint64(len(f.events)))
	},
	func(f *forgery, s object) bool { return amiss(f.newRule(s), "rule", map[string]any{}) },
	func(f *forgery, s object) bool { return amiss(f.newRule(s), "rule", nil) },
	func(f *forgery, s object) bool {
		r := f.newRule(s)
		return r != nil && amiss(r.in("rule"), "unit", "HOUR")
	},
	func(f *forgery, s object) bool {
		r := f.newRule(s)
		return r != nil && amiss(r.in("rule"), "price", "1")
	},
	func(f *forgery, s object) bool {
		r := f.newRule(s)
		return r != nil && amiss(r.in("rule"), f.text(), "more")
	},
	func(f *forgery, s object) bool {
		r := f.newRule(s)
		s["rules"] = slices.DeleteFunc(s.list("rules"), func(other any) bool { return r != nil && other.(map[string]any)["leaf"] == r["leaf"] })
		return r != nil
	},
	func(f *forgery, s object) bool {
		list := s.list("rules")
		s["rules"] = append(list, list[0])
		return true
	},
	func(f *forgery, s object) bool {
		f.header["settlement"] = append(f.header.list("settlement"), map[string]any(s))
		return true
	},
	func(f *forgery, s object) bool { s["more"] = nil; return true },
	func(f *forgery, s object) bool { s["rules"] = []any{}; return true },
}

// badRule is the record of a rule that nobody can rate by.
func (s *service) badRule(rule object) {
	first := func() object { return rule.list("shares")[0].(map[string]any) }
	switch s.next("rule", 12) {
	case 0:
		rule["price"] = []string{"1.0", "01", "-1", "1e3", ".5", "0.0000000001", "9223372036.854775808", "", "٣"}[s.next("price", 9)]
	case 1:
		rule["currency"] = []string{"eur", "EU", "EURO", "", "É2"}[s.next("currency", 5)]
	case 2:
		rule["priority"] = []any{-1, 1_000_001, 0.5, "0"}[s.next("priority", 4)]
	case 3:
		first()["bps"] = 0
	case 4:
		first().add("bps", 1)
	case 5:
		rule["shares"] = append(rule.list("shares"), any(map[string]any(first())))
	case 6:
		rule["shares"] = []any{}
	case 7:
		rule["effectiveUntil"] = rule["effectiveFrom"]
	case 8:
		rule[[]string{"effectiveFrom", "createdAt", "updatedAt"}[s.next("time", 3)]] = []string{"1969-12-31T23:59:59.999Z", "2026-03-01T00:00:00Z", "0000-01-01T00:00:00.000Z"}[s.next("moment", 3)]
	case 9:
		rule["match"].(map[string]any)["rightId"] = ""
	case 10:
		delete(rule, "state")
	case 11:
		rule["revision"] = -1
	}
}

// lies are told in a pack with the key that seals packs. Each reports whether it
// could be told of this one.
var lies = []struct {
	name string
	tell func(f *forgery) bool
}{
	{"a row bills a millisecond more", func(f *forgery) bool {
		rows := f.header.list("metering")
		if len(rows) == 0 {
			return false
		}
		object(rows[f.IntN(len(rows))].(map[string]any)).add("quantityMs", 1)
		return true
	}},
	{"a row states other impressions", func(f *forgery) bool {
		rows := f.header.list("metering")
		if len(rows) == 0 {
			return false
		}
		row := object(rows[f.IntN(len(rows))].(map[string]any))
		was := row["impressions"].(string)
		n, err := sealer.ParseImpressions(was)
		require.NoError(f, err)
		row["impressions"] = []any{
			sealer.FormatImpressions(n + 1), sealer.FormatImpressions(n + sealer.Impression), was + "0", was + ".", "0" + was, "", "-" + was,
			"922337203685477.5808", n, nil,
		}[f.next("impressions", 10)]
		return row["impressions"] != was
	}},
	{"a row is missing", func(f *forgery) bool {
		rows := f.header.list("metering")
		if len(rows) == 0 {
			return false
		}
		i := f.IntN(len(rows))
		f.header["metering"] = slices.Delete(rows, i, i+1)
		return true
	}},
	{"a repetition is not listed", func(f *forgery) bool {
		list := f.header.list("duplicates")
		if len(list) == 0 {
			return false
		}
		i := f.IntN(len(list))
		f.header["duplicates"] = slices.Delete(list, i, i+1)
		return true
	}},
	{"a list of repetitions that contradicts itself, the rows or the entries", func(f *forgery) bool {
		list := f.header.list("duplicates")
		return len(list) > 0 && repetitions[f.next("repetitions", len(repetitions))](f, list)
	}},
	{"all is billed as a repetition", func(f *forgery) bool {
		list := []object{}
		for i := range f.events {
			if leaf := f.before.Size() + uint64(i); leaf > 0 {
				list = append(list, object{"first": leaf - 1, "leaf": leaf})
			}
		}
		was := f.header.list("duplicates")
		f.header["duplicates"] = list
		return len(list) > len(was)
	}},
	{"the proof has another hash", func(f *forgery) bool {
		list := f.header.list("consistency")
		if len(list) == 0 {
			return false
		}
		list[f.IntN(len(list))] = sealer.Hash(f.bytes(32)).String()
		return true
	}},
	{"the proof is too long", func(f *forgery) bool {
		f.header["consistency"] = append(f.header.list("consistency"), sealer.Hash(f.bytes(32)).String())
		return true
	}},
	{"another tree came before", func(f *forgery) bool {
		if f.header["previous"] == nil {
			return false
		}
		f.header.in("previous")["rootHash"] = sealer.Hash(f.bytes(32)).String()
		return true
	}},
	{"there is no pack before, or one before the first", func(f *forgery) bool {
		if f.header["previous"] != nil {
			f.header["previous"] = nil
		} else {
			f.header["previous"] = object{"headerHash": sealer.Hash{}.String(), "packId": f.id("ppk_", epoch), "rootHash": sealer.NewTree().Root().String(), "treeSize": 0}
		}
		return true
	}},
	{"another root", func(f *forgery) bool {
		f.header["rootHash"] = sealer.Hash(f.bytes(32)).String()
		f.stamp(f.tenant, f.key)
		return true
	}},
	{"a checkpoint by a stranger", func(f *forgery) bool {
		f.stamp(f.tenant, f.newKey())
		return true
	}},
	{"a checkpoint of another log", func(f *forgery) bool {
		f.stamp(f.id("tnt_", epoch), f.key)
		return true
	}},
	{"a checkpoint of another time", func(f *forgery) bool {
		f.header["sealedAt"] = sealer.FormatTime(f.Header.SealedAt.Add(-time.Second))
		return true
	}},
	{"another tenant", func(f *forgery) bool {
		other := f.id("tnt_", epoch)
		f.header["tenantId"] = other
		f.stamp(other, f.key)
		return true
	}},
	{"an id in no form", func(f *forgery) bool {
		switch f.next("id", 3) {
		case 0:
			f.header["packId"] = f.notID(f.header["packId"].(string))
		case 1:
			f.header["tenantId"] = f.notID(f.tenant)
		case 2:
			if f.header["previous"] == nil {
				return false
			}
			f.header.in("previous")["packId"] = f.notID(f.id("ppk_", epoch))
		}
		return true
	}},
	{"sealed before the key was valid", func(f *forgery) bool {
		f.header["sealedAt"] = sealer.FormatTime(epoch.Add(-time.Millisecond))
		f.stamp(f.tenant, f.key)
		return true
	}},
	{"sealed when the delegation of its directory had ended", func(f *forgery) bool {
		f.header["sealedAt"] = sealer.FormatTime(f.until.Add(time.Duration(f.IntN(2)) * time.Hour))
		f.stamp(f.tenant, f.key)
		return true
	}},
	{"sealed by a node", func(f *forgery) bool {
		f.key = f.nodes[0].Key.(ed25519.PrivateKey)
		f.header["signingKeyId"] = keyID(f.key)
		f.stamp(f.tenant, f.key)
		return true
	}},
	{"sealed by the sandbox, or out of it", func(f *forgery) bool {
		if f.Header.Metering == nil {
			return false // without receipts nothing is wrong with that
		}
		if f.key = f.sandbox; f.pack.sealing.Equal(f.sandbox) {
			f.key = f.service.sealing
		}
		f.header["signingKeyId"] = keyID(f.key)
		f.stamp(f.tenant, f.key)
		return true
	}},
	{"a directory under another root", func(f *forgery) bool {
		stranger := *f.service
		stranger.root, _ = f.rootKey("root.independent")
		f.header["directory"] = f.parse(stranger.directory(f.now))
		return true
	}},
	{"a directory that nobody signed", func(f *forgery) bool {
		f.header.in("directory")["snapshotId"] = "another"
		return true
	}},
	{"a settlement", func(f *forgery) bool {
		f.header["settlement"] = []any{object{}}
		return true
	}},
	{"a settlement of something else", func(f *forgery) bool {
		if len(f.header.list("settlement")) == 0 {
			return false
		}
		for !settlements[f.next("settlement", len(settlements))](f, f.header.list("settlement")[0].(map[string]any)) {
		}
		return true
	}},
	{"a rule that is none, and is told alike", func(f *forgery) bool {
		if len(f.header.list("settlement")) == 0 {
			return false
		}
		s := object(f.header.list("settlement")[0].(map[string]any))
		r := f.newRule(s)
		if r == nil {
			return false
		}
		leaf, err := r["leaf"].(json.Number).Int64()
		require.NoError(f, err)
		f.badRule(r.in("rule"))
		i := int(leaf - int64(f.before.Size()))
		e := f.parse(f.events[i])
		e["data"] = r["rule"]
		f.change(i, e)
		return true
	}},
	{"a rule is not what was settled by", func(f *forgery) bool {
		for i, event := range f.events {
			if e := f.parse(event); strings.HasPrefix(e["type"].(string), "settlement_rule.") {
				e.in("data").add("priority", 1)
				f.change(i, e)
				return true
			}
		}
		return false
	}},
	{"a member that is not in the manual", func(f *forgery) bool {
		f.header[f.text()] = nil
		return true
	}},
	{"an entry stands there twice", func(f *forgery) bool {
		i := f.IntN(len(f.events))
		f.events = slices.Insert(slices.Clone(f.events), f.IntN(len(f.events)), f.events[i])
		f.regrow()
		return true
	}},
	{"an entry is of after the seal", func(f *forgery) bool {
		f.now = f.now.Add(time.Minute)
		f.events = append(f.events, f.notice())
		f.regrow()
		return true
	}},
	{"an entry is of another tenant", func(f *forgery) bool {
		i := f.IntN(len(f.events))
		e := f.parse(f.events[i])
		e["tenantId"] = f.id("tnt_", epoch)
		f.change(i, e)
		return true
	}},
	{"a receipt states another dwell", func(f *forgery) bool {
		i, e, ok := f.someDelivery()
		if ok {
			e.in("data")["receipt"].(map[string]any)["dwellMs"] = 60_000.5
			f.change(i, e)
		}
		return ok
	}},
	{"a receipt has the signature of nobody", func(f *forgery) bool {
		i, e, ok := f.someDelivery()
		if ok {
			key := f.nodes[f.IntN(len(f.nodes))].Key.(ed25519.PrivateKey)
			e.in("data")["signature"] = signature(key, f.bytes(32))
			f.change(i, e)
		}
		return ok
	}},
	{"a delivery is moved under another right", func(f *forgery) bool {
		i, e, ok := f.someDelivery()
		if ok {
			e.in("data")["rightId"] = "rgh_other"
			e.in("subject")["id"] = "rgh_other"
			f.change(i, e)
		}
		return ok
	}},
	{"a delivery loses what tells its duplicates", func(f *forgery) bool {
		i, e, ok := f.someDelivery()
		if ok && (e.in("data")["idempotency"] != nil || e.in("data")["identity"] != nil) {
			delete(e.in("data"), "idempotency")
			delete(e.in("data"), "identity")
			f.change(i, e)
			return true
		}
		return false
	}},
	{"a delivery has another actor", func(f *forgery) bool {
		i, e, ok := f.someDelivery()
		if ok {
			e.in("actor")["id"] = "key_other"
			f.change(i, e)
		}
		return ok
	}},
	{"a delivery has another id of the same moment", func(f *forgery) bool {
		i, e, ok := f.someDelivery()
		if ok {
			at, err := sealer.ParseTime(e["at"].(string))
			require.NoError(f, err)
			e["eventId"] = f.id("evt_", at)
			f.change(i, e)
		}
		return ok
	}},
	{"a checkpoint in another form, or half signed", func(f *forgery) bool {
		said, _, _ := strings.Cut(f.header["checkpoint"].(string), "\n\n")
		said += "\n"
		f.header["checkpoint"] = checkpoints[f.next("checkpoints", len(checkpoints))](f, said, f.note(said))
		return true
	}},
	{"another pack before", func(f *forgery) bool {
		if f.header["previous"] == nil {
			return false
		}
		f.header.in("previous").add("treeSize", 1)
		return true
	}},
	{"another size", func(f *forgery) bool {
		f.header.add("treeSize", 1)
		f.stamp(f.tenant, f.key)
		return true
	}},
	{"a pack of nothing", func(f *forgery) bool {
		f.events = nil
		f.header["metering"], f.header["duplicates"] = []any{}, []any{}
		f.regrow()
		return true
	}},
	{"the node bills more than the dwell", func(f *forgery) bool {
		i, e, ok := f.someDelivery()
		if ok {
			was := string(f.canonical(e))
			f.bill(e, 1)
			ok = was != string(f.canonical(e))
		}
		if ok {
			f.retell(i, e)
		}
		return ok
	}},
	{"the node contradicts itself", func(f *forgery) bool {
		i, e, ok := f.someDelivery()
		if !ok {
			return false
		}
		data, metering, receipt := e.in("data"), e.in("data").in("metering"), e.in("data").in("receipt")
		at, err := sealer.ParseTime(e["at"].(string))
		require.NoError(f, err)
		for {
			switch f.next("contradiction", 15) {
			case 0:
				receipt["renderedAt"] = sealer.FormatTime(at.Add(time.Millisecond))
			case 1:
				receipt["receiptId"] = f.id("rcp_", at)
			case 2:
				other := f.id("", at.Add(time.Millisecond))
				receipt["receiptId"], e["eventId"] = "rcp_"+other, "evt_"+other
			case 3:
				receipt["nonce"] = base64.RawURLEncoding.EncodeToString(f.bytes(15))
			case 4:
				if metering["metered"] == true {
					continue // the quantity tells that as well
				}
				receipt["dwellMs"] = []any{-1, sealer.MaxDwellMs + 1, "1"}[f.next("dwell", 3)]
			case 5:
				e.in("subject")["id"] = "rgh_other"
			case 6:
				e.in("subject")["kind"] = "basis"
			case 7:
				metering["reasons"] = append(metering["reasons"].([]any), "ANOTHER")
				if metering["metered"] == false {
					slices.Reverse(metering["reasons"].([]any))
				}
			case 8:
				metering["metered"] = metering["metered"] == false
			case 9:
				receipt["issuedAt"] = sealer.FormatTime(at.Add(time.Millisecond))
			case 10:
				data["rightRevision"] = -1
			case 11:
				receipt["version"] = "2"
			case 12:
				data["multiplier"] = []any{"0", "-1", "+1", "1.0", ".5", "01", "1e3", "0.00001", "10000.0001", "", 1, nil}[f.next("multiplier", 12)]
			case 13:
				delete(data, "idempotency")
				hash := f.hash()
				data["identity"] = []any{
					object{"hash": hash, "day": "2026-02-30"}, object{"hash": hash, "day": "2026-2-03"}, object{"hash": hash, "day": "20260203"},
					object{"hash": hash, "day": "2026-W06-2"}, object{"hash": hash, "day": "0000-02-03"}, object{"hash": hash, "day": ""}, object{"hash": hash, "day": nil},
					object{"hash": hash[1:]}, object{"hash": hash + "="}, object{"day": "2026-02-03"}, object{"hash": hash, "id": "1"}, object{}, hash, nil,
				}[f.next("identity", 14)]
			case 14:
				data["idempotency"], data["identity"] = f.hash(), object{"hash": f.hash()}
			}
			f.retell(i, e)
			return true
		}
	}},
	{"the witness is of no form", func(f *forgery) bool {
		i, e, ok := f.someDelivery()
		if ok {
			receipt := e.in("data").in("receipt")
			hash := receipt["witness"].(string)
			receipt["witness"] = []string{"edge:", "edge", "", "node:n:"}[f.next("witness", 4)] + hash[strings.LastIndexByte(hash, ':')+1:]
			data := e.in("data")
			node := f.signers[slices.IndexFunc(f.signers, func(s *sealer.Signer) bool { return s.KeyID == data.in("signature")["keyId"] })]
			data["signature"] = map[string]any(signature(node.Key.(ed25519.PrivateKey), f.canonical(receipt)))
			f.change(i, e)
		}
		return ok
	}},
	{"a notice in another form", func(f *forgery) bool {
		for i, event := range f.events {
			if e := f.parse(event); e["type"] != sealer.TypeDelivery {
				at, err := sealer.ParseTime(e["at"].(string))
				require.NoError(f, err)
				switch f.next("notice", 6) {
				case 0:
					e["eventId"] = f.id("evt_", at.Add(time.Millisecond))
				case 1:
					e["eventId"] = f.id("rcp_", at)
				case 2:
					e["at"] = "2026-02-30T00:00:00.000Z"
				case 3:
					e["v"] = 2
				case 4:
					e["privateCommitment"] = base64.RawURLEncoding.EncodeToString(f.bytes(31))
				case 5:
					e["type"] = ""
				}
				f.change(i, e)
				return true
			}
		}
		return false
	}},
	{"a delivery of another moment", func(f *forgery) bool {
		i, e, ok := f.someDelivery()
		if ok {
			e["at"] = sealer.FormatTime(f.now.Add(time.Hour))
			f.change(i, e)
		}
		return ok
	}},
}

// lie tells one of the lies about a pack, as a bundle.
func (s *service) lie(p *pack) (name string, text []byte) {
	for {
		lie := lies[s.next("lie", len(lies))]
		copied := *p
		copied.events = slices.Clone(p.events)
		f := &forgery{pack: &copied, header: s.parse(p.HeaderText), key: p.sealing}
		if !lie.tell(f) {
			continue
		}
		header := s.canonical(f.header)
		var b bytes.Buffer
		fmt.Fprintf(&b, "%s\n", header)
		for _, e := range f.events {
			fmt.Fprintf(&b, "%s\n", e)
		}
		fmt.Fprintf(&b, "%s\n", s.canonical(object{"signature": signature(f.key, header)}))
		return "lie: " + lie.name, b.Bytes()
	}
}

// badDirectory is a directory with a fault, signed by the directory's own key.
func (s *service) badDirectory(good []byte) (name string, text []byte) {
	d := s.parse(good)
	keys := d.list("keys")
	one := object(keys[s.IntN(len(keys))].(map[string]any))
	officer := object(keys[0].(map[string]any))
	key := s.officer
	until, to := epoch.Add(time.Minute), s.officer.Public().(ed25519.PublicKey)
	faults := []struct {
		name string
		make func()
	}{
		{"another id", func() { one["keyId"] = keyID(s.newKey()) }},
		{"a key twice", func() { d["keys"] = append(keys, one) }},
		{"no keys", func() { d["keys"] = []any{} }},
		{"the directory key is revoked", func() { officer["revokedAt"] = "2030-01-01T00:00:00.000Z" }},
		{"the directory key is for packs", func() { officer["purpose"] = sealer.PurposePack }},
		{"issued before the directory key was valid", func() { d["issuedAt"] = sealer.FormatTime(epoch.Add(-1e6)) }},
		{"issued after the directory key was", func() { officer["notAfter"] = sealer.FormatTime(until) }},
		{"signed by a key without delegation", func() { key = s.sealing }},
		{"delegated to by another root", func() {
			root, _ := s.rootKey("root.independent")
			d["delegation"], _ = sealer.Delegate(root, to, epoch, s.until)
		}},
		{"delegated to another key", func() {
			d["delegation"], _ = sealer.Delegate(s.root, s.sealing.Public().(ed25519.PublicKey), epoch, s.until)
		}},
		{"delegated to for a time that is over", func() {
			d["delegation"], _ = sealer.Delegate(s.root, to, epoch, until)
		}},
		{"issued when its delegation had ended", func() { d["issuedAt"] = sealer.FormatTime(s.until) }},
		{"a delegation in another form, or spoilt", func() {
			said, err := sealer.Delegate(s.root, to, epoch, s.until)
			require.NoError(s, err)
			said, _, _ = strings.Cut(said, "\n\n")
			lines := strings.Split(said, "\n")
			spoil := []func() string{
				func() string { return said + "\nmore" },
				func() string {
					return strings.Join(slices.Replace(slices.Clone(lines), 0, 1, "muniment/directory-key.v2"), "\n")
				},
				func() string { return strings.Join(slices.Replace(slices.Clone(lines), 1, 2, keyID(s.sealing)), "\n") },
				func() string { return strings.Join(slices.Replace(slices.Clone(lines), 3, 4, "-"), "\n") },
				func() string { return strings.Join(slices.Replace(slices.Clone(lines), 4, 5, "never"), "\n") },
				func() string { return strings.Join(slices.Replace(slices.Clone(lines), 4, 5, "-"), "\n") },
				func() string { return strings.Join(slices.Replace(slices.Clone(lines), 4, 5, lines[3]), "\n") },
				func() string {
					return strings.Join(slices.Replace(slices.Clone(lines), 3, 5, lines[4], lines[3]), "\n")
				},
				func() string { return strings.Join(lines[:4], "\n") },
			}[s.next("delegation", 9)]()
			text, err := note.Sign(&note.Note{Text: spoil + "\n"}, s.root)
			require.NoError(s, err)
			d["delegation"] = string(text)
		}},
		{"a delegation whose signature is spoilt", func() {
			said := d["delegation"].(string)
			f := &forgery{pack: &pack{log: &log{service: s}}}
			at := strings.LastIndex(said, "— ")
			d["delegation"] = said[:at] + f.flipped(said[at:])
		}},
		{"a delegation under another name", func() {
			d["delegation"] = strings.Replace(d["delegation"].(string), "— root.independent", "— root.dependent", 1)
		}},
		{"a delegation with another key's hash", func() {
			said := d["delegation"].(string)
			at := strings.LastIndexByte(said, ' ') + 1
			raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(said[at:]))
			require.NoError(s, err)
			raw[s.IntN(4)]++
			d["delegation"] = said[:at] + base64.StdEncoding.EncodeToString(raw) + "\n"
		}},
		{"another algorithm", func() { one["algorithm"] = "ed448" }},
		{"a time without a zone", func() { one["notBefore"] = "2026-03-01T00:00:00.000" }},
		{"a time with an offset", func() { one["notBefore"] = "2026-03-01T00:00:00.000+00:00" }},
	}
	fault := faults[s.next("directory", len(faults))]
	fault.make()
	delete(d, "signature")
	d["signature"] = signature(key, s.canonical(d))
	return "directory: " + fault.name, s.canonical(d)
}

// badReceipt is an answer that is not what the node has given. It returns nil if
// by chance it is.
func (s *service) badReceipt(event []byte) []byte {
	good := s.answer(event)
	parts, err := sealer.SplitDelivery(event)
	require.NoError(s, err)
	part := [][]byte{parts.Receipt, parts.Signature}[s.IntN(2)]
	bad := bytes.Replace(good, part, s.spoil(part), 1)
	if same := func(text []byte) []byte {
		var answer struct {
			Data struct{ Receipt, Signature any }
		}
		if json.Unmarshal(text, &answer) != nil {
			return nil
		}
		return s.canonical([]any{answer.Data.Receipt, answer.Data.Signature})
	}; bytes.Equal(same(good), same(bad)) {
		return nil
	}
	return bad
}
