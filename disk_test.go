package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/bench"
	"muniment/gateway/api"
	"muniment/pipeline/segment"
	"muniment/sealer"
)

// house is one data folder and whoever serves it.
type house struct {
	t      *testing.T
	exe    string
	data   string
	server *bench.Server
	client bench.Client
	rights map[string]string
}

// newHouse starts a server with a tenant and its rights.
func newHouse(t *testing.T) *house {
	h := &house{t: t, exe: muniment(t), data: filepath.Join(t.TempDir(), "data")}
	h.start()
	h.client.Key = createTenant(t, h.exe, h.data).APIKey
	h.rights = issueRights(t, h.client)
	return h
}

func (h *house) start(flags ...string) {
	h.t.Helper()
	h.server = startServer(h.t, h.exe, h.data, flags...)
	h.client.API = h.server.API
}

func (h *house) stop() {
	h.t.Helper()
	require.NoError(h.t, h.server.Stop())
}

// refused starts a server that has to end by itself, and returns what it said.
func (h *house) refused(args ...string) string {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.exe, append([]string{"up", "--data", h.data, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)...)
	out, err := cmd.CombinedOutput()
	require.NoError(h.t, ctx.Err(), "it serves: %s", out)
	require.Error(h.t, err, string(out))
	require.NotContains(h.t, string(out), "goroutine", "a refusal is no crash")
	return string(out)
}

// deliver posts one delivery and returns status and answer.
func (h *house) deliver(key, substrate string) (int, string) {
	h.t.Helper()
	body := fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":4200}`, h.rights[substrate])
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.client.API+"/v1/delivery", strings.NewReader(body))
	require.NoError(h.t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(h.t, err)
	defer resp.Body.Close()
	var answer json.RawMessage
	require.NoError(h.t, json.NewDecoder(resp.Body).Decode(&answer))
	return resp.StatusCode, string(answer)
}

// receipts posts deliveries that must be acknowledged, and returns their ids.
func (h *house) receipts(n int) (ids []string) {
	h.t.Helper()
	for range n {
		status, answer := h.deliver(h.client.Key, "DOOH")
		require.Equal(h.t, http.StatusOK, status, answer)
		ids = append(ids, receiptID(h.t, answer))
	}
	return ids
}

func receiptID(t *testing.T, answer string) string {
	t.Helper()
	var said struct {
		Data struct{ Receipt struct{ ReceiptID string } }
	}
	require.NoError(t, json.Unmarshal([]byte(answer), &said))
	require.NotEmpty(t, said.Data.Receipt.ReceiptID)
	return said.Data.Receipt.ReceiptID
}

// metered seals, so that all is loaded, and counts the tenant's receipts.
func (h *house) metered() int {
	h.t.Helper()
	h.seal()
	var metering struct{ Totals struct{ Receipts int } }
	require.NoError(h.t, h.client.Do(h.t.Context(), "GET", "/v1/metering", nil, &metering))
	return metering.Totals.Receipts
}

// seal seals, however long the loader takes to catch up.
func (h *house) seal() {
	h.t.Helper()
	seal(h.t, h.client, nil)
}

// seal seals a tenant's events. Whom the loader keeps waiting is told to try again.
func seal(t *testing.T, client bench.Client, sealed any) {
	t.Helper()
	var err error
	require.Eventually(t, func() bool {
		err = client.Do(t.Context(), "POST", "/v1/proof-packs/seal", map[string]any{}, sealed)
		return err == nil || !strings.Contains(err.Error(), "answered 503")
	}, 5*time.Minute, 50*time.Millisecond)
	require.NoError(t, err)
}

// keep copies a file or folder of the stopped house, and returns how to put the
// copy back into the place of what is there then.
func (h *house) keep(name string) (putBack func()) {
	h.t.Helper()
	from, kept := filepath.Join(h.data, name), filepath.Join(h.t.TempDir(), name)
	copyAll(h.t, from, kept)
	return func() {
		h.t.Helper()
		for _, suffix := range []string{"", "-wal", "-shm"} {
			require.NoError(h.t, os.RemoveAll(from+suffix))
		}
		copyAll(h.t, kept, from)
	}
}

func copyAll(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	require.NoError(t, err)
	if info.IsDir() {
		require.NoError(t, os.CopyFS(to, os.DirFS(from)))
		return
	}
	text, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, text, 0o600))
}

// systemEvents are the events of the system's tenant in the log, by type.
func (h *house) systemEvents() map[string]string {
	h.t.Helper()
	log, err := segment.OpenReader(filepath.Join(h.data, "log"))
	require.NoError(h.t, err)
	defer log.Close()
	first, end, err := log.Bounds(h.t.Context(), 0)
	require.NoError(h.t, err)
	found := map[string]string{}
	require.NoError(h.t, log.Scan(h.t.Context(), first, end, func(e sealer.Entry) error {
		if e.TenantID != api.SystemTenant {
			return nil
		}
		event, err := sealer.ParseEvent(e.Event)
		found[event.Type] = string(event.Data)
		return err
	}))
	return found
}

// log is what the server has logged.
func (h *house) log() string {
	h.t.Helper()
	text, err := os.ReadFile(h.data + ".log")
	require.NoError(h.t, err)
	return string(text)
}

const acceptRollback = "--accept-rollback"

// accepting starts the server with the flag; later starts go without.
func (h *house) accepting() {
	h.t.Helper()
	h.start(acceptRollback)
}

func TestSecondProcessIsRefused(t *testing.T) {
	h := newHouse(t)
	said := h.refused()
	require.Contains(t, said, "the data folder is in use: "+h.data)
	require.Contains(t, said, fmt.Sprintf("by process %d", h.server.PID()))
	h.receipts(1)

	// However the first one ends, the folder is free.
	h.server.Kill()
	h.start()
	h.receipts(1)
}

// TestOlderLog puts an older copy of the log beside a newer database.
func TestOlderLog(t *testing.T) {
	h := newHouse(t)
	h.receipts(30)
	require.Equal(t, 30, h.metered())
	h.stop()
	putBack := h.keep("log")
	h.start()
	lost := h.receipts(20)
	require.Equal(t, 50, h.metered())
	h.stop()
	putBack()

	for range 2 { // refusing changes nothing
		said := h.refused()
		require.Contains(t, said, segment.ErrRollback.Error())
		require.Contains(t, said, acceptRollback)
	}
	h.accepting()
	require.Equal(t, 50, h.metered(), "what was loaded stays, though the log lost it")
	h.receipts(20)
	require.Equal(t, 70, h.metered())
	packs := sealAndExport(t, h.client)
	h.stop()
	verifyPacks(t, h.exe, h.data, packs)
	sealed := ""
	for _, file := range packs {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		sealed += string(text)
	}
	for _, id := range lost {
		require.Equal(t, 1, strings.Count(sealed, `"receiptId":"`+id+`"`))
	}
	require.Regexp(t, `"continuedAt":"2\.0\.\d+","endedAt":"1\.0\.\d+"`, h.systemEvents()["log.rollback_accepted"])

	// It was accepted once; from then on nothing is amiss, nor is the flag's use.
	h.start()
	h.receipts(1)
	h.stop()
	h.accepting()
	require.Equal(t, 71, h.metered())
}

// TestLostLog starts with a database and no log at all.
func TestLostLog(t *testing.T) {
	h := newHouse(t)
	h.receipts(5)
	require.Equal(t, 5, h.metered())
	h.stop()
	require.NoError(t, os.RemoveAll(filepath.Join(h.data, "log")))
	require.Contains(t, h.refused(), "it is empty")
	h.accepting()
	h.receipts(5)
	require.Equal(t, 10, h.metered())
}

// TestOlderDatabase puts an older copy of the database beside a newer log. What was
// stopped meanwhile must not come back to life.
func TestOlderDatabase(t *testing.T) {
	h := newHouse(t)
	h.receipts(5)
	var second struct {
		Key    struct{ KeyID string }
		APIKey string
	}
	require.NoError(t, h.client.Do(t.Context(), "POST", "/v1/api-keys", map[string]any{"label": "second"}, &second))
	h.stop()
	putBack := h.keep("control.db")

	h.start()
	act := func(substrate, action string) {
		t.Helper()
		require.NoError(t, h.client.Do(t.Context(), "POST", "/v1/rights/"+h.rights[substrate]+"/"+action, map[string]any{}, nil))
	}
	act("DOOH", "suspend")
	act("DOOH", "resume")
	act("CTV", "suspend")
	act("MOBILE", "suspend")
	act("MOBILE", "revoke")
	require.NoError(t, h.client.Do(t.Context(), "DELETE", "/v1/api-keys/"+second.Key.KeyID, nil, nil))
	require.Eventually(t, func() bool { // what the relay has not written is lost with the database
		var list struct{ Events []json.RawMessage }
		err := h.client.Do(t.Context(), "GET", "/v1/events?type=key.revoked", nil, &list)
		return err == nil && len(list.Events) == 1
	}, time.Minute, 5*time.Millisecond)
	h.receipts(5)
	h.server.Kill()
	putBack()

	for range 2 {
		said := h.refused()
		require.Contains(t, said, "the database is older than the log")
		require.Contains(t, said, acceptRollback)
	}
	h.accepting()
	for round := range 2 {
		h.receipts(5) // DOOH was resumed
		for _, substrate := range []string{"CTV", "MOBILE"} {
			status, answer := h.deliver(h.client.Key, substrate)
			require.Equal(t, http.StatusConflict, status, answer)
		}
		status, answer := h.deliver(second.APIKey, "DOOH")
		require.Equal(t, http.StatusUnauthorized, status, answer)
		require.Equal(t, 15+5*round, h.metered())
		h.stop()
		h.start()
	}
	var right struct{ Right struct{ State string } }
	require.NoError(t, h.client.Do(t.Context(), "GET", "/v1/rights/"+h.rights["MOBILE"], nil, &right))
	require.Equal(t, "REVOKED", right.Right.State)
	h.stop()
	require.Contains(t, h.systemEvents()["database.rollback_accepted"], `"reapplied":4`, "DOOH is as it was, by a new revision")
}

// TestOlderDatabaseOfANegotiation puts an older copy of the database beside a log that
// tells how offers and challenges ended: none of them ends once more.
func TestOlderDatabaseOfANegotiation(t *testing.T) {
	h := newHouse(t)
	type record struct{ ID, State, DerivedRightID string }
	do := func(method, path string, body any) (record, error) {
		var a struct{ Offer, Challenge record }
		err := h.client.Do(t.Context(), method, path, body, &a)
		return record{a.Offer.ID + a.Challenge.ID, a.Offer.State + a.Challenge.State, a.Offer.DerivedRightID}, err
	}
	must := func(method, path string, body any) record {
		t.Helper()
		r, err := do(method, path, body)
		require.NoError(t, err)
		return r
	}
	propose := func() string {
		return "/v1/offers/" + must("POST", "/v1/offers", map[string]any{"rightId": h.rights["DOOH"], "toOrgId": "org_b", "scope": map[string]any{}}).ID
	}
	accepted, rejected, open := propose(), propose(), propose()
	challenge := func(substrate string) string {
		return "/v1/challenges/" + must("POST", "/v1/challenges", map[string]any{"rightId": h.rights[substrate], "challengerOrgId": "org_c", "reason": "ours"}).ID
	}
	upheld, withdrawn := challenge("MOBILE"), challenge("CTV")
	h.stop()
	putBack := h.keep("control.db")

	h.start()
	derived := must("POST", accepted+"/accept", nil).DerivedRightID
	must("POST", rejected+"/reject", map[string]any{})
	must("POST", upheld+"/resolve", map[string]any{"upheld": true})
	must("POST", withdrawn+"/withdraw", map[string]any{})
	require.Eventually(t, func() bool { // what the relay has not written is lost with the database
		var list struct{ Events []json.RawMessage }
		err := h.client.Do(t.Context(), "GET", "/v1/events?type=challenge.withdrawn", nil, &list)
		return err == nil && len(list.Events) == 1
	}, time.Minute, 5*time.Millisecond)
	h.server.Kill()
	putBack()
	require.Contains(t, h.refused(), "the database is older than the log")
	h.accepting()

	for path, state := range map[string]string{accepted: "ACCEPTED", rejected: "REJECTED", upheld: "UPHELD", withdrawn: "WITHDRAWN"} {
		require.Equal(t, state, must("GET", path, nil).State)
	}
	require.Equal(t, derived, must("GET", accepted, nil).DerivedRightID)
	for _, path := range []string{accepted + "/accept", rejected + "/accept", upheld + "/withdraw", withdrawn + "/resolve"} {
		_, err := do("POST", path, nil)
		require.ErrorContains(t, err, "STATE_CONFLICT", path)
	}
	status, answer := h.deliver(h.client.Key, "MOBILE")
	require.Equal(t, http.StatusConflict, status, answer)
	require.Equal(t, "ACCEPTED", must("POST", open+"/accept", nil).State, "nobody had closed it")
	packs := sealAndExport(t, h.client)
	h.stop()
	verifyPacks(t, h.exe, h.data, packs)
	require.Contains(t, h.systemEvents()["database.rollback_accepted"], `"reapplied":5`)
}

// TestOlderDatabaseOfTheSandbox puts an older copy of the database beside a log that tells
// that the secret of the cookies was rotated, as it had leaked, and that a visitor is gone.
func TestOlderDatabaseOfTheSandbox(t *testing.T) {
	h := newHouse(t)
	v, gone := &browser{t: t, server: h.server}, &browser{t: t, server: h.server}
	v.does("POST", "/tenant", "", &struct{}{})
	gone.does("POST", "/tenant", "", &struct{}{})
	h.stop()
	putBack := h.keep("control.db")

	h.start()
	gone.server = h.server
	gone.does("POST", "/reset", "", &struct{}{})
	out, err := exec.Command(h.exe, "sandbox", "rotate-secret", "--data", h.data).CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, h.client.Do(t.Context(), "POST", "/v1/rights/"+h.rights["CTV"]+"/suspend", map[string]any{}, nil))
	sealAndExport(t, h.client) // so all of it is in the log
	h.server.Kill()
	putBack()
	require.Contains(t, h.refused(), "the database is older than the log")
	h.accepting()

	a := call(t, h.server.API, "", operation{method: "GET", path: "/api/sandbox/tenant"}, "Cookie", v.cookie)
	require.Equal(t, 404, a.status, a.body)
	h.stop()
	require.Contains(t, h.systemEvents()["database.rollback_accepted"], `"reapplied":3`)
}

// TestWarehouseOfAnotherAge puts older copies beside one another in the other ways.
func TestWarehouseOfAnotherAge(t *testing.T) {
	h := newHouse(t)
	h.receipts(10)
	require.Equal(t, 10, h.metered())
	h.stop()
	older := map[string]func(){}
	for _, name := range []string{"warehouse.db", "control.db", "log"} {
		older[name] = h.keep(name)
	}
	h.start()
	h.receipts(10)
	require.Equal(t, 20, h.metered())
	h.stop()

	// An older warehouse, or none, just catches up.
	older["warehouse.db"]()
	h.start()
	require.Equal(t, 20, h.metered())
	h.stop()
	require.NoError(t, os.Remove(filepath.Join(h.data, "warehouse.db")))
	h.start()
	require.Equal(t, 20, h.metered())
	h.stop()

	// A newer one proves that log and database, which agree, are both older.
	older["control.db"]()
	older["log"]()
	require.Contains(t, h.refused(), acceptRollback)
	h.accepting()
	h.receipts(10)
	require.Equal(t, 30, h.metered())
}

// TestMissingPack takes a sealed pack away: nobody is kept from delivering and
// sealing, and whoever asks for it is told.
func TestMissingPack(t *testing.T) {
	h := newHouse(t)
	h.receipts(5)
	h.metered()
	var list struct{ Packs []struct{ ID string } }
	require.NoError(t, h.client.Do(t.Context(), "GET", "/v1/proof-packs", nil, &list))
	require.Len(t, list.Packs, 1)
	files, err := filepath.Glob(filepath.Join(h.data, "packs", "*", "*.ndjson"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	h.stop()
	require.NoError(t, os.Remove(files[0]))

	h.start()
	h.receipts(5)
	require.Equal(t, 10, h.metered())
	err = h.client.Download(t.Context(), "/v1/proof-packs/"+list.Packs[0].ID+"/bundle", filepath.Join(t.TempDir(), "pack"))
	require.ErrorContains(t, err, "500")
	require.Eventually(t, func() bool { return strings.Contains(h.log(), "cannot open pack "+list.Packs[0].ID) }, time.Minute, time.Millisecond)
}

// TestKeepIsBounded: a retention that would break idempotent retries is no setting.
func TestKeepIsBounded(t *testing.T) {
	h := &house{t: t, exe: muniment(t), data: filepath.Join(t.TempDir(), "data")}
	require.Contains(t, h.refused("--keep", "24h"), "--keep must be at least 25h0m0s")
	require.NoDirExists(t, h.data)
}

// TestDamagedLogNamesTheNextStep: whoever is woken by it reads what to do.
func TestDamagedLogNamesTheNextStep(t *testing.T) {
	h := newHouse(t)
	h.receipts(20)
	h.stop()
	files, err := filepath.Glob(filepath.Join(h.data, "log", "*.seg"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	text := read(t, files[0])
	text[4096] ^= 1 // most of the file is room for more
	require.NoError(t, os.WriteFile(files[0], text, 0o600))
	said := h.refused()
	require.Contains(t, said, "log is damaged: "+filepath.Base(files[0])+" at byte ")
	require.Contains(t, said, "Put the named file of "+filepath.Join(h.data, "log")+" back from a copy, or restore a backup")
}
