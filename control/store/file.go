package store

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"muniment/sealer/keyfile"
)

// ErrInUse says that another process works on the data folder.
var ErrInUse = keyfile.ErrInUse

// Claim takes a data folder for this process, before anything in it is opened: two
// would migrate, sign and seal beside each other. See keyfile.Claim.
func Claim(dir string) (io.Closer, error) { return keyfile.Claim(dir) }

// Sync waits until the disk has a file, or the names in a folder.
func Sync(path string) error { return keyfile.Sync(path) }

// MakeDir makes a folder, and its name durable: what is acknowledged in it must be
// found after a power cut.
func MakeDir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return Sync(filepath.Dir(path))
}

// WriteFile is keyfile.Write, for the other files of a data folder.
func WriteFile(path string, text []byte, mode fs.FileMode) error {
	return keyfile.Write(path, text, mode)
}
