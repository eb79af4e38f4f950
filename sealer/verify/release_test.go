package verify

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"
)

// TestVerdictsOnReleases: a release is not sound only if the key's signature is of another text, or a file is changed,
// added or missing. What does not show that can't be judged. Nothing but regular files is read.
func TestVerdictsOnReleases(t *testing.T) {
	const name = "muniment.example/release"
	skey, vkey, err := note.GenerateKey(rand.Reader, name)
	require.NoError(t, err)
	_, other, err := note.GenerateKey(rand.Reader, name)
	require.NoError(t, err)
	signer, err := note.NewSigner(skey)
	require.NoError(t, err)
	sign := func(text string) string {
		signed, err := note.Sign(&note.Note{Text: text}, signer)
		require.NoError(t, err)
		return string(signed)
	}
	sums := fmt.Sprintf("%x  a.tgz\n%x  b.tgz\n", sha256.Sum256([]byte("a")), sha256.Sum256([]byte("b")))
	for about, c := range map[string]struct {
		change  func(dir string) error
		key     string
		verdict string
		says    string
	}{
		"whole":            {nil, vkey, VerdictSound, "all of 2 files are as they were signed"},
		"another key":      {nil, other, VerdictUnjudged, "is not signed by the key " + other[:len(name)+9] + ": give the key"},
		"another text":     {put(SignedReleaseSums, strings.Replace(sign(sums), "a.tgz", "c.tgz", 1)), vkey, VerdictUnsound, "is not what the key " + vkey[:len(name)+9] + " has signed"},
		"a page":           {put(SignedReleaseSums, "<!doctype html><title>Not found</title>"), vkey, VerdictUnjudged, "is no signed note"},
		"a cut note":       {put(SignedReleaseSums, sums), vkey, VerdictUnjudged, "is no signed note"},
		"a huge note":      {put(SignedReleaseSums, strings.Repeat("a", maxSums+1)), vkey, VerdictUnjudged, "is larger than 1048576 bytes"},
		"no sums":          {put(SignedReleaseSums, sign("a.tgz\n")), vkey, VerdictUnjudged, "none of checksums"},
		"an empty sum":     {put(SignedReleaseSums, sign(sums+"  c.tgz\n")), vkey, VerdictUnjudged, "none of checksums"},
		"a changed file":   {put("a.tgz", "b"), vkey, VerdictUnsound, "a.tgz is not what was signed"},
		"an added file":    {put("c.tgz", "c"), vkey, VerdictUnsound, "c.tgz is not a file of this release"},
		"a hostile name":   {put("c\nSound: it", "c"), vkey, VerdictUnsound, `c\u000aSound: it is not a file of this release`},
		"a missing file":   {func(dir string) error { return os.Remove(filepath.Join(dir, "a.tgz")) }, vkey, VerdictUnsound, "a.tgz is missing"},
		"a link to a file": {linked("a.tgz"), vkey, VerdictUnsound, "a.tgz is no regular file, so it is not what was signed"},
		"a link to a note": {linked(SignedReleaseSums), vkey, VerdictUnjudged, "is no regular file"},
		"a folder": {func(dir string) error {
			return replaced(dir, "b.tgz", func(at string) error { return os.Mkdir(at, 0o700) })
		}, vkey, VerdictUnsound, "b.tgz is no regular file"},
		"a pipe": {func(dir string) error {
			return replaced(dir, "b.tgz", func(at string) error { return syscall.Mkfifo(at, 0o600) })
		}, vkey, VerdictUnsound, "b.tgz is no regular file"},
		"a pipe as a note": {func(dir string) error {
			return replaced(dir, SignedReleaseSums, func(at string) error { return syscall.Mkfifo(at, 0o600) })
		}, vkey, VerdictUnjudged, "is no regular file"},
		"a locked file": {func(dir string) error { return os.Chmod(filepath.Join(dir, "a.tgz"), 0) }, vkey, VerdictUnjudged, "a.tgz can't be read"},
	} {
		if about == "a locked file" && os.Geteuid() == 0 { // who reads everything
			continue
		}
		dir := t.TempDir()
		for file, text := range map[string]string{"a.tgz": "a", "b.tgz": "b", ReleaseSums: sums, SignedReleaseSums: sign(sums)} {
			require.NoError(t, put(file, text)(dir))
		}
		if c.change != nil {
			require.NoError(t, c.change(dir), about)
		}
		var said bytes.Buffer
		status := Files(t.Context(), Options{Root: c.key, Files: []string{filepath.Join(dir, SignedReleaseSums)}}, &said)
		require.Equal(t, exits[c.verdict], status, "%s: %s", about, said.String())
		require.Contains(t, said.String(), c.says, about)
	}
}

// TestChecksumsOfAReleaseAlone: where the files of the release can't be judged with them, they are called what they are, with
// what judges them.
func TestChecksumsOfAReleaseAlone(t *testing.T) {
	f := newFolder(t)
	sums := []byte(fmt.Sprintf("%x  muniment_v1.0.0.tgz\n%x  b.tgz\n", sha256.Sum256([]byte("a")), sha256.Sum256([]byte("b"))))
	signed := append(bytes.Clone(sums), "\n— muniment.example/release AAAAAAAA\n"...)
	list, renamed, note := f.write(ReleaseSums, sums), f.write("renamed", signed), f.write(SignedReleaseSums, signed)
	keys := f.write("keys", f.w.Directory())
	for about, files := range map[string][]string{"the plain list": {list}, "the note, by another name": {renamed}, "the note, with other files": {note, keys}} {
		require.Equal(t, "release !format.release", f.verify(ExitUnjudged, files...)[0], about)
	}
	var said bytes.Buffer
	require.Equal(t, ExitUnjudged, Files(t.Context(), Options{Keys: keys, Files: []string{note}}, &said))
	require.Contains(t, said.String(), "a release's list of checksums, which is judged beside the files of the release (format.release). Next: run muniment-verify --root RELEASE_KEY SHA256SUMS.note in the folder of the release")
	for about, text := range map[string]string{"a slash": fmt.Sprintf("%x  a/b\n", sha256.Sum256(nil)), "one space": fmt.Sprintf("%x a\n", sha256.Sum256(nil)), "capitals": fmt.Sprintf("%X  a\n", sha256.Sum256([]byte("a"))), "a space in the name": fmt.Sprintf("%x  a b\n", sha256.Sum256(nil)), "no end": fmt.Sprintf("%x  a", sha256.Sum256(nil)), "no name": fmt.Sprintf("%x  \n", sha256.Sum256(nil))} {
		require.Equal(t, "unknown !format.unknown", f.verify(ExitUnjudged, f.write("other", []byte(text)), keys)[0], about)
	}
}

// put writes a file into a folder.
func put(name, text string) func(dir string) error {
	return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600) }
}

// replaced puts something else in the place of a file.
func replaced(dir, name string, by func(at string) error) error {
	at := filepath.Join(dir, name)
	if err := os.Remove(at); err != nil {
		return err
	}
	return by(at)
}

// linked puts a file elsewhere, and a link to it in its place.
func linked(name string) func(dir string) error {
	return func(dir string) error {
		at := filepath.Join(dir, name)
		elsewhere, err := os.MkdirTemp(filepath.Dir(dir), "elsewhere")
		if err != nil {
			return err
		}
		elsewhere = filepath.Join(elsewhere, name)
		if err := os.Rename(at, elsewhere); err != nil {
			return err
		}
		return os.Symlink(elsewhere, at)
	}
}
