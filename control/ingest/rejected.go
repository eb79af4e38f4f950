package ingest

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/sealer"
)

// Players that post by themselves forget a play that was answered, and show no error to anybody. So their
// plays that were rejected for good are kept until somebody has looked, and dismissed them: none expires.

// The most rejected plays that a tenant may have. Beyond it players keep theirs, and send them again.
const (
	mostRejected      = 100_000
	mostRejectedBytes = 64 << 20
)

var errRejectedFull = &api.Error{Code: api.RateLimited, Message: "this tenant has the maximum of rejected plays that wait for somebody to look: dismiss those that were seen"}

// RejectedPlay is the record of a rejected play. It never changes.
type RejectedPlay struct {
	ID        string          `json:"id"`
	KeyID     string          `json:"keyId" doc:"The API key with which it was sent."`
	Format    string          `json:"format" doc:"The format of the player's document." example:"broadsign"`
	Row       json.RawMessage `json:"row" doc:"The play as a row of POST /v1/delivery/ingest-batch; null if it could not be read as one."`
	Play      json.RawMessage `json:"play" doc:"Where row is null: what the player said of it, in its own words, without what the format does not use; null if that could not be read."`
	Error     api.RowError    `json:"error" doc:"Why it was rejected when it came first."`
	CreatedAt store.Instant   `json:"createdAt"`
}

// keep keeps rejected plays of one caller, each of which is kept once.
func (s *Service) keep(ctx context.Context, q *api.HoldRequest) error {
	if err := s.db.Reserved(); err != nil {
		return err
	}
	now := store.At(s.db.Now())
	return s.db.Transact(ctx, func(tx *sql.Tx) error {
		// Two that keep plays at once must see each other's.
		if _, err := lockUsage(ctx, tx, q.TenantID); err != nil {
			return err
		}
		search, err := s.searchErased(ctx, tx, q.TenantID)
		if err != nil {
			return err
		}
		kept := false
		for _, p := range q.Rejected {
			if search != nil {
				if p.Row, err = search.without(p.Row, rowTexts); err != nil {
					return err
				}
			}
			inserted, err := insertRejected(ctx, tx, q, &p, now)
			if err != nil {
				return err
			}
			kept = kept || inserted
		}
		if !kept {
			return nil
		}
		var rows, bytes int64
		err = tx.QueryRowContext(ctx, `SELECT COUNT(*), CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM rejected_plays WHERE tenant_id = $1`, q.TenantID).Scan(&rows, &bytes)
		if err == nil && (rows > mostRejected || bytes > mostRejectedBytes) {
			err = errRejectedFull
		}
		return err
	})
}

// insertRejected writes a play, unless the tenant has it already.
func insertRejected(ctx context.Context, tx *sql.Tx, q *api.HoldRequest, p *api.RejectedPlay, now store.Instant) (inserted bool, err error) {
	if err := json.Unmarshal([]byte(p.Error), new(api.RowError)); err != nil {
		return false, api.InvalidField("error", "is not the error of a row")
	}
	refused, err := keptError(p.Error)
	if err != nil {
		return false, err
	}
	for _, text := range []string{q.KeyID, p.Format, p.Hash, p.Row, p.Play, p.Error} {
		if !store.Storable(text) {
			return false, api.InvalidField("rejected", "must be UTF-8 without U+0000")
		}
	}
	result, err := tx.ExecContext(ctx, `INSERT INTO rejected_plays (rejected_id, tenant_id, key_id, format, content_hash, row_text, play_text, error, bytes, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (tenant_id, content_hash) DO NOTHING`,
		api.NewID(api.PrefixRejected, now.Time), q.TenantID, q.KeyID, p.Format, p.Hash, p.Row, p.Play, refused, 256+len(p.Row)+len(p.Play)+len(refused), now)
	if err != nil {
		return false, fmt.Errorf("cannot keep a rejected play: %w", err)
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// keptError is the JSON text of an error as it is kept. The message of a violation does not repeat a text
// that was sent: that is its member observed, where an erasure finds it.
func keptError(e string) (string, error) {
	observed := ""
	return store.ReplaceTexts(e, []string{"rule", "observed", "message"}, func(member, text string) (string, bool) {
		switch member {
		case "rule": // of the next violation
			observed = ""
		case "observed":
			observed = " (" + text + ")"
		case "message":
			return strings.ReplaceAll(text, observed, ""), observed != "" && strings.Contains(text, observed)
		}
		return "", false
	})
}

// keep keeps a held row of a player's document that can't be delivered any more, before its content goes.
func (e *endedRow) keep(ctx context.Context, tx *sql.Tx, tenantID string, now store.Instant) error {
	why := e.refused
	switch {
	case e.state == Expired:
		why = &api.RowError{Code: api.ValidationFailed, Field: "playedAt", Message: "what the row was held for did not come while the play could be delivered"}
	case why == nil:
		return nil
	}
	text, err := json.Marshal(why)
	if err != nil {
		return err
	}
	kept, err := keptError(string(text))
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO rejected_plays (rejected_id, tenant_id, key_id, format, content_hash, row_text, play_text, error, bytes, created_at)
		SELECT $3, tenant_id, key_id, format, identity_hash || identity_day, row_text, '', $4, bytes, $5 FROM held_rows
		WHERE tenant_id = $1 AND held_id = $2 AND state = 'HELD' AND format <> '' ON CONFLICT (tenant_id, content_hash) DO NOTHING`,
		tenantID, e.id, api.NewID(api.PrefixRejected, now.Time), kept, now)
	if err != nil {
		return fmt.Errorf("cannot keep the held row %s: %w", e.id, err)
	}
	return nil
}

func scanRejected(row store.Row) (p RejectedPlay, err error) {
	var asRow, play, refused string
	if err = row.Scan(&p.ID, &p.KeyID, &p.Format, &asRow, &play, &refused, &p.CreatedAt); err != nil {
		return p, err
	}
	if asRow != "" {
		p.Row = json.RawMessage(asRow)
	}
	if play != "" {
		p.Play = json.RawMessage(play)
	}
	return p, json.Unmarshal([]byte(refused), &p.Error)
}

const rejectedColumns = `SELECT rejected_id, key_id, format, row_text, play_text, error, created_at FROM rejected_plays`

// EachRejected calls take for each of the tenant's rejected plays, oldest first.
func EachRejected(ctx context.Context, q store.Querier, tenantID string, take func(RejectedPlay) error) error {
	return store.Each(ctx, q, "rejected plays of "+tenantID, scanRejected, take, rejectedColumns+` WHERE tenant_id = $1 ORDER BY rejected_id`, tenantID)
}

func (s *Service) rejectedRoutes(a route.API) {
	const write = route.Scope(api.DeliveryWrite)
	route.Add(a, route.Operation{ID: "list-rejected-plays", Method: http.MethodGet, Path: "/v1/delivery/rejected", Tag: "Mappings", Access: write,
		Summary: "List the rejected plays of players that post by themselves, newest first",
		Description: "Plays that came to `POST /adapters/broadsign` and can't be delivered, each once, with why. The player has forgotten them. " +
			"They are kept until they are dismissed. One whose fault can be mended is sent again as a row of `POST /v1/delivery/ingest-batch`."}, s.getRejected)
	route.Add(a, route.Operation{ID: "dismiss-rejected-plays", Method: http.MethodPost, Path: "/v1/delivery/rejected/dismiss", Tag: "Mappings", Access: write,
		Summary: "Dismiss rejected plays that were looked at",
		Description: fmt.Sprintf("Deletes them; ids that are not there any more change nothing. An event says who dismissed how many. A tenant has at most %d rejected plays, of at most %d MiB: "+
			"beyond that, players keep theirs and send them again.", mostRejected, mostRejectedBytes>>20)}, s.postDismiss)
}

// RejectedPlayList is one page of rejected plays.
type RejectedPlayList struct {
	Rejected   []RejectedPlay `json:"rejected" doc:"The plays of this page."`
	NextCursor *string        `json:"nextCursor"`
}

func (s *Service) getRejected(ctx context.Context, in *struct{ route.Page }) (RejectedPlayList, error) {
	slice, err := in.Slice()
	if err != nil {
		return RejectedPlayList{}, err
	}
	tenantID := auth.PrincipalFrom(ctx).TenantID
	var w store.Where
	w.Is("tenant_id", tenantID)
	page, next, err := store.ListPage(ctx, s.db.Read(), slice, "the rejected plays of "+tenantID, func(p RejectedPlay) string { return p.ID }, scanRejected, rejectedColumns, "rejected_id", w)
	return RejectedPlayList{page, in.Next(next)}, err
}

// Dismissal names rejected plays that were looked at.
type Dismissal struct {
	RejectedIDs []string `json:"rejectedIds" minItems:"1" maxItems:"5000" maxLength:"64" nullable:"false" doc:"The ids of the plays."`
}

// Dismissed is the response to a dismissal.
type Dismissed struct {
	Dismissed int64 `json:"dismissed" doc:"How many were there."`
}

func (s *Service) postDismiss(ctx context.Context, in *struct{ Body Dismissal }) (body Dismissed, err error) {
	caller := auth.PrincipalFrom(ctx)
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		body.Dismissed = 0
		for ids := range slices.Chunk(in.Body.RejectedIDs, 500) {
			args := []any{caller.TenantID}
			places := make([]string, len(ids))
			for i, id := range ids {
				args, places[i] = append(args, id), fmt.Sprintf("$%d", i+2)
			}
			result, err := tx.ExecContext(ctx, `DELETE FROM rejected_plays WHERE tenant_id = $1 AND rejected_id IN (`+strings.Join(places, ", ")+`)`, args...)
			if err != nil {
				return fmt.Errorf("cannot dismiss rejected plays of %s: %w", caller.TenantID, err)
			}
			n, err := result.RowsAffected()
			if err != nil {
				return err
			}
			body.Dismissed += n
		}
		if body.Dismissed == 0 {
			return nil
		}
		return tx.EmitRecord(ctx, eventDismissed, sealer.Event{TenantID: caller.TenantID, Actor: store.ByKey(caller.ID), Subject: sealer.Ref{Kind: "tenant", ID: caller.TenantID}}, body)
	})
	return body, err
}
