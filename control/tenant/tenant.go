// Package tenant owns tenants, their developers, and their API keys.
//
// A tenant is made by an operator (Create), together with its first developer
// and key. Further keys are made and revoked by keys that hold keys:write; nobody
// can give a scope that he lacks, and a key stays in the environment, test or
// live, of the key that made it. Of a key's secret only the hash is kept, so the
// key is shown once, in the answer that made it.
//
// Revoking is final: revoking a revoked key changes nothing and leaves no event.
// A revoked key is refused here at once, and at the edge within the lease's bound;
// the answer says which nodes know of it already.
//
// A developer's email is personal data: it stands in the database, and in no event.
//
// Non-goals for now: rotation, more developers, deleting a tenant.
package tenant

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"muniment/control/node"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/gateway/auth"
	"muniment/sealer"
)

// Counter counts one sort of a tenant's records.
type Counter func(ctx context.Context, tenantID string) (int64, error)

// Counters are the tenant's counts in the order of the contract; nil counts 0.
type Counters struct {
	Bases, Rights, Offers, Challenges, ProofPacks, Events Counter
}

// Nodes tells how far the nodes are. control/node implements it.
type Nodes interface {
	// Await waits a bounded time for every live node to apply the revision.
	Await(ctx context.Context, revision int64) node.Propagation
}

// Config of the room. DB and Nodes are required.
type Config struct {
	DB       *store.DB
	Nodes    Nodes
	Counters Counters
}

// Room is safe for concurrent use.
type Room struct {
	db       *store.DB
	nodes    Nodes
	counters Counters
}

// New wires the room.
func New(cfg Config) (*Room, error) {
	if cfg.DB == nil || cfg.Nodes == nil {
		return nil, errors.New("cannot open the tenants: DB or Nodes is missing")
	}
	return &Room{db: cfg.DB, nodes: cfg.Nodes, counters: cfg.Counters}, nil
}

// Key is the record of an API key. The contract names id, label, prefix and scopes.
type Key struct {
	KeyID       string        `json:"keyId"`
	TenantID    string        `json:"-"`
	OrgID       string        `json:"-"`
	DeveloperID string        `json:"developerId"`
	Label       string        `json:"label"`
	Prefix      string        `json:"prefix" doc:"everything of the key before its secret"`
	SecretHash  [32]byte      `json:"-"`
	Scopes      []string      `json:"scopes"`
	ExpiresAt   store.Instant `json:"expiresAt"`
	RevokedAt   store.Instant `json:"revokedAt"`
	CreatedAt   store.Instant `json:"createdAt"`
	UpdatedAt   store.Instant `json:"updatedAt"`
	Revision    int64         `json:"revision"`
}

// Request asks for a tenant with its first developer and key.
type Request struct {
	// Org is the organisation's id, with or without its prefix.
	Org string `json:"org" minLength:"1" maxLength:"68"`
	// Email of the developer; may be empty.
	Email string `json:"email,omitempty" maxLength:"254"`
	// Scopes of the key, every scope but the wildcard when empty.
	Scopes []string `json:"scopes,omitempty"`
	Label  string   `json:"label,omitempty" maxLength:"128"`
	// Env is test or live; test when empty.
	Env string `json:"env,omitempty" enum:"test,live"`
}

// Created names what Create made. APIKey is the only copy of the key.
type Created struct {
	TenantID    string `json:"tenantId"`
	OrgID       string `json:"orgId"`
	DeveloperID string `json:"developerId"`
	KeyID       string `json:"keyId"`
	APIKey      string `json:"apiKey"`
}

// Create makes a tenant, in one change. It refuses with api.Invalid.
func (r *Room) Create(ctx context.Context, q Request) (Created, error) {
	org, scopes, err := q.check()
	if err != nil {
		return Created{}, err
	}
	now := r.db.Now()
	c := Created{
		TenantID: api.NewID(api.PrefixTenant, now), OrgID: org,
		DeveloperID: api.NewID(api.PrefixDeveloper, now),
	}
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		revision, err := tx.Revision(ctx)
		if err != nil {
			return err
		}
		if err := insertTenant(ctx, tx, c, q.Email, now, revision); err != nil {
			return err
		}
		err = emit(ctx, tx, c.TenantID, "tenant.created", store.ByOperator(), sealer.Ref{Kind: "tenant", ID: c.TenantID}, now, map[string]any{
			"tenantId": c.TenantID, "orgId": c.OrgID, "developerId": c.DeveloperID,
			"createdAt": sealer.FormatTime(now), "revision": revision,
		})
		if err != nil {
			return err
		}
		k := Key{TenantID: c.TenantID, OrgID: c.OrgID, DeveloperID: c.DeveloperID, Label: q.Label, Scopes: scopes}
		if k.Label == "" {
			k.Label = "first key"
		}
		c.APIKey, err = createKey(ctx, tx, &k, q.Env, now, store.ByOperator())
		c.KeyID = k.KeyID
		return err
	})
	return c, err
}

// orgName is what may stand behind org_.
var orgName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

func (q *Request) check() (org string, scopes []string, err error) {
	name := strings.TrimPrefix(q.Org, string(api.PrefixOrg))
	var faults []api.ValidationError
	if !orgName.MatchString(name) {
		faults = append(faults, api.ValidationError{Field: "org", Message: "must be 1 to 64 letters, digits, _ or -, with or without the prefix org_"})
	}
	if q.Env == "" {
		q.Env = auth.EnvTest
	}
	if q.Env != auth.EnvTest && q.Env != auth.EnvLive {
		faults = append(faults, api.ValidationError{Field: "env", Message: "must be test or live"})
	}
	if q.Email != "" && (strings.Count(q.Email, "@") != 1 || strings.ContainsAny(q.Email, " \t\r\n")) {
		faults = append(faults, api.ValidationError{Field: "email", Message: "is no email address"})
	}
	set, err := scopeSet(q.Scopes)
	if err != nil {
		faults = append(faults, api.ValidationError{Field: "scopes", Message: err.Error()})
	}
	if len(faults) > 0 {
		return "", nil, api.Invalid(faults...)
	}
	return string(api.PrefixOrg) + name, set.Names(), nil
}

// scopeSet reads the scopes of a new key: every one but the wildcard by default.
func scopeSet(names []string) (api.Scopes, error) {
	if len(names) == 0 {
		return api.EveryScope, nil
	}
	return api.ParseScopes(names)
}

// createKey makes the key, its record, event and feed entry, and returns the only
// copy of the key itself. The caller has filled in whose key it is.
func createKey(ctx context.Context, tx *store.Tx, k *Key, env string, now time.Time, by sealer.Ref) (token string, err error) {
	k.KeyID = api.NewID(api.PrefixKey, now)
	if token, k.Prefix, k.SecretHash, err = auth.NewKey(rand.Reader, env, k.KeyID); err != nil {
		return "", err
	}
	k.CreatedAt = store.At(now)
	if err := saveKey(ctx, tx, k, "key.created", now, by); err != nil {
		return "", err
	}
	return token, nil
}

// saveKey writes a new or changed key in all three places.
func saveKey(ctx context.Context, tx *store.Tx, k *Key, event string, now time.Time, by sealer.Ref) (err error) {
	if k.Revision, err = tx.Revision(ctx); err != nil {
		return err
	}
	k.UpdatedAt = store.At(now)
	if err := upsertKey(ctx, tx, k); err != nil {
		return err
	}
	if err := emit(ctx, tx, k.TenantID, event, by, sealer.Ref{Kind: "key", ID: k.KeyID}, now, k); err != nil {
		return err
	}
	snapshot, err := k.snapshot()
	if err != nil {
		return err
	}
	return tx.Publish(ctx, api.Change{Revision: k.Revision, Key: snapshot})
}

// Revoked returns the key as it is once revoked; changed is false when it already was.
func (k Key) Revoked(at time.Time) (next Key, changed bool) {
	if !k.RevokedAt.IsZero() {
		return k, false
	}
	k.RevokedAt = store.At(at)
	return k, true
}

// snapshot is what nodes get of the key.
func (k *Key) snapshot() (*api.Key, error) {
	scopes, err := api.ParseScopes(k.Scopes)
	if err != nil {
		return nil, fmt.Errorf("cannot publish the key %s: %w", k.KeyID, err)
	}
	return &api.Key{
		ID: k.KeyID, TenantID: k.TenantID, OrgID: k.OrgID, DeveloperID: k.DeveloperID, Revision: k.Revision,
		Label: k.Label, Prefix: k.Prefix, SecretHash: k.SecretHash, Scopes: scopes,
		ExpiresAt: k.ExpiresAt.Time, RevokedAt: k.RevokedAt.Time,
	}, nil
}

func emit(ctx context.Context, tx *store.Tx, tenantID, event string, by, subject sealer.Ref, at time.Time, body any) error {
	text, err := sealer.Canonical(body)
	if err != nil {
		return err
	}
	return tx.Emit(ctx, sealer.Event{TenantID: tenantID, Type: event, At: at, Actor: by, Subject: subject, Data: text})
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
