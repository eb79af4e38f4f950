package console

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"muniment.example/gateway/api"
	"muniment.example/gateway/client"
)

func keysList(now time.Time) list[client.APIKey] {
	return list[client.APIKey]{
		op: "list-api-keys", plural: "keys", columns: []string{"Key", "For", "State", "Last used", "Scopes", "Expires", "Made", "Made by"},
		row: func(k client.APIKey) []cell {
			return []cell{id(k.KeyID, "/keys"), text(k.Label), state(keyState(k, now)), lastUse(k), text(strings.Join(k.Scopes, ", ")), moment(k.ExpiresAt), moment(k.CreatedAt), actor(k.CreatedBy)}
		},
	}
}

// lastUse is when a key was last used.
func lastUse(k client.APIKey) cell {
	if k.LastUsedAt.IsZero() {
		return cell{Text: "never", value: " "}
	}
	return minute(k.LastUsedAt)
}

// keyState is the state of a key, which its record has as times.
func keyState(k client.APIKey, now time.Time) string {
	switch {
	case !k.RevokedAt.IsZero():
		return "REVOKED"
	case !k.ExpiresAt.IsZero() && !k.ExpiresAt.After(now):
		return "EXPIRED"
	}
	return "ACTIVE"
}

func showKeys(p *page) error {
	p.show("Keys", "Keys")
	return showList(p, keysList(p.s.cfg.Now()), listed{Lead: "What programs sign in with. A key can do what its scopes say, and nothing else.", Empty: "No key is there.", New: p.offer("create-api-key", "New key", "/keys/new")})
}

func sendKeys(p *page) error { return keysList(p.s.cfg.Now()).csv(p, "keys") }

func showKey(p *page) error {
	p.show("Keys", "Key")
	var data struct{ Key client.APIKey }
	if err := p.get(&data, "get-api-key", nil, p.r.PathValue("keyId")); err != nil {
		return err
	}
	p.render("key", struct {
		client.APIKey
		State   string
		Refused string // where its refused requests are
		LastUse cell
		Own     bool
		MadeBy  cell
	}{data.Key, keyState(data.Key, p.s.cfg.Now()), addressed(Path+"/requests", url.Values{"keyId": {data.Key.KeyID}}), lastUse(data.Key), data.Key.KeyID == p.Session.Actor.ID, p.allowed(actor(data.Key.CreatedBy))})
	return nil
}

// showMadeKey shows a key this once.
func showMadeKey(p *page, _ []string, response json.RawMessage) error {
	var made client.CreatedAPIKey
	if err := json.Unmarshal(response, &made); err != nil {
		return err
	}
	return showSecret(p, secret{Title: "The new key", Lead: "It is shown this once: copy it now. Only a hash of it is kept; the answer that has it is kept for a day, encrypted, for a request that is repeated.", Secret: made.APIKey, Env: "MUNIMENT_KEY", Back: Path + "/keys/" + made.Key.KeyID})
}

// outlasting says what works on when a key is revoked, of what it has made, and how to end it.
func outlasting(of *client.APIKeyDetails) (lines []string) {
	say := func(what, how string, all []string, more bool) {
		if len(all) == 0 {
			return
		}
		if more {
			all = append(all, "and more")
		}
		lines = append(lines, what+" it has made, or what it made has, that work on: "+strings.Join(all, ", ")+". "+how)
	}
	var keys, people, links []string
	for _, k := range of.MadeKeys {
		keys = append(keys, k.Label+" ("+k.KeyID+")")
	}
	for _, m := range of.MadeMembers {
		people = append(people, m.Role+" "+m.MemberID+", "+words(m.State))
	}
	for _, l := range of.MadePayeeLinks {
		links = append(links, l.PayeeLinkID+" of "+l.StatementID)
	}
	say("Keys", "Revoke those that are not yours.", keys, of.MoreMadeKeys)
	say("Members", "Remove those whom you don't know. Those whom it has invited itself and who have not signed in are removed with it.", people, of.MoreMadeMembers)
	say("Payees' links", "Revoke those that are not yours, on the pages of their statements.", links, of.MoreMadePayeeLinks)
	return lines
}

// aboutKey are the consequences of an act on a key; ends says that the key ends with it.
func aboutKey(ends bool, lines ...string) func(*page, []string) (consequences, error) {
	return func(p *page, params []string) (consequences, error) {
		c := consequences{Back: Path + "/keys/" + url.PathEscape(params[0]), Lines: slices.Clone(lines)}
		var data client.APIKeyDetails
		if err := p.get(&data, "get-api-key", nil, params[0]); err != nil {
			return c, err
		}
		if ends {
			c.Lines = append(c.Lines, outlasting(&data)...)
		}
		c.Lead = data.Key.Label + " (" + data.Key.Prefix + ")"
		if !data.Key.RevokedAt.IsZero() {
			c.Stop = "The key is revoked, so there is nothing to do here."
		}
		if data.Key.KeyID == p.Session.Actor.ID {
			c.Lines = append(c.Lines, "It is the key that you have signed in with: your session ends with it.")
		}
		return c, nil
	}
}

// confirmed is an error unless the actor has signed in a moment ago.
func confirmed(p *page) error { return p.Session.Confirmed() }

var keyActs = []*act{
	{
		path: "/keys/new", op: "create-api-key", section: "Keys", title: "New key", submit: "Make the key",
		consequences: func(p *page, _ []string) (consequences, error) {
			ends := "It ends with the key that you have signed in with, at the latest."
			if p.Session.Role != "" {
				ends = "It stays when your membership ends: revoke it then."
			}
			return consequences{Back: Path + "/keys", Lines: []string{"The key works at once, with the scopes that you choose. " + ends}}, nil
		},
		fields: func(p *page) ([]field, error) {
			var scopes []string
			for _, name := range p.Session.Caller.Scopes.Names() {
				if name != api.Wildcard.String() {
					scopes = append(scopes, name)
				}
			}
			if p.Session.Allows(api.Wildcard) {
				scopes = append([]string{}, api.EveryScope.Names()...)
			}
			return []field{
				{Name: "label", Label: "What it is for", Required: true, Example: "player in Berlin"},
				{Name: "scopes", Label: "Scopes", Kind: "choices", Options: scopes, Hint: "A player needs delivery:write alone."},
				{Name: "expiresAt", Label: "Expires", Kind: "time", Hint: "It does not end by itself, unless you name a time."},
			}, nil
		},
		body: func(_ *page, members map[string]any) (any, error) {
			if members["scopes"] == nil {
				return nil, invalid("scopes", "are missing: choose at least one")
			}
			return members, nil
		},
		after: showMadeKey,
	},
	{
		path: "/keys/{keyId}/rotate", op: "rotate-api-key", section: "Keys", title: "Rotate the key", submit: "Make its successor",
		consequences: aboutKey(false, "A new key with the same scopes is made, and shown once. The old one works on for a day, unless you say otherwise: put the new one in place before that."),
		fields:       fixed(field{Name: "overlapSeconds", Label: "The old one works on for, in hours", Kind: "hours", Example: "24", Hint: "A day, unless you say otherwise; at most 30 days, which are 720 hours."}),
		body: func(_ *page, members map[string]any) (any, error) {
			if seconds, given := members["overlapSeconds"].(int64); given && seconds > 720*3600 {
				return nil, invalid("overlapSeconds", "must be at most 720 hours, which are 30 days")
			}
			return members, nil
		},
		after: showMadeKey,
	},
	{path: "/keys/{keyId}/revoke", op: "revoke-api-key", section: "Keys", title: "Revoke the key", submit: "Revoke for good", danger: true, consequences: aboutKey(true, "Requests with it are refused from now on, at nodes within seconds. Webhooks that it has made stop.", "This can't be undone."), after: func(p *page, params []string, _ json.RawMessage) error {
		p.done(Path+"/keys", "key-revoked")
		return nil
	}},
}
