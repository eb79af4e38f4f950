package hostile

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/control/backup"
)

// handedIn is a backup that somebody else has made, of a service with a pack.
type handedIn struct {
	t     *testing.T
	whole string
	m     backup.Manifest
}

func newHandedIn(t *testing.T) *handedIn {
	h := systemtest.NewService(t)
	h.Receipts(3)
	h.Metered()
	b := &handedIn{t: t, whole: filepath.Join(t.TempDir(), "backup")}
	b.m = h.BackUp(b.whole)
	h.Stop()
	return b
}

// harmed is a copy of the backup that somebody has prepared.
func (b *handedIn) harmed(harm func(dir string, m *backup.Manifest)) string {
	b.t.Helper()
	dir := filepath.Join(b.t.TempDir(), "backup")
	require.NoError(b.t, os.CopyFS(dir, os.DirFS(b.whole)))
	m := b.m
	m.Files = slices.Clone(m.Files)
	harm(dir, &m)
	if _, err := os.Lstat(filepath.Join(dir, "manifest.json")); err == nil {
		b.write(dir, m)
	}
	return dir
}

func (b *handedIn) write(dir string, m backup.Manifest) {
	b.t.Helper()
	text, err := json.Marshal(m)
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, "manifest.json"), text, 0o600))
}

// refused restores what has to be refused.
func (b *handedIn) refused(from, why string) {
	b.t.Helper()
	data := filepath.Join(b.t.TempDir(), "data")
	_, err := systemtest.Restore(from, data)
	require.ErrorContains(b.t, err, why)
	require.NoDirExists(b.t, data)
	require.NoDirExists(b.t, data+".partial")
}

// listed takes a file into a manifest.
func listed(m *backup.Manifest, name string, text []byte) {
	sum := sha256.Sum256(text)
	m.Files = append(m.Files, backup.File{Name: name, Bytes: int64(len(text)), SHA256: hex.EncodeToString(sum[:])})
}

// TestRestoreReadsNothingElse: of a backup folder only plain files are read, nothing outside
// of it, and no more of a file than its manifest says.
func TestRestoreReadsNothingElse(t *testing.T) {
	t.Parallel()
	b := newHandedIn(t)
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("not yours"), 0o600))
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.CopyFS(outside, os.DirFS(b.whole)))
	pack := b.m.Files[slices.IndexFunc(b.m.Files, func(f backup.File) bool { return strings.HasPrefix(f.Name, "packs/") })].Name
	const none = "is not a regular file"
	instead := func(name string, put func(path string) error) string {
		return b.harmed(func(dir string, _ *backup.Manifest) {
			path := filepath.Join(dir, filepath.FromSlash(name))
			require.NoError(t, os.RemoveAll(path))
			require.NoError(t, put(path))
		})
	}
	link := func(to string) func(string) error {
		return func(path string) error { return os.Symlink(to, path) }
	}
	b.refused(b.harmed(func(dir string, m *backup.Manifest) {
		listed(m, "keys/node-x.key", []byte("not yours"))
		require.NoError(t, os.Symlink(secret, filepath.Join(dir, "keys", "node-x.key")))
	}), "keys/node-x.key "+none)
	// What is behind a link may be what the manifest says.
	b.refused(instead("control.db", link(filepath.Join(outside, "control.db"))), "control.db "+none)
	b.refused(instead("log", link(filepath.Join(outside, "log"))), "log/")
	b.refused(instead(pack, link("../../"+pack+".moved")), pack+" "+none)
	b.refused(instead(filepath.Dir(pack), link(filepath.Join(outside, filepath.Dir(pack)))), pack+" "+none)
	b.refused(b.harmed(func(dir string, _ *backup.Manifest) {
		require.NoError(t, os.Rename(filepath.Join(dir, "log"), filepath.Join(dir, "moved")))
		require.NoError(t, os.Symlink("moved", filepath.Join(dir, "log")))
	}), none)
	dir := b.harmed(func(dir string, _ *backup.Manifest) {})
	require.NoError(t, os.Rename(filepath.Join(dir, "manifest.json"), filepath.Join(outside, "manifest.json")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "manifest.json"), filepath.Join(dir, "manifest.json")))
	b.refused(dir, "manifest.json "+none)

	fifo := func(path string) error { return syscall.Mkfifo(path, 0o600) }
	b.refused(instead("warehouse.db", fifo), "warehouse.db "+none)
	b.refused(instead("warehouse.db", func(path string) error { return os.Mkdir(path, 0o700) }), "warehouse.db "+none)
	dir = b.harmed(func(dir string, _ *backup.Manifest) {})
	require.NoError(t, os.Remove(filepath.Join(dir, "manifest.json")))
	require.NoError(t, fifo(filepath.Join(dir, "manifest.json")))
	b.refused(dir, "manifest.json "+none)
	pipe := filepath.Join(t.TempDir(), "pipe.tar")
	require.NoError(t, fifo(pipe))
	b.refused(pipe, none)

	huge := func(path string) error { return os.Truncate(path, 1<<42) } // sparse
	dir = b.harmed(func(dir string, _ *backup.Manifest) { require.NoError(t, huge(filepath.Join(dir, "control.db"))) })
	b.refused(dir, "control.db is not what was backed up")
	dir = b.harmed(func(dir string, _ *backup.Manifest) {})
	require.NoError(t, huge(filepath.Join(dir, "manifest.json")))
	b.refused(dir, "manifest.json is too long")
	b.refused(b.harmed(func(_ string, m *backup.Manifest) { m.Files[0].Bytes = -1 }), "which is no file of a backup")
	for _, name := range []string{"keys/.node-x.key", "keys/root\u200b.vkey", "log/a b", "packs/x\ny", `keys\x`, "control.db-wal", "keys/./x"} {
		b.refused(b.harmed(func(_ string, m *backup.Manifest) { listed(m, name, nil) }), "which is no file of a backup")
	}

	// What the manifest does not name stays where it is.
	extra := b.harmed(func(dir string, _ *backup.Manifest) {
		for _, name := range []string{"control.db-wal", ".hidden", "keys/.hidden", "keys/root\u200b.vkey", "log/extra"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("not asked for"), 0o600))
		}
		require.NoError(t, fifo(filepath.Join(dir, "log", "pipe")))
		require.NoError(t, os.Symlink(secret, filepath.Join(dir, "packs", "link")))
	})
	data := filepath.Join(t.TempDir(), "data")
	_, err := systemtest.Restore(extra, data)
	require.NoError(t, err)
	for _, name := range []string{".hidden", "keys/.hidden", "keys/root\u200b.vkey", "log/extra", "log/pipe", "packs/link"} {
		_, err := os.Lstat(filepath.Join(data, name))
		require.ErrorIs(t, err, os.ErrNotExist, name)
	}
}

// TestRestoreOfAHostileTar changes how one file stands in a tar.
func TestRestoreOfAHostileTar(t *testing.T) {
	t.Parallel()
	b := newHandedIn(t)
	tarred := func(change func(h *tar.Header, text []byte) []byte) string {
		file := filepath.Join(t.TempDir(), "hostile.tar")
		var buffer bytes.Buffer
		w := tar.NewWriter(&buffer)
		for _, f := range append([]backup.File{{Name: "manifest.json"}}, b.m.Files...) {
			text := systemtest.ReadFile(t, filepath.Join(b.whole, f.Name))
			h := &tar.Header{Name: f.Name, Size: int64(len(text)), Mode: 0o600, Typeflag: tar.TypeReg}
			if f.Name == "warehouse.db" {
				text = change(h, text)
			}
			require.NoError(t, w.WriteHeader(h))
			_, err := w.Write(text)
			require.NoError(t, err)
		}
		require.NoError(t, w.Close())
		require.NoError(t, os.WriteFile(file, buffer.Bytes(), 0o600))
		return file
	}
	_, err := systemtest.Restore(tarred(func(_ *tar.Header, text []byte) []byte { return text }), filepath.Join(t.TempDir(), "data"))
	require.NoError(t, err)
	for _, kind := range []byte{tar.TypeSymlink, tar.TypeLink, tar.TypeFifo, tar.TypeDir, tar.TypeChar} {
		b.refused(tarred(func(h *tar.Header, _ []byte) []byte {
			h.Typeflag, h.Size, h.Linkname = kind, 0, "/etc/hostname"
			return nil
		}), "warehouse.db is not a regular file")
	}
	for _, name := range []string{"/etc/warehouse.db", "../warehouse.db", "keys/../warehouse.db"} {
		b.refused(tarred(func(h *tar.Header, text []byte) []byte {
			h.Name = name
			return text
		}), "in its place")
	}
	b.refused(tarred(func(h *tar.Header, text []byte) []byte {
		h.Size++
		return append(text, 0)
	}), "warehouse.db is not what was backed up")
}

// TestRestoreRefusesTriggers: they would undo what is stopped again.
func TestRestoreRefusesTriggers(t *testing.T) {
	t.Parallel()
	b := newHandedIn(t)
	b.refused(b.harmed(func(dir string, m *backup.Manifest) {
		file := filepath.Join(dir, "control.db")
		db, err := sql.Open("sqlite", "file:"+file)
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), `CREATE TRIGGER again AFTER UPDATE ON rights WHEN NEW.state <> 'ACTIVE' BEGIN
			UPDATE rights SET state = 'ACTIVE' WHERE right_id = NEW.right_id; END`)
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), `PRAGMA wal_checkpoint(TRUNCATE)`)
		require.NoError(t, err)
		require.NoError(t, db.Close())
		m.Files = slices.DeleteFunc(m.Files, func(f backup.File) bool { return f.Name == "control.db" })
		listed(m, "control.db", systemtest.ReadFile(t, file))
	}), "control.db has a trigger")
}
