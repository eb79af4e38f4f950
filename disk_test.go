package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/pipeline/segment"
)

func TestSecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	h := newService(t)
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
	t.Parallel()
	h := newService(t)
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
	verifyPacks(t, h.data, packs)
	sealed := ""
	for _, file := range packs {
		sealed += string(read(t, file))
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
	t.Parallel()
	h := newService(t)
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
	t.Parallel()
	h := newService(t)
	h.receipts(5)
	var second struct {
		Key    struct{ KeyID string }
		APIKey string
	}
	h.post("/v1/api-keys", map[string]any{"label": "second"}, &second)
	h.stop()
	putBack := h.keep("control.db")

	h.start()
	h.move("DOOH", "suspend")
	h.move("DOOH", "resume")
	h.move("CTV", "suspend")
	h.move("MOBILE", "suspend")
	h.move("MOBILE", "revoke")
	require.NoError(t, h.client.Do(t.Context(), "DELETE", "/v1/api-keys/"+second.Key.KeyID, nil, nil))
	h.awaitEvent("key.revoked") // what the relay has not written is lost with the database
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
	h.get("/v1/rights/"+h.rights["MOBILE"], &right)
	require.Equal(t, "REVOKED", right.Right.State)
	h.stop()
	require.Contains(t, h.systemEvents()["database.rollback_accepted"], `"reapplied":4`, "DOOH is as it was, by a new revision")
}

// TestOlderDatabaseOfANegotiation puts an older copy of the database beside a log that
// tells how offers, challenges and disputes ended: none of them ends once more.
func TestOlderDatabaseOfANegotiation(t *testing.T) {
	t.Parallel()
	h := newService(t)
	type record struct{ ID, State, DerivedRightID string }
	do := func(method, path string, body any) (record, error) {
		var a struct{ Offer, Challenge, Dispute record }
		err := h.client.Do(t.Context(), method, path, body, &a)
		return record{a.Offer.ID + a.Challenge.ID + a.Dispute.ID, a.Offer.State + a.Challenge.State + a.Dispute.State, a.Offer.DerivedRightID}, err
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
	disputed := "/v1/disputes/" + must("POST", "/v1/disputes", map[string]any{
		"rightId": h.rights["CTV"], "window": map[string]any{"from": "2026-11-01", "to": "2026-12-01"}, "reason": "never shown",
	}).ID
	h.stop()
	putBack := h.keep("control.db")

	h.start()
	derived := must("POST", accepted+"/accept", nil).DerivedRightID
	must("POST", rejected+"/reject", map[string]any{})
	must("POST", upheld+"/resolve", map[string]any{"upheld": true})
	must("POST", withdrawn+"/withdraw", map[string]any{})
	must("POST", disputed+"/resolve", map[string]any{"outcome": "UPHELD"})
	h.awaitEvent("dispute.resolved") // what the relay has not written is lost with the database
	h.server.Kill()
	putBack()
	require.Contains(t, h.refused(), "the database is older than the log")
	h.accepting()

	for path, state := range map[string]string{accepted: "ACCEPTED", rejected: "REJECTED", upheld: "UPHELD", withdrawn: "WITHDRAWN", disputed: "RESOLVED"} {
		require.Equal(t, state, must("GET", path, nil).State)
	}
	require.Equal(t, derived, must("GET", accepted, nil).DerivedRightID)
	for _, path := range []string{accepted + "/accept", rejected + "/accept", upheld + "/withdraw", withdrawn + "/resolve", disputed + "/investigate"} {
		_, err := do("POST", path, nil)
		require.ErrorContains(t, err, "STATE_CONFLICT", path)
	}
	status, answer := h.deliver(h.client.Key, "MOBILE")
	require.Equal(t, http.StatusConflict, status, answer)
	require.Equal(t, "ACCEPTED", must("POST", open+"/accept", nil).State, "it was not closed")
	packs := sealAndExport(t, h.client)
	h.stop()
	verifyPacks(t, h.data, packs)
	require.Contains(t, h.systemEvents()["database.rollback_accepted"], `"reapplied":6`)
}

// TestOlderDatabaseOfTheSandbox puts an older copy of the database beside a log that tells
// that the secret of the cookies was rotated, as it had leaked, and that a visitor is gone.
func TestOlderDatabaseOfTheSandbox(t *testing.T) {
	t.Parallel()
	h := newService(t)
	v, gone := &browser{t: t, url: h.server.API}, &browser{t: t, url: h.server.API}
	v.does("POST", "/tenant", "", &struct{}{})
	gone.does("POST", "/tenant", "", &struct{}{})
	h.stop()
	putBack := h.keep("control.db")

	h.start()
	gone.url = h.server.API
	gone.does("POST", "/reset", "", &struct{}{})
	muniment(t, "sandbox", "rotate-secret", "--data", h.data)
	h.move("CTV", "suspend")
	sealAndExport(t, h.client) // so all of it is in the log
	h.server.Kill()
	putBack()
	require.Contains(t, h.refused(), "the database is older than the log")
	h.accepting()

	v.url = h.server.API
	a := v.send("GET", "/tenant", "")
	require.Equal(t, 404, a.status, a.body)
	h.stop()
	require.Contains(t, h.systemEvents()["database.rollback_accepted"], `"reapplied":3`)
}

// TestWarehouseOfAnotherAge puts older copies beside one another in the other ways.
func TestWarehouseOfAnotherAge(t *testing.T) {
	t.Parallel()
	h := newService(t)
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

// TestMissingPack removes a sealed pack: delivering and sealing go on, and a request for the
// pack gets an error that says so.
func TestMissingPack(t *testing.T) {
	t.Parallel()
	h := newService(t)
	h.receipts(5)
	h.metered()
	var list struct{ Packs []struct{ ID string } }
	h.get("/v1/proof-packs", &list)
	require.Len(t, list.Packs, 1)
	files, err := filepath.Glob(filepath.Join(h.data, "packs", "*", "*.ndjson.zst"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	h.stop()
	require.NoError(t, os.Remove(files[0]))

	h.start()
	h.receipts(5)
	require.Equal(t, 10, h.metered())
	err = h.client.Download(t.Context(), "/v1/proof-packs/"+list.Packs[0].ID+"/bundle", filepath.Join(t.TempDir(), "pack"))
	require.ErrorContains(t, err, "500")
	until(t, func() bool { return strings.Contains(h.log(), "cannot open pack "+list.Packs[0].ID) })
}

// TestDamagedLogNamesTheNextStep: the error tells the operator what to do.
func TestDamagedLogNamesTheNextStep(t *testing.T) {
	t.Parallel()
	h := newService(t)
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
