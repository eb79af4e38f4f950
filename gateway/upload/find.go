package upload

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
)

// resultsSuffix ends the names of results files, which are never uploaded.
const resultsSuffix = ".results.ndjson"

// The formats that are not the service's own.
const (
	formatLines = "ndjson"
	formatJSON  = "json"
	formatCSV   = "csv"
)

// file is one that is uploaded.
type file struct {
	path, results, format string
	size                  int64
	last                  bool // of the logs that share what is unfinished

	log  *results     // nil until it is read
	refs atomic.Int32 // of the reader, and of each batch that is not answered
	done *atomic.Int64

	mu      sync.Mutex
	failed  error // why it could not be uploaded as a whole
	stopped bool  // nothing more of it is sent
}

func (f *file) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed == nil {
		f.failed = err
	}
}

// refuse is fail of a file that the service refuses: what was read of it is not sent either.
func (f *file) refuse(err error) {
	f.fail(err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
}

func (f *file) refused() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped
}

func (f *file) hold() { f.refs.Add(1) }

// release closes the results of a file that is read and answered.
func (f *file) release() {
	if f.refs.Add(-1) > 0 {
		return
	}
	if f.log != nil {
		if err := f.log.close(); err != nil {
			f.fail(err)
		}
	}
	f.done.Add(1)
}

// find lists the files of paths, those of a folder in the order of their names.
func (u *Uploader) find(paths []string) ([]*file, error) {
	var files []*file
	seen := map[string]string{}
	add := func(path, name string, info fs.FileInfo, named bool) error {
		if strings.HasSuffix(path, resultsSuffix) {
			return nil
		}
		f := &file{path: path, results: path + resultsSuffix, format: u.cfg.Format, size: info.Size(), done: &u.progress.Files}
		f.refs.Store(1)
		if f.format == "" {
			f.format = formatOf(path)
		}
		if f.format == "" {
			if named {
				return fmt.Errorf("%s: its name does not say what it holds: name the --format", path)
			}
			u.progress.Unknown.Add(1)
			return nil
		}
		if u.cfg.Results != "" {
			f.results = filepath.Join(u.cfg.Results, name+resultsSuffix)
		}
		if other, twice := seen[f.results]; twice && other != path {
			return fmt.Errorf("%s and %s would have one results file, %s", other, path, f.results)
		} else if !twice {
			seen[f.results] = path
			files = append(files, f)
		}
		return nil
	}
	for _, path := range paths {
		path = filepath.Clean(path)
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, fmt.Errorf("cannot upload: %w", err)
		case info.Mode().IsRegular():
			if err := add(path, filepath.Base(path), info, true); err != nil {
				return nil, err
			}
			continue
		case !info.IsDir():
			return nil, fmt.Errorf("cannot upload %s: it is neither a file nor a folder", path)
		}
		err = filepath.WalkDir(path, func(inner string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if strings.HasPrefix(d.Name(), ".") && inner != path {
				if d.IsDir() {
					return filepath.SkipDir
				}
				return nil
			}
			if !d.Type().IsRegular() {
				return nil
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			name, err := filepath.Rel(filepath.Dir(path), inner)
			if err != nil {
				return err
			}
			return add(inner, name, info, false)
		})
		if err != nil {
			return nil, fmt.Errorf("cannot upload %s: %w", path, err)
		}
	}
	if len(files) == 0 {
		return nil, errors.New("there is no file to upload")
	}
	return files, nil
}

// formatOf is what a file's name says of its content, packed or not; empty if it says nothing.
func formatOf(path string) string {
	name := strings.ToLower(filepath.Base(path))
	for _, packed := range []string{".gz", ".zst"} {
		name = strings.TrimSuffix(name, packed)
	}
	switch filepath.Ext(name) {
	case ".ndjson", ".jsonl":
		return formatLines
	case ".json":
		return formatJSON
	case ".csv":
		return formatCSV
	}
	return ""
}
