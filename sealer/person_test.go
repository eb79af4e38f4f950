package sealer

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

// TestPersonIn: a text names a person by the whole reference, and by nothing else.
func TestPersonIn(t *testing.T) {
	for _, c := range []struct {
		person   string
		in       []string
		notIn    []string
		sameAs   []string
		differs  []string
		fragment string
	}{
		{
			person: "31", in: []string{"31", "about 31.", "(31)", "31, 32", "31's", "31/32", "#31", "a.b 31", ".31", "31..", "at 31:", "of\n31\n"},
			notIn:   []string{"", "key_01M31", "131", "313", "3 1", "31-a", "a-31", "31_", "@31", "31@x", "+31", "31+", "1.31", "31.5", "31x", "é31", "31é", "٣31", "31\u0301"},
			differs: []string{"", "31 ", "031"}, fragment: "31",
		},
		{
			person: "a@example.org", in: []string{"mail a@example.org.", "A@Example.ORG", "<a@example.org>", "a@example.org, b", `"a@example.org"`, `\u0061@example.org`, `{\"to\":\"a@example.org\"}`, "a@example.org\\n"},
			notIn:  []string{"b+a@example.org", "aa@example.org", "a@example.org.uk", "x.a@example.org", "a@example.orgs", "a-a@example.org", "a@exampleXorg"},
			sameAs: []string{"A@EXAMPLE.org"}, differs: []string{"a@example.com"}, fragment: "@",
		},
		{person: "Ada", in: []string{"to Ada."}, notIn: []string{"ada", "ADA", "Adam"}, differs: []string{"ada"}, fragment: "Ada"},
		{person: "a b", in: []string{"see a b now"}, notIn: []string{"a  b", "ba b", "a bc"}, fragment: "a b"},
		{person: "example.org", in: []string{"at example.org."}, notIn: []string{"a@example.org", "www.example.org"}, fragment: "example.org"},
		{person: "Jos\u00e9", in: []string{"of Jose\u0301!", "Jos\u00e9"}, notIn: []string{"Jose", "Jos\u00e9e", "jos\u00e9"}, sameAs: []string{"Jose\u0301"}, differs: []string{"Jose"}, fragment: "Jos"},
		{person: "Jose\u0301", in: []string{"of Jos\u00e9"}, sameAs: []string{"Jos\u00e9"}, fragment: "Jos"},
		{person: "e", in: []string{"e"}, notIn: []string{"e\u0301", "\u00e9", "be"}, fragment: "e"},
		{person: "🙂", in: []string{"🙂", "so 🙂🙂!", ".🙂."}, notIn: []string{"x🙂", "🙂x", "🙂\u200d💻"}},
		{person: "👍", in: []string{"👍"}, notIn: []string{"👍🏽"}},
		{person: ".*", in: []string{".*", "is .* a pattern"}, notIn: []string{"anything"}, fragment: ".*"},
		{person: "a.", in: []string{"a.", "a. b"}, notIn: []string{"a.b"}, fragment: "a."},
		{person: "kK;`", in: []string{"k\u212a\u037e\u1fef"}, fragment: "k"},
		{person: `C:\new`, in: []string{`C:\new`, `"C:\\new"`}, notIn: []string{"C:new"}, fragment: `C:\new`},
		{person: "ſ@x", in: []string{"s@x", "S@X"}, notIn: []string{"t@x"}, fragment: "@"},
		{person: "ſ\u0301@x", in: []string{"\u015b@x"}, sameAs: []string{"\u015a@x", "S\u0301@X"}, differs: []string{"s@x"}, fragment: "@"},
		{person: "", notIn: []string{"", " ", "a"}, differs: []string{"", "a"}},
	} {
		p := NewPerson(c.person)
		require.Equal(t, c.person != "", p.Is(c.person))
		require.Equal(t, c.fragment, p.Fragment(), c.person)
		for _, text := range append(c.in, c.sameAs...) {
			require.True(t, p.In(text), "%q in %q", c.person, text)
			require.True(t, strings.Contains(text, c.fragment) || strings.Contains(text, `\`), "%q has no %q", text, c.fragment)
		}
		for _, text := range c.notIn {
			require.False(t, p.In(text), "%q in %q", c.person, text)
		}
		for _, reference := range c.sameAs {
			require.True(t, p.Is(reference), reference)
			require.Equal(t, p, NewPerson(reference))
		}
		for _, reference := range c.differs {
			require.False(t, p.Is(reference), reference)
		}
	}
}

// TestPersonFragment: a text that names a person has the fragment and matches the pattern, in whatever
// form it is written.
func TestPersonFragment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		reference := rapid.StringOf(rapid.RuneFrom([]rune("aAkKsS1@.;`-_ éeſ\u0301\u212a\u037e\u1fefÅ🙂"))).Draw(t, "reference")
		p := NewPerson(reference)
		text := rapid.SampledFrom([]norm.Form{norm.NFC, norm.NFD}).Draw(t, "form").String(reference)
		if strings.Contains(reference, "@") {
			text = rapid.SampledFrom([]func(string) string{strings.ToUpper, strings.ToLower, strings.Clone}).Draw(t, "case")(text)
		}
		text = rapid.SampledFrom([]string{"", " ", "é", "a ", "x.", "..", "\n", "(", "\u0301"}).Draw(t, "before") + text + rapid.SampledFrom([]string{"", " ", ".", ".x", ". ", "b", "\u0301"}).Draw(t, "behind")
		if p.In(text) {
			require.Contains(t, text, p.Fragment())
			require.Regexp(t, p.Pattern(), text)
		}
		require.Equal(t, p.text, NewPerson(p.text).text)
	})
	for reference, text := range map[string]string{"a;b@x": "a\u037eb@x", "a`b@x": "a\u1fefb@x", "K@x": "\u212a@x"} { // which NFC makes the same
		p := NewPerson(reference)
		require.True(t, p.In(text))
		require.Regexp(t, p.Pattern(), text)
	}
}

// TestForgetTexts: a private part with a text that names an erased person goes, though it names others;
// names of members and other values name nobody.
func TestForgetTexts(t *testing.T) {
	is := func(reference string) bool { return reference == "ann" }
	for telemetry, stays := range map[string]bool{
		`{"a":[{"b":"seen by ann."}]}`: false, `{"ann":1,"b":"anna"}`: true, `{"a":[1,null,true,"bob"]}`: true,
	} {
		p := Private{AttentionMs: -1, DataSubjects: About("ann", "bob"), Telemetry: []byte(telemetry)}
		text := AppendPrivate(nil, &p)
		left, err := Forget(text, is)
		require.NoError(t, err)
		require.Equal(t, stays, len(left) > 0, telemetry)
		out, err := LeaveOut(text, is)
		require.NoError(t, err)
		require.Equal(t, []string{"bob"}, DataSubjects(out))
		require.NoError(t, CheckPrivate(out, p.Commitment()))
	}
}

// TestReferences are exactly those that In finds.
func TestReferences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runes := rapid.StringOf(rapid.RuneFrom([]rune("aAkS1@.;-_ \\\"u006éſ\u0301\u212a🙂\u200d")))
		reference, text := rapid.StringMatching(`[a@. 1é]{1,6}`).Draw(t, "reference"), runes.Draw(t, "text")+"\xff"[:rapid.IntRange(0, 1).Draw(t, "invalid")]
		if rapid.Bool().Draw(t, "named") {
			text += reference + runes.Draw(t, "behind")
		}
		p, found := NewPerson(reference), false
		all := References(text, func(named string) bool {
			require.Equal(t, named, NewPerson(named).String())
			require.True(t, NewPerson(named).In(text), "%q in %q", named, text)
			found = found || named == p.String()
			return true
		})
		require.Equal(t, p.In(text), found)
		require.True(t, all)
	})
	var some []string
	require.True(t, References("a b", func(named string) bool {
		some = append(some, named)
		return len(some) < 2
	}))
	require.Equal(t, []string{"a", "a b"}, some)
	prose, hostile, n := strings.Repeat("some words, ", 170), strings.Repeat(".", 3000), 0
	long := func(named string) bool {
		require.LessOrEqual(t, len(named), maxReference)
		n++
		return true
	}
	require.True(t, References(prose, long), "2 KiB of prose")
	n = 0
	require.False(t, References(hostile, long))
	require.Equal(t, maxReferences, n)
}

// TestNotes: a note that names a person goes alone, or is shown alone; the commitment stays that of the rest.
func TestNotes(t *testing.T) {
	notes, err := NotesOf(map[string]any{"b": "seen by ann.", "a": map[string]any{"x": []string{"eve"}, "ann": 1}, "c": "anna"})
	require.NoError(t, err)
	for _, value := range []any{"a", map[string]any{"a": 1}, map[string]any{"": "a"}, map[string]any{"a": nil}} {
		_, err := NotesOf(value)
		require.Error(t, err, "%v", value)
	}
	p := Private{AttentionMs: -1, Notes: notes}
	require.NoError(t, p.DrawSalts(rand.Reader))
	require.NotEqual(t, p.Notes[0].Salt, p.Notes[1].Salt)
	whole, ann := AppendPrivate(nil, &p), NewPerson("ann")
	names := func(private []byte) (left []string) {
		require.NoError(t, CheckPrivate(private, p.Commitment()))
		q, err := ParsePrivate(private)
		require.NoError(t, err)
		for _, n := range q.Notes {
			if n.Text != "" {
				left = append(left, n.Name)
			}
		}
		require.Len(t, NoteHashes(private), len(left))
		return left
	}
	require.Equal(t, []string{"a", "b", "c"}, names(whole))
	left, err := ForgetNotes(whole, ann.In)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "c"}, names(left))
	again, err := ForgetNotes(left, ann.In)
	require.NoError(t, err)
	require.Equal(t, left, again)
	for person, want := range map[string][]string{"ann": {"b"}, "eve": {"a"}, "x": nil} {
		about, err := NotesAbout(whole, NewPerson(person))
		require.NoError(t, err)
		require.Equal(t, want == nil, about == nil)
		if want != nil {
			require.Equal(t, want, names(about))
		}
	}
	nothing, err := ForgetNotes(whole, func(string) bool { return true })
	require.NoError(t, err)
	require.Nil(t, nothing)

	p.DataSubjects = About("ann", "bob")
	some, err := Forget(AppendPrivate(nil, &p), ann.Is)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "c"}, names(some), "of a person who is erased, too")
	p.DataSubjects = About("bob")
	some, err = ForgetNotes(AppendPrivate(nil, &p), func(string) bool { return true })
	require.NoError(t, err)
	require.Equal(t, []string{"bob"}, DataSubjects(some))
	require.Empty(t, names(some))
}
