package member

import (
	"context"
	"time"

	"muniment.example/control/mailer"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/gateway/api"
)

// Member is the record of a person who may sign in. It is what events have of it; Shown is what callers see.
type Member struct {
	ID          string `json:"id" db:"member_id"`
	TenantID    string `json:"-" db:"tenant_id"`
	OrgID       string `json:"-" db:"org_id"`
	DeveloperID string `json:"-" db:"developer_id"`
	Env         string `json:"-" db:"env"`
	// Email, Name, Issuer and Subject are personal data: no event has them. Issuer and Subject are who the person is at a
	// provider of OpenID Connect; nil until the member has signed in by it.
	Email     string  `json:"-" db:"email"`
	Name      string  `json:"-" db:"name"`
	Issuer    *string `json:"-" db:"issuer"`
	Subject   *string `json:"-" db:"subject"`
	Role      Role    `json:"role" db:"role,moves" enum:"owner,finance,operations,viewer" doc:"What the member may do: owner holds *; finance reads, settles and disputes; operations reads, and changes rights, offers, challenges, webhooks, disputes and packs; viewer reads."`
	State     State   `json:"state" db:"state,moves" enum:"INVITED,ACTIVE,REMOVED" doc:"INVITED until the member has signed in."`
	InvitedBy string  `json:"invitedBy" db:"invited_by" doc:"The API key or the member that invited the member, or operator or system."`
	// Bound stays true where the database has lost Issuer and Subject: in a restored older copy, and when the person is erased.
	Bound     bool          `json:"bound" db:"bound,moves" doc:"Whether the member has signed in at the OpenID Connect provider of the service: no other account there signs in as the member."`
	CreatedAt store.Instant `json:"createdAt" db:"created_at"`
	UpdatedAt store.Instant `json:"updatedAt" db:"updated_at,moves"`
	Revision  int64         `json:"revision" db:"revision,moves"`
}

// State is the state of a member.
type State string

// The states.
const (
	Invited State = "INVITED"
	Active  State = "ACTIVE"
	Removed State = "REMOVED"
)

// action moves a member from state to state.
type action string

const (
	join   action = "join"
	change action = "change" // the role
	bind   action = "bind"   // one who has joined, to an account
	remove action = "remove"
)

// members are the records; the table of transitions is beside.
var members = store.Machine[Member, action, State]{
	Records: store.Records[Member]{Noun: "member", Table: "members"},
	Steps: store.Steps[action, State]{
		join:   {From: store.From(Invited), To: Active, Event: eventJoined},
		bind:   {From: store.From(Active), Event: eventBound},
		change: {From: store.From(Invited, Active), Event: eventChanged},
		remove: {From: store.From(Invited, Active, Removed), To: Removed, Event: eventRemoved, Stops: true},
	},
}

// findAny is members.Find for a member of any tenant.
func findAny(ctx context.Context, q store.Querier, memberID string) (*Member, error) {
	return store.Find(ctx, q, members.Noun, memberID, members.Scan, members.Select()+` WHERE member_id = $1`, memberID)
}

const (
	// mostJoined is how many members one person is, of those who have joined.
	mostJoined = 100
	// mostInvited is how many more members one person is who are only invited.
	mostInvited = 10
)

// ofAddress lists who has an address and may sign in, in any tenant: those who have joined, and of those who are invited
// mostInvited, the newest first. Those of the sandbox come last, as anybody may have a tenant there and invite anybody: they
// hide no others.
func ofAddress(ctx context.Context, q store.Querier, email string) ([]Member, error) {
	return withAddress(ctx, q, email, "")
}

// unboundOf is ofAddress of those who are bound to no account.
func unboundOf(ctx context.Context, q store.Querier, email string) ([]Member, error) {
	return withAddress(ctx, q, email, " AND NOT bound")
}

func withAddress(ctx context.Context, q store.Querier, email, and string) (all []Member, err error) {
	for _, part := range []struct {
		state State
		most  int
	}{{Active, mostJoined}, {Invited, mostInvited}} {
		some, err := store.List(ctx, q, "the members of an address", members.Scan, members.Select()+` WHERE email = $1 AND email <> '' AND state = $2`+and+`
			ORDER BY (SELECT sandbox FROM tenants WHERE tenants.tenant_id = members.tenant_id), member_id DESC LIMIT $3`, email, string(part.state), part.most)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// erased says whether the member's person was erased: what is in place of the address is none.
func (m *Member) erased() bool { return !mailer.IsAddress(m.Email) }

// mayAct says whether the member may do what its role may: it has signed in, and was neither removed nor erased.
func (m *Member) mayAct() bool { return m.State == Active && !m.erased() }

// ScopesInForce returns the scopes of a key, as tenant.ScopesInForce, or those of a member; 0 if it may not act.
func ScopesInForce(ctx context.Context, q store.Querier, actorID string, at time.Time) (api.Scopes, error) {
	if !api.IsID(api.PrefixMember, actorID) {
		return tenant.ScopesInForce(ctx, q, actorID, at)
	}
	m, err := findAny(ctx, q, actorID)
	if store.IsNone(err) {
		return 0, nil
	}
	if err != nil || !m.mayAct() {
		return 0, err
	}
	return m.Role.Scopes(), nil
}

// owners counts the owners of a tenant without a member: those who may act, and those who are invited.
func owners(ctx context.Context, q store.Querier, tenantID, without string) (active, invited int, err error) {
	all, err := store.List(ctx, q, "the owners of "+tenantID, members.Scan, members.Select()+` WHERE tenant_id = $1 AND role = 'owner' AND state <> 'REMOVED' AND member_id <> $2`, tenantID, without)
	for i := range all {
		switch m := &all[i]; {
		case m.mayAct():
			active++
		case m.State == Invited && !m.erased():
			invited++
		}
	}
	return active, invited, err
}

// list lists a slice of the tenant's members, newest first, in a state, or in any if it is empty.
func list(ctx context.Context, q store.Querier, tenantID, state string, s store.Slice) (page []Member, next string, err error) {
	var w store.Where
	w.Is("state", state)
	return members.Page(ctx, q, tenantID, w, s)
}
