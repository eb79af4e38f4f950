package webhook

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

const deliveryColumns = `delivery_id, webhook_id, tenant_id, event_id, event_type, event_at, event_count, first_at, last_at, state, tries, claim, attempts, next_at, created_at, updated_at`

func scanDelivery(row store.Row) (d Delivery, err error) {
	var first, last, attempts string
	if err = row.Scan(&d.ID, &d.WebhookID, &d.tenantID, &d.EventID, &d.EventType, &d.EventAt, &d.EventCount, &first, &last, &d.State,
		&d.tries, &d.claim, &attempts, &d.NextAttemptAt, &d.CreatedAt, &d.UpdatedAt); err != nil {
		return d, err
	}
	if d.logged = first != ""; d.logged {
		if d.first, err = sealer.ParsePosition(first); err != nil {
			return d, err
		}
		if d.last, err = sealer.ParsePosition(last); err != nil {
			return d, err
		}
	}
	return d, json.Unmarshal([]byte(attempts), &d.Attempts)
}

// insertAtOnce is how many rows one statement inserts.
const insertAtOnce = 100

// insert queues deliveries, of which no two may have the same webhook and event. It skips an event
// that is queued for its webhook already; if that one waited for its event to be logged, it becomes
// due. A batch is never skipped.
func insert(ctx context.Context, tx *sql.Tx, all []Delivery) error {
	for len(all) > 0 {
		n := min(len(all), insertAtOnce)
		var rows []string
		var args []any
		for i := range all[:n] {
			d := &all[i]
			first, last := "", ""
			if d.logged {
				first, last = d.first.String(), d.last.String()
			}
			values := []any{d.ID, d.WebhookID, d.tenantID, d.EventID, d.EventType, d.EventAt, d.EventCount, first, last, Pending, 0, 0, "[]", d.NextAttemptAt, d.CreatedAt, d.UpdatedAt}
			params := make([]string, len(values))
			for j := range values {
				params[j] = fmt.Sprintf("$%d", len(args)+j+1)
			}
			rows, args = append(rows, "("+strings.Join(params, ", ")+")"), append(args, values...)
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO webhook_deliveries (`+deliveryColumns+`) VALUES `+strings.Join(rows, ", ")+`
			ON CONFLICT (webhook_id, event_id) WHERE event_type <> 'delivery.recorded' DO UPDATE SET first_at = excluded.first_at, last_at = excluded.last_at, next_at = excluded.next_at
			WHERE webhook_deliveries.first_at = ''`, args...)
		if err != nil {
			return fmt.Errorf("cannot queue events for webhooks: %w", err)
		}
		all = all[n:]
	}
	return nil
}

// findDelivery finds a delivery of a webhook.
func findDelivery(ctx context.Context, q store.Querier, webhookID, id string) (*Delivery, error) {
	return store.Find(ctx, q, "webhook_delivery", id, scanDelivery, `SELECT `+deliveryColumns+` FROM webhook_deliveries WHERE webhook_id = $1 AND delivery_id = $2`, webhookID, id)
}

// listDeliveries lists a webhook's deliveries, newest first. An empty state selects all.
func listDeliveries(ctx context.Context, q store.Querier, webhookID, state string, s store.Slice) (page []Delivery, next string, err error) {
	var w store.Where
	w.Is("webhook_id", webhookID)
	w.Is("state", state)
	return store.ListPage(ctx, q, s, "the deliveries of "+webhookID, func(d Delivery) string { return d.ID }, scanDelivery,
		`SELECT `+deliveryColumns+` FROM webhook_deliveries`, "delivery_id", w)
}

// again queues a delivery with a new schedule of attempts. The outcome of a running attempt is
// ignored.
func again(ctx context.Context, tx *sql.Tx, d *Delivery, now store.Instant) error {
	d.State, d.tries, d.UpdatedAt = Pending, 0, now
	if d.logged {
		d.NextAttemptAt = d.UpdatedAt
	}
	_, err := tx.ExecContext(ctx, `UPDATE webhook_deliveries SET state = 'PENDING', tries = 0, claim = claim + 1, next_at = $2, updated_at = $3 WHERE delivery_id = $1`, d.ID, d.NextAttemptAt, d.UpdatedAt)
	if err != nil {
		return fmt.Errorf("cannot queue the delivery %s again: %w", d.ID, err)
	}
	return nil
}

// listening lists the webhooks of all tenants that events are queued for.
func listening(ctx context.Context, q store.Querier) ([]Webhook, error) {
	return store.List(ctx, q, "the webhooks that listen", webhooks.Scan, webhooks.Select()+` WHERE state IN ('ACTIVE', 'PAUSED')`)
}

// listDue lists the ACTIVE webhooks that have an attempt due, and don't wait.
func listDue(ctx context.Context, q store.Querier, now store.Instant) ([]Webhook, error) {
	return store.List(ctx, q, "the webhooks with attempts due", webhooks.Scan, webhooks.Select()+` WHERE state = 'ACTIVE' AND (waits_until IS NULL OR waits_until <= $1) AND EXISTS (
		SELECT 1 FROM webhook_deliveries d WHERE d.webhook_id = webhooks.webhook_id AND d.state = 'PENDING' AND d.next_at <= $1)`, now)
}

// claim claims the attempts of a webhook that have been due longest. No other process claims them
// until they are considered lost.
func claim(ctx context.Context, tx *sql.Tx, skip, webhookID string, most int, now store.Instant) ([]Delivery, error) {
	// Materialized, or PostgreSQL may run the inner query more than once, and claim more than most.
	return store.List(ctx, tx, "attempts that are due", scanDelivery, `WITH due AS MATERIALIZED (
		SELECT delivery_id FROM webhook_deliveries WHERE webhook_id = $1 AND state = 'PENDING' AND next_at <= $2 ORDER BY next_at, delivery_id LIMIT $4`+skip+`)
		UPDATE webhook_deliveries SET claim = claim + 1, next_at = $3 WHERE delivery_id IN (SELECT delivery_id FROM due) RETURNING `+deliveryColumns,
		webhookID, now, store.At(now.Add(claimTerm)), most)
}

// write records the outcome of a delivery, unless another process has claimed it since.
func (d *Delivery) write(ctx context.Context, tx *sql.Tx) error {
	attempts, err := json.Marshal(d.Attempts)
	if err == nil {
		_, err = tx.ExecContext(ctx, `UPDATE webhook_deliveries SET state = $3, tries = $4, attempts = $5, next_at = $6, updated_at = $7 WHERE delivery_id = $1 AND claim = $2 AND state = 'PENDING'`,
			d.ID, d.claim, d.State, d.tries, string(attempts), d.NextAttemptAt, d.UpdatedAt)
	}
	if err != nil {
		return fmt.Errorf("cannot record the attempt of %s: %w", d.ID, err)
	}
	return nil
}

// setFailing records whether a webhook's attempts fail, and since when.
func setFailing(ctx context.Context, tx *sql.Tx, webhookID string, fails bool, now store.Instant) error {
	query, args := `UPDATE webhooks SET failing_since = NULL WHERE webhook_id = $1 AND failing_since IS NOT NULL`, []any{webhookID}
	if fails {
		query, args = `UPDATE webhooks SET failing_since = $2 WHERE webhook_id = $1 AND failing_since IS NULL`, append(args, now)
	}
	if _, err := tx.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("cannot record whether the webhook %s fails: %w", webhookID, err)
	}
	return nil
}

// cursor returns the position up to which a partition was read; known is false if it never was.
func cursor(ctx context.Context, q store.Querier, partition int32) (at sealer.Position, known bool, err error) {
	text, err := store.One(ctx, q, "the position of the webhooks", store.Text, `SELECT position FROM webhook_cursors WHERE log_partition = $1`, partition)
	if err != nil || text == nil {
		return at, false, err
	}
	at, err = sealer.ParsePosition(*text)
	return at, err == nil, err
}

func setCursor(ctx context.Context, tx *sql.Tx, at sealer.Position) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO webhook_cursors (log_partition, position) VALUES ($1, $2) ON CONFLICT (log_partition) DO UPDATE SET position = excluded.position`,
		at.Partition, at.String())
	if err != nil {
		return fmt.Errorf("cannot record the position of the webhooks: %w", err)
	}
	return nil
}

// forgetAtOnce is how many rows one transaction deletes.
const forgetAtOnce = 1000

// forget deletes deliveries of a state that last changed before a moment. some reports that there
// may be more.
func forget(ctx context.Context, tx *sql.Tx, state DeliveryState, before time.Time) (some bool, err error) {
	var n int64
	result, err := tx.ExecContext(ctx, `DELETE FROM webhook_deliveries WHERE delivery_id IN (
		SELECT delivery_id FROM webhook_deliveries WHERE state = $1 AND updated_at < $2 LIMIT $3)`, state, store.At(before), forgetAtOnce)
	if err == nil {
		n, err = result.RowsAffected()
	}
	if err != nil {
		return false, fmt.Errorf("cannot delete old deliveries of webhooks: %w", err)
	}
	return n >= forgetAtOnce, nil
}

// waiting counts the deliveries that wait for a webhook.
type waiting struct {
	webhookID      string
	count, backlog int64
}

func listWaiting(ctx context.Context, q store.Querier) ([]waiting, error) {
	return store.List(ctx, q, "what waits for webhooks", func(row store.Row) (w waiting, err error) { return w, row.Scan(&w.webhookID, &w.count, &w.backlog) },
		`SELECT w.webhook_id, COUNT(*), w.backlog FROM webhook_deliveries d JOIN webhooks w ON w.webhook_id = d.webhook_id
		WHERE d.state = 'PENDING' GROUP BY w.webhook_id, w.backlog`)
}

// countWaiting counts the deliveries that wait for a webhook.
func countWaiting(ctx context.Context, q store.Querier, webhookID string) (n int64, err error) {
	err = q.QueryRowContext(ctx, `SELECT COUNT(*) FROM webhook_deliveries WHERE webhook_id = $1 AND state = 'PENDING'`, webhookID).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("cannot count what waits for the webhook %s: %w", webhookID, err)
	}
	return n, nil
}

// newDelivery returns a delivery of one event. It becomes due when the event is in the log.
func newDelivery(w *Webhook, eventID, eventType string, at, now time.Time) Delivery {
	return Delivery{
		ID: api.NewID(api.PrefixWebhookDelivery, now), WebhookID: w.ID, tenantID: w.TenantID, EventID: eventID, EventType: eventType, EventAt: store.At(at), EventCount: 1,
		State: Pending, Attempts: []Attempt{}, CreatedAt: store.At(now), UpdatedAt: store.At(now),
	}
}

// listFailed lists failed deliveries of a webhook, of events of a period, with ids above
// behind.
func listFailed(ctx context.Context, q store.Querier, webhookID, behind string, s recoveryPeriod, limit int) ([]Delivery, error) {
	query, args := `SELECT `+deliveryColumns+` FROM webhook_deliveries WHERE webhook_id = $1 AND state = 'FAILED' AND delivery_id > $2 AND event_at >= $3`, []any{webhookID, behind, s.Since}
	if !s.Until.IsZero() {
		query, args = query+` AND event_at < $4`, append(args, s.Until)
	}
	return store.List(ctx, q, "the deliveries that have failed", scanDelivery, query+fmt.Sprintf(` ORDER BY delivery_id LIMIT %d`, limit), args...)
}

// isQueued reports whether a webhook has a delivery of an event other than a receipt.
func isQueued(ctx context.Context, q store.Querier, webhookID, eventID string) (bool, error) {
	found, err := store.One(ctx, q, "the delivery of "+eventID, store.Text, `SELECT delivery_id FROM webhook_deliveries
		WHERE webhook_id = $1 AND event_id = $2 AND event_type <> 'delivery.recorded'`, webhookID, eventID)
	return found != nil, err
}

// requeue queues failed deliveries again, and others for the first time.
func requeue(ctx context.Context, tx *sql.Tx, some []Delivery, now store.Instant) error {
	var fresh []Delivery
	for i := range some {
		if some[i].State != Failed {
			fresh = append(fresh, some[i])
			continue
		}
		if err := again(ctx, tx, &some[i], now); err != nil {
			return err
		}
	}
	return insert(ctx, tx, fresh)
}
