// Package backup copies a data folder, beside the server that runs on it, and makes a
// data folder of such a copy.
//
// A backup is a folder, or a tar of one, that holds a data folder as of one point
// in time: the moment at which the database is copied.
//
//	manifest.json   positions, and name, size and SHA-256 of every other file
//	control.db      one committed state of the database
//	warehouse.db    one that is no newer than the log below
//	log/            the segments, up to the last group before the first record that
//	                came after the copied database
//	packs/          every pack that the copied database has sealed, but for those of
//	                visitors of the sandbox who left while it was taken
//	keys/           the key files, or only the public root.vkey; without root.skey
//
// It is taken beside a running server, which does not wait: everything that is read is immutable,
// append-only, or copied by SQLite. The order makes it one point. The warehouse comes first, so the
// log is ahead of it. Then comes the database; a pack's file, a key's file and a record in the log
// are all on disk before the database knows of them. Last comes the log, and it is cut where it
// knows more than the database. So every receipt that was acknowledged before that moment is in the
// backup, and every change that was answered before it as well.
//
// It holds no identity of a node, of which there must not be two: a restored service joins again as
// another node, with keys of its own.
//
// A backup holds secrets and personal data: hashes of API keys, private parts of events and, unless
// left out, the private signing keys of control. Only its owner may read it. The root's signing
// half is the one secret that can't be revoked: it is taken along only on demand. A service that is
// restored without it serves, and needs the root only for another directory key.
//
// Restore copies a backup into a new data folder, which has its name only after every file matched
// the manifest, both databases passed SQLite's check, the log was read from end to end, and each
// pack was found. A backup may come from an untrusted source: only plain files of it are read, of
// the size in its manifest, and its database is checked against every stop in its log, packs and
// warehouse. The restored database begins a new incarnation, and the log a new generation, so its
// events can't be confused with those after the backup. Those are lost, and the restored service
// would in time sign other roots of sizes that were signed before: only a holder of a later pack or
// checkpoint can detect this, with Restore.Expect.
//
// Packs and keys are read by control/proof and control/signing, the history of database and log by
// control/store.
package backup

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"muniment.example/control/proof"
	"muniment.example/control/rollback"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/terminal"
)

// Names within a data folder and a backup of it.
const (
	controlFile   = "control.db"
	warehouseFile = "warehouse.db"
	logFolder     = "log"
	packsFolder   = "packs"
	keysFolder    = "keys"
	rootFile      = keysFolder + "/root.vkey" // the one public file of the keys
	rootSecret    = keysFolder + "/root.skey"
	manifestFile  = "manifest.json"
)

// logPartition is the one partition of the log in a data folder.
const logPartition = 0

const manifestFormat = "muniment-backup.v1"

// Manifest says what a backup holds, and as of when.
type Manifest struct {
	Format  string `json:"format"`
	TakenAt string `json:"takenAt"`
	// Incarnation, Epoch, Events and Revision are the head of the database: its incarnation, the
	// number of audit events that it wrote in that, and its newest revision.
	Incarnation string `json:"incarnation"`
	Epoch       uint64 `json:"epoch"`
	Events      uint64 `json:"events"`
	Revision    int64  `json:"revision"`
	// LogEnd is the position behind the last record of the log.
	LogEnd string `json:"logEnd"`
	// Keys is false if the private keys were left out.
	Keys bool `json:"keys"`
	// Root is true if the root's signing half was taken along.
	Root bool `json:"root,omitempty"`
	// Files are all files but the manifest, in the order of a tar.
	Files []File `json:"files"`
}

// File is one file of a backup. Name has slashes, SHA256 is in hex.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// LogCopier is the log of a data folder, as a backup needs it.
type LogCopier interface {
	rollback.Reader
	io.Closer
	// Copy writes the log into a new folder, up to the last group that ends at or
	// before limit, and returns where the copy ends.
	// What it writes to a file goes through what through returns for that.
	Copy(ctx context.Context, dir string, limit sealer.Position, through func(*os.File) io.Writer) (end sealer.Position, err error)
}

// Backup is one run of the backup command.
type Backup struct {
	// Data is the data folder, of a server that runs or not.
	Data string
	// To is the folder to make, or the tar if it ends in ".tar". It must not exist.
	To string
	// WithoutKeys leaves the private keys out. They have to be put in place after a restore.
	WithoutKeys bool
	// WithRoot takes keys/root.skey along, if it is there. It excludes WithoutKeys.
	WithRoot bool
	// OpenLog opens the log in a folder for reading, while a server may append to it.
	OpenLog func(dir string) (LogCopier, error)
	// Rate is how many bytes a second it reads and writes at most; 0 is no limit.
	Rate int64
	// Progress receives a line for each part, and every ten seconds; nil: none.
	Progress io.Writer
}

// Run makes the backup. When it returns nil, the backup is whole and on disk; after
// an error nothing of it is left.
func (b Backup) Run(ctx context.Context) (*Manifest, error) {
	m, err := b.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot back up %s: %w", b.Data, err)
	}
	return m, nil
}

func (b Backup) run(ctx context.Context) (m *Manifest, err error) {
	if b.WithoutKeys && b.WithRoot {
		return nil, errors.New("the root's key can't be taken along without the keys")
	}
	if _, err := os.Stat(filepath.Join(b.Data, controlFile)); err != nil {
		return nil, fmt.Errorf("it is no data folder: %w", err)
	}
	if _, err := os.Lstat(b.To); !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("%s exists already", b.To), err)
	}
	partial := b.To + ".partial"
	if err := os.Mkdir(partial, 0o700); err != nil {
		return nil, fmt.Errorf("%w (a backup that was interrupted leaves it: remove it)", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(partial))
		}
	}()
	w := &backupWriter{Backup: b, dir: partial, m: &Manifest{Format: manifestFormat, Keys: !b.WithoutKeys}}
	w.pace = pace{rate: b.Rate, say: func(done int64) { w.say("%-13s %s read or written", "…", megabytes(done)) }}
	if err := w.fill(ctx); err != nil {
		return nil, err
	}
	if strings.HasSuffix(b.To, tarSuffix) {
		return w.m, w.pack(ctx)
	}
	return w.m, publish(partial, b.To)
}

// backupWriter fills a folder.
type backupWriter struct {
	Backup
	dir  string
	m    *Manifest
	pace pace
}

// fill copies the parts in the order that makes them one point in time.
func (w *backupWriter) fill(ctx context.Context) error {
	for _, part := range []func(context.Context) error{w.warehouse, w.control, w.packs, w.keys, w.log} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(w.m, "", "  ")
	if err != nil {
		return err
	}
	return writeDurably(filepath.Join(w.dir, manifestFile), append(text, '\n'))
}

func (w *backupWriter) say(format string, args ...any) {
	if w.Progress != nil {
		terminal.Fprintf(w.Progress, format+"\n", args...)
	}
}

func (w *backupWriter) warehouse(ctx context.Context) error { return w.database(ctx, warehouseFile) }

// database copies a SQLite file.
func (w *backupWriter) database(ctx context.Context, name string) error {
	to := filepath.Join(w.dir, name)
	if err := copyDatabase(ctx, &w.pace, filepath.Join(w.Data, name), to); err != nil {
		return fmt.Errorf("cannot copy %s: %w", name, err)
	}
	size, err := w.list(ctx, name)
	w.say("%-13s %s", name, megabytes(size))
	return err
}

// list takes a file of the backup into the manifest.
func (w *backupWriter) list(ctx context.Context, name string) (size int64, err error) {
	f, err := os.Open(filepath.Join(w.dir, filepath.FromSlash(name)))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return w.add(name, io.Discard, w.pace.reader(ctx, f))
}

// add copies a file and takes it into the manifest.
func (w *backupWriter) add(name string, to io.Writer, from io.Reader) (size int64, err error) {
	size, sum, err := hashCopy(to, from)
	w.m.Files = append(w.m.Files, File{Name: name, Bytes: size, SHA256: hex.EncodeToString(sum)})
	return size, err
}

// copy copies a file of the data folder.
func (w *backupWriter) copy(ctx context.Context, name string) (size int64, err error) {
	from, err := os.Open(filepath.Join(w.Data, filepath.FromSlash(name)))
	if err != nil {
		return 0, err
	}
	defer from.Close()
	err = createDurably(filepath.Join(w.dir, filepath.FromSlash(name)), 0o600, func(to *os.File) (err error) {
		size, err = w.add(name, w.pace.writer(ctx, to), from)
		return err
	})
	return size, err
}

// control copies the database and records its head.
func (w *backupWriter) control(ctx context.Context) error {
	w.m.TakenAt = canonical.FormatTime(time.Now())
	if err := w.database(ctx, controlFile); err != nil {
		return err
	}
	return w.read(func(db *sql.DB) error {
		s, err := store.ReadHead(ctx, db)
		w.m.Incarnation, w.m.Epoch, w.m.Events, w.m.Revision = s.Incarnation, s.Epoch, s.Events, s.Revision
		return err
	})
}

// read reads the copy of the database, without touching it.
func (w *backupWriter) read(fn func(*sql.DB) error) error {
	db, err := openCopy(filepath.Join(w.dir, controlFile))
	if err != nil {
		return err
	}
	if err := errors.Join(fn(db), db.Close()); err != nil {
		return fmt.Errorf("cannot read the copy of %s: %w", controlFile, err)
	}
	return nil
}

// packs copies every pack that the database names, and compares it with what was sealed.
func (w *backupWriter) packs(ctx context.Context) error {
	var sealed []proof.File
	if err := w.read(func(db *sql.DB) (err error) {
		sealed, err = proof.Files(ctx, db)
		return err
	}); err != nil {
		return err
	}
	var total int64
	for _, p := range sealed {
		if err := ctx.Err(); err != nil {
			return err
		}
		size, err := w.copy(ctx, path.Join(packsFolder, p.Name))
		if p.Sandbox && errors.Is(err, fs.ErrNotExist) {
			continue // its visitor is gone since the database was copied
		}
		if err == nil {
			err = check(&p, w.m.Files[len(w.m.Files)-1])
		}
		if err != nil {
			return fmt.Errorf("cannot copy a sealed pack: %w", err)
		}
		total += size
	}
	w.say("%-13s %s in %d packs", packsFolder, megabytes(total), len(sealed))
	return nil
}

// check says whether a file is the pack that was sealed.
func check(p *proof.File, f File) error {
	sum, err := hex.DecodeString(f.SHA256)
	if err != nil || f.Bytes != p.Bytes || base64.RawURLEncoding.EncodeToString(sum) != p.SHA256 {
		return fmt.Errorf("%s is not what was sealed", f.Name)
	}
	return nil
}

// keys copies the key files, or the public one alone.
func (w *backupWriter) keys(context.Context) error {
	names, err := filesBelow(w.Data, keysFolder)
	if err != nil {
		return fmt.Errorf("cannot list the keys: %w", err)
	}
	copied, leftOut := 0, false
	for _, name := range names {
		if w.WithoutKeys && name != rootFile {
			continue
		}
		if name == rootSecret && !w.WithRoot {
			leftOut = true
			continue
		}
		switch whole, err := w.key(name); {
		case err != nil:
			return fmt.Errorf("cannot copy a key: %w", err)
		case whole:
			copied++
			w.m.Root = w.m.Root || name == rootSecret
		}
	}
	w.say("%-13s %d files", keysFolder, copied)
	if leftOut {
		w.say("%-13s left out: keep it where no server is. --with-root takes it along", rootSecret)
	}
	return nil
}

// key copies a key file, unless the key was destroyed meanwhile: the file is gone
// then, or zeros are written over it.
func (w *backupWriter) key(name string) (whole bool, err error) {
	text, err := os.ReadFile(filepath.Join(w.Data, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) || err == nil && bytes.IndexByte(text, 0) >= 0 {
		return false, nil
	}
	if err == nil {
		err = createDurably(filepath.Join(w.dir, filepath.FromSlash(name)), 0o600, func(to *os.File) error {
			_, err := w.add(name, to, bytes.NewReader(text))
			return err
		})
	}
	return err == nil, err
}

// filesBelow lists the plain files in a folder of the data folder, with slashes.
// Names that begin with a dot are files in the making.
func filesBelow(data, folder string) (names []string, err error) {
	err = fs.WalkDir(os.DirFS(data), folder, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasPrefix(d.Name(), ".") {
			names = append(names, name)
		}
		return err
	})
	return names, err
}

// log copies the log up to what the copied database knows.
func (w *backupWriter) log(ctx context.Context) error {
	log, err := w.OpenLog(filepath.Join(w.Data, logFolder))
	if err != nil {
		return err
	}
	defer log.Close()
	var limit sealer.Position
	history := rollback.History{Log: log, Keys: signing.KeyIDs}
	if err := w.read(func(db *sql.DB) (err error) {
		limit, err = history.Meets(ctx, db, logPartition)
		return err
	}); err != nil {
		return fmt.Errorf("cannot find where the log meets the database: %w", err)
	}
	end, err := log.Copy(ctx, filepath.Join(w.dir, logFolder), limit, func(f *os.File) io.Writer { return w.pace.writer(ctx, f) })
	if err != nil {
		return err
	}
	w.m.LogEnd = end.String()
	names, err := filesBelow(w.dir, logFolder)
	var total int64
	for _, name := range names {
		var size int64
		if size, err = w.list(ctx, name); err != nil {
			break
		}
		total += size
	}
	w.say("%-13s %s up to position %s", logFolder, megabytes(total), end)
	return err
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
