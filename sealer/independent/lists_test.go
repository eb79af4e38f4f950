//go:build independent

package independent_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/verify"
)

// judgeLists has verify.py read lists of keys, and judge a file by each that it takes: a
// line holds both names, the answer what is wrong with the list, or else with the file.
const judgeLists = `
import sys, verify
for line in sys.stdin:
    by, name = line.rstrip("\n").split("\t")
    try:
        with open(by, "rb") as f:
            listed = verify.listed_keys(f.read())
    except (verify.Bad, ValueError, ArithmeticError, RecursionError) as wrong:
        print("no list:", ascii(str(wrong)))
        continue
    print(verify.verify([name], None, listed)[0].code or "ok")
`

// node is a JSON value whose objects keep the order of their members, which may be there
// twice: a list of nodes, of members, or a text as it stands in the JSON.
type node struct {
	open     string // "{" or "[", empty for a text
	names    []string
	children []*node
	text     string
}

func leaf(text string) *node { return &node{text: text} }

func (n *node) write(b *bytes.Buffer, space func() string) {
	if n.open == "" {
		b.WriteString(n.text)
		return
	}
	b.WriteString(n.open + space())
	for i, child := range n.children {
		if i > 0 {
			b.WriteString("," + space())
		}
		if n.open == "{" {
			b.WriteString(n.names[i] + space() + ":" + space())
		}
		child.write(b, space)
		b.WriteString(space())
	}
	b.WriteString(map[string]string{"{": "}", "[": "]"}[n.open])
}

func (s *service) tree(v any) *node {
	switch v := v.(type) {
	case map[string]any:
		n := &node{open: "{"}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			n.names, n.children = append(n.names, string(s.canonical(name))), append(n.children, s.tree(v[name]))
		}
		return n
	case []any:
		n := &node{open: "["}
		for _, e := range v {
			n.children = append(n.children, s.tree(e))
		}
		return n
	}
	return leaf(string(s.canonical(v)))
}

// places are all nodes, by their JSON pointers.
func (n *node) places(at string, all map[string]*node) map[string]*node {
	all[at] = n
	for i, child := range n.children {
		name := fmt.Sprint(i)
		if n.open == "{" {
			name, _ = strconv.Unquote(n.names[i])
		}
		child.places(at+"/"+name, all)
	}
	return all
}

// others are what may stand in the place of a value, but for its own kind.
func others(text string) []string {
	list := []string{"null", "true", "false", "0", "1", "-1.5e3", `""`, `" "`, `"x"`, "{}", "[]", `[""]`, "NaN", "Infinity", "1e999",
		`"\ud800"`, `"\u0000"`, "\"\x01\"", "\"\xff\"", `"ä"`, strings.Repeat("9", 5000), strings.Repeat("[", 20_000)}
	if said, err := strconv.Unquote(text); err == nil && said != "" {
		for _, other := range []string{
			said + " ", " " + said, said + `\n`, said[:len(said)-1], said + "0", said + "=", strings.ToUpper(said), strings.ToLower(said) + "A",
			strings.Replace(said, ".000Z", "Z", 1), strings.Replace(said, ".000Z", ",000Z", 1), strings.Replace(said, ".000Z", ".000+00:00", 1),
			strings.Replace(said, ".000Z", ".0000Z", 1), strings.Replace(said, ".000Z", ".000z", 1), strings.Replace(said, ".000Z", ".000", 1),
			strings.Replace(said, ".000Z", ".+00Z", 1), strings.Replace(said, ".000Z", ".-00Z", 1),
			strings.Replace(said, "T", " ", 1), strings.Replace(said, "T", "t", 1), strings.Replace(said, "2026-", "0000-", 1), strings.Replace(said, "2026-", "0001-", 1),
			strings.Replace(said, "2026-", "9999-", 1), strings.Replace(said, "2026-", "10000-", 1), strings.Replace(said, "2026-", "-2026-", 1), strings.Replace(said, "-03-01", "-02-29", 1),
			strings.Replace(said, "T00:", "T24:", 1), strings.Replace(said, "00.000", "60.000", 1), strings.Replace(said, "2026-03-01", "2026-W09-7", 1), strings.Replace(said, "2026", "２０２６", 1),
			strings.Replace(said, "-", "+", 1), strings.Replace(said, "_", "/", 1), strings.Replace(said, "-", "_", 1), `\u00` + fmt.Sprintf("%02x", said[0]) + said[1:],
			strings.Replace(said, "/", `\/`, 1), said[:1] + `\n` + said[1:],
		} {
			list = append(list, `"`+other+`"`)
		}
	}
	return list
}

// weakKeys are public keys of small order, with either sign, and one that is not reduced.
func weakKeys() (keys [][]byte) {
	for _, y := range []string{
		"0000000000000000000000000000000000000000000000000000000000000000",
		"0100000000000000000000000000000000000000000000000000000000000000",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
		"f0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	} {
		key, _ := hex.DecodeString(y)
		signed := slices.Clone(key)
		signed[31] |= 0x80
		keys = append(keys, key, signed)
	}
	return keys
}

// lists are lists of keys by what is done to them, with the place where that is, as far as
// it has one. Most are no lists any more.
func (s *service) lists() (texts, kinds, at []string) {
	add := func(kind, place string, text []byte) {
		texts, kinds, at = append(texts, string(text)), append(kinds, kind), append(at, place)
	}
	none := func() string { return "" }
	free := func() string { return []string{"", "", " ", "\n", "\t", "\r\n"}[s.IntN(6)] }
	written := func(n *node, space func() string) []byte {
		var b bytes.Buffer
		b.WriteString(space())
		n.write(&b, space)
		b.WriteString(space())
		return b.Bytes()
	}
	answer := []byte(s.runtimeKeys())
	data := s.canonical(s.parse(answer)["data"])
	directory := s.directory(epoch)
	for _, good := range [][]byte{answer, data} {
		grown := func() (*node, map[string]*node) {
			n := s.tree(map[string]any(s.parse(good)))
			return n, n.places("", map[string]*node{})
		}
		_, all := grown()
		for _, place := range slices.Sorted(maps.Keys(all)) {
			for i, text := range others(all[place].text) {
				n, places := grown()
				*places[place] = *leaf(text)
				// Another key would have another id.
				add(fmt.Sprintf("%s is %.40q, the %dth", place, text, i), strings.TrimSuffix(place, "/publicKey"), written(n, none))
			}
			for i, name := range all[place].names {
				said, err := strconv.Unquote(name)
				require.NoError(s, err)
				n, places := grown()
				places[place].names[i] = `"` + fmt.Sprintf(`\u%04x`, said[0]) + said[1:] + `"`
				add(name+" is escaped", "", written(n, free))
				n, places = grown()
				places[place].names = slices.Delete(places[place].names, i, i+1)
				places[place].children = slices.Delete(places[place].children, i, i+1)
				add(name+" is missing", place+"/"+said, written(n, none))
				for _, as := range []string{strings.ToUpper(said[:1]) + said[1:], said + " ", "", "é~/", `\ud83d`} {
					n, places = grown()
					places[place].names[i] = `"` + as + `"`
					add(name+" is named "+as, "", written(n, none))
				}
				for _, again := range []string{name, `"` + fmt.Sprintf(`\u%04x`, said[0]) + said[1:] + `"`} {
					n, places = grown()
					p := places[place]
					p.names, p.children = append(p.names, again), append(p.children, leaf([]string{"null", p.children[i].text, "{}"}[s.IntN(3)]))
					if p.children[len(p.children)-1].text == "" {
						p.children[len(p.children)-1] = p.children[i]
					}
					add(name+" is there twice", "", written(n, none))
				}
			}
			if all[place].open == "{" {
				for _, name := range []string{"more", "ok", "keys", "data", "delegation", "use", ""} {
					n, places := grown()
					p := places[place]
					if !slices.Contains(p.names, `"`+name+`"`) {
						p.names, p.children = append(p.names, `"`+name+`"`), append(p.children, leaf([]string{"null", "0", "true", `"x"`, "{}", "[]"}[s.IntN(6)]))
						add(fmt.Sprintf("%q in %s", name, place), "", written(n, none))
					}
				}
			}
			if all[place].open == "[" {
				for i := range all[place].children {
					n, places := grown()
					places[place].children = slices.Delete(places[place].children, i, i+1)
					add("a key is not there", "", written(n, none))
				}
				n, places := grown()
				p := places[place]
				p.children = append(p.children, p.children[s.IntN(len(p.children))])
				add("a key is there twice", fmt.Sprintf("%s/%d/keyId", place, len(p.children)-1), written(n, none))
			}
			n, places := grown()
			if p := places[place]; p.open != "" {
				s.Shuffle(len(p.children), func(i, j int) {
					p.children[i], p.children[j] = p.children[j], p.children[i]
					if p.open == "{" {
						p.names[i], p.names[j] = p.names[j], p.names[i]
					}
				})
			}
			add("another order, and spaces", "", written(n, free))
		}
	}
	for _, good := range [][]byte{answer, data, directory} {
		for _, tail := range []string{"", "\n", "\n\n", " ", "\t", "\r\n", "\v", "\f", "\u00a0", "\u0085", "\x00", "\ufeff", "{}", "null", ",", "}", "]", string(good), "\n" + string(data), "\n" + string(directory)} {
			text := strings.TrimSuffix(string(good), "\n")
			add(fmt.Sprintf("%.20q behind", tail), "", []byte(text+tail))
			add(fmt.Sprintf("%.20q before", tail), "", []byte(tail+text))
		}
		for _, around := range []string{"[%s]", "[%[1]s,%[1]s]", `{"ok":true,"data":%s,"contractVersion":"ws30.v1"}`, `{"ok":true,"data":%s}`, `{"data":%s}`, `{"ok":true,"data":[%s],"contractVersion":"ws30.v1"}`, `"%s"`} {
			add(around, "", fmt.Appendf(nil, around, good))
		}
	}
	for i, weak := range weakKeys() {
		k := keydir.NewKey(weak, keydir.PurposeSandbox, epoch)
		n := s.tree(map[string]any(s.parse(answer)))
		places := n.places("", map[string]*node{})
		*places["/data/keys/0/publicKey"], *places["/data/keys/0/keyId"] = *leaf(`"` + k.PublicKey + `"`), *leaf(`"` + k.KeyID + `"`)
		add(fmt.Sprintf("a key of small order, the %dth", i), "/data/keys/0/publicKey", written(n, none))
	}
	for range 3 * size(1000) {
		good := [][]byte{answer, data, directory}[s.IntN(3)]
		add("spoilt", "", s.spoil(good))
	}
	for range size(500) {
		name, text := s.badDirectory(directory)
		add(name, "", text)
	}
	for _, edit := range [][2]string{{`,"keys"`, `, "keys"`}, {`"signature"`, `"more":0,"signature"`}, {`"snapshotId":"`, `"snapshotId":"x`}, {`"value":"`, `"value":"A`}} {
		add("a directory with "+edit[1], "", bytes.Replace(directory, []byte(edit[0]), []byte(edit[1]), 1))
	}
	return texts, kinds, at
}

var pointer = regexp.MustCompile(`"((?:/[^"\\ ]*)?)": `)

// TestListsAlike changes lists of keys in every place, in all the ways in which readers of
// JSON are lenient. What one verifier takes for a list the other does, and judges a pack
// alike by it; and where a fault has a place, both name that.
func TestListsAlike(t *testing.T) {
	s := newService(t, "alike")
	f := newFolder(t, s)
	end := epoch.AddDate(1, 0, 0)
	node := s.key(keydir.PurposeSandbox)
	s.entry(node).NotAfter, s.entry(node).RevokedAt = &end, &end
	p := visitors(s, 1)[0]
	file := f.put(p.file)
	texts, kinds, at := s.lists()
	var in, out, complaints bytes.Buffer
	var names []string
	for _, text := range texts {
		names = append(names, f.put([]byte(text)))
		fmt.Fprintf(&in, "%s\t%s\n", names[len(names)-1], file)
	}
	cmd := python("-c", judgeLists)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, &complaints
	require.NoError(t, cmd.Run(), complaints.String())
	said := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Len(t, said, len(texts))

	disagree, count, placed := 0, map[string]int{}, 0
	for i, theirs := range said {
		var out bytes.Buffer
		exit := verify.Files(t.Context(), verify.Options{Files: []string{file}, Keys: names[i], JSON: true}, &out)
		var report verify.Report
		require.NoError(t, json.Unmarshal(out.Bytes(), &report))
		refused := report.Message != ""
		if refused {
			require.Equal(t, verify.ExitUnjudged, exit, out.String())
		}
		ours := "ok"
		for _, f := range report.Files {
			for _, v := range f.Verdicts {
				if !v.OK && (ours == "ok" || string(v.Code) == theirs) {
					ours = string(v.Code)
				}
			}
		}
		theirsRefused := strings.HasPrefix(theirs, "no list: ")
		switch {
		case refused != theirsRefused, !refused && ours != theirs:
			disagree++
			t.Errorf("%s: sealer: %s %q, verify.py: %s\n%s", kinds[i], ours, report.Message, theirs, texts[i])
		case !refused:
			count[ours]++
		default:
			count["no list"]++
			a, b := pointer.FindStringSubmatch(report.Message), pointer.FindStringSubmatch(theirs)
			if a != nil && b != nil {
				require.Equal(t, a[1], b[1], "%s: sealer: %s, verify.py: %s", kinds[i], report.Message, theirs)
				require.True(t, strings.HasPrefix(a[1], at[i]), "%s: %s", kinds[i], report.Message) // there, or in what stands there
				placed++
			}
		}
	}
	require.Zero(t, disagree)
	require.Positive(t, count["ok"])
	require.Positive(t, count[string(sealer.KeyUnknown)])
	t.Logf("%d lists, %v: both verifiers say the same of each; of %d both name the same place", len(texts), count, placed)
}
