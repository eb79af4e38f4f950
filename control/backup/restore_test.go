package backup

import (
	"io"
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
