// Command module gives the Go module another path, such as that of a fork, or of a domain:
//
//	make module MODULE=git.example.org/acme/muniment
//
// It rewrites every text file of the checkout in which the path stands: go.mod, imports, names of
// functions in Go, the lines of documents that install the client. Where the path is the host of a URL
// or of an address (behind a slash or an @) it is an example of something else, and stays.
//
// Go files are formatted again, as the order of imports may change. Generated and ignored folders are
// left alone: .git, bin, node_modules.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "module:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 || args[0] == "" {
		return errors.New("usage: make module MODULE=git.example.org/acme/muniment")
	}
	if err := module.CheckPath(args[0]); err != nil {
		return err
	}
	text, err := os.ReadFile("go.mod")
	if err != nil {
		return err
	}
	old := modfile.ModulePath(text)
	if old == "" {
		return errors.New("go.mod names no module")
	}
	changed, err := rename(".", old, args[0])
	if err == nil {
		fmt.Printf("%s is %s now, in %d files\n", old, args[0], changed)
	}
	return err
}

// rename rewrites the files below a folder and returns how many it has changed. If it is interrupted,
// running it again completes it, but for a go.mod that has the new path already: that is written last.
func rename(dir, from, to string) (changed int, err error) {
	var last []string
	rewrite := func(name string) error {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		next := replace(text, from, to)
		if bytes.Equal(text, next) || bytes.IndexByte(text, 0) >= 0 { // nothing to do, or not a text
			return nil
		}
		if strings.HasSuffix(name, ".go") {
			if next, err = format.Source(next); err != nil {
				return fmt.Errorf("cannot format %s: %w", name, err)
			}
		}
		changed++
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		return os.WriteFile(name, next, info.Mode())
	}
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules" || name == filepath.Join(dir, "bin")):
			return filepath.SkipDir
		case !d.Type().IsRegular():
			return nil
		case name == filepath.Join(dir, "go.mod"):
			last = append(last, name)
			return nil
		}
		return rewrite(name)
	})
	for _, name := range last {
		if err == nil {
			err = rewrite(name)
		}
	}
	return changed, err
}

// replace replaces a module's path wherever it is one: not within a longer name, and not as a host.
func replace(text []byte, from, to string) []byte {
	var out []byte
	for begin := 0; ; {
		at := bytes.Index(text[begin:], []byte(from))
		if at < 0 {
			return append(out, text[begin:]...)
		}
		at += begin
		end := at + len(from)
		out = append(out, text[begin:at]...)
		if (at == 0 || !within(text[at-1]) && !strings.ContainsRune("/@.", rune(text[at-1]))) && !continued(text[end:]) {
			out = append(out, to...)
		} else {
			out = append(out, from...)
		}
		begin = end
	}
}

// within reports whether a byte belongs to the same word as what is beside it.
func within(b byte) bool {
	return b == '-' || b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}

// continued reports whether a name goes on: a dot that a word follows belongs to it, one that ends a
// sentence does not.
func continued(rest []byte) bool {
	if len(rest) > 1 && rest[0] == '.' {
		rest = rest[1:]
	}
	return len(rest) > 0 && within(rest[0])
}
