package store

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
	"time"

	"muniment/sealer"
)

// tarSuffix ends the name of a backup that is one file.
const tarSuffix = ".tar"

// pack makes a tar of the folder, manifest first, and removes the folder.
func (w *backupWriter) pack(ctx context.Context) error {
	at, err := sealer.ParseTime(w.m.TakenAt)
	if err != nil {
		return err
	}
	draft := filepath.Join(w.dir, "backup"+tarSuffix)
	err = createDurably(draft, 0o600, func(to io.Writer) error {
		archive := tar.NewWriter(to)
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

// archive is a backup that is read in the order of its manifest.
type archive interface {
	// open opens the next file, which must have this name. The caller closes it.
	open(name string) (io.ReadCloser, error)
	io.Closer
}

func openArchive(from string) (archive, error) {
	info, err := os.Stat(from)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return folderArchive(from), nil
	}
	f, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	return &tarArchive{file: f, tar: tar.NewReader(f)}, nil
}

type folderArchive string

func (dir folderArchive) open(name string) (io.ReadCloser, error) {
	return os.Open(filepath.Join(string(dir), filepath.FromSlash(name)))
}

func (folderArchive) Close() error { return nil }

type tarArchive struct {
	file *os.File
	tar  *tar.Reader
}

func (a *tarArchive) open(name string) (io.ReadCloser, error) {
	h, err := a.tar.Next()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err == nil && h.Name != name {
		err = fmt.Errorf("the tar holds %q in its place", h.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", name, err)
	}
	return io.NopCloser(a.tar), nil
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
func createDurably(name string, mode os.FileMode, fill func(io.Writer) error) error {
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
	return createDurably(name, 0o600, func(w io.Writer) error {
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
	return Sync(filepath.Dir(to))
}

// syncFolders syncs a folder and all below it; a plain file is left alone.
func syncFolders(dir string) error {
	return filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return Sync(name)
	})
}

// local says whether a name of a manifest may be written below a new folder: one
// of the parts that a backup has, and nothing that leads out of it.
func local(name string) bool {
	top, _, below := strings.Cut(name, "/")
	switch top {
	case controlFile, warehouseFile:
		return !below
	case logFolder, packsFolder, keysFolder:
		return below && filepath.IsLocal(filepath.FromSlash(name)) && filepath.ToSlash(filepath.Clean(name)) == name
	}
	return false
}
