package storytest

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/bench/system/systemtest"
	"muniment/bench/waittest"
	"muniment/gateway/api"
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
	"settlement:write": {"counterparty.", "settlement_rule.", "statement.", "pack.sealed"}, // a draft seals first
	"webhooks:write":   {"webhook."},
	"disputes:write":   {"dispute."},
	"keys:write":       {"key."},
}

// asked is what an operation is asked for, where the example of the document would do less.
var asked = map[string]string{
	"issue-right":       `{"basisId":"{basisId}","substrate":"CTV","scope":{},"effectiveFrom":"2026-01-01T00:00:00Z"}`,
	"import-mappings":   "vendor,idType,vendorId,rightId,spatialAnchorId,effectiveFrom\nv,t,imported,{rightId},a,2026-01-01T00:00:00Z\n",
	"resolve-challenge": `{"upheld":true}`,
	"resolve-dispute":   `{"outcome":"UPHELD"}`,
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
}

// Effects calls every operation with a key of each scope alone, on records in the state in which it
// does something, and compares what the log says that the key has done with what its scope allows.
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
				if strings.HasSuffix(o.Id, "-statement") {
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
		for kind := range causedBy(t, owner, keyID) {
			caused[kind] = true
			require.True(t, slices.ContainsFunc(effects[scope], func(may string) bool { return strings.HasPrefix(kind, may) }), "a key with %s alone caused %s", scope, kind)
		}
	}
	require.Greater(t, len(caused), 30, "of %v", caused)
}

// causedBy are the kinds of the events by a key, once all of them are loaded.
func causedBy(t *testing.T, owner systemtest.Owner, keyID string) map[string]bool {
	var last struct{ Basis struct{ ID string } }
	require.NoError(t, owner.Client.Do(t.Context(), "POST", "/v1/bases", map[string]any{"kind": "LICENSE", "title": "last"}, &last))
	list := func(query string) (kinds map[string]bool) {
		kinds = map[string]bool{}
		for cursor := ""; ; {
			var page struct {
				Events     []struct{ Event struct{ Type string } }
				NextCursor *string
			}
			require.NoError(t, owner.Client.Do(t.Context(), "GET", "/v1/events?limit=500&"+query+cursor, nil, &page))
			for _, e := range page.Events {
				kinds[e.Event.Type] = true
			}
			if page.NextCursor == nil {
				return kinds
			}
			cursor = "&cursor=" + *page.NextCursor
		}
	}
	waittest.Until(t, func() bool { return len(list("subjectId="+last.Basis.ID)) > 0 })
	return list("actorKind=key&actorId=" + keyID)
}
