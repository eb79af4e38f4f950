package faults

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/pipeline/segment"
)

func TestSecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t)
	said := h.Refused()
	require.Contains(t, said, "the data folder is in use: "+h.Data)
	require.Contains(t, said, fmt.Sprintf("by process %d", h.Server.PID()))
	h.Receipts(1)

	// However the first one ends, the folder is free.
	h.Server.Kill()
	h.Start()
	h.Receipts(1)
}

// TestOlderLog puts an older copy of the log beside a newer database.
func TestOlderLog(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t)
	h.Receipts(30)
	require.Equal(t, 30, h.Metered())
	h.Stop()
	putBack := h.Keep("log")
	h.Start()
	lost := h.Receipts(20)
	require.Equal(t, 50, h.Metered())
	h.Stop()
	putBack()

	for range 2 { // refusing changes nothing
		said := h.Refused()
		require.Contains(t, said, segment.ErrRollback.Error())
		require.Contains(t, said, systemtest.AcceptRollback)
	}
	h.Accepting()
	require.Equal(t, 50, h.Metered(), "what was loaded stays, though the log lost it")
	h.Receipts(20)
	require.Equal(t, 70, h.Metered())
	packs := systemtest.SealAndExport(t, h.Client)
	h.Stop()
	systemtest.VerifyPacks(t, h.Data, packs)
	sealed := ""
	for _, file := range packs {
		sealed += string(systemtest.ReadFile(t, file))
	}
	for _, id := range lost {
		require.Equal(t, 1, strings.Count(sealed, `"receiptId":"`+id+`"`))
	}
	require.Regexp(t, `"continuedAt":"2\.0\.\d+","endedAt":"1\.0\.\d+"`, h.SystemEvents()["log.rollback_accepted"])

	// It was accepted once; from then on nothing is amiss, nor is the flag's use.
	h.Start()
	h.Receipts(1)
	h.Stop()
	h.Accepting()
	require.Equal(t, 71, h.Metered())
}

// TestLostLog starts with a database and no log at all.
func TestLostLog(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t)
	h.Receipts(5)
	require.Equal(t, 5, h.Metered())
	h.Stop()
	require.NoError(t, os.RemoveAll(filepath.Join(h.Data, "log")))
	require.Contains(t, h.Refused(), "it is empty")
	h.Accepting()
	h.Receipts(5)
	require.Equal(t, 10, h.Metered())
}

// TestOlderDatabase puts an older copy of the database beside a newer log. What was
// stopped meanwhile must not come back to life.
func TestOlderDatabase(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t)
	h.Receipts(5)
	var second struct {
		Key    struct{ KeyID string }
		APIKey string
	}
	h.Post("/v1/api-keys", map[string]any{"label": "second"}, &second)
	h.Stop()
	putBack := h.Keep("control.db")

	h.Start()
	h.Move("DOOH", "suspend")
	h.Move("DOOH", "resume")
	h.Move("CTV", "suspend")
	h.Move("MOBILE", "suspend")
	h.Move("MOBILE", "revoke")
	require.NoError(t, h.Client.Do(t.Context(), "DELETE", "/v1/api-keys/"+second.Key.KeyID, nil, nil))
	h.AwaitEvent("key.revoked") // what the relay has not written is lost with the database
	h.Receipts(5)
	h.Server.Kill()
	putBack()

	for range 2 {
		said := h.Refused()
		require.Contains(t, said, "the database is older than the log")
		require.Contains(t, said, systemtest.AcceptRollback)
	}
	h.Accepting()
	for round := range 2 {
		h.Receipts(5) // DOOH was resumed
		for _, substrate := range []string{"CTV", "MOBILE"} {
			status, answer := h.Deliver(h.Client.Key, substrate)
			require.Equal(t, http.StatusConflict, status, answer)
		}
		status, answer := h.Deliver(second.APIKey, "DOOH")
		require.Equal(t, http.StatusUnauthorized, status, answer)
		require.Equal(t, 15+5*round, h.Metered())
		h.Stop()
		h.Start()
	}
	var right struct{ Right struct{ State string } }
	h.Get("/v1/rights/"+h.Rights["MOBILE"], &right)
	require.Equal(t, "REVOKED", right.Right.State)
	h.Stop()
	require.Contains(t, h.SystemEvents()["database.rollback_accepted"], `"reapplied":7`, "four rights and keys by a new revision, as DOOH is as it was; and three suspensions: a resumption stops nothing")
}

// TestOlderDatabaseOfANegotiation puts an older copy of the database beside a log that
// tells how offers, challenges and disputes ended: none of them ends once more.
func TestOlderDatabaseOfANegotiation(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t)
	type record struct{ ID, State, DerivedRightID string }
	do := func(method, path string, body any) (record, error) {
		var a struct{ Offer, Challenge, Dispute record }
		err := h.Client.Do(t.Context(), method, path, body, &a)
		return record{a.Offer.ID + a.Challenge.ID + a.Dispute.ID, a.Offer.State + a.Challenge.State + a.Dispute.State, a.Offer.DerivedRightID}, err
	}
	must := func(method, path string, body any) record {
		t.Helper()
		r, err := do(method, path, body)
		require.NoError(t, err)
		return r
	}
	propose := func() string {
		return "/v1/offers/" + must("POST", "/v1/offers", map[string]any{"rightId": h.Rights["DOOH"], "toOrgId": "org_b", "scope": map[string]any{}}).ID
	}
	accepted, rejected, open := propose(), propose(), propose()
	challenge := func(substrate string) string {
		return "/v1/challenges/" + must("POST", "/v1/challenges", map[string]any{"rightId": h.Rights[substrate], "challengerOrgId": "org_c", "reason": "ours"}).ID
	}
	upheld, withdrawn := challenge("MOBILE"), challenge("CTV")
	disputed := "/v1/disputes/" + must("POST", "/v1/disputes", map[string]any{
		"rightId": h.Rights["CTV"], "window": map[string]any{"from": "2026-11-01", "to": "2026-12-01"}, "reason": "never shown",
	}).ID
	h.Stop()
	putBack := h.Keep("control.db")

	h.Start()
	derived := must("POST", accepted+"/accept", nil).DerivedRightID
	must("POST", rejected+"/reject", map[string]any{})
	must("POST", upheld+"/resolve", map[string]any{"upheld": true})
	must("POST", withdrawn+"/withdraw", map[string]any{})
	must("POST", disputed+"/resolve", map[string]any{"outcome": "UPHELD"})
	h.AwaitEvent("dispute.resolved") // what the relay has not written is lost with the database
	h.Server.Kill()
	putBack()
	require.Contains(t, h.Refused(), "the database is older than the log")
	h.Accepting()

	for path, state := range map[string]string{accepted: "ACCEPTED", rejected: "REJECTED", upheld: "UPHELD", withdrawn: "WITHDRAWN", disputed: "RESOLVED"} {
		require.Equal(t, state, must("GET", path, nil).State)
	}
	require.Equal(t, derived, must("GET", accepted, nil).DerivedRightID)
	for _, path := range []string{accepted + "/accept", rejected + "/accept", upheld + "/withdraw", withdrawn + "/resolve", disputed + "/investigate"} {
		_, err := do("POST", path, nil)
		require.ErrorContains(t, err, "STATE_CONFLICT", path)
	}
	status, answer := h.Deliver(h.Client.Key, "MOBILE")
	require.Equal(t, http.StatusConflict, status, answer)
	require.Equal(t, "ACCEPTED", must("POST", open+"/accept", nil).State, "it was not closed")
	packs := systemtest.SealAndExport(t, h.Client)
	h.Stop()
	systemtest.VerifyPacks(t, h.Data, packs)
	require.Contains(t, h.SystemEvents()["database.rollback_accepted"], `"reapplied":6`)
}

// TestOlderDatabaseOfTheSandbox puts an older copy of the database beside a log that tells
// that the secret of the cookies was rotated, as it had leaked, and that a visitor is gone.
func TestOlderDatabaseOfTheSandbox(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t)
	v, gone := &systemtest.Browser{T: t, URL: h.Server.API}, &systemtest.Browser{T: t, URL: h.Server.API}
	v.Does("POST", "/tenant", "", &struct{}{})
	gone.Does("POST", "/tenant", "", &struct{}{})
	h.Stop()
	putBack := h.Keep("control.db")

	h.Start()
	gone.URL = h.Server.API
	gone.Does("POST", "/reset", "", &struct{}{})
	systemtest.Command(t, "sandbox", "rotate-secret", "--data", h.Data)
	h.Move("CTV", "suspend")
	systemtest.SealAndExport(t, h.Client) // so all of it is in the log
	h.Server.Kill()
	putBack()
	require.Contains(t, h.Refused(), "the database is older than the log")
	h.Accepting()

	v.URL = h.Server.API
	a := v.Send("GET", "/tenant", "")
	require.Equal(t, 404, a.Status, a.Body)
	systemtest.SealAndExport(t, h.Client) // so all of it is in the log
	h.Stop()
	require.Contains(t, h.SystemEvents()["database.rollback_accepted"], `"reapplied":4`, "the suspension counts as such, and by what it led to")
}

// TestWarehouseOfAnotherAge puts older copies beside one another in the other ways.
func TestWarehouseOfAnotherAge(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t)
	h.Receipts(10)
	require.Equal(t, 10, h.Metered())
	h.Stop()
	older := map[string]func(){}
	for _, name := range []string{"warehouse.db", "control.db", "log"} {
		older[name] = h.Keep(name)
	}
	h.Start()
	h.Receipts(10)
	require.Equal(t, 20, h.Metered())
	h.Stop()

	// An older warehouse, or none, just catches up.
	older["warehouse.db"]()
	h.Start()
	require.Equal(t, 20, h.Metered())
	h.Stop()
	require.NoError(t, os.Remove(filepath.Join(h.Data, "warehouse.db")))
	h.Start()
	require.Equal(t, 20, h.Metered())
	h.Stop()

	// A newer one proves that log and database, which agree, are both older.
	older["control.db"]()
	older["log"]()
	require.Contains(t, h.Refused(), systemtest.AcceptRollback)
	h.Accepting()
	h.Receipts(10)
	require.Equal(t, 30, h.Metered())
}

// TestMissingPack removes a sealed pack: delivering and sealing go on, and a request for the
// pack gets an error that says so.
func TestMissingPack(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t)
	h.Receipts(5)
	h.Metered()
	var list struct{ Packs []struct{ ID string } }
	h.Get("/v1/proof-packs", &list)
	require.Len(t, list.Packs, 1)
	files, err := filepath.Glob(filepath.Join(h.Data, "packs", "*", "*.ndjson.zst"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	h.Stop()
	require.NoError(t, os.Remove(files[0]))

	h.Start()
	h.Receipts(5)
	require.Equal(t, 10, h.Metered())
	err = h.Client.Download(t.Context(), "/v1/proof-packs/"+list.Packs[0].ID+"/bundle", filepath.Join(t.TempDir(), "pack"))
	require.ErrorContains(t, err, "500")
	waittest.Until(t, func() bool { return strings.Contains(h.Log(), "cannot open pack "+list.Packs[0].ID) })
}

// TestDamagedLogNamesTheNextStep: the error tells the operator what to do.
func TestDamagedLogNamesTheNextStep(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t)
	h.Receipts(20)
	h.Stop()
	files, err := filepath.Glob(filepath.Join(h.Data, "log", "*.seg"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	text := systemtest.ReadFile(t, files[0])
	text[4096] ^= 1 // most of the file is room for more
	require.NoError(t, os.WriteFile(files[0], text, 0o600))
	said := h.Refused()
	require.Contains(t, said, "log is damaged: "+filepath.Base(files[0])+" at byte ")
	require.Contains(t, said, "Put the named file of "+filepath.Join(h.Data, "log")+" back from a copy, or restore a backup")
}
