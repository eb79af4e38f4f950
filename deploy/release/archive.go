package main

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"maps"
	"path"
	"slices"
	"time"
)

// archive writes files as a tar.gz, below a folder of the given name. The same files make the same
// bytes: they are sorted by name, belong to user 0 and have one time, and the header of gzip has
// none. The file that executable names can be executed. Level is gzip's.
func archive(w io.Writer, level int, folder, executable string, at time.Time, files map[string][]byte) error {
	z, err := gzip.NewWriterLevel(w, level)
	if err != nil {
		return err
	}
	out := tar.NewWriter(z)
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		dir := path.Dir(path.Join(folder, name))
		if !seen[dir] {
			seen[dir] = true
			h := &tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: at, Format: tar.FormatUSTAR}
			if err := out.WriteHeader(h); err != nil {
				return err
			}
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(folder, name), Size: int64(len(files[name])), Mode: 0o644, ModTime: at, Format: tar.FormatUSTAR}
		if name == executable {
			h.Mode = 0o755
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := out.Write(files[name]); err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil {
		return err
	}
	return z.Close()
}
