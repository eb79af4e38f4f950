package webhook

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"muniment/control/store"
	"muniment/gateway/api"
)

// erase replaces the receivers' responses that name a person, and counts the deliveries. It discards
// the outcomes of the tenant's running attempts, whose processes would write the old responses back,
// or new ones that name the person: those deliveries are sent again.
func erase(ctx context.Context, tx *store.Tx, tenantID, person, replacement string) (rows int64, err error) {
	text, err := json.Marshal(person)
	if err != nil {
		return 0, err
	}
	// While an attempt runs, the next one is due within claimTerm.
	if _, err := tx.ExecContext(ctx, `UPDATE webhook_deliveries SET claim = claim + 1 WHERE tenant_id = $1 AND state = 'PENDING' AND next_at > $2 AND next_at <= $3`,
		tenantID, store.At(tx.Now().Add(-api.ClockSlack)), store.At(tx.Now().Add(claimTerm+api.ClockSlack))); err != nil {
		return 0, fmt.Errorf("cannot discard the outcomes of webhook attempts: %w", err)
	}
	named := func(row store.Row) (id string, err error) {
		var attempts string
		if err := row.Scan(&id, &attempts); err != nil {
			return "", err
		}
		if _, found, err := erased(attempts, person, replacement); err != nil || !found {
			return "", err
		}
		return id, nil
	}
	// A backslash in a response may begin a JSON escape, which hides the name from the condition.
	ids, err := store.List(ctx, tx, "the answers of receivers", named, `SELECT delivery_id, attempts FROM webhook_deliveries
		WHERE tenant_id = $1 AND (attempts <> REPLACE(attempts, $2, '') OR attempts <> REPLACE(attempts, $3, '')) ORDER BY delivery_id`,
		tenantID, string(text[1:len(text)-1]), `\\`)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		if id == "" {
			continue
		}
		if err := eraseFrom(ctx, tx, id, person, replacement); err != nil {
			return rows, fmt.Errorf("cannot erase a person from the delivery %s: %w", id, err)
		}
		rows++
	}
	return rows, nil
}

func eraseFrom(ctx context.Context, tx *store.Tx, id, person, replacement string) error {
	var attempts string
	err := tx.QueryRowContext(ctx, `UPDATE webhook_deliveries SET claim = claim + 1 WHERE delivery_id = $1 RETURNING attempts`, id).Scan(&attempts)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // the delivery was deleted meanwhile
	}
	if err == nil {
		attempts, _, err = erased(attempts, person, replacement)
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, `UPDATE webhook_deliveries SET attempts = $2 WHERE delivery_id = $1`, id, attempts)
	}
	return err
}

// erased returns a delivery's attempts, in the form of its row, without responses that name a person.
func erased(row, person, replacement string) (next string, found bool, err error) {
	var attempts []Attempt
	if err := json.Unmarshal([]byte(row), &attempts); err != nil {
		return "", false, err
	}
	for i := range attempts {
		if a := &attempts[i]; a.BodyExcerpt != nil && names(*a.BodyExcerpt, person) {
			a.BodyExcerpt, found = &replacement, true
		}
	}
	text, err := json.Marshal(attempts)
	return string(text), found, err
}

// names reports whether a response names a person, literally or with JSON escapes.
func names(answer, person string) bool {
	return strings.Contains(answer, person) || strings.Contains(escapes.ReplaceAllStringFunc(answer, func(escaped string) (text string) {
		_ = json.Unmarshal([]byte(`"`+escaped+`"`), &text) // not every response is JSON
		return text
	}), person)
}

var escapes = regexp.MustCompile(`(\\u[0-9a-fA-F]{4})+|\\["\\/bfnrt]`)
