package verify

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/dsar"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/merkle"
)

// dsarCheck is the verification of one DSAR bundle.
type dsarCheck struct {
	*FileReport
	manifest  dsar.Manifest
	signed    []byte // what the signature is over
	signature []byte
}

// withBundle opens a bundle and calls fn, whose error becomes format.invalid.
func (c *dsarCheck) withBundle(fn func(file *os.File, size int64, r *zip.Reader) error) {
	file, err := os.Open(c.File)
	if err != nil {
		c.unreadable(err)
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		c.unreadable(err)
		return
	}
	r, err := zip.NewReader(file, info.Size())
	if err == nil {
		err = fn(file, info.Size(), r)
	}
	switch {
	case errors.Is(err, errNoManifest) && !slices.ContainsFunc(r.File, func(f *zip.File) bool { return f.Name == dsar.ManifestName }):
		c.otherArchive()
	case err != nil:
		c.say(FormatInvalid, "%v", err)
	}
}

// otherArchive says that the file is a ZIP file and none of ours, such as one with packs in it.
func (f *FileReport) otherArchive() {
	v := found(FormatUnknown, "a ZIP file that is no bundle of personal data")
	v.Next = giveUnpacked
	f.add(v)
}

// startOfZip is how a ZIP file begins.
const startOfZip = "PK\x03\x04"

var errNoManifest = errors.New(dsar.ManifestName + " is not its last file")

// open reads the manifest, and the directory in it.
func (c *dsarCheck) open(v *verification) {
	c.withBundle(func(_ *os.File, _ int64, r *zip.Reader) error {
		if len(r.File) == 0 || r.File[len(r.File)-1].Name != dsar.ManifestName {
			return errNoManifest
		}
		if r.File[len(r.File)-1].Method != zip.Store { // nothing states the bytes of a compressed one
			return errNotTheZip
		}
		w, err := r.File[len(r.File)-1].Open()
		if err != nil {
			return err
		}
		defer w.Close()
		text, err := io.ReadAll(io.LimitReader(w, dsar.MaxManifestBytes+1))
		if err == nil && len(text) > dsar.MaxManifestBytes {
			err = errTooLarge
		}
		if err != nil {
			return err
		}
		if c.manifest, c.signed, c.signature, err = dsar.ParseManifest(text); err != nil {
			return fmt.Errorf("%s: %w", dsar.ManifestName, err)
		}
		v.trust.learn(c.manifest.Directory) // the verdict is for when all are known
		return nil
	})
}

// verify judges a bundle, once all directories are known.
func (c *dsarCheck) verify(ctx context.Context, v *verification) {
	if !c.ok() {
		return
	}
	verdict := v.trust.directory(c.manifest.Directory, c.manifest.SigningKeyID)
	if c.add(verdict); !verdict.OK {
		return
	}
	if v.trust.newer == nil {
		c.noDirectory(v.trust)
		return
	}
	createdAt, _ := canonical.ParseTime(c.manifest.CreatedAt) // it was read before
	key, code := packKey(v.trust.newer, c.manifest.SigningKeyID, createdAt)
	if code == sealer.KeyUnknown && v.trust.lists(c.manifest.Directory, c.manifest.SigningKeyID) {
		code = KeyMismatch
	}
	switch {
	case code != "":
		c.say(code, "the manifest is signed by key %s at %s", c.manifest.SigningKeyID, c.manifest.CreatedAt)
		return
	case !ed25519.Verify(key, c.signed, c.signature):
		c.say(sealer.SignatureInvalid, "the manifest is not what key %s has signed", c.manifest.SigningKeyID)
		return
	}
	c.say(SignatureOK, "the manifest of %s, of %s", c.manifest.JobID, c.manifest.CreatedAt)
	if k := v.trust.newer.Key(c.manifest.SigningKeyID); k.Purpose == keydir.PurposeSandbox {
		c.noteSandbox(k.KeyID)
	}
	c.withBundle(func(file *os.File, size int64, r *zip.Reader) error {
		if err := c.listed(r); err != nil || !c.ok() {
			return err
		}
		if err := canonicalZip(file, size, r); err != nil {
			return err
		}
		return c.files(ctx, file, r)
	})
}

// packKey is the key for packs, or for a sandbox, that may have signed at a moment.
func packKey(d *keydir.Directory, keyID string, at time.Time) (ed25519.PublicKey, sealer.Code) {
	key, code := d.Find(keyID, keydir.PurposePack, at)
	if code == sealer.KeyPurpose {
		key, code = d.Find(keyID, keydir.PurposeSandbox, at)
	}
	return key, KeyFault(d, keyID, at, code)
}

// listed compares what the zip file says of its files with what the manifest states, so that nothing is read whose
// length was not signed: a file may be sparse, and as long as it likes.
func (c *dsarCheck) listed(r *zip.Reader) error {
	if len(r.File) != len(c.manifest.Files)+1 {
		return fmt.Errorf("%d files beside the manifest, which lists %d", len(r.File)-1, len(c.manifest.Files))
	}
	for i, want := range c.manifest.Files {
		f := r.File[i]
		if f.Name != want.Name {
			return fmt.Errorf("file %d is %q, and %q in the manifest", i, f.Name, want.Name)
		}
		if f.CompressedSize64 != uint64(want.PackedBytes) || f.UncompressedSize64 != uint64(want.Bytes) {
			c.say(FileMismatch, "%s: it has not as many bytes as the manifest states", want.Name)
		}
	}
	return nil
}

// files compares each file with what the manifest states.
func (c *dsarCheck) files(ctx context.Context, file *os.File, r *zip.Reader) error {
	var rows int64
	for i, want := range c.manifest.Files {
		if err := ctx.Err(); err != nil {
			c.unreadable(err)
			return nil
		}
		got, err := readSection(file, r.File[i], c.manifest.Format, want.PackedSHA256)
		switch {
		case err != nil:
			c.say(FileMismatch, "%s: %v", want.Name, err)
		case got.Rows != want.Rows && got.SHA256 == want.SHA256:
			c.say(CountMismatch, "%s: %d rows, the manifest states %d", want.Name, got.Rows, want.Rows)
		case got != want:
			c.say(FileMismatch, "%s: its bytes are not those of the manifest", want.Name)
		}
		rows += want.Rows
	}
	if c.ok() {
		c.say(FilesOK, "%s with %d rows, each as the manifest states", count(len(c.manifest.Files), "file"), rows)
		createdAt, _ := canonical.ParseTime(c.manifest.CreatedAt) // it was read before
		c.about = fmt.Sprintf("The bundle of personal data holds %s with %s, as the service made them by %s.", count(len(c.manifest.Files), "file"), count(int(rows), "row"), moment(createdAt))
	}
	return nil
}

// readSection reads a file of a bundle through. Only one with the hash that was signed is unpacked and
// parsed: others are not what the service has made, and may be anything.
func readSection(file io.ReaderAt, f *zip.File, format, signed string) (got dsar.File, err error) {
	raw, err := f.OpenRaw()
	if err != nil {
		return got, err
	}
	packed := sha256.New()
	packedBytes, err := io.Copy(packed, raw)
	if err != nil {
		return got, err
	}
	got = dsar.File{Name: f.Name, PackedBytes: packedBytes, PackedSHA256: merkle.Hash(packed.Sum(nil)).String()}
	if got.PackedSHA256 != signed {
		return got, nil
	}
	text, err := f.Open()
	if err != nil {
		return got, err
	}
	defer text.Close()
	plain := sha256.New()
	in := io.TeeReader(text, plain)
	if f.Name == dsar.ReadmeName {
		format = "" // it has no rows
	}
	rows, err := countRows(in, format)
	if err == nil && format == "PARQUET" {
		rows, err = storedRows(file, f)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	got.Bytes = int64(f.UncompressedSize64) // reading to the end has found no others
	got.Rows, got.SHA256 = rows, merkle.Hash(plain.Sum(nil)).String()
	return got, err
}

// countRows counts the rows of a text format; of others it returns 0.
func countRows(in io.Reader, format string) (rows int64, err error) {
	switch format {
	case "CSV":
		r := csv.NewReader(in)
		r.ReuseRecord = true
		for rows = -1; ; rows++ { // the first names the columns
			if _, err := r.Read(); err == io.EOF {
				return rows, nil
			} else if err != nil {
				return 0, err
			}
		}
	case "JSON", "NDJSON": // a row a line
		buffer := bufio.NewReaderSize(in, 1<<16)
		for {
			part, err := buffer.ReadSlice('\n')
			rows += int64(bytes.Count(part, []byte("\n")))
			if err == io.EOF {
				break
			}
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				return 0, err
			}
		}
		if format == "JSON" { // within brackets, each on a line of its own
			rows -= 2
		}
		return rows, nil
	}
	return 0, nil
}

// storedRows counts the rows of a Parquet file, which a bundle holds as it is.
func storedRows(file io.ReaderAt, f *zip.File) (rows int64, err error) {
	at, err := f.DataOffset()
	if err != nil {
		return 0, err
	}
	return parquetRows(io.NewSectionReader(file, at, int64(f.CompressedSize64)), int64(f.CompressedSize64))
}

// startOfBundle is how a bundle begins, up to the method of its first file.
const startOfBundle = "PK\x03\x04\x14\x00\x08\x00"

// What the entries of a bundle have: sizes behind the bytes, and a version.
const (
	bundleFlags   = 0x8
	bundleVersion = 20
	zip64Version  = 45
)

// canonicalZip checks that a zip file has no byte that does not follow from the files in it.
func canonicalZip(file io.ReaderAt, size int64, r *zip.Reader) error {
	same := &comparer{want: bufio.NewReaderSize(io.NewSectionReader(file, 0, size), 1<<16)}
	again := zip.NewWriter(same)
	for _, f := range r.File {
		header := &zip.FileHeader{
			Name: f.Name, Method: f.Method, Flags: bundleFlags, CreatorVersion: bundleVersion, ReaderVersion: bundleVersion,
			CRC32: f.CRC32, CompressedSize64: f.CompressedSize64, UncompressedSize64: f.UncompressedSize64,
		}
		w, err := again.CreateRaw(header)
		if err != nil {
			return err
		}
		if max(f.CompressedSize64, f.UncompressedSize64) >= math.MaxUint32 {
			header.ReaderVersion = zip64Version // in the directory, as its length was not known before
		}
		raw, err := f.OpenRaw()
		if err == nil {
			_, err = io.Copy(w, raw)
		}
		if err != nil {
			return err
		}
	}
	if err := again.Close(); err != nil {
		return err
	}
	if _, err := same.want.Peek(1); err != io.EOF {
		return errNotTheZip
	}
	return nil
}

var errNotTheZip = errors.New("it is not the zip file that holds these files and nothing else")

// comparer compares what is written with what is wanted.
type comparer struct {
	want   *bufio.Reader
	buffer []byte
}

func (c *comparer) Write(p []byte) (int, error) {
	if cap(c.buffer) < len(p) {
		c.buffer = make([]byte, len(p))
	}
	want := c.buffer[:len(p)]
	if _, err := io.ReadFull(c.want, want); err != nil || !bytes.Equal(want, p) {
		return 0, errNotTheZip
	}
	return len(p), nil
}
