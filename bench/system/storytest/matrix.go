package storytest

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/gateway/api"
)

// ownUse is when a key was last used.
var ownUse = regexp.MustCompile(`,"lastUsedAt":(null|"[^"]*")`)

func ForeignResources(t *testing.T, s *systemtest.Service) {
	server := s.Server
	victim, stranger := systemtest.SettleIn(t, server), systemtest.SettleIn(t, server)
	state := func() (all []systemtest.Response) {
		for _, path := range []string{"/v1/rights/{rightId}", "/v1/offers/{offerId}", "/v1/challenges/{challengeId}", "/v1/disputes/{disputeId}", "/v1/settlement/statements/{statementId}", "/v1/api-keys/{keyId}"} {
			is := systemtest.Call(t, server.API, victim.Client.Key, systemtest.Operation{Method: "GET", Path: path}.With(victim.IDs))
			is.Body = ownUse.ReplaceAllString(is.Body, "") // this call is a use
			is.Header.Del("Content-Length")
			all = append(all, is)
		}
		return all
	}
	before := state()

	try := func(o systemtest.Operation, name, id string) systemtest.Response {
		return systemtest.Call(t, server.API, stranger.Client.Key, o.With(map[string]string{name: id}).With(stranger.IDs))
	}
	requests := 0
	for _, o := range systemtest.Operations(t, server) {
		about := o.Method + " " + o.Path
		for _, name := range o.Names() {
			for _, kind := range systemtest.Resources[name] {
				theirs := victim.IDs[kind]
				foreign := try(o, name, theirs)
				switch {
				case o.Id == "ingest-batch": // each of its rows is refused by itself
					require.Contains(t, foreign.Body, `"error":{"error":"RESOURCE_NOT_FOUND"`, about)
				case o.AmongFaults(name):
					foreign.Refused(t, 422, api.ValidationFailed, about)
					require.Regexp(t, `"field":"[\w.\[\]]*`+name+`"`, foreign.Body, about)
				default:
					foreign.Refused(t, 404, api.ResourceNotFound, about)
				}
				require.Equal(t, try(o, name, unknown(theirs)), foreign, about)
				requests++
			}
		}
		if len(o.Names()) == 0 && o.Method == "GET" {
			list := systemtest.Call(t, server.API, stranger.Client.Key, o)
			require.Equal(t, 200, list.Status, o.Path)
			for _, id := range victim.IDs {
				require.NotContains(t, list.Body, id, o.Path)
			}
		}
		// A list has nothing of what belongs to a foreign resource, as to an unknown one.
		for _, name := range o.Filters {
			narrow := o
			narrow.Path += "?" + name + "={" + name + "}"
			for _, kind := range systemtest.Resources[name] {
				foreign, none := try(narrow, name, victim.IDs[kind]), try(narrow, name, unknown(victim.IDs[kind]))
				require.Equal(t, 200, foreign.Status, "%s: %s", narrow.Path, foreign.Body)
				none.Body, foreign.Body = systemtest.Position.ReplaceAllString(none.Body, ""), systemtest.Position.ReplaceAllString(foreign.Body, "")
				require.Equal(t, none, foreign, narrow.Path)
				requests++
			}
		}
	}
	t.Logf("%d references, each to a foreign and to an unknown id", requests)

	require.Equal(t, before, state(), "nothing has happened to what is the victim's")
	var metering struct{ Totals struct{ Receipts int } }
	require.NoError(t, victim.Client.Do(t.Context(), "GET", "/v1/metering", nil, &metering))
	require.Equal(t, 1, metering.Totals.Receipts)
}

func ForeignResourcesInSandbox(t *testing.T, s *systemtest.Service) {
	server := s.Server
	all := map[string]systemtest.Operation{}
	for _, o := range systemtest.OperationsOf(t, server, true) {
		all[o.Id] = o
	}
	settle := func() (cookie string, ids map[string]string) {
		ids = map[string]string{}
		for _, id := range []string{"sandbox-provision", "sandbox-inspect", "sandbox-propose-offer", "sandbox-open-challenge", "sandbox-run-demo"} {
			try := func() systemtest.Response {
				return systemtest.Call(t, server.API, "", all[id].With(ids), "Cookie", cookie, "X-Forwarded-For", systemtest.AnyAddress())
			}
			a := try()
			for i := 0; i < systemtest.LoadTries && systemtest.NotLoaded(a); i++ {
				a = try()
			}
			require.Equal(t, 200, a.Status, "%s: %s", id, a.Body)
			cookie = a.Cookie(cookie)
			for name, form := range systemtest.OfOurs {
				if found := form.FindString(a.Body); found != "" && ids[name] == "" {
					ids[name] = found
				}
			}
		}
		ids["parentRightId"] = ids["rightId"]
		return cookie, ids
	}
	cookie, own := settle()
	_, visitors := settle()
	tenants := systemtest.SettleIn(t, server).IDs
	requests := 0
	for _, o := range all {
		about := o.Method + " " + o.Path
		for _, name := range o.Names() {
			require.Contains(t, own, name, about)
			for _, theirs := range []string{visitors[name], tenants[name]} {
				try := func(id string) systemtest.Response {
					return systemtest.Call(t, server.API, "", o.With(map[string]string{name: id}).With(own), "Cookie", cookie, "X-Forwarded-For", systemtest.AnyAddress())
				}
				foreign, none := try(theirs), try(unknown(theirs))
				require.Equal(t, 404, foreign.Status, "%s: %s", about, foreign.Body)
				require.Equal(t, none, foreign, about)
				requests++
			}
		}
	}
	t.Logf("%d references of %d operations, each to a foreign and to an unknown id", requests, len(all))
}

// lacking is the scope of an effect that the operation always has, and that is not held; empty if none is.
func lacking(o systemtest.Operation, held []string) string {
	for _, e := range o.Effects {
		if e.Always && !slices.Contains(held, e.Scope) && !slices.Contains(held, api.Wildcard.String()) {
			return e.Scope
		}
	}
	return ""
}

func ScopeMatrix(t *testing.T, s *systemtest.Service) {
	server := s.Server
	tenant := systemtest.SettleIn(t, server)
	nothing := map[string]string{}
	for name, id := range tenant.IDs {
		nothing[name] = unknown(id) // so that no operation does anything
	}
	public, scoped := []string{}, []systemtest.Operation{}
	for _, o := range systemtest.Operations(t, server) {
		if o.Scope == "" {
			public = append(public, o.Path)
			continue
		}
		o = o.With(nothing)
		require.Empty(t, o.Names(), "%s %s", o.Method, o.Path)
		scoped = append(scoped, o)
	}
	require.ElementsMatch(t, open, public)

	every := api.EveryScope.Names()
	sets := [][]string{{api.Wildcard.String()}}
	for i, one := range every {
		sets = append(sets, []string{one}, slices.Delete(slices.Clone(every), i, i+1))
	}
	passed, refused := 0, 0
	for _, held := range sets {
		var made struct{ APIKey string }
		require.NoError(t, tenant.Client.Do(t.Context(), "POST", "/v1/api-keys", map[string]any{"label": "x", "scopes": held}, &made))
		for _, o := range scoped {
			about := fmt.Sprintf("%s %s with %s", o.Method, o.Path, held)
			a := systemtest.Call(t, server.API, made.APIKey, o)
			if lacks := lacking(o, held); slices.Contains(held, o.Scope) && lacks != "" {
				r := a.Refused(t, 403, api.ScopeMissing, about)
				require.Equal(t, []string{lacks}, r.RequiredScopes, about)
				refused++
				continue
			}
			if slices.Contains(held, o.Scope) && a.Status == 403 && len(o.Effects) > 0 { // what it is asked for needs more
				require.NotContains(t, a.Refused(t, 403, api.ScopeMissing, about).RequiredScopes, o.Scope, about)
				refused++
				continue
			}
			if slices.Contains(held, o.Scope) || slices.Contains(held, api.Wildcard.String()) {
				require.NotContains(t, []int{401, 403, 500}, a.Status, "%s: %s", about, a.Body)
				passed++
				continue
			}
			r := a.Refused(t, 403, api.ScopeMissing, about)
			require.Equal(t, []string{o.Scope}, r.RequiredScopes, about)
			require.Equal(t, held, r.KeyScopes, about)
			refused++
		}
	}
	t.Logf("%d operations, %d sets of scopes: %d let in, %d refused", len(scoped), len(sets), passed, refused)
	for _, o := range scoped {
		about := o.Method + " " + o.Path
		systemtest.Call(t, server.API, "", o).Refused(t, 401, api.AuthRequired, about)
		systemtest.Call(t, server.API, "mun_test_nonsense", o).Refused(t, 401, api.AuthInvalid, about)
	}
	for _, path := range open {
		require.Equal(t, 200, systemtest.Call(t, server.API, "", systemtest.Operation{Method: "GET", Path: path}).Status, path)
	}
}
