package console

import (
	"cmp"
	"net/url"
	"strings"

	"muniment.example/gateway/api"
)

// readers are the operations that the pages under a path need to be read.
var readers = map[string]string{
	"plays": "list-receipts", "held": "list-held-rows", "rejected": "list-rejected-plays", "rights": "list-rights", "bases": "list-bases", "offers": "list-offers", "challenges": "list-challenges",
	"money": "list-settlement-rules", "disputes": "list-disputes", "proof": "list-proof-packs", "webhooks": "list-webhooks", "kinds": "list-webhooks", "keys": "list-api-keys", "requests": "list-refused-requests", "members": "list-members", "data": "list-dsar-jobs", "erasures": "list-erasures",
}

// may reports whether the session may read the page at an address.
func (p *page) may(address string) bool {
	under, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(address, Path), "/"), "/")
	under, _, _ = strings.Cut(under, "?")
	return p.can(readers[under])
}

// Link is a link to the page of a record; only what it says where the session may not read that page.
func (p *page) Link(under, id, text string) cell {
	return p.allowed(cell{Text: text, Href: Path + under + "/" + url.PathEscape(id), value: id})
}

// Actor is who did something, by name where the session may read it.
func (p *page) Actor(by string) cell { return p.shown(actor(by)) }

// Record is a link to a right or a basis by its id.
func (p *page) Record(id string) cell {
	if api.IsID(api.PrefixRight, id) {
		return p.Link("/rights", id, id)
	}
	return p.Link("/bases", id, id)
}

// shown is a cell as the page shows it.
func (p *page) shown(c cell) cell {
	if !c.Time.IsZero() {
		c.Text = c.show(p.zone(), c.Time)
	}
	if c.actor != "" {
		c.Text = cmp.Or(p.actorName(c.actor), c.Text)
	}
	return p.allowed(c)
}

// allowed takes the link away from a cell if it leads to what the session may not read.
func (p *page) allowed(c cell) cell {
	if c.Href != "" && !p.may(c.Href) {
		c.Href = ""
	}
	return c
}
