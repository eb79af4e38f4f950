package export

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"muniment.example/control/analyst"
)

// applicationID is in the header of each working file, at applicationAt: "mnEx".
const (
	applicationID = 0x6d6e4578
	applicationAt = 68
)

const sqliteMagic = "SQLite format 3\x00"

// errForeign means that what has the name of a working file or folder was not left by an export.
var errForeign = errors.New("was not left by an interrupted export of yours, and stays as it is: move it away, or choose another name")

// besides are the ends of the names of files that SQLite keeps beside a working file.
var besides = []string{"-wal", "-shm", "-journal"}

// prepare makes the working file, empty and with mode 0600, or finds one that an export of this user has left. A
// symbolic link is not followed, and a file of somebody else not touched: both are errForeign. fresh says that the file
// has no header yet that is certain to stay.
func prepare(path string) (fresh bool, err error) {
	_, err = os.Lstat(path)
	found := err == nil
	if !found && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	for _, end := range besides {
		switch info, err := os.Lstat(path + end); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return false, err
		case !found || !own(info):
			return false, fmt.Errorf("%s %w", path+end, errForeign)
		case end == "-journal": // of a run that was killed at its very beginning
			fresh = true
		}
	}
	if !found {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return false, err
		}
		return true, f.Close()
	}
	f, err := openOwn(path, os.O_RDWR)
	if err != nil {
		return false, err
	}
	defer f.Close()
	header := make([]byte, applicationAt+4)
	switch n, err := io.ReadFull(f, header); {
	case n == 0 && err == io.EOF: // killed before; there is nothing to lose in it
		fresh = true
	case err == io.ErrUnexpectedEOF:
		return false, fmt.Errorf("%s %w", path, errForeign)
	case err != nil:
		return false, err
	case !bytes.HasPrefix(header, []byte(sqliteMagic)) || binary.BigEndian.Uint32(header[applicationAt:]) != applicationID:
		return false, fmt.Errorf("%s %w", path, errForeign)
	}
	return fresh, f.Chmod(0o600)
}

// own says whether a file is a regular one of this user.
func own(info fs.FileInfo) bool { return info.Mode().IsRegular() && ofUser(info) }

func ofUser(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// openOwn opens a regular file of this user; anything else is errForeign.
func openOwn(path string, flag int) (*os.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !own(info) {
		return nil, fmt.Errorf("%s %w", path, errForeign)
	}
	f, err := os.OpenFile(path, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if now, err := f.Stat(); err != nil || !os.SameFile(info, now) {
		return nil, errors.Join(fmt.Errorf("%s %w", path, errForeign), err, f.Close())
	}
	return f, nil
}

// leftFiles are the files of a folder that a run has left which was killed while it wrote them. A folder that has
// anything else, or is none, is errForeign.
func leftFiles(folder string) (paths []string, err error) {
	info, err := os.Lstat(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() || !ofUser(info) {
		return nil, fmt.Errorf("%s %w", folder, errForeign)
	}
	magic := map[string]string{aboutFile: "{"}
	for _, t := range analyst.Tables {
		magic[t.Name+".parquet"] = "PAR1"
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		path := filepath.Join(folder, entry.Name())
		want, known := magic[entry.Name()]
		if !known {
			return nil, fmt.Errorf("%s %w", path, errForeign)
		}
		f, err := openOwn(path, os.O_RDONLY)
		if err != nil {
			return nil, err
		}
		begin := make([]byte, len(want))
		n, err := io.ReadFull(f, begin)
		if err == io.EOF || err == io.ErrUnexpectedEOF { // killed before the first write
			err = nil
		}
		if err == nil && string(begin[:n]) != want[:n] {
			err = fmt.Errorf("%s %w", path, errForeign)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return append(paths, folder), nil
}

// removeLeft deletes what leftFiles returns, and nothing else.
func removeLeft(folder string) error {
	paths, err := leftFiles(folder)
	for _, path := range paths {
		if err == nil {
			err = os.Remove(path)
		}
	}
	return err
}
