package tenant

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"muniment.example/control/node"
	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/sealer"
)

// Key is the record of an API key. The contract names id, label, prefix and scopes.
type Key struct {
	KeyID          string        `json:"keyId" db:"key_id"`
	TenantID       string        `json:"-" db:"tenant_id"`
	OrgID          string        `json:"-" db:"org_id"`
	DeveloperID    string        `json:"developerId" db:"developer_id"`
	Label          string        `json:"label" db:"label"`
	Prefix         string        `json:"prefix" db:"prefix" doc:"The part of the key before its secret."`
	SecretHash     secretHash    `json:"-" db:"secret_hash"`
	Scopes         []string      `json:"scopes" db:"scopes"`
	CreatedBy      string        `json:"createdBy" db:"created_by" doc:"The key or the member that created it, or operator or system."`
	ExpiresAt      store.Instant `json:"expiresAt" db:"expires_at,moves" nullable:"true"`
	RevokedAt      store.Instant `json:"revokedAt" db:"revoked_at,moves" nullable:"true"`
	SuccessorKeyID *string       `json:"successorKeyId" db:"successor_key_id,moves" doc:"The key that replaced it in a rotation."`
	CreatedAt      store.Instant `json:"createdAt" db:"created_at"`
	UpdatedAt      store.Instant `json:"updatedAt" db:"updated_at,moves"`
	Revision       int64         `json:"revision" db:"revision,moves"`

	// LastUsedAt is there where a key is read, and in no event.
	LastUsedAt *store.Instant `json:"lastUsedAt,omitempty" nullable:"true" doc:"Where a key is read: when a request with it was last admitted, or a beacon made by it called, to the minute, as far as it is known within seconds; null for never. What a process has counted in its last seconds is lost if it is killed."`
}

// KeyRequest is a request for a key.
type KeyRequest struct {
	Label     string      `json:"label" minLength:"1" maxLength:"128" doc:"What the key is for."`
	Scopes    []string    `json:"scopes,omitempty" minItems:"1" maxItems:"64" maxLength:"64" doc:"Scopes that the calling key holds as well; every scope but the wildcard when absent."`
	ExpiresAt *route.Time `json:"expiresAt,omitempty" nullable:"true" doc:"When the key expires; not later than the calling key, whose expiry is the default."`
}

// Rotation is a request for a rotation.
type Rotation struct {
	OverlapSeconds *int64      `json:"overlapSeconds,omitempty" nullable:"true" minimum:"0" maximum:"2592000" doc:"How long the old key still works; a day when absent, at most 30 days."`
	ExpiresAt      *route.Time `json:"expiresAt,omitempty" nullable:"true" doc:"When the new key expires; when absent it lives as long as the old key was meant to. It does not expire later than the calling key."`
}

// defaultOverlap is how long a rotated key still works.
const defaultOverlap = 24 * time.Hour

func (q *Rotation) overlap() time.Duration {
	if q.OverlapSeconds == nil {
		return defaultOverlap
	}
	return time.Duration(*q.OverlapSeconds) * time.Second
}

// Rotated is the response to a rotation; it shows the new key.
type Rotated struct {
	Key         Key              `json:"key"`
	APIKey      string           `json:"apiKey" doc:"The new key itself; it can't be shown again."`
	Replaced    Key              `json:"replaced" doc:"The old key, with its end."`
	Propagation node.Propagation `json:"propagation"`
}

// Revocation is the response to a revocation.
type Revocation struct {
	Key         Key              `json:"key"`
	Propagation node.Propagation `json:"propagation"`
	// A thief may have rotated the key.
	Successors []string `json:"successors,omitempty" doc:"Keys that replaced the key in rotations, and still work: revoke them too unless they are yours."`
	// A thief may have invited persons, who would join later.
	WithdrawnInvitations []string `json:"withdrawnInvitations,omitempty" doc:"Members whom the key had invited and who had not signed in yet: they were removed with it."`
	Outlasting
}

// Outlasting is what a key has made and what works on when the key has ended, since a thief may have made it.
type Outlasting struct {
	MadeKeys           []MadeKey       `json:"madeKeys,omitempty" doc:"Keys in force that the key created, or that what it made created, newest first, at most 100: revoke them too unless they are yours."`
	MoreMadeKeys       bool            `json:"moreMadeKeys,omitempty" doc:"Whether there are more than these: revoke some, and repeat the request."`
	MadeMembers        []MadeMember    `json:"madeMembers,omitempty" doc:"Members whom the key invited, or whom what it made invited, newest first, at most 100: remove them unless you know them."`
	MoreMadeMembers    bool            `json:"moreMadeMembers,omitempty" doc:"Whether there are more than these: remove some, and repeat the request."`
	MadePayeeLinks     []MadePayeeLink `json:"madePayeeLinks,omitempty" doc:"Links in force by which payees read their parts of statements, and that the key or what it made has made, newest first, at most 100: revoke them unless they are yours."`
	MoreMadePayeeLinks bool            `json:"moreMadePayeeLinks,omitempty" doc:"Whether there are more than these: revoke some, and repeat the request."`
}

// MadeMember is a member whom a key invited.
type MadeMember struct {
	MemberID  string        `json:"memberId" doc:"The member."`
	Role      string        `json:"role" enum:"owner,finance,operations,viewer" doc:"What the member may do."`
	State     string        `json:"state" enum:"INVITED,ACTIVE" doc:"Whether the member has signed in: ACTIVE, or not yet: INVITED."`
	InvitedBy string        `json:"invitedBy" doc:"The key or the member who invited the member."`
	CreatedAt store.Instant `json:"createdAt"`
}

// MadePayeeLink is a payee's link that a key made.
type MadePayeeLink struct {
	PayeeLinkID string        `json:"payeeLinkId" doc:"The link."`
	StatementID string        `json:"statementId" doc:"The statement that it shows a part of."`
	CreatedBy   string        `json:"createdBy" doc:"The key or the member that made it."`
	CreatedAt   store.Instant `json:"createdAt"`
	ExpiresAt   store.Instant `json:"expiresAt" doc:"When it stops to work."`
}

// MadeKey is a key that the revoked key created.
type MadeKey struct {
	KeyID     string        `json:"keyId"`
	Label     string        `json:"label"`
	CreatedBy string        `json:"createdBy" doc:"The key or the member that created it."`
	CreatedAt store.Instant `json:"createdAt"`
	ExpiresAt store.Instant `json:"expiresAt" nullable:"true"`
}

// changer is a caller that changes keys: an API key, limited to its tenant and its scopes, or an
// operator.
type changer struct {
	by       sealer.Ref
	operator bool
	tenantID string
	scopes   api.Scopes
}

func callerOf(p auth.Principal) changer {
	return changer{by: store.ByKey(p.ID), tenantID: p.TenantID, scopes: p.Scopes}
}

// anOperator may change every key.
func anOperator() changer {
	return changer{by: store.ByOperator(), operator: true, scopes: api.Scopes(api.Wildcard)}
}

// find returns the key; RESOURCE_NOT_FOUND for another tenant's key as for none.
func (c changer) find(ctx context.Context, q store.Querier, keyID string) (*Key, error) {
	if c.operator {
		return findAnyKey(ctx, q, keyID)
	}
	return keys.Find(ctx, q, c.tenantID, keyID)
}

// mayGrant refuses scopes that the changer lacks.
func (c changer) mayGrant(scopes api.Scopes) error {
	return c.requireAll(scopes, "a key can't grant scopes that it lacks")
}

// mayRevoke refuses a key with scopes that the changer lacks, unless it is the changer itself.
func (c changer) mayRevoke(k *Key) error {
	held, err := api.ParseScopes(k.Scopes)
	if err != nil || !c.operator && c.by.ID == k.KeyID {
		return err
	}
	return c.requireAll(held, "a key can't revoke another that has scopes that it lacks")
}

// requireAll returns SCOPE_MISSING with a message if the changer lacks one of the scopes.
func (c changer) requireAll(scopes api.Scopes, message string) error {
	if missing := lacking(scopes, c.scopes); len(missing) > 0 {
		return &api.Error{Code: api.ScopeMissing, Message: message, RequiredScopes: missing, KeyScopes: c.scopes.Names()}
	}
	return nil
}

// callingKey reads the key of the caller, nil for an operator and for a member. Once the key is
// revoked or has expired, or the member has less scopes than c, the error is AUTH_INVALID, also for a
// request that was admitted before, so the response of a revocation lists all keys that the key created.
func (s *Service) callingKey(ctx context.Context, tx *store.Tx, c changer, now time.Time) (*Key, error) {
	if c.operator {
		return nil, nil
	}
	if c.by.Kind == "member" {
		held, err := s.scopes(ctx, tx, c.by.ID, now)
		if err == nil && (held == 0 || len(lacking(c.scopes, held)) > 0) {
			err = auth.ErrInvalid
		}
		return nil, err
	}
	k, err := keys.Find(ctx, tx, c.tenantID, c.by.ID)
	if store.IsNone(err) || err == nil && !k.inForce(now) {
		return nil, auth.ErrInvalid
	}
	return k, err
}

// inForce says whether the key may be used.
func (k *Key) inForce(now time.Time) bool {
	return k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt.Time))
}

// notAfter returns the requested end of a key, or the latest one if none was requested. A zero
// latest is no limit. latestIs says whose end the latest is, for the error.
func notAfter(requested, latest store.Instant, latestIs string) (store.Instant, error) {
	switch {
	case latest.IsZero():
		return requested, nil
	case requested.IsZero():
		return latest, nil
	case requested.After(latest.Time):
		return requested, api.InvalidField("expiresAt", "must not be later than "+latest.String()+", "+latestIs)
	}
	return requested, nil
}

const endOfCaller = "the expiry of the calling key"

// makeKey makes a key. owner has its tenant, organisation and developer.
func (s *Service) makeKey(ctx context.Context, c changer, owner Key, env string, q KeyRequest) (Made, error) {
	now := s.db.Now()
	set, err := scopeSet(q.Scopes)
	if err != nil {
		return Made{}, api.InvalidField("scopes", err.Error())
	}
	if len(q.Scopes) == 0 && !c.scopes.Allows(api.Wildcard) {
		set &= c.scopes // the default is every scope that the caller may grant
	}
	if err := c.mayGrant(set); err != nil {
		return Made{}, err
	}
	k := owner
	k.Label, k.Scopes = q.Label, set.Names()
	expires, err := inFuture("expiresAt", q.ExpiresAt, now)
	if err != nil {
		return Made{}, err
	}
	var token string
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		maker, err := s.callingKey(ctx, tx, c, now)
		if err != nil {
			return err
		}
		k.ExpiresAt = expires
		if maker != nil {
			if k.ExpiresAt, err = notAfter(expires, maker.ExpiresAt, endOfCaller); err != nil {
				return err
			}
		}
		token, err = createKey(ctx, tx, &k, env, c.by, now)
		return err
	})
	return Made{Key: k, APIKey: token}, err
}

// inFuture reads an optional time, which must be in the future.
func inFuture(field string, t *route.Time, now time.Time) (store.Instant, error) {
	at, err := route.Given(field, t)
	if err == nil && !at.IsZero() && !at.After(now) {
		err = api.InvalidField(field, "must be in the future")
	}
	return at, err
}

// errLogAway refuses to end a key that nothing would have ended if the database were lost.
var errLogAway = api.Unavailable(api.LogUnavailable, "the event log does not answer; nothing was changed", time.Second)

// rotateKey replaces a key by a new one, in one change with one event.
func (s *Service) rotateKey(ctx context.Context, c changer, keyID string, q Rotation) (Rotated, error) {
	now := s.db.Now()
	expires, err := inFuture("expiresAt", q.ExpiresAt, now)
	if err != nil {
		return Rotated{}, err
	}
	// Who ends the key of the call can't repeat it, so that the log answers is known before, too.
	if q.overlap() == 0 && s.db.Confirm(ctx) != nil {
		return Rotated{}, errLogAway
	}
	var after Rotated
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		maker, err := s.callingKey(ctx, tx, c, now)
		if err != nil {
			return err
		}
		k, err := c.find(ctx, tx, keyID)
		if err != nil {
			return err
		}
		held, err := api.ParseScopes(k.Scopes)
		if err != nil {
			return err
		}
		if err := c.mayGrant(held); err != nil {
			return err
		}
		next, err := k.successor(now)
		if err != nil {
			return err
		}
		if next.ExpiresAt, err = endOfSuccessor(ctx, tx, maker, k, next.ExpiresAt, expires, now); err != nil {
			return err
		}
		if after.APIKey, err = issue(&next, EnvOf(k.Prefix), c.by, now); err != nil {
			return err
		}
		if err := keys.Insert(ctx, tx, &next); err != nil {
			return err
		}
		old := k.endedBy(next.KeyID, now.Add(q.overlap()))
		old.UpdatedAt = store.At(now)
		if err := keys.Update(ctx, tx, k, &old); err != nil {
			return err
		}
		after.Key, after.Replaced = next, old
		return keys.Emit(ctx, tx, keyRotated, &old, c.by, Successor{next})
	})
	if err == nil && q.overlap() == 0 { // the old key has ended
		err = s.db.Confirm(ctx)
	}
	if err != nil {
		return Rotated{}, err
	}
	after.Propagation = s.nodes.Await(ctx, after.Key.Revision)
	return after, nil
}

// successor returns the key that replaces k: its owner, label, scopes and end. It fails for a
// key that is not in force, or that has a successor.
func (k Key) successor(now time.Time) (Key, error) {
	switch {
	case !k.RevokedAt.IsZero():
		return Key{}, api.Conflict("the key is revoked")
	case k.SuccessorKeyID != nil:
		return Key{}, api.Conflict("the key was rotated before: its successor is " + *k.SuccessorKeyID)
	case !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt.Time):
		return Key{}, api.Conflict("the key has expired")
	}
	next := Key{TenantID: k.TenantID, OrgID: k.OrgID, DeveloperID: k.DeveloperID, Label: k.Label, Scopes: k.Scopes}
	if !k.ExpiresAt.IsZero() {
		next.ExpiresAt = store.At(now.Add(k.ExpiresAt.Sub(k.CreatedAt.Time)))
	}
	return next, nil
}

// endOfSuccessor returns the end of k's successor, which is the requested one, or else the
// default. An operator (maker is nil), or a key without an end, may request any. The successor of
// another key ends no later than the caller. If the caller rotates itself, or one of its own
// successors because it lost a response, the successor ends no later than k: a stolen key could
// prolong itself otherwise.
func endOfSuccessor(ctx context.Context, q store.Querier, maker, k *Key, byDefault, requested store.Instant, now time.Time) (store.Instant, error) {
	latest, latestIs := store.Instant{}, ""
	if maker != nil {
		successors, err := maker.successors(ctx, q, now)
		if err != nil {
			return requested, err
		}
		if maker.KeyID == k.KeyID || slices.Contains(successors, k.KeyID) {
			latest, latestIs = k.ExpiresAt, "the expiry of the key that is rotated"
		} else {
			latest, latestIs = maker.ExpiresAt, endOfCaller
		}
	}
	if requested.IsZero() {
		requested = byDefault
		if !latest.IsZero() && requested.After(latest.Time) {
			requested = latest
		}
	}
	return notAfter(requested, latest, latestIs)
}

// endedBy returns the key with its successor: it expires at end, or earlier if it would anyway.
func (k Key) endedBy(successor string, end time.Time) Key {
	k.SuccessorKeyID = &successor
	if k.ExpiresAt.IsZero() || end.Before(k.ExpiresAt.Time) {
		k.ExpiresAt = store.At(end)
	}
	return k
}

// revokeKey revokes a key.
func (s *Service) revokeKey(ctx context.Context, c changer, keyID string) (Revocation, error) {
	now := s.db.Now()
	var after Key
	var successors, withdrawn []string
	err := s.db.Stop(ctx, func(tx *store.Tx) error {
		k, err := c.find(ctx, tx, keyID)
		if err != nil {
			return err
		}
		if err := c.mayRevoke(k); err != nil {
			return err
		}
		if successors, err = k.successors(ctx, tx, now); err != nil {
			return err
		}
		if after = *k; !k.RevokedAt.IsZero() {
			return nil
		}
		after.RevokedAt, after.UpdatedAt = store.At(now), store.At(now)
		if err := keys.Update(ctx, tx, k, &after); err != nil {
			return err
		}
		if err := keys.Emit(ctx, tx, keyRevoked, &after, c.by, nil); err != nil {
			return err
		}
		if s.withdraw != nil {
			if withdrawn, err = s.withdraw(ctx, tx, after.TenantID, after.KeyID, c.by); err != nil {
				return err
			}
		}
		if s.ended == nil {
			return nil
		}
		return s.ended(ctx, tx, after.TenantID)
	})
	if err != nil {
		return Revocation{}, err
	}
	revocation := Revocation{Key: after, Propagation: s.nodes.Await(ctx, after.Revision), Successors: successors, WithdrawnInvitations: withdrawn}
	revocation.Outlasting, err = madeBy(ctx, s.db.Read(), &after, now)
	return revocation, err
}

// successors lists the keys in force among k's successor, its successor, and so on. The last of
// them may be missing in an older copy of the database.
func (k Key) successors(ctx context.Context, q store.Querier, now time.Time) (keyIDs []string, err error) {
	for k.SuccessorKeyID != nil {
		next, err := findAnyKey(ctx, q, *k.SuccessorKeyID)
		if store.IsNone(err) {
			return keyIDs, nil
		}
		if err != nil {
			return keyIDs, err
		}
		if k = *next; k.inForce(now) {
			keyIDs = append(keyIDs, k.KeyID)
		}
	}
	return keyIDs, nil
}

// KeyInForce returns the key under which work that a key began continues: the first in force at a
// time, of the key and its successors in rotations. If none is, or the key was revoked, it returns
// the key itself.
func KeyInForce(ctx context.Context, q store.Querier, keyID string, at time.Time) (string, error) {
	for next := keyID; ; {
		k, err := findAnyKey(ctx, q, next)
		switch {
		case store.IsNone(err):
			return keyID, nil
		case err != nil:
			return "", err
		case k.inForce(at):
			return k.KeyID, nil
		case !k.RevokedAt.IsZero() || k.SuccessorKeyID == nil:
			return keyID, nil
		}
		next = *k.SuccessorKeyID
	}
}

// ScopesInForce returns the scopes of the first key in force at a time, of a key and its successors in
// rotations; 0 if none is.
func ScopesInForce(ctx context.Context, q store.Querier, keyID string, at time.Time) (api.Scopes, error) {
	k, err := findAnyKey(ctx, q, keyID)
	if store.IsNone(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if !k.inForce(at) {
		successors, err := k.successors(ctx, q, at)
		if err != nil || len(successors) == 0 {
			return 0, err
		}
		if k, err = findAnyKey(ctx, q, successors[0]); err != nil {
			return 0, err
		}
	}
	return api.ParseScopes(k.Scopes)
}

// createKey writes a new key's record, event and feed entry, and returns the only copy of the key
// itself. The caller has filled in its owner, label and scopes.
func createKey(ctx context.Context, tx *store.Tx, k *Key, env string, by sealer.Ref, now time.Time) (token string, err error) {
	if token, err = issue(k, env, by, now); err != nil {
		return "", err
	}
	return token, keys.Create(ctx, tx, keyCreated, k, by, nil)
}

// issue gives a new key its id, its creator and its secret.
func issue(k *Key, env string, by sealer.Ref, now time.Time) (token string, err error) {
	k.KeyID, k.CreatedAt, k.UpdatedAt, k.CreatedBy = api.NewID(api.PrefixKey, now), store.At(now), store.At(now), by.Kind
	if by.Kind == "key" || by.Kind == "member" {
		k.CreatedBy = by.ID
	}
	token, k.Prefix, k.SecretHash, err = auth.NewKey(rand.Reader, env, k.KeyID)
	return token, err
}

// feedKey publishes the key to nodes.
func feedKey(ctx context.Context, tx *store.Tx, k *Key) error {
	scopes, err := api.ParseScopes(k.Scopes)
	if err != nil {
		return fmt.Errorf("cannot publish the key %s: %w", k.KeyID, err)
	}
	sandbox, err := IsSandbox(ctx, tx, k.TenantID)
	if err != nil {
		return err
	}
	return store.Publish(ctx, tx, api.Keys, &api.Key{
		ID: k.KeyID, TenantID: k.TenantID, OrgID: k.OrgID, DeveloperID: k.DeveloperID, Revision: k.Revision,
		Label: k.Label, Prefix: k.Prefix, SecretHash: k.SecretHash, Scopes: scopes, Sandbox: sandbox,
		ExpiresAt: k.ExpiresAt.Time, RevokedAt: k.RevokedAt.Time,
	})
}

// scopeSet reads the scopes of a new key; the default is every scope but the wildcard.
func scopeSet(names []string) (api.Scopes, error) {
	if len(names) == 0 {
		return api.EveryScope, nil
	}
	return api.ParseScopes(names)
}

// lacking lists the scopes that are wanted and not held.
func lacking(wanted, held api.Scopes) []string {
	if held&api.Scopes(api.Wildcard) != 0 {
		return nil
	}
	return (wanted &^ held).Names()
}

// EnvOf returns the environment of keys with a prefix.
func EnvOf(prefix string) string {
	if strings.HasPrefix(prefix, "mun_"+auth.EnvLive+"_") {
		return auth.EnvLive
	}
	return auth.EnvTest
}
