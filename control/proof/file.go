package proof

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"muniment/gateway/api"
	"muniment/sealer"
	"muniment/sealer/keyfile"
)

// packSuffix ends the name of a pack's file, draftSuffix that of one being written.
const (
	packSuffix  = ".ndjson.zst"
	draftSuffix = ".draft"
)

// folder keeps the packs, one file each: <dir>/<tenantId>/<packId>.ndjson.zst, one frame
// of zstd (RFC 8878) that any reader of the content coding can read. A file
// is complete and on disk before it has that name, and never changes after.
type folder struct {
	dir string
	// step is called with the name of each operation that can fail, before it; an error simulates
	// its failure.
	step func(name string) error
}

func (f folder) name(tenantID, base string) string { return filepath.Join(f.dir, tenantID, base) }

func (f folder) path(tenantID, packID string) string { return f.name(tenantID, packID+packSuffix) }

// Sum identifies a text.
type Sum struct {
	Bytes  int64
	SHA256 string // base64url
}

// write writes the file of a pack with the lines that fill writes. When it returns nil, file and name
// survive a crash of the machine. After an error there is no file.
func (f folder) write(tenantID, packID string, fill func(io.Writer) error) (lines, file Sum, err error) {
	home := f.name(tenantID, "")
	if err := keyfile.MakeDir(home); err != nil {
		return lines, file, err
	}
	draft := f.name(tenantID, packID+draftSuffix)
	lines, file, err = f.writeDraft(draft, fill)
	if err == nil {
		err = f.step("rename")
	}
	if err == nil {
		err = os.Rename(draft, f.path(tenantID, packID))
	}
	if err != nil {
		return lines, file, errors.Join(err, removeIfThere(draft))
	}
	if err = f.step("sync folder"); err == nil {
		err = keyfile.Sync(home)
	}
	if err != nil {
		return lines, file, errors.Join(err, f.remove(tenantID, packID))
	}
	return lines, file, nil
}

// window is the zstd window of a pack's file, which its readers need in memory.
const window = 1 << 20

// writeDraft writes a file and syncs it.
func (f folder) writeDraft(name string, fill func(io.Writer) error) (lines, packed Sum, err error) {
	if err := f.step("create file"); err != nil {
		return lines, packed, err
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return lines, packed, err
	}
	out := newCounter(file)
	to, err := zstd.NewWriter(out, zstd.WithWindowSize(window), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return lines, packed, errors.Join(err, file.Close())
	}
	in := newCounter(to)
	if err = f.step("write file"); err == nil {
		err = fill(in)
	}
	err = errors.Join(err, to.Close())
	if err == nil {
		err = f.step("sync file")
	}
	if err == nil {
		err = file.Sync()
	}
	return in.sum(), out.sum(), errors.Join(err, file.Close())
}

// open opens the file of a sealed pack, after it has read all of it and compared it with its hash. A
// damaged file is refused.
func (f folder) open(p Pack) (*os.File, error) {
	file, err := os.Open(f.path(p.TenantID, p.ID))
	if err != nil {
		return nil, fmt.Errorf("cannot open pack %s: %w", p.ID, err)
	}
	found := newCounter(io.Discard)
	_, err = io.Copy(found, file)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err == nil && found.sum() != p.File {
		err = errors.New("its file is damaged")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open pack %s: %w", p.ID, err), file.Close())
	}
	return file, nil
}

// unpack returns a reader of the canonical lines in a pack's file.
func unpack(file io.Reader) (io.Reader, error) {
	return zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window))
}

// remove deletes the files of a pack that was not sealed.
func (f folder) remove(tenantID, packID string) error {
	return errors.Join(removeIfThere(f.name(tenantID, packID+nodesSuffix)), removeIfThere(f.path(tenantID, packID)))
}

func removeIfThere(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot remove %s: %w", filepath.Base(name), err)
	}
	return nil
}

// counter counts and hashes the bytes written through it.
type counter struct {
	w    io.Writer
	n    int64
	hash hash.Hash
}

func newCounter(w io.Writer) *counter { return &counter{w: w, hash: sha256.New()} }

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	c.hash.Write(p[:n])
	return n, err
}

func (c *counter) sum() Sum { return Sum{c.n, sealer.Hash(c.hash.Sum(nil)).String()} }

// PackEvents calls take for the events of all packs in a folder, verbatim: the log may no longer have
// them. A missing folder has none.
func PackEvents(ctx context.Context, dir string, take func(event []byte) error) error {
	names, err := fs.Glob(os.DirFS(dir), "*/"+string(api.PrefixPack)+"*"+packSuffix)
	for _, name := range names {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = packEvents(filepath.Join(dir, filepath.FromSlash(name)), take)
		}
	}
	return err
}

func packEvents(name string, take func(event []byte) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	pack, err := sealer.ReadPack(f)
	for err == nil {
		var event []byte
		if event, err = pack.Next(); err == nil {
			err = take(event)
		}
	}
	if err == io.EOF {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}
