//go:build independent

package independent_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/verify"
)

// detail is the answer about one receipt, with its event.
func (s *service) detail(event []byte, sealed string) []byte {
	parts, err := sealer.SplitDelivery(event)
	require.NoError(s, err)
	return fmt.Appendf(nil, `{"ok":true,"data":{"receipt":%s,"signature":%s,"event":%s,"position":"1.0.7","sealed":%s},"contractVersion":"v1.0"}`,
		parts.Receipt, parts.Signature, event, sealed)
}

// TestReceiptsAlike changes answers with a receipt in every place, in all the ways in which
// readers of JSON are lenient: both verifiers say the same of each, with the event at hand
// and without. Both remark a receipt that is in none of the packs.
func TestReceiptsAlike(t *testing.T) {
	s := newService(t, "receipts")
	f := newFolder(t, s)
	p := s.newLog().seal(8)
	pack, lacking, keys := f.put(p.file), f.put(s.newLog().seal(8).file), f.put(s.directory(epoch.AddDate(1, 0, 0)))
	at := slices.IndexFunc(p.events, func(e []byte) bool { _, err := sealer.SplitDelivery(e); return err == nil })
	require.GreaterOrEqual(t, at, 0)
	event := p.events[at]
	sealed := fmt.Sprintf(`{"packId":%q,"leafIndex":%d}`, p.Header.PackID, at)

	var kinds []string
	var sets [][]string
	add := func(kind string, text []byte) {
		file := f.put(text)
		kinds = append(kinds, kind, kind+", with its pack")
		sets = append(sets, []string{file, keys}, []string{file, pack})
	}
	answers := [][]byte{s.answer(event), s.detail(event, sealed), s.detail(event, "null")}
	for _, answer := range answers {
		add("as it was answered", answer)
		kinds, sets = append(kinds, "with a pack that lacks it"), append(sets, []string{f.put(answer), lacking})
		for _, good := range [][]byte{answer, s.canonical(s.parse(answer)["data"])} {
			for _, tail := range []string{"\n", " \t\r\n", "\v", "\x00", "{}", ",", "}", string(answer), "\ufeff"} {
				add(fmt.Sprintf("%.9q behind", tail), []byte(string(good)+tail))
				add(fmt.Sprintf("%.9q before", tail), []byte(tail+string(good)))
			}
			for name, text := range s.respelt(good) {
				add(name, text)
			}
		}
	}
	for _, around := range []string{
		`[%s]`, `{"data":%s}`, `{"ok":true,"data":%s}`, `{"ok":true,"data":%s,"contractVersion":"ws30.v1"}`, `{"ok":false,"data":%s,"contractVersion":"v1.0"}`,
		`{"ok":true,"data":{},"contractVersion":"v1.0","receipt":%s}`,
	} {
		add(around, fmt.Appendf(nil, around, s.canonical(s.parse(answers[0])["data"])))
	}
	add("too large", append(slices.Clone(answers[0]), bytes.Repeat([]byte(" "), 16<<20)...))

	count, alike := map[string]int{}, 0
	for i, theirs := range stranger(t, f.root, sets) {
		us, them := ours(t, f.root, sets[i])[0], theirs[0]
		text := f.begin(us.File)
		require.Equal(t, us.Verdict, them.Verdict, "%s: sealer: %v, verify.py: %v\n%s: %s", kinds[i], us.Codes, them.Codes, us.File, text)
		require.Equal(t, us.Unproven, them.Unproven, "%s: %s: %s", kinds[i], us.File, text)
		if !us.OK {
			count[string(us.Codes[0])]++
			if slices.Contains(us.Codes, them.Codes[0]) {
				alike++
			}
			continue
		}
		count["ok "+strings.Join(strings.Fields(fmt.Sprint(us.Unproven)), " ")]++
	}
	for _, code := range []sealer.Code{verify.FormatInvalid, sealer.EntryAltered, sealer.WitnessMismatch, sealer.SignatureInvalid} {
		require.Positive(t, count[string(code)], code)
	}
	require.Equal(t, len(answers), count["ok [receipt.uncovered receipt.unproven]"])
	t.Logf("%d sets, %v: both verifiers say the same of each; %d are bad for the same reason", len(sets), count, alike)
}

// respelt are texts with one place changed, by what was done.
func (s *service) respelt(good []byte) map[string][]byte {
	texts := map[string][]byte{}
	grown := func() (*node, map[string]*node) {
		n := s.tree(map[string]any(s.parse(good)))
		return n, n.places("", map[string]*node{})
	}
	write := func(name string, n *node) {
		var b bytes.Buffer
		n.write(&b, func() string { return []string{"", "", " ", "\n"}[s.IntN(4)] })
		texts[name] = b.Bytes()
	}
	_, all := grown()
	for place := range all {
		list := others(all[place].text)
		if all[place].open == "" && strings.Trim(all[place].text, "0123456789.") == "" {
			list = append(list, all[place].text+".0", all[place].text+"e0", all[place].text+"0E-1", "-"+all[place].text)
		}
		for range size(60) {
			other := list[s.IntN(len(list))]
			n, places := grown()
			*places[place] = *leaf(other)
			write(fmt.Sprintf("%s is %.40q", place, other), n)
		}
		for i, name := range all[place].names {
			n, places := grown()
			p := places[place]
			p.names, p.children = slices.Delete(p.names, i, i+1), slices.Delete(p.children, i, i+1)
			write(place+" lacks "+name, n)
			n, places = grown()
			p = places[place]
			p.names, p.children = append(p.names, name), append(p.children, []*node{leaf("null"), p.children[i]}[s.IntN(2)])
			write(place+" has "+name+" twice", n)
			n, places = grown()
			places[place].names[i] = `"` + fmt.Sprintf(`\u%04x`, name[1]) + name[2:]
			write(place+" has "+name+" escaped", n)
		}
		if all[place].open == "{" {
			for _, name := range []string{"more", "ok", "data", "receipt", "event", "error", "substrate", "position", ""} {
				n, places := grown()
				p := places[place]
				p.names, p.children = append(p.names, `"`+name+`"`), append(p.children, leaf([]string{"null", "true", `"x"`, "{}"}[s.IntN(4)]))
				write(fmt.Sprintf("%s has %q", place, name), n)
			}
		}
	}
	return texts
}
