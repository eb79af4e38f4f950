package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keyfile"
)

// tarSuffix ends the name of a backup that is one file.
const tarSuffix = ".tar"

// pack makes a tar of the folder, manifest first, and removes the folder.
func (w *backupWriter) pack(ctx context.Context) error {
	at, err := canonical.ParseTime(w.m.TakenAt)
	if err != nil {
		return err
	}
	draft := filepath.Join(w.dir, "backup"+tarSuffix)
	err = createDurably(draft, 0o600, func(to *os.File) error {
		archive := tar.NewWriter(w.pace.writer(ctx, to))
		for _, f := range append([]File{{Name: manifestFile}}, w.m.Files...) {
			if err := errors.Join(ctx.Err(), w.packFile(archive, f.Name, at)); err != nil {
				return err
			}
		}
		return archive.Close()
	})
	if err != nil {
		return err
	}
	if err := publish(draft, w.To); err != nil {
		return err
	}
	return os.RemoveAll(w.dir)
}

func (w *backupWriter) packFile(archive *tar.Writer, name string, at time.Time) error {
	f, err := os.Open(filepath.Join(w.dir, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(&tar.Header{Name: name, Size: info.Size(), Mode: 0o600, ModTime: at, Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = io.Copy(archive, f)
	return err
}

// archive is a backup that is read in the order of its manifest. It may come from an untrusted
// source: only plain files within it are read.
type archive interface {
	// open opens the next file, which must have this name, and says how long it is. The
	// caller closes it, and reads no more of it than it expects.
	open(name string) (file io.ReadCloser, size int64, err error)
	io.Closer
}

func openArchive(from string) (archive, error) {
	info, err := os.Stat(from)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		root, err := os.OpenRoot(from)
		return folderArchive{root}, err
	case !info.Mode().IsRegular():
		return nil, notRegular(from)
	}
	f, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	return &tarArchive{file: f, tar: tar.NewReader(f)}, nil
}

func notRegular(name string) error { return fmt.Errorf("%s is not a regular file", name) }

type folderArchive struct{ root *os.Root }

func (a folderArchive) open(name string) (io.ReadCloser, int64, error) {
	for i, c := range name {
		if c != '/' {
			continue
		}
		if info, err := a.root.Lstat(filepath.FromSlash(name[:i])); err != nil {
			return nil, 0, err
		} else if !info.IsDir() {
			return nil, 0, notRegular(name)
		}
	}
	seen, err := a.root.Lstat(filepath.FromSlash(name))
	if err != nil {
		return nil, 0, err
	}
	if !seen.Mode().IsRegular() {
		return nil, 0, notRegular(name)
	}
	// Whatever has taken its place since is not waited for.
	f, err := a.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !os.SameFile(seen, info) {
		err = notRegular(name)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

func (a folderArchive) Close() error { return a.root.Close() }

type tarArchive struct {
	file *os.File
	tar  *tar.Reader
}

func (a *tarArchive) open(name string) (io.ReadCloser, int64, error) {
	h, err := a.tar.Next() // a header of more than 1 MiB is an error
	switch {
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	case err != nil:
	case h.Name != name:
		err = fmt.Errorf("the tar holds %q in its place", h.Name)
	case h.Typeflag != tar.TypeReg || sparse(h):
		return nil, 0, notRegular(name)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("cannot read %s: %w", name, err)
	}
	return io.NopCloser(a.tar), h.Size, nil
}

// sparse says whether an entry, of a plain file by its type, leaves out zeros: a few bytes of it could fill
// a disk.
func sparse(h *tar.Header) bool {
	for record := range h.PAXRecords {
		if strings.HasPrefix(record, "GNU.sparse.") {
			return true
		}
	}
	return false
}

func (a *tarArchive) Close() error { return a.file.Close() }

// hashCopy copies and hashes.
func hashCopy(to io.Writer, from io.Reader) (size int64, sum []byte, err error) {
	hash := sha256.New()
	size, err = io.Copy(io.MultiWriter(to, hash), from)
	return size, hash.Sum(nil), err
}

// createDurably makes a new file, and the folders above it, out of what fill
// writes; its bytes are on disk when it returns nil.
func createDurably(name string, mode os.FileMode, fill func(*os.File) error) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if fill != nil {
		err = fill(f)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func writeDurably(name string, text []byte) error {
	return createDurably(name, 0o600, func(w *os.File) error {
		_, err := w.Write(text)
		return err
	})
}

// publish gives what is finished its name: a file, or a folder whose entries are
// brought to disk first.
func publish(from, to string) error {
	if err := syncFolders(from); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return keyfile.Sync(filepath.Dir(to))
}

// syncFolders syncs a folder and all below it; a plain file is left alone.
func syncFolders(dir string) error {
	return filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return keyfile.Sync(name)
	})
}

// local says whether a name of a manifest may be written below a new folder: one
// of the parts that a backup has, and nothing that leads out of it or is hard to see.
func local(name string) bool {
	hidden := func(c rune) bool { return c <= ' ' || c > '~' || c == '\\' }
	if strings.ContainsFunc(name, hidden) || strings.Contains(name, "/.") {
		return false
	}
	top, _, below := strings.Cut(name, "/")
	switch top {
	case controlFile, warehouseFile:
		return !below
	case logFolder, packsFolder, keysFolder:
		return below && filepath.IsLocal(filepath.FromSlash(name)) && filepath.ToSlash(filepath.Clean(name)) == name
	}
	return false
}
