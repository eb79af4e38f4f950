package client

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// Record is what records have in common.
type Record struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
	// Revision grows with every change.
	Revision int64 `json:"revision"`
}

// Tenant is the tenant of the key, its developer and the key itself.
func (c *Client) Tenant(ctx context.Context) (*TenantSnapshot, error) {
	return get[TenantSnapshot](ctx, c, "/v1/tenant", nil)
}

// APIKeys are the tenant's API keys.
type APIKeys struct{ c *Client }

// APIKeys are the tenant's API keys.
func (c *Client) APIKeys() APIKeys { return APIKeys{c} }

// Create makes a key. Its scopes are at most those of the calling key.
func (k APIKeys) Create(ctx context.Context, key NewAPIKey) (*CreatedAPIKey, error) {
	return post[CreatedAPIKey](ctx, k.c, "/v1/api-keys", key)
}

// List iterates over the keys, newest first.
func (k APIKeys) List(ctx context.Context) iter.Seq2[APIKey, error] {
	return list[APIKey](ctx, k.c, "/v1/api-keys", "keys", nil)
}

// Get returns a key.
func (k APIKeys) Get(ctx context.Context, keyID string) (*APIKey, error) {
	return record[APIKey](ctx, k.c, http.MethodGet, at("/v1/api-keys", keyID), "key", nil)
}

// Rotate makes a key that takes over; the old one works on for a while.
func (k APIKeys) Rotate(ctx context.Context, keyID string, how APIKeyRotation) (*RotatedAPIKey, error) {
	return post[RotatedAPIKey](ctx, k.c, at("/v1/api-keys", keyID, "rotate"), how)
}

// Revoke ends a key. Its result says whether every node knows, and names keys that were made with
// it and still work.
func (k APIKeys) Revoke(ctx context.Context, keyID string) (*RevokedAPIKey, error) {
	return do[RevokedAPIKey](ctx, k.c, http.MethodDelete, at("/v1/api-keys", keyID), nil, nil)
}

// RefusedFilter selects refused requests; its zero value is all.
type RefusedFilter struct {
	KeyID string `json:"keyId"`
	Code  string `json:"code"`
	// Limit is how many a page has; 0 is the service's default.
	Limit int `json:"limit"`
}

// Refused iterates over the refused requests of the last 24 hours with the tenant's keys, the last first.
func (k APIKeys) Refused(ctx context.Context, f RefusedFilter) iter.Seq2[RefusedRequests, error] {
	return list[RefusedRequests](ctx, k.c, "/v1/requests", "requests", values(f))
}

// RefusedRequests are refused requests that have key, operation, status, code and cause in common.
type RefusedRequests struct {
	// What to do about it, for people.
	Advice string `json:"advice"`
	// What is known besides the code, such as the scopes that the key lacks; empty for nothing.
	Cause string `json:"cause"`
	// The error of the responses.
	Code string `json:"code"`
	// How many there were since FirstAt.
	Count int64 `json:"count"`
	// When the first was refused, to the minute.
	FirstAt time.Time `json:"firstAt"`
	// The key that they have shown, and its label.
	KeyID    string `json:"keyId"`
	KeyLabel string `json:"keyLabel"`
	// When the last was refused, to the minute.
	LastAt time.Time `json:"lastAt"`
	// The id of the operation.
	Operation string `json:"operation"`
	// The x-request-id of the last.
	RequestID string `json:"requestId"`
	// The HTTP status of the responses.
	Status int `json:"status"`
}

// TenantSnapshot is the answer of Client.Tenant.
type TenantSnapshot struct {
	Tenant    Tenant     `json:"tenant"`
	Developer Developer  `json:"developer"`
	Key       CallingKey `json:"key"`
}

// Tenant is the tenant of the key.
type Tenant struct {
	CreatedAt time.Time `json:"createdAt"`
	// The organisation's id.
	OrgID string `json:"orgId"`
	// The tenant's id.
	TenantID string `json:"tenantId"`
	// The IANA time zone of its statements and rules, unless they name another.
	TimeZone string       `json:"timeZone"`
	Counts   TenantCounts `json:"counts"`
}

// TenantCounts are how many records a tenant has.
type TenantCounts struct {
	// How many there are.
	Bases int64 `json:"bases"`
	// How many there are.
	Challenges int64 `json:"challenges"`
	// How many are durable; while the warehouse is more than 2 seconds behind, how many it has loaded.
	Events int64 `json:"events"`
	// How many there are.
	Offers int64 `json:"offers"`
	// How many there are.
	ProofPacks int64 `json:"proofPacks"`
	// How many there are.
	Rights int64 `json:"rights"`
}

// Developer is who has the key.
type Developer struct {
	// The developer whose key it is.
	DeveloperID string `json:"developerId"`
	// Empty when none was given.
	Email string `json:"email"`
	// The organisation's id.
	OrgID string `json:"orgId"`
}

// CallingKey is the key of the client, without its secret.
type CallingKey struct {
	// The key's id.
	KeyID string `json:"keyId"`
	// What the key is for.
	Label string `json:"label"`
	// Everything of the key before its secret.
	Prefix string `json:"prefix"`
	// What the key may do.
	Scopes []string `json:"scopes"`
}

// APIKey is an API key, without its secret.
type APIKey struct {
	CreatedAt time.Time `json:"createdAt"`
	// The key that made it, or operator or system.
	CreatedBy string `json:"createdBy"`
	// The developer whose key it is.
	DeveloperID string `json:"developerId"`
	// When it ends by itself; null or absent is never.
	ExpiresAt time.Time `json:"expiresAt"`
	// The key's id.
	KeyID string `json:"keyId"`
	// What the key is for.
	Label string `json:"label"`
	// When it was last used, to the minute, where a key is read; zero for never.
	LastUsedAt time.Time `json:"lastUsedAt"`
	// Everything of the key before its secret.
	Prefix   string `json:"prefix"`
	Revision int64  `json:"revision"`
	// When it was revoked; null if it was not.
	RevokedAt time.Time `json:"revokedAt"`
	// What the key may do.
	Scopes []string `json:"scopes"`
	// The key that took over in a rotation.
	SuccessorKeyID string    `json:"successorKeyId"`
	UpdatedAt      time.Time `json:"updatedAt"`
}

// NewAPIKey asks for an API key.
type NewAPIKey struct {
	// The end of the key, not later than that of the calling key; when absent it is that.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// What the key is for.
	Label string `json:"label"`
	// Scopes that the calling key holds as well; every scope but the wildcard when absent.
	Scopes []string `json:"scopes,omitempty"`
}

// CreatedAPIKey is a new API key. Its text is not kept by the service, and shown only here.
type CreatedAPIKey struct {
	// The key itself; it can't be shown again.
	APIKey string `json:"apiKey"`
	Key    APIKey `json:"key"`
}

// APIKeyRotation says how a key is replaced.
type APIKeyRotation struct {
	// The end of the new key; when absent it lives as long as the old key was meant to. It is not
	// later than the end of the calling key.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// How long the old key works on; a day when absent, at most 30 days.
	OverlapSeconds int64 `json:"overlapSeconds,omitempty"`
}

// RotatedAPIKey is the key that takes over, and the one that it replaces.
type RotatedAPIKey struct {
	// The new key itself; it can't be shown again.
	APIKey      string      `json:"apiKey"`
	Key         APIKey      `json:"key"`
	Propagation Propagation `json:"propagation"`
	// The old key, with its end.
	Replaced APIKey `json:"replaced"`
}

// RevokedAPIKey is a key that is revoked, and what still works of what was made with it.
type RevokedAPIKey struct {
	Key APIKey `json:"key"`
	// Keys in force that the key made, or that such keys made, the newest first, at most 100: revoke
	// them too unless they are yours.
	MadeKeys []MadeAPIKey `json:"madeKeys,omitempty"`
	// There are more than those: revoke some, and repeat the request.
	MoreMadeKeys bool        `json:"moreMadeKeys,omitempty"`
	Propagation  Propagation `json:"propagation"`
	// Keys that took over from the key in rotations, and still work: revoke them too unless they are
	// yours.
	Successors []string `json:"successors,omitempty"`
}

// MadeAPIKey is a key that a revoked one has made, and that still works.
type MadeAPIKey struct {
	CreatedAt time.Time `json:"createdAt"`
	// The key that made it.
	CreatedBy string `json:"createdBy"`
	// When it ends by itself; null or absent is never.
	ExpiresAt time.Time `json:"expiresAt"`
	// The key's id.
	KeyID string `json:"keyId"`
	// What the key is for.
	Label string `json:"label"`
}

// Propagation says how far a change has come.
type Propagation struct {
	// Every live node has applied it.
	Applied bool `json:"applied"`
	// How far each node is.
	Nodes []NodeState `json:"nodes"`
	// The revision to be applied.
	Revision int64 `json:"revision"`
}

// NodeState is how far a node is.
type NodeState struct {
	// The revision that the node has applied.
	AppliedRevision int64 `json:"appliedRevision"`
	// It may hold a lease: it polled within the bound.
	Live bool `json:"live"`
	// The node's id.
	NodeID string `json:"nodeId"`
}
