package service

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
)

// TestLogsHoldNoSecrets sends a service every kind of secret, in good requests and in refused
// ones, and looks for them, and for those that the service returns, in what it logs at debug
// level, through a kill and a stop.
func TestLogsHoldNoSecrets(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t, "--log-level", "debug", "--webhook-allow", "127.0.0.1")
	hidden := systemtest.Secrets{}
	h.Client.Key = hidden.Token("API key", systemtest.CreateTenant(t, h.Data, "--scope", "*").APIKey)
	h.Rights = systemtest.IssueRights(t, h.Client)
	w := newTeller(t, hidden, h.Client, h.Rights)
	w.deliveries()
	w.inBulk()
	w.ofWebhooks()
	w.ofCounterparties()
	w.ofPersons()
	w.ofApplicants(h.Data)
	var err error
	hidden["admin token"], err = h.Server.AdminToken()
	require.NoError(t, err)
	hidden.KeyFiles(t, h.Data)

	h.Server.Kill()
	h.Start()
	newTeller(t, hidden, h.Client, h.Rights).deliveries()
	h.Stop()
	require.Greater(t, hidden.Records(t, h.Data), 10)

	log := h.Log()
	require.Contains(t, log, "level=DEBUG")
	require.Contains(t, log, "muniment has stopped")
	hidden.Search(t, log)
	t.Logf("%d secrets, %d bytes of log", len(hidden), len(log))
}

// teller tells a service secrets.
type teller struct {
	t             *testing.T
	hidden        systemtest.Secrets
	client        system.Client
	rights        map[string]string
	bearer, round string
	statuses      map[int]bool // of its answers
}

func newTeller(t *testing.T, hidden systemtest.Secrets, client system.Client, rights map[string]string) *teller {
	return &teller{t: t, hidden: hidden, client: client, rights: rights, bearer: "Bearer " + client.Key, round: " " + rand.Text()[:4], statuses: map[int]bool{}}
}

func (w *teller) plant(what string) string { return w.hidden.Plant(what + w.round) }

// send sends a request, with secrets in two of its headers.
func (w *teller) send(method, path, key, body string, headers ...string) string {
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.client.API+path, strings.NewReader(body))
	require.NoError(w.t, err)
	req.Header.Set("Cookie", "svc_sandbox_tenant="+w.plant("cookie"))
	req.Header.Set("X-Planted", w.plant("header"))
	if key != "" {
		req.Header.Set("Authorization", key)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(w.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	w.statuses[resp.StatusCode] = true
	return string(text)
}

// telemetry has a secret in each text.
func (w *teller) telemetry(more string) string {
	return fmt.Sprintf(`{"beamId":%q,"coverageCellId":%q,"groundStationId":%q,"spectrumBand":%q,"bvlosWaiverId":%q,"vendor":{"gaze":%q},`+
		`"eyeTrackingConsent":true,"dwellInViewMs":%s%s}`, w.plant("beam"), w.plant("cell"), w.plant("station"), w.plant("band"), w.plant("waiver"),
		w.plant("extra telemetry"), "31415926.5358979", more)
}

// deliveries plants a secret wherever a caller can put one in a delivery, in a request that is
// refused, and in one that is none.
func (w *teller) deliveries() {
	t, client, rights, bearer, plant, send, telemetry := w.t, w.client, w.rights, w.bearer, w.plant, w.send, w.telemetry
	w.hidden["number in telemetry"] = "31415926.5358979"
	body := func(right, telemetry string) string {
		return fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":%q,"correlationId":%q,"dataSubjectId":%q,"dwellMs":4200,"telemetry":%s,%q:1}`,
			right, plant("anchor"), plant("correlation"), plant("data subject"), telemetry, plant("name of a member"))
	}
	for _, right := range rights {
		send("POST", "/v1/delivery", bearer, body(right, telemetry("")), "Idempotency-Key", plant("idempotency key"))
	}
	dooh := rights["DOOH"]
	require.NotEmpty(t, dooh)

	// What is refused, one way each.
	send("POST", "/v1/delivery", bearer, body(rights["AUTOMOTIVE"], telemetry(`,"speedMph":65`)))
	send("POST", "/v1/delivery", bearer, body(dooh, telemetry(`,"linkState":"`+plant("enum")+`"`)))
	send("POST", "/v1/delivery", bearer, body(plant("right"), telemetry("")))
	send("POST", "/v1/delivery", bearer, body(dooh, `"`+plant("broken JSON")))
	send("POST", "/v1/delivery", bearer, body(dooh, telemetry(""))+plant("behind JSON"))
	send("POST", "/v1/delivery", bearer, `{"x":"`+plant("large body")+strings.Repeat("x", 65<<10)+`"}`)
	send("POST", "/v1/delivery", bearer, "{}", "Idempotency-Key", "not one "+plant("bad idempotency key"))
	twice := plant("reused idempotency key")
	send("POST", "/v1/delivery", bearer, body(dooh, telemetry("")), "Idempotency-Key", twice)
	require.Contains(t, send("POST", "/v1/delivery", bearer, body(dooh, telemetry("")), "Idempotency-Key", twice), "STATE_CONFLICT")
	send("PUT", "/v1/delivery", bearer, plant("body of another method"))
	for _, path := range []string{"/v1/delivery", "/v1/rights", "/v1/bases"} {
		send("POST", path, "Bearer "+plant("no key"), plant("body"))
		send("POST", path, "Basic "+plant("password"), plant("body"))
		send("POST", path, plant("Authorization"), plant("body"))
		send("POST", path, "Bearer "+w.hidden.Token("unknown API key "+path+w.round, strings.Replace(client.Key, "_test_", "_live_", 1)), "{}")
		send("POST", path+"?api_key="+plant("query"), bearer, `{"kind":"`+plant("value")+`"}`)
		send("POST", path+"/"+plant("path"), bearer, "{}")
	}

	var made struct {
		APIKey string
		Key    struct{ KeyID string }
	}
	require.NoError(t, client.Do(t.Context(), "POST", "/v1/api-keys", map[string]any{"label": "x", "scopes": []string{"rights:read"}}, &made))
	reader := "Bearer " + w.hidden.Token("second API key"+w.round, made.APIKey)
	send("POST", "/v1/delivery", reader, body(dooh, telemetry("")))
	send("DELETE", "/v1/api-keys/"+made.Key.KeyID, bearer, "")
	send("GET", "/v1/rights", reader, "")
	send("POST", "/v1/proof-packs/seal", bearer, "")
	send("GET", "/v1/events", bearer, "")
	send("GET", "/v1/metering", bearer, "")
	for _, want := range []int{200, 400, 401, 403, 404, 405, 409, 412, 413, 422} {
		require.True(t, w.statuses[want], "nothing was answered %d", want)
	}

	// What no client library sends.
	for _, head := range []string{
		"Authorization: " + bearer + "\x01",
		"Authorization : " + bearer,
		"Authorization: " + bearer + "\r\n folded",
		"Authorization: " + bearer + "\r\nAuthorization: " + plant("second Authorization"),
		"Authorization: Bearer " + plant("key in a bomb") + strings.Repeat("x", 16<<10),
		"Cookie: " + plant("cookie in a bomb") + strings.Repeat("; a=b", 4<<10),
		"Authorization: " + bearer + "\r\nContent-Length: x" + plant("length"),
		"Authorization: " + bearer + "\r\nTransfer-Encoding: " + plant("coding"),
		"Authorization: " + bearer + strings.Repeat("\r\na: b", 200),
	} {
		conn, err := net.Dial("tcp", systemtest.HostPort(client.API))
		require.NoError(t, err)
		_, err = io.WriteString(conn, "POST /v1/delivery HTTP/1.1\r\nHost: "+plant("host")+"\r\n"+head+"\r\n\r\n"+plant("unread body")+"\r\n\r\n")
		require.NoError(t, err)
		answer, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		require.True(t, bytes.HasPrefix(answer, []byte("HTTP/1.1 4")), "%.200q", answer)
	}
}

// TestDemosLogHoldsNoSecrets searches what the server of the demo logs at debug level.
func TestDemosLogHoldsNoSecrets(t *testing.T) {
	t.Setenv("MUNIMENT_LOG_LEVEL", "debug")
	dir := filepath.Join(t.TempDir(), "demo")
	out, err := exec.CommandContext(t.Context(), "muniment", "demo", "--keep", dir, "--deliveries", "1000", "--clients", "16").CombinedOutput()
	require.NoError(t, err, string(out))
	data := filepath.Join(dir, "data")
	hidden := systemtest.Secrets{}
	hidden.KeyFiles(t, data)
	n := hidden.Records(t, data)
	require.Greater(t, n, 500)
	log, err := os.ReadFile(data + ".log")
	require.NoError(t, err)
	require.Contains(t, string(log), "muniment has stopped")
	hidden.Search(t, string(log))
	for _, word := range []string{"mun_test_", "Bearer", "Authorization", "Cookie", "beamId", "KA-14", "107W-", "speedMph", "salt"} {
		require.NotContains(t, string(log), word)
	}
	t.Logf("%d salts, %d bytes of log", n, len(log))
}
