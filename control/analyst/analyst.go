// Package analyst says which tables analysts read, wherever they read them: in the views of ClickHouse,
// in the files of GET /v1/receipts, and in what muniment export writes. Names, order and meaning of
// their columns are those of deploy/analysts.md. No table has a private part.
//
// Only ClickHouse has the column line of receipts, and all events in events; elsewhere that table has those
// of EventTypes.
package analyst

import "muniment.example/control/table"

// Table is a table that analysts read.
type Table struct {
	Name    string
	Columns []table.Column
}

// EventTypes are the events of the table Events: what rights and rules are.
var EventTypes = []string{"right.issued", "settlement_rule.created", "settlement_rule.changed", "settlement_rule.retired"}

func text(names ...string) []table.Column    { return of(table.Text, names) }
func integer(names ...string) []table.Column { return of(table.Integer, names) }

func of(kind table.Type, names []string) (columns []table.Column) {
	for _, name := range names {
		columns = append(columns, table.Column{Name: name, Type: kind})
	}
	return columns
}

func decimal(name string, precision, scale int) []table.Column {
	return []table.Column{{Name: name, Type: table.Decimal, Precision: precision, Scale: scale}}
}

func join(parts ...[]table.Column) (all []table.Column) {
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

// sums are the columns of a table that sums receipts.
var sums = join(integer("receipts", "quantity_ms"), decimal("impressions", 38, 4))

// The tables.
var (
	Receipts = Table{"receipts", join(
		text("tenant_id", "receipt_id", "event_id", "right_id"), integer("right_revision"), text("basis_id", "substrate"),
		of(table.Moment, []string{"rendered_at", "issued_at"}), text("signing_key_id"), of(table.Boolean, []string{"duplicate", "metered"}),
		text("reason", "metering_basis"), integer("quantity_ms"), decimal("impressions", 18, 4), text("completion"),
		integer("generation", "log_partition", "position"), text("recorded_basis", "recorded_reason", "node", "spatial_anchor_id", "spatial_placement_id"))}
	MeteringHourly = Table{"metering_hourly", join(
		text("tenant_id"), of(table.Moment, []string{"hour"}), text("right_id", "substrate", "basis_id", "metering_basis", "reason"), sums)}
	MeteringDaily = Table{"metering_daily", join(
		text("tenant_id"), of(table.Day, []string{"day"}), text("right_id", "substrate", "basis_id", "metering_basis", "reason"), sums)}
	Refusals = Table{"refusals", join(
		text("tenant_id", "event_id"), of(table.Moment, []string{"at"}), text("right_id", "rule"), integer("refusals"))}
	SettlementLines = Table{"settlement_lines", join(
		text("tenant_id"), of(table.Day, []string{"day"}), text("right_id", "metering_basis", "rule_id", "currency", "unit"), decimal("price", 38, 9), sums,
		text("unrated"), decimal("amount", 38, 6), of(table.Texts, []string{"counterparty_ids"}), []table.Column{{Name: "shares", Type: table.Decimals, Precision: 38, Scale: 6}})}
	Events = Table{"events", join(
		text("tenant_id", "event_id"), integer("generation", "log_partition", "position"), text("type"), of(table.Moment, []string{"at"}),
		text("subject_kind", "subject_id"), of(table.Document, []string{"event"}))}
)

// Tables are all of them.
var Tables = []Table{Receipts, MeteringHourly, MeteringDaily, Refusals, SettlementLines, Events}
