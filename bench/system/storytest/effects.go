package storytest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/gateway/api"
)

// effects are the kinds of events that operations of each scope alone may cause. Scopes that are not
// here cause none.
var effects = map[string][]string{
	"rights:write":     {"basis.", "right."},
	"offers:write":     {"offer."},
	"challenges:write": {"challenge."},
	"delivery:write":   {"delivery.", "mapping.", "beacon."},
	"audit:read":       {"dsar.", "pack.downloaded", "events.exported"},
	"proof:write":      {"pack.sealed"},
	"settlement:write": {"counterparty.", "settlement_rule.", "statement.", "payable.", "payee_link.", "issuer.", "pack.sealed"}, // a draft seals first
	"webhooks:write":   {"webhook."},
	"disputes:write":   {"dispute."},
	"keys:write":       {"key.", "member."},
}

// asked is what an operation is asked for, where the example of the document would do less.
var asked = map[string]string{
	"issue-right":       `{"basisId":"{basisId}","substrate":"CTV","scope":{},"effectiveFrom":"2026-01-01T00:00:00Z"}`,
	"import-mappings":   "vendor,idType,vendorId,rightId,spatialAnchorId,effectiveFrom\nv,t,imported,{rightId},a,2026-01-01T00:00:00Z\n",
	"resolve-challenge": `{"upheld":true}`,
	"resolve-dispute":   `{"outcome":"UPHELD"}`,
	"create-payee-link": `{"statementId":"{statementId}","counterpartyId":"{counterpartyId}"}`,
	"change-webhook":    `{"url":"https://elsewhere.example/x","events":["right.*"],"state":"ACTIVE"}`,
	"recover-webhook":   `{"since":"2026-01-01"}`,
}

// before are the operations by which the owner brings a record into the state in which another one
// begins.
var before = map[string][]string{
	"resume-right":            {"suspend-right"},
	"respond-to-dispute":      {"investigate-dispute"},
	"settle-statement":        {"issue-statement"},
	"deactivate-counterparty": {"retire-settlement-rule"},
	"correct-statement":       {"issue-statement"},
	"void-statement":          {"issue-statement"},
	"create-payee-link":       {"issue-statement"},
}

// Effects calls every operation with a key of each scope alone, on records in the state in which it
// does something, and compares what the log says that the key has done with what its scope allows. The
// data of all events is as the document's catalogue says.
func Effects(t *testing.T, s *systemtest.Service) {
	server := s.Server
	known := map[string]systemtest.Operation{}
	all := systemtest.Operations(t, server)
	for _, o := range all {
		if body := asked[o.Id]; body != "" {
			o.Body = body
		}
		known[o.Id] = o
	}
	catalogue := catalogueOf(t, server.API)
	caused := map[string]bool{}
	for _, scope := range api.EveryScope.Names() {
		owner := systemtest.SettleIn(t, server)
		var made struct {
			Key    struct{ KeyID string }
			APIKey string
		}
		key := func(scope string) (keyID, key string) {
			require.NoError(t, owner.Client.Do(t.Context(), "POST", "/v1/api-keys", map[string]any{"label": "x", "scopes": []string{scope}}, &made))
			return made.Key.KeyID, made.APIKey
		}
		keyID, one := key(scope)
		for _, o := range all {
			o = known[o.Id]
			about := o.Id + " with " + scope
			acts := o.Scope == scope && o.Method != "GET"
			if acts {
				owner.Renew(t)
				owner.IDs["keyId"], _ = key(scope)
				if strings.HasSuffix(o.Id, "-statement") || o.Id == "create-payee-link" {
					var made struct{ Statement struct{ ID string } }
					require.NoError(t, owner.Client.Do(t.Context(), "POST", "/v1/settlement/statements", map[string]any{"from": "2026-01-01", "to": "2026-02-01", "currency": "EUR", "counterpartyId": owner.IDs["counterpartyId"]}, &made))
					owner.IDs["statementId"] = made.Statement.ID
				}
				for _, id := range before[o.Id] {
					a := systemtest.Call(t, server.API, owner.Client.Key, known[id].With(owner.IDs))
					require.Equal(t, 200, a.Status, "%s: %s", about, a.Body)
				}
			}
			a := systemtest.Call(t, server.API, one, o.With(owner.IDs))
			switch {
			case o.Scope == "":
			case o.Scope != scope || len(o.Effects) > 0 && a.Status != 200:
				require.Equal(t, 403, a.Status, "%s: %s", about, a.Body)
			case acts && o.Id != "correct-statement": // nothing has changed since the statement
				require.Equal(t, 200, a.Status, "%s: %s", about, a.Body)
			}
		}
		for _, e := range eventsOf(t, owner) {
			catalogue.check(t, e)
			if e.Actor.ID != keyID {
				continue
			}
			kind := e.Type
			caused[kind] = true
			require.True(t, slices.ContainsFunc(effects[scope], func(may string) bool { return strings.HasPrefix(kind, may) }), "a key with %s alone caused %s", scope, kind)
		}
	}
	require.Greater(t, len(caused), 30, "of %v", caused)
}

// loggedEvent is an event of the log.
type loggedEvent struct {
	Type  string
	Actor struct{ Kind, ID string }
	Data  map[string]json.RawMessage
}

// eventsOf are the tenant's events up to now, once all of them are loaded.
func eventsOf(t *testing.T, owner systemtest.Owner) (all []loggedEvent) {
	var last struct{ Basis struct{ ID string } }
	require.NoError(t, owner.Client.Do(t.Context(), "POST", "/v1/bases", map[string]any{"kind": "LICENSE", "title": "last"}, &last))
	list := func(query string) (events []loggedEvent) {
		for cursor := ""; ; {
			var page struct {
				Events     []struct{ Event loggedEvent }
				NextCursor *string
			}
			require.NoError(t, owner.Client.Do(t.Context(), "GET", "/v1/events?limit=500"+query+cursor, nil, &page))
			for _, e := range page.Events {
				events = append(events, e.Event)
			}
			if page.NextCursor == nil {
				return events
			}
			cursor = "&cursor=" + *page.NextCursor
		}
	}
	waittest.Until(t, func() bool { return len(list("&subjectId="+last.Basis.ID)) > 0 })
	return list("")
}

// catalogue has the members of the data of each kind of event, as the document says them: true for
// those that are always there.
type catalogue map[string]map[string]bool

func catalogueOf(t *testing.T, url string) catalogue {
	var document struct {
		Kinds []struct {
			Type string
			Data struct {
				AllOf []struct {
					Ref string `json:"$ref"`
				}
			}
		} `json:"x-event-kinds"`
		Schemas map[string]struct {
			Properties map[string]any
			Required   []string
		} `json:"x-event-schemas"`
	}
	a := systemtest.Call(t, url, "", systemtest.Operation{Method: "GET", Path: "/openapi.json"})
	require.NoError(t, json.Unmarshal([]byte(a.Body), &document))
	all := catalogue{}
	for _, k := range document.Kinds {
		members := map[string]bool{}
		for _, part := range k.Data.AllOf {
			s := document.Schemas[strings.TrimPrefix(part.Ref, "#/x-event-schemas/")]
			for name := range s.Properties {
				members[name] = slices.Contains(s.Required, name)
			}
		}
		all[k.Type] = members
	}
	return all
}

// check requires that the document has the event's kind, and exactly the members of its data.
func (c catalogue) check(t *testing.T, e loggedEvent) {
	t.Helper()
	require.Contains(t, c, e.Type)
	for name := range e.Data {
		require.Contains(t, c[e.Type], name, e.Type)
	}
	for name, always := range c[e.Type] {
		if always {
			require.Contains(t, e.Data, name, e.Type)
		}
	}
}
