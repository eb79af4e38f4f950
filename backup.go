package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"muniment/control/backup"
	"muniment/control/proof"
	"muniment/pipeline"
	"muniment/pipeline/segment"
	"muniment/pipeline/sqlite"
	"muniment/sealer"
)

type backupCmd struct {
	Data        string `default:"./muniment-data" env:"MUNIMENT_DATA" help:"Data folder, of a server that runs or not." type:"path"`
	To          string `required:"" help:"Folder to make, or file to make if it ends in .tar." placeholder:"DIR|FILE" type:"path"`
	WithoutKeys bool   `help:"Leave the private keys out." xor:"keys"`
	WithRoot    bool   `help:"Take keys/root.skey along: whoever has it can sign as this service, and it can't be revoked." xor:"keys"`
	Rate        int64  `default:"16" help:"Most MiB a second to read and write, so that a server beside it goes on as before; 0 is no limit."`
	JSON        bool   `help:"Print the manifest."`
}

// Run copies the folder; no server is asked.
func (c *backupCmd) Run() error {
	ctx, stop := interrupted()
	defer stop()
	made, err := backup.Backup{
		Data: c.Data, To: c.To, WithoutKeys: c.WithoutKeys, WithRoot: c.WithRoot, Rate: c.Rate << 20, Progress: os.Stderr,
		OpenLog: func(dir string) (backup.LogCopier, error) { return segment.OpenReader(dir) },
	}.Run(ctx)
	switch {
	case err != nil:
		return err
	case c.JSON:
		return json.NewEncoder(os.Stdout).Encode(made)
	}
	fmt.Printf("backed up to %s as of %s\n", c.To, made.TakenAt)
	return nil
}

type restoreCmd struct {
	From             string   `required:"" help:"The backup: a folder or a .tar." placeholder:"DIR|FILE" type:"path"`
	Data             string   `required:"" help:"Data folder to make." placeholder:"DIR" type:"path"`
	ExpectCheckpoint []string `help:"A proof pack or checkpoint that was kept elsewhere: refuse a backup that is older than it." placeholder:"FILE" type:"path"`
	JSON             bool     `help:"Print one JSON object."`
}

// Run makes the folder, or leaves nothing behind.
func (c *restoreCmd) Run() error {
	ctx, stop := interrupted()
	defer stop()
	made, err := backup.Restore{
		From: c.From, Data: c.Data, Expect: c.ExpectCheckpoint, Progress: os.Stderr, Continue: continueLog, Replays: replays(), Older: olderEvents,
	}.Run(ctx)
	switch {
	case err != nil:
		return err
	case c.JSON:
		return json.NewEncoder(os.Stdout).Encode(made)
	}
	fmt.Printf("restored %s as of %s; start it with: muniment up --data %s\n", made.Data, made.TakenAt, made.Data)
	if !made.Keys {
		fmt.Printf("The backup holds no private keys: put them into %s first.\n", filepath.Join(made.Data, "keys"))
	}
	return nil
}

// olderEvents are the events that the log of a restored folder may hold no more.
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
		if err := proof.PackEvents(ctx, filepath.Join(data, "packs"), take); err != nil {
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
