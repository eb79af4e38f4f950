package console

import (
	"encoding/json"
	"net/url"
	"slices"

	"muniment.example/gateway/api"
	"muniment.example/gateway/client"
)

// payeeLink is a link of a payee's, as a statement's page lists it.
type payeeLink struct {
	client.PayeeLink
	Shown string // its state, with that of one whose time is over
	By    cell
}

// payeeLinks are a page of the links to parts of a statement, newest first; next is the cursor of the following one.
func (p *page) payeeLinks(statementID, cursor, limit string) (all []payeeLink, next string, err error) {
	query := url.Values{"statementId": {statementID}, "limit": {limit}}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	var data struct {
		Links      []client.PayeeLink
		NextCursor string
	}
	if err := p.do(call{op: "list-payee-links", query: query, quiet: limit != pageRows}, &data); err != nil {
		return nil, "", err
	}
	for _, l := range data.Links {
		shown := payeeLink{PayeeLink: l, Shown: l.State, By: p.shown(actor(l.CreatedBy))}
		if l.State == "ACTIVE" && !l.ExpiresAt.After(p.s.cfg.Now()) {
			shown.Shown = "EXPIRED"
		}
		all = append(all, shown)
	}
	return all, data.NextCursor, nil
}

// payeeLink is one link to a part of a statement, however many were made after it.
func (p *page) payeeLink(statementID, id string) (payeeLink, error) {
	for cursor := ""; ; {
		all, next, err := p.payeeLinks(statementID, cursor, "500")
		if err != nil {
			return payeeLink{}, err
		}
		if at := slices.IndexFunc(all, func(l payeeLink) bool { return l.ID == id }); at >= 0 {
			return all[at], nil
		}
		if next == "" {
			return payeeLink{}, api.NotFound("payee's link")
		}
		cursor = next
	}
}

// aboutPayeeLink are the consequences of a link, and who gets it.
func aboutPayeeLink(p *page, params []string) (consequences, error) {
	c, err := aboutStatement(
		"Anyone who has the link sees this payee’s part of the statement, without an account, with its PDF, CSV and proof. No other payee is named.",
		"Lines have their price and amount, as an invoice does. Where the payee shares a line, the rest is what the others get: with two payees, what the other gets.",
		"It is shown once. Send it to the payee alone. It can be revoked at any time.")(p, params[:1])
	if err != nil || !p.can("get-counterparty") {
		return c, err
	}
	var data struct{ Counterparty client.Counterparty }
	err = p.get(&data, "get-counterparty", nil, params[1])
	c.Lead = "For " + data.Counterparty.Name + ". " + c.Lead
	return c, err
}

// aboutEnd are the consequences of the end of a link.
func aboutEnd(p *page, params []string) (consequences, error) {
	c := consequences{Back: Path + "/money/statements/" + url.PathEscape(params[0]), Lines: []string{"The page that it leads to can’t be opened any more. What was downloaded stays where it is.", "This can't be undone."}}
	if !p.can("list-payee-links") {
		return c, nil
	}
	l, err := p.payeeLink(params[0], params[1])
	if err != nil {
		return c, err
	}
	if l.State != "ACTIVE" {
		c.Stop = "The link is revoked, so there is nothing to do here."
	}
	return c, nil
}

var payeeLinkActs = []*act{
	{
		path: "/money/statements/{statementId}/payees/{counterpartyId}/link", op: "create-payee-link", section: "Money", title: "Link for the payee", submit: "Make the link", on: statementIs("ISSUED", "SETTLED", "VOIDED"),
		within:       func([]string) []string { return nil },
		consequences: aboutPayeeLink,
		fields:       fixed(field{Name: "expiresAt", Label: "Works until", Kind: "time", Hint: "30 days, unless you name a time; at most 400 days."}),
		body: func(p *page, members map[string]any) (any, error) {
			members["statementId"], members["counterpartyId"] = p.r.PathValue("statementId"), p.r.PathValue("counterpartyId")
			return members, nil
		},
		after: func(p *page, params []string, response json.RawMessage) error {
			var made client.CreatedPayeeLink
			if err := json.Unmarshal(response, &made); err != nil {
				return err
			}
			return showSecret(p, secret{Title: "The link for the payee", Lead: "It is shown this once: copy it now. Only a hash of it is kept; the answer that has it is kept for a day, encrypted, for a request that is repeated. It works until " + p.zone().when(made.Link.ExpiresAt) + ".", Secret: made.URL, Back: Path + "/money/statements/" + url.PathEscape(params[0])})
		},
	},
	{
		path: "/money/statements/{statementId}/links/{payeeLinkId}/revoke", op: "revoke-payee-link", section: "Money", title: "Revoke the payee’s link", submit: "Revoke for good", danger: true,
		within:       func(params []string) []string { return params[1:] },
		consequences: aboutEnd,
		after: func(p *page, params []string, _ json.RawMessage) error {
			p.done(Path+"/money/statements/"+url.PathEscape(params[0]), "payee-link-revoked")
			return nil
		},
	},
}
