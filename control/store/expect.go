package store

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"muniment/sealer"
)

// Expected is what somebody holds outside: that a tenant's Merkle log once had a
// root at a size.
type Expected struct {
	File     string `json:"file"`
	TenantID string `json:"tenantId"`
	TreeSize uint64 `json:"treeSize"`
	RootHash string `json:"rootHash"`

	// note is the text of a bare checkpoint, whose size and root are known once a key
	// of the restored database has verified it.
	note string
}

// maxNote bounds a checkpoint's file.
const maxNote = 64 << 10

// readExpected reads a proof pack of either form, or a checkpoint: a signed note, or
// the API's answer that holds one. A pack needs no signature here: it is believed
// only if it says what the restored log says.
func readExpected(file string) (e Expected, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot use %s as a checkpoint: %w", file, err)
		}
	}()
	f, err := os.Open(file)
	if err != nil {
		return e, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, maxNote)
	text, err := r.Peek(maxNote)
	if err != nil && err != io.EOF {
		return e, err
	}
	var answer struct{ Data struct{ Checkpoint string } }
	if json.Unmarshal(text, &answer) == nil && answer.Data.Checkpoint != "" {
		text = []byte(answer.Data.Checkpoint)
	}
	if bytes.HasPrefix(text, []byte("{")) {
		pack, err := sealer.ReadPack(r)
		if err != nil {
			return e, err
		}
		h := pack.Header()
		return Expected{File: file, TenantID: h.TenantID, TreeSize: h.TreeSize, RootHash: h.RootHash.String()}, nil
	}
	origin, _, _ := strings.Cut(string(text), "\n")
	tenantID, ok := strings.CutPrefix(origin, sealer.Origin(""))
	if !ok {
		return e, errors.New("it is neither a proof pack nor a checkpoint")
	}
	return Expected{File: file, TenantID: tenantID, note: string(text)}, nil
}

// meets says whether the tenant's log in this database has the expected root. The
// tables are control/proof's and control/node's.
func (db *DB) meets(ctx context.Context, e *Expected) error {
	if e.note != "" {
		if err := db.openNote(ctx, e); err != nil {
			return fmt.Errorf("%s: %w", e.File, err)
		}
	}
	var size uint64
	var root sql.NullString
	err := db.read.QueryRowContext(ctx, `SELECT h.tree_size, r.root_hash FROM proof_heads h
		LEFT JOIN proof_roots r ON r.tenant_id = h.tenant_id AND r.tree_size = $2 WHERE h.tenant_id = $1`, e.TenantID, e.TreeSize).Scan(&size, &root)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	switch {
	case size < e.TreeSize:
		return fmt.Errorf("it is older than %s: its log of %s has %d entries under a root, %d were signed", e.File, e.TenantID, size, e.TreeSize)
	case root.String != e.RootHash:
		return fmt.Errorf("it is of another history than %s: its log of %s has not the root %s at %d entries", e.File, e.TenantID, e.RootHash, e.TreeSize)
	}
	return nil
}

// openNote verifies a checkpoint by one of the keys that the database knows.
func (db *DB) openNote(ctx context.Context, e *Expected) error {
	keys, err := db.packKeys(ctx)
	if err != nil {
		return err
	}
	for i := range keys {
		pub, err := keys[i].Public()
		if err != nil {
			return err
		}
		point, err := sealer.OpenCheckpoint(e.note, sealer.Origin(e.TenantID), pub)
		if err == nil {
			e.TreeSize, e.RootHash = point.Size, point.Root.String()
			return nil
		}
	}
	return errors.New("no key that the backup knows has signed the checkpoint: it is of another service, or of a later time than the backup")
}

func (db *DB) packKeys(ctx context.Context) ([]sealer.Key, error) {
	scan := func(row Row) (sealer.Key, error) {
		k := sealer.Key{Algorithm: sealer.Algorithm}
		err := row.Scan(&k.KeyID, &k.PublicKey)
		return k, err
	}
	return List(ctx, db.read, "the keys of packs", scan, `SELECT key_id, public_key FROM signing_keys
		WHERE purpose IN ($1, $2) ORDER BY revision DESC`, sealer.PurposePack, sealer.PurposeSandbox)
}
