package access

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

var applications = store.Machine[Application, Action, State]{
	Records: store.Records[Application]{Noun: "application", Table: "access_applications"}, Steps: transitions, StateAt: (*Application).stateAt,
}

// find returns an application, RESOURCE_NOT_FOUND if there is none.
func find(ctx context.Context, q store.Querier, id string) (*Application, error) {
	return applications.Find(ctx, q, api.SystemTenant, id)
}

// Replay applies the newest event of an application for rollback.Replay: one that is open is closed as
// the record says.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	return applications.ReplayClosed(ctx, tx, e)
}

// request is what a stranger has sent.
type request struct {
	id string
	Form
	createdAt store.Instant
}

// insertRequest writes a request, and nothing if too many wait for an operator. It looks at no
// address.
func insertRequest(ctx context.Context, tx *sql.Tx, r request) (inserted bool, err error) {
	return store.Affected(tx.ExecContext(ctx, `INSERT INTO access_requests (request_id, tenant_id, email, organisation, purpose, created_at)
		SELECT $1, $2, $3, $4, $5, CAST($6 AS BIGINT) WHERE (SELECT COUNT(*) FROM access_requests) + (SELECT COUNT(*) FROM access_applications WHERE tenant_id = $2 AND state = 'RECEIVED') < $7`,
		r.id, api.SystemTenant, r.Email, r.Organisation, r.Use, r.createdAt, mostWaiting))
}

// listRequests lists the oldest requests.
func listRequests(ctx context.Context, q store.Querier, limit int) ([]request, error) {
	return store.List(ctx, q, "the requests for access", func(row store.Row) (r request, err error) {
		return r, row.Scan(&r.id, &r.Email, &r.Organisation, &r.Use, &r.createdAt)
	}, `SELECT request_id, email, organisation, purpose, created_at FROM access_requests ORDER BY request_id LIMIT $1`, limit)
}

func deleteRequest(ctx context.Context, tx *store.Tx, id string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM access_requests WHERE request_id = $1`, id)
	return err
}

// countOf counts the applications of an address that are kept, and those of them that are open.
func countOf(ctx context.Context, q store.Querier, email string, now time.Time) (all, open int, err error) {
	err = q.QueryRowContext(ctx, `SELECT COUNT(*), COUNT(CASE WHEN state IN ('UNCONFIRMED', 'RECEIVED', 'APPROVED') THEN 1 END) FROM access_applications
		WHERE tenant_id = $1 AND email = $2 AND email <> '' AND created_at > $3`, api.SystemTenant, email, store.At(now.Add(-keep))).Scan(&all, &open)
	if err != nil {
		return 0, 0, fmt.Errorf("cannot count the applications of an address: %w", err)
	}
	return all, open, nil
}

// countIn counts the applications in either of two states.
func countIn(ctx context.Context, q store.Querier, a, b State) (n int, err error) {
	err = q.QueryRowContext(ctx, `SELECT COUNT(*) FROM access_applications WHERE tenant_id = $1 AND state IN ($2, $3)`, api.SystemTenant, string(a), string(b)).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("cannot count the applications: %w", err)
	}
	return n, nil
}

// listUnconfirmed lists the oldest unconfirmed applications that were made at a time or before.
func listUnconfirmed(ctx context.Context, q store.Querier, until time.Time, limit int) ([]Application, error) {
	return store.List(ctx, q, "the unconfirmed applications", applications.Scan, applications.Select()+` WHERE tenant_id = $1 AND state = 'UNCONFIRMED' AND created_at <= $2
		ORDER BY application_id LIMIT $3`, api.SystemTenant, store.At(until), limit)
}

// listUndecided lists applications that no operator has decided on, with ids above after.
func listUndecided(ctx context.Context, q store.Querier, after string, limit int) ([]Application, error) {
	return store.List(ctx, q, "the applications without a decision", applications.Scan, applications.Select()+` WHERE tenant_id = $1 AND application_id > $2 AND state IN ('UNCONFIRMED', 'RECEIVED')
		ORDER BY application_id LIMIT $3`, api.SystemTenant, after, limit)
}

// list lists applications, newest first, in a state, or in any if it is empty.
func list(ctx context.Context, q store.Querier, state string, s store.Slice) (page []Application, next string, err error) {
	var w store.Where
	w.Is("state", state)
	return applications.Page(ctx, q, api.SystemTenant, w, s)
}

// countDue counts the applications that need an operator: those that wait for a decision, of which
// there are few (mostWaiting), and, of the newest that are approved, those whose mail has failed.
func countDue(ctx context.Context, q store.Querier, now time.Time) (n Counts, err error) {
	err = q.QueryRowContext(ctx, `SELECT
		(SELECT COUNT(*) FROM access_applications WHERE tenant_id = $1 AND state = 'RECEIVED' AND created_at > $2),
		(SELECT COUNT(*) FROM (SELECT mail_state FROM access_applications WHERE tenant_id = $1 AND state = 'APPROVED' AND created_at > $2
			ORDER BY application_id DESC LIMIT $3) AS newest WHERE mail_state = 'FAILED')`,
		api.SystemTenant, store.At(now.Add(-keep)), mostMails).Scan(&n.Waiting, &n.FailedMails)
	if err != nil {
		return Counts{}, fmt.Errorf("cannot count the applications that need an operator: %w", err)
	}
	return n, nil
}

// listDue lists applications that are not kept any more, the oldest first.
func listDue(ctx context.Context, q store.Querier, now time.Time, limit int) ([]Application, error) {
	return store.List(ctx, q, "the applications that are over", applications.Scan, applications.Select()+` WHERE created_at <= $1
		ORDER BY created_at, application_id LIMIT $2`, store.At(now.Add(-keep)), limit)
}

func deleteApplication(ctx context.Context, tx *store.Tx, id string) error {
	if err := deleteTokens(ctx, tx, id); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `DELETE FROM access_applications WHERE application_id = $1`, id)
	return err
}

// queueMail queues the mail of an application's state.
func queueMail(ctx context.Context, tx *store.Tx, a *Application) error {
	a.Mail = Mail{State: MailQueued, At: store.At(tx.Now())}
	m := mailing{a.ID, a.Approvals}
	if _, err := noteMail(ctx, tx, m, a.Mail); err != nil {
		return err
	}
	_, err := tx.Enqueue(ctx, store.NewJob{Kind: MailJob, TenantID: api.SystemTenant, Lane: a.ID, Payload: m})
	return err
}

// noteMail notes how far a mail is; false if that approval was followed by another.
func noteMail(ctx context.Context, q store.Execer, m mailing, mail Mail) (noted bool, err error) {
	return store.Affected(q.ExecContext(ctx, updateMail, m.args(mail)...))
}

// claimMail is noteMail for an application in the state in which the mail is sent; false in any other. A change of the same
// application at that time waits for this one, or this one for it.
func claimMail(ctx context.Context, q store.Execer, m mailing, mail Mail) (claimed bool, err error) {
	return store.Affected(q.ExecContext(ctx, updateMail+` AND state = $8`, append(m.args(mail), string(m.state()))...))
}

const updateMail = `UPDATE access_applications SET mail_state = $3, mail_attempts = $4, mail_code = $5, mail_detail = $6, mail_at = $7 WHERE application_id = $1 AND approvals = $2`

func (m mailing) args(mail Mail) []any {
	return []any{m.ApplicationID, m.Approval, string(mail.State), mail.Attempts, mail.Code, mail.Detail, mail.At}
}

func insertToken(ctx context.Context, q store.Execer, token, applicationID string, expires store.Instant) error {
	_, err := q.ExecContext(ctx, `INSERT INTO access_tokens (token_hash, tenant_id, application_id, expires_at) VALUES ($1, $2, $3, $4)`,
		api.HashSecret(token), api.SystemTenant, applicationID, expires)
	return err
}

// applicationOf is the id of the application that a token is good for, nil if there is none.
func applicationOf(ctx context.Context, q store.Querier, token string, now time.Time) (id *string, err error) {
	return store.One(ctx, q, "an activation token", store.Text, `SELECT application_id FROM access_tokens WHERE token_hash = $1 AND expires_at > $2`, api.HashSecret(token), store.At(now))
}

func deleteTokens(ctx context.Context, tx *store.Tx, applicationID string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM access_tokens WHERE application_id = $1`, applicationID)
	return err
}

// forgetTokens deletes the tokens that have expired.
func forgetTokens(ctx context.Context, tx *sql.Tx, now time.Time) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM access_tokens WHERE expires_at <= $1`, store.At(now))
	return err
}
