package oidc

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"muniment.example/gateway/api"
)

// Attempt is what makes an answer that of one sign-in: nobody else knows Nonce and Verifier, and nobody guesses State.
type Attempt struct {
	State, Nonce string
	// Verifier is that of PKCE (RFC 7636): 43 to 128 characters.
	Verifier string
	// MaxAge is how long ago the person may have proved to the provider who they are; 0 has the provider ask again.
	MaxAge time.Duration
	// Since is when the attempt began.
	Since time.Time
}

// Identity is who the provider says somebody is.
type Identity struct {
	Issuer string
	// Subject is the person's permanent id at the provider.
	Subject string
	// Email is an address of the person that the provider says it has verified; empty if it says of none that it has.
	Email string
	// AuthenticatedAt is when the person last proved to the provider who they are: no later than now.
	AuthenticatedAt time.Time
}

// Address is where a browser goes to sign in.
func (p *Provider) Address(ctx context.Context, a Attempt) (string, error) {
	release, err := p.admit()
	if err != nil {
		return "", err
	}
	defer release()
	waits, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	d, err := p.describe(waits)
	if err != nil {
		return "", p.away(ctx, err)
	}
	client, err := p.oauth(d)
	if err != nil {
		return "", p.away(ctx, err)
	}
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(a.Verifier), gooidc.Nonce(a.Nonce), oauth2.SetAuthURLParam("max_age", strconv.Itoa(int(a.MaxAge.Seconds())))}
	if a.MaxAge == 0 {
		options = append(options, oauth2.SetAuthURLParam("prompt", "login"))
	}
	return client.AuthCodeURL(a.State, options...), nil
}

// ErrForeign is the error of an answer to another attempt: the attempt goes on.
var ErrForeign error = &api.Error{Code: api.AuthInvalid, Message: "this sign-in did not begin in this browser, or is over: begin again"}

// refused is the error of an answer that shows nobody.
func refused(message string) error { return &api.Error{Code: api.AuthInvalid, Message: message} }

// Identify reads the query with which the provider has sent a browser back. The errors are AUTH_INVALID, and 503 if the
// provider is at fault; ErrForeign is that of an answer to another attempt.
func (p *Provider) Identify(ctx context.Context, answer url.Values, a Attempt) (who Identity, err error) {
	for name, values := range answer {
		if len(values) != 1 && (name == "state" || name == "code" || name == "iss" || name == "error") {
			return who, ErrForeign
		}
	}
	if a.State == "" || subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(a.State)) != 1 {
		return who, ErrForeign
	}
	release, err := p.admit()
	if err != nil {
		return who, err
	}
	defer release()
	waits, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	d, err := p.describe(waits)
	if err != nil {
		return who, p.away(ctx, err)
	}
	if iss := answer.Get("iss"); (iss != "" || d.namesSelf) && iss != p.cfg.Issuer {
		return who, refused("this answer is not from " + p.name + ": begin again")
	}
	if answer.Has("error") {
		return who, p.declined(ctx, answer.Get("error"))
	}
	if answer.Get("code") == "" {
		return who, refused(p.name + " has sent you back without an answer: begin again")
	}
	client, err := p.oauth(d)
	if err != nil {
		return who, p.away(ctx, err)
	}
	with := gooidc.ClientContext(waits, p.client)
	tokens, err := client.Exchange(with, answer.Get("code"), oauth2.VerifierOption(a.Verifier))
	if err != nil {
		if said, ok := errors.AsType[*oauth2.RetrieveError](err); ok && said.ErrorCode == "invalid_grant" {
			return who, refused(p.name + " does not take its answer back: it was used, or too much time has passed. Begin again")
		}
		return who, p.away(ctx, fmt.Errorf("cannot exchange a code: %w", err))
	}
	raw, _ := tokens.Extra("id_token").(string)
	token, err := d.verifier.Verify(with, raw)
	if err != nil {
		return who, p.distrusted(ctx, err)
	}
	var says claims
	if err := token.Claims(&says); err != nil {
		return who, p.distrusted(ctx, err)
	}
	now := p.cfg.Now()
	switch {
	case subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(a.Nonce)) != 1:
		return who, p.distrusted(ctx, errors.New("the nonce is another one"))
	case says.Party != "" && says.Party != p.cfg.ClientID || len(token.Audience) > 1 && says.Party == "":
		return who, p.distrusted(ctx, errors.New("the token is for another client"))
	case !api.Printable(token.Subject, maxText):
		return who, p.distrusted(ctx, fmt.Errorf("the subject is empty, longer than %d characters or not of ASCII", maxText))
	case says.AuthenticatedAt <= 0 || time.Unix(says.AuthenticatedAt, 0).After(now.Add(skew)):
		return who, p.distrusted(ctx, errors.New("auth_time is missing or in the future"))
	}
	if authenticated := time.Unix(says.AuthenticatedAt, 0); authenticated.Before(a.Since.Add(-a.MaxAge - skew)) {
		return who, refused(p.name + " has let you in without asking who you are, as this needs: sign out there and try again, or sign in another way")
	}
	if says.Email == "" && d.provider.UserInfoEndpoint() != "" {
		if says.address, err = p.userInfo(with, d, tokens, token.Subject); err != nil {
			// Then it has no address: who has signed in before needs none.
			p.cfg.Logger.WarnContext(ctx, "a provider of OpenID Connect does not say the address of somebody who has signed in", "issuer", p.cfg.Issuer, "err", short(err))
		}
	}
	who = Identity{Issuer: p.cfg.Issuer, Subject: token.Subject, AuthenticatedAt: time.Unix(says.AuthenticatedAt, 0)}
	if who.AuthenticatedAt.After(now) {
		who.AuthenticatedAt = now
	}
	if says.EmailVerified == true && len(says.Email) <= maxText { // the word "true" is not true
		who.Email = says.Email
	}
	return who, nil
}

// address is what a provider says of a person's address.
type address struct {
	Email         string `json:"email"`
	EmailVerified any    `json:"email_verified"`
}

// claims are those of an ID token that go-oidc does not check.
type claims struct {
	address
	Party           string `json:"azp"`
	AuthenticatedAt int64  `json:"auth_time"`
}

// userInfo reads the address where the ID token has none.
func (p *Provider) userInfo(ctx context.Context, d *description, tokens *oauth2.Token, subject string) (a address, err error) {
	info, err := d.provider.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	if err == nil && info.Subject != subject {
		err = errors.New("it is about another subject")
	}
	if err == nil {
		err = info.Claims(&a)
	}
	if err != nil {
		return address{}, fmt.Errorf("cannot read the user's information: %w", err)
	}
	return a, nil
}

// declined is the error of an answer with an error. What it says comes with a browser, so no page repeats it.
func (p *Provider) declined(ctx context.Context, code string) error {
	if !api.Printable(code, 64) {
		code = ""
	}
	if code == "access_denied" {
		return refused("you were not let in at " + p.name + ", or have cancelled there")
	}
	p.cfg.Logger.WarnContext(ctx, "a sign-in by OpenID Connect was declined by the provider", "issuer", p.cfg.Issuer, "code", code)
	return refused(p.name + " did not sign you in: try again, or sign in another way. If it stays, the operator of this service finds the reason in its log")
}

// distrusted is the error of an ID token that does not hold, whatever is wrong with it.
func (p *Provider) distrusted(ctx context.Context, err error) error {
	text := short(err)
	if strings.Contains(text, "fetching keys") { // as go-oidc has it: it wraps no error
		return p.away(ctx, err)
	}
	p.cfg.Logger.WarnContext(ctx, "an ID token of the provider is not good", "issuer", p.cfg.Issuer, "err", text)
	return &api.Error{Code: api.AuthInvalid, HTTPStatus: http.StatusUnauthorized, Message: "what " + p.name + " says of you can't be relied on: try again, or sign in another way. If it stays, the operator of this service finds the reason in its log"}
}
