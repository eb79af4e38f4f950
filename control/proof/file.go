package proof

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"

	"muniment.example/control/objects"
	"muniment.example/gateway/api"
	"muniment.example/sealer/keyfile"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
)

// packSuffix ends the name of a pack's file, draftSuffix that of one being written.
const (
	packSuffix  = ".ndjson.zst"
	draftSuffix = ".draft"
)

// PackType is the media type of a pack's file.
const PackType = "application/zstd"

// folder keeps the packs, one file each: <tenantId>/<packId>.ndjson.zst, one frame of zstd (RFC 8878)
// that any reader of the content coding can read. A file is complete before it has that name, and
// never changes after. The process's own folder has what is not finished, and what can be made again.
type folder struct {
	packs objects.Place
	dir   string
	// free is how many bytes the disk of dir has free.
	free func() (int64, error)
	// step is called with the name of each operation that can fail, before it; an error simulates
	// its failure.
	step func(name string) error
}

// name is the path of a file in the process's own folder.
func (f folder) name(tenantID, base string) string { return filepath.Join(f.dir, tenantID, base) }

// key is a pack's in the place of packs.
func key(tenantID, packID string) string { return tenantID + "/" + packID + packSuffix }

// Sum identifies a text.
type Sum struct {
	Bytes  int64
	SHA256 string // base64url
}

// write writes the file of a pack with the lines that fill writes. When it returns nil, file and name
// survive a crash of the machine. After an error there is no file of this draft, unless the place of packs no longer
// answers: then a later sweep removes what a lost response has left there.
func (f folder) write(ctx context.Context, tenantID, packID string, fill func(io.Writer) error) (lines, file Sum, err error) {
	if err := keyfile.MakeDir(f.name(tenantID, "")); err != nil {
		return lines, file, err
	}
	draft := f.name(tenantID, packID+draftSuffix)
	lines, file, err = f.writeDraft(draft, fill)
	if err == nil {
		err = f.step("create pack")
	}
	if err == nil {
		err = f.packs.Create(ctx, key(tenantID, packID), draft)
		if err != nil && !errors.Is(err, objects.ErrOther) { // nobody else has the id
			err = errors.Join(err, f.remove(ctx, tenantID, packID))
		}
	}
	if err != nil {
		return lines, file, errors.Join(err, removeIfThere(draft))
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
// damaged file is refused. One in a bucket is copied to a file without a name, which ends with its
// reader; if the disk has no space for that, the error is 503 STORAGE_FULL.
func (f folder) open(ctx context.Context, p Pack) (*os.File, error) {
	content, err := f.packs.Open(ctx, key(p.TenantID, p.ID))
	if err != nil {
		return nil, fmt.Errorf("cannot open pack %s: %w", p.ID, err)
	}
	file, local := content.(*os.File)
	found := newCounter(io.Discard)
	if !local {
		defer content.Close()
		if err = f.hasSpace(p.File.Bytes); err == nil {
			file, err = f.unnamed(p.TenantID)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot copy pack %s: %w", p.ID, full(err))
		}
		found.w = file
	}
	if err = f.step("read pack"); err == nil {
		_, err = io.Copy(found, io.LimitReader(content, p.File.Bytes+1)) // whoever writes to the bucket can't fill the disk
	}
	err = full(err)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err == nil && found.sum() != p.File {
		err = errDamaged
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open pack %s: %w", p.ID, err), file.Close())
	}
	return file, nil
}

// errDamaged means that a pack's file is not the one that was sealed.
var errDamaged = errors.New("its file is damaged")

// leastFree is how many bytes copies of packs leave free on the process's disk, for what it has to write itself.
const leastFree = 1 << 30

// errFull answers who reads a pack that can't be copied.
var errFull = api.Unavailable(api.StorageFull, "the disk has no space for a copy of the pack", time.Minute)

// hasSpace returns errFull unless the disk has space for a copy.
func (f folder) hasSpace(size int64) error {
	free, err := f.free()
	if err == nil && free < size+leastFree {
		err = fmt.Errorf("%w: %d bytes are free, and %d have to stay free beside the copy", errFull, free, leastFree)
	}
	return err
}

// full makes an errFull of the error of a disk that is full.
func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", errFull, err)
	}
	return err
}

// unnamed makes a file of the process's own folder, which ends with the process.
func (f folder) unnamed(tenantID string) (*os.File, error) {
	dir := f.name(tenantID, "")
	if err := keyfile.MakeDir(dir); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(dir, "*"+draftSuffix)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// unpack returns a reader of the canonical lines in a pack's file.
func unpack(file io.Reader) (io.Reader, error) {
	return zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window))
}

// removeFor bounds how long a failed seal tries to remove its pack.
const removeFor = 10 * time.Second

// remove deletes the files of a pack that was not sealed, also if the caller has gone.
func (f folder) remove(ctx context.Context, tenantID, packID string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeFor)
	defer cancel()
	return errors.Join(removeIfThere(f.name(tenantID, packID+nodesSuffix)), f.packs.Remove(ctx, key(tenantID, packID)))
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

func (c *counter) sum() Sum { return Sum{c.n, merkle.Hash(c.hash.Sum(nil)).String()} }

// packKey matches the keys of packs. Objects with other names are not ours.
var packKey = regexp.MustCompile(`^(tnt_[^/]+)/(ppk_[^/]+)` + regexp.QuoteMeta(packSuffix) + `$`)

// each calls take for the packs whose keys begin with prefix, in any order. take may remove its pack.
func each(ctx context.Context, packs objects.Place, prefix string, take func(tenantID, packID string) error) error {
	return packs.List(ctx, prefix, func(o objects.Object) error {
		if parts := packKey.FindStringSubmatch(o.Key); parts != nil {
			return take(parts[1], parts[2])
		}
		return nil
	})
}

// PackEvents calls take for the events of all packs in a place, verbatim: the log may no longer have
// them. known are those of Files that the place must have as they were sealed, or PackEvents fails; what take got by then
// is void. Other packs are newer than the database, and are taken as they are.
func PackEvents(ctx context.Context, packs objects.Place, known []File, take func(event []byte) error) error {
	missing := make(map[string]File, len(known))
	for _, f := range known {
		missing[f.Name] = f
	}
	err := each(ctx, packs, "", func(tenantID, packID string) error {
		name := key(tenantID, packID)
		f, sealed := missing[name]
		sum, err := packEvents(ctx, packs, name, take)
		switch {
		case errors.Is(err, objects.ErrNone) && !sealed: // another process has swept it
			return nil
		case err == nil && sealed && sum != Sum{f.Bytes, f.SHA256}:
			err = errDamaged
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		delete(missing, name)
		return nil
	})
	for name, f := range missing {
		if err == nil && !f.Sandbox { // a visitor may have gone meanwhile, or since the database was copied
			err = fmt.Errorf("%s: %w, but the database has the pack", name, objects.ErrNone)
		}
	}
	return err
}

// packEvents reads the events of one pack, and returns the sum of its whole file.
func packEvents(ctx context.Context, packs objects.Place, key string, take func(event []byte) error) (Sum, error) {
	f, err := packs.Open(ctx, key)
	if err != nil {
		return Sum{}, err
	}
	defer f.Close()
	file := newCounter(io.Discard)
	text := io.TeeReader(f, file)
	p, err := pack.Read(text)
	for err == nil {
		var event []byte
		if event, err = p.Next(); err == nil {
			err = take(event)
		}
	}
	if err == io.EOF {
		_, err = io.Copy(io.Discard, text)
	}
	return file.sum(), err
}
