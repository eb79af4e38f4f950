package export

import (
	"bytes"
	"database/sql"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestForeignFilesStay: what has the name of a working file or folder, or of a file that SQLite keeps beside it, and
// was not left by an export, is neither followed nor changed nor deleted, and the error names it.
func TestForeignFilesStay(t *testing.T) {
	write := func(path string) { require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("mine "), 100), 0o644)) }
	database := func(path string) {
		db, err := sql.Open("sqlite", "file:"+path)
		require.NoError(t, err)
		_, err = db.Exec(`CREATE TABLE mine (n INTEGER)`)
		require.NoError(t, err)
		require.NoError(t, db.Close())
	}
	for about, c := range map[string]struct {
		place func(partial, elsewhere string)
		names string // what the error names, behind NAME.partial
	}{
		"a text":            {func(partial, _ string) { write(partial) }, ""},
		"a database":        {func(partial, _ string) { database(partial) }, ""},
		"a short file":      {func(partial, _ string) { require.NoError(t, os.WriteFile(partial, []byte("x"), 0o644)) }, ""},
		"a folder":          {func(partial, _ string) { require.NoError(t, os.Mkdir(partial, 0o755)) }, ""},
		"a pipe":            {func(partial, _ string) { require.NoError(t, syscall.Mkfifo(partial, 0o644)) }, ""},
		"a link to nothing": {func(partial, elsewhere string) { require.NoError(t, os.Symlink(elsewhere, partial)) }, ""},
		"a link to an empty": {func(partial, elsewhere string) {
			require.NoError(t, os.WriteFile(elsewhere, nil, 0o644))
			require.NoError(t, os.Symlink(elsewhere, partial))
		}, ""},
		"a log": {func(partial, _ string) { write(partial + "-wal") }, "-wal"},
		"a journal": {func(partial, elsewhere string) {
			write(elsewhere)
			require.NoError(t, os.Symlink(elsewhere, partial+"-journal"))
		}, "-journal"},
		"a link to a folder": {func(partial, elsewhere string) {
			require.NoError(t, os.Mkdir(elsewhere, 0o755))
			require.NoError(t, os.Symlink(elsewhere, partial+"-files"))
		}, "-files"},
		"a folder of others": {func(partial, _ string) {
			require.NoError(t, os.Mkdir(partial+"-files", 0o755))
			write(partial + "-files/thesis.txt")
		}, "-files/thesis.txt"},
		"a folder alike": {func(partial, _ string) {
			require.NoError(t, os.Mkdir(partial+"-files", 0o755))
			write(partial + "-files/events.parquet")
		}, "-files/events.parquet"},
		"a folder with a link": {func(partial, elsewhere string) {
			write(elsewhere)
			require.NoError(t, os.Mkdir(partial+"-files", 0o755))
			require.NoError(t, os.Symlink(elsewhere, partial+"-files/events.parquet"))
		}, "-files/events.parquet"},
	} {
		t.Run(about, func(t *testing.T) {
			s := serve(t, 5)
			cfg := s.config(t, Parquet)
			c.place(cfg.Out+".partial", filepath.Join(filepath.Dir(cfg.Out), "elsewhere"))
			before := tree(t, filepath.Dir(cfg.Out))
			err := Run(t.Context(), cfg)
			require.ErrorIs(t, err, errForeign)
			require.ErrorContains(t, err, cfg.Out+".partial"+c.names+" was not left")
			require.Equal(t, before, tree(t, filepath.Dir(cfg.Out)))
		})
	}
}

// tree is what a folder has: the mode of each file, and its text or where it leads.
func tree(t *testing.T, folder string) map[string]string {
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := entry.Info()
		require.NoError(t, err)
		var text []byte
		switch info.Mode().Type() {
		case 0:
			text, err = os.ReadFile(path)
		case os.ModeSymlink:
			var to string
			to, err = os.Readlink(path)
			text = []byte(to)
		}
		require.NoError(t, err)
		all[path] = info.Mode().String() + " " + string(text)
		return nil
	}))
	return all
}

// TestWorkingFileIsPrivate: nobody else can read a working file, whatever mode the file had that a killed run has left,
// and its header says what it is from the first moment, so that a kill leaves nothing that the next run refuses.
func TestWorkingFileIsPrivate(t *testing.T) {
	s := serve(t, 5)
	cfg := s.config(t, SQLite)
	partial := cfg.Out + ".partial"
	require.NoError(t, os.WriteFile(partial, nil, 0o600))
	for range 2 { // empty, then with a header
		require.NoError(t, os.Chmod(partial, 0o666))
		w, err := openWork(t.Context(), partial, map[string]string{"service": s.URL})
		require.NoError(t, err)
		info, err := os.Stat(partial)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
		text, err := os.ReadFile(partial) // all that a kill would leave, but the log
		require.NoError(t, err)
		require.Equal(t, "mnEx", string(text[applicationAt:applicationAt+4]))
		require.NoError(t, w.close())
	}
}

// TestKilledAtTheBeginning: a run that was killed before it wrote the header, or while it did, hinders no other.
func TestKilledAtTheBeginning(t *testing.T) {
	page := make([]byte, 4096)
	copy(page, sqliteMagic)
	copy(page[16:], []byte{0x10, 0, 1, 1, 0, 64, 32, 32}) // pages of 4096 bytes
	copy(page[applicationAt:], "mnEx")
	journal := make([]byte, 512) // of a file that had no page
	copy(journal, "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7")
	copy(journal[20:], []byte{0, 0, 2, 0, 0, 0, 0x10, 0})
	for about, left := range map[string][2][]byte{"empty": {}, "unwritten": {nil, journal}, "uncommitted": {page, journal}} {
		s := serve(t, 20_000)
		cfg := s.config(t, SQLite)
		require.NoError(t, os.WriteFile(cfg.Out+".partial", left[0], 0o600))
		if left[1] != nil {
			require.NoError(t, os.WriteFile(cfg.Out+".partial-journal", left[1], 0o600))
		}
		s.cutAfter, cfg.RetryFor = 12_000, 1
		s.refuse = func(w http.ResponseWriter) bool {
			if s.asked.Load() > 2 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			return s.asked.Load() > 2
		}
		require.ErrorContains(t, Run(t.Context(), cfg), "given up", about)
		s.cutAfter, s.refuse = 0, nil
		require.NoError(t, Run(t.Context(), cfg), about)
		requireWhole(t, cfg, 20_000)
	}
}

// TestNameTakenMeanwhile: what gets the name of an export while that is made is not replaced by it.
func TestNameTakenMeanwhile(t *testing.T) {
	s := serve(t, 5)
	cfg := s.config(t, SQLite)
	cfg.Progress = func(p Progress) {
		if p.Step == "writing" {
			require.NoError(t, os.WriteFile(cfg.Out, []byte("mine"), 0o600))
		}
	}
	require.ErrorContains(t, Run(t.Context(), cfg), "exists already")
	text, err := os.ReadFile(cfg.Out)
	require.NoError(t, err)
	require.Equal(t, "mine", string(text))
	require.NoError(t, os.Remove(cfg.Out))
	cfg.Progress = nil
	require.NoError(t, Run(t.Context(), cfg))
	requireWhole(t, cfg, 5)
}
