package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// unreleased is the version of the clients in the checkout; a release has its own in this place.
const unreleased = "0.0.0"

// npmPackage writes the client for TypeScript, as npm pack would: what is compiled, with its types,
// its README and the licence. The compiler is that of package-lock.json, which npm fetches.
func (c *config) npmPackage(work string) error {
	const source = "gateway/client/typescript"
	dir := filepath.Join(work, "npm")
	if err := copyFiles(dir, source, "package.json", "package-lock.json", "tsconfig.json", "src"); err != nil {
		return err
	}
	version := strings.TrimPrefix(c.version, "v")
	if err := errors.Join(stamp(filepath.Join(dir, "src", "version.ts"), "'"+unreleased+"'", "'"+version+"'"),
		stamp(filepath.Join(dir, "package.json"), `"version": "`+unreleased+`"`, `"version": "`+version+`"`)); err != nil {
		return err
	}
	for _, command := range [][]string{
		{"npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"},
		{"node", "node_modules/typescript/bin/tsc"},
	} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("cannot compile the client for TypeScript: %s: %w\n%s", strings.Join(command, " "), err, out)
		}
	}
	files, err := readTree(dir, "package.json", "dist")
	if err != nil {
		return err
	}
	more := map[string]string{"README.md": source + "/README.md", "LICENSE": "LICENSE"}
	if err := readInto(files, more); err != nil {
		return err
	}
	return c.writeArchive("muniment-client-"+version+".tgz", gzip.BestCompression, "package", files)
}

// copyFiles copies files and folders of a folder.
func copyFiles(to, from string, names ...string) error {
	files, err := readTree(from, names...)
	if err != nil {
		return err
	}
	for name, text := range files {
		file := filepath.Join(to, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// readTree reads files and folders of a folder, by their names below it, with slashes.
func readTree(dir string, names ...string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range names {
		err := filepath.WalkDir(filepath.Join(dir, name), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			below, err := filepath.Rel(dir, file)
			if err == nil {
				files[filepath.ToSlash(below)], err = os.ReadFile(file)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// readInto reads files of the checkout, by their names in an archive.
func readInto(files map[string][]byte, sources map[string]string) (err error) {
	for name, source := range sources {
		if files[name], err = os.ReadFile(source); err != nil {
			return err
		}
	}
	return nil
}

// stamp replaces what a file has once.
func stamp(file, old, now string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if bytes.Count(text, []byte(old)) != 1 {
		return fmt.Errorf("%s has not %s once, where its version belongs", file, old)
	}
	return os.WriteFile(file, bytes.Replace(text, []byte(old), []byte(now), 1), 0o644)
}

// writeArchive writes a tar.gz of the release, below a folder.
func (c *config) writeArchive(name string, level int, folder string, files map[string][]byte) error {
	file, err := os.Create(filepath.Join(c.out, name))
	if err != nil {
		return err
	}
	if err = errors.Join(archive(file, level, folder, "", c.at, files), file.Close()); err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	c.progress("  %s", name)
	return nil
}
