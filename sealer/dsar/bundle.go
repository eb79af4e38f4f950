// Package dsar has bundles of personal data: it writes them, and reads their manifest. Package verify judges them.
//
// A bundle is a zip file: one file a section, all in one format, README.txt, which says what
// they are, and manifest.json, which is signed:
//
//	{"manifest":{…},"signature":{"algorithm":"ed25519","keyId":…,"value":…}}
//
// The signature, by a key for packs, is over the RFC 8785 text of the manifest. For each file
// that states its name, its number of rows, and length and SHA-256 of its bytes, both plain and
// as compressed in the zip file. All else of the zip file follows from that, so each byte is
// covered: entries have no time, comment or extra field, only flags 8 and version 20, and
// follow each other in the order of the manifest, manifest.json last, which is not compressed. Numbers that do not fit in
// their fields are in those of Zip64, and then the directory has version 45 for a file whose lengths are. Line ends are bytes as any.
//
// rows are the lines of NDJSON, those of JSON but its first and last, which are the brackets of the list, the records of CSV
// (RFC 4180) but the first, which names the columns, and of PARQUET num_rows of its FileMetaData. README.txt has none.
package dsar

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
)

// Manifest describes a bundle.
type Manifest struct {
	// AsOf is the log position before which everything is in the bundle.
	AsOf      string          `json:"asOf"`
	CreatedAt string          `json:"createdAt"`
	Directory json.RawMessage `json:"directory"` // the signed key directory, verbatim
	Files     []File          `json:"files"`
	Format    string          `json:"format"` // JSON, CSV, NDJSON or PARQUET
	JobID     string          `json:"jobId"`
	Kind      string          `json:"kind"` // of the job
	// Pending counts, by node, the acknowledged records of all tenants that were only in the
	// node's spool: the bundle may lack some of them.
	Pending map[string]int64 `json:"pending"`
	// SigningKeyID names the key of the signature, of keydir.PurposePack or, for a sandbox,
	// keydir.PurposeSandbox.
	SigningKeyID string `json:"signingKeyId"`
	TenantID     string `json:"tenantId"`
	Version      int    `json:"v"` // 1
}

// File is a section of a bundle.
type File struct {
	Bytes        int64  `json:"bytes"`
	Name         string `json:"name"`
	PackedBytes  int64  `json:"packedBytes"`
	PackedSHA256 string `json:"packedSha256"` // base64url, as SHA256
	Rows         int64  `json:"rows"`
	SHA256       string `json:"sha256"`
}

const (
	ManifestName     = "manifest.json"
	ReadmeName       = "README.txt"
	MaxManifestBytes = 16 << 20
)

// sum counts and hashes the bytes that are written through it.
type sum struct {
	to   io.Writer
	n    int64
	hash hash.Hash
}

func newSum(to io.Writer) *sum { return &sum{to: to, hash: sha256.New()} }

func (s *sum) Write(p []byte) (int, error) {
	n, err := s.to.Write(p)
	s.n += int64(n)
	s.hash.Write(p[:n])
	return n, err
}

func (s *sum) text() string { return canonical.Base64.EncodeToString(s.hash.Sum(nil)) }

// Writer writes a bundle. Its memory doesn't grow with the rows.
type Writer struct {
	zip    *zip.Writer
	whole  *sum
	packed *sum // of the file that is being written
	plain  *sum
	rows   int64
	files  []File
	name   string
}

// NewWriter begins a bundle.
func NewWriter(w io.Writer) *Writer {
	b := &Writer{whole: newSum(w), files: []File{}}
	b.zip = zip.NewWriter(b.whole)
	begin := func(pack func(io.Writer) (io.WriteCloser, error)) zip.Compressor {
		return func(w io.Writer) (io.WriteCloser, error) {
			b.end() // the file before is complete only now
			b.packed = newSum(w)
			return pack(b.packed)
		}
	}
	b.zip.RegisterCompressor(zip.Deflate, begin(func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestSpeed) }))
	b.zip.RegisterCompressor(zip.Store, begin(func(w io.Writer) (io.WriteCloser, error) { return plainWriter{w}, nil }))
	return b
}

type plainWriter struct{ io.Writer }

func (plainWriter) Close() error { return nil }

// File begins the next file; the one before must not be written to any more. A file that is
// packed already is stored uncompressed.
func (b *Writer) File(name string, packed bool) (io.Writer, error) {
	method := zip.Deflate
	if packed {
		method = zip.Store
	}
	w, err := b.zip.CreateHeader(&zip.FileHeader{Name: name, Method: method})
	if err != nil {
		return nil, fmt.Errorf("cannot begin %s: %w", name, err)
	}
	b.plain, b.rows, b.name = newSum(w), 0, name
	return b.plain, nil
}

// Rows adds n to the number of rows of the file that is being written.
func (b *Writer) Rows(n int64) { b.rows += n }

// Bytes is how many bytes of the bundle were written so far, without those in buffers.
func (b *Writer) Bytes() int64 { return b.whole.n }

// end adds the file that is complete to the manifest's list.
func (b *Writer) end() {
	if b.plain != nil {
		b.files = append(b.files, File{Bytes: b.plain.n, Name: b.name, PackedBytes: b.packed.n, PackedSHA256: b.packed.text(), Rows: b.rows, SHA256: b.plain.text()})
		b.plain = nil
	}
}

// Close ends the bundle with its manifest, and returns the bundle's length and its SHA-256 in
// base64url. The caller has set all of m but Files, SigningKeyID and Version. It does not close
// the underlying writer.
func (b *Writer) Close(m Manifest, signer *sealer.Signer) (bytes int64, digest string, err error) {
	w, err := b.zip.CreateHeader(&zip.FileHeader{Name: ManifestName, Method: zip.Store})
	if err != nil {
		return 0, "", err
	}
	m.Files, m.SigningKeyID, m.Version = b.files, signer.KeyID, 1
	text, err := canonical.JSON(m)
	if err != nil {
		return 0, "", err
	}
	signature, err := signer.Key.Sign(nil, text, crypto.Hash(0))
	if err != nil {
		return 0, "", fmt.Errorf("cannot sign the manifest: %w", err)
	}
	whole := append([]byte(`{"manifest":`), text...)
	whole = append(sealer.AppendSignature(append(whole, `,"signature":`...), signer.KeyID, signature), '}')
	if _, err = w.Write(whole); err == nil {
		err = b.zip.Close()
	}
	return b.whole.n, b.whole.text(), err
}

// ParseManifest reads manifest.json strictly, and also returns the signed text and its
// signature. It verifies nothing.
func ParseManifest(text []byte) (m Manifest, signed, signature []byte, err error) {
	s := sealer.NewScanner(string(text))
	s.Lit(`{"manifest":`)
	from := s.At
	s.Object()
	signed = text[from:s.At]
	s.Lit(`,"signature":`)
	keyID, signature := s.Signature()
	s.Lit(`}`)
	if err = s.End(); err != nil {
		return m, nil, nil, err
	}
	d := json.NewDecoder(bytes.NewReader(signed))
	d.DisallowUnknownFields()
	if err = d.Decode(&m); err != nil {
		return m, nil, nil, err
	}
	again, err := canonical.JSON(m)
	switch {
	case err != nil:
	case !bytes.Equal(again, signed):
		err = canonical.ErrNotCanonical
	case m.Version != 1:
		err = fmt.Errorf("unknown version %d", m.Version)
	case keyID != m.SigningKeyID:
		err = errors.New("signed by another key than it names")
	default:
		_, err = canonical.ParseTime(m.CreatedAt)
	}
	return m, signed, signature, err
}
