package tenant

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"muniment/control/node"
	"muniment/control/route"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/gateway/auth"
	"muniment/sealer"
)

// Key is the record of an API key. The contract names id, label, prefix and scopes.
type Key struct {
	KeyID          string        `json:"keyId" db:"key_id"`
	TenantID       string        `json:"-" db:"tenant_id"`
	OrgID          string        `json:"-" db:"org_id"`
	DeveloperID    string        `json:"developerId" db:"developer_id"`
	Label          string        `json:"label" db:"label"`
	Prefix         string        `json:"prefix" db:"prefix" doc:"Everything of the key before its secret."`
	SecretHash     secretHash    `json:"-" db:"secret_hash"`
	Scopes         []string      `json:"scopes" db:"scopes"`
	CreatedBy      string        `json:"createdBy" db:"created_by" doc:"The key that made it, or operator or system."`
	ExpiresAt      store.Instant `json:"expiresAt" db:"expires_at,moves" nullable:"true"`
	RevokedAt      store.Instant `json:"revokedAt" db:"revoked_at,moves" nullable:"true"`
	SuccessorKeyID *string       `json:"successorKeyId" db:"successor_key_id,moves" doc:"The key that took over in a rotation."`
	CreatedAt      store.Instant `json:"createdAt" db:"created_at"`
	UpdatedAt      store.Instant `json:"updatedAt" db:"updated_at,moves"`
	Revision       int64         `json:"revision" db:"revision,moves"`
}

// KeyRequest is a request for a key.
type KeyRequest struct {
	Label     string      `json:"label" minLength:"1" maxLength:"128" doc:"What the key is for."`
	Scopes    []string    `json:"scopes,omitempty" maxItems:"64" maxLength:"64" doc:"Scopes that the calling key holds as well; every scope but the wildcard when absent."`
	ExpiresAt *route.Time `json:"expiresAt,omitempty" nullable:"true" doc:"The end of the key, not later than that of the calling key; when absent it is that."`
}

// Rotation is a request for a rotation.
type Rotation struct {
	OverlapSeconds *int64      `json:"overlapSeconds,omitempty" nullable:"true" minimum:"0" maximum:"2592000" doc:"How long the old key works on; a day when absent, at most 30 days."`
	ExpiresAt      *route.Time `json:"expiresAt,omitempty" nullable:"true" doc:"The end of the new key; when absent it lives as long as the old key was meant to. It is not later than the end of the calling key."`
}

// defaultOverlap is how long a rotated key works on.
const defaultOverlap = 24 * time.Hour

func (q *Rotation) overlap() time.Duration {
	if q.OverlapSeconds == nil {
		return defaultOverlap
	}
	return time.Duration(*q.OverlapSeconds) * time.Second
}

// Rotated is the answer to a rotation; it shows the new key.
type Rotated struct {
	Key         Key              `json:"key"`
	APIKey      string           `json:"apiKey" doc:"The new key itself; it can't be shown again."`
	Replaced    Key              `json:"replaced" doc:"The old key, with its end."`
	Propagation node.Propagation `json:"propagation"`
}

// Revocation is the answer to a revocation, which is in force here at once.
type Revocation struct {
	Key         Key              `json:"key"`
	Propagation node.Propagation `json:"propagation"`
	// A thief may have rotated the key.
	Successors []string `json:"successors,omitempty" doc:"Keys that took over from the key in rotations, and still work: revoke them too unless they are yours."`
	// A thief may have made other keys.
	MadeKeys     []MadeKey `json:"madeKeys,omitempty" doc:"Keys in force that the key made, or that such keys made, the newest first, at most 100: revoke them too unless they are yours."`
	MoreMadeKeys bool      `json:"moreMadeKeys,omitempty" doc:"There are more than those: revoke some, and repeat the request."`
}

// MadeKey is a key as the revocation of its maker names it.
type MadeKey struct {
	KeyID     string        `json:"keyId"`
	Label     string        `json:"label"`
	CreatedBy string        `json:"createdBy" doc:"The key that made it."`
	CreatedAt store.Instant `json:"createdAt"`
	ExpiresAt store.Instant `json:"expiresAt" nullable:"true"`
}

// changer is the caller that changes keys: an API key, within its tenant and its scopes, or an
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

// theOperator may do everything.
func theOperator() changer {
	return changer{by: store.ByOperator(), operator: true, scopes: api.Scopes(api.Wildcard)}
}

// find returns the key; RESOURCE_NOT_FOUND for another tenant's key as for none.
func (c changer) find(ctx context.Context, q store.Querier, keyID string) (*Key, error) {
	if c.operator {
		return findAnyKey(ctx, q, keyID)
	}
	return keys.Find(ctx, q, c.tenantID, keyID)
}

// give refuses to hand out a key with scopes that the changer lacks.
func (c changer) give(scopes api.Scopes) error {
	if missing := lacking(scopes, c.scopes); len(missing) > 0 {
		return &api.Error{
			Code: api.ScopeMissing, Message: "a key can't give scopes that it lacks",
			RequiredScopes: missing, KeyScopes: c.scopes.Names(),
		}
	}
	return nil
}

// itself reads the key that changes keys, nil if it is an operator. Once the key has ended the
// error is AUTH_INVALID, also for a request that was admitted before, so a revocation's response
// lists all keys that it made.
func (c changer) itself(ctx context.Context, tx *store.Tx, now time.Time) (*Key, error) {
	if c.operator {
		return nil, nil
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

// notAfter is a key's end as it was asked for, or the latest there may be; neither may be
// any. why says whose end the latest is.
func notAfter(asked, latest store.Instant, why string) (store.Instant, error) {
	switch {
	case latest.IsZero():
		return asked, nil
	case asked.IsZero():
		return latest, nil
	case asked.After(latest.Time):
		return asked, api.InvalidField("expiresAt", "must not be later than "+latest.String()+", "+why)
	}
	return asked, nil
}

const endOfMaker = "the end of the key that makes it"

// makeKey makes a key for an owner: tenant, organisation and developer.
func (s *Service) makeKey(ctx context.Context, c changer, owner Key, env string, q KeyRequest) (Made, error) {
	now := s.db.Now()
	set, err := scopeSet(q.Scopes)
	if err != nil {
		return Made{}, api.InvalidField("scopes", err.Error())
	}
	if len(q.Scopes) == 0 && !c.scopes.Allows(api.Wildcard) {
		set &= c.scopes // everything means everything that can be given
	}
	if err := c.give(set); err != nil {
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
		maker, err := c.itself(ctx, tx, now)
		if err != nil {
			return err
		}
		k.ExpiresAt = expires
		if maker != nil {
			if k.ExpiresAt, err = notAfter(expires, maker.ExpiresAt, endOfMaker); err != nil {
				return err
			}
		}
		token, err = createKey(ctx, tx, &k, env, c.by, now)
		return err
	})
	return Made{Key: k, APIKey: token}, err
}

// inFuture reads an optional end.
func inFuture(field string, t *route.Time, now time.Time) (store.Instant, error) {
	at, err := route.Given(field, t)
	if err == nil && !at.IsZero() && !at.After(now) {
		err = api.InvalidField(field, "must be in the future")
	}
	return at, err
}

// rotateKey lets a new key take over from an old one, in one change with one event.
func (s *Service) rotateKey(ctx context.Context, c changer, keyID string, q Rotation) (Rotated, error) {
	now := s.db.Now()
	expires, err := inFuture("expiresAt", q.ExpiresAt, now)
	if err != nil {
		return Rotated{}, err
	}
	var after Rotated
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		maker, err := c.itself(ctx, tx, now)
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
		if err := c.give(held); err != nil {
			return err
		}
		next, err := k.successor(now)
		if err != nil {
			return err
		}
		if next.ExpiresAt, err = endOfSuccessor(ctx, tx, maker, k, next.ExpiresAt, expires, now); err != nil {
			return err
		}
		if after.APIKey, err = issue(&next, envOf(k.Prefix), c.by, now); err != nil {
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
		return keys.Emit(ctx, tx, "key.rotated", &old, c.by, map[string]any{"successor": next})
	})
	if err != nil {
		return Rotated{}, err
	}
	after.Propagation = s.nodes.Await(ctx, after.Key.Revision)
	return after, nil
}

// successor is the key that may take over: whose, for what, and for how long. It is
// refused for a key that is not in force, or that has one already.
func (k Key) successor(now time.Time) (Key, error) {
	switch {
	case !k.RevokedAt.IsZero():
		return Key{}, api.Conflict("the key is revoked")
	case k.SuccessorKeyID != nil:
		return Key{}, api.Conflict("the key was rotated already: " + *k.SuccessorKeyID + " took over")
	case !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt.Time):
		return Key{}, api.Conflict("the key has expired")
	}
	next := Key{TenantID: k.TenantID, OrgID: k.OrgID, DeveloperID: k.DeveloperID, Label: k.Label, Scopes: k.Scopes}
	if !k.ExpiresAt.IsZero() {
		next.ExpiresAt = store.At(now.Add(k.ExpiresAt.Sub(k.CreatedAt.Time)))
	}
	return next, nil
}

// endOfSuccessor settles when the successor of a key ends. meant is the end that it gets by
// itself, and asked the one asked for, if any. A key without an end, or an operator (nil),
// may ask for any. Another key than the one that is rotated gives none that lasts longer than
// itself, and nor does a key that rotates itself: who has stolen it would have it for ever. A
// key that it took over to, whose answer may have been lost, is rotated until its own end.
func endOfSuccessor(ctx context.Context, q store.Querier, maker, k *Key, meant, asked store.Instant, now time.Time) (store.Instant, error) {
	latest, why := store.Instant{}, ""
	if maker != nil {
		line, err := maker.successors(ctx, q, now)
		if err != nil {
			return asked, err
		}
		if maker.KeyID == k.KeyID || slices.Contains(line, k.KeyID) {
			latest, why = k.ExpiresAt, "the end of the key that is rotated"
		} else {
			latest, why = maker.ExpiresAt, endOfMaker
		}
	}
	if asked.IsZero() {
		asked = meant
		if !latest.IsZero() && asked.After(latest.Time) {
			asked = latest
		}
	}
	return notAfter(asked, latest, why)
}

// endedBy returns the key as it is once another took over: it expires at end, unless
// it does so earlier anyway.
func (k Key) endedBy(successor string, end time.Time) Key {
	k.SuccessorKeyID = &successor
	if k.ExpiresAt.IsZero() || end.Before(k.ExpiresAt.Time) {
		k.ExpiresAt = store.At(end)
	}
	return k
}

// revokeKey revokes a key for good.
func (s *Service) revokeKey(ctx context.Context, c changer, keyID string) (Revocation, error) {
	now := s.db.Now()
	var after Key
	var successors []string
	err := s.db.Stop(ctx, func(tx *store.Tx) error {
		k, err := c.find(ctx, tx, keyID)
		if err != nil {
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
		return keys.Emit(ctx, tx, "key.revoked", &after, c.by, nil)
	})
	if err != nil {
		return Revocation{}, err
	}
	revocation := Revocation{Key: after, Propagation: s.nodes.Await(ctx, after.Revision), Successors: successors}
	revocation.MadeKeys, revocation.MoreMadeKeys, err = madeBy(ctx, s.db.Read(), &after, now)
	return revocation, err
}

// successors are the keys in force that took over from a key, one from another. An
// older copy of the database may lack the last of them.
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

// KeyInForce is the key under which the work of a key continues: the first that is in force at a
// time, of itself and its successors in rotations. If there is none it is the key itself, which was
// revoked or has expired.
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

// createKey makes the key, its record, event and feed entry, and returns the only
// copy of the key itself. The caller has filled in whose key it is.
func createKey(ctx context.Context, tx *store.Tx, k *Key, env string, by sealer.Ref, now time.Time) (token string, err error) {
	if token, err = issue(k, env, by, now); err != nil {
		return "", err
	}
	return token, keys.Create(ctx, tx, "key.created", k, by, nil)
}

// issue gives a new key its id, its maker and its secret.
func issue(k *Key, env string, by sealer.Ref, now time.Time) (token string, err error) {
	k.KeyID, k.CreatedAt, k.UpdatedAt, k.CreatedBy = api.NewID(api.PrefixKey, now), store.At(now), store.At(now), by.Kind
	if by.Kind == "key" {
		k.CreatedBy = by.ID
	}
	token, k.Prefix, k.SecretHash, err = auth.NewKey(rand.Reader, env, k.KeyID)
	return token, err
}

// feedKey publishes what nodes get of the key.
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

// scopeSet reads the scopes of a new key: every one but the wildcard by default.
func scopeSet(names []string) (api.Scopes, error) {
	if len(names) == 0 {
		return api.EveryScope, nil
	}
	return api.ParseScopes(names)
}

// lacking lists the scopes that a set holds and the creator's does not.
func lacking(wanted, held api.Scopes) []string {
	if held&api.Scopes(api.Wildcard) != 0 {
		return nil
	}
	return (wanted &^ held).Names()
}

func envOf(prefix string) string {
	if strings.HasPrefix(prefix, "mun_"+auth.EnvLive+"_") {
		return auth.EnvLive
	}
	return auth.EnvTest
}
