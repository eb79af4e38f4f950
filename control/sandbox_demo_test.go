package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/sandbox"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

func TestSandboxConstraints(t *testing.T) {
	p := newPlayground(t)
	v, tenant := p.visit()
	for scenario, code := range map[string]string{
		"messaging-optout": "MESSAGING_OPTED_OUT", "automotive-speed": "AUTOMOTIVE_SPEED_EXCEEDED", "drone-remote-id-missing": "DRONE_REMOTE_ID_MISSING",
	} {
		d := v.does("POST", "/constraint-demo", fmt.Sprintf(`{"scenario":%q}`, scenario))
		require.Equal(t, scenario, d["scenario"])
		require.Equal(t, true, d["refused"], scenario)
		require.Nil(t, d["receipt"])
		var codes []string
		for _, violation := range list(t, d, "violations") {
			codes = append(codes, violation["code"].(string))
			require.NotEmpty(t, violation["message"])
			require.Contains(t, violation, "observed")
		}
		require.Equal(t, []string{code}, codes, scenario)
	}
	v.isRefused(422, sandbox.UnknownScenario, "POST", "/constraint-demo", `{"scenario":"flying-car"}`)
	v.isRefused(422, sandbox.UnknownScenario, "POST", "/constraint-demo", `{"scenario":7}`)
	v.isRefused(422, sandbox.MissingFields, "POST", "/constraint-demo", `{}`)
	v.isRefused(400, sandbox.InvalidBody, "POST", "/constraint-demo", `scenario`)
	require.Len(t, p.events(tenant["tenantId"].(string)), 11, "nothing has happened to the tenant")
}

func TestSandboxDemoRefuses(t *testing.T) {
	p := newPlayground(t)
	v, tenant := p.visit()
	for _, body := range []string{`{"eventCount":0}`, `{"eventCount":101}`, `{"eventCount":1.5}`, `{"eventCount":"12"}`, `{"seed":"x"}`} {
		v.isRefused(422, sandbox.HandlerError, "POST", "/run-demo", body)
	}
	a := v.send("POST", "/run-demo", "")
	refusal(t, a, 503, sandbox.HandlerError)
	requireRetryAfter(t, 1, a.header.Get("Retry-After"))
	for _, r := range list(t, tenant, "rights") {
		v.does("POST", "/rights/revoke", fmt.Sprintf(`{"rightId":%q}`, r["id"]))
	}
	v.isRefused(409, sandbox.HandlerError, "POST", "/run-demo", `{}`)
}

// TestSandboxDemoNamesItsPack: not the one that another tab of the visitor sealed meanwhile.
func TestSandboxDemoNamesItsPack(t *testing.T) {
	var p *playground
	p = openPlayground(t, newFixture(t), sandbox.Config{
		Call: func(ctx context.Context, of auth.Principal, method, target string, body []byte) (int, []byte, error) {
			answers := map[string]string{
				"/v1/proof-packs/seal":     `{"data":{"packs":[],"pack":{"packId":"ppk_other","metering":["other"],"settlement":[]},"pending":[]}}`,
				"/v1/receipts/rcp_1":       `{"data":{"sealed":{"packId":"ppk_ours","leafIndex":7}}}`,
				"/v1/proof-packs/ppk_ours": `{"data":{"header":{"packId":"ppk_ours","metering":["ours"],"settlement":[]}}}`,
			}
			if text, own := answers[target]; own {
				return 200, []byte(text), nil
			}
			return p.callWithoutLog(ctx, of, method, target, body)
		},
		Deliver: func(context.Context, string, string, []byte) ([]byte, error) {
			return []byte(`{"ok":true,"data":{"receipt":{"receiptId":"rcp_1"},"signature":{},"metering":{}}}`), nil
		},
	})
	v, _ := p.visit()
	d := v.does("POST", "/run-demo", `{"eventCount":2.0}`)
	require.Equal(t, []any{"ppk_ours", []any{"ours"}}, []any{d["packId"], d["metering"]})
	require.Equal(t, "ppk_ours", get[string](t, d, "pack", "packId"))
	require.Len(t, d["deliveries"], 2)
}

// TestSandboxKeyRevokedMeanwhile: a run of the demo ends where an operator stops it.
func TestSandboxKeyRevokedMeanwhile(t *testing.T) {
	deliveries := 0
	p := openPlayground(t, newFixture(t), sandbox.Config{
		Deliver: func(context.Context, string, string, []byte) ([]byte, error) {
			if deliveries++; deliveries < 3 {
				return []byte(`{"ok":true,"data":{"receipt":{"receiptId":"rcp_1"},"signature":{},"metering":{}}}`), nil
			}
			return nil, auth.ErrInvalid
		},
	})
	v, _ := p.visit()
	v.isRefused(410, sandbox.TenantEvicted, "POST", "/run-demo", `{"eventCount":100}`)
	require.Equal(t, 3, deliveries)
}

// TestSandboxDemoFindsItsRights behind many long ones on a substrate that it doesn't play on,
// and behind stopped ones on one that it does.
func TestSandboxDemoFindsItsRights(t *testing.T) {
	var p *playground
	played := map[string]bool{}
	p = openPlayground(t, newFixture(t), sandbox.Config{
		Limits: sandbox.Limits{Burst: 1000, Sustained: 1000},
		Call: func(ctx context.Context, of auth.Principal, method, target string, body []byte) (int, []byte, error) {
			if target == "/v1/proof-packs/seal" {
				return 200, []byte(`{"data":{"packs":[],"pack":{"packId":"ppk_1","metering":[],"settlement":[]},"pending":[]}}`), nil
			}
			return p.callWithoutLog(ctx, of, method, target, body)
		},
		Deliver: func(_ context.Context, _, _ string, body []byte) ([]byte, error) {
			var delivery struct{ RightID string }
			require.NoError(t, json.Unmarshal(body, &delivery))
			played[delivery.RightID] = true
			return nil, api.Conflict("no")
		},
	})
	v, tenant := p.visit()
	seed := list(t, tenant, "rights")
	long := get[string](t, v.does("POST", "/rights/issue", fmt.Sprintf(`{"basisId":%q,"substrate":"AUDIO","scope":%q,"effectiveFrom":%q}`,
		seed[0]["basisId"], strings.Repeat("x", 16_000), seed[0]["effectiveFrom"])), "right", "id")
	p.copyRight(long, 200, "AUDIO", api.RightActive)
	p.copyRight(long, 200, "DOOH", api.RightRevoked)
	v.does("POST", "/run-demo", `{"eventCount":100,"seed":1}`)
	want := map[string]bool{}
	for _, r := range seed {
		want[r["id"].(string)] = true
	}
	require.Equal(t, want, played)
}
