package member

import (
	"context"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// The events about members. Who may read them is who may list members.
var (
	memberEvents = &store.Noun{Name: "member", Scope: api.KeysWrite}
	eventInvited = memberEvents.Kind("member.invited", "A person was invited to sign in to the tenant's console.", Member{})
	eventJoined  = memberEvents.Kind("member.joined", "The member signed in for the first time. If bound is true, it was at the OpenID Connect provider, and no other account there signs in as the member from then on.", Member{})
	eventBound   = memberEvents.Kind("member.bound", "The member, who had joined before, signed in at the OpenID Connect provider for the first time: no other account there signs in as the member from then on.", Member{})
	eventChanged = memberEvents.Kind("member.changed", "The member got another role.", Member{})
	eventRemoved = memberEvents.Kind("member.removed", "The member may not sign in any more.", Member{})
)

// Nouns are the nouns of this package's events.
var Nouns = []*store.Noun{memberEvents}

// Replay applies the newest event of a member for rollback.Replay: role and state are those of the event's record, and a member
// who was bound to an account stays bound. No event says to which, so no account signs in as a member whose binding the
// database has lost. A member of whom the database knows nothing stays unknown, as no event has an address.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	was, said, err := members.NewerInEvent(ctx, tx, e)
	if err != nil || was == nil || said == nil {
		return false, err
	}
	return true, members.Restore(ctx, tx, was, said)
}

// Sections are the data of this package in an export of the tenant.
var Sections = []store.Section{
	store.SectionOf("members", api.KeysWrite, func(row store.Row) (Shown, error) {
		m, err := members.Scan(row)
		return m.shown(), err
	}, members.Select()+` WHERE tenant_id = $1 ORDER BY member_id`),
}
