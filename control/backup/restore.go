package backup

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"muniment.example/control/proof"
	"muniment.example/control/reserve"
	"muniment.example/control/rollback"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/terminal"
)

// OpenLog is the log of a restored folder, open for its next generation.
type OpenLog interface {
	rollback.Reader
	io.Closer
}

// Restore is one run of the restore command.
type Restore struct {
	// From is what Backup made: a folder or a tar.
	From string
	// Data is the data folder to make. It must not exist, or be empty.
	Data string
	// Expect are files that were kept elsewhere: proof packs, or checkpoints, as C2SP
	// signed notes or as the API's answers that hold one. A backup whose log of that tenant is shorter, or another one, is
	// refused.
	Expect []string
	// Continue opens the log of a data folder, which must end exactly at end, for a
	// generation, after it has read and checked all of it. It fails if the
	// folder's warehouse does not fit that log.
	Continue func(ctx context.Context, data string, end sealer.Position, generation uint32) (OpenLog, error)
	// Replays are as in rollback.History: the backup's database may have been edited.
	Replays []rollback.Replay
	// Older is as in rollback.History, for the new data folder; nil: there are none.
	Older func(ctx context.Context, data string, take func(event []byte) error) error
	// Tombstones are the events since the backup was made, as the operator has given them; of these
	// the erasures are applied. No event at all is the operator's word that nobody was erased. The
	// newest event must not be older than the backup: then they would not say who was erased since.
	// nil: none were given. That is refused, because log and packs of a backup end with it, and
	// whoever was erased since would come back.
	Tombstones func(take func(event []byte) error) error
	// Erase deletes what the tombstones of the restored database cover from what else is
	// in the new data folder; nil: that is left to the first start.
	Erase func(ctx context.Context, data string, db *store.DB) error
	// Progress gets a line for each part; nil is silent.
	Progress io.Writer
}

// Restored is what Restore made.
type Restored struct {
	Data    string `json:"data"`
	TakenAt string `json:"takenAt"`
	// Incarnation is the restored database's new incarnation, Previous that of the copied one.
	Incarnation string `json:"incarnation"`
	Previous    string `json:"previous"`
	// LogEnd is where the log continues.
	LogEnd string `json:"logEnd"`
	Packs  int    `json:"packs"`
	// Keys is false if the private keys have to be put in place before a start.
	Keys bool `json:"keys"`
	// Reapplied are the stops that the backup's database lacked, and that are in force again. An
	// unedited backup has none.
	Reapplied []string `json:"reapplied"`
	// Tombstones counts the erasures in what was given to say who was erased since.
	Tombstones int `json:"tombstones"`
	// TombstonesUpTo is, by tenant, the time of the newest event in what was given: of later erasures
	// the restored service knows nothing.
	TombstonesUpTo map[string]string `json:"tombstonesUpTo"`
	// Expected are the packs and checkpoints that the restored logs were held against.
	Expected []Expected `json:"expected"`
}

// Run restores. The data folder exists when it returns nil, and only then.
func (r Restore) Run(ctx context.Context) (*Restored, error) {
	done, err := r.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot restore %s: %w", r.From, err)
	}
	return done, nil
}

func (r Restore) run(ctx context.Context) (done *Restored, err error) {
	expected := make([]Expected, len(r.Expect))
	for i, file := range r.Expect {
		if expected[i], err = readExpected(file); err != nil {
			return nil, err
		}
	}
	if left, err := os.ReadDir(r.Data); !errors.Is(err, fs.ErrNotExist) && (err != nil || len(left) > 0) {
		return nil, errors.Join(fmt.Errorf("%s exists already", r.Data), err)
	}
	partial := filepath.Clean(r.Data) + ".partial"
	if err := os.MkdirAll(filepath.Dir(partial), 0o700); err != nil {
		return nil, err
	}
	if err := os.Mkdir(partial, 0o700); err != nil {
		return nil, fmt.Errorf("%w (a restore that was interrupted leaves it: remove it)", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(partial))
		}
	}()
	w := &restoreWriter{Restore: r, dir: partial}
	if err := w.copyAll(ctx); err != nil {
		return nil, err
	}
	for _, file := range []string{controlFile, warehouseFile} {
		if err := checkDatabase(ctx, filepath.Join(partial, file)); err != nil {
			return nil, err
		}
	}
	if done, err = w.reopen(ctx, expected); err != nil {
		return nil, err
	}
	if err := os.Remove(r.Data); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err // it was an empty folder
	}
	return done, publish(partial, r.Data)
}

// restoreWriter makes a data folder in another place.
type restoreWriter struct {
	Restore
	dir    string
	m      Manifest
	erased [][]byte             // the events of erasures in what was given
	upTo   map[string]time.Time // by tenant: the newest event in what was given
}

func (w *restoreWriter) say(format string, args ...any) {
	if w.Progress != nil {
		terminal.Fprintf(w.Progress, format+"\n", args...)
	}
}

// copyAll copies every file of the manifest, and compares it with that.
func (w *restoreWriter) copyAll(ctx context.Context) (err error) {
	from, err := openArchive(w.From)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if err := w.readManifest(from); err != nil {
		return err
	}
	if err := w.readTombstones(); err != nil {
		return err
	}
	total, err := w.room()
	if err != nil {
		return err
	}
	for _, f := range w.m.Files {
		if err := errors.Join(ctx.Err(), w.copyFile(from, f)); err != nil {
			return err
		}
	}
	w.say("copied        %s in %d files, each as the manifest has it", megabytes(total), len(w.m.Files))
	return nil
}

// room returns how many bytes the files have, once it is sure that the disk has space for them.
func (w *restoreWriter) room() (total int64, err error) {
	for _, f := range w.m.Files {
		if f.Bytes > math.MaxInt64-total {
			return 0, fmt.Errorf("its %s states more bytes than any disk has", manifestFile)
		}
		total += f.Bytes
	}
	free, err := reserve.Free(w.dir)
	if err == nil && free < total {
		err = fmt.Errorf("it has %s, and %s has space for %s: make space, or restore to another disk", megabytes(total), filepath.Dir(w.Data), megabytes(free))
	}
	return total, err
}

// maxManifest is the longest manifest: a line a file, of which a pack is one.
const maxManifest = 64 << 20

func (w *restoreWriter) readManifest(from archive) error {
	f, _, err := from.open(manifestFile)
	if err != nil {
		return fmt.Errorf("it is no whole backup: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if len(text) > maxManifest {
		return fmt.Errorf("its %s is too long: it has more than %s", manifestFile, megabytes(maxManifest))
	}
	if err == nil {
		err = json.Unmarshal(text, &w.m)
	}
	if err != nil {
		return fmt.Errorf("cannot read its %s: %w", manifestFile, err)
	}
	if w.m.Format != manifestFormat {
		return fmt.Errorf("its format is %q, this program reads %q", w.m.Format, manifestFormat)
	}
	for _, f := range w.m.Files {
		if !local(f.Name) || f.Bytes < 0 {
			return fmt.Errorf("its manifest names %q, which is no file of a backup", f.Name)
		}
	}
	return nil
}

// readTombstones reads what was given of the time since the backup was made.
func (w *restoreWriter) readTombstones() error {
	taken, err := canonical.ParseTime(w.m.TakenAt)
	switch {
	case err != nil:
		return fmt.Errorf("cannot read its %s: %w", manifestFile, err)
	case time.Until(taken) > api.ClockSlack:
		return fmt.Errorf("it says that it was made at %s, which is in the future: its %s or this machine's clock is wrong", w.m.TakenAt, manifestFile)
	case w.Tombstones == nil:
		return fmt.Errorf("it was made at %s, and would bring back persons who were erased since: give the later proof packs, or an export of the later events, with --tombstones FILE; "+
			"if nobody was erased: --tombstones /dev/null", w.m.TakenAt)
	}
	w.upTo = map[string]time.Time{}
	var newest time.Time
	err = w.Tombstones(func(event []byte) error {
		e, err := sealer.ParseEvent(event)
		if err != nil {
			return err
		}
		if e.At.After(w.upTo[e.TenantID]) {
			w.upTo[e.TenantID] = e.At
		}
		if e.At.After(newest) {
			newest = e.At
		}
		if e.Type == sealer.TypeErased {
			w.erased = append(w.erased, bytes.Clone(event))
		}
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("cannot read tombstones: %w", err)
	case len(w.upTo) == 0:
		w.say("tombstones    none: nobody was erased since %s, as you say", w.m.TakenAt)
	case newest.Before(taken):
		return fmt.Errorf("it was made at %s, and the given tombstones end at %s: they don't say who was erased since. Give later proof packs, or a later export of events", w.m.TakenAt, canonical.FormatTime(newest))
	}
	for _, tenantID := range slices.Sorted(maps.Keys(w.upTo)) {
		w.say("tombstones    of %s up to %s", tenantID, canonical.FormatTime(w.upTo[tenantID]))
	}
	return nil
}

func (w *restoreWriter) copyFile(from archive, f File) error {
	altered := fmt.Errorf("%s is not what was backed up", f.Name)
	source, size, err := from.open(f.Name)
	if err != nil {
		return err
	}
	defer source.Close()
	if size != f.Bytes {
		return altered
	}
	mode := os.FileMode(0o600)
	if f.Name == rootFile {
		mode = 0o644
	}
	return createDurably(filepath.Join(w.dir, filepath.FromSlash(f.Name)), mode, func(to *os.File) error {
		size, sum, err := hashCopy(to, io.LimitReader(source, f.Bytes+1)) // it may have grown
		if err == nil && (size != f.Bytes || hex.EncodeToString(sum) != f.SHA256) {
			err = altered
		}
		return err
	})
}

// reopen opens what was copied, checks that its parts belong together, and begins its next
// incarnation.
func (w *restoreWriter) reopen(ctx context.Context, expected []Expected) (done *Restored, err error) {
	db, err := store.Open(ctx, store.Config{Path: filepath.Join(w.dir, controlFile), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	done = &Restored{
		Data: w.Data, TakenAt: w.m.TakenAt, Previous: db.Incarnation(), Keys: w.m.Keys, Expected: expected,
	}
	if done.Packs, err = w.checkPacks(ctx, db); err != nil {
		return nil, err
	}
	for i := range expected {
		if err := expected[i].met(ctx, db.Read()); err != nil {
			return nil, err
		}
		w.say("meets         %s: tenant %s, %d entries", expected[i].File, expected[i].TenantID, expected[i].TreeSize)
	}
	if err := w.goOn(ctx, db, done); err != nil {
		return nil, err
	}
	return done, nil
}

// checkPacks looks for the file of every sealed pack.
func (w *restoreWriter) checkPacks(ctx context.Context, db *store.DB) (int, error) {
	sealed, err := proof.Files(ctx, db.Read())
	if err != nil {
		return 0, err
	}
	copied := make(map[string]File, len(w.m.Files))
	for _, f := range w.m.Files {
		copied[f.Name] = f
	}
	found := 0
	for _, p := range sealed {
		name := path.Join(packsFolder, p.Name)
		f, ok := copied[name]
		if !ok && p.Sandbox {
			continue
		}
		if !ok {
			return 0, fmt.Errorf("it lacks %s, which was sealed", name)
		}
		if err := check(&p, f); err != nil {
			return 0, err
		}
		found++
	}
	w.say("packs         %d, each as it was sealed", found)
	return found, nil
}

// goOn reads the log from end to end, and begins its next generation and the database's next
// incarnation. Both must know the same keys.
func (w *restoreWriter) goOn(ctx context.Context, db *store.DB, done *Restored) (err error) {
	end, err := sealer.ParsePosition(w.m.LogEnd)
	if err != nil {
		return fmt.Errorf("cannot read its %s: %w", manifestFile, err)
	}
	log, err := w.Continue(ctx, w.dir, end, end.Generation+1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	h := rollback.History{Log: log, Keys: signing.KeyIDs, Replays: w.Replays}
	h.Older = func(ctx context.Context, take func(event []byte) error) error {
		for _, event := range w.erased {
			if err := take(event); err != nil {
				return err
			}
		}
		if w.Restore.Older == nil {
			return nil
		}
		return w.Restore.Older(ctx, w.dir, take)
	}
	done.Tombstones, done.TombstonesUpTo = len(w.erased), make(map[string]string, len(w.upTo))
	for tenantID, at := range w.upTo {
		done.TombstonesUpTo[tenantID] = canonical.FormatTime(at)
	}
	reapplied, ends, err := h.BeginIncarnation(ctx, db)
	if err != nil {
		return err
	}
	done.Incarnation, done.LogEnd = db.Incarnation(), ends[logPartition].String()
	w.say("log           read from end to end; continues at position %s", done.LogEnd)
	if w.Erase != nil {
		if err := w.Erase(ctx, w.dir, db); err != nil {
			return err
		}
	}
	done.Reapplied = append([]string{}, reapplied...)
	for _, stop := range reapplied {
		w.say("in force      %s: the backup's database did not show it", stop)
	}
	return nil
}
