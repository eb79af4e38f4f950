package prooftest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer/verify"
)

// Sound requires that files pass muniment verify with the root key and the directory.
func (s *Stage) Sound(files ...[]byte) {
	s.T.Helper()
	report, exit := s.Verify("", files...)
	require.Equal(s.T, verify.ExitSound, exit, report)
}

// Verify runs muniment verify over files; expect is a checkpoint that was kept elsewhere, or empty.
func (s *Stage) Verify(expect string, files ...[]byte) (report string, exit int) {
	s.T.Helper()
	dir, err := os.MkdirTemp(s.Dir, "verify-")
	require.NoError(s.T, err)
	defer os.RemoveAll(dir)
	put := func(name string, text []byte) string {
		name = filepath.Join(dir, name)
		require.NoError(s.T, os.WriteFile(name, text, 0o600))
		return name
	}
	directory, err := s.Keys.Directory(s.T.Context())
	require.NoError(s.T, err)
	o := verify.Options{Root: s.Keys.Vkey, Keys: put("keys", directory), JSON: true}
	for i, text := range files {
		o.Files = append(o.Files, put(fmt.Sprint(i), text))
	}
	if expect != "" {
		o.Expect = put("expect", []byte(expect))
	}
	var out bytes.Buffer
	exit = verify.Files(s.T.Context(), o, &out)
	return out.String(), exit
}
