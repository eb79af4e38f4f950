package main

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	xmodule "golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

// goModule writes the Go module, and what a user of its client needs of others, in the layout of a
// module proxy: GOPROXY=file://FOLDER installs it without a network.
//
// It is the whole module, as the Go command packs it of a repository: the same hash, wherever it comes
// from. A module for the client alone would have to be one for gate, sealer, its verifier and the
// wire contract too, which the client shares with the service, and whoever imports these wants the
// service's own. It would save a user nothing that is linked: only packages that are imported are.
func (c *config) goModule(work string) error {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		return err
	}
	self := xmodule.Version{Path: modfile.ModulePath(text), Version: c.version}
	if err := xmodule.Check(self.Path, self.Version); err != nil {
		return fmt.Errorf("cannot release the Go module: %w", err)
	}
	sources, err := c.sources()
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	if err := modzip.Create(&packed, self, sources); err != nil {
		return fmt.Errorf("cannot pack the Go module: %w", err)
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{c.version, c.at})
	if err != nil {
		return err
	}
	escaped, err := xmodule.EscapePath(self.Path)
	if err != nil {
		return err
	}
	at := escaped + "/@v/"
	files := map[string][]byte{
		at + "list": []byte(c.version + "\n"), at + c.version + ".info": info, at + c.version + ".mod": text, at + c.version + ".zip": packed.Bytes(),
	}
	proxy := filepath.Join(work, "goproxy")
	if err := writeFiles(proxy, files); err != nil {
		return err
	}
	needed, err := neededBy(self, work, proxy)
	if err != nil {
		return err
	}
	for name, text := range needed {
		if !strings.HasPrefix(name, at) {
			files[name] = text
		}
	}
	name := "muniment-go_" + c.version
	return c.writeArchive(name+".tar.gz", gzip.NoCompression, name, files) // modules are packed already
}

// sources are the files of the checkout: those that git knows or, in a folder without git, all.
func (c *config) sources() (list []modzip.File, err error) {
	if out, err := exec.Command("git", "ls-files", "-z").Output(); err == nil {
		for name := range strings.SplitSeq(strings.Trim(string(out), "\x00"), "\x00") {
			list = append(list, sourceFile(name))
		}
		return list, nil
	}
	err = filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "bin" || d.Name() == "node_modules" || d.Name() == "__pycache__"):
			return filepath.SkipDir
		case d.Type().IsRegular():
			list = append(list, sourceFile(filepath.ToSlash(name)))
		}
		return nil
	})
	return list, err
}

// sourceFile is a file of the checkout, by its name there.
type sourceFile string

// Path returns its name in the module.
func (f sourceFile) Path() string { return string(f) }

// Lstat returns what the file system says of it.
func (f sourceFile) Lstat() (fs.FileInfo, error) { return os.Lstat(string(f)) }

// Open opens it.
func (f sourceFile) Open() (io.ReadCloser, error) { return os.Open(string(f)) }

func writeFiles(dir string, files map[string][]byte) error {
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text, 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// neededBy returns what the Go command fetches for a program that gets the client. All of it is on this
// machine, in its own module cache. What go mod tidy would ask for beyond that are the tests of all
// libraries.
func neededBy(self xmodule.Version, work, proxy string) (map[string][]byte, error) {
	own, err := output("go", "env", "GOMODCACHE")
	if err != nil {
		return nil, err
	}
	user, cache := filepath.Join(work, "user"), filepath.Join(work, "modcache")
	if err := writeFiles(user, map[string][]byte{"go.mod": []byte("module user.example\n")}); err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "get", self.Path+"/gateway/client@"+self.Version)
	cmd.Dir = user
	cmd.Env = append(os.Environ(), "GOMODCACHE="+cache, "GOPROXY=file://"+filepath.ToSlash(proxy)+",file://"+filepath.ToSlash(filepath.Join(own, "cache", "download")),
		"GOSUMDB=off", "GOFLAGS=-modcacherw", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cannot add the Go client to a program as others do: %w\n%s", err, out)
	}
	files := map[string][]byte{}
	fetched := filepath.Join(cache, "cache", "download")
	err = filepath.WalkDir(fetched, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		below, err := filepath.Rel(fetched, file)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(below)
		switch {
		case strings.HasPrefix(name, "sumdb/"):
		case strings.HasSuffix(name, ".mod"):
			files[name] = text
		case strings.HasSuffix(name, ".zip"):
			files[name], err = zippedAnew(text)
		}
		return err
	})
	return files, err
}

// zippedAnew packs a module as its hash has it, which says nothing of how it was packed: the bytes
// don't depend on where this machine has it from.
func zippedAnew(text []byte) ([]byte, error) {
	r, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, f := range r.File {
		in, err := f.Open()
		if err != nil {
			return nil, err
		}
		files[f.Name], err = io.ReadAll(in)
		if err = errors.Join(err, in.Close()); err != nil {
			return nil, err
		}
	}
	return zipped(time.Time{}, files)
}
