package verify

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"muniment.example/sealer/terminal"
)

// The checksums of a release, which sha256sum reads, and the same text as a C2SP signed note: an empty line
// and a line for each signature follow it.
const (
	ReleaseSums       = "SHA256SUMS"
	SignedReleaseSums = "SHA256SUMS.note"
)

// kindRelease is SignedReleaseSums with the files beside it.
const kindRelease = "release"

// errUnsigned says that checksums can't be judged.
var errUnsigned = errors.New("cannot be judged")

// Release holds the folder of a release against its signed checksums: the key has signed them, and every
// file that they list is there, as it was, and no other one. vkey is the public half of the key that signs releases. It returns
// how many files there are, and all faults that it finds.
func Release(dir, vkey string) (files int, err error) {
	verifier, err := note.NewVerifier(strings.TrimSpace(vkey))
	if err != nil {
		return 0, fmt.Errorf("%w: the key is no vkey: %w", errUnsigned, err)
	}
	signed, err := os.ReadFile(filepath.Join(dir, SignedReleaseSums))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errUnsigned, err)
	}
	n, err := note.Open(signed, note.VerifierList(verifier))
	if err != nil {
		return 0, fmt.Errorf("%s is not signed by %s: %w", SignedReleaseSums, verifier.Name(), err)
	}
	listed := map[string]string{}
	for line := range strings.Lines(n.Text) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok || listed[name] != "" || name == "" || name != filepath.Base(name) {
			return 0, fmt.Errorf("%s has a line that is none of checksums: %q", SignedReleaseSums, line)
		}
		listed[name] = sum
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	var wrong []error
	for _, e := range entries {
		if e.Name() == SignedReleaseSums {
			continue
		}
		want, known := listed[e.Name()]
		delete(listed, e.Name())
		if e.Name() == ReleaseSums {
			want, known = fmt.Sprintf("%x", sha256.Sum256([]byte(n.Text))), true
		}
		if !known {
			wrong = append(wrong, fmt.Errorf("%s is not a file of this release", e.Name()))
			continue
		}
		sum, err := sumOf(filepath.Join(dir, e.Name()))
		switch {
		case err != nil:
			wrong = append(wrong, err)
		case sum != want:
			wrong = append(wrong, fmt.Errorf("%s is not what was signed", e.Name()))
		case e.Name() != ReleaseSums:
			files++
		}
	}
	for line := range strings.Lines(n.Text) { // in their order
		if _, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  "); listed[name] != "" {
			wrong = append(wrong, fmt.Errorf("%s is missing", name))
		}
	}
	return files, errors.Join(wrong...)
}

// sumOf is the checksum of a file, which may be larger than memory.
func sumOf(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// isRelease reports whether the command is about a release: the file is named, with the name that it has there.
func isRelease(o *Options) bool {
	return len(o.Files) == 1 && filepath.Base(o.Files[0]) == SignedReleaseSums
}

// release is the body of the command for a release.
func release(w *bufio.Writer, o *Options) int {
	vkey := o.Root
	if text, err := os.ReadFile(o.Root); err == nil {
		vkey = string(text)
	} else if !errors.Is(err, fs.ErrNotExist) {
		vkey = ""
	}
	f := FileReport{File: o.Files[0], Kind: kindRelease, Verdict: VerdictSound, Verdicts: []Verdict{}}
	files, err := 0, error(nil)
	if o.Root == "" || o.Keys != "" || o.Expect != "" {
		err = fmt.Errorf("%w: --root, and no other anchor, names the key that signs releases", errUnsigned)
	} else {
		files, err = Release(filepath.Dir(o.Files[0]), vkey)
	}
	switch {
	case err == nil:
		f.Summary = fmt.Sprintf("A release: all of %s are as they were signed, and no other file is in the folder.", count(files, "file"))
	case errors.Is(err, errUnsigned):
		f.Verdict, f.Summary = VerdictUnjudged, err.Error()
	default:
		f.Verdict, f.Summary = VerdictUnsound, err.Error()
	}
	r := Report{OK: err == nil, Verdict: f.Verdict, Summary: f.Summary, Files: []FileReport{f}}
	if o.JSON {
		writeJSON(w, r)
		return exits[r.Verdict]
	}
	words := map[string]string{VerdictSound: "Sound", VerdictUnsound: "NOT SOUND", VerdictUnjudged: "CAN'T BE JUDGED"}
	for line := range bytes.Lines([]byte(f.Summary)) {
		terminal.Fprintf(w, "%s\n", strings.TrimSuffix(string(line), "\n"))
	}
	terminal.Fprintf(w, "\n%s: %s.\n", words[f.Verdict], f.File)
	return exits[r.Verdict]
}
