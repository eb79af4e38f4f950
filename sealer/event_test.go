package sealer_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/sealertest"
)

func TestEventRoundTrip(t *testing.T) {
	w := sealertest.NewWorld(t)
	name := rapid.StringN(1, 20, 60)
	rapid.Check(t, func(t *rapid.T) {
		e := sealer.Event{
			TenantID: name.Draw(t, "tenant"), Type: name.Draw(t, "type"), At: w.Now,
			Actor:   sealer.Ref{Kind: name.Draw(t, "actor kind"), ID: name.Draw(t, "actor id")},
			Subject: sealer.Ref{Kind: name.Draw(t, "subject kind"), ID: name.Draw(t, "subject id")},
		}
		e.EventID = w.ID("evt_")
		data, err := canonical.JSON(map[string]any{
			rapid.String().Draw(t, "key"): rapid.String().Draw(t, "value"),
			"n":                           rapid.Float64().Draw(t, "n"),
			"list":                        rapid.SliceOf(rapid.String()).Draw(t, "list"),
		})
		require.NoError(t, err)
		e.Data = data
		text, err := sealer.AppendEvent([]byte("x"), &e)
		require.NoError(t, err)
		text = text[1:]
		require.True(t, IsJSON(text))
		back, err := sealer.ParseEvent(text)
		require.NoError(t, err)
		require.Equal(t, e, back)
	})
}

func TestAppendEventRefuses(t *testing.T) {
	w := sealertest.NewWorld(t)
	good, err := sealer.ParseEvent(w.Note("right.revoked"))
	require.NoError(t, err)
	for name, spoil := range map[string]func(*sealer.Event){
		"id":               func(e *sealer.Event) { e.EventID = "evt_1" },
		"id of other time": func(e *sealer.Event) { e.At = e.At.Add(1e6) },
		"tenant":           func(e *sealer.Event) { e.TenantID = "" },
		"tenant of bytes":  func(e *sealer.Event) { e.TenantID = "\xff" },
		"type":             func(e *sealer.Event) { e.Type = "" },
		"actor":            func(e *sealer.Event) { e.Actor.ID = "" },
		"subject":          func(e *sealer.Event) { e.Subject.Kind = "" },
		"no data":          func(e *sealer.Event) { e.Data = nil },
		"data no object":   func(e *sealer.Event) { e.Data = []byte(`[]`) },
		"data spaced":      func(e *sealer.Event) { e.Data = []byte(`{"a": 1}`) },
		"data huge number": func(e *sealer.Event) { e.Data = []byte(`{"a":1e400}`) },
		"data twice":       func(e *sealer.Event) { e.Data = []byte(`{"a":1,"a":1}`) },
		"two objects":      func(e *sealer.Event) { e.Data = []byte(`{}{}`) },
		"commitment":       func(e *sealer.Event) { e.PrivateCommitment = strings.Repeat("A", 42) },
	} {
		e := good
		spoil(&e)
		_, err := sealer.AppendEvent(nil, &e)
		require.Error(t, err, name)
	}
}

func TestParseEventIsStrict(t *testing.T) {
	w := sealertest.NewWorld(t)
	good := string(w.Note("right.revoked"))
	for name, change := range map[string][2]string{
		"order":           {`"id":"key_fixture","kind":"key"`, `"kind":"key","id":"key_fixture"`},
		"space":           {`,"data"`, ` ,"data"`},
		"newline":         {`"v":1}`, "\"v\":1}\n"},
		"version":         {`"v":1}`, `"v":2}`},
		"data order":      {`"reason":"end of campaign","revision":12`, `"revision":12,"reason":"end of campaign"`},
		"data number":     {`"revision":12`, `"revision":12.0`},
		"data escape":     {`end of`, `\u0065nd of`},
		"data unfinished": {`"revision":12}`, `"revision":12]`},
		"extra":           {`"v":1`, `"v":1,"w":1`},
		"id":              {`"evt_01`, `"evt_0i`},
		"empty":           {`"right.revoked"`, `""`},
		"null type":       {`"right.revoked"`, `null`},
	} {
		bad := strings.Replace(good, change[0], change[1], 1)
		require.NotEqual(t, good, bad, name)
		_, err := sealer.ParseEvent([]byte(bad))
		require.Error(t, err, name)
	}
}

func TestPrivateRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := sealer.Private{
			RequestHash: rapid.StringMatching(`[A-Za-z0-9_-]{0,43}`).Draw(t, "request"),
			AttentionMs: rapid.Int64Range(-1, 1<<53).Draw(t, "attention"),
		}
		copy(p.Salt[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "salt"))
		for range rapid.IntRange(0, 9).Draw(t, "persons") {
			p.DataSubjects = append(p.DataSubjects, sealer.DataSubject{Reference: rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"ann", "bob"})).Filter(func(s string) bool { return s != "" }).Draw(t, "person"),
				Salt: [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "salt of a person"))})
		}
		if rapid.Bool().Draw(t, "telemetry?") {
			p.Telemetry = []byte(`{"muted":false}`)
		}
		if rapid.Bool().Draw(t, "notes?") {
			p.Notes = []sealer.Note{{Name: "notes", Text: `"x"`, Salt: [16]byte{7}}, {Name: "{", Text: `{"a":{"b":"}\""}}`, Salt: [16]byte{8}}}
		}
		text := sealer.AppendPrivate(nil, &p)
		require.True(t, IsJSON(text))
		back, err := sealer.ParsePrivate(text)
		require.NoError(t, err)
		require.Equal(t, p, back)
		var named []string
		for _, d := range p.DataSubjects {
			named = append(named, d.Reference)
		}
		require.Equal(t, named, sealer.DataSubjects(text))

		commitment := p.Commitment()
		require.NoError(t, sealer.CheckPrivate(text, commitment))
		for left := text; len(named) > 0; {
			gone := rapid.SampledFrom(named).Draw(t, "erased")
			is := func(reference string) bool { return reference == gone }
			named = slices.DeleteFunc(named, is)
			left, err = sealer.Forget(left, is)
			require.NoError(t, err)
			if len(named) == 0 {
				require.Nil(t, left, "nobody is left")
				break
			}
			require.Equal(t, named, sealer.DataSubjects(left))
			require.NoError(t, sealer.CheckPrivate(left, commitment))
			other, err := sealer.ParsePrivate(left)
			require.NoError(t, err)
			require.NotEqual(t, p.AppendRequestSalt(nil), other.AppendRequestSalt(nil), "a request can't be guessed any more")
			require.True(t, IsJSON(left))
			again, err := sealer.Forget(left, is)
			require.NoError(t, err)
			require.Equal(t, left, again)
		}
		p.Salt[0] ^= 1
		require.Error(t, sealer.CheckPrivate(sealer.AppendPrivate(nil, &p), commitment))
	})
}

func IsJSON(text []byte) bool {
	again, err := canonical.JSON(text)
	return err == nil && bytes.Equal(again, text)
}
