package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Sync waits until the disk has a file, or the names in a folder.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// MakeDir makes a folder, and its name durable: what is acknowledged in it must be
// found after a power cut.
func MakeDir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return Sync(filepath.Dir(path))
}

// WriteFile makes a file that is wholly on disk under its name, or not there, and
// its folder with it. It takes the place of an older one.
func WriteFile(path string, text []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".new-*") // mode 0600
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
