package member

import (
	"context"
	"fmt"
	"strings"
	"time"

	"muniment.example/control/mailer"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/sealer"
)

const (
	// mostMembers is how many members a tenant has, without those who were removed.
	mostMembers = 500
	// mostInvitations is how many persons a tenant invites within a day, and mostOfAddress how often one address.
	mostInvitations, mostOfAddress = 100, 3
	// maxName is the longest name, in bytes.
	maxName = 200
)

// First makes the first owner of a new tenant, in the change that makes the tenant. An empty address, and one that no
// mail would reach, makes none.
func First(ctx context.Context, tx *store.Tx, of tenant.Created, email, env string, by sealer.Ref) error {
	if email = strings.ToLower(email); !mailer.IsAddress(email) {
		return nil
	}
	return create(ctx, tx, &Member{TenantID: of.TenantID, OrgID: of.OrgID, DeveloperID: of.DeveloperID, Env: env, Email: email, Role: Owner}, by)
}

// create writes a new member.
func create(ctx context.Context, tx *store.Tx, m *Member, by sealer.Ref) error {
	now := store.At(tx.Now())
	m.ID, m.State, m.InvitedBy, m.CreatedAt, m.UpdatedAt = api.NewID(api.PrefixMember, now.Time), Invited, by.Kind, now, now
	if by.Kind == "key" || by.Kind == members.Noun {
		m.InvitedBy = by.ID
	}
	return members.Create(ctx, tx, eventInvited, m, by, nil)
}

// Invitation is a request for a member.
type Invitation struct {
	Email string `json:"email" minLength:"1" maxLength:"254" doc:"Where links to sign in are sent. Never written to events." example:"ada@example.org"`
	Name  string `json:"name,omitempty" maxLength:"200" doc:"What the person is called. Never written to events." example:"Ada"`
	Role  Role   `json:"role" enum:"owner,finance,operations,viewer" doc:"What the member may do. The caller has to hold all scopes of the role."`
}

// normal is the invitation as it is kept, or what is wrong with it.
func (i Invitation) normal() (Invitation, error) {
	sent := i.Email
	i.Email, i.Name = strings.ToLower(sent), strings.TrimSpace(i.Name)
	var faults []api.ValidationError
	if !mailer.IsAddress(sent) || !mailer.IsAddress(i.Email) {
		faults = append(faults, api.ValidationError{Field: "email", Message: fmt.Sprintf("must be one e-mail address of at most %d bytes, as name@example.org", mailer.MaxAddress)})
	}
	if len(i.Name) > maxName || !mailer.IsPlain(i.Name, "") {
		faults = append(faults, api.ValidationError{Field: "name", Message: fmt.Sprintf("must be text without control characters, of at most %d bytes", maxName)})
	}
	if len(faults) > 0 {
		return i, api.Invalid(faults...)
	}
	return i, nil
}

// invite makes a member, and queues the mail that says so.
func (s *Service) invite(ctx context.Context, caller auth.Principal, i Invitation) (m Member, err error) {
	if i, err = i.normal(); err != nil {
		return m, err
	}
	m = Member{TenantID: caller.TenantID, OrgID: caller.OrgID, DeveloperID: caller.DeveloperID, Env: tenant.EnvOf(caller.Prefix), Email: i.Email, Name: i.Name, Role: i.Role}
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		if err := s.mayGrant(ctx, tx, caller, i.Role, "invite a member with the role "+string(i.Role)); err != nil {
			return err
		}
		if err := withinLimits(ctx, tx, &m); err != nil {
			return err
		}
		if err := create(ctx, tx, &m, store.ByKey(caller.ID)); err != nil {
			return err
		}
		_, err := tx.Enqueue(ctx, store.NewJob{Kind: MailJob, TenantID: api.SystemTenant, Lane: m.ID, Payload: mailing{MemberID: m.ID}})
		return err
	})
	return m, err
}

// Withdraw removes the members whom a key invited and who have not signed in, in the change that revokes the key, and returns
// who they are: who holds a stolen key may have invited anybody.
func Withdraw(ctx context.Context, tx *store.Tx, tenantID, keyID string, by sealer.Ref) (memberIDs []string, err error) {
	memberIDs, err = store.List(ctx, tx, "the members invited by "+keyID, store.Text, `SELECT member_id FROM members WHERE tenant_id = $1 AND state = $2 AND invited_by = $3 ORDER BY member_id`, tenantID, string(Invited), keyID)
	for _, id := range memberIDs {
		if err == nil {
			_, err = members.Move(ctx, tx, store.Move[Member, action]{TenantID: tenantID, ID: id, Action: remove, By: by})
		}
	}
	return memberIDs, err
}

// withinLimits refuses an invitation of an address that is a member already, and too many.
func withinLimits(ctx context.Context, tx *store.Tx, m *Member) error {
	since := store.At(tx.Now().Add(-24 * time.Hour))
	var all, recent, same, sameRecent int64
	err := tx.QueryRowContext(ctx, `SELECT COUNT(CASE WHEN state <> 'REMOVED' THEN 1 END), COUNT(CASE WHEN created_at > $2 THEN 1 END),
			COUNT(CASE WHEN email = $3 AND state <> 'REMOVED' THEN 1 END), COUNT(CASE WHEN email = $3 AND created_at > $2 THEN 1 END)
		FROM members WHERE tenant_id = $1`, m.TenantID, since, m.Email).Scan(&all, &recent, &same, &sameRecent)
	switch {
	case err != nil:
		return fmt.Errorf("cannot count the members of %s: %w", m.TenantID, err)
	case same > 0:
		return api.Conflict("this address is a member already: change the role of that member")
	case all >= mostMembers:
		return api.Conflict(fmt.Sprintf("the tenant has the maximum of %d members: remove one", mostMembers))
	case recent >= mostInvitations:
		return api.Conflict(fmt.Sprintf("the tenant has invited %d persons within 24 hours, the most: invite others tomorrow", mostInvitations))
	case sameRecent >= mostOfAddress:
		return api.Conflict(fmt.Sprintf("this address was invited %d times within 24 hours, the most: invite it again tomorrow", mostOfAddress))
	}
	return nil
}

// mayGrant returns SCOPE_MISSING unless the caller holds all scopes of a role, in the change that gives or takes it.
// What the caller held when the request was admitted is not enough.
func (s *Service) mayGrant(ctx context.Context, tx *store.Tx, caller auth.Principal, role Role, does string) error {
	held, err := ScopesInForce(ctx, tx, caller.ID, tx.Now())
	if err != nil {
		return err
	}
	if held == 0 {
		return auth.ErrInvalid
	}
	if missing := role.Scopes() &^ held; missing != 0 && !held.Allows(api.Wildcard) {
		return &api.Error{Code: api.ScopeMissing, Message: "to " + does + ", you need all scopes of that role", RequiredScopes: missing.Names(), KeyScopes: held.Names()}
	}
	return nil
}

// changeRole gives a member another role.
func (s *Service) changeRole(ctx context.Context, caller auth.Principal, memberID string, role Role) (Member, error) {
	return s.move(ctx, caller, memberID, change, func(m *Member) Role { return role })
}

// removeMember ends a member's sessions, links and webhooks for good. Of one that was removed before nothing changes.
func (s *Service) removeMember(ctx context.Context, caller auth.Principal, memberID string) (Member, error) {
	return s.move(ctx, caller, memberID, remove, func(m *Member) Role { return m.Role })
}

// move changes a member in a way that takes scopes. as is the role that the member has then.
func (s *Service) move(ctx context.Context, caller auth.Principal, memberID string, a action, as func(*Member) Role) (moved Member, err error) {
	err = members.Do(ctx, s.db, a, func(tx *store.Tx) error {
		was, err := members.Find(ctx, tx, caller.TenantID, memberID)
		if err != nil {
			return err
		}
		role := as(was)
		for _, r := range []Role{was.Role, role} {
			if err := s.mayGrant(ctx, tx, caller, r, "give or take the role "+string(r)); err != nil {
				return err
			}
		}
		if a == change && role == was.Role && was.State != Removed {
			moved = *was
			return nil
		}
		if was.Role == Owner && was.State != Removed && !was.erased() && (role != Owner || a == remove) {
			active, invited, err := owners(ctx, tx, was.TenantID, was.ID)
			if err != nil {
				return err
			}
			if active == 0 && (was.State == Active || invited == 0) {
				return api.Conflict("the last owner stays: first make another member an owner, who has to have signed in")
			}
		}
		moved, err = members.Move(ctx, tx, store.Move[Member, action]{TenantID: caller.TenantID, ID: memberID, Action: a, By: store.ByKey(caller.ID), Edit: func(next *Member) error {
			next.Role = role
			return nil
		}})
		if err != nil || s.cfg.Ended == nil {
			return err
		}
		return s.cfg.Ended(ctx, tx, caller.TenantID)
	})
	return moved, err
}

// Erased does what follows when a person was erased who may be a member, in that change: as after a removal, what the
// member has set ends. rows counts the records that named the person, by kind. The last owner is erased, too: the person's
// right comes first, so a warning to the operators says that nobody is left.
func (s *Service) Erased(ctx context.Context, tx *store.Tx, tenantID string, rows map[string]int64) error {
	if rows[members.Noun] == 0 {
		return nil
	}
	if s.cfg.Ended != nil {
		if err := s.cfg.Ended(ctx, tx, tenantID); err != nil {
			return err
		}
	}
	active, invited, err := owners(ctx, tx, tenantID, "")
	if err == nil && active+invited == 0 {
		s.cfg.Logger.WarnContext(ctx, "a member was erased, and the tenant has no owner who may sign in: an API key with * can invite one", "tenantId", tenantID)
	}
	return err
}

// callerOf is a member as it may act now; AUTH_INVALID once it was removed or its person erased.
func (s *Service) callerOf(ctx context.Context, tenantID, memberID string) (auth.Principal, *Member, error) {
	m, err := members.Find(ctx, s.db.Read(), tenantID, memberID)
	if store.IsNone(err) || err == nil && !m.mayAct() {
		return auth.Principal{}, nil, errEnded
	}
	if err != nil {
		return auth.Principal{}, nil, err
	}
	sandbox, err := tenant.IsSandbox(ctx, s.db.Read(), tenantID)
	return auth.Principal{Key: &api.Key{
		ID: m.ID, TenantID: m.TenantID, OrgID: m.OrgID, DeveloperID: m.DeveloperID, Revision: m.Revision,
		Label: string(m.Role), Prefix: "mun_" + m.Env + "_" + strings.TrimPrefix(m.ID, string(api.PrefixMember)), Scopes: m.Role.Scopes(), Sandbox: sandbox,
	}}, m, err
}
