// Package member says who may sign in to a tenant's console, as what, and for how long.
//
// # Members
//
// A member is a person who acts for a tenant: an address, a name and a role, which is a set of scopes. A caller with
// keys:write invites members, changes their roles and removes them, but gives and takes only roles of which it has all
// scopes. The last owner stays: while an owner has signed in, one who has must remain, otherwise one who is invited. The
// first owner is whom the tenant is made for (First). An act of a member is an event whose actor is the member's id.
// Address and name are in this package's table alone, and erased with the person; who is erased may
// not act any more and is no owner that counts, also as the last one (Erased). Removing a member is final, and the same address can be invited again.
//
// A member makes keys and webhooks as a key does. Keys stay when their maker is removed; a webhook that is sent under a
// member is paused once the member's role may not set it (webhook.Config.Scopes). In a database
// restored from an older copy, Replay gives members the role and the state that the log has, and keeps other accounts out
// of those that were bound to one (below).
//
// # Links
//
// A member signs in by a link that is mailed on request. The request is answered alike, by the same work,
// whatever is known of the address: it is stored, and a job (AdmitJob) decides later. Jobs send the mails (MailJob). A
// link works once, for 15 minutes; a mail scanner that opens it spends nothing, as only a POST does. Of a token the
// database has the SHA-256. A member has at most 3 links that work. Who is a member of several tenants gets a link for each in which they have joined,
// and for the 10 newest of those that only invite them, tenants of the sandbox last. An invitation has no link: its mail names the page
// where one is requested. Nothing that a caller wrote is in a mail.
//
// # OpenID Connect
//
// A member may also sign in at the service's provider (Config.Provider), in the browser that began it: its cookie holds
// a secret, from which follow the state, the nonce and the verifier of PKCE of that one attempt, for 10 minutes. So
// nothing is stored before somebody has signed in, and an answer is good in no other browser.
//
// Nobody becomes a member by it. A member's first sign-in by the provider binds the member to who the person is there,
// issuer and subject, if the provider says that it has verified the address that was invited. After that only this
// account signs in as the member, whatever becomes of its address; and another account that has the address later does
// not. An address that the provider has not verified counts for nothing, as anybody may have written it there. The
// provider is trusted for the addresses of all tenants. A mailed link stays a way to sign in.
//
// That a member was bound is in an event, member.joined or member.bound. To which account is in the table alone, as what it
// is called may name the person, and so would a hash of it. So a database that was restored from an older copy may know
// that a member is bound, and not to which account: then none signs in as the member, who has mailed links, until the member
// is removed and the address invited again.
//
// Who is a member of several tenants chooses one, and who is bound to none yet is asked also about a single one: to
// sign in at the provider is not yet to accept an invitation, which may be a stranger's. What the provider has said waits in
// the database for it, for 10 minutes (member_choices).
//
// A provider may let somebody in without asking again. So a session knows when its person proved to it who they are:
// within the last 24 hours, and for what asks again within 10 minutes (Session.Confirmed), for which the provider is
// told to ask.
//
// # Sessions
//
// A caller signs in by a link, at the provider, or by an API key, which is exchanged for a session and not stored. A session acts as
// its actor: it has the scopes that the actor has at each request, not those of when it began. So a session of a key
// that is revoked or has expired, and one of a member who was removed, has ended. A session ends after 8 hours without a request, and 24 hours after it began, whatever
// happens. Signing in always makes a new session and ends the one that the browser had, so nobody can prepare a session
// for somebody else. Signing in again is also how a session is confirmed: what asks again
// (route.Operation.Confirms) takes sessions whose actor has proved who it is within 10 minutes. An actor has at most 20 sessions: one more ends the oldest.
//
// Of a session the database has the SHA-256 of its token, in rows that belong to no person and are in no event. All
// processes of control have the same sessions. When a process is killed while a caller signs in, the caller has a
// session or signs in again. On a full disk nobody signs in, and sessions go on.
//
// # The cookie
//
// The token travels in a cookie that no script reads and that other sites' requests do not carry, but for links
// (HttpOnly, SameSite=Lax). How the cookie is made depends on the public URL alone. With https it is
// Secure and __Host-: no other host and no plain connection can set it. With http, a console opens only to browsers that
// reach it under a loopback address, also through a tunnel or a mapped port; the cookie then has another name, with the
// port in it, as browsers send cookies to every port of a host. All other requests are refused with a sentence
// (Service.Check).
//
// Requests that change something are refused if a browser sends them for a page of another origin
// (http.CrossOriginProtection). After signing in a browser is sent only to paths of the console (Next).
package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"muniment.example/control/mailer"
	"muniment.example/control/oidc"
	"muniment.example/control/sandbox"
	"muniment.example/control/store"
)

// Config of the service. DB, PublicURL, Mails and Failed are required.
type Config struct {
	DB *store.DB
	// PublicURL is where browsers reach the console, http or https, without a slash at its end.
	PublicURL string
	// Mails sends invitations and links.
	Mails *mailer.Mails
	// Provider is the OpenID Connect provider by which members may sign in; nil: there is none. It sends browsers back to
	// PublicURL and CallbackPath.
	Provider *oidc.Provider
	// Failed makes the error of a job with a code; final gives the job up.
	Failed func(code string, final bool, err error) error
	// Limits of each caller's address for requesting and using links; a limit that is 0 is 10 requests within 10
	// seconds, 60 within an hour.
	Limits sandbox.Limits
	// Shared counts them in the database, together with other processes.
	Shared bool
	// Now is the clock of the limits, which should be a monotonic one. Default time.Now.
	Now func() time.Time
	// Ended does what follows when a member may do less, or was erased, in that change; nil: nothing.
	Ended func(ctx context.Context, tx *store.Tx, tenantID string) error
	// Logger; nil is slog.Default.
	Logger *slog.Logger
}

// Service is safe for concurrent use.
type Service struct {
	cfg      Config
	db       *store.DB
	browsers *browserPolicy
	callers  *sandbox.Callers
}

// The limits of a caller's address: several persons may share one.
const (
	defaultBurst     = 10
	defaultSustained = 60
)

// New returns the service.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Mails == nil || cfg.Failed == nil {
		return nil, errors.New("cannot open the members: DB, Mails or Failed is missing")
	}
	browsers, err := newBrowserPolicy(cfg.PublicURL)
	if err != nil {
		return nil, fmt.Errorf("cannot open the members: %w", err)
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	cfg.Limits.Burst = cmp.Or(cfg.Limits.Burst, defaultBurst)
	cfg.Limits.Sustained = cmp.Or(cfg.Limits.Sustained, defaultSustained)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	callers := sandbox.NewCallers(sandbox.CallersConfig{DB: cfg.DB, Limits: cfg.Limits, Shared: cfg.Shared, Window: "member ", Now: cfg.Now})
	return &Service{cfg: cfg, db: cfg.DB, browsers: browsers, callers: callers}, nil
}
