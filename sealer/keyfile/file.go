package keyfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// unfinished matches the files that Write has not renamed yet.
const unfinished = ".new-*"

// Sweep destroys what a process that was killed in Write or in Destroy has left in a folder:
// half a file, or one full of zeros. The caller has claimed the folder, and no other process
// writes there.
func Sweep(dir string) error {
	left, err := fs.Glob(os.DirFS(dir), unfinished)
	keys, keysErr := fs.Glob(os.DirFS(dir), "*.key")
	for _, name := range keys {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil && len(bytes.TrimLeft(text, "\x00")) == 0 {
			left = append(left, name)
		}
	}
	err = errors.Join(err, keysErr)
	for _, name := range left {
		err = errors.Join(err, Destroy(filepath.Join(dir, name)))
	}
	return err
}

// Write writes a file, and its folder if it is missing, so that the file is durable and complete
// or not there. It replaces an older one.
func Write(path string, text []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, unfinished) // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it is renamed
	_, err = f.Write(text)
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return Sync(dir)
}

// MakeDir creates a folder and makes its name durable, so that files in it are found after a
// power cut.
func MakeDir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return Sync(filepath.Dir(path))
}

// Sync waits until a file, or the names in a folder, are on disk.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// ReadSecret reads a file that only its owner may read.
func ReadSecret(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("others may read it (mode %04o), so it may have leaked; if it has not, set mode 0600", info.Mode().Perm())
	}
	return os.ReadFile(path)
}
