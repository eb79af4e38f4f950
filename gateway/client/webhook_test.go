package client

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer/keydir"
	"muniment.example/sealer/sealertest"
)

// webhookVectors are requests to a webhook, for the clients in other languages as well.
type webhookVectors struct {
	// Root and Directory are what cases with Trust verify by.
	Root      string        `json:"root"`
	Directory string        `json:"directory"`
	Cases     []webhookCase `json:"cases"`
}

type webhookCase struct {
	Name      string            `json:"name"`
	Header    map[string]string `json:"header"`
	Body      string            `json:"body"`
	Now       int64             `json:"now"` // seconds since 1970
	Secrets   []string          `json:"secrets"`
	Trust     bool              `json:"trust"`
	WebhookID string            `json:"webhookId"`
	// Says is what the error says; empty if the request is genuine. WrongKeys: it is one of the keys.
	Says      string `json:"says"`
	WrongKeys bool   `json:"wrongKeys"`
}

// makeWebhookVectors makes the same ones every time.
func makeWebhookVectors(t *testing.T) webhookVectors {
	w := sealertest.NewWorld(t)
	signer := sealertest.PrivateKey("hooks")
	w.Keys = append(w.Keys, keydir.NewKey(sealertest.Public(signer), keydir.PurposeWebhook, sealertest.Epoch))
	v := webhookVectors{Root: w.VKey, Directory: string(w.Directory())}
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
	add := func(name, signature string, after time.Duration, body, says string, trusted bool, webhookID string, secrets ...string) {
		header := map[string]string{"webhook-id": "dlv_1", "webhook-timestamp": fmt.Sprint(now.Unix()), "webhook-signature": signature}
		v.Cases = append(v.Cases, webhookCase{name, header, body, now.Add(after).Unix(), append([]string{}, secrets...), trusted, webhookID, says, false})
	}
	add("the secret", both, 0, body, "", false, "", secret("new"))
	add("the one before", both, 0, body, "", false, "", secret("old"))
	add("one of several", v1("old"), 0, body, "", false, "", secret("new"), secret("old"))
	add("the service's key", both, 0, body, "", true, "whk_1")
	add("almost late", both, 5*time.Minute, body, "", false, "", secret("new"))
	add("late", both, 5*time.Minute+time.Second, body, "from now", false, "", secret("new"))
	add("early", both, -5*time.Minute-time.Second, body, "from now", false, "", secret("new"))
	add("another secret", both, 0, body, "no signature", false, "", secret("other"))
	add("another body", both, 0, body+" ", "no signature", true, "", secret("new"))
	add("v1a as v1", strings.Replace(v1a(signer), "v1a", "v1", 1), 0, body, "no signature", true, "", secret("new"))
	add("v1 where a key is trusted", v1("new"), 0, body, "no signature", true, "")
	add("a key for receipts", v1a(sealertest.PrivateKey("nod_a")), 0, body, "no signature", true, "")
	add("none", "", 0, body, "no signature", true, "")
	add("garbage", "v1,%%% v1 v1a,", 0, body, "no signature", true, "", secret("new"))
	add("a signature that is cut off", v1("new")[:20], 0, body, "no signature", false, "", secret("new"))
	add("another webhook's", both, 0, body, "webhook \"whk_1\"", true, "whk_2")
	add("no keys", both, 0, body, "cannot verify a webhook", false, "")
	v.Cases[len(v.Cases)-1].WrongKeys = true
	add("a secret in another form", both, 0, body, "whsec_", false, "", "new")
	v.Cases[len(v.Cases)-1].WrongKeys = true
	add("no header", both, 0, body, "no webhook-id", false, "", secret("new"))
	v.Cases[len(v.Cases)-1].Header = map[string]string{}
	return v
}

// TestVerifyWebhook: by either secret or the service's key, within five minutes, and by nothing else.
// MUNIMENT_UPDATE=1 makes testdata/webhooks.json anew, by which the other clients are tested.
func TestVerifyWebhook(t *testing.T) {
	v := makeWebhookVectors(t)
	text, err := json.MarshalIndent(v, "", " ")
	require.NoError(t, err)
	text = append(text, '\n')
	if os.Getenv("MUNIMENT_UPDATE") != "" {
		require.NoError(t, os.WriteFile("testdata/webhooks.json", text, 0o600))
	}
	kept, err := os.ReadFile("testdata/webhooks.json")
	require.NoError(t, err)
	require.Equal(t, string(text), string(kept))
	trust, err := NewTrust(v.Root, []byte(v.Directory))
	require.NoError(t, err)
	for _, c := range v.Cases {
		t.Run(c.Name, func(t *testing.T) {
			header := http.Header{}
			for name, value := range c.Header {
				header.Set(name, value)
			}
			keys := WebhookKeys{Secrets: c.Secrets, WebhookID: c.WebhookID}
			if c.Trust {
				keys.Trust = trust
			}
			got, err := VerifyWebhook(keys, header, []byte(c.Body), time.Unix(c.Now, 0))
			if c.Says != "" {
				require.ErrorContains(t, err, c.Says)
				require.Nil(t, got)
				if !c.WrongKeys {
					require.ErrorIs(t, err, ErrWebhook)
				}
				return
			}
			require.NoError(t, err)
			require.Equal(t, "whk_1", got.WebhookID)
			require.Equal(t, "dlv_1", got.ID)
			require.Equal(t, "right.revoked", got.Type)
			require.Equal(t, `{"v": 1}`, string(got.Events[0]), "verbatim")
		})
	}
}
