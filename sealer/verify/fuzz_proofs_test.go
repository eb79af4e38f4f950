package verify

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer/canonical"
	"muniment.example/sealer/checkpoint"
	"muniment.example/sealer/pack"
)

// FuzzInclusionProof: what is read is written the same again, in its form.
func FuzzInclusionProof(f *testing.F) {
	seeds(f, "good/proof*", "bad/proof*")
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, err := checkpoint.ParseInclusionProof(string(text)); err == nil {
			require.Equal(t, string(text), p.Text())
		}
		if event, p, err := checkpoint.ParseProvenEvent(unwrap(string(text))); err == nil {
			data := canonical.AppendString(append(append([]byte(`{"event":`), event...), `,"proof":`...), p.Text())
			require.Equal(t, unwrap(string(text)), string(data)+"}")
		}
	})
}

// FuzzConsistencyProof: what is read is written the same again.
func FuzzConsistencyProof(f *testing.F) {
	seeds(f, "good/consistency*", "bad/consistency*")
	f.Fuzz(func(t *testing.T, text []byte) {
		data := unwrap(string(text))
		if p, err := checkpoint.ParseConsistencyProof([]byte(data)); err == nil {
			require.Equal(t, data, string(p.Append(nil)))
		}
	})
}

// FuzzReadExport: what is read to its end is written the same again.
func FuzzReadExport(f *testing.F) {
	seeds(f, "good/export*", "bad/export*")
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := pack.ReadExport(strings.NewReader(string(text)))
		if err != nil {
			return
		}
		lines := [][]byte{e.Header().Append(nil)}
		for {
			event, err := e.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return
			}
			lines = append(lines, event)
		}
		require.Equal(t, string(text), string(forge(lines...)))
	})
}

// FuzzVerifyProofs: any file is judged, without panic.
func FuzzVerifyProofs(f *testing.F) {
	seeds(f, "good/proof*", "bad/proof*", "good/consistency*", "bad/consistency*", "good/checkpoint*", "bad/checkpoint*", "good/export*", "bad/export*")
	name := filepath.Join(f.TempDir(), "file")
	f.Fuzz(func(t *testing.T, text []byte) {
		require.NoError(t, os.WriteFile(name, text, 0o600))
		anchor, err := readTrust("../testdata/root.vkey", "../testdata/good/proof-keys.json")
		require.NoError(t, err)
		r := verifyFiles(context.Background(), anchor, &Options{Files: []string{name, "../testdata/good/proof-event.json"}, Expect: "../testdata/good/checkpoint.note"})
		require.Len(t, r.Files, 3)
		for _, file := range r.Files {
			require.NotEmpty(t, file.Verdicts)
		}
	})
}
