package sealer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"
)

const (
	// MaxEventBytes is the longest event: one that is longer is neither written nor
	// read, so no log holds what no pack could.
	MaxEventBytes = 1 << 20
	// maxHeaderBytes is the longest header: 100,000 rows of metering, as many duplicates,
	// and as many lines of settlement fit.
	maxHeaderBytes = 80 << 20
	// maxObjectBytes bounds the one-object form, which is held in memory.
	maxObjectBytes = 256 << 20
)

// BundleWriter writes a sealed pack as NDJSON: header, entries, signature.
type BundleWriter struct {
	w    *bufio.Writer
	pack *SealedPack
	tree *Tree
	err  error
}

// NewBundleWriter begins a bundle of p.
func NewBundleWriter(w io.Writer, p *SealedPack) *BundleWriter {
	b := &BundleWriter{w: bufio.NewWriterSize(w, 1<<16), pack: p, tree: p.before.Clone()}
	b.line(p.HeaderText)
	return b
}

// Add writes the next entry, the text of an event verbatim.
func (b *BundleWriter) Add(event []byte) error {
	b.tree.Append(LeafHash(event))
	b.line(event)
	return b.err
}

// Close ends the bundle with its signature; it does not close or sync the writer
// underneath. It fails if the entries are not the sealed ones.
func (b *BundleWriter) Close() error {
	h := &b.pack.Header
	if b.tree.Size() != h.TreeSize || b.tree.Root() != h.RootHash {
		b.err = errors.Join(b.err, errors.New("the entries written are not those that were sealed"))
	}
	if b.err == nil {
		b.line(signatureLine(h.SigningKeyID, b.pack.Signature))
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

// AppendPackObject appends the pack as one JSON object, whose entries are strings
// that hold the canonical texts: {"entries":[…],"header":{…},"signature":{…}}.
func AppendPackObject(dst []byte, p *SealedPack, entries [][]byte) []byte {
	dst = append(dst, `{"entries":[`...)
	for i, e := range entries {
		dst = appendComma(dst, i)
		dst = AppendString(dst, string(e))
	}
	dst = append(dst, `],"header":`...)
	dst = append(dst, p.HeaderText...)
	dst = append(dst, `,"signature":`...)
	dst = appendSignature(dst, p.Header.SigningKeyID, p.Signature)
	return append(dst, '}')
}

// PackReader reads a pack of any form, strictly: whatever is not the one spelling of
// a pack is ErrNotCanonical. A bundle is streamed, and may be compressed with zstd.
type PackReader struct {
	header     PackHeader
	headerText []byte
	signature  []byte
	beside     *Key // that the sandbox's answer names; nil in other forms

	lines   *bufio.Reader // of a bundle
	entries []string      // left of an object
	read    int
}

// ReadPack begins to read a pack and returns once the header is read. The header
// is only parsed; nothing is verified.
func ReadPack(r io.Reader) (*PackReader, error) {
	p := new(PackReader)
	err := p.begin(bufio.NewReaderSize(r, 1<<16))
	if err != nil {
		return nil, fmt.Errorf("cannot read pack: %w", err)
	}
	return p, nil
}

// How the forms of a pack begin. In an answer of the sandbox a pack stands beside a key.
const (
	headerStart = `{"checkpoint":`
	objectStart = `{"entries":[`
	besideStart = `{"pack":`
	answerStart = `{"ok":true,"data":`
)

// inObject says whether a file that begins so holds a pack as one object.
func inObject(start []byte) bool {
	rest, _ := bytes.CutPrefix(start, []byte(answerStart))
	rest, inside := bytes.CutPrefix(rest, []byte(besideStart))
	return bytes.HasPrefix(rest, []byte(objectStart)) && (inside || len(rest) == len(start))
}

func (p *PackReader) begin(r *bufio.Reader) (err error) {
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
	p.header, err = parsePackHeader(p.headerText)
	return err
}

func (p *PackReader) readObject(r io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(r, maxObjectBytes+1))
	if err != nil {
		return err
	}
	if len(text) > maxObjectBytes {
		return fmt.Errorf("an object of more than %d bytes", maxObjectBytes)
	}
	s := scanner{text: string(text)}
	answer, beside := s.has(answerStart), s.has(besideStart)
	s.lit(`{"entries":`)
	s.list(func() { p.entries = append(p.entries, s.name()) })
	s.lit(`,"header":`)
	headerAt := s.at
	s.object()
	p.headerText = text[headerAt:s.at:s.at]
	s.lit(`,"signature":`)
	keyID, signature := s.signature()
	s.lit(`}`)
	if beside {
		s.lit(`,"verificationKey":`)
		k := readAnsweredKey(&s)
		p.beside = &k
		s.lit(`}`)
		if answer {
			s.lit(`}`)
		}
		s.has("\n")
	}
	if err := s.end(); err != nil {
		return err
	}
	if p.header, err = parsePackHeader(p.headerText); err != nil {
		return err
	}
	return p.setSignature(keyID, signature)
}

func (p *PackReader) setSignature(keyID string, signature []byte) error {
	if keyID != p.header.SigningKeyID {
		return fmt.Errorf("signed by key %s, the header names %s", keyID, p.header.SigningKeyID)
	}
	p.signature = signature
	return nil
}

// Header returns the header; HeaderText its text, which is what was signed.
func (p *PackReader) Header() *PackHeader { return &p.header }

// KeyBeside is the key that an answer of the sandbox has beside the pack; nil in other forms.
func (p *PackReader) KeyBeside() *Key { return p.beside }

// HeaderText returns the canonical text of the header.
func (p *PackReader) HeaderText() []byte { return p.headerText }

// Signature returns the signature over HeaderText; nil until Next returned io.EOF.
func (p *PackReader) Signature() []byte { return p.signature }

// Next returns the text of the next entry, which the caller owns; io.EOF behind
// the last, once the signature and the end of the file are read. How many there
// have to be is for the caller to compare with the header.
func (p *PackReader) Next() ([]byte, error) {
	event, err := p.next()
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("cannot read pack %s behind entry %d: %w", p.header.PackID, p.read, err)
	}
	p.read++
	return event, err
}

var signatureStart = []byte(`{"signature":`)

func (p *PackReader) next() ([]byte, error) {
	if p.lines == nil {
		if len(p.entries) == 0 {
			return nil, io.EOF
		}
		event := []byte(p.entries[0])
		p.entries = p.entries[1:]
		return event, checkLength(event)
	}
	if p.signature != nil {
		return nil, io.EOF
	}
	line, err := readLine(p.lines, MaxEventBytes)
	if err != nil {
		return nil, noEOF(err)
	}
	if !bytes.HasPrefix(line, signatureStart) {
		return line, nil
	}
	keyID, signature, err := ParseSignatureLine(line)
	if err != nil {
		return nil, err
	}
	switch _, err := p.lines.Peek(1); err {
	case io.EOF:
	case nil:
		return nil, fmt.Errorf("%w: more behind the signature", ErrNotCanonical)
	default:
		return nil, err
	}
	if err := p.setSignature(keyID, signature); err != nil {
		return nil, err
	}
	return nil, io.EOF
}

// readLine reads one line, whose newline it takes off. The last one has it too.
func readLine(lines *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := lines.ReadSlice('\n')
		if len(line)+len(part) > limit+1 {
			return nil, fmt.Errorf("%w: a line of more than %d bytes", ErrNotCanonical, limit)
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

// noEOF makes the end of a file a fault.
func noEOF(err error) error {
	if err == io.ErrUnexpectedEOF || err == io.EOF {
		return fmt.Errorf("%w: the file ends too early", ErrNotCanonical)
	}
	return err
}

// zstdStart begins a file that is compressed with zstd (RFC 8878).
var zstdStart = []byte{0x28, 0xb5, 0x2f, 0xfd}

// maxWindowBytes is how far back a compressed file may refer, and so what reading it needs in
// memory: as much as any reader of the content coding has to provide (RFC 9659).
const maxWindowBytes = 8 << 20

// Uncompressed reads a file that may be compressed with zstd, as a download is if its reader
// accepts that. The caller bounds what is read of it.
func Uncompressed(r *bufio.Reader) (*bufio.Reader, error) {
	start, err := r.Peek(len(zstdStart))
	if err != nil || !bytes.Equal(start, zstdStart) {
		return r, nil // whatever it is, its reader says so
	}
	in, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindowBytes))
	if err != nil {
		return nil, err
	}
	return bufio.NewReaderSize(unpacked{in}, 1<<16), nil
}

// unpacked names what is wrong with the compression.
type unpacked struct{ io.Reader }

func (u unpacked) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: zstd: %w", ErrNotCanonical, err)
	}
	return n, err
}
