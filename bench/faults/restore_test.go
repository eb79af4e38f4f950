package faults

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/control/backup"
	"muniment.example/pipeline"
	"muniment.example/sealer/pack"
)

// TestRestoreIsHeldAgainstAPack restores a backup beside packs and checkpoints that
// were sealed before and after it.
func TestRestoreIsHeldAgainstAPack(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t)
	h.Receipts(5)
	before := systemtest.SealAndExport(t, h.Client)
	answer := filepath.Join(t.TempDir(), "checkpoint.json")
	require.NoError(t, h.Client.Download(t.Context(), "/v1/proof-packs/checkpoint", answer))
	to := filepath.Join(t.TempDir(), "backup")
	h.BackUp(to)
	h.Receipts(5)
	after := systemtest.SealAndExport(t, h.Client)
	h.Stop()
	require.Len(t, after, 2)
	require.Equal(t, 0, bytes.Compare(systemtest.ReadFile(t, before[0]), systemtest.ReadFile(t, after[0])))
	data := filepath.Join(t.TempDir(), "data")

	_, err := systemtest.Restore(to, data, before[0], after[1])
	require.ErrorContains(t, err, "it is older than "+after[1])
	require.NoDirExists(t, data)
	require.NoDirExists(t, data+".partial")
	_, err = systemtest.Restore(to, data, checkpoint(t, after[1]))
	require.ErrorContains(t, err, "older than")
	made, err := systemtest.Restore(to, data, before[0], checkpoint(t, before[0]), answer)
	require.NoError(t, err)
	require.Len(t, made.Expected, 3)
	for _, e := range made.Expected {
		require.Equal(t, made.Expected[0].RootHash, e.RootHash)
	}

	// The restored service seals other entries at a size that was signed: anyone who has
	// both packs can prove it.
	other := h.Elsewhere(data)
	other.Start()
	other.Receipts(9)
	forked := systemtest.SealAndExport(t, other.Client)
	to = filepath.Join(t.TempDir(), "forked")
	other.BackUp(to)
	other.Stop()
	elsewhere := filepath.Join(t.TempDir(), "data")
	_, err = systemtest.Restore(to, elsewhere, after[1])
	require.ErrorContains(t, err, "another history than "+after[1])
	_, err = systemtest.Restore(to, elsewhere, forked...)
	require.NoError(t, err)

	// What is no checkpoint, or a stranger's, settles nothing.
	stranger := systemtest.NewService(t)
	stranger.Receipts(1)
	foreign := systemtest.SealAndExport(t, stranger.Client)[0]
	for file, why := range map[string]string{
		filepath.Join(t.TempDir(), "none"):         "no such file",
		filepath.Join(h.Data, "keys", "root.vkey"): "neither a proof pack nor a checkpoint",
		foreign:                "it is older than " + foreign,
		checkpoint(t, foreign): "no key that the backup knows has signed the checkpoint",
		altered(t, checkpoint(t, before[0]), "\n", "\n1"): "no key that the backup knows has signed the checkpoint",
	} {
		_, err = systemtest.Restore(to, filepath.Join(t.TempDir(), "data"), file)
		require.ErrorContains(t, err, why)
	}
}

// checkpoint takes the signed note out of a pack.
func checkpoint(t *testing.T, name string) (file string) {
	t.Helper()
	p, err := pack.Read(bytes.NewReader(systemtest.ReadFile(t, name)))
	require.NoError(t, err)
	file = filepath.Join(t.TempDir(), "checkpoint")
	require.NoError(t, os.WriteFile(file, []byte(p.Header().Checkpoint), 0o600))
	return file
}

// altered is a copy of a file with the first of a text replaced.
func altered(t *testing.T, file, old, new string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "altered")
	require.NoError(t, os.WriteFile(to, []byte(strings.Replace(string(systemtest.ReadFile(t, file)), old, new, 1)), 0o600))
	return to
}

// TestRestoreRefusesWhatIsNotWhole damages each file of a backup, one at a time.
func TestRestoreRefusesWhatIsNotWhole(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t)
	h.Receipts(5)
	h.Metered()
	whole, tarred := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "backup.tar")
	m := h.BackUp(whole)
	h.BackUp(tarred)
	private(t, whole)
	h.Receipts(5)
	h.Metered()
	later := filepath.Join(t.TempDir(), "later")
	newer := h.BackUp(later)
	h.Stop()
	data := filepath.Join(t.TempDir(), "data")
	refused := func(from, why string) {
		t.Helper()
		_, err := systemtest.Restore(from, data)
		require.ErrorContains(t, err, why)
		require.NoDirExists(t, data)
		require.NoDirExists(t, data+".partial")
	}
	harmed := func(harm func(dir string)) string {
		dir := filepath.Join(t.TempDir(), "harmed")
		require.NoError(t, os.CopyFS(dir, os.DirFS(whole)))
		harm(dir)
		return dir
	}
	require.Greater(t, len(m.Files), 5)
	for _, f := range m.Files {
		refused(harmed(func(dir string) {
			text := systemtest.ReadFile(t, filepath.Join(dir, f.Name))
			text[len(text)/2] ^= 1
			require.NoError(t, os.WriteFile(filepath.Join(dir, f.Name), text, 0o600))
		}), f.Name+" is not what was backed up")
		refused(harmed(func(dir string) { require.NoError(t, os.Remove(filepath.Join(dir, f.Name))) }), f.Name)
	}
	refused(harmed(func(dir string) { require.NoError(t, os.Remove(filepath.Join(dir, "manifest.json"))) }), "it is no whole backup")

	// Manifests that match their files, but are no backup.
	rewritten := func(rewrite func(m *backup.Manifest)) string {
		return harmed(func(dir string) {
			m := m
			m.Files = append([]backup.File(nil), m.Files...)
			rewrite(&m)
			text, err := json.Marshal(m)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "manifest.json"), text, 0o600))
		})
	}
	without := func(part string) string {
		return rewritten(func(m *backup.Manifest) {
			var left []backup.File
			for _, f := range m.Files {
				if !strings.HasPrefix(f.Name, part) {
					left = append(left, f)
				}
			}
			require.Less(t, len(left), len(m.Files))
			m.Files = left
		})
	}
	refused(without("packs/"), "was sealed")
	refused(without("log/"), "the log ends at offset 0")
	refused(without("warehouse.db"), "warehouse.db")
	refused(without("control.db"), "control.db")
	refused(rewritten(func(m *backup.Manifest) { m.Format = "muniment-backup.v2" }), `its format is "muniment-backup.v2"`)
	for _, name := range []string{"../evil", "log/../../evil", "/etc/evil", "log", "keys/", "keys//x", "evil", ""} {
		refused(rewritten(func(m *backup.Manifest) { m.Files[0].Name = name }), "which is no file of a backup")
	}

	// Parts of two backups.
	mixed := rewritten(func(m *backup.Manifest) {
		at := func(list []backup.File) int {
			return slices.IndexFunc(list, func(f backup.File) bool { return f.Name == "warehouse.db" })
		}
		m.Files[at(m.Files)] = newer.Files[at(newer.Files)]
	})
	systemtest.CopyAll(t, filepath.Join(later, "warehouse.db"), filepath.Join(mixed, "warehouse.db"))
	refused(mixed, pipeline.ErrLogBehind.Error())

	// Damage that was there before the backup matches its manifest.
	for _, f := range m.Files {
		why := map[string]string{"warehouse.db": "warehouse.db is damaged", "control.db": "control.db is damaged"}[f.Name]
		if strings.HasPrefix(f.Name, "packs/") {
			why = f.Name + " is not what was sealed"
		}
		if strings.HasPrefix(f.Name, "log/") {
			why = "log is damaged"
		}
		if why == "" {
			continue // a key is not the backup's to judge
		}
		dir := rewritten(func(m *backup.Manifest) {
			text := systemtest.ReadFile(t, filepath.Join(whole, f.Name))
			damage(text)
			sum := sha256.Sum256(text)
			i := slices.IndexFunc(m.Files, func(g backup.File) bool { return g.Name == f.Name })
			m.Files[i].SHA256 = hex.EncodeToString(sum[:])
		})
		text := systemtest.ReadFile(t, filepath.Join(dir, f.Name))
		damage(text)
		require.NoError(t, os.WriteFile(filepath.Join(dir, f.Name), text, 0o600))
		refused(dir, why)
	}

	text := systemtest.ReadFile(t, tarred)
	for _, size := range []int{0, 511, 700, len(text) / 2} {
		cut := filepath.Join(t.TempDir(), "cut.tar")
		require.NoError(t, os.WriteFile(cut, text[:size], 0o600))
		refused(cut, "unexpected EOF")
	}

	// Nothing that is there is overwritten.
	require.NoError(t, os.MkdirAll(filepath.Join(data, "precious"), 0o700))
	_, err := systemtest.Restore(whole, data)
	require.ErrorContains(t, err, data+" exists already")
	require.NoError(t, os.Remove(filepath.Join(data, "precious")))
	_, err = systemtest.Restore(tarred, data)
	require.NoError(t, err)
	private(t, data)
	_, err = backup.Backup{Data: data, To: whole}.Run(t.Context())
	require.ErrorContains(t, err, "exists already")
	_, err = backup.Backup{Data: t.TempDir(), To: filepath.Join(t.TempDir(), "x")}.Run(t.Context())
	require.ErrorContains(t, err, "it is no data folder")
}

// damage clears some of the middle of a file.
func damage(text []byte) {
	from := len(text) / 2
	clear(text[from:min(from+8192, len(text)-10)])
}

// private checks that only its owner can read a folder, whatever the umask is.
func private(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if info.Mode().Perm()&0o077 != 0 && d.Name() != "root.vkey" {
			err = errors.Join(err, fmt.Errorf("%s has mode %v", name, info.Mode()))
		}
		return err
	}))
}

// TestRestoredServiceGoesOn: what the backup's warehouse has loaded is not loaded again.
func TestRestoredServiceGoesOn(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t)
	h.Receipts(60)
	h.Metered()
	to := filepath.Join(t.TempDir(), "backup")
	h.BackUp(to)
	h.Stop()
	other, _ := h.Restored(to)
	other.Start()
	other.Receipts(3)
	require.Equal(t, 63, other.Metered())
	loaded, err := systemtest.Metric(other.Server, "muniment_loader_rows_total")
	require.NoError(t, err)
	require.GreaterOrEqual(t, loaded, 3.)
	require.Less(t, loaded, 60.)
	other.Stop()
}
