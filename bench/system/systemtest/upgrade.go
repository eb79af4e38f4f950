package systemtest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
)

// Left is beside the data folder of a release: what its users hold, and what its service answered
// last.
type Left struct {
	Tenant   TenantKey
	OldKey   string            // an API key that was revoked
	Rights   map[string]string // by substrate; that of CTV was revoked
	Receipts map[string]string // with signature and event, by id
	Packs    map[string]string // SHA-256 of each bundle, by id
	Mapping  string            // of the vendor acme's screen 7
	Webhook  string            // is paused
	Endpoint string            // its URL
	Offer    string            // is open
	// Statement was issued; SHA-256 of what was signed.
	Statement, StatementSHA string
	Totals                  json.RawMessage // of metering
}

// UpgradeFrom holds the data folders of releases.
const UpgradeFrom = "bench/service/testdata/upgrade"

// Finds checks that everything is there.
func (s *Service) Finds(was *Left) {
	t := s.T
	t.Helper()
	for id, receipt := range was.Receipts {
		require.Equal(t, receipt, s.receipt(id))
		s.Get("/v1/receipts/"+id+"/proof", nil)
	}
	require.Equal(t, was.Packs, s.packSums())
	require.JSONEq(t, string(was.Totals), string(s.totals()))

	var mappings struct{ Mappings []struct{ ID, State string } }
	s.Get("/v1/delivery/mappings", &mappings)
	require.Contains(t, mappings.Mappings, struct{ ID, State string }{was.Mapping, "ACTIVE"})
	var webhook struct{ Webhook struct{ URL, State string } }
	s.Get("/v1/webhooks/"+was.Webhook, &webhook)
	require.Equal(t, struct{ URL, State string }{was.Endpoint, "PAUSED"}, webhook.Webhook)
	var offer struct{ Offer struct{ State string } }
	s.Get("/v1/offers/"+was.Offer, &offer)
	require.Contains(t, []string{"PROPOSED", "EXPIRED"}, offer.Offer.State, "it may have expired since")
	var statement struct{ Statement Stated }
	s.Get("/v1/settlement/statements/"+was.Statement, &statement)
	require.Equal(t, "ISSUED", statement.Statement.State)
	require.Equal(t, was.StatementSHA, s.sum("/v1/settlement/statements/"+was.Statement+"?format=signed"))

	status, answer := s.Deliver(s.Client.Key, "CTV")
	require.Equal(t, http.StatusConflict, status, answer)
	status, answer = s.Deliver(was.OldKey, "DOOH")
	require.Equal(t, http.StatusUnauthorized, status, answer)
}

// GoesOnFrom delivers once more, by a right and by a mapping, and verifies all packs with the
// receipts and the statement of the release.
func (s *Service) GoesOnFrom(was *Left) {
	t := s.T
	t.Helper()
	s.Receipts(1)
	row := map[string]any{"rowId": "after", "vendor": "acme", "idType": "screen", "vendorId": "7", "playedAt": time.Now().UTC().Format(time.RFC3339), "dwellMs": 1500}
	var answer struct{ Counts struct{ Accepted int } }
	s.Post("/v1/delivery/ingest-batch", map[string]any{"rows": []any{row}}, &answer)
	require.Equal(t, 1, answer.Counts.Accepted)
	packs := SealAndExport(t, s.Client)
	require.Len(t, packs, len(was.Packs)+1)
	signed := filepath.Join(t.TempDir(), "issued.json")
	require.NoError(t, s.Client.Download(t.Context(), "/v1/settlement/statements/"+was.Statement+"?format=signed", signed))
	files := append(packs, signed)
	for id, receipt := range was.Receipts {
		files = append(files, filepath.Join(t.TempDir(), id+".json"))
		require.NoError(t, os.WriteFile(files[len(files)-1], []byte(receipt), 0o600))
	}
	said := Command(t, append([]string{"verify", "--root", filepath.Join(s.Data, "keys", "root.vkey")}, files...)...)
	require.Contains(t, said, "statement.ok")
	require.NotContains(t, said, ".unproven")
}

// receipt returns a receipt with its signature and event, as a file that verify accepts.
func (s *Service) receipt(id string) string {
	s.T.Helper()
	var found struct{ Receipt, Signature, Event json.RawMessage }
	s.Get("/v1/receipts/"+id, &found)
	return fmt.Sprintf(`{"receipt":%s,"signature":%s,"event":%s}`, found.Receipt, found.Signature, found.Event)
}

// sum returns the SHA-256 of a download.
func (s *Service) sum(path string) string {
	s.T.Helper()
	file := filepath.Join(s.T.TempDir(), "file")
	require.NoError(s.T, s.Client.Download(s.T.Context(), path, file))
	sum := sha256.Sum256(ReadFile(s.T, file))
	return hex.EncodeToString(sum[:])
}

func (s *Service) packSums() map[string]string {
	s.T.Helper()
	var list struct{ Packs []struct{ ID string } }
	s.Get("/v1/proof-packs?limit=500", &list)
	sums := map[string]string{}
	for _, p := range list.Packs {
		sums[p.ID] = s.sum("/v1/proof-packs/" + p.ID + "/bundle")
	}
	return sums
}

func (s *Service) totals() json.RawMessage {
	s.T.Helper()
	var metering struct{ Totals json.RawMessage }
	s.Get("/v1/metering", &metering)
	return metering.Totals
}

// Leaves has the service do a little of everything.
func (s *Service) Leaves() Left {
	t := s.T
	was := Left{Tenant: s.Tenant, Rights: s.Rights, Receipts: map[string]string{}, Endpoint: "https://receiver.example/hooks"}
	receipts := s.Receipts(5)
	signing := Current(t, s.Data, "receipt_signing")
	Command(t, "signing-key", "rotate", "--data", s.Data, signing)
	waittest.Until(t, func() bool { return Current(t, s.Data, "receipt_signing") != signing })
	receipts = append(receipts, s.Receipts(5)...)
	was.OldKey = strings.TrimSpace(Command(t, "key", "create", "--data", s.Data, "--tenant", s.Tenant.TenantID, "--label", "old", "--scope", "delivery:write", "--key-only"))
	Command(t, "key", "revoke", "--data", s.Data, "key_"+strings.Split(was.OldKey, "_")[2])

	var mapping struct{ Mapping struct{ ID string } }
	s.Post("/v1/delivery/mappings", map[string]any{"vendor": "acme", "idType": "screen", "vendorId": "7", "effectiveFrom": "2026-01-01T00:00:00Z",
		"target": map[string]any{"rightId": s.Rights["DOOH"], "spatialAnchorId": "screen-7"}}, &mapping)
	was.Mapping = mapping.Mapping.ID
	var webhook struct{ Webhook struct{ ID string } }
	s.Post("/v1/webhooks", map[string]any{"url": was.Endpoint, "events": []string{"challenge.*"}}, &webhook)
	was.Webhook = webhook.Webhook.ID
	require.NoError(t, s.Client.Do(t.Context(), http.MethodPatch, "/v1/webhooks/"+was.Webhook, map[string]any{"state": "PAUSED"}, nil))
	var offer struct{ Offer struct{ ID string } }
	s.Post("/v1/offers", map[string]any{"rightId": s.Rights["DOOH"], "toOrgId": "org_other", "scope": map[string]any{}}, &offer)
	was.Offer = offer.Offer.ID

	to := time.Now().Add(-time.Hour).Truncate(time.Second)
	from := to.Add(-4 * 24 * time.Hour)
	s.RegisterRules(from)
	s.PlayRows(rand.New(rand.NewPCG(1, 2)), 50, from, to)
	s.Seal()
	statement := s.Draft(PeriodOf(from, to))
	s.Post("/v1/settlement/statements/"+statement.ID+"/issue", nil, nil)
	was.Statement, was.StatementSHA = statement.ID, s.sum("/v1/settlement/statements/"+statement.ID+"?format=signed")
	s.Move("CTV", "revoke")
	s.Seal()
	was.Packs, was.Totals = s.packSums(), s.totals()
	for _, id := range receipts {
		was.Receipts[id] = s.receipt(id)
	}
	return was
}
