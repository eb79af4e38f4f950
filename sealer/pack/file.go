package pack

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/merkle"
)

const (
	// maxHeaderBytes is the most bytes of a header. 100,000 rows of metering, as many
	// duplicates and as many lines of settlement fit, by any rules.
	maxHeaderBytes = 80 << 20
	// maxObjectBytes bounds the one-object form, which is held in memory.
	maxObjectBytes = 256 << 20
)

// BundleWriter writes a sealed pack as NDJSON: header, entries, signature.
type BundleWriter struct {
	w    *bufio.Writer
	pack *Pack
	tree *merkle.Tree
	err  error
}

// NewBundleWriter writes the header of p to w and returns the writer of its entries.
func NewBundleWriter(w io.Writer, p *Pack) *BundleWriter {
	b := &BundleWriter{w: bufio.NewWriterSize(w, 1<<16), pack: p, tree: p.before.Clone()}
	b.line(p.HeaderText)
	return b
}

// Add writes the next entry, the text of an event verbatim.
func (b *BundleWriter) Add(event []byte) error {
	b.tree.Append(merkle.LeafHash(event))
	b.line(event)
	return b.err
}

// Close ends the bundle with its signature. It does not close or sync the underlying writer.
// It fails if the entries are not the sealed ones.
func (b *BundleWriter) Close() error {
	h := &b.pack.Header
	if b.tree.Size() != h.TreeSize || b.tree.Root() != h.RootHash {
		b.err = errors.Join(b.err, errors.New("the written entries are not the sealed ones"))
	}
	if b.err == nil {
		b.line(sealer.SignatureLine(h.SigningKeyID, b.pack.Signature))
	}
	if b.err == nil {
		b.err = b.w.Flush()
	}
	if b.err != nil {
		return fmt.Errorf("cannot write bundle of pack %s: %w", h.PackID, b.err)
	}
	return nil
}

func (b *BundleWriter) line(text []byte) {
	if b.err == nil {
		_, b.err = b.w.Write(text)
	}
	if b.err == nil {
		b.err = b.w.WriteByte('\n')
	}
}

// AppendObject appends the pack as one JSON object, whose entries are strings
// that hold the canonical texts: {"entries":[…],"header":{…},"signature":{…}}.
func AppendObject(dst []byte, p *Pack, entries [][]byte) []byte {
	dst = append(dst, `{"entries":[`...)
	for i, e := range entries {
		dst = canonical.AppendComma(dst, i)
		dst = canonical.AppendString(dst, string(e))
	}
	dst = append(dst, `],"header":`...)
	dst = append(dst, p.HeaderText...)
	dst = append(dst, `,"signature":`...)
	dst = sealer.AppendSignature(dst, p.Header.SigningKeyID, p.Signature)
	return append(dst, '}')
}

// Reader reads a pack of any form, strictly: it fails with ErrNotCanonical where a text is
// not what a writer writes. A bundle is streamed, and may be compressed with zstd.
type Reader struct {
	header     Header
	headerText []byte
	signature  []byte
	beside     *keydir.Key // from the sandbox's response; nil in other forms

	lines   *bufio.Reader // of a bundle
	entries []string      // of an object, those not read yet
	read    int
}

// Read reads the header of a pack and returns the reader of its entries. The header is
// only parsed; nothing is verified.
func Read(r io.Reader) (*Reader, error) {
	p := new(Reader)
	err := p.begin(bufio.NewReaderSize(r, 1<<16))
	if err != nil {
		return nil, fmt.Errorf("cannot read pack: %w", err)
	}
	return p, nil
}

// How the forms of a pack begin. In a response of the sandbox a key follows the pack.
const (
	headerStart = `{"checkpoint":`
	objectStart = `{"entries":[`
	besideStart = `{"pack":`
	answerStart = `{"ok":true,"data":`
)

// inObject reports whether a file with this start holds a pack as one object.
func inObject(start []byte) bool {
	rest, _ := bytes.CutPrefix(start, []byte(answerStart))
	rest, inside := bytes.CutPrefix(rest, []byte(besideStart))
	return bytes.HasPrefix(rest, []byte(objectStart)) && (inside || len(rest) == len(start))
}

func (p *Reader) begin(r *bufio.Reader) (err error) {
	if r, err = Uncompressed(r); err != nil {
		return err
	}
	start, err := r.Peek(len(answerStart + besideStart + objectStart))
	if err != nil && err != io.EOF {
		return err
	}
	if inObject(start) {
		return p.readObject(r)
	}
	p.lines = r
	if p.headerText, err = readLine(p.lines, maxHeaderBytes); err != nil {
		return noEOF(err)
	}
	p.header, err = parseHeader(p.headerText)
	return err
}

func (p *Reader) readObject(r io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(r, maxObjectBytes+1))
	if err != nil {
		return err
	}
	if len(text) > maxObjectBytes {
		return fmt.Errorf("the object has more than %d bytes", maxObjectBytes)
	}
	s := sealer.NewScanner(string(text))
	answer, beside := s.Has(answerStart), s.Has(besideStart)
	s.Lit(`{"entries":`)
	s.List(func() { p.entries = append(p.entries, s.Name()) })
	s.Lit(`,"header":`)
	headerAt := s.At
	s.Object()
	p.headerText = text[headerAt:s.At:s.At]
	s.Lit(`,"signature":`)
	keyID, signature := s.Signature()
	s.Lit(`}`)
	if beside {
		s.Lit(`,"verificationKey":`)
		k := keydir.ReadAnsweredKey(&s)
		p.beside = &k
		s.Lit(`}`)
		if answer {
			s.Lit(`}`)
		}
		s.Has("\n")
	}
	if err := s.End(); err != nil {
		return err
	}
	if p.header, err = parseHeader(p.headerText); err != nil {
		return err
	}
	return p.setSignature(keyID, signature)
}

func (p *Reader) setSignature(keyID string, signature []byte) error {
	if keyID != p.header.SigningKeyID {
		return fmt.Errorf("signed by key %s, but the header names %s", keyID, p.header.SigningKeyID)
	}
	p.signature = signature
	return nil
}

// Header returns the header.
func (p *Reader) Header() *Header { return &p.header }

// KeyBeside returns the key that a response of the sandbox has besides the pack; nil in other forms.
func (p *Reader) KeyBeside() *keydir.Key { return p.beside }

// HeaderText returns the canonical text of the header, which the signature covers.
func (p *Reader) HeaderText() []byte { return p.headerText }

// Signature returns the signature over HeaderText; nil until Next has returned io.EOF.
func (p *Reader) Signature() []byte { return p.signature }

// Next returns the text of the next entry, which the caller owns; io.EOF after the last, once
// the signature and the end of the file are read. The caller must compare the number of
// entries with the header.
func (p *Reader) Next() ([]byte, error) {
	event, err := p.next()
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("cannot read pack %s after entry %d: %w", p.header.PackID, p.read, err)
	}
	p.read++
	return event, err
}

var signatureStart = []byte(`{"signature":`)

func (p *Reader) next() ([]byte, error) {
	if p.lines == nil {
		if len(p.entries) == 0 {
			return nil, io.EOF
		}
		event := []byte(p.entries[0])
		p.entries = p.entries[1:]
		return event, sealer.CheckLength(event)
	}
	if p.signature != nil {
		return nil, io.EOF
	}
	line, err := readLine(p.lines, sealer.MaxEventBytes)
	if err != nil {
		return nil, noEOF(err)
	}
	if !bytes.HasPrefix(line, signatureStart) {
		return line, nil
	}
	keyID, signature, err := sealer.ParseSignatureLine(line)
	if err != nil {
		return nil, err
	}
	switch _, err := p.lines.Peek(1); err {
	case io.EOF:
	case nil:
		return nil, fmt.Errorf("%w: more after the signature", canonical.ErrNotCanonical)
	default:
		return nil, err
	}
	if err := p.setSignature(keyID, signature); err != nil {
		return nil, err
	}
	return nil, io.EOF
}

// readLine reads one line and returns it without its newline, which the last line must have too.
func readLine(lines *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := lines.ReadSlice('\n')
		if len(line)+len(part) > limit+1 {
			return nil, fmt.Errorf("%w: a line of more than %d bytes", canonical.ErrNotCanonical, limit)
		}
		line = append(line, part...)
		switch err {
		case nil:
			return slices.Clip(line[:len(line)-1]), nil
		case bufio.ErrBufferFull:
		case io.EOF:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

// noEOF returns ErrNotCanonical for the end of a file.
func noEOF(err error) error {
	if err == io.ErrUnexpectedEOF || err == io.EOF {
		return fmt.Errorf("%w: the file ends too early", canonical.ErrNotCanonical)
	}
	return err
}

// zstdStart is the start of a file that is compressed with zstd (RFC 8878).
var zstdStart = []byte{0x28, 0xb5, 0x2f, 0xfd}

// maxWindowBytes is the largest window of a compressed file, and so the memory for reading it:
// what every decoder of the content coding must support (RFC 9659).
const maxWindowBytes = 8 << 20

// Uncompressed returns a reader of a file that may be compressed with zstd, as a download is
// if the client accepts that. The caller must limit how much it reads.
func Uncompressed(r *bufio.Reader) (*bufio.Reader, error) {
	start, err := r.Peek(len(zstdStart))
	if err != nil || !bytes.Equal(start, zstdStart) {
		return r, nil // the caller meets the same error
	}
	in, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindowBytes))
	if err != nil {
		return nil, err
	}
	return bufio.NewReaderSize(unpackedReader{in}, 1<<16), nil
}

// unpackedReader reports faults of the compression as ErrNotCanonical.
type unpackedReader struct{ io.Reader }

func (u unpackedReader) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: zstd: %w", canonical.ErrNotCanonical, err)
	}
	return n, err
}
