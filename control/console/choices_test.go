package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// shownAct is the page of an act.
func (s *Service) shownAct(t *testing.T, path, query string, scopes ...api.Scope) string {
	t.Helper()
	a := actAt(t, path)
	s.operations()[a.op] = operation{method: "POST", path: "/v1" + path}
	p, w := s.page(Path + path + query)
	if len(scopes) > 0 {
		p.Session.Caller.Scopes = api.Scopes(scopes[0])
	}
	require.NoError(t, showAct(a)(p))
	return w.Body.String()
}

// refusing is a service that refuses what is sent.
func refusing(t *testing.T, e *api.Error) func(context.Context, auth.Principal, string, string, string, []byte) (int, []byte, error) {
	t.Helper()
	body, err := e.Body()
	require.NoError(t, err)
	return func(context.Context, auth.Principal, string, string, string, []byte) (int, []byte, error) {
		return e.GetStatus(), body, nil
	}
}

// reading are the operations that read rights and bases.
func reading(s *Service, scopes ...api.Scope) *Service {
	for id, path := range map[string]string{"list-rights": "/v1/rights", "get-right": "/v1/rights/{rightId}", "list-bases": "/v1/bases", "get-basis": "/v1/bases/{basisId}", "get-tenant": "/v1/tenant"} {
		s.operations()[id] = operation{method: "GET", path: path, scopes: scopes}
	}
	return s
}

// TestIdsAreChosenByName: a form and a filter for an id are a choice by name, with the id beside it, of those records for which the act is. Where
// there are more than it lists, or the session may not list them, the id is typed.
func TestIdsAreChosenByName(t *testing.T) {
	records := map[string]string{
		"/v1/bases":  `{"bases":[{"id":"bas_00000000000000000000000001","title":"Music licence","kind":"LICENSE","holderOrgId":"org_a","state":"ACTIVE"},{"id":"bas_00000000000000000000000002","title":"Old contract","kind":"CONTRACT","holderOrgId":"org_a","state":"EXPIRED"}],"nextCursor":null}`,
		"/v1/rights": `{"rights":[{"id":"rgh_00000000000000000000000001","basisId":"bas_00000000000000000000000001","substrate":"DOOH","holderOrgId":"org_a","state":"ACTIVE","effectiveState":"ACTIVE","scope":{"description":"the station","campaigns":["spring"]}},{"id":"rgh_00000000000000000000000002","basisId":"bas_00000000000000000000000001","substrate":"CTV","holderOrgId":"org_b","state":"SUSPENDED","effectiveState":"SUSPENDED","scope":{}}],"nextCursor":null}`,
		"/v1/bases/bas_00000000000000000000000009": `{"basis":{"id":"bas_00000000000000000000000009","title":"A very old one","kind":"CONSENT","holderOrgId":"org_a","state":"ACTIVE"}}`,
		"/v1/tenant":         `{"tenant":{"orgId":"org_own"}}`,
		"/v1/counterparties": `{"counterparties":[{"id":"cp_1","name":"Song Rights Ltd","orgId":"org_song","state":"ACTIVE"}],"nextCursor":null}`,
	}
	s := reading(answering(t, records))
	page := s.shownAct(t, "/rights/new", "")
	require.Contains(t, page, `<select id="i-basisId" name="basisId" required><option value="">–</option><option value="bas_00000000000000000000000001">Music licence: license of org_a · bas_…000001</option></select>`, "an expired basis bears no right")
	require.Contains(t, page, `name="parentRightId"><option value="">–</option><option value="rgh_00000000000000000000000001">the station: DOOH of org_a · rgh_…000001</option></select>`, "of a suspended one nothing derives")
	require.Contains(t, page, `list="k-holderOrgId"`)
	require.Contains(t, page, `<option value="org_own">your organisation</option>`)
	require.Contains(t, page, `<option value="org_song">Song Rights Ltd</option>`)
	page = s.shownAct(t, "/rights/new", "?basisId=bas_00000000000000000000000009")
	require.Contains(t, page, `<option value="bas_00000000000000000000000009" selected>A very old one: consent of org_a · bas_…000009</option>`, "one that the newest lack")
	page = s.shownAct(t, "/money/rules/new", "")
	require.Contains(t, page, `<option value="rgh_00000000000000000000000002">Music licence: CTV of org_b, suspended · rgh_…000002</option>`)
	require.Contains(t, page, `<option value="spring"></option>`)
	for path, name := range map[string]string{"/offers/new": "rightId", "/challenges/new": "rightId", "/disputes/new": "rightId", "/money/statements/new": "counterpartyId"} {
		require.Contains(t, s.shownAct(t, path, ""), `<select id="i-`+name+`" name="`+name+`"`, path)
	}

	p, w := s.page(Path + "/rights?parentRightId=rgh_00000000000000000000000002")
	require.NoError(t, showRights(p))
	require.Contains(t, w.Body.String(), `<option value="rgh_00000000000000000000000002" selected>Music licence: CTV of org_b, suspended · rgh_…000002</option>`)

	page = reading(answering(t, records), api.RightsRead).shownAct(t, "/rights/new", "", api.RightsWrite)
	require.Contains(t, page, `<input id="i-basisId" name="basisId" value="" placeholder="bas_…"`, "who may not list them types an id")

	var many []string
	for i := range mostChoices + 1 {
		many = append(many, fmt.Sprintf(`{"id":"bas_%026d","title":"Licence %d","state":"ACTIVE"}`, i, i))
	}
	records["/v1/bases"] = `{"bases":[` + strings.Join(many, ",") + `],"nextCursor":null}`
	s = reading(answering(t, records))
	page = s.shownAct(t, "/rights/new", "")
	require.Equal(t, mostChoices, strings.Count(page, `>Licence `))
	require.Contains(t, page, `<select id="i-basisId" name="basisId">`, "a browser lets pass that none of these is chosen")
	require.Contains(t, page, `<label for="o-basisId" class="hint">These are the newest bases. Another one, by its id</label><input id="o-basisId" name="basisId"`)
	read := func(basisID ...string) (map[string]any, error) {
		p, _ := s.page(Path + "/rights/new")
		p.r.PostForm = url.Values{"basisId": basisID, "substrate": {"DOOH"}, "effectiveFrom": {"2026-11-01"}}
		return actAt(t, "/rights/new").read(p)
	}
	for _, sent := range [][]string{{"", " bas_typed "}, {"bas_1", "bas_typed"}, {"bas_typed", ""}} {
		members, err := read(sent...)
		require.NoError(t, err)
		require.Equal(t, "bas_typed", members["basisId"], sent)
	}
	_, err := read("", "")
	require.ErrorContains(t, err, "basisId: is missing: choose one")
	p, _ = s.page(Path + "/rights?basisId=&basisId=bas_typed")
	require.Equal(t, url.Values{"basisId": {"bas_typed"}}, p.filters("basisId"))
}

// TestBoundsStandBesideTheFields: the form for a right that derives from another has what that may not exceed beside its fields, in the times of the page, before anything is
// sent, and after a refusal, whose times are the page's, too; so has that for a right on a basis, and those of offers.
func TestBoundsStandBesideTheFields(t *testing.T) {
	records := map[string]string{
		"/v1/rights/rgh_1": `{"right":{"id":"rgh_1","basisId":"bas_1","substrate":"DOOH","holderOrgId":"org_a","state":"ACTIVE","effectiveState":"ACTIVE","effectiveFrom":"2026-11-01T00:00:00Z","effectiveUntil":"2026-12-31T23:00:00Z",
			"scope":{"description":"the city","regions":["DE","AT"],"maxSpeedMph":5,"bvlos":true,"labels":{"venue":"north"},"x-contract":"7"}}}`,
		"/v1/rights": `{"rights":[],"nextCursor":null}`, "/v1/bases": `{"bases":[{"id":"bas_1","title":"Music licence","state":"ACTIVE","effectiveUntil":"2026-12-31T23:00:00Z"},{"id":"bas_2","title":"Another","state":"ACTIVE"}],"nextCursor":null}`,
		"/v1/offers/ofr_1": `{"offer":{"id":"ofr_1","rightId":"rgh_1","state":"PROPOSED","scope":{"regions":["DE"]}}}`,
		"/v1/bases/bas_1":  `{"basis":{"id":"bas_1","title":"Music licence","state":"ACTIVE","effectiveUntil":"2026-12-31T23:00:00Z"}}`, "/v1/bases/bas_2": `{"basis":{"id":"bas_2","title":"Another","state":"ACTIVE"}}`,
	}
	s, _ := recorded(t, records)
	reading(s)
	s.operations()["get-offer"] = operation{method: "GET", path: "/v1/offers/{offerId}"}
	limits := []string{
		"Not before the right begins: 1 Nov 2026, 01:00:00.", "Not after the right ends: the end of 31 Dec 2026, which is 1 Jan 2027, 00:00 in this field.", "The right has DE, AT: some of these, or leave it empty for all of them.",
		"Not above 5, as the right has it.", "The right has yes, so this one has it, too.", "The right has venue = north: these stay", `The right has {"x-contract":"7"}: these stay`,
	}
	show := func(path, query string, form url.Values, params ...string) string {
		a := actAt(t, path)
		s.operations()[a.op] = operation{method: "POST", path: "/v1" + path}
		p, w := s.page(Path + path + query)
		p.Session.Zone = berlin(t)
		for i := 0; i+1 < len(params); i += 2 {
			p.r.SetPathValue(params[i], params[i+1])
		}
		handle := showAct(a)
		if form != nil {
			p.r.Method, p.r.PostForm = "POST", form
			handle = doAct(a)
		}
		require.NoError(t, handle(p))
		return w.Body.String()
	}
	derived := show("/rights/new", "?basisId=bas_1&parentRightId=rgh_1&substrate=DOOH", nil)
	for _, said := range append(limits, "That of the right.") {
		require.Contains(t, readable(derived), said)
	}
	require.Contains(t, derived, `name="basisId" required aria-describedby="l-basisId"><option value="bas_1" selected>`)
	require.Contains(t, derived, `<option value="DOOH" selected>DOOH</option></select>`, "no other medium can be chosen")
	require.Contains(t, readable(derived), "What the city rgh_1 limits stands beside the fields.")
	for path, page := range map[string]string{"/offers/new": show("/offers/new", "?rightId=rgh_1", nil), "/offers/{offerId}/counter": show("/offers/{offerId}/counter", "", nil, "offerId", "ofr_1")} {
		for _, said := range limits {
			require.Contains(t, readable(page), said, path)
		}
	}
	onBasis := readable(show("/rights/new", "?basisId=bas_1", nil))
	require.Contains(t, onBasis, "Not after the basis ends: the end of 31 Dec 2026, which is 1 Jan 2027, 00:00 in this field.")
	require.NotContains(t, onBasis, "The right has")
	require.Contains(t, readable(show("/rights/new", "?basisId=bas_2", nil)), "The basis has no end.")
	serve := s.cfg.Serve
	s.cfg.Serve = func(w http.ResponseWriter, ctx context.Context, caller auth.Principal, method, target string) error {
		if !strings.HasPrefix(target, "/v1/rights/rgh_none") {
			return serve(w, ctx, caller, method, target)
		}
		w.WriteHeader(http.StatusNotFound)
		_, err := w.Write([]byte(`{"error":"RESOURCE_NOT_FOUND","message":"there is no such right"}`))
		return err
	}
	require.NotContains(t, show("/rights/new", "?parentRightId=rgh_none", nil), "stands beside the fields", "no right of the tenant has the id")

	form := url.Values{"once": {"x"}, "parentRightId": {"rgh_1"}, "basisId": {"bas_2"}, "substrate": {"DOOH"}, "effectiveFrom": {"2026-12-01T00:00"}, "scope.description": {"a part"}, "limits": {"yes"}}
	shown := show("/rights/new", "", form) // without script, after the parent was chosen; nothing may be called but reads
	for _, said := range limits {
		require.Contains(t, readable(shown), said)
	}
	require.Contains(t, shown, `value="a part"`, "what was written stays")
	require.Contains(t, shown, `value="2026-12-01T00:00"`)
	require.Contains(t, shown, `<option value="bas_1" selected>`, "the basis is that of the right")

	delete(form, "limits")
	s.cfg.CallOnce = refusing(t, &api.Error{Code: api.ValidationFailed, Message: "it is not valid", ValidationErrors: []api.ValidationError{{Field: "effectiveUntil", Message: "is after the end of the parent right (2026-12-31T23:00:00.000Z)"}, {Field: "effectiveFrom", Message: "is before the beginning of the parent right (2026-11-01T00:00:00.000Z)"}}})
	refused := readable(show("/rights/new", "", form))
	require.Contains(t, refused, "is after the end of the parent right (the end of 31 Dec 2026)")
	require.Contains(t, refused, "is before the beginning of the parent right (1 Nov 2026, 01:00:00)")
	require.Contains(t, refused, limits[2])
	require.Contains(t, refused, "Look at From , Until (exclusive) .", "a long form says where the fault is")
	s.cfg.CallOnce = refusing(t, api.Conflict("the right would begin now, and end before, at 2026-11-01T12:00:00.000Z"))
	require.Contains(t, readable(show("/rights/new", "", form)), "and end before, at 1 Nov 2026, 13:00:00")
}

// TestCounterOffersSayWhatTheyChange of the offer that they answer.
func TestCounterOffersSayWhatTheyChange(t *testing.T) {
	records := map[string]string{
		"/v1/offers/ofr_1": `{"offer":{"id":"ofr_1","rightId":"rgh_1","fromOrgId":"org_b","toOrgId":"org_a","state":"COUNTERED","counteredBy":"ofr_2","scope":{"regions":["DE","AT"]},"termsRef":"https://example.org/1","effectiveUntil":"2027-01-01T00:00:00Z"}}`,
		"/v1/offers/ofr_2": `{"offer":{"id":"ofr_2","rightId":"rgh_1","fromOrgId":"org_a","toOrgId":"org_b","state":"PROPOSED","scope":{"regions":["DE"],"description":"a part"},"termsRef":"counter_of:ofr_1","counterTermsRef":"https://example.org/1","effectiveUntil":"2027-01-01T00:00:00Z"}}`,
		"/v1/rights":       `{"rights":[],"nextCursor":null}`,
	}
	s := reading(answering(t, records))
	for _, a := range acts() {
		if s.operations()[a.op].path == "" {
			s.operations()[a.op] = operation{method: "POST"}
		}
	}
	s.operations()["get-offer"] = operation{method: "GET", path: "/v1/offers/{offerId}"}
	show := func(id string) string {
		p, w := s.page(Path + "/offers/" + id)
		p.r.SetPathValue("offerId", id)
		require.NoError(t, showOffer(p))
		return w.Body.String()
	}
	page := show("ofr_2")
	require.Contains(t, readable(page), "It answers the offer ofr_1")
	require.Contains(t, readable(page), "What Now Before Description a part none Regions DE DE, AT Times")
	require.NotContains(t, page, "counter_of")
	require.NotContains(t, show("ofr_1"), "What it changes")
	accepted := strings.Replace(records["/v1/offers/ofr_2"], `"state":"PROPOSED"`, `"state":"ACCEPTED","effectiveFrom":"2026-11-02T08:00:00Z"`, 1)
	records["/v1/offers/ofr_2"] = accepted
	require.NotContains(t, readable(show("ofr_2")), "begins 2 Nov 2026, 08:00:00 when it is accepted", "accepting says when it begins, and changes nothing by that")
}
