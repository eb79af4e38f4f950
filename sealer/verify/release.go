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
	"runtime"
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

// kindRelease is either of them. SignedReleaseSums is judged with the files beside it, if it is given alone.
const kindRelease = "release"

// isSums reports whether a text begins as both do: with a line as sha256sum writes it, of a file without a folder.
func isSums(text []byte) bool {
	line, _, ends := bytes.Cut(text, []byte("\n"))
	sum, name, parted := bytes.Cut(line, []byte("  "))
	return ends && parted && len(sum) == 2*sha256.Size && strings.Trim(string(sum), "0123456789abcdef") == "" &&
		len(name) > 0 && !bytes.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' })
}

// errUnjudged says that a release can't be judged: nothing shows that it is not what the key has signed.
var errUnjudged = errors.New("cannot be judged")

// Release holds the folder of a release against its signed checksums: the key has signed them, and every
// file that they list is there, as it was, and no other one. vkey is the public half of the key that signs releases. It returns
// how many files there are, and all faults that it finds: the key's signature is of another text, or a file is changed, added or
// missing. What keeps it from judging is an error as well, such as a note that another key has signed, or a
// folder that can't be read.
func Release(dir, vkey string) (files int, err error) {
	verifier, err := note.NewVerifier(strings.TrimSpace(vkey))
	if err != nil {
		return 0, fmt.Errorf("%w: the key is no vkey: %w", errUnjudged, err)
	}
	text, err := signedSums(dir, verifier)
	if err != nil {
		return 0, err
	}
	listed := map[string]string{}
	for line := range strings.Lines(text) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok || len(sum) != 2*sha256.Size || listed[name] != "" || name == "" || name != filepath.Base(name) {
			return 0, fmt.Errorf("%w: %s has a line that is none of checksums: %q", errUnjudged, SignedReleaseSums, line)
		}
		listed[name] = sum
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("%w: the folder of %s can't be read: %w", errUnjudged, SignedReleaseSums, err)
	}
	var wrong, unread []error
	for _, e := range entries {
		if e.Name() == SignedReleaseSums {
			continue
		}
		shown := terminal.Text(e.Name()) // in one line
		want, known := listed[e.Name()]
		delete(listed, e.Name())
		if e.Name() == ReleaseSums {
			want, known = fmt.Sprintf("%x", sha256.Sum256([]byte(text))), true
		}
		if !known {
			wrong = append(wrong, fmt.Errorf("%s is not a file of this release", shown))
			continue
		}
		sum, err := sumOf(filepath.Join(dir, e.Name()))
		switch {
		case errors.Is(err, errIrregular):
			wrong = append(wrong, fmt.Errorf("%s %w, so it is not what was signed", shown, err))
		case err != nil:
			unread = append(unread, fmt.Errorf("%s can't be read: %w", shown, err))
		case sum != want:
			wrong = append(wrong, fmt.Errorf("%s is not what was signed", shown))
		case e.Name() != ReleaseSums:
			files++
		}
	}
	for line := range strings.Lines(text) { // in their order
		if _, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  "); listed[name] != "" {
			wrong = append(wrong, fmt.Errorf("%s is missing", terminal.Text(name)))
		}
	}
	if wrong == nil && unread != nil {
		return files, fmt.Errorf("%w: %w", errUnjudged, errors.Join(unread...))
	}
	return files, errors.Join(append(wrong, unread...)...)
}

// maxSums bounds the signed checksums.
const maxSums = 1 << 20

// signedSums are the checksums in a folder that the key has signed.
func signedSums(dir string, key note.Verifier) (string, error) {
	f, err := openRegular(filepath.Join(dir, SignedReleaseSums))
	if err != nil {
		return "", fmt.Errorf("%w: %s: %w", errUnjudged, SignedReleaseSums, err)
	}
	defer f.Close()
	signed, err := io.ReadAll(io.LimitReader(f, maxSums+1))
	if err == nil && len(signed) > maxSums {
		err = fmt.Errorf("it is larger than %d bytes", maxSums)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %s: %w", errUnjudged, SignedReleaseSums, err)
	}
	n, err := note.Open(signed, note.VerifierList(key))
	if err == nil {
		return n.Text, nil
	}
	if _, invalid := errors.AsType[*note.InvalidSignatureError](err); invalid {
		return "", fmt.Errorf("%s is not what the key %s+%08x has signed", SignedReleaseSums, key.Name(), key.KeyHash())
	}
	if _, unknown := errors.AsType[*note.UnverifiedNoteError](err); unknown {
		return "", fmt.Errorf("%w: %s is not signed by the key %s+%08x: give the key of whoever made the release", errUnjudged, SignedReleaseSums, key.Name(), key.KeyHash())
	}
	return "", fmt.Errorf("%w: %s is no signed note: %w", errUnjudged, SignedReleaseSums, err)
}

// errIrregular says that something is a link, a folder, a pipe or a device.
var errIrregular = errors.New("is no regular file")

// openRegular opens a regular file: it follows no link, and waits for no writer of a pipe.
func openRegular(name string) (*os.File, error) {
	info, err := os.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errIrregular
	}
	return os.Open(name)
}

// sumOf is the checksum of a file, which may be larger than memory.
func sumOf(name string) (string, error) {
	f, err := openRegular(name)
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

// isRelease reports whether the command is about a release: the file is named, with the name that it has there, and
// nothing but its key can be trusted. A browser has no folders to look into.
func isRelease(o *Options) bool {
	return len(o.Files) == 1 && filepath.Base(o.Files[0]) == SignedReleaseSums && o.Keys == "" && o.Expect == "" && runtime.GOOS != "js"
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
	if o.Root == "" {
		err = fmt.Errorf("%w: --root names the key that signs releases", errUnjudged)
	} else {
		files, err = Release(filepath.Dir(o.Files[0]), vkey)
	}
	switch {
	case err == nil:
		f.Summary = fmt.Sprintf("A release: all of %s are as they were signed, and no other file is in the folder.", count(files, "file"))
	case errors.Is(err, errUnjudged):
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
