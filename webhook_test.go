package main

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
	"time"

	"github.com/stretchr/testify/require"

	"muniment/sealer"
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

// hookReceiver is a server that events are sent to.
type hookReceiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []hooked
	answer http.HandlerFunc // nil: 200
}

// hooked is what it has got.
type hooked struct {
	id, at, signature, body   string
	Type, TenantID, WebhookID string
	Data                      struct {
		Event  json.RawMessage
		Events []json.RawMessage
	}
}

func newHookReceiver(t *testing.T) *hookReceiver {
	r := &hookReceiver{}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		m := hooked{id: req.Header.Get("webhook-id"), at: req.Header.Get("webhook-timestamp"), signature: req.Header.Get("webhook-signature"), body: string(body)}
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

func (r *hookReceiver) messages() []hooked {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]hooked{}, r.got...)
}

// answers has messages from here on answered so; nil: by 200.
func (r *hookReceiver) answers(with http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = with
}

// verify checks a message as control/webhooks.md describes for receivers: by either of the secrets, and by the
// keys that the service publishes.
func (m *hooked) verify(t *testing.T, directory []byte, secrets ...string) {
	t.Helper()
	signed := []byte(m.id + "." + m.at + "." + m.body)
	good := map[string]int{}
	for _, signature := range strings.Fields(m.signature) {
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
			for _, k := range parse[struct {
				Keys []struct{ Purpose, PublicKey string }
			}](t, string(directory)).Keys {
				public, err := base64.RawURLEncoding.DecodeString(k.PublicKey)
				require.NoError(t, err)
				if k.Purpose == sealer.PurposeWebhook && ed25519.Verify(public, signed, value) {
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

// TestWebhookOfAService: an event is sent although the service is killed while it sends it, under
// the same id, and so is what happened while it was away. Each message is verified by what the
// service publishes, and holds nothing that is private or secret.
func TestWebhookOfAService(t *testing.T) {
	t.Parallel()
	s := newService(t, "--webhook-allow", "127.0.0.1")
	hooks(t, s, 1, func() { s.server.Kill() }, s.startAgain)
	require.Contains(t, s.log(), "muniment is ready")
}

// hooks runs the scenario on a number of processes that send, of which one is killed and started
// again.
func hooks(t *testing.T, s *service, processes int, kill, start func()) {
	r := newHookReceiver(t)
	var made struct {
		Secret  string
		Webhook struct{ ID string }
	}
	s.post("/v1/webhooks", map[string]any{"url": r.URL, "events": []string{"right.suspended", "right.resumed", "dsar.*", "delivery.recorded"}}, &made)
	path := "/v1/webhooks/" + made.Webhook.ID
	keys := func() []byte {
		return []byte(call(t, s.client.API, "", operation{method: "GET", path: "/.well-known/muniment/keys.json"}).body)
	}

	// A process has one attempt at hand of a receiver that has answered nothing yet.
	released := make(chan struct{})
	r.answers(func(_ http.ResponseWriter, req *http.Request) {
		select {
		case <-released:
		case <-req.Context().Done():
		}
	})
	actions := []string{"suspend", "resume"}
	for n := range processes {
		s.move("CTV", actions[n%2])
	}
	until(t, func() bool { return len(r.messages()) == processes }, "each process sends")
	kill()
	r.answers(nil)
	close(released)
	start()
	next := operation{method: "POST", path: "/v1/rights/" + s.rights["CTV"] + "/" + actions[processes%2], body: "{}"}
	until(t, func() bool {
		return call(t, s.client.API, s.client.Key, next, "Idempotency-Key", "moved").status == http.StatusOK
	}, "the service is back")
	events := func() map[string][]hooked { // by id
		got := map[string][]hooked{}
		for _, m := range r.messages() {
			got[m.id] = append(got[m.id], m)
		}
		return got
	}
	untilAtMost(t, 3*time.Minute, func() bool { return len(events()) == processes+1 && len(r.messages()) > processes+1 }, "what was being sent is sent again")
	for id, all := range events() {
		for _, m := range all {
			require.Equal(t, all[0].body, m.body, id)
			require.Equal(t, []string{s.tenant.TenantID, made.Webhook.ID}, []string{m.TenantID, m.WebhookID})
			e, err := sealer.ParseEvent(m.Data.Event)
			require.NoError(t, err)
			require.Equal(t, m.Type, e.Type)
			m.verify(t, keys(), made.Secret)
		}
	}

	// A rotation has both secrets sign. What names a person, and telemetry, is in no message.
	var rotated struct{ Secret string }
	s.post(path+"/rotate-secret", nil, &rotated)
	private := secrets{}
	for range 3 {
		s.post("/v1/delivery", map[string]any{
			"rightId": s.rights["DOOH"], "spatialAnchorId": "screen-7", "dwellMs": 8000, "dataSubjectId": private.plant("person"),
			"telemetry": map[string]any{"beamId": private.plant("telemetry")},
		}, nil)
	}
	var job struct{ Job exported }
	s.post("/v1/compliance/dsar", map[string]any{
		"scope": map[string]any{"kind": "DATA_SUBJECT", "dataSubjectId": private.plant("subject")}, "requestedBy": private.plant("who asks"), "requestNotes": private.plant("notes"),
	}, &job)
	s.post("/v1/compliance/dsar/"+job.Job.ID+"/cancel", map[string]any{"reason": private.plant("reason")}, nil)
	count := func() (receipts, exports int) {
		for _, all := range events() {
			receipts += len(all[0].Data.Events)
			if strings.HasPrefix(all[0].Type, "dsar.") {
				exports++
			}
		}
		return receipts, exports
	}
	untilAtMost(t, 3*time.Minute, func() bool { receipts, exports := count(); return receipts == 3 && exports == 2 }, "receipts and exports are sent")
	for _, m := range r.messages() {
		private.search(t, m.body)
		if len(m.Data.Events) > 0 || strings.HasPrefix(m.Type, "dsar.") {
			m.verify(t, keys(), made.Secret, rotated.Secret)
		}
	}
}
