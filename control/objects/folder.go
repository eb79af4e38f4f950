package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"muniment.example/control/reserve"
	"muniment.example/sealer/keyfile"
)

// folder keeps objects as files, at their keys as paths.
type folder struct {
	dir  string
	link func(file, name string) error // os.Link
}

var _ Place = folder{}

func openFolder(dir string) (folder, error) {
	dir = filepath.Clean(dir)
	return folder{dir, os.Link}, keyfile.MakeDir(dir)
}

// Free implements Place.
func (f folder) Free() (int64, error) { return reserve.Free(f.dir) }

// unfinished matches the end of the names of files that are not renamed to their keys yet.
var unfinished = regexp.MustCompile(`\.[0-9a-f]+\.tmp$`)

func (f folder) path(key string) (string, error) {
	local, err := filepath.Localize(key)
	return filepath.Join(f.dir, local), err
}

func (f folder) Write(ctx context.Context, key string, fill func(io.Writer) error) error {
	name, err := f.path(key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.tmp") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // fails once it is renamed
	if err = fill(file); err == nil {
		err = cmp.Or(ctx.Err(), file.Sync())
	}
	if err = cmp.Or(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), name); err != nil {
		return err
	}
	if err := f.sync(filepath.Dir(name)); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

// Create links the file to the key: unlike a rename, this fails if there is an object.
func (f folder) Create(ctx context.Context, key, file string) error {
	name, err := f.path(key)
	if err != nil {
		return err
	}
	if err := cmp.Or(ctx.Err(), os.MkdirAll(filepath.Dir(name), 0o700)); err != nil {
		return err
	}
	err = f.link(file, name)
	created := err == nil
	if errors.Is(err, fs.ErrExist) {
		err = sameFiles(name, file)
	}
	if err != nil {
		return fmt.Errorf("cannot store %s: %w", key, err)
	}
	if err := f.sync(filepath.Dir(name)); err != nil {
		if created {
			err = errors.Join(err, os.Remove(name))
		}
		return err
	}
	return os.Remove(file)
}

// sameFiles returns an ErrOther unless two files have the same bytes.
func sameFiles(name, file string) error {
	object, err := os.Open(name)
	if err != nil {
		return err
	}
	defer object.Close()
	content, err := os.Open(file)
	if err != nil {
		return err
	}
	defer content.Close()
	return same(object, content)
}

// CheckCreate implements Place. It does what Create does, twice with one name, and leaves nothing behind: not every
// file system has links, and one that a network or a program stands behind may replace a file by them.
func (f folder) CheckCreate(context.Context) error {
	file, err := os.CreateTemp(f.dir, checkKey+".*.tmp")
	if err != nil {
		return fmt.Errorf("cannot store in the folder %s: %w", f.dir, err)
	}
	defer os.Remove(file.Name())
	if err := file.Close(); err != nil {
		return fmt.Errorf("cannot store in the folder %s: %w", f.dir, err)
	}
	name := strings.TrimSuffix(file.Name(), ".tmp") + "0.tmp" // as an unfinished write, should the process be killed
	if err := f.link(file.Name(), name); err != nil {
		return fmt.Errorf("the file system of the folder %s can't link a file, by which an object is created once: use another file system, or a bucket: %w", f.dir, err)
	}
	defer os.Remove(name)
	switch err := f.link(file.Name(), name); {
	case err == nil:
		return fmt.Errorf("the file system of the folder %s replaces a file by a link, so that two processes could overwrite each other's objects: use another file system, or a bucket", f.dir)
	case !errors.Is(err, fs.ErrExist):
		return fmt.Errorf("cannot store in the folder %s: %w", f.dir, err)
	}
	return nil
}

// Ready implements Place.
func (f folder) Ready(context.Context) error {
	_, err := os.Stat(f.dir)
	return err
}

// sync waits until the names in a folder are on disk, and those of the folder and its parents.
func (f folder) sync(dir string) error {
	err := keyfile.Sync(dir)
	if err == nil && dir != f.dir {
		err = f.sync(filepath.Dir(dir))
	}
	return err
}

func (f folder) Open(_ context.Context, key string) (io.ReadCloser, error) {
	name, err := f.path(key)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNone
	}
	return file, err
}

func (f folder) Remove(_ context.Context, key string) error {
	name, err := f.path(key)
	if err != nil {
		return err
	}
	err = os.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil { // what was deleted must not come back
		err = keyfile.Sync(filepath.Dir(name))
	}
	return err
}

func (f folder) List(ctx context.Context, prefix string, each func(Object) error) error {
	return f.walk(ctx, prefix, func(name string, modified time.Time) error {
		if unfinished.MatchString(name) {
			return nil
		}
		return each(Object{name, modified})
	})
}

func (f folder) Discard(ctx context.Context, prefix string, keep func(Object) (bool, error)) error {
	return f.walk(ctx, prefix, func(name string, modified time.Time) error {
		if !unfinished.MatchString(name) {
			return nil
		}
		if kept, err := keep(Object{name, modified}); err != nil || kept {
			return err
		}
		return f.Remove(ctx, name)
	})
}

// walk calls each for the files whose names begin with prefix, until it fails.
func (f folder) walk(ctx context.Context, prefix string, each func(name string, modified time.Time) error) error {
	start := path.Dir(prefix + "*") // of "a/b" and "a/" it is "a"
	return fs.WalkDir(os.DirFS(f.dir), start, func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was deleted meanwhile, or never existed
			return nil
		case errors.Is(err, fs.ErrPermission) && name != start: // not ours, such as lost+found
			return nil
		case err != nil:
			return err
		case !d.Type().IsRegular() || !strings.HasPrefix(name, prefix):
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		return each(name, info.ModTime())
	})
}
