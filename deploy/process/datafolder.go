package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"muniment.example/sealer/keyfile"
)

// ErrForeign says that a folder has files that are not muniment's.
var ErrForeign = errors.New("is not a data folder of muniment, and not empty")

// ours are files of which every data folder has at least one, from its first moment on.
var ours = []string{"LOCK", "control.db", "keys/root.vkey", "admin.json"}

// MakeDataDir is keyfile.MakeDir for a data folder. A folder that exists has to be empty or a
// data folder, else the error is ErrForeign: a mistyped path must not scatter keys and databases
// over a home folder. What a new volume holds (lost+found) and hidden files don't count.
func MakeDataDir(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range ours {
		if _, err := os.Lstat(filepath.Join(path, filepath.FromSlash(name))); err == nil {
			return keyfile.MakeDir(path)
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
	return keyfile.MakeDir(path)
}
