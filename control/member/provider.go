package member

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"muniment.example/control/mailer"
	"muniment.example/control/oidc"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// CallbackPath is where the provider sends browsers back to.
const CallbackPath = SignInPath + "/callback"

// attemptAge is how long a sign-in at the provider may take, and then the choice of a tenant.
const attemptAge = 10 * time.Minute

// errNoProvider is the answer where the service has none.
var errNoProvider error = &api.Error{Code: api.ResourceNotFound, Message: "this service has no OpenID Connect provider: sign in another way"}

// Provider is what a page calls the provider; empty if there is none.
func (s *Service) Provider() string {
	if s.cfg.Provider == nil {
		return ""
	}
	return s.cfg.Provider.Name()
}

// BeginAtProvider begins a sign-in at the provider: the caller sends the cookie to the browser, and has it go to address.
// again has the provider ask who the person is, whatever it knows. The caller's own address has the limits of links.
func (s *Service) BeginAtProvider(r *http.Request, again bool) (address string, cookie *http.Cookie, err error) {
	if s.cfg.Provider == nil {
		return "", nil, errNoProvider
	}
	if err := s.admit(r); err != nil {
		return "", nil, err
	}
	secret := api.NewSecret()
	if address, err = s.cfg.Provider.Address(r.Context(), newAttempt(secret, again, s.db.Now())); err != nil {
		return "", nil, err
	}
	return address, filled(s.browsers.attempt, secret), nil
}

// newAttempt is the attempt of a browser that has a secret. Its state says when it began, and whether the provider has
// to ask again.
func newAttempt(secret string, again bool, began time.Time) oidc.Attempt {
	how, a := "n", oidc.Attempt{MaxAge: sessionAge, Since: began}
	if again {
		how, a.MaxAge = "a", 0
	}
	how += strconv.FormatInt(began.Unix(), 36)
	a.State = how + "." + derived(secret, "state "+how)
	a.Nonce, a.Verifier = derived(secret, "nonce"), derived(secret, "verifier")
	return a
}

// derived is a value that nobody without the secret knows.
func derived(secret, use string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(use))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// attemptOf is the attempt of a browser that has a secret, as an answer's state names it. It has no state if that is not
// of the browser, or is over.
func attemptOf(secret, state string, now time.Time) oidc.Attempt {
	how, _, _ := strings.Cut(state, ".")
	if secret == "" || len(how) < 2 || len(how) > 16 {
		return oidc.Attempt{}
	}
	began, err := strconv.ParseInt(how[1:], 36, 64)
	age := now.Sub(time.Unix(began, 0))
	if err != nil || age > attemptAge || age < -time.Second {
		return oidc.Attempt{}
	}
	a := newAttempt(secret, how[0] == 'a', time.Unix(began, 0))
	if !hmac.Equal([]byte(a.State), []byte(state)) {
		return oidc.Attempt{}
	}
	return a
}

// SignInAtProvider exchanges the answer with which the provider has sent a browser back for a session, which ends the one
// of the request. The caller sends the cookies to the browser, also with an error. choose says that the person is a
// member of several tenants, or of one that no account is bound to: there is no session yet, and Choices and Choose follow.
// Nobody joins a tenant, or has their account bound, by only signing in: anybody may invite anybody.
func (s *Service) SignInAtProvider(r *http.Request) (cookies []*http.Cookie, choose bool, err error) {
	if s.cfg.Provider == nil {
		return nil, false, errNoProvider
	}
	if err := s.Check(r); err != nil {
		return nil, false, err
	}
	ctx, answer, now := r.Context(), r.URL.Query(), s.db.Now()
	attempt := attemptOf(only(r, s.browsers.attempt.Name), answer.Get("state"), now)
	if attempt.State == "" {
		return nil, false, oidc.ErrForeign // what this browser has begun goes on
	}
	// Any page can have browsers load this address: only answers that a browser has asked for count.
	if err := s.callers.Count(r); err != nil {
		return nil, false, err
	}
	cookies = []*http.Cookie{filled(s.browsers.attempt, "")} // the attempt is over
	who, err := s.cfg.Provider.Identify(ctx, answer, attempt)
	if err != nil {
		return cookies, false, err
	}
	who.Email = normalAddress(who.Email)
	all, err := s.membersOf(ctx, s.db.Read(), who)
	switch {
	case err != nil:
		return cookies, false, err
	case len(all) == 0:
		return cookies, false, s.nobody(ctx, who)
	case len(all) > 1 || !all[0].Bound:
		token := api.NewSecret()
		if err := s.keepChoice(ctx, token, who, store.At(now.Add(attemptAge))); err != nil {
			return cookies, false, err
		}
		return []*http.Cookie{filled(s.browsers.attempt, token)}, true, nil
	}
	session, err := s.signInAs(r, who, all[0].ID)
	if err != nil {
		return cookies, false, err
	}
	return append(cookies, session), false, nil
}

// normalAddress is an address of the provider as an invitation has it; empty if it is none. Only A to Z become small:
// other letters become those of other addresses.
func normalAddress(email string) string {
	if !mailer.IsAddress(email) {
		return ""
	}
	return strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' {
			return c + 'a' - 'A'
		}
		return c
	}, email)
}

// lost says whether the member is bound to an account that this database doesn't know.
func (m *Member) lost() bool { return m.Bound && (m.Issuer == nil || m.Subject == nil) }

// admits says whether somebody may sign in as the member: the account that the member is bound to, or, before that, one
// whose address is the invited one and verified.
func (m *Member) admits(who oidc.Identity) bool {
	switch {
	case m.State == Removed || m.erased() || who.Subject == "" || m.lost():
		return false
	case m.Bound:
		return *m.Issuer == who.Issuer && *m.Subject == who.Subject
	}
	return who.Email != "" && m.Email == who.Email
}

// membersOf lists who somebody may sign in as, in any tenant: those who are bound to the account first.
func (s *Service) membersOf(ctx context.Context, q store.Querier, who oidc.Identity) (all []Member, err error) {
	bound, err := ofSubject(ctx, q, who.Issuer, who.Subject)
	if err != nil {
		return nil, err
	}
	unbound, err := unboundOf(ctx, q, who.Email)
	if err != nil {
		return nil, err
	}
	for _, m := range append(bound, unbound...) {
		if m.admits(who) {
			all = append(all, m)
		}
	}
	return all, nil
}

// nobody is the answer to somebody who is no member: it says no more than the person knows, or has shown to be theirs.
func (s *Service) nobody(ctx context.Context, who oidc.Identity) error {
	name := s.cfg.Provider.Name()
	if who.Email == "" {
		return &api.Error{Code: api.AuthInvalid, Message: "your account at " + name + " is no member's yet, and " + name + " says of no address of yours that it has verified it: have it verified there, or have a link mailed to you"}
	}
	others, err := ofAddress(ctx, s.db.Read(), who.Email)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(others, func(m Member) bool { return m.lost() }) {
		return &api.Error{Code: api.AuthInvalid, Message: "the member with the address " + who.Email + " has signed in at " + name + " before, but the service doesn't know any more by which account, as its database was restored: have a link mailed to you. To sign in at " + name + ", have an owner remove the member and invite the address again"}
	}
	if len(others) > 0 {
		return &api.Error{Code: api.AuthInvalid, Message: "the member with the address " + who.Email + " signs in with another account of " + name + ": use that one, have a link mailed to you, or have an owner remove the member and invite the address again"}
	}
	return &api.Error{Code: api.AuthInvalid, Message: "you have signed in at " + name + " as " + who.Email + ", which is no member's address: use another account, or have an owner of your tenant invite this address"}
}

// signInAs makes a session of a member for somebody, and binds the member to the account if it is bound to none.
func (s *Service) signInAs(r *http.Request, who oidc.Identity, memberID string) (*http.Cookie, error) {
	ctx := r.Context()
	m, err := findAny(ctx, s.db.Read(), memberID)
	if err != nil && !store.IsNone(err) {
		return nil, err
	}
	if err != nil || !m.admits(who) {
		return nil, s.nobody(ctx, who)
	}
	if m.Bound && m.State == Active {
		return s.signIn(r, m.TenantID, m.ID, who.AuthenticatedAt)
	}
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		was, err := findAny(ctx, tx, memberID)
		if store.IsNone(err) || err == nil && !was.admits(who) { // as of this change
			return errEnded
		}
		switch {
		case err != nil || was.Bound && was.State == Active: // or another of the person's browsers was faster
			return err
		case was.State == Active:
			return bindTo(ctx, tx, was, who, bind)
		default:
			return bindTo(ctx, tx, was, who, join)
		}
	})
	if err != nil {
		return nil, err
	}
	return s.signIn(r, m.TenantID, m.ID, who.AuthenticatedAt)
}

// Choice is a tenant that somebody who has signed in at the provider may enter.
type Choice struct {
	MemberID, TenantID, OrgID string
	// Env is that of the keys that the member makes: an organisation may have a tenant for tests beside another.
	Env  string
	Role Role
	// New says that the member has not signed in by the provider yet: choosing it binds the member to the account.
	New bool
}

// Choices lists who the person at a browser may sign in as, after SignInAtProvider; AUTH_INVALID if nothing is to be
// chosen there.
func (s *Service) Choices(r *http.Request) (choices []Choice, err error) {
	who, err := s.choosing(r)
	if err != nil {
		return nil, err
	}
	all, err := s.membersOf(r.Context(), s.db.Read(), who)
	for _, m := range all {
		choices = append(choices, Choice{m.ID, m.TenantID, m.OrgID, m.Env, m.Role, !m.Bound})
	}
	return choices, err
}

// choosing is who has to choose at a browser.
func (s *Service) choosing(r *http.Request) (oidc.Identity, error) {
	if s.cfg.Provider == nil {
		return oidc.Identity{}, errNoProvider
	}
	who, err := findChoice(r.Context(), s.db.Read(), only(r, s.browsers.attempt.Name), s.db.Now())
	if err == nil && (who == nil || who.Issuer != s.cfg.Provider.Issuer()) {
		err = oidc.ErrForeign
	}
	if err != nil {
		return oidc.Identity{}, err
	}
	return *who, nil
}

// Choose makes a session of one of Choices, as SignInAtProvider does of the only one. It counts as none of the requests
// that are limited: who has to choose has signed in by one that did.
func (s *Service) Choose(r *http.Request, memberID string) (cookies []*http.Cookie, err error) {
	if err := s.Check(r); err != nil {
		return nil, err
	}
	who, err := s.choosing(r)
	if err != nil {
		return nil, err
	}
	all, err := s.membersOf(r.Context(), s.db.Read(), who)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(all, func(m Member) bool { return m.ID == memberID }) {
		return nil, &api.Error{Code: api.ResourceNotFound, Message: "this is none of your tenants: choose again"}
	}
	session, err := s.signInAs(r, who, memberID)
	if err != nil {
		return nil, err
	}
	if err := s.forgetChoice(r.Context(), who); err != nil {
		return nil, err
	}
	return []*http.Cookie{filled(s.browsers.attempt, ""), session}, nil
}
