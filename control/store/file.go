package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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

// ErrForeign says that a folder holds the files of something else.
var ErrForeign = errors.New("is not a data folder of muniment, and not empty")

// ours are files that every data folder has one of, of whatever process, from its first
// moment on.
var ours = []string{"LOCK", "control.db", "keys/root.vkey", "admin.json"}

// MakeDataDir is MakeDir for a data folder. One that is there has to be empty or ours, else
// it is refused with ErrForeign: a mistyped path must not strew keys and databases over a
// home folder. What a new volume holds (lost+found) and hidden files don't count.
func MakeDataDir(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range ours {
		if _, err := os.Lstat(filepath.Join(path, filepath.FromSlash(name))); err == nil {
			return MakeDir(path)
		}
	}
	foreign := ""
	for _, e := range entries {
		if e.Name() != "lost+found" && !strings.HasPrefix(e.Name(), ".") {
			foreign = e.Name()
		}
	}
	if foreign != "" {
		return fmt.Errorf("%s %w (it holds %s): name another folder by --data", path, ErrForeign, foreign)
	}
	return MakeDir(path)
}

// WriteFile is keyfile.Write, for the other files of a data folder.
func WriteFile(path string, text []byte, mode fs.FileMode) error {
	return keyfile.Write(path, text, mode)
}
