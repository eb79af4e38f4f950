package access

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/mail"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"muniment.example/control/mailer"
	"muniment.example/control/mailer/mailertest"
	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/certs/certstest"
)

// read parses a letter, and returns its token to activate.
func read(t *testing.T, l mailertest.Letter) (*mail.Message, string) {
	t.Helper()
	return readLink(t, l, "activate")
}

// readLink parses a letter, and returns its token of a kind.
func readLink(t *testing.T, l mailertest.Letter, kind string) (*mail.Message, string) {
	t.Helper()
	m, text := l.Read(t)
	return m, tokenIn(t, text, kind)
}

func plain(address string) *mailer.Server {
	return &mailer.Server{Address: address, From: "Muniment <keys@muniment.example>", TLS: mailer.NoTLS}
}

// TestMail: the mail over a real conversation leads to a key, and has no more than it must.
func TestMail(t *testing.T) {
	m := mailertest.New(t, nil, false)
	h := newFixture(t, plain(m.Address))
	h.confirmed("ada@example.org")
	id := h.waiting("ada@example.org").ID
	_, err := h.approve(t.Context(), id, "")
	require.NoError(t, err)
	require.Equal(t, MailQueued, h.all()[0].Mail.State)
	done, err := h.job(MailJob, h.SendMail)
	require.NoError(t, err)
	require.True(t, done)

	taken := m.Took()
	require.Equal(t, "keys@muniment.example", taken.From)
	require.Equal(t, "ada@example.org", taken.To)
	letter, token := read(t, taken)
	require.Equal(t, `"Muniment" <keys@muniment.example>`, letter.Header.Get("From"))
	require.Equal(t, "<ada@example.org>", letter.Header.Get("To"))
	require.Equal(t, "auto-generated", letter.Header.Get("Auto-Submitted"))
	for _, header := range []string{"Date", "Message-Id", "Subject"} {
		require.NotEmpty(t, letter.Header.Get(header))
	}
	require.NotContains(t, taken.Text, "Example Ltd", "nobody can have us send texts to others")
	require.NotContains(t, taken.Text, "Trying")
	a := h.all()[0]
	require.Equal(t, Mail{State: MailSent, Attempts: 1, At: store.At(begin)}, a.Mail)
	_, err = os.Stat(filepath.Join(h.dir, "outbox"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = h.activate(t.Context(), token)
	require.NoError(t, err)
}

// TestConfirming: an application waits for an operator once the token of its mail is posted, and not
// before. The token is good for nothing else, and once.
func TestConfirming(t *testing.T) {
	stacktest.Both(t)
	m := mailertest.New(t, nil, false)
	h := newFixture(t, plain(m.Address))
	h.applies("ada@example.org")
	a := h.all()[0]
	require.Equal(t, Unconfirmed, a.State)
	require.Equal(t, MailQueued, a.Mail.State)
	require.Zero(t, h.due().Waiting)
	require.NotContains(t, h.log.String(), a.ID)
	done, err := h.job(MailJob, h.SendMail)
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, MailSent, h.all()[0].Mail.State)
	taken := m.Took()
	letter, token := readLink(t, taken, "confirm")
	require.Contains(t, letter.Header.Get("Subject"), "Confirm")
	require.NotContains(t, taken.Text, "Example Ltd", "nobody can have us send texts to others")
	h.applies("ada@example.org")
	require.Len(t, h.all(), 1, "it is open")

	_, err = h.approve(t.Context(), a.ID, "")
	require.Equal(t, api.StateConflict, api.From(err).Code)
	_, err = h.activate(t.Context(), token)
	require.Equal(t, errToken, err)
	require.Equal(t, errToken, h.confirm(t.Context(), api.NewSecret()))
	require.NoError(t, h.confirm(t.Context(), token))
	require.Equal(t, Received, h.all()[0].State)
	require.Equal(t, 1, h.due().Waiting)
	require.Contains(t, h.log.String(), a.ID)
	require.Equal(t, errToken, h.confirm(t.Context(), token), "used")
	require.Zero(t, h.count("access_tokens"))
	require.Equal(t, []string{"access.applied", "access.confirmed"}, h.events())
	_, err = h.approve(t.Context(), a.ID, "")
	require.NoError(t, err)
}

func (h *fixture) due() Counts {
	n, err := h.Counts(h.t.Context())
	require.NoError(h.t, err)
	return n
}

// TestUnconfirmedExpire a day after they were made, and count for their address all the same.
func TestUnconfirmedExpire(t *testing.T) {
	stacktest.Both(t)
	m := mailertest.New(t, nil, false)
	h := newFixture(t, plain(m.Address))
	h.applies("ada@example.org")
	_, err := h.job(MailJob, h.SendMail)
	require.NoError(t, err)
	_, token := readLink(t, m.Took(), "confirm")
	h.clock.Advance(confirmWithin - time.Millisecond)
	require.NoError(t, h.Expire(t.Context()))
	require.Equal(t, Unconfirmed, h.all()[0].State)
	h.clock.Advance(time.Millisecond)
	require.Equal(t, Expired, h.all()[0].State, "it is seen so before it is stored")
	require.Equal(t, errToken, h.confirm(t.Context(), token))
	require.NoError(t, h.Expire(t.Context()))
	require.Zero(t, h.count("access_applications WHERE state = 'UNCONFIRMED'"))
	require.Equal(t, []string{"access.applied", "access.expired"}, h.events())
	for range mostOfAddress {
		h.applies("ada@example.org")
		h.clock.Advance(confirmWithin)
		require.NoError(t, h.Expire(t.Context()))
	}
	require.Len(t, h.all(), mostOfAddress)
	h.clock.Set(begin.Add(keep))
	require.NoError(t, h.Expire(t.Context()))
	require.Len(t, h.all(), mostOfAddress-1, "it is erased as any other")
}

// TestUnconfirmedMakeRoom: strangers who confirm nothing keep nobody from applying.
func TestUnconfirmedMakeRoom(t *testing.T) {
	stacktest.Both(t)
	h := newFixture(t, plain("127.0.0.1:1"))
	const columns = "application_id, tenant_id, email, organisation, purpose, state, approvals, mail_state, mail_attempts, mail_code, mail_detail, created_at, updated_at, revision"
	fill := func(n int, state State, prefix string) {
		roomtest.Fill(t, h.db, n, "access_applications", columns, fmt.Sprintf("'app_%s' || (1000000 + i), 'tnt_system', '%s' || i, 'x', 'x', '%s', 0, 'NONE', 0, '', '', %d, 0, 0", prefix, prefix, state, begin.UnixMilli()))
	}
	fill(mostWaiting-2, Unconfirmed, "0")
	fill(2, Received, "1")
	oldest := h.count("access_applications WHERE application_id = 'app_01000000' OR application_id = 'app_01000001'")
	require.NotZero(t, oldest)
	h.applies("ada@example.org")
	require.Equal(t, mostWaiting, h.count("access_applications"))
	require.Equal(t, oldest-1, h.count("access_applications WHERE application_id = 'app_01000000' OR application_id = 'app_01000001'"), "the oldest goes")
	require.Equal(t, 2, h.count("access_applications WHERE state = 'RECEIVED'"))
	require.Equal(t, 1, h.count("access_applications WHERE email = 'ada@example.org'"))
}

// TestTooManyWait: while as many applications as may wait for an operator do, none is confirmed, and
// its link stays good.
func TestTooManyWait(t *testing.T) {
	m := mailertest.New(t, nil, false)
	h := newFixture(t, plain(m.Address))
	h.applies("ada@example.org")
	_, err := h.job(MailJob, h.SendMail)
	require.NoError(t, err)
	_, token := readLink(t, m.Took(), "confirm")
	const columns = "application_id, tenant_id, email, organisation, purpose, state, approvals, mail_state, mail_attempts, mail_code, mail_detail, created_at, updated_at, revision"
	roomtest.Fill(t, h.db, mostWaiting, "access_applications", columns, fmt.Sprintf("'app_' || i, 'tnt_system', 'x' || i, 'x', 'x', 'RECEIVED', 0, 'NONE', 0, '', '', %d, 0, 0", begin.UnixMilli()))
	require.Equal(t, api.Overloaded, api.From(h.confirm(t.Context(), token)).Reason)
	require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `DELETE FROM access_applications WHERE email = 'x1'`)
		return err
	}))
	require.NoError(t, h.confirm(t.Context(), token))
}

// TestMailIsRetried: what a server can't take now it gets again; what it refuses for good is FAILED,
// and the operator sees its codes, but nothing that names the applicant.
func TestMailIsRetried(t *testing.T) {
	m := mailertest.New(t, nil, false)
	h := newFixture(t, plain(m.Address))
	refuses := func(code int, enhanced smtp.EnhancedCode) error {
		return &smtp.SMTPError{Code: code, EnhancedCode: enhanced, Message: "<ada@example.org> is not welcome"}
	}
	m.Answers = []error{refuses(451, smtp.EnhancedCode{4, 7, 1}), nil, refuses(550, smtp.EnhancedCode{5, 1, 1})}
	h.confirmed("ada@example.org")
	id := h.waiting("ada@example.org").ID
	_, err := h.approve(t.Context(), id, "")
	require.NoError(t, err)
	_, err = h.job(MailJob, h.SendMail)
	require.ErrorContains(t, err, "MAIL_REFUSED: the mail was not sent: the mail server answered 451 4.7.1")
	require.NotContains(t, err.Error(), "ada")
	require.Equal(t, Mail{MailQueued, 1, "MAIL_REFUSED", "the mail server answered 451 4.7.1", store.At(begin)}, h.all()[0].Mail)
	require.Contains(t, h.all()[0].Mail.text(), "QUEUED after 1 attempts: MAIL_REFUSED, the mail server answered 451 4.7.1")

	h.clock.Advance(time.Minute)
	done, err := h.job(MailJob, h.SendMail)
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, Mail{State: MailSent, Attempts: 2, At: store.At(begin.Add(time.Minute))}, h.all()[0].Mail)
	_, token := read(t, m.Took())

	_, err = h.approve(t.Context(), id, "")
	require.NoError(t, err)
	_, err = h.job(MailJob, h.SendMail)
	var f *failure
	require.ErrorAs(t, err, &f)
	require.True(t, f.final)
	require.Equal(t, MailFailed, h.all()[0].Mail.State)
	require.Equal(t, "the mail server answered 550 5.1.1", h.all()[0].Mail.Detail)
	done, _ = h.job(MailJob, h.SendMail)
	require.False(t, done)
	_, err = h.activate(t.Context(), token)
	require.Equal(t, errToken, err, "another mail was asked for")
}

// TestMailServerIsAway: it is tried again, and the operator sees why.
func TestMailServerIsAway(t *testing.T) {
	h := newFixture(t, plain("127.0.0.1:1"))
	h.confirmed("ada@example.org")
	_, err := h.approve(t.Context(), h.waiting("ada@example.org").ID, "")
	require.NoError(t, err)
	_, err = h.job(MailJob, h.SendMail)
	var f *failure
	require.ErrorAs(t, err, &f)
	require.False(t, f.final)
	require.Equal(t, "MAIL_SERVER_UNAVAILABLE", h.all()[0].Mail.Code)
	require.Contains(t, h.all()[0].Mail.Detail, "connection refused")
}

// TestMailProcessIsKilled after it has sent a mail and before it could note that: the mail is sent
// again, and either link leads to the one key.
func TestMailProcessIsKilled(t *testing.T) {
	m := mailertest.New(t, nil, false)
	h := newFixture(t, plain(m.Address))
	for _, n := range []int{0, 1} {
		email := []string{"ada@example.org", "grace@example.org"}[n]
		h.confirmed(email)
		_, err := h.approve(t.Context(), h.waiting(email).ID, "")
		require.NoError(t, err)
		job, err := h.db.Jobs.Claim(t.Context(), MailJob, time.Minute)
		require.NoError(t, err)
		require.NoError(t, h.SendMail(t.Context(), job))
		_, first := read(t, m.Took())
		h.clock.Advance(2 * time.Minute) // its lease is over
		done, err := h.job(MailJob, h.SendMail)
		require.NoError(t, err)
		require.True(t, done)
		require.ErrorIs(t, job.Done(t.Context()), store.ErrStale)
		_, second := read(t, m.Took())
		require.NotEqual(t, first, second)
		tokens := []string{first, second}
		_, err = h.activate(t.Context(), tokens[n])
		require.NoError(t, err)
		_, err = h.activate(t.Context(), tokens[1-n])
		require.Equal(t, errToken, err)
	}
}

// TestMailOfARefusedApplication, or of one that is approved anew, is not sent.
func TestMailOfARefusedApplication(t *testing.T) {
	m := mailertest.New(t, nil, false)
	h := newFixture(t, plain(m.Address))
	h.confirmed("ada@example.org")
	id := h.waiting("ada@example.org").ID
	for range 2 {
		_, err := h.approve(t.Context(), id, "")
		require.NoError(t, err)
	}
	for range 2 {
		done, err := h.job(MailJob, h.SendMail)
		require.NoError(t, err)
		require.True(t, done)
	}
	m.Took() // one of two
	_, err := h.approve(t.Context(), id, "")
	require.NoError(t, err)
	_, err = h.refuse(t.Context(), id, "")
	require.NoError(t, err)
	done, err := h.job(MailJob, h.SendMail)
	require.NoError(t, err)
	require.True(t, done)
	require.Empty(t, m.Letters)
	require.Zero(t, h.count("access_tokens"))
}

// TestMailOverTLS: the server has to show a certificate that is trusted, and one that has no TLS
// gets no mail. Who has to authenticate does so behind it.
func TestMailOverTLS(t *testing.T) {
	ca := certstest.New(t)
	pair := ca.Issue(t, certstest.Leaf{})
	certificate, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(ca.Certificate())
	trust := func(host string) *tls.Config {
		return &tls.Config{ServerName: host, RootCAs: pool}
	}
	foreign := func(host string) *tls.Config { return &tls.Config{ServerName: host} }
	sends := func(server *mailer.Server) error {
		h := newFixture(t, server)
		h.confirmed("ada@example.org")
		_, err := h.approve(t.Context(), h.waiting("ada@example.org").ID, "")
		require.NoError(t, err)
		_, err = h.job(MailJob, h.SendMail)
		if err != nil {
			require.NotContains(t, err.Error(), "opensesame")
		}
		return err
	}
	for _, mode := range []mailer.TLSMode{mailer.StartTLS, mailer.ImplicitTLS} {
		m := mailertest.New(t, &certificate, mode == mailer.ImplicitTLS)
		require.NoError(t, sends(&mailer.Server{Address: m.Address, From: "keys@muniment.example", TLS: mode, Trust: trust}), mode)
		require.True(t, m.Took().Encrypted)
		require.ErrorContains(t, sends(&mailer.Server{Address: m.Address, From: "keys@muniment.example", TLS: mode, Trust: foreign}), "MAIL_SERVER_UNAVAILABLE", mode)
		m.Password = "opensesame"
		require.ErrorContains(t, sends(&mailer.Server{Address: m.Address, From: "keys@muniment.example", TLS: mode, Trust: trust}), "MAIL_REFUSED", mode)
		server := &mailer.Server{Address: m.Address, From: "keys@muniment.example", TLS: mode, Trust: trust, User: "muniment", Password: func() (string, error) { return "wrong", nil }}
		require.ErrorContains(t, sends(server), "MAIL_SERVER_UNAVAILABLE", mode)
		server.Password = func() (string, error) { return "", errors.New("no such file") }
		require.ErrorContains(t, sends(server), "no such file", mode)
		server.Password = func() (string, error) { return m.Password, nil }
		require.NoError(t, sends(server), mode)
		require.Len(t, m.Letters, 1)
	}
	m := mailertest.New(t, nil, false)
	require.ErrorContains(t, sends(&mailer.Server{Address: m.Address, From: "keys@muniment.example", TLS: mailer.StartTLS, Trust: trust}), "MAIL_SERVER_UNAVAILABLE")
	require.Empty(t, m.Letters)
}

// TestOutbox: without a mail server the mail is a file that nobody else can read.
func TestOutbox(t *testing.T) {
	h := newFixture(t, nil)
	id, _ := h.approved("ada@example.org")
	info, err := os.Stat(filepath.Join(h.dir, "outbox", id+".eml"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	folder, err := os.Stat(filepath.Join(h.dir, "outbox"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), folder.Mode().Perm())
	letter, err := mail.ReadMessage(bytes.NewBufferString(h.eml(id)))
	require.NoError(t, err)
	require.Equal(t, "<ada@example.org>", letter.Header.Get("To"))

	require.NoError(t, os.RemoveAll(filepath.Join(h.dir, "outbox")))
	require.NoError(t, os.WriteFile(filepath.Join(h.dir, "outbox"), nil, 0o600))
	_, err = h.approve(t.Context(), id, "")
	require.NoError(t, err)
	_, err = h.job(MailJob, h.SendMail)
	require.ErrorContains(t, err, "OUTBOX_FAILED")
}
