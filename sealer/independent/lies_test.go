//go:build independent

package independent_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/merkle"
)

// lies change a pack, which is then signed with the key that seals packs. Each reports whether it
// is possible for this one.
var lies = []struct {
	name  string
	write func(f *forgery) bool
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
		list[f.IntN(len(list))] = merkle.Hash(f.bytes(32)).String()
		return true
	}},
	{"the proof is too long", func(f *forgery) bool {
		f.header["consistency"] = append(f.header.list("consistency"), merkle.Hash(f.bytes(32)).String())
		return true
	}},
	{"another tree came before", func(f *forgery) bool {
		if f.header["previous"] == nil {
			return false
		}
		f.header.in("previous")["rootHash"] = merkle.Hash(f.bytes(32)).String()
		return true
	}},
	{"there is no pack before, or one before the first", func(f *forgery) bool {
		if f.header["previous"] != nil {
			f.header["previous"] = nil
		} else {
			f.header["previous"] = object{"headerHash": merkle.Hash{}.String(), "packId": f.id("ppk_", epoch), "rootHash": merkle.NewTree().Root().String(), "treeSize": 0}
		}
		return true
	}},
	{"another root", func(f *forgery) bool {
		f.header["rootHash"] = merkle.Hash(f.bytes(32)).String()
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
		f.header["sealedAt"] = canonical.FormatTime(f.Header.SealedAt.Add(-time.Second))
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
			f.header["packId"] = notID(f.service, f.header["packId"].(string))
		case 1:
			f.header["tenantId"] = notID(f.service, f.tenant)
		case 2:
			if f.header["previous"] == nil {
				return false
			}
			f.header.in("previous")["packId"] = notID(f.service, f.id("ppk_", epoch))
		}
		return true
	}},
	{"sealed before the key was valid", func(f *forgery) bool {
		f.header["sealedAt"] = canonical.FormatTime(epoch.Add(-time.Millisecond))
		f.stamp(f.tenant, f.key)
		return true
	}},
	{"sealed when the delegation of its directory had ended", func(f *forgery) bool {
		f.header["sealedAt"] = canonical.FormatTime(f.until.Add(time.Duration(f.IntN(2)) * time.Hour))
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
		if f.key = f.sandbox; f.sealing.Equal(f.sandbox) {
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
	{"a directory without a valid signature", func(f *forgery) bool {
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
	{"an invalid rule, also in its event", func(f *forgery) bool {
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
		badRule(f.service, r.in("rule"))
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
	{"a receipt has a signature by no key", func(f *forgery) bool {
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
	{"a delivery loses its idempotency hash or identity", func(f *forgery) bool {
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
			at, err := canonical.ParseTime(e["at"].(string))
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
		at, err := canonical.ParseTime(e["at"].(string))
		require.NoError(f, err)
		for {
			switch f.next("contradiction", 18) {
			case 0:
				receipt["renderedAt"] = canonical.FormatTime(at.Add(time.Millisecond))
			case 1:
				receipt["receiptId"] = f.id("rcp_", at)
			case 2:
				other := f.id("", at.Add(time.Millisecond))
				receipt["receiptId"], e["eventId"] = "rcp_"+other, "evt_"+other
			case 3:
				receipt["nonce"] = base64.RawURLEncoding.EncodeToString(f.bytes(15))
			case 4:
				if metering["metered"] == true {
					continue // the quantity shows that as well
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
				receipt["issuedAt"] = canonical.FormatTime(at.Add(time.Millisecond))
			case 10:
				data["rightRevision"] = -1
			case 11:
				receipt["version"] = "2"
			case 12:
				metering["impressions"] = []any{"-1", "+1", "1.0", ".5", "01", "1e3", "0.00001", "10000.0001", "", 1, nil}[f.next("impressions", 11)]
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
			case 15:
				if metering["metered"] == true {
					metering["impressions"] = "0"
				} else {
					metering["impressions"] = "0.0001"
				}
			case 16:
				metering["completion"] = []any{"", "half", "COMPLETE", nil, 1}[f.next("completion", 5)]
			case 17:
				data["multiplier"] = "1"
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
				at, err := canonical.ParseTime(e["at"].(string))
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
			e["at"] = canonical.FormatTime(f.now.Add(time.Hour))
			f.change(i, e)
		}
		return ok
	}},
}

// lie is a pack with one of the lies, as a bundle.
func (s *service) lie(p *sealedPack) (name string, text []byte) {
	for {
		lie := lies[s.next("lie", len(lies))]
		copied := *p
		copied.events = slices.Clone(p.events)
		f := &forgery{sealedPack: &copied, header: s.parse(p.HeaderText), key: p.sealing}
		if !lie.write(f) {
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
