package member

import (
	"context"
	"net/http"

	"muniment.example/control/route"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

const tag = "Members"

// Routes adds the service's operations to the API.
func (s *Service) Routes(a route.API) {
	const path, one = "/v1/members", "/v1/members/{memberId}"
	route.Add(a, route.Operation{ID: "invite-member", Method: http.MethodPost, Path: path, Tag: tag, Access: route.Scope(api.KeysWrite),
		Summary: "Invite a person to sign in to the console", Confirms: true, Effects: []route.Effect{grants},
		Description: "A mail says so. The person signs in by a link that is mailed on request, for 15 minutes and once, or by the OpenID Connect provider of the service, if it has one and that has verified the address. A tenant has at most 500 members, and invites at most 100 persons in 24 hours."}, s.postMember)
	route.Add(a, route.Operation{ID: "list-members", Method: http.MethodGet, Path: path, Tag: tag, Access: route.Scope(api.KeysWrite),
		Summary: "List the members, newest first"}, s.getMembers)
	route.Add(a, route.Operation{ID: "get-member", Method: http.MethodGet, Path: one, Tag: tag, Access: route.Scope(api.KeysWrite),
		Summary: "Get a member"}, s.getMember)
	route.Add(a, route.Operation{ID: "change-member", Method: http.MethodPatch, Path: one, Tag: tag, Access: route.Scope(api.KeysWrite),
		Summary: "Give a member another role", Confirms: true, Effects: []route.Effect{changes},
		Description: "It holds from the next request of the member's sessions on. The last owner stays one."}, s.patchMember)
	route.Add(a, route.Operation{ID: "remove-member", Method: http.MethodDelete, Path: one, Tag: tag, Access: route.Scope(api.KeysWrite), Stops: true,
		Summary: "Permanently remove a member", Confirms: true, Effects: []route.Effect{removes},
		Description: "The member's sessions and links end at once, and webhooks that are sent under the member are paused, as at the end of a key. Keys that the member made stay: `GET /v1/api-keys` names their maker. The last owner stays."}, s.deleteMember)
}

// The effects of operations on members.
var (
	grants  = route.Effect{Does: "lets a person act for the tenant", Needs: "all scopes of the person's role"}
	changes = route.Effect{Does: "changes what a member may do", Needs: "all scopes of the roles before and after"}
	removes = route.Effect{Does: "ends what a member may do", Needs: "all scopes of the person's role"}
)

// Shown is a member as callers see it.
type Shown struct {
	Member
	Email string `json:"email" doc:"Where links to sign in are sent. Never written to events."`
	Name  string `json:"name" doc:"Empty when none was given. Never written to events."`
	// Issuer and Subject are empty until the member has signed in by the provider.
	Issuer  string `json:"issuer" doc:"The OpenID Connect provider by which the member has signed in; empty: by none yet, or by one that the service doesn't know since its database was restored (bound). Never written to events."`
	Subject string `json:"subject" doc:"Who the member is there: no other account of the provider signs in as the member. Never written to events."`
}

// SchemaName is the type's name in the OpenAPI document, where it has no package before it.
func (Shown) SchemaName() string      { return "Member" }
func (Member) SchemaName() string     { return "MemberRecord" }
func (Invitation) SchemaName() string { return "MemberInvitation" }
func (One) SchemaName() string        { return "MemberData" }
func (List) SchemaName() string       { return "MemberList" }
func (RoleChange) SchemaName() string { return "MemberChange" }

func (m Member) shown() Shown {
	s := Shown{Member: m, Email: m.Email, Name: m.Name}
	if m.Bound && !m.lost() {
		s.Issuer, s.Subject = *m.Issuer, *m.Subject
	}
	return s
}

// One is the response about one member.
type One struct {
	Member Shown `json:"member"`
}

// List is one page of members.
type List struct {
	Members    []Shown `json:"members" doc:"A page of the members, newest first."`
	NextCursor *string `json:"nextCursor"`
}

func (s *Service) postMember(ctx context.Context, in *struct{ Body Invitation }) (One, error) {
	m, err := s.invite(ctx, auth.PrincipalFrom(ctx), in.Body)
	return One{m.shown()}, err
}

type listInput struct {
	State string `query:"state" enum:"INVITED,ACTIVE,REMOVED" doc:"Those in this state. Default: all."`
	route.Page
}

func (s *Service) getMembers(ctx context.Context, in *listInput) (List, error) {
	slice, err := in.Slice()
	if err != nil {
		return List{}, err
	}
	page, next, err := list(ctx, s.db.Read(), auth.PrincipalFrom(ctx).TenantID, in.State, slice)
	l := List{[]Shown{}, in.Next(next)}
	for _, m := range page {
		l.Members = append(l.Members, m.shown())
	}
	return l, err
}

type memberInput struct {
	MemberID string `path:"memberId"`
}

func (s *Service) getMember(ctx context.Context, in *memberInput) (One, error) {
	m, err := members.Find(ctx, s.db.Read(), auth.PrincipalFrom(ctx).TenantID, in.MemberID)
	if err != nil {
		return One{}, err
	}
	return One{m.shown()}, nil
}

// RoleChange is a request for another role.
type RoleChange struct {
	Role Role `json:"role" enum:"owner,finance,operations,viewer" doc:"What the member may do from now on. The caller has to hold all scopes of the roles before and after."`
}

func (s *Service) patchMember(ctx context.Context, in *struct {
	MemberID string `path:"memberId"`
	Body     RoleChange
}) (One, error) {
	m, err := s.changeRole(ctx, auth.PrincipalFrom(ctx), in.MemberID, in.Body.Role)
	return One{m.shown()}, err
}

func (s *Service) deleteMember(ctx context.Context, in *memberInput) (One, error) {
	m, err := s.removeMember(ctx, auth.PrincipalFrom(ctx), in.MemberID)
	return One{m.shown()}, err
}
