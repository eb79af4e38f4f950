package erasure

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"

	"muniment.example/control/store"
	"muniment.example/pipeline"
)

var erasures = store.Records[Erasure]{Noun: "erasure", Table: "erasures"}

// openKey reads the key of hashes, and creates it if there is none.
func openKey(ctx context.Context, db *store.DB) (key pipeline.SubjectKey, err error) {
	const read = `SELECT subject_key FROM subject_key`
	text, err := store.One(ctx, db.Read(), "the key of persons' hashes", store.Text, read)
	if err == nil && text == nil {
		rand.Read(key[:])
		err = db.Change(ctx, func(tx *store.Tx) error {
			if _, err := tx.ExecContext(ctx, `INSERT INTO subject_key (only_row, subject_key) VALUES (1, $1) ON CONFLICT (only_row) DO NOTHING`, hex.EncodeToString(key[:])); err != nil {
				return err
			}
			text, err = store.One(ctx, tx, "the key of persons' hashes", store.Text, read) // another process may have been faster
			return err
		})
	}
	if err == nil && (text == nil || hex.DecodedLen(len(*text)) != len(key)) {
		err = errors.New("the key of persons' hashes is missing or has the wrong length")
	}
	if err == nil {
		_, err = hex.Decode(key[:], []byte(*text))
	}
	return key, err
}

func listTombstones(ctx context.Context, q store.Querier) ([]pipeline.Tombstone, error) {
	return store.List(ctx, q, "the tombstones", func(row store.Row) (t pipeline.Tombstone, err error) {
		var until int64
		err = row.Scan(&t.TenantID, &t.SubjectHash, &until)
		t.Until = time.UnixMilli(until).UTC()
		return t, err
	}, `SELECT tenant_id, subject_hash, until FROM tombstones ORDER BY tenant_id, subject_hash`)
}

// buriedKinds lists the kinds of records whose events lose the notes about the person of an erasure.
func buriedKinds(ctx context.Context, q store.Querier, e *Erasure) (kinds []string, err error) {
	list, err := store.List(ctx, q, "the tombstones of notes", store.Text,
		`SELECT subject_hash FROM tombstones WHERE tenant_id = $1 AND until >= $2 ORDER BY subject_hash`, e.TenantID, store.Millis(e.Until.Time))
	for _, hash := range list {
		if kind, of, ok := (pipeline.Tombstone{SubjectHash: hash}).Notes(); ok && of == e.SubjectHash {
			kinds = append(kinds, kind)
		}
	}
	return kinds, err
}

// buryAll writes the tombstones of an erasure, the person's first; isNew is the person's.
func buryAll(ctx context.Context, tx *store.Tx, stones []pipeline.Tombstone) (isNew bool, err error) {
	for i, t := range stones {
		changed, err := bury(ctx, tx, t)
		if err != nil {
			return false, err
		}
		isNew = isNew || i == 0 && changed
	}
	return isNew, nil
}

// bury writes a tombstone; isNew is false if the database already had one that covers it.
func bury(ctx context.Context, tx *store.Tx, t pipeline.Tombstone) (isNew bool, err error) {
	result, err := tx.ExecContext(ctx, `INSERT INTO tombstones (tenant_id, subject_hash, until) VALUES ($1, $2, $3)
		ON CONFLICT (tenant_id, subject_hash) DO UPDATE SET until = excluded.until WHERE tombstones.until < excluded.until`,
		t.TenantID, t.SubjectHash, store.Millis(t.Until))
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}
