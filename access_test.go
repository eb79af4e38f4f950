package main

import (
	"bytes"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"muniment/bench/system"
	"muniment/control/access"
	"muniment/gateway/api"
)

// applicant applies for a key, and is who runs the service, too.
type applicant struct {
	t         *testing.T
	url, data string
}

func (a applicant) post(path, body string) string {
	a.t.Helper()
	return call(a.t, a.url, "", operation{method: "POST", path: "/api/access" + path, body: body}, "X-Forwarded-For", anyAddress()).body
}

// approved has an address apply, and approves that once it is there.
func (a applicant) approved(email string) (id string) {
	a.t.Helper()
	require.Contains(a.t, a.post("/apply", fmt.Sprintf(`{"email":%q,"organisation":"Example Ltd","use":"Trying it out"}`, email)), "RECEIVED")
	until(a.t, func() bool {
		for _, one := range a.list() {
			if one.Email == email {
				id = one.ID
			}
		}
		return id != ""
	}, "the application is there")
	require.Contains(a.t, muniment(a.t, "access", "approve", "--data", a.data, id), id+" is approved")
	return id
}

func (a applicant) list() []access.Listed {
	a.t.Helper()
	return parse[struct{ Applications []access.Listed }](a.t, muniment(a.t, "access", "list", "--data", a.data, "--json")).Applications
}

// written is the token of a mail in the outbox.
func (a applicant) written(id string) (token string) {
	a.t.Helper()
	until(a.t, func() bool {
		text, err := os.ReadFile(filepath.Join(a.data, "outbox", id+".eml"))
		if found := activationToken.FindSubmatch(text); err == nil && found != nil {
			token = string(found[1])
		}
		return token != ""
	}, "the mail is written")
	return token
}

var activationToken = regexp.MustCompile(`/playground#activate=([\w-]{43})\s`)

// mailbox is a mail server that takes everything.
type mailbox struct {
	mu      sync.Mutex
	letters []string
}

// openMailbox starts it, and returns its address.
func openMailbox(t *testing.T) (*mailbox, string) {
	t.Helper()
	m := new(mailbox)
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return delivering{m}, nil }))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = listener.Close() // Serve may not have begun, and would miss Close
		_ = server.Close()
		<-ended
	})
	return m, listener.Addr().String()
}

type delivering struct{ *mailbox }

func (delivering) Mail(string, *smtp.MailOptions) error { return nil }
func (delivering) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (delivering) Reset()                               {}
func (delivering) Logout() error                        { return nil }

func (d delivering) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.letters = append(d.letters, string(text))
	return err
}

// token is that of the one mail that has come.
func (m *mailbox) token(t *testing.T, to, link string) string {
	t.Helper()
	until(t, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.letters) > 0
	}, "the mail is there")
	letter, err := mail.ReadMessage(bytes.NewBufferString(m.letters[0]))
	require.NoError(t, err)
	require.Equal(t, "<"+to+">", letter.Header.Get("To"))
	text, err := io.ReadAll(quotedprintable.NewReader(letter.Body))
	require.NoError(t, err)
	require.Contains(t, string(text), link+"/playground#activate=")
	return string(activationToken.FindSubmatch(text)[1])
}

// TestAccessOfAService is the whole story: a stranger applies, an operator approves, the mail comes,
// and its link leads to a key by which a delivery is receipted, under a key of the sandbox.
func TestAccessOfAService(t *testing.T) {
	t.Parallel()
	box, address := openMailbox(t)
	s := newService(t, "--mail-smtp", address, "--mail-from", "Muniment <keys@muniment.example>", "--mail-tls", "none", "--public-url", "https://muniment.example/", "--seal-every", "100ms")
	client, rights := testAccess(t, applicant{t, s.client.API, s.data}, box)
	testBatches(t, client, rights["DOOH"], true)
	delivers := func(body string) response {
		return call(t, client.API, client.Key, operation{method: "POST", path: "/v1/delivery", body: body}, "Idempotency-Key", "play-1")
	}
	first, again := delivers(delivery(rights["DOOH"])), delivers(delivery(rights["DOOH"]))
	require.Equal(t, 200, first.status, first.body)
	require.Equal(t, first.body, again.body)
	require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
	require.Equal(t, 409, delivers(delivery(rights["CTV"])).status, "another body")
	require.Equal(t, 422, call(t, client.API, client.Key, operation{method: "POST", path: "/v1/delivery", body: `{}`}).status)
	receipt := parse[struct{ Data api.Delivered }](t, first.body).Data.Receipt.ReceiptID
	until(t, func() bool {
		return call(t, client.API, client.Key, operation{method: "GET", path: "/v1/receipts/" + receipt + "/proof"}).status == 200
	}, "it is sealed without a request")
	log := s.log()
	require.NotContains(t, log, "ada@example.org")
	require.NotContains(t, log, "Example Ltd")
}

// TestAccessOnTheStack tells it of two gateways and two control processes, which share the limits.
func TestAccessOnTheStack(t *testing.T) {
	box, address := openMailbox(t)
	for name, value := range map[string]string{"SMTP": address, "FROM": "keys@muniment.example", "TLS": "none"} {
		t.Setenv("MUNIMENT_MAIL_"+name, value)
	}
	t.Setenv("MUNIMENT_PUBLIC_URL", "https://muniment.example")
	s, _ := scaledOut(t)
	client, rights := testAccess(t, applicant{t, s.client.API, s.data}, box)
	testBatches(t, client, rights["DOOH"], false)
}

func testAccess(t *testing.T, a applicant, box *mailbox) (client system.Client, rights map[string]string) {
	id := a.approved("ada@example.org")
	token := box.token(t, "ada@example.org", "https://muniment.example")
	until(t, func() bool { return a.list()[0].Mail.State == access.MailSent }, "it is noted that it was sent")
	made := parse[struct{ Data access.Key }](t, a.post("/activate", fmt.Sprintf(`{"token":%q}`, token))).Data
	require.True(t, strings.HasPrefix(made.APIKey, "mun_test_"))
	require.Contains(t, a.post("/activate", fmt.Sprintf(`{"token":%q}`, token)), "RESOURCE_NOT_FOUND: the activation token is not known")
	one := a.list()[0]
	require.Equal(t, id, one.ID)
	require.Equal(t, access.Activated, one.State)
	require.Equal(t, made.TenantID, *one.ActivatedTenantID)

	client = system.Client{API: a.url, Key: made.APIKey}
	rights = issueRights(t, client)
	receipt := call(t, a.url, made.APIKey, operation{method: "POST", path: "/v1/delivery", body: delivery(rights["DOOH"])})
	require.Equal(t, 200, receipt.status, receipt.body)
	signed := parse[struct {
		Data struct{ Signature struct{ KeyID string } }
	}](t, receipt.body).Data.Signature.KeyID
	requireSandboxed(t, a.url, signed)
	require.Contains(t, muniment(t, "tenant", "list", "--data", a.data), made.TenantID)
	return client, rights
}

// testBatches has the holder of a key of the sandbox send rows, some of which wait for a mapping. Of
// several control processes each knows the deliveries of its own node: what comes again may be
// accepted again, and counts once.
func testBatches(t *testing.T, client system.Client, right string, oneNode bool) {
	played := time.Now().Add(-time.Second).UTC().Format(time.RFC3339Nano)
	rows := []map[string]any{
		{"rowId": "1", "playedAt": played, "dwellMs": 8000, "rightId": right, "spatialAnchorId": "screen-1"},
		{"rowId": "1", "playedAt": played, "dwellMs": 8000, "rightId": right, "spatialAnchorId": "screen-1"},
		{"rowId": "2", "playedAt": played, "dwellMs": -1, "rightId": right, "spatialAnchorId": "screen-1"},
		{"rowId": "3", "playedAt": played, "dwellMs": 8000, "idType": "player", "vendorId": "9"},
		{"rowId": "3", "playedAt": played, "dwellMs": 8000, "idType": "player", "vendorId": "9"},
	}
	send := func() (statuses []string, all api.Ingested) {
		require.NoError(t, client.Do(t.Context(), "POST", "/v1/delivery/ingest-batch", map[string]any{"vendor": "acme", "rows": rows}, &all))
		for _, r := range all.Results {
			statuses = append(statuses, r.Status)
		}
		return statuses, all
	}
	got, all := send()
	require.Equal(t, []string{"accepted", "duplicate", "rejected", "unmapped", "duplicate"}, got)
	requireSandboxed(t, client.API, all.Results[0].Signature.KeyID)
	require.Equal(t, all.Results[0].Receipt, all.Results[1].Receipt)
	require.Equal(t, "dwellMs", all.Results[2].Error.Field)
	require.Equal(t, all.Results[3].HeldID, all.Results[4].HeldID)
	beacon := call(t, client.API, client.Key, operation{method: "POST", path: "/v1/delivery/beacons", body: fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","expiresAt":%q,"maxReceiptsPerHour":9}`,
		right, time.Now().Add(time.Hour).Format(time.RFC3339))})
	require.Equal(t, 409, beacon.status, beacon.body)
	got, again := send()
	if !oneNode && got[0] == "accepted" {
		got[0] = "duplicate"
	}
	require.Equal(t, []string{"duplicate", "duplicate", "rejected", "unmapped", "duplicate"}, got)
	require.Equal(t, all.Results[3].HeldID, again.Results[3].HeldID)

	require.NoError(t, client.Do(t.Context(), "POST", "/v1/delivery/mappings", map[string]any{
		"vendor": "acme", "idType": "player", "vendorId": "9", "effectiveFrom": "2026-01-01T00:00:00Z",
		"target": map[string]any{"rightId": right, "spatialAnchorId": "screen-9"},
	}, nil))
	var list struct {
		Held []struct{ State, ReceiptID string }
	}
	until(t, func() bool {
		require.NoError(t, client.Do(t.Context(), "GET", "/v1/delivery/held", nil, &list))
		return list.Held[0].State == "REPLAYED"
	}, "the row that was held is delivered")
	got, again = send()
	if !oneNode {
		require.Contains(t, []string{"accepted", "duplicate"}, got[3])
		return
	}
	require.Equal(t, "duplicate", got[3])
	require.Equal(t, list.Held[0].ReceiptID, again.Results[3].Receipt.ReceiptID)
}

// requireSandboxed requires that a key is of the sandbox.
func requireSandboxed(t *testing.T, url, keyID string) {
	t.Helper()
	keys := call(t, url, "", operation{method: "GET", path: "/api/sandbox/runtime-keys"}, "X-Forwarded-For", anyAddress())
	require.Contains(t, keys.body, keyID, "a key of the sandbox has signed")
}
