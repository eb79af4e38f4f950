package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGateExamples sends every example of /gate.json as it is, but for the right's id.
func TestGateExamples(t *testing.T) {
	t.Parallel()
	s := shared(t)
	s.client.Key = createTenant(t, s.data).APIKey
	served := call(t, s.server.API, "", operation{method: "GET", path: "/gate.json"})
	require.Equal(t, 200, served.status)
	catalogue := parse[struct {
		Ruleset  string
		Examples []struct {
			Right    map[string]any
			Delivery map[string]any
			Metering json.RawMessage
			Refused  []struct {
				Code       string
				Delivery   map[string]any
				Violations []string
			}
		}
	}](t, served.body)
	require.Len(t, catalogue.Examples, 24)
	require.Equal(t, parse[struct{ Data struct{ Ruleset string } }](t, call(t, s.server.API, "", operation{method: "GET", path: "/v1"}).body).Data.Ruleset, catalogue.Ruleset)

	var made struct{ Basis, Right struct{ ID string } }
	require.NoError(t, s.client.Do(t.Context(), "POST", "/v1/bases", map[string]any{"kind": "LICENSE", "title": "Examples"}, &made))
	for _, e := range catalogue.Examples {
		substrate := e.Right["substrate"]
		e.Right["basisId"], e.Right["effectiveFrom"] = made.Basis.ID, "2026-01-01T00:00:00Z"
		if e.Right["scope"] == nil {
			e.Right["scope"] = map[string]any{}
		}
		require.NoError(t, s.client.Do(t.Context(), "POST", "/v1/rights", e.Right, &made), substrate)
		deliver := func(body map[string]any) response {
			body["rightId"] = made.Right.ID
			text, err := json.Marshal(body)
			require.NoError(t, err)
			return call(t, s.server.API, s.client.Key, operation{method: "POST", path: "/v1/delivery", body: string(text)})
		}

		billed := deliver(e.Delivery)
		require.Equal(t, 200, billed.status, "%s: %s", substrate, billed.body)
		var answer struct {
			Data struct {
				Substrate string
				Metering  map[string]any
			}
		}
		require.NoError(t, json.Unmarshal([]byte(billed.body), &answer))
		require.Equal(t, substrate, answer.Data.Substrate)
		require.Subset(t, answer.Data.Metering, parse[map[string]any](t, string(e.Metering)), substrate)

		for _, r := range e.Refused {
			refused := deliver(r.Delivery)
			require.Equal(t, 412, refused.status, "%s %s: %s", substrate, r.Code, refused.body)
			var codes []string
			for _, v := range parse[struct{ Violations []struct{ Code string } }](t, refused.body).Violations {
				codes = append(codes, v.Code)
			}
			require.Equal(t, r.Violations, codes, "%s %s", substrate, r.Code)
		}
	}
}
