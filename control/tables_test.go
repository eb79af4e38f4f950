package control_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control"
	"muniment.example/control/store"
	"muniment.example/control/store/storetest"
	"muniment.example/sealer"
)

// column is one of the database, of whichever engine.
type column struct {
	table, name                    string
	text, boolean, bytes, required bool
}

// schema is an empty database.
type schema struct {
	*store.DB
	columns []column
	planted int
}

func openSchema(t *testing.T) *schema {
	path, url := storetest.Place(t, t.TempDir())
	db, err := store.Open(t.Context(), store.Config{Path: path, URL: url})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	query := `SELECT m.name, c.name, c.type = 'TEXT', c.type = 'BOOLEAN', c.type = 'BYTEA', c."notnull" = 1 OR c.pk > 0 FROM sqlite_master m, pragma_table_info(m.name) c
		WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'`
	if url != "" {
		query = `SELECT table_name, column_name, data_type = 'text', data_type = 'boolean', data_type = 'bytea', is_nullable = 'NO' FROM information_schema.columns
			WHERE table_schema = current_schema()`
	}
	s := &schema{DB: db}
	s.columns, err = store.List(t.Context(), db.Read(), "the columns", func(row store.Row) (c column, err error) {
		return c, row.Scan(&c.table, &c.name, &c.text, &c.boolean, &c.bytes, &c.required)
	}, query)
	require.NoError(t, err)
	return s
}

// ofTenant says whether a table has rows of tenants.
func (s *schema) ofTenant(table string) bool {
	return slices.ContainsFunc(s.columns, func(c column) bool { return c.table == table && c.name == "tenant_id" })
}

func (s *schema) change(t *testing.T, statement string, args ...any) {
	t.Helper()
	require.NoError(t, s.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), statement, args...)
		return err
	}), statement)
}

func (s *schema) count(t *testing.T, from string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, s.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM `+from, args...).Scan(&n), from)
	return n
}

// exempt are the columns with text in which no erasure looks for a person, in all tables or in one,
// and why. Any other column with text is planted, so it has to be erased.
var exempt = func() map[string]string {
	all := map[string]string{}
	for why, columns := range map[string][]string{
		"an id, which the service makes or is about no person": {
			"org_id", "key_id", "caller_id", "developer_id", "right_id", "basis_id", "parent_right_id", "ancestors", "holder_org_id", "challenge_id", "challenger_org_id", "raised_by_org_id",
			"counterparty_id", "dispute_id", "receipt_id", "receipt_ids", "job_id", "worker_id", "erasure_id", "event_id", "held_id", "rejected_id", "mapping_id", "offer_id", "from_org_id", "to_org_id", "derived_right_id",
			"pack_id", "payable_id", "link_id", "first_id", "issuer_id", "signing_key_id", "rule_id", "statement_id", "delivery_id", "webhook_id", "successor_key_id", "created_by", "countered_by", "application_id", "activated_tenant_id", "request_id", "corrects", "downloaded_by", "actor", "actor_id", "member_id", "invited_by",
			"erasures.requested_by", "dsar_jobs.bundle_store_key", "vendor_key", "held_rows.vendor", "held_rows.vendor_id", "held_rows.id_type", "mapping_totals.vendor", "mapping_totals.id_type", "lane", "unique_key", "identity_day",
		},
		"a word of the service's own": {
			"state", "kind", "currency", "unit", "tiers_mode", "time_zone", "period", "outcome", "format", "failure_code", "from_state", "to_state", "substrate", "substrates", "event_type", "jobs.code", "scopes", "webhooks.events", "held_rows.reason",
			"counts", "progress", "payload", "idempotency.state", "mail_state", "mail_code", "mail_detail", "webhooks.state_reason", "webhooks.wait_reason", "env", "role", "operation", "refused_requests.code", "cause", "bundle_ended",
		},
		"a hash, a secret, a position, an amount, a time or a signature": {
			"secret_hash", "prefix", "content_hash", "root_hash", "hashes", "position", "first_position", "sha256", "file_sha256", "header", "bundle_sha256", "download_secret", "subject_hash", "identity_hash", "key_hash", "token_hash",
			"request_hash", "token", "secret", "replaced_secrets", "price", "minimum", "cap", "shares", "number", "exact", "net", "tax", "gross", "issued_on", "due_on", "paid_amount", "due_amount", "carried", "premises", "total", "held_amount", "difference", "as_of", "first_at", "last_at", "certificate", "line", "place", "confirmation", "tiers",
		},
		"what is made of permanent records":                        {"statements.document"},
		"ids of players and places, times and numbers":             {"rejected_plays.play_text"},
		"of a webhook's URL, which is public, for an hour":         {"webhook_budgets.host"},
		"deleted by ForgetAnswers":                                 {"idempotency.answer"},
		"of a request, deleted after a day":                        {"refused_requests.last_request"},
		"deleted as soon as a job has looked at it":                {"link_requests.email"},
		"deleted once the person has chosen, or after 10 minutes":  {"member_choices.issuer", "member_choices.subject", "member_choices.email"},
		"on its way to the log: erasure/TestErasureWaitsForTheLog": {"outbox.event", "outbox.private"},
	} {
		for _, column := range columns {
			all[column] = why
		}
	}
	return all
}()

// listed are the columns of a table that the one list has.
func listed(table store.Table) []string {
	var columns []string
	for _, path := range table.Public {
		column, _, _ := strings.Cut(path, ".")
		columns = append(columns, column)
	}
	if p := table.Personal; p != nil {
		columns = slices.Concat(columns, p.Person, p.Persons, p.Text, p.Related)
		for _, path := range p.JSON {
			column, _, _ := strings.Cut(path, ".")
			columns = append(columns, column)
		}
	}
	return columns
}

// inJSON returns a column's value of JSON with a text in each member that is free text; ok is false for
// other columns.
func inJSON(p *store.Personal, column, text string) (value string, ok bool) {
	object := map[string]string{"of": "the service"}
	for _, path := range p.JSON {
		if in, member, _ := strings.Cut(path, "."); in == column {
			object[member] = text
		}
	}
	written, _ := json.Marshal([]any{object})
	return string(written), len(object) > 1
}

// TestExemptColumnsExist: the list of exempt columns has none that is gone, or is erased.
func TestExemptColumnsExist(t *testing.T) {
	s := openSchema(t)
	for name := range exempt {
		in, what, one := strings.Cut(name, ".")
		if !one {
			in, what = "", name
		}
		require.True(t, slices.ContainsFunc(s.columns, func(c column) bool { return c.text && c.name == what && (in == "" || c.table == in) }), name)
		for _, registered := range control.Tables {
			if in == "" || in == registered.Name {
				require.NotContains(t, listed(registered), what, registered.Name)
			}
		}
	}
}

// plant gives a tenant a row in each table that has rows of tenants, with the name of a
// person wherever that may be, and its entries in the feed. Columns of one name refer to
// each other.
func (s *schema) plant(t *testing.T, tenantID, person string) {
	for _, table := range slices.Backward(control.Tables) {
		if !s.ofTenant(table.Name) {
			continue
		}
		s.planted++
		public := listed(store.Table{Public: table.Public})
		var names, values []string
		var args []any
		add := func(name string, value any) {
			args = append(args, value)
			names, values = append(names, name), append(values, fmt.Sprintf("$%d", len(args)))
		}
		for _, c := range s.columns {
			p := table.Personal
			if p == nil {
				p = &store.Personal{}
			}
			complaint := "a complaint of " + person + ", twice"
			document, isDocument := inJSON(p, c.name, complaint)
			switch {
			case c.table != table.Name || slices.Contains(public, c.name) && !c.required:
			case c.name == "tenant_id":
				add(c.name, tenantID)
			case slices.Contains(p.Person, c.name):
				add(c.name, person)
			case slices.Contains(p.Persons, c.name):
				list, err := store.WritePersons([]string{person})
				require.NoError(t, err)
				add(c.name, list)
			case isDocument:
				add(c.name, document)
			case c.text && exempt[c.name] == "" && exempt[c.table+"."+c.name] == "" && !slices.Contains(public, c.name):
				add(c.name, complaint)
			case c.required && c.text:
				add(c.name, c.name+" of "+tenantID)
			case c.required && c.boolean:
				add(c.name, true)
			case c.required && c.bytes:
				add(c.name, []byte{0})
			case c.required:
				add(c.name, s.planted)
			}
		}
		s.change(t, `INSERT INTO `+table.Name+` (`+strings.Join(names, ", ")+`) VALUES (`+strings.Join(values, ", ")+`)`, args...)
	}
	for kind, column := range published {
		s.change(t, `INSERT INTO feed (kind, id, revision, stopped, snapshot) VALUES ($1, $2, 0, 0, '{}')`, kind, column+" of "+tenantID)
	}
}

// published are the kinds of records that nodes get, and the columns that name them there.
var published = map[string]string{"key": "key_id", "right": "right_id", "mapping": "vendor_key"}

// TestEveryTableIsRegistered: an unregistered table would outlive its tenant, and any person who
// is named in it.
func TestEveryTableIsRegistered(t *testing.T) {
	s := openSchema(t)
	found := map[string]bool{"goose_db_version": true} // of the migrations
	for _, c := range s.columns {
		found[c.table] = true
	}
	registered := map[string]bool{"goose_db_version": true}
	for _, table := range control.Tables {
		require.False(t, registered[table.Name], "%s is registered twice", table.Name)
		registered[table.Name] = true
		require.True(t, table.Drop == "" || table.Outlives == "", table.Name)
		require.True(t, s.ofTenant(table.Name) || table.Drop != "" || table.Outlives != "",
			"what is to be deleted of %s, which has no tenant_id?", table.Name)
	}
	require.Equal(t, found, registered)
}

// TestDropTenantLeavesNothing of a tenant that has a row everywhere, but for what is said to
// outlive it, and nothing less of another.
func TestDropTenantLeavesNothing(t *testing.T) {
	s := openSchema(t)
	s.plant(t, "tnt_a", "ada@example.org")
	s.plant(t, "tnt_b", "ada@example.org")
	require.NoError(t, s.Change(t.Context(), func(tx *store.Tx) error { return control.Tables.DropTenant(t.Context(), tx, "tnt_a") }))
	for _, table := range control.Tables {
		if !s.ofTenant(table.Name) {
			continue
		}
		left := 0
		if table.Outlives != "" {
			left = 1
		}
		require.Equal(t, left, s.count(t, table.Name+` WHERE tenant_id = 'tnt_a'`), table.Name)
		require.Equal(t, 1, s.count(t, table.Name+` WHERE tenant_id = 'tnt_b'`), table.Name)
	}
	require.Zero(t, s.count(t, `feed WHERE id LIKE '%tnt_a'`))
	require.Equal(t, len(published), s.count(t, "feed"))
}

// TestErasePersonLeavesNothing of a name wherever it may be, and nothing less of another
// tenant's person of that name.
func TestErasePersonLeavesNothing(t *testing.T) {
	s := openSchema(t)
	s.plant(t, "tnt_a", "ada@example.org")
	s.plant(t, "tnt_b", "ada@example.org")
	named := func() (in []string) {
		for _, c := range s.columns {
			if c.text && s.count(t, c.table+` WHERE `+c.name+` LIKE '%ada@example.org%'`) > 0 {
				in = append(in, c.table+"."+c.name)
			}
		}
		return in
	}
	everywhere := named()
	require.Contains(t, everywhere, "developers.email")
	rows := map[string]int64{}
	for _, place := range everywhere {
		name, _, _ := strings.Cut(place, ".")
		table := control.Tables[slices.IndexFunc(control.Tables, func(t store.Table) bool { return t.Name == name })]
		rows[table.Personal.Kind] = 1
	}
	for _, tenantID := range []string{"tnt_a", "tnt_b"} {
		require.Equal(t, everywhere, named())
		found, err := control.Tables.Find(t.Context(), s.Read(), tenantID, sealer.NewPerson("ada@example.org"), nil)
		require.NoError(t, err)
		require.Equal(t, rows, found.Rows)
		require.NoError(t, s.Change(t.Context(), func(tx *store.Tx) error {
			erased, err := control.Tables.Erase(t.Context(), tx, tenantID, sealer.NewPerson("ada@example.org"), "erased", nil, nil)
			require.Equal(t, found, erased)
			return err
		}))
	}
	require.Empty(t, named())
	require.Equal(t, 2, s.count(t, `developers WHERE email = 'erased'`))
}
