package commandline

import (
	"encoding/pem"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
)

// Files has a command refuse a file that it couldn't read, or that holds no PEM although it must, before it does anything,
// in words that name the flag.
//
//	PasswordFile string `file:""`
//	Cert         string `file:"PEM"`
func Files() kong.Option {
	return kong.WithAfterApply(func(ctx *kong.Context) error {
		for _, flag := range ctx.Flags() {
			if !flag.Tag.Has("file") {
				continue
			}
			for _, path := range pathsOf(flag) {
				if err := usable(path, flag.Tag.Get("file") == "PEM"); err != nil {
					return fmt.Errorf("--%s: %w, for example --%s /etc/muniment/%s", flag.Name, err, flag.Name, flag.Name)
				}
			}
		}
		return nil
	})
}

// usable reads a file; what is none on a disk, such as a pipe, only its reader can read.
func usable(path string, isPEM bool) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(path)
	}
	block, _ := pem.Decode(text)
	switch {
	case err != nil:
		return fmt.Errorf("%w; it must be a file that can be read", err)
	case len(text) == 0:
		return fmt.Errorf("%s is empty; it must be a file that holds something", path)
	case isPEM && block == nil:
		return fmt.Errorf("%s holds no PEM; it must be a file in PEM", path)
	}
	return nil
}

// Named puts the name of the flag before an error about a file or folder that a flag has named.
func Named(ctx *kong.Context, err error) error {
	if err == nil {
		return nil
	}
	text, longest, of := err.Error(), "", ""
	for _, flag := range ctx.Flags() {
		if flag.Tag.Type == "" || !flag.Set && !fromEnvironment(flag) {
			continue
		}
		for _, path := range pathsOf(flag) {
			if len(path) > len(longest) && strings.Contains(text, path) {
				longest, of = path, flag.Name
			}
		}
	}
	if of == "" || strings.Contains(text, "--"+of) {
		return err
	}
	return &namedError{"--" + of + ": " + text, err}
}

// namedError is an error with the flag before it.
type namedError struct {
	text string
	err  error
}

func (e *namedError) Error() string { return e.text }
func (e *namedError) Unwrap() error { return e.err }

func fromEnvironment(flag *kong.Flag) bool {
	for _, name := range flag.Envs {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}

// pathsOf are the values of a flag that were given.
func pathsOf(flag *kong.Flag) (paths []string) {
	switch v := flag.Target; v.Kind() {
	case reflect.String:
		paths = []string{v.String()}
	case reflect.Slice:
		for i := range v.Len() {
			if v.Index(i).Kind() == reflect.String {
				paths = append(paths, v.Index(i).String())
			}
		}
	}
	if len(paths) == 1 && paths[0] == "" {
		return nil
	}
	return paths
}
