package backup

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// growing is a backup's file that is as long as it should be when it is opened, and then
// grows without end.
type growing struct{ size, read int64 }

func (g *growing) open(string) (io.ReadCloser, int64, error) { return io.NopCloser(g), g.size, nil }

func (g *growing) Read(p []byte) (int, error) {
	g.read += int64(len(p))
	return len(p), nil
}

func (g *growing) Close() error { return nil }

func TestRestoreReadsNoMoreThanWasStated(t *testing.T) {
	w := restoreWriter{dir: t.TempDir()}
	for _, size := range []int64{0, 1, 100_000} {
		g := &growing{size: size}
		require.ErrorContains(t, w.copyFile(g, File{Name: "log/x", Bytes: size}), "is not what was backed up")
		require.LessOrEqual(t, g.read, size+1)
		w.dir = t.TempDir()
	}
}

// TestRestoreFillsNoDisk: nothing is written of a backup that leaves out zeros, or that the disk has no space for.
func TestRestoreFillsNoDisk(t *testing.T) {
	refused := func(from, why string) {
		t.Helper()
		w := restoreWriter{Restore: Restore{From: from, Tombstones: func(func([]byte) error) error { return nil }}, dir: t.TempDir()}
		require.ErrorContains(t, w.copyAll(t.Context()), why)
		left, err := os.ReadDir(w.dir)
		require.NoError(t, err)
		require.Empty(t, left)
	}
	manifest := func(bytes int64) []byte {
		zeros := sha256.New()
		_, err := io.CopyN(zeros, zero{}, min(bytes, 1<<20)) // larger ones are refused before they are read
		require.NoError(t, err)
		text, err := json.Marshal(Manifest{Format: manifestFormat, TakenAt: "2026-11-28T12:00:00.000Z", Files: []File{{controlFile, bytes, hex.EncodeToString(zeros.Sum(nil))}}})
		require.NoError(t, err)
		return text
	}
	// sparse is a tar of that manifest, and of zeros that are not in it, in the form of PAX.
	sparse := func(size int64) string {
		var text bytes.Buffer
		w := tar.NewWriter(&text)
		add := func(name string, body []byte, records map[string]string) {
			require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Size: int64(len(body)), Mode: 0o600, Format: tar.FormatPAX, PAXRecords: records}))
			_, err := w.Write(body)
			require.NoError(t, err)
		}
		add(manifestFile, manifest(size), nil)
		add(controlFile, nil, map[string]string{"XXX.sparse.size": strconv.FormatInt(size, 10), "XXX.sparse.numblocks": "1", "XXX.sparse.map": "0,0"})
		require.NoError(t, w.Close())
		name := filepath.Join(t.TempDir(), "backup.tar")
		require.NoError(t, os.WriteFile(name, bytes.ReplaceAll(text.Bytes(), []byte("XXX.sparse"), []byte("GNU.sparse")), 0o600))
		return name
	}
	refused(sparse(1<<20), controlFile+" is not a regular file")
	refused(sparse(1<<60), "make space, or restore to another disk")

	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, manifestFile), manifest(1<<60), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, controlFile), nil, 0o600))
	refused(folder, "make space, or restore to another disk")
}

// zero is an endless file of zeros.
type zero struct{}

func (zero) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
