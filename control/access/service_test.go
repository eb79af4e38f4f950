package access

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/mailer"
	"muniment.example/control/roomtest"
	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
)

// fixture is the service on a database with a clock, whose jobs the test does.
type fixture struct {
	*Service
	t     *testing.T
	clock *roomtest.Clock
	dir   string
	log   *strings.Builder
}

func newFixture(t *testing.T, server *mailer.Server) *fixture {
	h := &fixture{t: t, clock: roomtest.NewClock(begin), dir: t.TempDir(), log: new(strings.Builder)}
	db := roomtest.Open(t, h.dir, h.clock.Now)
	var err error
	h.Service, err = New(Config{
		DB: db, PublicURL: "https://muniment.example", Mails: &mailer.Mails{Server: server, Outbox: filepath.Join(h.dir, "outbox")}, Now: h.clock.Now,
		Failed: func(code string, final bool, err error) error { return &failure{code, final, err} },
		Logger: slog.New(slog.NewTextHandler(h.log, nil)),
	})
	require.NoError(t, err)
	return h
}

// failure is what control makes of a job's error.
type failure struct {
	code  string
	final bool
	err   error
}

func (f *failure) Error() string { return f.code + ": " + f.err.Error() }

// job does the next job of a kind as control does; false if none is due.
func (h *fixture) job(kind string, do func(context.Context, *store.Job) error) (done bool, err error) {
	job, claimed := h.db.Jobs.Claim(h.t.Context(), kind, time.Minute)
	require.NoError(h.t, claimed)
	if job == nil {
		return false, nil
	}
	err = do(h.t.Context(), job)
	var f *failure
	switch {
	case err == nil:
		require.NoError(h.t, job.Done(h.t.Context()))
	case errors.As(err, &f) && f.final:
		require.NoError(h.t, job.Fail(h.t.Context(), f.code, func(ctx context.Context, tx *store.Tx) error { return h.GiveUpMail(ctx, tx, job, f.code) }))
	default:
		require.NoError(h.t, job.Retry(h.t.Context(), "x", time.Second))
	}
	return true, err
}

// applies has an address apply, and decides what becomes of it.
func (h *fixture) applies(email string) {
	h.t.Helper()
	require.NoError(h.t, h.apply(h.t.Context(), Form{email, "Example Ltd", "Trying it out"}))
	done, err := h.job(AdmitJob, h.Admit)
	require.NoError(h.t, err)
	require.True(h.t, done)
}

// confirmed has an address apply, and confirms that without its mail.
func (h *fixture) confirmed(email string) {
	h.t.Helper()
	h.applies(email)
	require.NoError(h.t, h.db.Change(h.t.Context(), func(tx *store.Tx) error {
		_, err := applications.Move(h.t.Context(), tx, store.Move[Application, Action]{TenantID: api.SystemTenant, ID: h.all()[0].ID, Action: Confirm, By: store.BySystem()})
		return err
	}))
	_, err := h.job(MailJob, h.SendMail)
	require.NoError(h.t, err)
}

// all are the applications, newest first.
func (h *fixture) all() []Listed {
	h.t.Helper()
	page, err := h.Applications(h.t.Context(), &ListInput{Page: route.Page{Limit: 50}})
	require.NoError(h.t, err)
	return page.Applications
}

// waiting is the application of an address that waits for an operator.
func (h *fixture) waiting(email string) Listed {
	h.t.Helper()
	for _, a := range h.all() {
		if a.Email == strings.ToLower(email) && a.State == Received {
			return a
		}
	}
	h.t.Fatalf("%s has no application that waits", email)
	return Listed{}
}

// approved has an address apply and approves that, and returns the token of its mail in the outbox.
func (h *fixture) approved(email string) (id, token string) {
	h.t.Helper()
	h.applies(email)
	id = h.waiting(email).ID
	return id, h.mailed(id)
}

// mailed approves an application and returns the token of its mail in the outbox.
func (h *fixture) mailed(id string) (token string) {
	h.t.Helper()
	_, err := h.approve(h.t.Context(), id, "")
	require.NoError(h.t, err)
	done, err := h.job(MailJob, h.SendMail)
	require.NoError(h.t, err)
	require.True(h.t, done)
	return tokenIn(h.t, h.eml(id), "activate")
}

func (h *fixture) eml(id string) string {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(h.dir, "outbox", id+".eml"))
	require.NoError(h.t, err)
	return string(text)
}

// tokenIn finds the token of the one link in a mail, which is of a kind.
func tokenIn(t *testing.T, mail, kind string) string {
	t.Helper()
	_, rest, found := strings.Cut(mail, "\r\nhttps://muniment.example/playground#"+kind+"=")
	require.True(t, found, mail)
	token, _, _ := strings.Cut(rest, "\r\n")
	require.Regexp(t, `^[A-Za-z0-9_-]{43}$`, token)
	return token
}

// events are the types of the events of applications, oldest first.
func (h *fixture) events() (types []string) {
	for _, e := range roomtest.Events(h.t, h.db) {
		if strings.HasPrefix(e.Type, "access.") {
			require.Equal(h.t, api.SystemTenant, e.TenantID)
			types = append(types, e.Type)
		}
	}
	return types
}

func (h *fixture) count(from string) (n int) {
	h.t.Helper()
	require.NoError(h.t, h.db.Read().QueryRow(`SELECT COUNT(*) FROM `+from).Scan(&n))
	return n
}

// TestActivation is the course of an application: each step is an event, and none names the
// applicant, nor does the log.
func TestActivation(t *testing.T) {
	h := newFixture(t, nil)
	id, token := h.approved("Ada@example.org")
	require.Equal(t, 1, h.count("access_tokens"))
	require.Zero(t, h.count(`access_tokens WHERE token_hash = '`+token+`'`), "the token itself is not stored")
	made, err := h.activate(t.Context(), token)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(made.APIKey, "mun_test_"))
	require.Zero(t, h.count("access_tokens"))
	a := h.all()[0]
	require.Equal(t, Activated, a.State)
	require.Equal(t, made.TenantID, *a.ActivatedTenantID)
	require.Equal(t, MailWritten, a.Mail.State)
	require.Equal(t, "ada@example.org", a.Email)
	require.Equal(t, 1, h.count(`tenants WHERE sandbox = 1 AND visitor = 0 AND tenant_id = '`+made.TenantID+`'`))
	require.Equal(t, 1, h.count(`developers WHERE email = 'ada@example.org' AND tenant_id = '`+made.TenantID+`'`))
	require.Zero(t, h.count("sandbox_tenants"), "nothing evicts it")
	require.Equal(t, []string{"access.applied", "access.approved", "access.activated"}, h.events())

	events := ""
	for _, e := range roomtest.Events(t, h.db) {
		if strings.HasPrefix(e.Type, "access.") {
			events += string(e.Data) + "\n"
		}
	}
	require.Equal(t, 3, strings.Count(events, id))
	for _, secret := range []string{"ada@", "Example Ltd", "Trying", token, api.HashSecret(token), made.APIKey} {
		require.NotContains(t, strings.ToLower(events), strings.ToLower(secret))
		require.NotContains(t, strings.ToLower(h.log.String()), strings.ToLower(secret))
	}
	require.Contains(t, h.log.String(), id)
}

// TestOneOfManyActivationsWins: of 64 callers with one token one gets a key, and there is one tenant.
func TestOneOfManyActivationsWins(t *testing.T) {
	stacktest.Both(t)
	h := newFixture(t, nil)
	_, token := h.approved("ada@example.org")
	errs := make([]error, 64)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { _, errs[i] = h.activate(t.Context(), token) })
	}
	all.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else {
			require.Equal(t, errToken, err)
		}
	}
	require.Equal(t, 1, won)
	require.Equal(t, 1, h.count("tenants WHERE sandbox = 1"))
	require.Equal(t, 1, h.count("api_keys"))
}

// TestTokensThatAreNotGood are all answered alike, whatever is known of them.
func TestTokensThatAreNotGood(t *testing.T) {
	h := newFixture(t, nil)
	refuses := func(why, token string) {
		t.Helper()
		_, err := h.activate(t.Context(), token)
		require.Equal(t, errToken, err, why)
		require.Zero(t, h.count("tenants WHERE sandbox = 1"), why)
	}
	refuses("unknown", api.NewSecret())
	refuses("no token at all", "x")

	id, first := h.approved("ada@example.org")
	h.clock.Advance(tokenAge)
	refuses("expired", first)
	second := h.mailed(id)
	require.NotEqual(t, first, second)
	refuses("replaced", first)
	third := h.mailed(id)
	refuses("replaced before it expired", second)
	refuses("changed", third[:42]+"-")
	_, err := h.refuse(t.Context(), id, "")
	require.NoError(t, err)
	refuses("refused", third)

	_, last := h.approved("grace@example.org")
	h.clock.Advance(tokenAge - time.Millisecond)
	_, err = h.activate(t.Context(), last)
	require.NoError(t, err, "it is good to the end")
	_, err = h.activate(t.Context(), last)
	require.Equal(t, errToken, err, "used")
}

// TestApplicationsOfAnAddress: one is open at a time, and there are three within any 30 days.
func TestApplicationsOfAnAddress(t *testing.T) {
	h := newFixture(t, nil)
	refuse := func() {
		_, err := h.refuse(t.Context(), h.waiting("grace@example.org").ID, "")
		require.NoError(t, err)
	}
	h.applies("ada@example.org")
	h.applies("ADA@EXAMPLE.org")
	require.Len(t, h.all(), 1, "one is open")
	h.applies("grace@example.org")
	require.Len(t, h.all(), 2, "another address's is nobody else's concern")
	refuse()
	for range mostOfAddress - 1 {
		h.clock.Advance(time.Hour)
		h.applies("grace@example.org")
		refuse()
	}
	h.applies("grace@example.org")
	require.Len(t, h.all(), 1+mostOfAddress)
	h.clock.Set(begin.Add(keep - time.Millisecond))
	h.applies("grace@example.org")
	require.Len(t, h.all(), 1+mostOfAddress, "the first one is within 30 days")
	h.clock.Set(begin.Add(keep))
	h.applies("grace@example.org")
	require.Len(t, h.all(), 2+mostOfAddress)
	require.Zero(t, h.count("access_requests"))
}

// TestRefuseAll refuses what is selected and not approved, with an event of each.
func TestRefuseAll(t *testing.T) {
	stacktest.Both(t)
	h := newFixture(t, nil)
	for i := range refuseAtOnce + 1 {
		h.applies(fmt.Sprintf("x%d@flood.example", i))
	}
	for _, email := range []string{"ada@example.org", "ada@mail.example.org", "grace@example.org", "example.org@x.example"} {
		h.applies(email)
	}
	require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE access_applications SET state = 'UNCONFIRMED' WHERE email = 'x0@flood.example'`)
		return err
	}))
	h.clock.Advance(time.Hour) // the newest is listed first
	approved, token := h.approved("linus@flood.example")
	h.clock.Advance(time.Hour)
	h.applies("late@example.org")
	refuse := func(from string, before time.Time, want int) {
		t.Helper()
		events := len(h.events())
		n, err := h.refuseAll(t.Context(), from, store.At(before))
		require.NoError(t, err)
		require.Equal(t, want, n)
		require.Len(t, h.events(), events+want)
	}
	refuse("flood.example", time.Time{}, refuseAtOnce+1)
	refuse("flood.example", time.Time{}, 0)
	require.Equal(t, 1, h.count(`access_applications WHERE state = 'APPROVED' AND application_id = '`+approved+`'`))
	refuse("example.org", begin, 0)
	refuse("example.org", begin.Add(time.Millisecond), 2)
	refuse("ada@mail.example.org", time.Time{}, 1)
	refuse("", begin.Add(2*time.Hour), 1)
	require.Equal(t, "late@example.org", h.waiting("late@example.org").Email)
	_, err := h.activate(t.Context(), token)
	require.NoError(t, err)
}

// TestTooManyApplications: while operators are behind, strangers don't fill the database.
func TestTooManyApplications(t *testing.T) {
	h := newFixture(t, nil)
	const columns = "request_id, tenant_id, email, organisation, purpose, created_at"
	roomtest.Fill(t, h.db, mostWaiting-1, "access_requests", columns, "'app_' || i, 'tnt_system', 'x' || i, 'x', 'x', 0")
	require.NoError(t, h.apply(t.Context(), Form{"ada@example.org", "x", "x"}))
	require.Equal(t, api.Overloaded, api.From(h.apply(t.Context(), Form{"ada@example.org", "x", "x"})).Reason)
	require.Equal(t, api.Overloaded, api.From(h.apply(t.Context(), Form{"grace@example.org", "x", "x"})).Reason, "for every address")
	require.Equal(t, mostWaiting, h.count("access_requests"))
}

// TestExpire: an application is erased 30 days after it was made, whatever became of it, with its
// mail; an open one with an event.
func TestExpire(t *testing.T) {
	h := newFixture(t, nil)
	h.applies("received@example.org")
	approved, _ := h.approved("approved@example.org")
	_, token := h.approved("activated@example.org")
	_, err := h.activate(t.Context(), token)
	require.NoError(t, err)
	refused, _ := h.approved("refused@example.org")
	_, err = h.refuse(t.Context(), refused, "")
	require.NoError(t, err)
	other := filepath.Join(h.dir, "outbox", "letter.eml")
	require.NoError(t, os.WriteFile(other, nil, 0o600))

	h.clock.Set(begin.Add(keep - time.Millisecond))
	require.NoError(t, h.Expire(t.Context()))
	require.Len(t, h.all(), 4)
	require.Zero(t, h.count("access_tokens"), "they have expired")
	require.NotEmpty(t, h.eml(approved))
	_, err = os.Stat(filepath.Join(h.dir, "outbox", refused+".eml"))
	require.ErrorIs(t, err, fs.ErrNotExist, "its link has ended")

	h.clock.Set(begin.Add(keep))
	for _, a := range h.all() {
		if a.ID == approved {
			require.Equal(t, Expired, a.State, "it is seen so before it is stored")
		}
	}
	_, err = h.approve(t.Context(), approved, "")
	require.Equal(t, api.StateConflict, api.From(err).Code)
	before := len(h.events())
	require.NoError(t, h.Expire(t.Context()))
	require.Empty(t, h.all())
	require.Equal(t, []string{"access.expired", "access.expired"}, h.events()[before:])
	files, err := os.ReadDir(filepath.Join(h.dir, "outbox"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.Equal(t, "letter.eml", files[0].Name(), "what is no mail of ours is left alone")
	require.NoError(t, h.Expire(t.Context()))
	require.Len(t, h.events(), before+2)
	require.Equal(t, 1, h.count("developers WHERE email = 'activated@example.org'"), "the tenant keeps its developer")
}

// TestReplay: a database from before an activation does not let the link be used twice.
func TestReplay(t *testing.T) {
	h := newFixture(t, nil)
	_, token := h.approved("ada@example.org")
	older := h.all()[0]
	_, err := h.activate(t.Context(), token)
	require.NoError(t, err)
	events := roomtest.Events(t, h.db)
	activated := events[len(events)-1]
	require.Equal(t, "access.activated", activated.Type)
	require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
		if _, err := tx.ExecContext(t.Context(), `UPDATE access_applications SET state = 'APPROVED', activated_tenant_id = NULL, revision = $1`, older.Revision); err != nil {
			return err
		}
		if err := insertToken(t.Context(), tx, token, older.ID, store.At(begin.Add(tokenAge))); err != nil {
			return err
		}
		changed, err := Replay(t.Context(), tx, &activated)
		require.True(t, changed)
		return err
	}))
	_, err = h.activate(t.Context(), token)
	require.Equal(t, errToken, err)
	a := h.all()[0]
	require.Equal(t, Activated, a.State)
	require.Equal(t, "ada@example.org", a.Email)
}

// TestListsUseIndexes: a list of many applications costs what it shows.
func TestListsUseIndexes(t *testing.T) {
	h := newFixture(t, nil)
	roomtest.Fill(t, h.db, 3000, "access_applications", "application_id, tenant_id, email, organisation, purpose, state, approvals, mail_state, mail_attempts, mail_code, mail_detail, created_at, updated_at, revision",
		"'app_' || i, 'tnt_system', 'x' || i, 'x', 'x', CASE WHEN i % 2 = 0 THEN 'RECEIVED' ELSE 'REFUSED' END, 0, 'NONE', 0, '', '', i, 0, 0")
	slice := store.Slice{Behind: "app_2", Limit: 2}
	roomtest.Plans(t, h.db, func(q store.Querier) error { _, _, err := list(t.Context(), q, "", slice); return err })
	roomtest.Plans(t, h.db, func(q store.Querier) error { _, _, err := list(t.Context(), q, "RECEIVED", slice); return err })
	roomtest.Plans(t, h.db, func(q store.Querier) error { _, err := listUndecided(t.Context(), q, "app_2", 2); return err })
	roomtest.Plans(t, h.db, func(q store.Querier) error { _, err := listUnconfirmed(t.Context(), q, begin, 2); return err })
	roomtest.Plans(t, h.db, func(q store.Querier) error { _, _, err := countOf(t.Context(), q, "x7", begin); return err })
	roomtest.Plans(t, h.db, func(q store.Querier) error {
		_, err := listDue(t.Context(), q, time.UnixMilli(5).Add(keep), 2)
		return err
	})
}
