package sealer

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// seeds adds the vectors that match a pattern.
func seeds(f *testing.F, patterns ...string) {
	for _, pattern := range patterns {
		names, err := filepath.Glob(filepath.Join("testdata", pattern))
		require.NoError(f, err)
		for _, name := range names {
			text, err := os.ReadFile(name)
			require.NoError(f, err)
			f.Add(text)
		}
	}
}

// FuzzParseEvent: what is accepted is canonical, and is written the same again.
func FuzzParseEvent(f *testing.F) {
	w := newWorld(f)
	for n := range 5 {
		f.Add(w.delivery(n, "order"))
	}
	f.Add(w.note("right.revoked"))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _ = SplitDelivery(text)
		_, deliveryErr := ReadDelivery(text)
		e, err := ParseEvent(text)
		if err != nil {
			require.Error(t, deliveryErr)
			return
		}
		require.True(t, isCanonical(text))
		again, err := AppendEvent(nil, &e)
		require.NoError(t, err)
		require.Equal(t, string(text), string(again))
		if deliveryErr == nil {
			_, err := SplitDelivery(text)
			require.NoError(t, err)
		}
	})
}

// FuzzParseReceipt: what is accepted is written the same again.
func FuzzParseReceipt(f *testing.F) {
	w := newWorld(f)
	for n := range 5 {
		_, _, r := w.draft(n)
		f.Add(AppendReceipt(nil, r))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := ParseReceipt(text); err == nil {
			require.True(t, isCanonical(text))
			require.Equal(t, string(text), string(AppendReceipt(nil, &r)))
		}
	})
}

// FuzzParsePrivate: what is accepted is written the same again.
func FuzzParsePrivate(f *testing.F) {
	f.Add(AppendPrivate(nil, &Private{AttentionMs: -1}))
	f.Add(AppendPrivate(nil, &Private{AttentionMs: 3, DataSubject: "sub", RequestHash: "x", Telemetry: []byte(`{"a":[1,{}]}`)}))
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, err := ParsePrivate(text); err == nil {
			require.Equal(t, string(text), string(AppendPrivate(nil, &p)))
		}
	})
}

// FuzzParseRecord: what is accepted is written the same again.
func FuzzParseRecord(f *testing.F) {
	f.Add(AppendRecord(nil, &Record{TenantID: "tnt_1", EventID: "evt_1", Node: "nod_1", Epoch: 300, Seq: 1 << 40, Event: []byte("{}"), Private: []byte("x")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRecord(b)
		if err != nil {
			require.ErrorIs(t, err, ErrRecord)
			return
		}
		require.Equal(t, b, AppendRecord(nil, &r))
		_, _, _ = CheckRecord(&r)
	})
}

// FuzzReadPack: what is read to its end is written the same again, in its form.
func FuzzReadPack(f *testing.F) {
	seeds(f, "good/chain-*", "good/settled-*", "good/sandbox*.json", "bad/*.ndjson", "bad/answer-*.json")
	_, vkey := rootKey(f, "root.example")
	f.Fuzz(func(t *testing.T, text []byte) {
		_, err := verifyPack(context.Background(), bytes.NewReader(text), vkey)
		require.NoError(t, err, "only a broken disk is an error")
		p, err := ReadPack(bytes.NewReader(text))
		if err != nil {
			return
		}
		var entries [][]byte
		for {
			event, err := p.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return
			}
			entries = append(entries, event)
		}
		same := &SealedPack{Header: *p.Header(), HeaderText: p.Header().append(nil), Signature: p.Signature()}
		require.Equal(t, string(p.HeaderText()), string(same.HeaderText))
		lines := append([][]byte{same.HeaderText}, entries...)
		lines = append(lines, signatureLine(same.Header.SigningKeyID, same.Signature))
		object := AppendPackObject(nil, same, entries)
		switch {
		case bytes.HasPrefix(text, []byte(objectStart)):
			require.Equal(t, string(text), string(object))
		case p.beside != nil:
			answer := packAnswer(object, answered(*p.beside))
			require.Contains(t, []string{answer, answer[len(answerStart) : len(answer)-1]}, strings.TrimSuffix(string(text), "\n"))
		default:
			require.Equal(t, string(text), string(forge(lines...)))
		}
	})
}

// FuzzOpenCheckpoint: only the note that was signed opens.
func FuzzOpenCheckpoint(f *testing.F) {
	key := testKey("pack")
	c := Checkpoint{oneLog, 7, LeafHash(nil), epoch}
	good, err := SignCheckpoint(c, key)
	require.NoError(f, err)
	f.Add(good)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := OpenCheckpoint(text, c.Origin, pub(key))
		if err == nil {
			require.Equal(t, c, got, "nothing else was ever signed")
		}
	})
}

// FuzzVerifyDirectory: only the directory that was signed verifies.
func FuzzVerifyDirectory(f *testing.F) {
	w := newWorld(f)
	good := w.directory()
	f.Add(good)
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := VerifyDirectory(text, w.vkey); err == nil {
			require.Equal(t, string(good), string(text))
		}
		_, _ = readKeys(text)
	})
}

// FuzzCanonical: the result is a fixed point, and strict readers accept it.
func FuzzCanonical(f *testing.F) {
	f.Add([]byte(`{"b":[1e2,-0,"\u00e9"],"a":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		once, err := Canonical(text)
		if err != nil {
			return
		}
		twice, err := Canonical(once)
		require.NoError(t, err)
		require.Equal(t, string(once), string(twice))
		require.True(t, isCanonical(once))
	})
}

// FuzzReadReceipt: an HTTP answer is read without panic, and exactly.
func FuzzReadReceipt(f *testing.F) {
	seeds(f, "good/receipt*.json", "bad/*.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := readReceipt(text); err == nil {
			require.Equal(t, string(r.text), string(AppendReceipt(nil, &r.receipt)))
		}
	})
}
