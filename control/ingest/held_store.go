package ingest

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
)

// usage is how much a tenant's HELD rows use of its quota.
type usage struct{ rows, bytes int64 }

// lockUsage reads a tenant's usage and locks it until the transaction ends. So a transaction that
// holds rows sees every earlier mapping, and one that creates a mapping sees every earlier held row.
func lockUsage(ctx context.Context, q store.Querier, tenantID string) (u usage, err error) {
	err = q.QueryRowContext(ctx, `INSERT INTO held_usage (tenant_id, row_count, bytes) VALUES ($1, 0, 0)
		ON CONFLICT (tenant_id) DO UPDATE SET row_count = held_usage.row_count RETURNING row_count, bytes`, tenantID).Scan(&u.rows, &u.bytes)
	if err != nil {
		return u, fmt.Errorf("cannot lock the usage of held rows of %s: %w", tenantID, err)
	}
	return u, nil
}

// setUsage writes the locked usage.
func setUsage(ctx context.Context, tx *sql.Tx, tenantID string, u usage) error {
	_, err := tx.ExecContext(ctx, `UPDATE held_usage SET row_count = $2, bytes = $3 WHERE tenant_id = $1`, tenantID, u.rows, u.bytes)
	if err != nil {
		return fmt.Errorf("cannot write the usage of held rows of %s: %w", tenantID, err)
	}
	return nil
}

const heldColumns = `held_id, tenant_id, key_id, identity_hash, identity_day, content_hash, reason, right_id, vendor_key, vendor, id_type, vendor_id, played_at, ` +
	`row_text, data_subjects, telemetry, format, state, receipt_id, error, expires_at, created_at, updated_at`

func scanHeld(row store.Row) (h HeldRow, err error) {
	var receiptID, refused, rightID string
	err = row.Scan(&h.ID, &h.tenantID, &h.keyID, &h.identity.Hash, &h.identity.Day, &h.content, &h.Reason, &rightID, &h.vendorKey, &h.Vendor, &h.IDType, &h.VendorID, &h.PlayedAt,
		&h.writtenRow, &h.personal.dataSubjects, &h.personal.telemetry, &h.format, &h.State, &receiptID, &refused, &h.ExpiresAt, &h.CreatedAt, &h.UpdatedAt)
	if receiptID != "" {
		h.ReceiptID = &receiptID
	}
	if rightID != "" {
		h.RightID = &rightID
	}
	if err == nil && refused != "" {
		h.Error = new(api.RowError)
		err = json.Unmarshal([]byte(refused), h.Error)
	}
	if h.writtenRow != "" {
		h.Row = json.RawMessage(h.writtenRow)
	}
	return h, err
}

// insert writes a row. The tenant must not have another of its identity.
func (h *HeldRow) insert(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO held_rows (`+heldColumns+`, bytes)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, '', '', $19, $20, $21, $22)`,
		h.ID, h.tenantID, h.keyID, h.identity.Hash, h.identity.Day, h.content, h.Reason, h.rightID(), h.vendorKey, h.Vendor, h.IDType, h.VendorID, h.PlayedAt,
		h.writtenRow, h.personal.dataSubjects, h.personal.telemetry, h.format, h.State, h.ExpiresAt, h.CreatedAt, h.UpdatedAt, h.size())
	if err != nil {
		return fmt.Errorf("cannot hold a row: %w", err)
	}
	return nil
}

// forget deletes a row that is no longer HELD.
func forget(ctx context.Context, tx *sql.Tx, tenantID, id string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM held_rows WHERE tenant_id = $1 AND held_id = $2 AND state <> 'HELD'`, tenantID, id)
	if err != nil {
		return fmt.Errorf("cannot delete the held row %s: %w", id, err)
	}
	return nil
}

// findHeld finds the row of an identity; nil if there is none.
func findHeld(ctx context.Context, q store.Querier, tenantID string, of api.RowIdentity) (*HeldRow, error) {
	return store.One(ctx, q, "a held row", scanHeld, `SELECT `+heldColumns+` FROM held_rows WHERE tenant_id = $1 AND identity_hash = $2 AND identity_day = $3`,
		tenantID, of.Hash, of.Day)
}

// waits reports whether a mapping covers held rows.
func waits(ctx context.Context, q store.Querier, m *Mapping) (bool, error) {
	query, args := `SELECT held_id FROM held_rows WHERE state = 'HELD' AND reason = 'UNMAPPED' AND vendor_key = $1 AND played_at >= $2`, []any{m.VendorKey, m.EffectiveFrom}
	if !m.EffectiveUntil.IsZero() {
		query, args = query+` AND played_at < $3`, append(args, m.EffectiveUntil)
	}
	found, err := store.One(ctx, q, "the held rows of "+m.VendorKey, store.Text, query+` LIMIT 1`, args...)
	return found != nil, err
}

// mapped reports whether a mapping covers a held row: the last one that begins by the row's play, if
// it had not ended then.
func (h *HeldRow) mapped(ctx context.Context, q store.Querier) (bool, error) {
	query := `SELECT mapping_id FROM mappings WHERE vendor_key = $1 AND ` + inForce + ` AND (effective_until IS NULL OR effective_until > $2)
		AND effective_from = (SELECT MAX(effective_from) FROM mappings WHERE vendor_key = $1 AND ` + inForce + ` AND effective_from <= $2) LIMIT 1`
	found, err := store.One(ctx, q, "the mapping of a held row", store.Text, query, h.vendorKey, h.PlayedAt)
	return found != nil, err
}

// mark records that a mapping covers held rows of a vendor's id. The mark is removed with the last
// HELD row.
func mark(ctx context.Context, tx *sql.Tx, tenantID, vendorKey string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO held_mapped (tenant_id, vendor_key) VALUES ($1, $2) ON CONFLICT DO NOTHING`, tenantID, vendorKey)
	if err != nil {
		return fmt.Errorf("cannot mark the held rows of %s: %w", vendorKey, err)
	}
	return nil
}

// ofMappings joins the mappings of a vendor key k.vendor_key with the held rows that they cover.
// Mappings don't overlap, so each row appears at most once.
const ofMappings = `mappings m CROSS JOIN held_rows h WHERE m.vendor_key = k.vendor_key AND (m.effective_until IS NULL OR m.effective_until > m.effective_from)
	AND h.vendor_key = m.vendor_key AND h.state = 'HELD' AND h.reason = 'UNMAPPED' AND h.played_at >= m.effective_from AND h.played_at < COALESCE(m.effective_until, 9223372036854775807)`

// listMapped lists a tenant's held rows that a mapping covers, in the order of vendor keys, from
// those after behind on. It omits rows of some keys, and those that expire by the given moment.
func listMapped(ctx context.Context, q store.Querier, tenantID, behind string, except map[string]bool, by store.Instant, limit int) ([]HeldRow, error) {
	args, keys := []any{tenantID, behind, by, limit}, ""
	for keyID := range except {
		args = append(args, keyID)
		keys += fmt.Sprintf(" AND h.key_id <> $%d", len(args))
	}
	return store.List(ctx, q, "the held rows that are mapped", scanHeld, `SELECT h.`+strings.ReplaceAll(heldColumns, ", ", ", h.")+`
		FROM held_mapped k CROSS JOIN `+ofMappings+` AND h.expires_at > $3 AND k.tenant_id = $1 AND k.vendor_key > $2`+keys+`
		ORDER BY k.vendor_key, m.effective_from, h.played_at LIMIT $4`, args...)
}

// suspendedRight is a right that held rows wait for.
type suspendedRight struct{ tenantID, rightID string }

// nextSuspended returns the next right that held rows wait for, in the order of tenants and rights; nil
// if there is none.
func nextSuspended(ctx context.Context, q store.Querier, behind suspendedRight) (*suspendedRight, error) {
	return store.One(ctx, q, "the rights that held rows wait for", func(row store.Row) (r suspendedRight, err error) { return r, row.Scan(&r.tenantID, &r.rightID) },
		`SELECT tenant_id, right_id FROM held_rows WHERE state = 'HELD' AND reason = 'RIGHT_SUSPENDED' AND (tenant_id, right_id) > ($1, $2)
		ORDER BY tenant_id, right_id LIMIT 1`, behind.tenantID, behind.rightID)
}

// listSuspended lists held rows that wait for a right, from those after an id on. It omits rows that
// expire by the given moment.
func listSuspended(ctx context.Context, q store.Querier, of suspendedRight, behind string, by store.Instant, limit int) ([]HeldRow, error) {
	return store.List(ctx, q, "the held rows of the right "+of.rightID, scanHeld, `SELECT `+heldColumns+` FROM held_rows
		WHERE state = 'HELD' AND reason = 'RIGHT_SUSPENDED' AND tenant_id = $1 AND right_id = $2 AND held_id > $3 AND expires_at > $4
		ORDER BY held_id LIMIT $5`, of.tenantID, of.rightID, behind, by, limit)
}

// wait records what a HELD row of the tenant waits for now. The usage is locked.
func wait(ctx context.Context, tx *sql.Tx, h *HeldRow, reason api.HeldReason, rightID string) error {
	_, err := tx.ExecContext(ctx, `UPDATE held_rows SET reason = $3, right_id = $4 WHERE tenant_id = $1 AND held_id = $2 AND state = 'HELD'`, h.tenantID, h.ID, reason, rightID)
	if err != nil {
		return fmt.Errorf("cannot record what the held row %s waits for: %w", h.ID, err)
	}
	mapped, err := h.mapped(ctx, tx)
	switch {
	case err != nil:
		return err
	case mapped && reason == api.HeldUnmapped:
		return mark(ctx, tx, h.tenantID, h.vendorKey)
	}
	return unmark(ctx, tx, h.tenantID, h.vendorKey)
}

// unmark removes the mark of a vendor's id if no mapping covers a HELD row of it.
func unmark(ctx context.Context, tx *sql.Tx, tenantID, vendorKey string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM held_mapped AS k WHERE tenant_id = $1 AND vendor_key = $2 AND NOT EXISTS (SELECT 1 FROM `+ofMappings+`)`, tenantID, vendorKey)
	if err != nil {
		return fmt.Errorf("cannot remove the mark of held rows of %s: %w", vendorKey, err)
	}
	return nil
}

// heldFilter selects the held rows that have each given value.
type heldFilter struct{ vendorID, rightID, reason, state string }

// listHeld lists the tenant's held rows, newest first.
func listHeld(ctx context.Context, q store.Querier, tenantID string, f heldFilter, s store.Slice) (page []HeldRow, next string, err error) {
	var w store.Where
	w.Is("tenant_id", tenantID)
	w.Is("vendor_id", f.vendorID)
	w.Is("right_id", f.rightID)
	w.Is("reason", f.reason)
	w.Is("state", f.state)
	return store.ListPage(ctx, q, s, "the held rows of "+tenantID, func(h HeldRow) string { return h.ID }, scanHeld,
		`SELECT `+heldColumns+` FROM held_rows`, "held_id", w)
}

// endedRow is the result of a held row.
type endedRow struct {
	id        string
	state     HeldState
	receiptID string
	refused   *api.RowError
}

// end records the results of rows of one tenant and clears their content. It skips rows that are no
// longer HELD.
func end(ctx context.Context, tx *sql.Tx, tenantID string, rows []endedRow, now store.Instant) error {
	u, err := lockUsage(ctx, tx, tenantID)
	if err != nil {
		return err
	}
	vendorKeys := map[string]bool{}
	for _, e := range rows {
		if err := e.keep(ctx, tx, tenantID, now); err != nil {
			return err
		}
		refused := ""
		if e.refused != nil {
			text, err := json.Marshal(e.refused)
			if err != nil {
				return err
			}
			if refused, err = keptError(string(text)); err != nil {
				return err
			}
		}
		var bytes int64
		vendorKey, err := store.One(ctx, tx, "the held row "+e.id, func(row store.Row) (key string, err error) { return key, row.Scan(&key, &bytes) },
			`UPDATE held_rows SET state = $3, receipt_id = $4, error = $5, row_text = '', data_subjects = '', telemetry = '', content_hash = '', updated_at = $6, expires_at = $7
			WHERE tenant_id = $1 AND held_id = $2 AND state = 'HELD' RETURNING vendor_key, bytes`,
			tenantID, e.id, e.state, e.receiptID, refused, now, store.At(now.Add(keepEnded)))
		if err != nil {
			return err
		}
		if vendorKey != nil {
			u.rows, u.bytes, vendorKeys[*vendorKey] = u.rows-1, u.bytes-bytes, true
		}
	}
	for key := range vendorKeys {
		if err := unmark(ctx, tx, tenantID, key); err != nil {
			return err
		}
	}
	return setUsage(ctx, tx, tenantID, u)
}

// dueRow is a held row that has expired, or is to be deleted.
type dueRow struct{ id, tenantID string }

// listDue lists rows of all tenants, in a state, that expire by a moment.
func listDue(ctx context.Context, q store.Querier, state HeldState, now store.Instant, limit int) ([]dueRow, error) {
	return store.List(ctx, q, "the held rows that are due", func(row store.Row) (d dueRow, err error) { return d, row.Scan(&d.id, &d.tenantID) },
		`SELECT held_id, tenant_id FROM held_rows WHERE state = $1 AND expires_at <= $2 ORDER BY expires_at LIMIT $3`, state, now, limit)
}

// HeldPerson is a held row with its personal data. A value without a canonical JSON form, such as
// 1e400 in unchecked telemetry, becomes a string of its text.
type HeldPerson struct {
	HeldRow
	DataSubjectIDs []string        `json:"dataSubjectIds"`
	Telemetry      json.RawMessage `json:"telemetry"`
}

// EachHeld calls take for each of the tenant's held rows of a person, oldest first, without others whom
// they name; those of nobody are all rows.
func EachHeld(ctx context.Context, q store.Querier, tenantID string, person sealer.Person, take func(HeldPerson) error) error {
	query, args := `SELECT `+heldColumns+` FROM held_rows WHERE tenant_id = $1`, []any{tenantID}
	all := person == sealer.Person{}
	if !all {
		query += ` AND data_subjects <> ''`
	}
	return store.Each(ctx, q, "held rows of "+tenantID, scanHeld, func(h HeldRow) error {
		persons, err := store.ReadPersons(h.personal.dataSubjects)
		if err != nil {
			return err
		}
		if !all {
			persons = slices.DeleteFunc(persons, func(reference string) bool { return !person.Is(reference) })
			if len(persons) == 0 {
				return nil
			}
		}
		p := HeldPerson{HeldRow: h, DataSubjectIDs: append([]string{}, persons...), Telemetry: canonicalOrText(json.RawMessage(h.personal.telemetry))}
		p.Row = canonicalOrText(p.Row)
		return take(p)
	}, query+` ORDER BY held_id`, args...)
}

func canonicalOrText(value json.RawMessage) json.RawMessage {
	if len(value) == 0 {
		return nil
	}
	if _, err := canonical.JSON(map[string]any{"": value}); err != nil {
		value, _ = jsontext.AppendQuote(nil, string(value)) // stored text is UTF-8
	}
	return value
}
