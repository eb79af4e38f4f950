package verify

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/sealertest"
)

// seeds adds the vectors that match a pattern.
func seeds(f *testing.F, patterns ...string) {
	for _, pattern := range patterns {
		names, err := filepath.Glob(filepath.Join("../testdata", pattern))
		require.NoError(f, err)
		for _, name := range names {
			text, err := os.ReadFile(name)
			require.NoError(f, err)
			f.Add(text)
		}
	}
}

// FuzzReadPack: what is read to its end is written the same again, in its form.
func FuzzReadPack(f *testing.F) {
	seeds(f, "good/chain-*", "good/settled-*", "good/sandbox*.json", "bad/*.ndjson", "bad/answer-*.json")
	_, vkey := sealertest.RootKey(f, "root.example")
	f.Fuzz(func(t *testing.T, text []byte) {
		_, err := verifyPack(context.Background(), bytes.NewReader(text), vkey)
		require.NoError(t, err, "only a broken disk is an error")
		p, err := pack.Read(bytes.NewReader(text))
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
		same := &pack.Pack{Header: *p.Header(), HeaderText: p.Header().Append(nil), Signature: p.Signature()}
		require.Equal(t, string(p.HeaderText()), string(same.HeaderText))
		lines := append([][]byte{same.HeaderText}, entries...)
		lines = append(lines, signatureLine(same.Header.SigningKeyID, same.Signature))
		object := pack.AppendObject(nil, same, entries)
		switch {
		case bytes.HasPrefix(text, []byte(`{"entries":[`)):
			require.Equal(t, string(text), string(object))
		case p.KeyBeside() != nil:
			answer := packAnswer(object, answered(*p.KeyBeside()))
			require.Contains(t, []string{answer, answer[len(startOfAnswer) : len(answer)-1]}, strings.TrimSuffix(string(text), "\n"))
		default:
			require.Equal(t, string(text), string(forge(lines...)))
		}
	})
}

// FuzzReadReceipt: an HTTP answer is read without panic, and exactly.
func FuzzReadReceipt(f *testing.F) {
	seeds(f, "good/receipt*.json", "bad/*.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := readReceipt(text); err == nil {
			require.Equal(t, string(r.text), string(sealer.AppendReceipt(nil, &r.receipt)))
		}
	})
}
