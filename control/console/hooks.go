package console

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"muniment.example/gateway/client"
)

func webhooksList() list[client.Webhook] {
	return list[client.Webhook]{
		op: "list-webhooks", plural: "webhooks", columns: []string{"Webhook", "URL", "For", "Events", "Set by", "State", "Fails since"},
		row: func(w client.Webhook) []cell {
			shown := state(w.State)
			if w.StateReason != "" {
				shown.Note = words(w.StateReason)
			}
			kinds := w.Events[0]
			if len(w.Events) > 1 {
				kinds = fmt.Sprintf("%s and %d more", kinds, len(w.Events)-1)
			}
			return []cell{id(w.ID, "/webhooks"), text(w.URL), text(w.Description), text(kinds), actor(w.KeyID), shown, moment(w.FailingSince)}
		},
	}
}

func showWebhooks(p *page) error {
	p.show("Webhooks", "Webhooks")
	return showList(p, webhooksList(), listed{
		Lead: "Where events are sent as they happen, signed.", Empty: "No webhook is there yet. Make one for the events that your systems want to know.",
		New: append(p.offer("create-webhook", "New webhook", "/webhooks/new"), task{Text: "Kinds of events", Href: Path + "/kinds"}),
	})
}

func sendWebhooks(p *page) error { return webhooksList().csv(p, "webhooks") }

// kindPage is a kind of event, with the newest one of the tenant's log.
type kindPage struct {
	Type, Means string
	Example     string
}

// kinds are those that tenants get, in the order of their names.
func (p *page) kinds() []kindPage {
	var all []kindPage
	for _, k := range p.s.cfg.Kinds.OfTenants() {
		all = append(all, kindPage{Type: k.Type, Means: k.Means})
	}
	slices.SortFunc(all, func(a, b kindPage) int { return strings.Compare(a.Type, b.Type) })
	return all
}

func showKinds(p *page) error {
	p.show("Webhooks", "Kinds of events")
	if err := p.missing("list-webhooks"); err != nil {
		return err
	}
	p.render("kinds", p.kinds())
	return nil
}

func showKind(p *page) error {
	p.show("Webhooks", "Kind of event")
	if err := p.missing("list-webhooks"); err != nil {
		return err
	}
	all := p.kinds()
	at := slices.IndexFunc(all, func(k kindPage) bool { return k.Type == p.r.PathValue("type") })
	if at < 0 {
		return unknownPage(p)
	}
	k := all[at]
	if p.can("list-events") {
		var data struct {
			Events []struct{ Event json.RawMessage }
		}
		if err := p.get(&data, "list-events", url.Values{"type": {k.Type}, "limit": {"1"}}); err != nil && wrong(err) == nil {
			return err
		}
		if len(data.Events) > 0 {
			k.Example = indented(data.Events[0].Event)
		}
	}
	p.render("kind", k)
	return nil
}

func indented(value json.RawMessage) string {
	var v any
	if json.Unmarshal(value, &v) != nil {
		return string(value)
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return string(value)
	}
	return string(text)
}

// webhookPage is a webhook with what was sent to it.
type webhookPage struct {
	client.Webhook
	SetBy      cell // a key or a member
	Deliveries []client.WebhookDelivery
	Next       string
	Filter     filter
}

func showWebhook(p *page) error {
	p.show("Webhooks", "Webhook")
	webhookID := p.r.PathValue("webhookId")
	var data struct{ Webhook client.Webhook }
	if err := p.get(&data, "get-webhook", nil, webhookID); err != nil {
		return err
	}
	query := p.filters("state", "cursor")
	query.Set("limit", "20")
	var sent struct {
		Deliveries []client.WebhookDelivery
		NextCursor string
	}
	if err := p.get(&sent, "list-webhook-deliveries", query, webhookID); err != nil {
		return err
	}
	w := webhookPage{Webhook: data.Webhook, SetBy: p.Actor(data.Webhook.KeyID), Deliveries: sent.Deliveries, Filter: filter{Name: "state", Label: "State", Value: query.Get("state"), Options: []string{"PENDING", "DELIVERED", "FAILED"}}}
	if sent.NextCursor != "" {
		following := p.filters("state")
		following.Set("cursor", sent.NextCursor)
		w.Next = addressed(p.Path, following)
	}
	p.render("webhook", w)
	return nil
}

// secret is what is shown this once.
type secret struct {
	Title, Lead, Secret, Back string
	Env                       string // the line of a .env file
	Download                  bool   // the secret is the address of a file
	Lines                     []string
}

func showSecret(p *page, s secret) error {
	p.Title = s.Title
	p.render("secret", s)
	return nil
}

func hookIs(all ...string) func(*page, any) (string, bool) {
	return states("webhook", func(w client.Webhook) string { return w.State }, all...)
}

func aboutWebhook(lines ...string) func(*page, []string) (consequences, error) {
	return func(p *page, params []string) (consequences, error) {
		c := consequences{Back: Path + "/webhooks/" + url.PathEscape(params[0]), Lines: lines}
		if !p.can("get-webhook") {
			return c, nil
		}
		var data struct{ Webhook client.Webhook }
		err := p.get(&data, "get-webhook", nil, params[0])
		c.Lead, c.record = data.Webhook.URL, data.Webhook
		return c, err
	}
}

func webhookFields(p *page) ([]field, error) {
	var kinds []string
	for _, k := range p.kinds() {
		kinds = append(kinds, k.Type)
	}
	return []field{
		{Name: "url", Label: "URL", Required: true, Example: "https://…"},
		{Name: "description", Label: "What it is for", Hint: permanent},
		{Name: "events", Label: "Kinds of events", Kind: "choices", Options: append([]string{"*"}, kinds...), Hint: "* is all kinds. Only kinds that your session may read."},
	}, nil
}

// shownWebhook is what a form shows of a webhook.
type shownWebhook struct {
	State, URL, Description string
	Events                  []string
}

// changeFields are those of a change, as the webhook is now, and what they are then, which is not seen.
func changeFields(p *page) ([]field, error) {
	fields := []field{{Name: "state", Label: "State", Kind: "select", Options: []string{"ACTIVE", "PAUSED", "DISABLED"}}, {Name: "url", Label: "URL"}, {Name: "description", Label: "What it is for", Hint: permanent}}
	all, err := webhookFields(p)
	if err != nil || !p.can("get-webhook") {
		return fields, err
	}
	var data struct{ Webhook client.Webhook }
	if err := p.get(&data, "get-webhook", nil, p.r.PathValue("webhookId")); err != nil {
		return nil, err
	}
	w, kinds := data.Webhook, all[2]
	fields[0].Value, fields[1].Value, fields[2].Value, kinds.Chosen = w.State, w.URL, w.Description, w.Events
	fields[0].Required, fields[1].Required, kinds.Required = true, true, true
	shown, err := json.Marshal(shownWebhook{w.State, w.URL, w.Description, w.Events})
	return append(fields, kinds, field{Name: "shown", Kind: "hidden", Value: string(shown)}), err
}

// changedAlone is what a person changes of a webhook: what is as the form showed it stays as it is by now, also if the service
// or somebody else has changed it since. Of kinds of events that are not changed it may have some that the session may not read.
func changedAlone(_ *page, members map[string]any) (any, error) {
	text, given := members["shown"].(string)
	if delete(members, "shown"); !given {
		return members, nil
	}
	var shown shownWebhook
	if err := json.Unmarshal([]byte(text), &shown); err != nil {
		return nil, invalid("shown", "is not what the form had: load the page again")
	}
	for _, name := range []string{"url", "events"} {
		if members[name] == nil {
			return nil, invalid(name, "is missing: a webhook that shall get nothing is paused, disabled or deleted")
		}
	}
	if members["description"] == nil {
		members["description"] = ""
	}
	for name, was := range map[string]string{"state": shown.State, "url": shown.URL, "description": shown.Description} {
		if members[name] == was {
			delete(members, name)
		}
	}
	if chosen, _ := members["events"].([]string); slices.Equal(slices.Sorted(slices.Values(chosen)), slices.Sorted(slices.Values(shown.Events))) {
		delete(members, "events")
	}
	return members, nil
}

var webhookActs = []*act{
	{
		path: "/webhooks/new", op: "create-webhook", section: "Webhooks", title: "New webhook", submit: "Make the webhook", consequences: func(p *page, _ []string) (consequences, error) {
			stops := "revoking the key that you have signed in with stops them."
			if p.Session.Role != "" {
				stops = "they stop when you are removed, or get a role that may not read them."
			}
			return consequences{Back: Path + "/webhooks", Lines: []string{"Events from now on are sent there, in your name: " + stops}}, nil
		}, fields: webhookFields,
		after: func(p *page, _ []string, response json.RawMessage) error {
			var made client.CreatedWebhook
			if err := json.Unmarshal(response, &made); err != nil {
				return err
			}
			return showSecret(p, secret{Title: "The secret of the webhook", Lead: "Receivers verify by it that a request is from here. It is shown this once.", Secret: made.Secret, Env: "MUNIMENT_WEBHOOK_SECRET", Back: Path + "/webhooks/" + made.Webhook.ID, Lines: made.VerifyingKeys})
		},
	},
	{path: "/webhooks/{webhookId}/test", op: "test-webhook", section: "Webhooks", title: "Send a test event", submit: "Send it", button: "Send a test…", main: true, on: hookIs("ACTIVE"), consequences: aboutWebhook("An event that exists for this test alone is sent there, signed like any other. The attempt shows below the webhook."), after: goBack("/webhooks", "webhook-tested")},
	{
		path: "/webhooks/{webhookId}/secret", op: "rotate-webhook-secret", section: "Webhooks", title: "New secret", submit: "Make a new secret", button: "New secret…", on: hookIs("ACTIVE", "PAUSED", "DISABLED"), consequences: aboutWebhook("For a day both secrets sign; then the old one ends. Receivers need the new one within the day."),
		after: func(p *page, params []string, response json.RawMessage) error {
			var made client.RotatedWebhook
			if err := json.Unmarshal(response, &made); err != nil {
				return err
			}
			return showSecret(p, secret{Title: "The new secret of the webhook", Lead: "It is shown this once. The old one signs as well until " + p.zone().when(made.PreviousUntil) + ".", Secret: made.Secret, Env: "MUNIMENT_WEBHOOK_SECRET", Back: Path + "/webhooks/" + url.PathEscape(params[0])})
		},
	},
	{
		path: "/webhooks/{webhookId}/change", op: "change-webhook", section: "Webhooks", title: "Change the webhook", submit: "Change", button: "Change…", on: hookIs("ACTIVE", "PAUSED", "DISABLED"), consequences: aboutWebhook("While it is paused events wait; while it is disabled none are queued."),
		fields: changeFields, body: changedAlone, after: goBack("/webhooks", "webhook-changed"),
	},
	{path: "/webhooks/{webhookId}/delete", op: "delete-webhook", section: "Webhooks", title: "Delete the webhook", submit: "Delete", danger: true, button: "Delete…", on: hookIs("ACTIVE", "PAUSED", "DISABLED"), consequences: aboutWebhook("Nothing is sent there any more, what waits included. This can't be undone."), after: func(p *page, _ []string, _ json.RawMessage) error {
		p.done(Path+"/webhooks", "webhook-deleted")
		return nil
	}},
	{path: "/webhooks/{webhookId}/deliveries/{deliveryId}/resend", op: "resend-webhook-delivery", section: "Webhooks", title: "Send again", submit: "Send again", consequences: aboutWebhook("The same message is sent again, under the same id: a receiver that has had it knows it."), after: goBack("/webhooks", "webhook-resent")},
	{
		path: "/webhooks/{webhookId}/recover", op: "recover-webhook", section: "Webhooks", title: "Send what was missed", submit: "Send it", button: "Send what was missed…", on: hookIs("ACTIVE", "PAUSED"), consequences: aboutWebhook("All that the webhook has not received of this time is sent again."),
		fields: fixed(field{Name: "since", Label: "Events since", Kind: "time", Required: true}, field{Name: "until", Label: "Events before", Kind: "time"}), after: goBack("/webhooks", "webhook-recovering"),
	},
}
