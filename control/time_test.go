package control_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTimesInBodies sends a time to each place of a body that takes one. Which spellings
// there are is TestParseTime's, in control/store.
func TestTimesInBodies(t *testing.T) {
	p := newPlayground(t)
	_, key := p.tenant()
	basisID := p.basis(key)
	rightID := p.right(key, basisID)
	v, tenant := p.visit()
	theirs := tenant["rights"].([]any)[0].(map[string]any)
	theirBasis, theirRight := fmt.Sprint(theirs["basisId"]), fmt.Sprint(theirs["id"])
	scope, err := json.Marshal(theirs["scope"])
	require.NoError(t, err)
	anOffer := func() string { return p.offer(key, rightID) }
	theirOffer := func() string {
		return get[string](t, v.does("POST", "/offers/propose", fmt.Sprintf(`{"rightId":%q,"toOrgId":"org_b","scope":%s}`, theirRight, scope)), "offer", "id")
	}
	aKey := func() string {
		return get[string](t, p.call(key, "POST", "/v1/api-keys", `{"label":"x"}`).ok(), "key", "keyId")
	}
	const basic, extended = "20291101T130000,5+0100", "2029-11-01T12:00:00.500Z"
	for _, c := range []struct {
		field string
		send  func(at string) answer
	}{
		{"effectiveFrom", func(at string) answer {
			return p.call(key, "POST", "/v1/bases", fmt.Sprintf(`{"kind":"LICENSE","title":"x","effectiveFrom":%q}`, at))
		}},
		{"effectiveUntil", func(at string) answer {
			return p.call(key, "POST", "/v1/bases", fmt.Sprintf(`{"kind":"LICENSE","title":"x","effectiveUntil":%q}`, at))
		}},
		{"effectiveFrom", func(at string) answer {
			return p.call(key, "POST", "/v1/rights", fmt.Sprintf(`{"basisId":%q,"substrate":"CTV","scope":{},"effectiveFrom":%q}`, basisID, at))
		}},
		{"effectiveUntil", func(at string) answer {
			return p.call(key, "POST", "/v1/rights", fmt.Sprintf(`{"basisId":%q,"substrate":"CTV","scope":{},"effectiveFrom":"2026-01-01","effectiveUntil":%q}`, basisID, at))
		}},
		{"expiresAt", func(at string) answer {
			return p.call(key, "POST", "/v1/offers", fmt.Sprintf(`{"rightId":%q,"toOrgId":"org_b","scope":{"regions":["US"]},"expiresAt":%q}`, rightID, at))
		}},
		{"expiresAt", func(at string) answer {
			return p.call(key, "POST", "/v1/offers/"+anOffer()+"/counter", fmt.Sprintf(`{"scope":{"regions":["US"]},"expiresAt":%q}`, at))
		}},
		{"expiresAt", func(at string) answer {
			return p.call(key, "POST", "/v1/api-keys", fmt.Sprintf(`{"label":"x","expiresAt":%q}`, at))
		}},
		{"expiresAt", func(at string) answer {
			return p.call(key, "POST", "/v1/api-keys/"+aKey()+"/rotate", fmt.Sprintf(`{"expiresAt":%q}`, at))
		}},
		{"effectiveFrom", func(at string) answer {
			return v.send("POST", "/rights/issue", fmt.Sprintf(`{"basisId":%q,"substrate":"CTV","scope":{},"effectiveFrom":%q}`, theirBasis, at))
		}},
		{"effectiveUntil", func(at string) answer {
			return v.send("POST", "/rights/issue", fmt.Sprintf(`{"basisId":%q,"substrate":"CTV","scope":{},"effectiveFrom":"2026-01-01","effectiveUntil":%q}`, theirBasis, at))
		}},
		{"expiresAt", func(at string) answer {
			return v.send("POST", "/offers/propose", fmt.Sprintf(`{"rightId":%q,"toOrgId":"org_b","scope":%s,"expiresAt":%q}`, theirRight, scope, at))
		}},
		{"expiresAt", func(at string) answer {
			return v.send("POST", "/offers/counter", fmt.Sprintf(`{"offerId":%q,"scope":%s,"expiresAt":%q}`, theirOffer(), scope, at))
		}},
	} {
		a := c.send(basic)
		require.Equal(t, 200, a.status, a.text)
		require.Contains(t, a.text, fmt.Sprintf("%q:%q", c.field, extended))
		for bad, message := range map[string]string{
			"2029-11-01T13:00": "has no time zone: end it with Z, or with an offset such as +01:00",
			"":                 "must be a date, such as 2026-11-01, or a time, such as 2026-11-01T12:00:00Z or 20261101T120000Z",
			"1969-12-31":       "must be within the years 1970 to 9999",
		} {
			a := c.send(bad)
			require.Equal(t, 422, a.status, a.text)
			require.True(t, strings.Contains(a.text, c.field+": "+message) || bad == "" && strings.Contains(a.text, c.field), "%q: %s", bad, a.text)
		}
	}
}
