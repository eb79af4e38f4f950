package export

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"muniment.example/control/analyst"
	"muniment.example/control/table"
	"muniment.example/sealer"
)

// done is the state of a part that was read to its end.
const done = "done"

// momentLayout is how SQLite has a moment; those of an hour end with the seconds.
const (
	momentLayout = "2006-01-02 15:04:05.000"
	hourLayout   = time.DateTime
)

// work is the working file of an export: a SQLite file with the tables, and a table export with how far it is. That
// becomes a part of an export as SQLite, and says what it is.
type work struct {
	db    *sql.DB
	state map[string]string
}

// openWork opens the working file, or makes a new one. What is left of an export of another identity is ErrOther.
func openWork(ctx context.Context, path string, identity map[string]string) (w *work, err error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	fresh, err := prepare(full) // SQLite would let others read it, and follow links
	if err != nil {
		return nil, err
	}
	pragmas := []string{"locking_mode(EXCLUSIVE)", "busy_timeout(1000)", "journal_mode(WAL)", "synchronous(NORMAL)", "cache_size(-32768)"}
	if fresh { // the driver goes by the names, so the header is written before journal_mode makes a log of what follows
		pragmas = append(pragmas, fmt.Sprintf("application_id(%d)", applicationID))
	}
	dsn := url.URL{Scheme: "file", Path: full, RawQuery: url.Values{"_txlock": {"immediate"}, "_pragma": pragmas}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	w = &work{db: db, state: map[string]string{}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s %w", path, err), db.Close())
		}
	}()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		if strings.Contains(err.Error(), "SQLITE_BUSY") {
			err = errors.New("is being written by another export: wait for it, or choose another name")
		}
		return w, err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS export (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID`); err != nil {
		return w, err
	}
	rows, err := tx.QueryContext(ctx, `SELECT name, value FROM export`)
	if err != nil {
		return w, err
	}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return w, errors.Join(err, rows.Close())
		}
		w.state[name] = value
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return w, err
	}
	if len(w.state) == 0 {
		if err := w.set(ctx, tx, identity); err != nil {
			return w, err
		}
		for _, t := range analyst.Tables {
			if _, err := tx.ExecContext(ctx, schema(t)); err != nil {
				return w, err
			}
		}
	}
	for name, value := range identity {
		if w.state[name] != value {
			return w, ErrOther
		}
	}
	return w, tx.Commit()
}

func (w *work) close() error { return w.db.Close() }

// exact is the name of the column with a decimal as a whole number: SQLite has no decimals.
func exact(c table.Column) string { return fmt.Sprintf("%s_e%d", c.Name, c.Scale) }

// schema makes a table. A decimal is computed from its whole number, which stands behind the table's columns.
func schema(t analyst.Table) string {
	var columns, more []string
	for _, c := range t.Columns {
		kind := "TEXT NOT NULL"
		switch c.Type {
		case table.Integer:
			kind = "INTEGER NOT NULL"
		case table.Boolean:
			kind = "BOOLEAN NOT NULL"
		case table.Decimal:
			kind = fmt.Sprintf("DECIMAL(%d, %d) GENERATED ALWAYS AS (%s / 1%s.0) VIRTUAL", c.Precision, c.Scale, exact(c), strings.Repeat("0", c.Scale))
			more = append(more, exact(c)+" INTEGER NOT NULL")
		}
		columns = append(columns, c.Name+" "+kind)
	}
	return "CREATE TABLE " + t.Name + " (\n\t" + strings.Join(append(columns, more...), ",\n\t") + "\n)"
}

// storedColumns are the columns of a table that are stored, in their order.
func storedColumns(t analyst.Table) (names []string) {
	for _, c := range t.Columns {
		if c.Type == table.Decimal {
			c.Name = exact(c)
		}
		names = append(names, c.Name)
	}
	return names
}

// insert is the statement that adds a row.
func insert(t analyst.Table) string {
	names := storedColumns(t)
	return "INSERT INTO " + t.Name + " (" + strings.Join(names, ", ") + ") VALUES (" + strings.TrimSuffix(strings.Repeat("?, ", len(names)), ", ") + ")"
}

func (w *work) count(ctx context.Context, name string) (n int64, err error) {
	err = w.db.QueryRowContext(ctx, "SELECT count(*) FROM "+name).Scan(&n)
	return n, err
}

func (w *work) set(ctx context.Context, tx *sql.Tx, and map[string]string) error {
	for name, value := range and {
		if _, err := tx.ExecContext(ctx, `INSERT INTO export (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, value); err != nil {
			return err
		}
		w.state[name] = value
	}
	return nil
}

// change runs one transaction that ends with a new state.
func (w *work) change(ctx context.Context, and map[string]string, do func(*sql.Tx) error) error {
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := do(tx); err != nil {
		return err
	}
	if err := w.set(ctx, tx, and); err != nil {
		return err
	}
	return tx.Commit()
}

// commit stores receipts.
func (w *work) commit(ctx context.Context, rows []receipt, and map[string]string) error {
	return w.change(ctx, and, func(tx *sql.Tx) error {
		stmt, err := tx.PrepareContext(ctx, insert(analyst.Receipts))
		if err != nil {
			return err
		}
		defer stmt.Close()
		for i := range rows {
			c := &rows[i]
			if _, err := stmt.ExecContext(ctx, c.TenantID, c.ReceiptID, c.EventID, c.RightID, c.RightRevision, c.BasisID, c.Substrate, c.RenderedAt, c.IssuedAt, c.SigningKeyID,
				c.Duplicate, c.Metered, c.Reason, c.MeteringBasis, c.QuantityMs, c.impressions, c.Completion, c.Generation, c.LogPartition, c.Position,
				c.RecordedBasis, c.RecordedReason, c.Node, c.SpatialAnchorID, c.SpatialPlacementID); err != nil {
				return err
			}
		}
		return nil
	})
}

// commitEvents stores events of the log: counts of refusals, or what rights and rules are.
func (w *work) commitEvents(ctx context.Context, list []logged, and map[string]string) error {
	return w.change(ctx, and, func(tx *sql.Tx) error {
		for _, l := range list {
			at, err := sealer.ParsePosition(l.Position)
			if err != nil {
				return err
			}
			e, err := sealer.ParseEvent(l.Event)
			if err != nil {
				return fmt.Errorf("the service sends an event that can't be read: %w", err)
			}
			if w.state["tenant"] != e.TenantID {
				return fmt.Errorf("the service sends the event at %s, of another tenant", at)
			}
			moment := e.At.UTC().Format(momentLayout)
			if e.Type == sealer.TypeRefusals {
				if err := refusals(ctx, tx, &e, moment); err != nil {
					return err
				}
				continue
			}
			if _, err := tx.ExecContext(ctx, insert(analyst.Events), e.TenantID, e.EventID, at.Generation, at.Partition, at.Offset, e.Type, moment, e.Subject.Kind, e.Subject.ID, string(l.Event)); err != nil {
				return err
			}
		}
		return nil
	})
}

// refusals stores the counts of an event, but those that are no counts, as the view has them.
func refusals(ctx context.Context, tx *sql.Tx, e *sealer.Event, at string) error {
	var data struct{ Counts []json.RawMessage }
	if json.Unmarshal(e.Data, &data) != nil {
		return nil
	}
	for _, text := range data.Counts {
		var one struct {
			Count   *int64  `json:"count"`
			RightID *string `json:"rightId"`
			Rule    *string `json:"rule"`
		}
		var rightID string
		var members map[string]json.RawMessage
		if json.Unmarshal(text, &one) != nil || json.Unmarshal(text, &members) != nil || one.Count == nil || one.Rule == nil {
			continue
		}
		if one.RightID != nil {
			rightID = *one.RightID
		} else if _, null := members["rightId"]; null {
			continue
		}
		if _, err := tx.ExecContext(ctx, insert(analyst.Refusals), e.TenantID, e.EventID, at, rightID, *one.Rule, *one.Count); err != nil {
			return err
		}
	}
	return nil
}

// complete makes the working file one that needs no other beside it, with what queries go by.
func (w *work) complete(ctx context.Context) error {
	for _, statement := range []string{
		`CREATE INDEX IF NOT EXISTS receipts_by_time ON receipts (rendered_at)`,
		`CREATE INDEX IF NOT EXISTS receipts_by_right ON receipts (right_id, rendered_at)`,
		`PRAGMA optimize`,
	} {
		if _, err := w.db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	var mode string
	err := w.db.QueryRowContext(ctx, `PRAGMA journal_mode = DELETE`).Scan(&mode)
	if err == nil && mode != "delete" {
		err = fmt.Errorf("the journal stays %s", mode)
	}
	return err
}
