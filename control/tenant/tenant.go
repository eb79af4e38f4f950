// Package tenant owns tenants, their developers, and their API keys.
//
// An operator creates a tenant (Create), together with its first developer and key. An organisation
// has one tenant, unless the operator requests another. Keys that hold keys:write create, rotate
// and revoke further keys; a key can't give scopes that it lacks, and stays in the environment,
// test or live, of the key that made it. An operator may do the same to any tenant's keys, with any
// scope. Only the hash of a key's secret is kept, so the key is shown once, in the response that
// creates it.
//
// Rotating a key makes a successor with its label and scopes. The old key still works for an
// overlap, a day by default, and then expires. A key is rotated once. A caller that lost the
// response rotates the successor, whose id is in the old key's record, while the old key still
// works. By default the successor lives as long as the old key was meant to.
//
// A key that expires can't create a key that expires later, nor rotate one, itself included, into
// such a key: so a stolen key has an end. Only a key that never expires, or an operator, can
// extend it.
//
// A key revokes itself, and other keys of which it has all scopes; an operator revokes every key.
// Revoking is final: revoking a revoked key changes nothing and leaves no event. The response names
// what works on of what the key made, and of what that made: keys in force, members and payees' links, of each at most 100,
// since they may be a thief's. Members whom the key invited and who have not signed in yet are removed with it.
//
// A change to a key is effective in control at once, and at nodes within the lease's bound; the
// response says which nodes have applied it.
//
// Whether a tenant is of the sandbox is set by the code that creates it, not by a request, and
// never changes. Its receipts and packs are signed only by keys of the sandbox, and nodes learn
// this from the snapshots of its API keys. One that is Activated has a key that was given out
// (control/access). It is never dropped, and operators see it and change its keys as any other's;
// a visitor's tenant has one key, which stays in.
//
// A developer's email is personal data: it is in the database, and in no event.
//
// A member (control/member) who holds keys:write acts on keys as a key that never expires, and in the environment of
// whoever invited the member.
//
// Non-goals for now: more developers, deleting a tenant.
package tenant

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"muniment.example/control/node"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/sealer"
	"muniment.example/sealer/calendar"
)

// Counter counts one kind of a tenant's records.
type Counter func(ctx context.Context, tenantID string) (int64, error)

// Counters are the tenant's counts in the order of the contract; nil counts 0.
type Counters struct {
	Bases, Rights, Offers, Challenges, ProofPacks, Events Counter
}

// Nodes knows which revision the nodes have applied. control/node implements it.
type Nodes interface {
	// Await waits a bounded time for every live node to apply the revision.
	Await(ctx context.Context, revision int64) node.Propagation
}

// Config of the service. DB and Nodes are required.
type Config struct {
	DB       *store.DB
	Nodes    Nodes
	Counters Counters
	// Ended does what follows from the end of a key of a tenant, in the change that revokes it; nil:
	// nothing.
	Ended func(ctx context.Context, tx *store.Tx, tenantID string) error
	// Withdraw ends the invitations of members that a key has made and nobody has accepted, in the change that revokes the key,
	// and returns who they are; nil: there are no members.
	Withdraw func(ctx context.Context, tx *store.Tx, tenantID, keyID string, by sealer.Ref) (memberIDs []string, err error)
	// Made does what follows from a new tenant, in the change that makes it; nil: nothing. email is the
	// developer's, and may be empty; env is the environment of the first key.
	Made func(ctx context.Context, tx *store.Tx, made Created, email, env string, by sealer.Ref) error
	// Scopes returns the scopes of a member at a time, 0 if the member may not act; nil: there are no
	// members.
	Scopes func(ctx context.Context, q store.Querier, memberID string, at time.Time) (api.Scopes, error)
	// LastUsed returns when keys were last used, of those that were; nil: none was.
	LastUsed func(ctx context.Context, keyIDs []string) (map[string]store.Instant, error)
}

// Service is safe for concurrent use.
type Service struct {
	db       *store.DB
	nodes    Nodes
	counters Counters
	ended    func(ctx context.Context, tx *store.Tx, tenantID string) error
	withdraw func(ctx context.Context, tx *store.Tx, tenantID, keyID string, by sealer.Ref) (memberIDs []string, err error)
	made     func(ctx context.Context, tx *store.Tx, made Created, email, env string, by sealer.Ref) error
	scopes   func(ctx context.Context, q store.Querier, memberID string, at time.Time) (api.Scopes, error)
	lastUsed func(ctx context.Context, keyIDs []string) (map[string]store.Instant, error)
}

// New returns the service.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Nodes == nil {
		return nil, errors.New("cannot open the tenants: DB or Nodes is missing")
	}
	return &Service{db: cfg.DB, nodes: cfg.Nodes, counters: cfg.Counters, ended: cfg.Ended, withdraw: cfg.Withdraw, made: cfg.Made, scopes: cfg.Scopes, lastUsed: cfg.LastUsed}, nil
}

// Request is a request for a tenant with its first developer and key.
type Request struct {
	// Org is the organisation's id, with or without its prefix.
	Org string `json:"org" minLength:"1" maxLength:"68"`
	// Email of the developer; may be empty.
	Email string `json:"email,omitempty" maxLength:"254"`
	// Scopes of the key, every scope but the wildcard when empty.
	Scopes []string `json:"scopes,omitempty" minItems:"1" maxItems:"64" maxLength:"64"`
	Label  string   `json:"label,omitempty" maxLength:"128"`
	// Env is test or live; test when empty.
	Env     string `json:"env,omitempty" enum:"test,live"`
	Another bool   `json:"another,omitempty" doc:"Create a tenant even if the organisation has one."`
	// TimeZone is the IANA zone of the tenant's months; UTC when empty.
	TimeZone string `json:"timeZone,omitempty" maxLength:"64" doc:"IANA time zone of the tenant's statements and rules, unless they name another. Default: UTC."`
	// Sandbox creates a tenant of the sandbox. No request can set it.
	Sandbox bool `json:"-"`
	// Activated says that the key of a tenant of the sandbox is given out. No request can set it.
	Activated bool `json:"-"`
}

// Created names what Create made. APIKey is the only copy of the key.
type Created struct {
	TenantID    string `json:"tenantId"`
	OrgID       string `json:"orgId"`
	DeveloperID string `json:"developerId"`
	KeyID       string `json:"keyId"`
	APIKey      string `json:"apiKey"`
}

// Create makes a tenant, in one change. It refuses with api.Invalid, and with STATE_CONFLICT if the
// organisation has a tenant, unless another one is requested: a second tenant by mistake would
// spread rights and receipts over two logs.
func (s *Service) Create(ctx context.Context, q Request) (c Created, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) (err error) {
		if c, err = Make(ctx, tx, q); err != nil || s.made == nil {
			return err
		}
		return s.made(ctx, tx, c, q.Email, cmp.Or(q.Env, auth.EnvTest), store.ByOperator())
	})
	return c, err
}

// Make is Create as a part of a change.
func Make(ctx context.Context, tx *store.Tx, q Request) (c Created, err error) {
	org, scopes, err := q.check()
	if err != nil {
		return c, err
	}
	if !q.Another && !q.Sandbox {
		has, err := tenantOf(ctx, tx, org)
		if err != nil {
			return c, err
		}
		if has != nil {
			return c, api.Conflict(org + " has the tenant " + *has + " already: create a key for that tenant, or set another")
		}
	}
	now := tx.Now()
	c = Created{
		TenantID: api.NewID(api.PrefixTenant, now), OrgID: org,
		DeveloperID: api.NewID(api.PrefixDeveloper, now),
	}
	by := store.ByOperator()
	if q.Sandbox {
		by = store.BySystem() // a visitor has no identity
	}
	revision, err := tx.Revision(ctx)
	if err != nil {
		return c, err
	}
	if err := insertTenant(ctx, tx, c, &q, now, revision); err != nil {
		return c, err
	}
	err = tx.EmitRecord(ctx, tenantCreated, sealer.Event{
		TenantID: c.TenantID, At: now, Actor: by, Subject: sealer.Ref{Kind: "tenant", ID: c.TenantID},
	}, TenantCreated{c.TenantID, c.OrgID, c.DeveloperID, q.TimeZone, store.At(now), revision, q.Sandbox})
	if err != nil {
		return c, err
	}
	k := Key{TenantID: c.TenantID, OrgID: c.OrgID, DeveloperID: c.DeveloperID, Label: q.Label, Scopes: scopes}
	if k.Label == "" {
		k.Label = "first key"
	}
	c.APIKey, err = createKey(ctx, tx, &k, q.Env, by, now)
	c.KeyID = k.KeyID
	return c, err
}

func (q *Request) check() (org string, scopes []string, err error) {
	org = string(api.PrefixOrg) + strings.TrimPrefix(q.Org, string(api.PrefixOrg))
	var faults []api.ValidationError
	if !api.IsOrgID(org) {
		faults = append(faults, api.ValidationError{Field: "org", Message: "must be 1 to 64 letters, digits, _ or -, with or without the prefix org_"})
	}
	if q.Env == "" {
		q.Env = auth.EnvTest
	}
	if q.Env != auth.EnvTest && q.Env != auth.EnvLive {
		faults = append(faults, api.ValidationError{Field: "env", Message: "must be test or live"})
	}
	if q.Email != "" && (strings.Count(q.Email, "@") != 1 || strings.ContainsAny(q.Email, " \t\r\n")) {
		faults = append(faults, api.ValidationError{Field: "email", Message: "is not an email address"})
	}
	if zone, err := calendar.Zone(q.TimeZone); err != nil {
		faults = append(faults, api.ValidationError{Field: "timeZone", Message: err.Error()})
	} else {
		q.TimeZone = zone.String()
	}
	set, err := scopeSet(q.Scopes)
	if err != nil {
		faults = append(faults, api.ValidationError{Field: "scopes", Message: err.Error()})
	}
	if len(faults) > 0 {
		return "", nil, api.Invalid(faults...)
	}
	return org, set.Names(), nil
}
