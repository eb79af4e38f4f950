package client

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/gateway/api"
	"muniment/sealer"
	"muniment/sealer/sealertest"
)

// TestVerifyReceipt: one that is genuine, with its event and without, and what is changed of it.
func TestVerifyReceipt(t *testing.T) {
	w := sealertest.NewWorld(t)
	event := w.Delivery(1, "")
	parts, err := sealer.SplitDelivery(event)
	require.NoError(t, err)
	trust, err := NewTrust(w.VKey+"\n", append(w.Directory(), '\n'))
	require.NoError(t, err)
	bare := fmt.Sprintf(`{"signature": %s, "receipt": %s}`, parts.Signature, parts.Receipt)
	full := fmt.Sprintf(`{"ok":true,"data":{"receipt":%s,"signature":%s,"event":%s,"substrate":%s,"metering":%s,"position":"1.0.2"},"contractVersion":"v1.0"}`,
		parts.Receipt, parts.Signature, event, parts.Substrate, parts.Metering)
	got, err := VerifyReceipt([]byte(bare), trust)
	require.NoError(t, err)
	require.Nil(t, got.Delivery)
	require.False(t, got.Sandbox)
	got, err = VerifyReceipt([]byte(full), trust)
	require.NoError(t, err)
	require.Equal(t, w.Tenant, got.Delivery.Event.TenantID)

	var typed struct {
		Receipt   api.Receipt
		Signature api.Signature
	}
	require.NoError(t, json.Unmarshal([]byte(bare), &typed))
	again, err := VerifyReceipt(ReceiptFile(&typed.Receipt, &typed.Signature), trust)
	require.NoError(t, err)
	require.Equal(t, got.Receipt, again.Receipt, "no byte that is signed is lost in types")

	other := w.Delivery(2, "")
	for _, c := range []struct {
		code, text, from, to string
	}{
		{"signature.invalid", bare, `"dwellMs":`, `"dwellMs":1`},
		{"format.invalid", bare, `"receipt":`, `"receipts":`},
		{"format.invalid", bare, `"nonce":`, `"nonces":`},
		{"format.invalid", bare, `"ed25519"`, `"ed448"`},
		{"format.invalid", bare, `{"signature"`, `{"signature":1,"signature"`},
		{"key.unknown", bare, `"keyId":"`, `"keyId":"0`},
		{"entry.altered", full, string(event), string(other)},
		{"entry.altered", full, `"position"`, `"substrate":"NONE","position"`},
		{"witness.mismatch", full, w.Tenant, sealertest.TenantID("another")},
	} {
		text := strings.Replace(c.text, c.from, c.to, 1)
		if c.to == `"substrate":"NONE","position"` {
			text = strings.Replace(c.text, `"substrate":`+string(parts.Substrate)+`,"metering"`, `"substrate":"NONE","metering"`, 1)
		}
		require.NotEqual(t, c.text, text)
		_, err := VerifyReceipt([]byte(text), trust)
		var refused *VerifyError
		require.ErrorAs(t, err, &refused, c.to)
		require.Equal(t, c.code, string(refused.Code), err)
	}

	_, err = VerifyReceipt(fmt.Appendf(nil, `{"receipt":%s,"signature":%s,"event":%s}`, parts.Receipt, parts.Signature, other), trust)
	require.ErrorContains(t, err, "of another receipt")

	revoked := w.Now.Add(time.Hour)
	w.Key(typed.Signature.KeyID).RevokedAt = &revoked
	trust, err = NewTrust(w.VKey, w.Directory())
	require.NoError(t, err)
	_, err = VerifyReceipt([]byte(full), trust)
	require.ErrorContains(t, err, "key.revoked")

	_, stranger := sealertest.RootKey(t, "another.example")
	_, err = NewTrust(stranger, w.Directory())
	require.Error(t, err)
	_, err = NewTrust("", w.Directory())
	require.NoError(t, err)
}

// TestVerifyWebhook: by either secret or the service's key, within five minutes, and by nothing else.
func TestVerifyWebhook(t *testing.T) {
	w := sealertest.NewWorld(t)
	signer := sealertest.PrivateKey("hooks")
	w.Keys = append(w.Keys, sealer.NewKey(sealertest.Public(signer), sealer.PurposeWebhook, sealertest.Epoch))
	trust, err := NewTrust(w.VKey, w.Directory())
	require.NoError(t, err)
	secret := func(name string) string { return "whsec_" + base64.StdEncoding.EncodeToString([]byte(name)) }
	now := sealertest.Epoch.Add(time.Hour)
	const body = `{"type":"right.revoked","timestamp":"2026-05-01T13:00:00.000Z","tenantId":"tnt_1","webhookId":"whk_1","data":{"event":{"v": 1}}}`
	message := fmt.Sprintf("dlv_1.%d.%s", now.Unix(), body)
	v1 := func(name string) string {
		mac := hmac.New(sha256.New, []byte(name))
		mac.Write([]byte(message))
		return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	v1a := func(key ed25519.PrivateKey) string {
		return "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(key, []byte(message)))
	}
	both := v1("new") + " " + v1("old") + " " + v1a(signer)
	for _, c := range []struct {
		name, signature string
		keys            WebhookKeys
		after           time.Duration
		body            string
		says            string
	}{
		{"the secret", both, WebhookKeys{Secrets: []string{secret("new")}}, 0, body, ""},
		{"the one before", both, WebhookKeys{Secrets: []string{secret("old")}}, 0, body, ""},
		{"one of several", v1("old"), WebhookKeys{Secrets: []string{secret("new"), secret("old")}}, 0, body, ""},
		{"the service's key", both, WebhookKeys{Trust: trust, WebhookID: "whk_1"}, 0, body, ""},
		{"almost late", both, WebhookKeys{Secrets: []string{secret("new")}}, 5 * time.Minute, body, ""},
		{"late", both, WebhookKeys{Secrets: []string{secret("new")}}, 5*time.Minute + time.Second, body, "from now"},
		{"early", both, WebhookKeys{Secrets: []string{secret("new")}}, -5*time.Minute - time.Second, body, "from now"},
		{"another secret", both, WebhookKeys{Secrets: []string{secret("other")}}, 0, body, "no signature"},
		{"another body", both, WebhookKeys{Secrets: []string{secret("new")}, Trust: trust}, 0, body + " ", "no signature"},
		{"v1a as v1", strings.Replace(v1a(signer), "v1a", "v1", 1), WebhookKeys{Secrets: []string{secret("new")}, Trust: trust}, 0, body, "no signature"},
		{"v1 where a key is trusted", v1("new"), WebhookKeys{Trust: trust}, 0, body, "no signature"},
		{"a key for receipts", v1a(sealertest.PrivateKey("nod_a")), WebhookKeys{Trust: trust}, 0, body, "no signature"},
		{"none", "", WebhookKeys{Trust: trust}, 0, body, "no signature"},
		{"garbage", "v1,%%% v1 v1a,", WebhookKeys{Secrets: []string{secret("new")}, Trust: trust}, 0, body, "no signature"},
		{"another webhook's", both, WebhookKeys{Trust: trust, WebhookID: "whk_2"}, 0, body, `webhook "whk_1"`},
		{"no keys", both, WebhookKeys{}, 0, body, "neither Secrets nor Trust"},
		{"a secret in another form", both, WebhookKeys{Secrets: []string{"new"}}, 0, body, "whsec_"},
	} {
		t.Run(c.name, func(t *testing.T) {
			header := http.Header{}
			header.Set("webhook-id", "dlv_1")
			header.Set("webhook-timestamp", fmt.Sprint(now.Unix()))
			header.Set("webhook-signature", c.signature)
			got, err := VerifyWebhook(c.keys, header, []byte(c.body), now.Add(c.after))
			if c.says != "" {
				require.ErrorContains(t, err, c.says)
				require.Nil(t, got)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "whk_1", got.WebhookID)
			require.Equal(t, "dlv_1", got.ID)
			require.Equal(t, "right.revoked", got.Type)
			require.Equal(t, `{"v": 1}`, string(got.Events[0]), "verbatim")
		})
	}
	_, err = VerifyWebhook(WebhookKeys{Trust: trust}, http.Header{}, nil, now)
	require.ErrorIs(t, err, ErrWebhook)
}
