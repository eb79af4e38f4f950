package console

import (
	"net/url"
	"strings"
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

// Search is a link to the plays that a filter selects.
func (p *page) Search(filter, value, text string) cell {
	return p.allowed(cell{Text: text, Href: addressed(Path+"/plays", url.Values{filter: {value}})})
}

// allowed takes the link away from a cell if it leads to what the session may not read.
func (p *page) allowed(c cell) cell {
	if c.Href != "" && !p.may(c.Href) {
		c.Href = ""
	}
	return c
}
