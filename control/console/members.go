package console

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"sync"

	"muniment.example/control/member"
	"muniment.example/gateway/api"
	"muniment.example/gateway/client"
)

func membersList() list[client.Member] {
	return list[client.Member]{
		op: "list-members", plural: "members", columns: []string{"Member", "Name", "Address", "Role", "State", "Invited", "Invited by"},
		row: func(m client.Member) []cell {
			return []cell{id(m.ID, "/members"), text(m.Name), text(m.Email), text(m.Role), state(m.State), moment(m.CreatedAt), actor(m.InvitedBy)}
		},
	}
}

func showMembers(p *page) error {
	p.show("Members", "Members")
	return showList(p, membersList(), listed{
		Lead: "The persons who may sign in here, by a link that is mailed to them, or at the OpenID Connect provider, if the service has one. Each can do what their role says.", Empty: "Nobody is a member yet. Invite the first: they need no key.", New: p.offer("invite-member", "Invite a person", "/members/new"),
	}, filter{Name: "state", Label: "State", Options: []string{"INVITED", "ACTIVE", "REMOVED"}})
}

func sendMembers(p *page) error {
	l := membersList()
	l.query = p.filters("state")
	return l.csv(p, "members")
}

func showMember(p *page) error {
	p.show("Members", "Member")
	var data struct{ Member client.Member }
	if err := p.get(&data, "get-member", nil, p.r.PathValue("memberId")); err != nil {
		return err
	}
	p.render("member", struct {
		client.Member
		Own, Manage bool
		InvitedBy   cell
	}{data.Member, data.Member.ID == p.Session.Actor.ID, data.Member.State != "REMOVED" && p.grants(member.Role(data.Member.Role)), p.shown(actor(data.Member.InvitedBy))})
	return nil
}

// grants reports whether the session may give and take a role.
func (p *page) grants(role member.Role) bool {
	return p.Session.Allows(api.Wildcard) || role.Scopes()&^p.Session.Caller.Scopes == 0
}

// roleField is the choice of a role that the session may give.
func roleField(p *page) field {
	f := field{Name: "role", Label: "Role", Kind: "select", Required: true, Value: string(member.Viewer), Hint: "owner: everything, members and keys included. finance: reads, and changes money and disputes. operations: reads, and changes rights, offers, challenges, webhooks and disputes. viewer: reads."}
	for _, role := range member.Roles() {
		if p.grants(role) {
			f.Options = append(f.Options, string(role))
		}
	}
	return f
}

// actor is a cell of who did something: a link to the page of a key or a member, which shown names.
func actor(by string) cell {
	c := text(by)
	switch {
	case api.IsID(api.PrefixKey, by):
		c = id(by, "/keys")
	case api.IsID(api.PrefixMember, by):
		c = id(by, "/members")
	}
	c.actor = by
	return c
}

// actorName is what a key or a member is called, among the newest 500 of each; empty where the session may not know it. The page
// reads them once.
func (p *page) actorName(by string) string {
	p.mu.Lock()
	if p.actors == nil {
		p.actors = sync.OnceValue(p.readActors)
	}
	read := p.actors
	p.mu.Unlock()
	return read()[by]
}

func (p *page) readActors() map[string]string {
	names := map[string]string{p.Session.Actor.ID: p.Session.Name}
	called, err := p.s.cfg.Members.Names(p.r.Context(), *p.Session) // members know each other by name; keys and addresses are for those who manage them
	if err != nil {
		p.s.cfg.Logger.WarnContext(p.r.Context(), "cannot read what members are called", "err", err)
	}
	maps.Copy(names, called)
	var data struct {
		Keys    []client.APIKey
		Members []client.Member
	}
	for _, op := range []string{"list-api-keys", "list-members"} {
		if !p.can(op) || p.do(call{op: op, query: url.Values{"limit": {"500"}}, quiet: true}, &data) != nil { // ids stand for what can't be read
			continue
		}
	}
	for _, k := range data.Keys {
		names[k.KeyID] = k.Label
	}
	for _, m := range data.Members {
		names[m.ID] = cmp.Or(m.Name, m.Email)
	}
	return names
}

func aboutMember(lines ...string) func(*page, []string) (consequences, error) {
	return func(p *page, params []string) (consequences, error) {
		c := consequences{Back: Path + "/members/" + url.PathEscape(params[0]), Lines: lines}
		var data struct{ Member client.Member }
		if err := p.get(&data, "get-member", nil, params[0]); err != nil {
			return c, err
		}
		m := data.Member
		c.Lead = cmp.Or(m.Name, m.Email) + ", " + m.Role
		switch {
		case m.State == "REMOVED":
			c.Stop = "The member was removed, so there is nothing to do here."
		case !p.grants(member.Role(m.Role)):
			c.Stop = "Only who holds all scopes of the role " + m.Role + " may give or take it."
		case m.ID == p.Session.Actor.ID:
			c.Lines = append(append([]string{}, lines...), "It is you who have signed in: what you may do here changes with it.")
		}
		return c, nil
	}
}

// backTo leads on to a page about a member, unless the session is theirs and may have lost it.
func backTo(under func(memberID string) string, deed string) func(*page, []string, json.RawMessage) error {
	return func(p *page, params []string, _ json.RawMessage) error {
		to := Path + under(url.PathEscape(params[0]))
		if params[0] == p.Session.Actor.ID {
			to = Path
		}
		p.done(to, deed)
		return nil
	}
}

var memberActs = []*act{
	{
		path: "/members/new", op: "invite-member", section: "Members", title: "Invite a person", submit: "Invite",
		consequences: func(p *page, _ []string) (consequences, error) {
			c := consequences{Back: Path + "/members", Lines: []string{"A mail tells the person where to sign in. It gives access to nobody: who signs in has a link mailed to the same address, or an account at the OpenID Connect provider of the service that has verified it."}}
			if len(roleField(p).Options) == 0 {
				c.Stop = "Only who holds all scopes of a role may give it, and you hold those of none."
			}
			return c, nil
		},
		fields: func(p *page) ([]field, error) {
			return []field{
				{Name: "email", Label: "Address", Required: true, Example: "ada@example.org", Hint: "Where links to sign in are sent. It can't be changed: remove the member, and invite the new address."},
				{Name: "name", Label: "Name", Example: "Ada"},
				roleField(p),
			}, nil
		},
		after: goTo("/members", "member", "member-invited"),
	},
	{
		path: "/members/{memberId}/role", op: "change-member", section: "Members", title: "Change the role", submit: "Change the role",
		consequences: aboutMember("It holds from the member's next request on. Webhooks that the member has set stop, if the new role may not have them. The last owner stays one."),
		fields:       func(p *page) ([]field, error) { return []field{roleField(p)}, nil },
		after:        backTo(func(memberID string) string { return "/members/" + memberID }, "member-changed"),
	},
	{
		path: "/members/{memberId}/remove", op: "remove-member", section: "Members", title: "Remove the member", submit: "Remove for good", danger: true,
		consequences: aboutMember("The member's sessions and links end at once, and webhooks that the member has set are paused. Keys that the member has made stay. The last owner stays one.", "This can't be undone. The address may be invited again, as another member, who can then sign in with another account at the OpenID Connect provider."),
		after:        backTo(func(string) string { return "/members" }, "member-removed"),
	},
}
