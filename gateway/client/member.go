package client

import (
	"context"
	"iter"
	"net/http"
)

// Members are the persons who may sign in to the tenant's console.
type Members struct{ c *Client }

// Members are the persons who may sign in to the tenant's console.
func (c *Client) Members() Members { return Members{c} }

// Invite makes a member, and has a mail sent that says so. The calling key holds all scopes of the role.
func (m Members) Invite(ctx context.Context, invitation MemberInvitation) (*Member, error) {
	return record[Member](ctx, m.c, http.MethodPost, "/v1/members", "member", invitation)
}

// List iterates over the members, newest first, in a state, or in any if it is empty.
func (m Members) List(ctx context.Context, state string) iter.Seq2[Member, error] {
	return list[Member](ctx, m.c, "/v1/members", "members", inState(state))
}

// Get returns a member.
func (m Members) Get(ctx context.Context, memberID string) (*Member, error) {
	return record[Member](ctx, m.c, http.MethodGet, at("/v1/members", memberID), "member", nil)
}

// Change gives a member another role: owner, finance, operations or viewer. It holds from the next request of the member's sessions on.
func (m Members) Change(ctx context.Context, memberID, role string) (*Member, error) {
	return record[Member](ctx, m.c, http.MethodPatch, at("/v1/members", memberID), "member", struct {
		Role string `json:"role"`
	}{role})
}

// Remove ends a member's sessions at once, and for good. The last owner stays.
func (m Members) Remove(ctx context.Context, memberID string) (*Member, error) {
	return record[Member](ctx, m.c, http.MethodDelete, at("/v1/members", memberID), "member", nil)
}
