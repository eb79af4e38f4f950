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

// Change gives a member another role. It holds from the next request of the member's sessions on.
func (m Members) Change(ctx context.Context, memberID string, role MemberRole) (*Member, error) {
	return record[Member](ctx, m.c, http.MethodPatch, at("/v1/members", memberID), "member", role)
}

// Remove ends a member's sessions at once, and for good. The last owner stays.
func (m Members) Remove(ctx context.Context, memberID string) (*Member, error) {
	return record[Member](ctx, m.c, http.MethodDelete, at("/v1/members", memberID), "member", nil)
}

// Member is a person who may sign in to the tenant's console.
type Member struct {
	Record
	// Whether the member has signed in at the OpenID Connect provider: no other account there signs in as the member.
	Bound bool `json:"bound"`
	// Where links to sign in are sent. Never written to events.
	Email string `json:"email"`
	// The API key or the member that invited the member, or operator or system.
	InvitedBy string `json:"invitedBy"`
	// The OpenID Connect provider by which the member has signed in; empty: by none yet, or, if Bound, by one that the service
	// doesn't know since its database was restored. Never written to events.
	Issuer string `json:"issuer"`
	// Empty when none was given. Never written to events.
	Name string `json:"name"`
	// What the member may do: owner, finance, operations or viewer.
	Role string `json:"role"`
	// INVITED until the member has signed in, then ACTIVE; REMOVED.
	State string `json:"state"`
	// Who the member is at Issuer: no other account there signs in as the member. Never written to events.
	Subject string `json:"subject"`
}

// MemberInvitation is a new member.
type MemberInvitation struct {
	// Where links to sign in are sent. Never written to events.
	Email string `json:"email"`
	// What the person is called. Never written to events.
	Name string `json:"name,omitempty"`
	// What the member may do: owner, finance, operations or viewer.
	Role string `json:"role"`
}

// MemberRole is what a member may do from now on: owner, finance, operations or viewer.
type MemberRole struct {
	Role string `json:"role"`
}
