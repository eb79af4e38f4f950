package backup

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

	"muniment.example/control/proof"
	"muniment.example/control/signing"
	"muniment.example/sealer/checkpoint"
	"muniment.example/sealer/pack"
)

// Expected is evidence kept elsewhere: that a tenant's Merkle log once had a root at a size.
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
		p, err := pack.Read(r)
		if err != nil {
			return e, err
		}
		h := p.Header()
		return Expected{File: file, TenantID: h.TenantID, TreeSize: h.TreeSize, RootHash: h.RootHash.String()}, nil
	}
	origin, _, _ := strings.Cut(string(text), "\n")
	tenantID, ok := strings.CutPrefix(origin, checkpoint.Origin(""))
	if !ok {
		return e, errors.New("it is neither a proof pack nor a checkpoint")
	}
	return Expected{File: file, TenantID: tenantID, note: string(text)}, nil
}

// met says whether the tenant's log in the restored database has the expected root.
func (e *Expected) met(ctx context.Context, db *sql.DB) error {
	if e.note != "" {
		if err := e.open(ctx, db); err != nil {
			return fmt.Errorf("%s: %w", e.File, err)
		}
	}
	size, root, err := proof.RootAt(ctx, db, e.TenantID, e.TreeSize)
	switch {
	case err != nil:
		return err
	case size < e.TreeSize:
		return fmt.Errorf("it is older than %s: its log of %s has %d entries under a root, %d were signed", e.File, e.TenantID, size, e.TreeSize)
	case root != e.RootHash:
		return fmt.Errorf("it is of another history than %s: its log of %s has not the root %s at %d entries", e.File, e.TenantID, e.RootHash, e.TreeSize)
	}
	return nil
}

// open verifies a checkpoint by one of the keys that the database knows.
func (e *Expected) open(ctx context.Context, db *sql.DB) error {
	keys, err := signing.PackKeys(ctx, db)
	if err != nil {
		return err
	}
	for i := range keys {
		pub, err := keys[i].Public()
		if err != nil {
			return err
		}
		point, err := checkpoint.Open(e.note, checkpoint.Origin(e.TenantID), pub)
		if err == nil {
			e.TreeSize, e.RootHash = point.Size, point.Root.String()
			return nil
		}
	}
	return errors.New("no key that the backup knows has signed the checkpoint: it is of another service, or of a later time than the backup")
}
