package client

import (
	"context"
	"iter"
	"net/http"
)

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

// Get returns a key, and what it has made that works on when it ends.
func (k APIKeys) Get(ctx context.Context, keyID string) (*APIKeyDetails, error) {
	return get[APIKeyDetails](ctx, k.c, at("/v1/api-keys", keyID), nil)
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

// Refused iterates over the refused requests of the last 24 hours with the tenant's keys, the last first.
func (k APIKeys) Refused(ctx context.Context, f RefusedFilter) iter.Seq2[RefusedRequests, error] {
	return list[RefusedRequests](ctx, k.c, "/v1/requests", "requests", values(f))
}
