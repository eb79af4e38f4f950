package webhook

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/publicsuffix"

	"muniment.example/control/store"
)

const (
	// strangerMessages and strangerBytes are what all tenants together may send in an hour to the hosts
	// of a site that have not agreed, so that nobody can have the service flood a third party.
	strangerMessages, strangerBytes = 60, 1 << 20
	// hostBytes is what a tenant may send to one host in an hour, whatever it has agreed to. A process
	// takes pieceBytes of it at a time, so that the database does not count each message.
	hostBytes, pieceBytes = 1 << 30, 4 << 20
	// agreedFor is how long a host has agreed after it last echoed a challenge, as it may change
	// hands, and agreedAgain how old that must be until it is recorded again.
	agreedFor, agreedAgain = 30 * 24 * time.Hour, 24 * time.Hour
	// longestWait is how long a delivery waits for a budget, as long as for its attempts.
	longestWait = 28 * time.Hour
)

// budget is how much may be sent in an hour. It refills steadily: whoever has used it up waits for as
// much as the next message needs, and not for the hour's end.
type budget struct{ messages, bytes int64 }

var strangers = budget{strangerMessages, strangerBytes}

// hold is why a webhook's messages wait, and until when.
type hold struct {
	until  time.Time
	reason string
}

// holdFor returns why a message of so many bytes must wait; nil: it may be sent, and is counted.
func (s *sender) holdFor(ctx context.Context, w *Webhook, bytes int) (*hold, error) {
	host := hostOf(w.URL)
	own := account{w.TenantID, host}
	if s.pieces.take(own, int64(bytes), s.db.Now()) {
		return nil, nil
	}
	agreed := s.cfg.Egress.allows(host) // by the operator
	if !agreed {
		var err error
		if agreed, err = hasAgreed(ctx, s.db.Read(), host, s.db.Now()); err != nil {
			return nil, err
		}
	}
	if agreed {
		piece := max(int64(bytes), pieceBytes)
		until, err := s.spend(ctx, own, budget{bytes: hostBytes}, piece)
		if err != nil {
			return nil, err
		}
		if until.IsZero() {
			s.pieces.add(own, piece-int64(bytes), s.db.Now())
			return nil, nil
		}
		return &hold{until, fmt.Sprintf("%s got 1 GiB of this tenant's messages within an hour, which is the limit for each host: the next go out as the hour passes", host)}, nil
	}
	site := siteOf(host)
	until, err := s.spend(ctx, strangersOf(site), strangers, int64(bytes))
	if err != nil || until.IsZero() {
		return nil, err
	}
	return &hold{until, fmt.Sprintf("%s has not echoed a challenge: hosts of %s that have not get %d messages and 1 MiB an hour, from all tenants together; "+
		"the limit ends when a response has the header %s of its request", host, site, strangerMessages, challengeHeader)}, nil
}

// hostOf returns the host of a webhook's URL.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "" // create refuses it
	}
	return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
}

// siteOf returns the domain that is registered for a host: whoever owns it owns all its subdomains,
// so they have one budget. An address is its own.
func siteOf(host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return host
	}
	if site, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return site
	}
	return host
}

// account names a budget.
type account struct{ tenantID, host string }

// pieces are parts of budgets that this process has taken and not sent yet. A piece lasts an hour.
type pieces struct {
	mu  sync.Mutex
	all map[account]piece
}

type piece struct {
	bytes int64
	until time.Time
}

// take takes bytes from a piece; false if it has too few.
func (p *pieces) take(a account, bytes int64, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	has := p.all[a]
	if has.bytes < bytes || !now.Before(has.until) {
		return false
	}
	has.bytes -= bytes
	p.all[a] = has
	return true
}

// add adds bytes to a piece, and drops the pieces that are over.
func (p *pieces) add(a account, bytes int64, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.all, func(_ account, has piece) bool { return !now.Before(has.until) })
	p.all[a] = piece{p.all[a].bytes + bytes, now.Add(time.Hour)}
}

// strangersOf is the account of a site's hosts that have not agreed, which belongs to no tenant.
func strangersOf(site string) account { return account{"", site} }

// spend takes a message from a budget, or returns when there will be enough for it. A message that is
// larger than the budget needs all of it, and is paid off later.
func (c *core) spend(ctx context.Context, a account, b budget, bytes int64) (until time.Time, err error) {
	now := c.db.Now()
	full := store.At(now.Add(-time.Hour)).UnixMilli()
	each, need, cost := int64(0), timeOf(min(bytes, b.bytes), b.bytes), timeOf(bytes, b.bytes)
	if b.messages > 0 {
		each = timeOf(1, b.messages)
	}
	err = c.db.Transact(ctx, func(tx *sql.Tx) error {
		until = time.Time{}
		spent, err := store.Affected(tx.ExecContext(ctx, `INSERT INTO webhook_budgets (tenant_id, host, messages_at, bytes_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (tenant_id, host) DO UPDATE SET
				messages_at = CASE WHEN webhook_budgets.messages_at > $5 THEN webhook_budgets.messages_at + $6 ELSE excluded.messages_at END,
				bytes_at = CASE WHEN webhook_budgets.bytes_at > $5 THEN webhook_budgets.bytes_at + $7 ELSE excluded.bytes_at END
			WHERE webhook_budgets.messages_at <= $8 AND webhook_budgets.bytes_at <= $9`,
			a.tenantID, a.host, full+each, full+cost, full, each, cost, now.UnixMilli()-each, now.UnixMilli()-need))
		if err != nil || spent {
			return err
		}
		var messages, volume int64
		err = tx.QueryRowContext(ctx, `SELECT messages_at, bytes_at FROM webhook_budgets WHERE tenant_id = $1 AND host = $2`, a.tenantID, a.host).Scan(&messages, &volume)
		until = time.UnixMilli(max(messages+each, volume+need)).UTC()
		return err
	})
	if err != nil {
		return until, fmt.Errorf("cannot count a message to %s: %w", a.host, err)
	}
	return until, nil
}

// timeOf returns in which time a budget of so much an hour refills by n, in milliseconds.
func timeOf(n, budget int64) int64 { return n * time.Hour.Milliseconds() / budget }

// hasAgreed reports whether a host has echoed a challenge lately.
func hasAgreed(ctx context.Context, q store.Querier, host string, now time.Time) (bool, error) {
	found, err := store.One(ctx, q, "whether a host has agreed to messages", store.Text, `SELECT host FROM webhook_hosts WHERE host = $1 AND agreed_at > $2`, host, store.At(now.Add(-agreedFor)))
	return found != nil, err
}

// agree records that hosts have agreed.
func agree(ctx context.Context, tx *sql.Tx, hosts map[string]bool, now time.Time) error {
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		_, err := tx.ExecContext(ctx, `INSERT INTO webhook_hosts (host, agreed_at) VALUES ($1, $2)
			ON CONFLICT (host) DO UPDATE SET agreed_at = excluded.agreed_at WHERE webhook_hosts.agreed_at < $3`, host, store.At(now), store.At(now.Add(-agreedAgain)))
		if err != nil {
			return fmt.Errorf("cannot record that %s has agreed to messages: %w", host, err)
		}
	}
	return nil
}

// forgetBudgets deletes what says nothing any more: budgets that are full, and hosts that have not
// echoed for long.
func forgetBudgets(ctx context.Context, tx *sql.Tx, now time.Time) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM webhook_budgets WHERE messages_at <= $1 AND bytes_at <= $1`, store.At(now.Add(-time.Hour)))
	if err == nil {
		_, err = tx.ExecContext(ctx, `DELETE FROM webhook_hosts WHERE agreed_at <= $1`, store.At(now.Add(-agreedFor)))
	}
	if err != nil {
		return fmt.Errorf("cannot forget the budgets of webhooks' hosts: %w", err)
	}
	return nil
}

// setHold records until when a webhook's messages wait, and why; nil: they don't.
func setHold(ctx context.Context, tx *sql.Tx, webhookID string, h *hold) error {
	query, args := `UPDATE webhooks SET waits_until = NULL, wait_reason = NULL WHERE webhook_id = $1 AND waits_until IS NOT NULL`, []any{webhookID}
	if h != nil {
		query, args = `UPDATE webhooks SET waits_until = $2, wait_reason = $3 WHERE webhook_id = $1`, append(args, store.At(h.until), h.reason)
	}
	if _, err := tx.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("cannot record whether the messages to the webhook %s wait: %w", webhookID, err)
	}
	return nil
}
