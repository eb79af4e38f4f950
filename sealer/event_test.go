package sealer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestEventRoundTrip(t *testing.T) {
	w := newWorld(t)
	name := rapid.StringN(1, 20, 60)
	rapid.Check(t, func(t *rapid.T) {
		e := Event{
			TenantID: name.Draw(t, "tenant"), Type: name.Draw(t, "type"), At: w.now,
			Actor:   Ref{name.Draw(t, "actor kind"), name.Draw(t, "actor id")},
			Subject: Ref{name.Draw(t, "subject kind"), name.Draw(t, "subject id")},
		}
		e.EventID = w.id(eventPrefix)
		data, err := Canonical(map[string]any{
			rapid.String().Draw(t, "key"): rapid.String().Draw(t, "value"),
			"n":                           rapid.Float64().Draw(t, "n"),
			"list":                        rapid.SliceOf(rapid.String()).Draw(t, "list"),
		})
		require.NoError(t, err)
		e.Data = data
		text, err := AppendEvent([]byte("x"), &e)
		require.NoError(t, err)
		text = text[1:]
		require.True(t, isCanonical(text))
		back, err := ParseEvent(text)
		require.NoError(t, err)
		require.Equal(t, e, back)
	})
}

func TestAppendEventRefuses(t *testing.T) {
	w := newWorld(t)
	good, err := ParseEvent(w.note("right.revoked"))
	require.NoError(t, err)
	for name, spoil := range map[string]func(*Event){
		"id":               func(e *Event) { e.EventID = "evt_1" },
		"id of other time": func(e *Event) { e.At = e.At.Add(1e6) },
		"tenant":           func(e *Event) { e.TenantID = "" },
		"tenant of bytes":  func(e *Event) { e.TenantID = "\xff" },
		"type":             func(e *Event) { e.Type = "" },
		"actor":            func(e *Event) { e.Actor.ID = "" },
		"subject":          func(e *Event) { e.Subject.Kind = "" },
		"no data":          func(e *Event) { e.Data = nil },
		"data no object":   func(e *Event) { e.Data = []byte(`[]`) },
		"data spaced":      func(e *Event) { e.Data = []byte(`{"a": 1}`) },
		"data huge number": func(e *Event) { e.Data = []byte(`{"a":1e400}`) },
		"data twice":       func(e *Event) { e.Data = []byte(`{"a":1,"a":1}`) },
		"two objects":      func(e *Event) { e.Data = []byte(`{}{}`) },
		"commitment":       func(e *Event) { e.PrivateCommitment = strings.Repeat("A", 42) },
	} {
		e := good
		spoil(&e)
		_, err := AppendEvent(nil, &e)
		require.Error(t, err, name)
	}
}

func TestParseEventIsStrict(t *testing.T) {
	w := newWorld(t)
	good := string(w.note("right.revoked"))
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
		_, err := ParseEvent([]byte(bad))
		require.Error(t, err, name)
	}
}

func TestPrivateRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Private{
			DataSubject: rapid.String().Draw(t, "subject"),
			RequestHash: rapid.StringMatching(`[A-Za-z0-9_-]{0,43}`).Draw(t, "request"),
			AttentionMs: rapid.Int64Range(-1, maxInteger).Draw(t, "attention"),
		}
		copy(p.Salt[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "salt"))
		if rapid.Bool().Draw(t, "telemetry?") {
			p.Telemetry = []byte(`{"muted":false}`)
		}
		text := AppendPrivate(nil, &p)
		require.True(t, isCanonical(text))
		back, err := ParsePrivate(text)
		require.NoError(t, err)
		require.Equal(t, p, back)

		commitment := Commit(p.Salt, text)
		require.NoError(t, CheckPrivate(text, commitment))
		p.Salt[0] ^= 1
		require.Error(t, CheckPrivate(AppendPrivate(nil, &p), commitment))
	})
}

// TestLongestEvent asks that what can be written can be sealed, and what is sealed
// can be read.
func TestLongestEvent(t *testing.T) {
	w := newWorld(t)
	e, err := ParseEvent(w.note("right.revoked"))
	require.NoError(t, err)
	short, err := AppendEvent(nil, &e)
	require.NoError(t, err)
	pad := strings.Repeat("x", MaxEventBytes-len(short))
	e.Data = []byte(strings.Replace(string(e.Data), "end of", pad+"end of", 1))
	longest, err := AppendEvent(nil, &e)
	require.NoError(t, err)
	require.Len(t, longest, MaxEventBytes)
	p := w.seal([][]byte{longest})
	require.Empty(t, failures(w.verdicts(bundle(t, p, [][]byte{longest}))))
	require.Empty(t, failures(w.verdicts(AppendPackObject(nil, p, [][]byte{longest}))))
	_, _, err = CheckRecord(&Record{TenantID: w.tenant, EventID: e.EventID, Event: longest})
	require.NoError(t, err)

	longer := []byte(strings.Replace(string(longest), "end of", "xend of", 1))
	_, _, err = CheckRecord(&Record{TenantID: w.tenant, EventID: e.EventID, Event: longer})
	require.ErrorContains(t, err, "an event of 1048577 bytes")
	_, err = ParseEvent(longer)
	require.ErrorContains(t, err, "an event of 1048577 bytes")
	for _, pack := range [][]byte{
		forge(p.HeaderText, longer, signatureLine(p.Header.SigningKeyID, p.Signature)), AppendPackObject(nil, p, [][]byte{longer}),
	} {
		require.Equal(t, []Code{FormatInvalid}, failures(w.verdicts(pack)))
	}
	_, err = newWorld(t).trySeal([][]byte{longer})
	require.ErrorContains(t, err, "entry 0: entry.altered")
	e.Data = []byte(strings.Replace(string(e.Data), "end of", "xend of", 1))
	dst, err := AppendEvent([]byte("kept"), &e)
	require.ErrorContains(t, err, "an event of 1048577 bytes")
	require.Equal(t, "kept", string(dst))
}
