package segment

import "path/filepath"

// lazyFS is a file system that makes nothing durable; see Config.Lazy.
type lazyFS struct{ FS }

func (fs lazyFS) Create(name string) (File, error) { return lazily(fs.FS.Create(name)) }

func (fs lazyFS) Open(name string, readOnly bool) (File, error) {
	return lazily(fs.FS.Open(name, readOnly))
}

func (lazyFS) SyncDir(string) error { return nil }

type lazyFile struct{ File }

func lazily(f File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return lazyFile{f}, nil
}

func (lazyFile) Sync() error     { return nil }
func (lazyFile) Datasync() error { return nil }

// removeAll removes the segments of a folder, whatever is in them, and their indexes.
func removeAll(fs FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, index := isIndexName(name); !index && !isSegmentName(name) {
			continue
		}
		if err := fs.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
