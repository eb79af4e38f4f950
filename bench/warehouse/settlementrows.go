package warehouse

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muniment.example/bench/measure"
	"muniment.example/sealer"
)

// generated is a table of events that the server fills by itself: four months, in which rows came
// evenly, four tenths of them one tenant's and two tenths each of three others. So a month of the
// first is a tenth of all.
//
// Of each tenant's rows 12 % count for nothing; 2 % came in batches, up to three days after they
// were shown, and another 0.2 % up to 30 days; one in 1,000 is a duplicate; and one in 10,000 is
// there twice, as after a topic that was read again. Each of 500 rights has a basis and a
// substrate of its own. Rows come in the order of their times, as from a loader.
//
// What no sum reads is left out: the texts of events, ids of receipts, actors, subjects and places,
// and hashes of idempotency keys. Private parts and keys aren't there at all. What a receipt takes
// with all of it is in deploy/analysts.md.
type generated struct {
	conn driver.Conn
	rows int // a multiple of months times inTurn
}

const (
	months = 4
	inTurn = 10        // rows of a tenant before those of the next
	atOnce = 2_500_000 // rows of an insert
)

// monthsBegin is when the first month does.
var monthsBegin = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// month is the beginning of one, from 0; that of the one behind the last too.
func month(n int) time.Time { return monthsBegin.AddDate(0, n, 0) }

// tenantOf is the tenant with a number from 0.
func tenantOf(n int) string { return "tnt_" + numbered(n) }

// numbered stands for a ULID.
func numbered(n int) string { return fmt.Sprintf("%026d", n) }

// rightWith and basisWith are a tenant's, from 0.
func rightWith(n int) string { return "rgh_" + numbered(n) }

func basisWith(n int) string { return "bas_" + numbered(n) }

const (
	rightsOfEach = 500
	basesOfEach  = 40
)

// substratesOf are those of rights: the n-th has that in place n modulo their number. On the
// first two videos are played.
var substratesOf = []string{"CTV", "STREAMING", "DOOH", "MOBILE", "AUDIO", "MESSAGING", "GLASSES", "SOCIAL_FEED"}

// end is the position behind all rows.
func (g *generated) end() sealer.Position {
	return sealer.Position{Generation: 1, Offset: int64(2 * g.rows)}
}

// make inserts what is not there yet, month by month.
func (g *generated) make(ctx context.Context, after func(month, rows int, took time.Duration)) error {
	var next uint64
	if err := g.conn.QueryRow(ctx, "SELECT if(count() = 0, 0, max(seq) + 1) FROM events").Scan(&next); err != nil {
		return err
	}
	for m := range months {
		begun, first, last := time.Now(), g.rows/months*m, g.rows/months*(m+1)
		for n := first; n < last; n += atOnce {
			until := min(n+atOnce, last)
			if until <= int(next) {
				continue
			}
			if err := g.enough(ctx); err != nil {
				return err
			}
			for _, insert := range []string{g.duplicates(n, until), g.events(n, until, ""), g.events(n, until, "WHERE cityHash64(n, 'copy') % 10000 = 0")} {
				if err := g.conn.Exec(ctx, insert); err != nil {
					return fmt.Errorf("cannot make rows: %w", err)
				}
			}
		}
		after(m, last-first, time.Since(begun))
	}
	return nil
}

// leastFree is what is left of the server's disk.
const leastFree = 15 << 30

// enough refuses to fill the disk.
func (g *generated) enough(ctx context.Context) error {
	var free uint64
	if err := g.conn.QueryRow(ctx, "SELECT min(unreserved_space) FROM system.disks").Scan(&free); err != nil {
		return err
	}
	if free < leastFree {
		return fmt.Errorf("the server's disk has %s MB left, and %s must be: make fewer rows", measure.Count(int64(free>>20)), measure.Count(int64(leastFree>>20)))
	}
	return nil
}

// with is what the rows from first up to last are made of: n is the number of the row, h and g are
// hashes of it. Those of a tenant come one behind the other, so that the server need not sort them.
func (g *generated) with(first, last int) string {
	perMonth := g.rows / months
	var begins, lasts []string
	for m := range months {
		begins = append(begins, fmt.Sprint(month(m).UnixMilli()))
		lasts = append(lasts, fmt.Sprint(month(m+1).Sub(month(m)).Milliseconds()))
	}
	cycles := (last - first) / inTurn
	return fmt.Sprintf(`WITH [%s] AS begins, [%s] AS lasts, number - %d AS k, if(k < %[4]d, 0, intDiv(k - %[4]d, %[5]d) + 1) AS tenant,
		toUInt64(if(tenant = 0, %[3]d + intDiv(k, 4) * %[6]d + k %% 4, %[3]d + intDiv((k - %[4]d) %% %[5]d, 2) * %[6]d + 2 + 2 * tenant + k %% 2)) AS n,
		cityHash64(n) AS h, cityHash64(h) AS g, h %% %[7]d AS of_right, %[8]s, `,
		strings.Join(begins, ", "), strings.Join(lasts, ", "), first, 4*cycles, 2*cycles, inTurn, rightsOfEach, g.came("n", "came", perMonth))
}

// came is the moment of a row, in milliseconds.
func (g *generated) came(n, name string, perMonth int) string {
	return fmt.Sprintf("toInt64(begins[intDiv(%[1]s, %[2]d) + 1] + intDiv((%[1]s %% %[2]d) * lasts[intDiv(%[1]s, %[2]d) + 1], %[2]d)) AS %[3]s", n, perMonth, name)
}

// ulid is one of a row and a moment.
func ulid(n, came string) string {
	return fmt.Sprintf("concat(%s, hex(reinterpretAsFixedString(cityHash64(%s, 'id'))))", timeOfULID(came), n)
}

// events inserts rows, or, where some are chosen, those once more at higher positions.
func (g *generated) events(first, last int, chosen string) string {
	position := "toInt64(n)"
	if chosen != "" {
		position = fmt.Sprintf("toInt64(n + %d)", g.rows)
	}
	const day = 24 * 3600 * 1000
	columns := [][2]string{
		{"tenant_id", "concat('tnt_', leftPad(toString(tenant), 26, '0'))"},
		{"event_id", "concat('evt_', id)"},
		{"generation", "1"},
		{"log_partition", "tenant"},
		{"position", position},
		{"node", "concat('nod_', leftPad(toString(n % 3), 26, '0'))"},
		{"epoch", "1"},
		{"seq", "n"},
		{"event", "'{}'"},
		{"type", "'" + sealer.TypeDelivery + "'"},
		{"at", "fromUnixTimestamp64Milli(came, 'UTC')"},
		{"right_id", "concat('rgh_', leftPad(toString(of_right), 26, '0'))"},
		{"right_revision", "1"},
		{"basis_id", fmt.Sprintf("concat('bas_', leftPad(toString(of_right %% %d), 26, '0'))", basesOfEach)},
		{"substrate", fmt.Sprintf("['%s'][of_right %% %d + 1]", strings.Join(substratesOf, "','"), len(substratesOf))},
		{"rendered_at", fmt.Sprintf("fromUnixTimestamp64Milli(came - toInt64(multiIf(g %% 1000 < 20, bitShiftRight(g, 16) %% %d, g %% 1000 < 22, bitShiftRight(g, 16) %% %d, bitShiftRight(g, 16) %% 2000)), 'UTC')", 3*day, 30*day)},
		{"issued_at", "fromUnixTimestamp64Milli(came, 'UTC')"},
		{"metered", "bitShiftRight(h, 20) % 100 < 88"},
		{"reason", "multiIf(metered, '" + sealer.ReasonMetered + "', bitShiftRight(h, 20) % 100 < 94, 'NOT_VIEWABLE', bitShiftRight(h, 20) % 100 < 98, 'BELOW_DWELL', 'NOT_AUDIBLE')"},
		{"metering_basis", "multiIf(NOT metered, 'none', substrate = 'AUDIO', 'audible', substrate = 'MESSAGING', 'delivered', bitShiftRight(h, 28) % 4 = 0, 'gross', 'viewable')"},
		{"quantity_ms", "if(metered, toInt64(1000 + bitShiftRight(h, 32) % 14000), 0)"},
		{"impressions", "multiIf(NOT metered, 0, substrate = 'DOOH', toInt64(10000 + bitShiftRight(h, 40) % 240000), 10000)"},
		{"completion", "if(substrate IN ('CTV', 'STREAMING'), ['started', 'first_quartile', 'midpoint', 'third_quartile', 'complete', 'complete', 'complete', 'complete'][bitShiftRight(g, 8) % 8 + 1], 'none')"},
	}
	var names, values []string
	for _, c := range columns {
		names, values = append(names, c[0]), append(values, c[1]+" AS "+c[0])
	}
	return "INSERT INTO events (" + strings.Join(names, ", ") + ") " + g.with(first, last) + ulid("n", "came") + " AS id SELECT " +
		strings.Join(values, ", ") + fmt.Sprintf(" FROM numbers(%d, %d) ", first, last-first) + chosen +
		fmt.Sprintf(" SETTINGS max_block_size = %d, min_insert_block_size_rows = %[1]d, min_insert_block_size_bytes = 0, max_insert_threads = 1", atOnce)
}

// duplicates inserts what says that some of the rows are, of the tenant's row one cycle before.
func (g *generated) duplicates(first, last int) string {
	return `INSERT INTO duplicates (tenant_id, event_id, generation, log_partition, position, first_event_id, first_generation, first_position) ` +
		g.with(first, last) + fmt.Sprintf("n - %d AS of, ", inTurn) + g.came("of", "first_came", g.rows/months) + `
		SELECT concat('tnt_', leftPad(toString(tenant), 26, '0')), concat('evt_', ` + ulid("n", "came") + `), 1, tenant, n, concat('evt_', ` + ulid("of", "first_came") + `), 1, of
		FROM ` + fmt.Sprintf("numbers(%d, %d) WHERE n >= %d AND cityHash64(n, 'duplicate') %% 1000 = 0", first, last-first, inTurn)
}
