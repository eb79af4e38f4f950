package systemtest

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer/keydir"
)

// trustReceivers has all services that are started trust hookReceivers: no test has one that the
// system's roots matter to.
func trustReceivers() (file string, err error) {
	f, err := os.CreateTemp("", "muniment-receivers")
	if err != nil {
		return "", err
	}
	server := httptest.NewTLSServer(nil) // whose certificate all of them have
	defer server.Close()
	if err := pem.Encode(f, &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}); err != nil {
		return "", err
	}
	return f.Name(), os.Setenv("SSL_CERT_FILE", f.Name())
}

// HookReceiver is a server that events are sent to.
type HookReceiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []Hooked
	answer http.HandlerFunc // nil: 200
}

// Hooked is what it has got.
type Hooked struct {
	Id, At, Signature, Body   string
	Type, TenantID, WebhookID string
	Data                      struct {
		Event  json.RawMessage
		Events []json.RawMessage
	}
}

func NewHookReceiver(t *testing.T) *HookReceiver {
	r := &HookReceiver{}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		m := Hooked{Id: req.Header.Get("webhook-id"), At: req.Header.Get("webhook-timestamp"), Signature: req.Header.Get("webhook-signature"), Body: string(body)}
		_ = json.Unmarshal(body, &m)
		r.mu.Lock()
		r.got = append(r.got, m)
		answer := r.answer
		r.mu.Unlock()
		if answer != nil {
			answer(w, req)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *HookReceiver) Messages() []Hooked {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Hooked{}, r.got...)
}

// Answers has messages from here on answered so; nil: by 200.
func (r *HookReceiver) Answers(with http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = with
}

// Verify checks a message as control/webhooks.md describes for receivers: by either of the secrets, and by the
// keys that the service publishes.
func (m *Hooked) Verify(t *testing.T, directory []byte, secrets ...string) {
	t.Helper()
	signed := []byte(m.Id + "." + m.At + "." + m.Body)
	good := map[string]int{}
	for _, signature := range strings.Fields(m.Signature) {
		kind, text, _ := strings.Cut(signature, ",")
		value, err := base64.StdEncoding.DecodeString(text)
		require.NoError(t, err)
		switch kind {
		case "v1":
			for _, secret := range secrets {
				key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
				require.NoError(t, err)
				mac := hmac.New(sha256.New, key)
				mac.Write(signed)
				if hmac.Equal(mac.Sum(nil), value) {
					good[secret]++
				}
			}
		case "v1a":
			for _, k := range Parse[struct {
				Keys []struct{ Purpose, PublicKey string }
			}](t, string(directory)).Keys {
				public, err := base64.RawURLEncoding.DecodeString(k.PublicKey)
				require.NoError(t, err)
				if k.Purpose == keydir.PurposeWebhook && ed25519.Verify(public, signed, value) {
					good["v1a"]++
				}
			}
		}
	}
	want := map[string]int{"v1a": 1}
	for _, secret := range secrets {
		want[secret] = 1
	}
	require.Equal(t, want, good)
}
