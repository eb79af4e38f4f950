package service

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
)

// TestUpgrade starts the data folder of each release with this program. All that its users hold is
// there, byte for byte, and verifies; what was stopped is still stopped; and the service goes on: it
// delivers and seals, and the new pack continues the log of the old ones.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob(filepath.Join(systemtest.UpgradeFrom, "*.tar.gz"))
	require.NoError(t, err)
	require.NotEmpty(t, archives)
	for _, file := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".tar.gz"), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			unpack(t, file, dir)
			was := systemtest.Parse[systemtest.Left](t, string(systemtest.ReadFile(t, filepath.Join(dir, "left.json"))))
			s := systemtest.NotStarted(t, filepath.Join(dir, "data"))
			s.Tenant, s.Client.Key, s.Rights = was.Tenant, was.Tenant.APIKey, was.Rights
			s.Start()
			s.Finds(&was)
			s.GoesOnFrom(&was)
			s.Stop()
		})
	}
}

// TestMakeUpgradeData makes and stores the data folder of the version that
// MUNIMENT_TEST_UPGRADE_DATA names: make upgrade-data.
func TestMakeUpgradeData(t *testing.T) {
	release := os.Getenv("MUNIMENT_TEST_UPGRADE_DATA")
	if release == "" {
		t.Skip("make upgrade-data VERSION=v1.2.3 makes the data folder of a version")
	}
	require.Error(t, exec.CommandContext(t.Context(), "git", "rev-parse", "--verify", "--quiet", "refs/tags/"+release).Run(), "%s is released: users have the data folder that is stored", release)
	archive := filepath.Join(systemtest.UpgradeFrom, release+".tar.gz")
	s := systemtest.NewService(t)
	was := s.Leaves()
	s.Stop()
	text, err := json.MarshalIndent(was, "", "  ")
	require.NoError(t, err)
	dir := filepath.Dir(s.Data)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "left.json"), text, 0o600))
	pack(t, archive, dir, "left.json", filepath.Base(s.Data))
	info, err := os.Stat(archive)
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(300_000))
}

// pack writes files and folders of dir into a tar.gz, but for the reserve, which only takes space.
func pack(t *testing.T, archive, dir string, names ...string) {
	t.Helper()
	file, err := os.Create(archive)
	require.NoError(t, err)
	z, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	require.NoError(t, err)
	out := tar.NewWriter(z)
	for _, name := range names {
		require.NoError(t, filepath.WalkDir(filepath.Join(dir, name), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Name() == "reserve" {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			in, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			h := &tar.Header{Name: filepath.ToSlash(in), Mode: int64(info.Mode().Perm()), Size: info.Size()}
			if err := out.WriteHeader(h); err != nil {
				return err
			}
			_, err = out.Write(systemtest.ReadFile(t, path))
			return err
		}))
	}
	require.NoError(t, errors.Join(out.Close(), z.Close(), file.Close()))
}

// unpack reverses pack. Zeros become holes: most of a segment of the log is not written yet.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	file, err := os.Open(archive)
	require.NoError(t, err)
	defer file.Close()
	z, err := gzip.NewReader(file)
	require.NoError(t, err)
	zeros, block := make([]byte, 64<<10), make([]byte, 64<<10)
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fs.FileMode(h.Mode))
		require.NoError(t, err)
		for at := int64(0); at < h.Size; {
			n, err := io.ReadFull(in, block[:min(int64(len(block)), h.Size-at)])
			require.NoError(t, err)
			if !slices.Equal(block[:n], zeros[:n]) {
				_, err = out.WriteAt(block[:n], at)
				require.NoError(t, err)
			}
			at += int64(n)
		}
		require.NoError(t, errors.Join(out.Truncate(h.Size), out.Close()), path)
	}
}
