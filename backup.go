package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"muniment.example/control/backup"
	"muniment.example/control/erasure"
	"muniment.example/control/objects"
	"muniment.example/control/plane"
	"muniment.example/control/proof"
	"muniment.example/control/store"
	"muniment.example/deploy/process"
	"muniment.example/pipeline"
	"muniment.example/pipeline/segment"
	"muniment.example/pipeline/sqlite"
	"muniment.example/sealer"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/terminal"
)

type backupCmd struct {
	Data        string `default:"./muniment-data" env:"MUNIMENT_DATA" help:"Data folder, of a server that runs or not." type:"path"`
	To          string `required:"" help:"Folder to create, or a file if the name ends in .tar." placeholder:"DIR|FILE" type:"path"`
	WithoutKeys bool   `help:"Omit the private keys." xor:"keys"`
	WithRoot    bool   `help:"Include keys/root.skey: anyone who has it can sign as this service, and it can't be revoked." xor:"keys"`
	Rate        int64  `default:"16" least:"0" help:"Most MiB a second to read and write, so that a running server is not slowed down; 0 is no limit."`
	JSON        bool   `help:"Print the manifest."`
}

// Run copies the folder, without a request to any server.
func (c *backupCmd) Run(out io.Writer) error {
	ctx, stop := process.Interrupted()
	defer stop()
	made, err := backup.Backup{
		Data: c.Data, To: c.To, WithoutKeys: c.WithoutKeys, WithRoot: c.WithRoot, Rate: c.Rate << 20, Progress: terminal.Writer(os.Stderr),
		OpenLog: func(dir string) (backup.LogCopier, error) { return segment.OpenReader(dir) },
	}.Run(ctx)
	switch {
	case err != nil:
		return err
	case c.JSON:
		return json.NewEncoder(out).Encode(made)
	}
	terminal.Fprintf(out, "backed up to %s as of %s\n", c.To, made.TakenAt)
	return nil
}

type restoreCmd struct {
	From             string   `required:"" help:"The backup: a folder or a .tar." placeholder:"DIR|FILE" type:"path"`
	Data             string   `required:"" help:"Data folder to create." placeholder:"DIR" type:"path"`
	ExpectCheckpoint []string `help:"A proof pack or checkpoint that was kept elsewhere: refuse a backup that is older than it." placeholder:"FILE" type:"path" file:""`
	Tombstones       []string `help:"Required: later proof packs, or an export of the later events. Who is erased in them is not restored. An empty file, such as /dev/null, says that nobody was erased since the backup." placeholder:"FILE" type:"existingfile"`
	JSON             bool     `help:"Print one JSON object."`
}

// Run creates the folder, or nothing if it fails.
func (c *restoreCmd) Run(out io.Writer) error {
	ctx, stop := process.Interrupted()
	defer stop()
	made, err := backup.Restore{
		From: c.From, Data: c.Data, Expect: c.ExpectCheckpoint, Progress: terminal.Writer(os.Stderr), Continue: continueLog, Replays: plane.Replays(), Older: olderEvents,
		Tombstones: tombstones(c.Tombstones), Erase: eraseRestored,
	}.Run(ctx)
	switch {
	case err != nil:
		return err
	case c.JSON:
		return json.NewEncoder(out).Encode(made)
	}
	terminal.Fprintf(out, "restored %s as of %s; start it with: muniment up --data %s\n", made.Data, made.TakenAt, made.Data)
	if !made.Keys {
		terminal.Fprintf(out, "The backup holds no private keys: put them into %s first.\n", filepath.Join(made.Data, "keys"))
	}
	return nil
}

// tombstones returns what reads the events in proof packs and exports; nil without a file.
func tombstones(files []string) func(take func(event []byte) error) error {
	if len(files) == 0 {
		return nil
	}
	return func(take func(event []byte) error) error {
		for _, name := range files {
			if err := readEvents(name, take); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	}
}

// readEvents reads a pack, an export, or an empty file. Anything else, or a file that is cut
// off, is an error, because it does not prove that nothing else was erased.
func readEvents(name string, take func(event []byte) error) (err error) {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer closing(&err, file)
	start := bufio.NewReader(file)
	if _, err := start.Peek(1); err == io.EOF {
		return nil
	}
	var in interface{ Next() ([]byte, error) }
	if in, err = pack.Read(start); err != nil {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if in, err = pack.ReadExport(file); err != nil {
			return errors.New("it is neither an export of events nor a proof pack")
		}
	}
	for {
		event, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := take(event); err != nil {
			return err
		}
	}
}

// eraseRestored deletes from a restored database and its warehouse what was erased since they were copied.
func eraseRestored(ctx context.Context, data string, db *store.DB) (err error) {
	warehouse, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(data, "warehouse.db"), Logger: slog.Default()})
	if err != nil {
		return err
	}
	defer closing(&err, warehouse)
	return erasure.AnnounceRestored(ctx, db, warehouse)
}

// olderEvents are the events that the log of a restored folder may have dropped.
func olderEvents(ctx context.Context, data string, take func(event []byte) error) (err error) {
	warehouse, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(data, "warehouse.db")})
	if err != nil {
		return err
	}
	defer closing(&err, warehouse)
	return packedAndLoaded(data, warehouse)(ctx, take)
}

// packedAndLoaded are the events in the packs of a data folder, and those in its warehouse:
// not all that is loaded was sealed.
func packedAndLoaded(data string, warehouse *sqlite.Warehouse) func(ctx context.Context, take func(event []byte) error) error {
	return func(ctx context.Context, take func(event []byte) error) error {
		packs, err := objects.Open(filepath.Join(data, plane.PacksFolder), proof.PackType)
		if err == nil {
			err = proof.PackEvents(ctx, packs, nil, take)
		}
		if err != nil {
			return err
		}
		return warehouse.AuditEvents(ctx, take)
	}
}

// continueLog opens the log of a restored folder for its next generation.
func continueLog(ctx context.Context, data string, end sealer.Position, generation uint32) (_ backup.OpenLog, err error) {
	log, err := segment.Open(segment.Config{Dir: filepath.Join(data, "log"), Generation: generation})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, log.Close())
		}
	}()
	if _, found, err := log.Bounds(ctx, segment.Partition); err != nil || found.Offset != end.Offset {
		return nil, errors.Join(fmt.Errorf("the log ends at offset %d, not at %s", found.Offset, end), err)
	}
	warehouse, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(data, "warehouse.db")})
	if err != nil {
		return nil, err
	}
	defer closing(&err, warehouse)
	next, loaded, err := warehouse.Resume(ctx, segment.Partition)
	if err == nil && loaded && next.Compare(end) > 0 {
		err = fmt.Errorf("%w: loaded up to %s, the log ends at %s", pipeline.ErrLogBehind, next, end)
	}
	if err != nil {
		return nil, err
	}
	loader, err := pipeline.NewLoader(pipeline.LoaderConfig{Log: log, Warehouse: warehouse})
	if err != nil {
		return nil, err
	}
	return log, loader.Check(ctx)
}

// closing closes c and keeps its error if there is none yet.
func closing(err *error, c io.Closer) {
	if closeErr := c.Close(); *err == nil {
		*err = closeErr
	}
}
