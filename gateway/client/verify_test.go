package client

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/sealertest"
	"muniment.example/sealer/verify"
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
		{"format.unknown", bare, `"receipt":`, `"receipts":`},
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
		require.Equal(t, verify.VerdictOf(refused.Code), refused.Verdict(), err)
	}
	for _, text := range []string{"", "<html>", `{"receipts":[]}`} {
		_, err := VerifyReceipt([]byte(text), trust)
		var refused *VerifyError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, []string{"format.unknown", verify.VerdictUnjudged}, []string{string(refused.Code), refused.Verdict()}, text)
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
