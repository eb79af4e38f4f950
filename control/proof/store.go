package proof

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"muniment.example/control/proof/sums"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/merkle"
)

// errMoved means that another seal has moved the head since it was read.
var errMoved = errors.New("the head of the log has moved")

// errForked means that the log would get a second root for a size of which it has, or may have,
// signed another root.
var errForked = errors.New("the log would fork")

// head is the head of a tenant's log, on which the next pack is built.
type head struct {
	sequence int64 // how many packs were sealed
	packID   string
	tree     *merkle.Tree
	position sealer.Position // of the last sealed entry
}

// newHead returns the head of a log without packs. Its position is before all others of any
// partition.
func newHead() head {
	return head{tree: merkle.NewTree(), position: sealer.Position{Offset: -1}}
}

// readHead reads a tenant's head.
func readHead(ctx context.Context, db *sql.DB, tenantID string) (head, error) {
	h := newHead()
	var size uint64
	var root, hashes, position string
	err := db.QueryRowContext(ctx, `SELECT sequence, pack_id, tree_size, root_hash, hashes, position
		FROM proof_heads WHERE tenant_id = $1`, tenantID).
		Scan(&h.sequence, &h.packID, &size, &root, &hashes, &position)
	if errors.Is(err, sql.ErrNoRows) {
		return h, nil
	}
	var state []merkle.Hash
	if err == nil {
		err = json.Unmarshal([]byte(hashes), &state)
	}
	if err == nil {
		h.tree, err = merkle.RestoreTree(size, state)
	}
	if err == nil && h.tree.Root().String() != root {
		err = errors.New("its root is not that of its compact range")
	}
	if err == nil {
		h.position, err = sealer.ParsePosition(position)
	}
	if err != nil {
		return head{}, fmt.Errorf("cannot read the head of %s: %w", tenantID, err)
	}
	return h, nil
}

// advance moves the head to next by compare-and-set and adds the pack. It returns errMoved unless the
// head is the direct predecessor of next.
func advance(ctx context.Context, tx *store.Tx, next head, p Pack) error {
	hashes, err := json.Marshal(next.tree.State())
	if err != nil {
		return err
	}
	root := next.tree.Root().String()
	result, err := tx.ExecContext(ctx, `INSERT INTO proof_heads (tenant_id, sequence, pack_id, tree_size, root_hash, hashes, position)
		VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (tenant_id) DO UPDATE SET sequence = excluded.sequence, pack_id = excluded.pack_id, tree_size = excluded.tree_size,
			root_hash = excluded.root_hash, hashes = excluded.hashes, position = excluded.position
		WHERE proof_heads.sequence = excluded.sequence - 1`,
		p.TenantID, next.sequence, next.packID, int64(next.tree.Size()), root, string(hashes), next.position.String())
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return errors.Join(err, errMoved)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO proof_packs (pack_id, tenant_id, sequence, revision, first_index, entries, root_hash,
			first_position, last_generation, last_offset, sealed_at, signing_key_id, bytes, sha256, file_bytes, file_sha256,
			duplicates, rated, unrated, header)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)`,
		p.ID, p.TenantID, p.Sequence, p.Revision, int64(p.FirstIndex), int64(p.Count), root,
		p.First.String(), int64(p.Last.Generation), p.Last.Offset, p.SealedAt, p.SigningKeyID, p.Bytes, p.SHA256,
		p.File.Bytes, p.File.SHA256, p.counts.duplicates, p.counts.rated, p.counts.unrated, string(p.Header))
	return err
}

// daysAtOnce is how many days of sums one statement adds.
const daysAtOnce = 100

// addSums adds the sums of the pack that the head has advanced to.
func addSums(ctx context.Context, tx *store.Tx, p *Pack, days []sums.Day) error {
	const columns = 5
	for some := range slices.Chunk(days, daysAtOnce) {
		var rows []string
		var args []any
		for _, d := range some {
			rows = append(rows, "("+store.Marks(len(args), columns)+")")
			args = append(args, p.TenantID, d.Day, p.Sequence, d.Hours, d.Whole)
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO proof_sums (tenant_id, day, sequence, hours, whole) VALUES `+strings.Join(rows, ", "), args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// promise records the root of one size of a tenant's log. After it has returned nil and the
// transaction is committed, that root may be signed. It returns errForked if another root was
// promised for this size.
func promise(ctx context.Context, tx *store.Tx, tenantID string, size uint64, root merkle.Hash, now time.Time) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO proof_roots (tenant_id, tree_size, root_hash, reserved_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (tenant_id, tree_size) DO NOTHING`, tenantID, int64(size), root.String(), store.At(now))
	if err != nil {
		return err
	}
	var reserved string
	err = tx.QueryRowContext(ctx, `SELECT root_hash FROM proof_roots WHERE tenant_id = $1 AND tree_size = $2`, tenantID, int64(size)).Scan(&reserved)
	if err == nil && reserved != root.String() {
		err = fmt.Errorf("%w: at size %d the root %s is promised, not %s", errForked, size, reserved, root)
	}
	return err
}

// promised lists the roots of sizes above a head. They are from unfinished seals, which may have
// signed them.
func promised(ctx context.Context, db *sql.DB, tenantID string, above uint64) (map[uint64]string, error) {
	rows, err := db.QueryContext(ctx, `SELECT tree_size, root_hash FROM proof_roots WHERE tenant_id = $1 AND tree_size > $2`, tenantID, int64(above))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	roots := map[uint64]string{}
	for rows.Next() {
		var size uint64
		var root string
		if err := rows.Scan(&size, &root); err != nil {
			return nil, err
		}
		roots[size] = root
	}
	return roots, rows.Err()
}

const (
	packFields = `pack_id, tenant_id, sequence, revision, first_index, entries, root_hash,
		first_position, last_generation, last_offset, sealed_at, signing_key_id, bytes, sha256, file_bytes, file_sha256,
		duplicates, rated, unrated`
	packColumns = packFields + `, header`
)

// selection selects packs: those after a sequence number, up to another (0 is open), and sealed from from on and before to
// (zero is open).
type selection struct {
	after, upTo int64
	from, to    store.Instant
}

// listSummaries lists the packs of a selection in their order, without the headers.
func listSummaries(ctx context.Context, db *sql.DB, tenantID string, of selection, limit int) ([]Pack, error) {
	where, args := "", []any{tenantID, of.after, limit}
	bound := func(condition string, value any) {
		args = append(args, value)
		where += fmt.Sprintf(" AND %s $%d", condition, len(args))
	}
	if of.upTo > 0 {
		bound("sequence <=", of.upTo)
	}
	if !of.from.IsZero() {
		bound("sealed_at >=", of.from)
	}
	if !of.to.IsZero() {
		bound("sealed_at <", of.to)
	}
	return store.List(ctx, db, "the packs of "+tenantID, scanPack, `SELECT `+packFields+`, '' FROM proof_packs
		WHERE tenant_id = $1 AND sequence > $2`+where+` ORDER BY sequence LIMIT $3`, args...)
}

// listPacks lists the tenant's packs after a sequence number, in their order.
func listPacks(ctx context.Context, db *sql.DB, tenantID string, after int64, limit int) ([]Pack, error) {
	return store.List(ctx, db, "the packs of "+tenantID, scanPack, `SELECT `+packColumns+` FROM proof_packs
		WHERE tenant_id = $1 AND sequence > $2 ORDER BY sequence LIMIT $3`, tenantID, after, limit)
}

// readPack reads one pack of a tenant; found is false if the tenant has none with that id.
func readPack(ctx context.Context, db *sql.DB, tenantID, packID string) (p Pack, found bool, err error) {
	return onePack(db.QueryRowContext(ctx, `SELECT `+packColumns+` FROM proof_packs
		WHERE tenant_id = $1 AND pack_id = $2`, tenantID, packID))
}

// CountPacks counts the tenant's packs.
func (s *Service) CountPacks(ctx context.Context, tenantID string) (int64, error) {
	return store.Count(ctx, s.db.Read(), "packs", `SELECT COUNT(*) FROM proof_packs WHERE tenant_id = $1`, tenantID)
}

// File is the file of a sealed pack, below Config.Dir.
type File struct {
	Name    string // with slashes
	Bytes   int64
	SHA256  string // base64url
	Sandbox bool   // it belongs to a visitor, and is deleted with the visitor's tenant
}

// Files lists the files of all sealed packs.
func Files(ctx context.Context, q store.Querier) ([]File, error) {
	scan := func(row store.Row) (f File, err error) {
		var tenantID, packID string
		err = row.Scan(&tenantID, &packID, &f.Bytes, &f.SHA256, &f.Sandbox)
		f.Name = path.Join(tenantID, packID+packSuffix)
		return f, err
	}
	return store.List(ctx, q, "the sealed packs", scan, `SELECT p.tenant_id, p.pack_id, p.file_bytes, p.file_sha256, COALESCE(t.sandbox, 0) = 1
		FROM proof_packs p LEFT JOIN tenants t ON t.tenant_id = p.tenant_id ORDER BY p.tenant_id, p.sequence`)
}

// RootAt returns the root that was, or may have been, signed for a size of a tenant's log; empty if
// there was none. size is the number of sealed entries.
func RootAt(ctx context.Context, q store.Querier, tenantID string, at uint64) (size uint64, root string, err error) {
	var signed sql.NullString
	err = q.QueryRowContext(ctx, `SELECT h.tree_size, r.root_hash FROM proof_heads h
		LEFT JOIN proof_roots r ON r.tenant_id = h.tenant_id AND r.tree_size = $2 WHERE h.tenant_id = $1`, tenantID, at).Scan(&size, &signed)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, "", fmt.Errorf("cannot read the root of %s at %d entries: %w", tenantID, at, err)
	}
	return size, signed.String, nil
}

// LastSeal returns the latest sealedAt of a proof pack; zero without a pack. It may be ahead of this
// process's clock, since a pack is not older than its entries, which nodes have dated.
func LastSeal(ctx context.Context, q store.Querier) (time.Time, error) {
	var at store.Instant
	if err := q.QueryRowContext(ctx, `SELECT MAX(sealed_at) FROM proof_packs`).Scan(&at); err != nil {
		return time.Time{}, fmt.Errorf("cannot read when the last pack was sealed: %w", err)
	}
	return at.Time, nil
}

// packAt finds the pack that an entry was sealed in, by its position.
func packAt(ctx context.Context, db *sql.DB, tenantID string, at sealer.Position) (p Pack, found bool, err error) {
	return onePack(db.QueryRowContext(ctx, `SELECT `+packColumns+` FROM proof_packs
		WHERE tenant_id = $1 AND (last_generation, last_offset) >= ($2, $3) ORDER BY last_generation, last_offset LIMIT 1`,
		tenantID, int64(at.Generation), at.Offset))
}

// packOf finds the pack that holds a leaf; found is false for a leaf after the head.
func packOf(ctx context.Context, db *sql.DB, tenantID string, leaf uint64) (p Pack, found bool, err error) {
	p, found, err = onePack(db.QueryRowContext(ctx, `SELECT `+packColumns+` FROM proof_packs
		WHERE tenant_id = $1 AND first_index <= $2 ORDER BY first_index DESC LIMIT 1`, tenantID, int64(leaf)))
	return p, found && leaf < p.end(), err
}

// packNotBy finds the first pack from a sequence number on that is signed by none of keyIDs.
func packNotBy(ctx context.Context, db *sql.DB, tenantID string, from int64, keyIDs []string) (Pack, bool, error) {
	other, args := "", []any{tenantID, from}
	for _, id := range keyIDs {
		args = append(args, id)
		other += fmt.Sprintf(" AND signing_key_id <> $%d", len(args))
	}
	return onePack(db.QueryRowContext(ctx, `SELECT `+packColumns+` FROM proof_packs
		WHERE tenant_id = $1 AND sequence >= $2`+other+` ORDER BY sequence LIMIT 1`, args...))
}

// PackAfter reads the pack with the lowest id above packID, of any tenant; found is false if there is
// none. Ids increase with the time at which packs were begun.
func (s *Service) PackAfter(ctx context.Context, packID string) (p Pack, found bool, err error) {
	return onePack(s.db.Read().QueryRowContext(ctx, `SELECT `+packColumns+` FROM proof_packs
		WHERE pack_id > $1 ORDER BY pack_id LIMIT 1`, packID))
}

func onePack(row *sql.Row) (Pack, bool, error) {
	p, err := scanPack(row)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Pack{}, false, nil
	case err != nil:
		return Pack{}, false, fmt.Errorf("cannot read pack: %w", err)
	}
	return p, true, nil
}

func scanPack(row store.Row) (p Pack, err error) {
	var first, header string
	err = row.Scan(&p.ID, &p.TenantID, &p.Sequence, &p.Revision, &p.FirstIndex, &p.Count, &p.RootHash,
		&first, &p.Last.Generation, &p.Last.Offset, &p.SealedAt, &p.SigningKeyID, &p.Bytes, &p.SHA256, &p.File.Bytes, &p.File.SHA256,
		&p.counts.duplicates, &p.counts.rated, &p.counts.unrated, &header)
	if err != nil {
		return Pack{}, err
	}
	p.Header = json.RawMessage(header)
	p.First, err = sealer.ParsePosition(first)
	p.Last.Partition = p.First.Partition
	return p, err
}

// exportedPack is a pack in an export of the tenant. The pack's own file is not part of the export.
type exportedPack struct {
	ID           string        `json:"packId"`
	FirstIndex   int64         `json:"firstIndex"`
	Count        int64         `json:"count"`
	RootHash     string        `json:"rootHash"`
	SealedAt     store.Instant `json:"sealedAt"`
	SigningKeyID string        `json:"signingKeyId"`
	Bytes        int64         `json:"bytes"`
	SHA256       string        `json:"sha256"`
}

// Sections are the data of this package in an export of the tenant.
var Sections = []store.Section{store.SectionOf("proofPacks", api.AuditRead, func(row store.Row) (p exportedPack, err error) {
	return p, row.Scan(&p.ID, &p.FirstIndex, &p.Count, &p.RootHash, &p.SealedAt, &p.SigningKeyID, &p.Bytes, &p.SHA256)
}, `SELECT pack_id, first_index, entries, root_hash, sealed_at, signing_key_id, bytes, sha256 FROM proof_packs WHERE tenant_id = $1 ORDER BY sequence`)}

// Tables lists this package's tables.
var Tables = store.Tables{
	{Name: "proof_packs"},
	{Name: "proof_sums"},
	{Name: "proof_merged"},
	{Name: "proof_merges"},
	{Name: "proof_heads", Outlives: "no log may ever sign another head"},
	{Name: "proof_roots", Outlives: "no log may ever sign two roots of one size"},
}
