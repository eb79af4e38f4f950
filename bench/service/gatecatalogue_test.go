package service

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
)

// TestGateExamples sends every example of /gate.json as it is, but for the right's id.
func TestGateExamples(t *testing.T) {
	t.Parallel()
	s := systemtest.Shared(t)
	s.Client.Key = systemtest.CreateTenant(t, s.Data).APIKey
	served := systemtest.Call(t, s.Server.API, "", systemtest.Operation{Method: "GET", Path: "/gate.json"})
	require.Equal(t, 200, served.Status)
	catalogue := systemtest.Parse[struct {
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
	}](t, served.Body)
	require.Len(t, catalogue.Examples, 24)
	require.Equal(t, systemtest.Parse[struct{ Data struct{ Ruleset string } }](t, systemtest.Call(t, s.Server.API, "", systemtest.Operation{Method: "GET", Path: "/v1"}).Body).Data.Ruleset, catalogue.Ruleset)

	var made struct{ Basis, Right struct{ ID string } }
	require.NoError(t, s.Client.Do(t.Context(), "POST", "/v1/bases", map[string]any{"kind": "LICENSE", "title": "Examples"}, &made))
	for _, e := range catalogue.Examples {
		substrate := e.Right["substrate"]
		e.Right["basisId"], e.Right["effectiveFrom"] = made.Basis.ID, "2026-01-01T00:00:00Z"
		if e.Right["scope"] == nil {
			e.Right["scope"] = map[string]any{}
		}
		require.NoError(t, s.Client.Do(t.Context(), "POST", "/v1/rights", e.Right, &made), substrate)
		deliver := func(body map[string]any) systemtest.Response {
			body["rightId"] = made.Right.ID
			text, err := json.Marshal(body)
			require.NoError(t, err)
			return systemtest.Call(t, s.Server.API, s.Client.Key, systemtest.Operation{Method: "POST", Path: "/v1/delivery", Body: string(text)})
		}

		billed := deliver(e.Delivery)
		require.Equal(t, 200, billed.Status, "%s: %s", substrate, billed.Body)
		var answer struct {
			Data struct {
				Substrate string
				Metering  map[string]any
			}
		}
		require.NoError(t, json.Unmarshal([]byte(billed.Body), &answer))
		require.Equal(t, substrate, answer.Data.Substrate)
		require.Subset(t, answer.Data.Metering, systemtest.Parse[map[string]any](t, string(e.Metering)), substrate)

		for _, r := range e.Refused {
			refused := deliver(r.Delivery)
			require.Equal(t, 412, refused.Status, "%s %s: %s", substrate, r.Code, refused.Body)
			var codes []string
			for _, v := range systemtest.Parse[struct{ Violations []struct{ Code string } }](t, refused.Body).Violations {
				codes = append(codes, v.Code)
			}
			require.Equal(t, r.Violations, codes, "%s %s", substrate, r.Code)
		}
	}
}
